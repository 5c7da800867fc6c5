"""What an optimization says, whole or cut off, and that a test split which was not locked is noticed."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.experiments.optimize.written import OWN, A, B, record, write_test
from tests.sealing import reseal
from whichloop.experiments.compare.results import results
from whichloop.experiments.optimize.candidates import ENDED, PROGRAM, ROLLOUTS, JsonLinesLog, SearchCost, log_digest
from whichloop.experiments.optimize.config import AGAIN
from whichloop.experiments.optimize.doc import gains_table, optimize_doc, programs_table
from whichloop.experiments.optimize.result import optimization_result
from whichloop.metrics.record import Record
from whichloop.runs.folders import TEST, is_optimization, trials_folder
from whichloop.runs.store.files import RunError, read_manifest_json, write_manifest_json
from whichloop.runs.store.trials import TrialWriter
from whichloop.text.doc import Table, to_markdown

# A whole one.


def test_a_whole_optimization(write):
    found = optimization_result(write(A, B))
    assert (found.is_complete, found.state, found.invalid) == (True, "", False)
    bare, finish = found.to_json()["designs"]
    assert (bare["design"], bare["status"], bare["candidates"], bare["chosen"]) == ("bare", "finished", 2, 3)
    assert bare["dev"] == {"before": 0.0, "after": 0.5, "gain": 0.5, "tasks": 2}
    assert (bare["test"]["difference"]["value"], bare["test"]["verdict"]) == (pytest.approx(0.5), "better")
    assert finish["test"]["verdict"] == "undecided"
    assert bare["optimism"] == pytest.approx(0.0)
    assert finish["optimism"] == pytest.approx(0.5 - 2 / 60)
    assert bare["cost"]["search"] == {"trials": 20, "calls": 60, "tokens": 6_000, "cost_usd": None}
    assert bare["cost"]["per_task_before"] == {"calls": 2.0, "tokens": 200.0, "cost_usd": None}
    assert bare["again"]["value"] == pytest.approx(19 / 60)
    assert bare["noise"]["value"] == pytest.approx(-1 / 60)


def test_the_names_that_scripts_read_are_there(write):
    made = optimization_result(write(A, B)).to_json()
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    top = {"run", "digest", "complete", "state", "invalid", "optimizer", "budget", "splits", "designs", "ranking", "test"}
    assert made.keys() == top
    names = {"design", "status", "reason", "program", "digest", "unchanged", "candidates", "chosen", "dev", "test", "optimism"}
    assert made["designs"][0].keys() == names | {"cost", "warnings", "optimism_interval", "advice", "again", "noise", "programs"}
    costs = {"search", "proposals", "evaluation", "per_task_before", "per_task_after"}
    assert made["designs"][0]["cost"].keys() == costs
    assert {"before", "after", "top_changed", "change", "interaction"} <= made["ranking"].keys()
    assert made["test"].keys() >= {"arms", "pairs", "digest", "complete"}


def test_the_ranking_turns_around(write):
    found = optimization_result(write(A, B))
    ranking = found.to_json()["ranking"]
    assert [item["design"] for item in ranking["before"]] == ["finish", "bare"]
    assert [item["design"] for item in ranking["after"]] == ["bare", "finish"]
    assert (ranking["top_changed"], ranking["change"]) == (True, "crossed")
    facts = optimize_doc(found).facts
    assert facts["Highest"] == ["finish before, bare after: crossed"]
    assert facts["Adopt"] == ["bare, new prompts: better"]
    assert facts["Keep"] == ["finish, old prompts: undecided, 1,100 tasks (85 %) would decide"]


def test_the_digest_depends_on_programs_and_records(write, tmp_path):
    first = optimization_result(write(A, B)).digest
    (tmp_path / "run").rename(tmp_path / "first")
    assert optimization_result(write(A, B)).digest == first
    (tmp_path / "run").rename(tmp_path / "second")
    other = replace(A, instructions="Other.")
    assert optimization_result(write(other, B)).digest != first
    (tmp_path / "run").rename(tmp_path / "third")
    assert optimization_result(write(replace(A, after=49), B)).digest != first


# One that was cut off.


def test_a_search_that_goes_on(write):
    folder = write(A, B)
    made = read_manifest_json(folder)
    made["splits"]["test"]["opened"] = None
    write_manifest_json(folder, made)
    for name in (TEST, AGAIN):
        shutil.rmtree(folder / name)
    (folder / "designs/2-finish" / ENDED).unlink()
    found = optimization_result(folder)
    assert found.state == "incomplete: 1 of 2 designs are not optimized yet, the test split is locked"
    assert [design.status for design in found.designs] == ["finished", "not ended"]
    made = found.to_json()
    assert (made["ranking"], made["test"], made["designs"][1]["dev"]) == (None, None, None)
    assert made["designs"][0]["dev"]["gain"] == 0.5
    shown = optimize_doc(found)
    assert not {"Adopt", "Keep", "Highest"} & shown.facts.keys()
    assert found.state in to_markdown(shown)


def test_a_test_that_goes_on(write):
    found = optimization_result(write(A, B, tasks=30))
    assert found.state == "incomplete: 120 of 240 trials of the test split"
    assert not found.is_complete
    assert found.gains is not None
    assert [design.advice for design in found.designs] == ["", ""]


def test_a_second_run_of_the_old_prompts_that_goes_on_changes_no_verdict(write):
    folder = write(A)
    shutil.rmtree(folder / AGAIN)
    design = optimization_result(folder).designs[0]
    assert (design.advice, design.noise) == ("adopt: better", None)
    write_test(folder / AGAIN, (A,), tasks=20)
    found = optimization_result(folder)
    assert found.state == "incomplete: 20 of 60 trials of the second run of the old prompts"
    assert found.designs[0].advice == "adopt: better"


def test_trials_of_an_optimization_are_those_of_its_test(write):
    folder = write(A)
    assert is_optimization(folder)
    assert trials_folder(folder) == trials_folder(folder / TEST) == folder / TEST
    assert not is_optimization(folder / TEST)


# The lock.


def breach_rollout(folder: Path) -> None:
    log = JsonLinesLog(folder / "designs/1-bare" / ROLLOUTS)
    log.append({"key": [OWN, "d1", 7, None]})
    log.close()


def breach_task(folder: Path) -> None:
    log = JsonLinesLog(folder / "designs/1-bare" / ROLLOUTS)
    log.append({"key": [OWN, "t5", 0, None]})
    log.close()
    made = read_manifest_json(folder)
    made["splits"]["test"]["opened"]["rollouts"]["bare"] = log_digest(folder / "designs/1-bare" / ROLLOUTS)
    write_manifest_json(folder, made)


def breach_manifest(folder: Path) -> None:
    made = read_manifest_json(folder)
    made["splits"]["test"]["opened"] = None
    write_manifest_json(folder, made)


def breach_program(folder: Path) -> None:
    path = folder / "designs/1-bare" / PROGRAM
    path.write_text(path.read_text(encoding="utf-8").replace("Better", "Changed"), encoding="utf-8")
    reseal(path)


def breach_ended(folder: Path) -> None:
    path = folder / "designs/1-bare" / ENDED
    path.write_text(path.read_text(encoding="utf-8").replace(A.digest, "0" * 64), encoding="utf-8")
    reseal(path)


def breach_not_ended(folder: Path) -> None:
    (folder / "designs/1-bare" / ENDED).unlink()


def breach_arm(folder: Path) -> None:
    made = read_manifest_json(folder / TEST)
    made["arms"][1]["program"] = "0" * 64
    write_manifest_json(folder / TEST, made)


def breach_own(folder: Path) -> None:
    made = read_manifest_json(folder / TEST)
    made["arms"][0]["program"] = A.digest
    write_manifest_json(folder / TEST, made)


def breach_arms(folder: Path) -> None:
    made = read_manifest_json(folder / TEST)
    write_manifest_json(folder / TEST, {**made, "arms": [*made["arms"], {**made["arms"][0], "arm": "third"}]})


def breach_again(folder: Path) -> None:
    write_manifest_json(folder / AGAIN, {**read_manifest_json(folder / AGAIN), "seed": 0})


def breach_again_arm(folder: Path) -> None:
    made = read_manifest_json(folder / AGAIN)
    made["arms"][0]["program"] = A.digest
    write_manifest_json(folder / AGAIN, made)


@pytest.mark.parametrize(
    ("breach", "said"),
    [
        (breach_again, "it has the seed of the first run"),
        (breach_again_arm, "not the old prompts once more"),
        (breach_rollout, "changed since the test split was opened"),
        (breach_task, "was shown task 't5' of the test split"),
        (breach_manifest, "does not say that it was opened"),
        (breach_program, "not the program that the test split was opened for"),
        (breach_ended, "opened for other programs"),
        (breach_not_ended, "opened for other programs"),
        (breach_arm, "ran another program than the test split was opened for"),
        (breach_own, "ran another program than the test split was opened for"),
        (breach_arms, "3 arms for 1 designs"),
    ],
)
def test_a_breach_of_the_lock_is_told_in_one_line(write, breach, said):
    folder = write(A)
    assert optimization_result(folder).is_complete
    breach(folder)
    with pytest.raises(RunError, match=said) as told:
        optimization_result(folder)
    assert str(folder) in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"design": 1}'])
def test_an_end_that_cannot_be_read_is_told(write, text):
    folder = write(A)
    (folder / "designs/1-bare" / ENDED).write_text(text, encoding="utf-8")
    with pytest.raises(RunError, match=r"ended\.json"):
        optimization_result(folder)


# What is printed.


def rows(table: Table) -> list[dict[str, str]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.texts]


def test_old_prompts_stand_twice_before_the_new_ones_and_what_was_seen_beside_the_gain(write):
    old, again, new = rows(gains_table(optimization_result(write(A))))
    assert [row["prompts"] for row in (old, again, new)] == ["old", "again", "new"]
    assert [row["locked"][:3] for row in (old, again, new)] == [".33", ".32", ".83"]
    assert (old["change"], again["change"][:5], new["change"][:5]) == ("–", "-0.02", "+0.50")
    assert (new["verdict"], new["seen"][:5], new["optimism"][:4], new["tokens"]) == ("better", "+0.50", "0.00", "200")


def test_what_a_search_spent_is_told_in_dollars_where_these_are_known(write):
    costs = {name: SearchCost(1, 10, 100, 0.251) for name in ("search", "proposals", "evaluation")}
    shown = optimize_doc(optimization_result(write(replace(A, changes=costs), cost_usd=0.01, nominal_usd=0.01)))
    gains, spent, *_ = shown.tables
    assert gains.columns[-1] == "USD"
    (row,) = rows(spent)
    assert spent.title == "Spent by COPRO, --budget 100calls for each design"
    assert (row["rollouts"], row["LM calls"], row["USD"], row["proposals"], row["dev"]) == ("1", "10", "0.25", "10", "10")


def test_equal_scores_are_adopted_where_they_cost_less_and_a_failed_optimizer_never_is(write):
    reasons = []
    for tokens, status in ((90, "finished"), (190, "finished"), (90, "failed")):
        folder = write(replace(A, before=60, after=60, changes={"status": status}), margin=0.2, after_tokens=tokens)
        reasons.append(optimization_result(folder).designs[0].advice)
        shutil.rmtree(folder)
    assert reasons == ["adopt: cheaper", "keep: equivalent", "keep: failed"]


def test_what_ended_early_and_what_changed_nothing_is_said(write):
    early = replace(A, changes={"status": "budget", "reason": "100 calls", "warnings": ("2 rollouts were errored",)})
    facts = optimize_doc(optimization_result(write(early, replace(B, instructions="Own.")))).facts
    assert facts["Warning"][0] == "bare: 2 rollouts were errored"
    assert facts["Ended"] == ["bare: 100 calls"]
    assert facts["Keep"] == ["finish, old prompts: unchanged"]
    assert facts["Basis"] == ["scripted model, no faults"]


def test_each_program_has_a_row_with_what_its_scores_are_of(write):
    found = optimization_result(write(replace(A, left=(("d2", 1.0),))))
    table = rows(programs_table(found))
    assert [row["program"] for row in table] == ["0", "3", "4"]
    assert [row["solved on dev"] for row in table] == ["0 of 2 (2 in all)", "1 of 2 (2 in all)", "1 of 1 (2 in all)"]
    assert [row["what is new in it"] for row in table] == ["", "Better.", "And <b>better</b> still."]
    assert [row["kept"] for row in table] == ["", "kept", ""]
    assert [(row["rollouts"], row["LM calls"]) for row in table] == [("3", "9"), ("0", "0"), ("1", "3")]
    numbers = [
        (row["program"], row["kept"], row["dev_solved"], row["dev_scored"]) for row in found.to_json()["designs"][0]["programs"]
    ]
    assert numbers == [(0, False, 0.0, 2), (3, True, 1.0, 2), (4, False, 1.0, 1)]


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
