"""What an optimization says, whole or cut off, and that a test split which was not locked is noticed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.optimize.written import OWN, A, B, record, write_test
from tests.sealing import reseal
from whichloop.experiments.compare.results import results
from whichloop.experiments.optimize.candidates import ENDED, PROGRAM, ROLLOUTS, JsonLinesLog, log_digest
from whichloop.experiments.optimize.config import AGAIN
from whichloop.experiments.optimize.doc import optimize_doc
from whichloop.experiments.optimize.result import optimization_result
from whichloop.metrics.record import Record
from whichloop.runs.folders import TEST, is_optimization, trials_folder
from whichloop.runs.store.files import RunError, read_manifest_json, write_manifest_json
from whichloop.runs.store.trials import TrialWriter
from whichloop.text.doc import to_markdown


def test_equal_scores_are_adopted_where_they_cost_less_and_a_failed_optimizer_never_is(write):
    reasons = []
    for tokens, spread, status in ((90, 0, "finished"), (190, 0, "finished"), (180, 180, "finished"), (90, 0, "failed")):
        folder = write(replace(A, before=60, after=60, changes={"status": status}), margin=0.2, after_tokens=tokens, spread=spread)
        reasons.append(optimization_result(folder).designs[0].advice)
        shutil.rmtree(folder)
    assert reasons == ["adopt: cheaper", "keep: equivalent", "keep: equivalent", "keep: failed"]


def test_an_invalid_test_has_no_verdict(write):
    faults = [
        {"kind": "tool.slow", "point": f"decide:c{n}", "landed": False, "absorbed": False, "recovered": False} for n in range(3)
    ]
    folder = write(A, tasks=0)
    with TrialWriter(folder / TEST) as journal:
        for arm in ("bare/clean", f"bare@{PROGRAM}/clean"):
            journal.append(Record.from_json(record(arm, 1, 9).to_json() | {"faults": faults}), b"")
    found = optimization_result(folder)
    assert results(folder / TEST).comparison.invalid
    assert found.to_json()["invalid"] is True
    facts = optimize_doc(found).facts
    assert facts["Invalid"] == ["no verdict of this test holds"]
    assert not {"Adopt", "Keep", "Highest"} & facts.keys()


def test_a_whole_optimization_by_the_names_that_scripts_read(write):
    found = optimization_result(write(A, B))
    assert (found.is_complete, found.state, found.invalid) == (True, "", False)
    made = found.to_json()
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    top = {"run", "digest", "complete", "state", "invalid", "optimizer", "budget", "splits", "designs", "ranking", "test"}
    assert made.keys() == top
    bare, finish = made["designs"]
    names = {"design", "status", "reason", "program", "digest", "unchanged", "candidates", "chosen", "dev", "test", "optimism"}
    assert bare.keys() == names | {"cost", "warnings", "optimism_interval", "advice", "again", "noise", "programs"}
    assert (bare["design"], bare["status"], bare["candidates"], bare["chosen"]) == ("bare", "finished", 2, 3)
    assert bare["dev"] == {"before": 0.0, "after": 0.5, "gain": 0.5, "tasks": 2}
    assert (bare["test"]["difference"]["value"], bare["test"]["verdict"]) == (pytest.approx(0.5), "better")
    assert (finish["test"]["verdict"], bare["advice"], finish["advice"]) == ("undecided", "adopt: better", "keep: undecided")
    assert (bare["optimism"], finish["optimism"]) == (pytest.approx(0.0), pytest.approx(0.5 - 2 / 60))
    assert bare["cost"]["search"] == {"trials": 20, "calls": 60, "tokens": 6_000, "cost_usd": None}
    assert bare["cost"]["per_task_before"] == {"calls": 2.0, "tokens": 200.0, "cost_usd": None}
    assert bare["cost"].keys() == {"search", "proposals", "evaluation", "per_task_before", "per_task_after"}
    assert (bare["again"]["value"], bare["noise"]["value"]) == (pytest.approx(19 / 60), pytest.approx(-1 / 60))
    assert (made["ranking"]["top_changed"], made["ranking"]["change"]) == (True, "crossed")
    assert made["test"].keys() >= {"arms", "pairs", "digest", "complete"}


def test_the_digest_depends_on_programs_and_records(write, tmp_path):
    digests = []
    for number, first in enumerate((A, A, replace(A, instructions="Other."), replace(A, after=49))):
        digests.append(optimization_result(write(first, B)).digest)
        (tmp_path / "run").rename(tmp_path / f"run {number}")
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_a_search_that_goes_on(write):
    folder = write(A, B)
    changed(folder, lambda made: made["splits"]["test"].update(opened=None))
    for name in (TEST, AGAIN):
        shutil.rmtree(folder / name)
    (folder / "designs/2-finish" / ENDED).unlink()
    found = optimization_result(folder)
    assert found.state == "incomplete: 1 of 2 designs are not optimized yet, the test split is locked"
    assert [design.status for design in found.designs] == ["finished", "not ended"]
    made = found.to_json()
    assert (made["ranking"], made["test"], made["designs"][1]["dev"], made["designs"][0]["dev"]["gain"]) == (None, None, None, 0.5)
    shown = optimize_doc(found)
    assert not {"Adopt", "Keep", "Highest"} & shown.facts.keys()
    assert found.state in to_markdown(shown)


def test_a_test_that_goes_on_gives_no_advice_and_a_second_run_of_the_old_prompts_changes_none(write):
    found = optimization_result(folder := write(A, B, tasks=30))
    assert (found.state, found.is_complete) == ("incomplete: 120 of 240 trials of the test split", False)
    assert found.gains is not None
    assert [design.advice for design in found.designs] == ["", ""]
    shutil.rmtree(folder)
    shutil.rmtree(write(A) / AGAIN)
    design = optimization_result(folder).designs[0]
    assert (design.advice, design.noise) == ("adopt: better", None)
    write_test(folder / AGAIN, (A,), tasks=20)
    found = optimization_result(folder)
    assert found.state == "incomplete: 20 of 60 trials of the second run of the old prompts"
    assert found.designs[0].advice == "adopt: better"
    assert is_optimization(folder)
    assert trials_folder(folder) == trials_folder(folder / TEST) == folder / TEST
    assert not is_optimization(folder / TEST)


BARE = "designs/1-bare"


def changed(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    made = read_manifest_json(folder)
    change(made)
    write_manifest_json(folder, made)


def rolled_out(folder: Path, *key: Any) -> None:
    log = JsonLinesLog(folder / BARE / ROLLOUTS)
    log.append({"key": [OWN, *key]})
    log.close()


def shown_a_test_task(folder: Path) -> None:
    rolled_out(folder, "t5", 0, None)
    digest = log_digest(folder / BARE / ROLLOUTS)
    changed(folder, lambda made: made["splits"]["test"]["opened"]["rollouts"].update(bare=digest))


def rewritten(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    reseal(path)


OTHER = "ran another program than the test split was opened for"
BREACHES: list[tuple[str, Callable[[Path], Any]]] = [
    ("it has the seed of the first run", lambda run: changed(run / AGAIN, lambda made: made.update(seed=0))),
    ("not the old prompts once more", lambda run: changed(run / AGAIN, lambda made: made["arms"][0].update(program=A.digest))),
    ("changed since the test split was opened", lambda run: rolled_out(run, "d1", 7, None)),
    ("was shown task 't5' of the test split", shown_a_test_task),
    ("does not say that it was opened", lambda run: changed(run, lambda made: made["splits"]["test"].update(opened=None))),
    ("not the program that the test split was opened for", lambda run: rewritten(run / BARE / PROGRAM, "Better", "Changed")),
    ("opened for other programs", lambda run: rewritten(run / BARE / ENDED, A.digest, "0" * 64)),
    ("opened for other programs", lambda run: (run / BARE / ENDED).unlink()),
    (OTHER, lambda run: changed(run / TEST, lambda made: made["arms"][1].update(program="0" * 64))),
    (OTHER, lambda run: changed(run / TEST, lambda made: made["arms"][0].update(program=A.digest))),
    (
        "3 arms for 1 designs",
        lambda run: changed(run / TEST, lambda made: made["arms"].append({**made["arms"][0], "arm": "third"})),
    ),
    *((r"ended\.json", lambda run, text=text: (run / BARE / ENDED).write_text(text)) for text in ("", '{"design": 1}')),
]


@pytest.mark.parametrize(("said", "breach"), BREACHES)
def test_a_breach_of_the_lock_is_told_in_one_line(write, said, breach):
    folder = write(A)
    assert optimization_result(folder).is_complete
    breach(folder)
    with pytest.raises(RunError, match=said) as told:
        optimization_result(folder)
    assert str(folder) in str(told.value)
    assert "\n" not in str(told.value)
