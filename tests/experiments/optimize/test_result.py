"""What an optimization says, whole or cut off, and that a test split which was not locked is noticed."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.experiments.optimize.written import (
    ONCE,
    OWN,
    TASKS,
    A,
    B,
    record,
    shown,
)
from tests.sealing import reseal
from whichloop.experiments.compare.results import results
from whichloop.experiments.optimize.manifest import ENDED, PROGRAM, ROLLOUTS, JsonLinesLog, log_digest
from whichloop.experiments.optimize.result import optimization_result
from whichloop.experiments.optimize.tables import optimization_doc, optimization_notes, optimization_tables, verdicts
from whichloop.metrics.record import Record
from whichloop.runs.folders import TEST, is_optimization, trials_folder
from whichloop.runs.store.files import RunError, read_manifest_json, write_manifest_json
from whichloop.runs.store.journal import Journal
from whichloop.text.doc import to_markdown

# A whole one.


def test_a_whole_optimization(write):
    found = optimization_result(write(A, B))
    assert (found.is_complete, found.state, found.invalid) == (True, "", False)
    bare, finish = found.to_json()["designs"]
    assert (bare["design"], bare["status"], bare["candidates"], bare["chosen"]) == ("bare", "finished", 7, 3)
    assert bare["dev"] == {"before": 0.0, "after": 0.5, "gain": 0.5, "tasks": 2}
    assert (bare["test"]["difference"]["value"], bare["test"]["verdict"]) == (pytest.approx(0.5), "better")
    assert finish["test"]["verdict"] == "undecided"
    assert bare["optimism"] == pytest.approx(0.0)
    assert finish["optimism"] == pytest.approx(0.5 - 2 / 60)
    assert bare["cost"]["search"] == {"trials": 20, "calls": 60, "tokens": 6_000, "cost_usd": None}
    assert bare["cost"]["per_task_before"] == {"calls": 2.0, "tokens": 200.0, "cost_usd": None}
    assert bare["cost"]["per_solved_before"]["tokens"] == pytest.approx(600)
    assert bare["cost"]["amortised"]["per_task"]["tokens"] == pytest.approx(200 + 7_100 / 1_000)
    assert bare["cost"]["amortised"]["break_even"]["tokens"] == 7_100 // (2.5 * 200 - 200) + 1


def test_the_names_that_scripts_read_are_there(write):
    made = optimization_result(write(A, B)).to_json()
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    top = {"run", "digest", "complete", "state", "invalid", "optimizer", "budget", "splits", "designs", "ranking", "test"}
    assert made.keys() == top
    names = {"design", "status", "reason", "program", "digest", "unchanged", "candidates", "chosen", "dev", "test", "optimism"}
    assert made["designs"][0].keys() == names | {"cost", "warnings", "optimism_interval", "advice", "cut_off", "programs"}
    spent = {"search", "proposals", "evaluation", "amortised"}
    uses = {"per_task_before", "per_task_after", "per_solved_before", "per_solved_after"}
    assert made["designs"][0]["cost"].keys() == spent | uses
    assert {"before", "after", "top_changed", "change", "interaction"} <= made["ranking"].keys()
    assert made["test"].keys() >= {"arms", "pairs", "digest", "complete"}


def test_the_ranking_turns_around(write):
    found = optimization_result(write(A, B))
    ranking = found.to_json()["ranking"]
    assert [item["design"] for item in ranking["before"]] == ["finish", "bare"]
    assert [item["design"] for item in ranking["after"]] == ["bare", "finish"]
    assert (ranking["top_changed"], ranking["change"]) == (True, "crossed")
    line, overfitting, bare, finish = verdicts(found)
    assert line.startswith("Highest before: finish, 0.500")
    assert "after: bare, 0.833" in line
    assert "optimization changed which loop is best (gain of bare minus gain of finish: 0.467" in line
    assert overfitting.startswith("Overfitting, gain on dev tasks less gain on test tasks: bare 0.000 [")
    assert overfitting.count("not told apart from 0") == 2
    assert bare.startswith("Adopt the new prompts of bare: they gain 0.500 [")
    assert finish.startswith("Keep the old prompts of finish: no gain is shown, and the new ones take about as many tokens (1.00 [")
    assert finish.endswith("; 1,100 tasks (85 %) would decide")
    assert [item["advice"] for item in found.to_json()["designs"]] == [bare, finish]


def test_the_digest_depends_on_programs_and_records(write, tmp_path):
    first = optimization_result(write(A, B)).digest
    (tmp_path / "run").rename(tmp_path / "first")
    assert optimization_result(write(A, B)).digest == first
    (tmp_path / "run").rename(tmp_path / "second")
    other = replace(A, instructions="Other.")
    assert optimization_result(write(other, B)).digest != first
    (tmp_path / "run").rename(tmp_path / "third")
    assert optimization_result(write(replace(A, after=49), B)).digest != first


def test_each_design_has_its_own_two_arms(write):
    found = optimization_result(write(A, B))
    assert found.gains is not None
    solved = [[side and round(side.value * TASKS) for side in (gain.before, gain.after)] for gain in found.gains.gains]
    assert solved == [[20, 50], [30, 32]]


# One that was cut off.


def test_a_search_that_goes_on(write):
    folder = write(A, B)
    made = read_manifest_json(folder)
    made["splits"]["test"]["opened"] = None
    write_manifest_json(folder, made)
    for path in (folder / TEST).iterdir():
        path.unlink()
    (folder / "designs/2-finish" / ENDED).unlink()
    found = optimization_result(folder)
    assert found.state == "incomplete: 1 of 2 designs are not optimized yet, the test split is locked"
    assert [design.status for design in found.designs] == ["finished", "not ended"]
    made = found.to_json()
    assert (made["ranking"], made["test"], made["designs"][1]["dev"]) == (None, None, None)
    assert made["designs"][0]["dev"]["gain"] == 0.5
    assert verdicts(found) == []
    assert [table.title for table in optimization_tables(found)] == [
        "Gains by COPRO, budget 100calls for each design",
        "Cost",
        PROGRAMS,
    ]
    assert found.state in to_markdown(optimization_doc(found))


def test_a_test_that_goes_on(write):
    found = optimization_result(write(A, B, tasks=30))
    assert found.state == "incomplete: 120 of 240 trials of the test split"
    assert not found.is_complete
    assert found.gains is not None


def test_a_test_that_was_opened_and_not_begun(write):
    folder = write(A)
    for path in (folder / TEST).iterdir():
        path.unlink()
    assert optimization_result(folder).state == "incomplete: no trial of the test split was run yet"
    program = folder / "designs/1-bare/optimized.json"
    said = f"; whichloop report {folder} -v shows its search, and whichloop prompts LOOP {program} what changed in its prompts"
    with pytest.raises(RunError, match=f"no trial of the test split was run yet{re.escape(said)}$"):
        trials_folder(folder)


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


@pytest.mark.parametrize(
    ("breach", "said"),
    [
        (breach_rollout, "changed since the test split was opened"),
        (breach_task, "was shown task 't5' of the test split"),
        (breach_manifest, "does not say that it was opened"),
        (breach_program, "not the program that was tested"),
        (breach_ended, "opened for other programs"),
        (breach_not_ended, "opened for other programs"),
        (breach_arm, "ran another program than the test split was opened for"),
        (breach_own, "ran another program than the design's own"),
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


def test_a_comparison_is_no_optimization(write):
    with pytest.raises(RunError, match="not an optimization"):
        optimization_result(write(A) / TEST)


@pytest.mark.parametrize("name", ["designs", "splits", "optimizer", "suite"])
def test_a_manifest_that_lacks_something_is_told(write, name):
    folder = write(A)
    made = read_manifest_json(folder)
    del made[name]
    write_manifest_json(folder, made)
    with pytest.raises(RunError, match=rf"manifest\.json: {name}: Field required"):
        optimization_result(folder)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"design": 1}'])
def test_an_end_that_cannot_be_read_is_told(write, text):
    folder = write(A)
    (folder / "designs/1-bare" / ENDED).write_text(text, encoding="utf-8")
    with pytest.raises(RunError, match=r"ended\.json"):
        optimization_result(folder)


# What is printed.

PROGRAMS = "Programs that each search tried; a score of a part of the tasks is not that of all of them"


def test_the_tables_tell_gain_verdict_and_cost_of_each_design(write):
    found = shown(optimization_result(write(A, B)))
    assert [*found] == ["Gains by COPRO, budget 100calls for each design", "Ranking before and after", "Cost", PROGRAMS]
    bare, finish = found["Gains by COPRO, budget 100calls for each design"]
    assert (bare["dev"], bare["verdict"]) == ("0.000 → 0.500", "better")
    assert bare["optimism"].startswith("0.000 [-")
    assert bare["gain"].startswith("0.500 [")
    assert (bare["programs"], bare["LM calls"], bare["proposals"]) == ("7", "60 of 100", "5")
    assert finish["verdict"] == "undecided"
    calls, tokens = (row for row in found["Cost"] if row["design"] == "bare")
    assert (calls[ONCE], tokens[ONCE]) == ("60 + 5 + 6", "6,000 + 500 + 600")
    assert tokens["a solved task before"] == "600"
    assert tokens["break-even"] == "24"


def test_what_ended_early_and_what_changed_nothing_is_said(write):
    early = replace(A, changes={"status": "budget", "reason": "100 calls", "warnings": ("2 rollouts were errored",)})
    same = replace(B, instructions="Own.")
    said = optimization_notes(optimization_result(write(early, same)))
    assert said[0] == "Warning: bare: 2 rollouts were errored"
    assert "bare: stopped, the best program so far was kept: 100 calls" in said
    assert "finish: the program that it began with was kept." in said
    assert any("simulated" in note for note in said)


def test_an_invalid_test_has_no_verdict(write):
    faults = [
        {"kind": "tool.slow", "point": f"decide:c{n}", "landed": False, "absorbed": False, "recovered": False} for n in range(3)
    ]
    folder = write(A, tasks=0)
    with Journal(folder / TEST) as journal:
        for arm in ("bare/clean", f"bare@{PROGRAM}/clean"):
            journal.append(Record.from_json(record(arm, 1, 9).to_json() | {"faults": faults}), b"")
    found = optimization_result(folder)
    assert results(folder / TEST).comparison.invalid
    assert found.to_json()["invalid"] is True
    assert verdicts(found) == []
    assert "The test is invalid: none of its verdicts holds." in optimization_notes(found)


def test_markdown_takes_names_literally(write):
    evil = replace(A, changes={"warnings": ("<b>|x|</b> [a](b) \x1b[2J",)})
    made = to_markdown(optimization_doc(optimization_result(write(evil))))
    assert "\x1b" not in made
    tokens = [child for token in MarkdownIt().enable("table").parse(made) for child in token.children or ()]
    assert not {token.type for token in tokens} & {"link_open", "html_inline"}
