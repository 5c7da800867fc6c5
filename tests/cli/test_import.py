"""`whichloop import`, from other tools' files to the gate; and the table of columns on its page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from whichloop.experiments.import_runs.columns import COLUMNS

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "outside.md"
FILES = ROOT / "tests" / "experiments" / "import_runs" / "files"
TASKS = 60


def inspect_log(solver, solved, calls=2):
    """A log of Inspect; the first `solved` of its samples are."""
    call = {"event": "model", "output": {"usage": {"input_tokens": 100, "output_tokens": 10, "total_cost": 0.01}}}
    samples = [
        {
            "id": f"t{n}",
            "epoch": 1,
            "input": f"What is {n} + {n}?",
            "target": str(2 * n),
            "scores": {
                "match": {"value": "C" if n < solved else "I", "answer": str(2 * n if n < solved else n)},
                "style": {"value": 1},
            },
            "events": [call] * calls,
            "working_time": 1.5,
        }
        for n in range(TASKS)
    ]
    spec = {"task": "sums", "solver": solver, "model": "openai/gpt-4o-mini"}
    return {"version": 2, "status": "success", "eval": spec, "samples": samples}


def test_a_bound_on_trials_without_a_score_decides_the_exit_code(whichloop, here):
    rows = "".join(f"a,t{n},{'' if n == 0 else 1}\n" for n in range(100))
    (here / "t.csv").write_text(f"arm,task,score\n{rows}")
    for bound, code in (("0.01", 0), ("0.009", 4)):
        ended = whichloop("import", "t.csv", "--max-left-out", bound)
        assert ended.code == code
        assert "left out: 1 of 100 trials, errored: the score is blank" in ended.err
        assert ("1.0% of 100 trials have no score" in ended.err) == (code == 4)
    refused = whichloop("import", "t.csv", "--max-left-out", "2")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "Invalid value for '--max-left-out': " in refused.err


@pytest.fixture
def monday(whichloop, here):
    """The JSON of two logs that were imported as the run `monday`; that of a worse day lies beside them."""
    logs = {"react": inspect_log("react", 50), "plan": inspect_log("plan", 20, calls=3), "worse": inspect_log("react", 15)}
    for name, log in logs.items():
        (here / f"{name}.json").write_text(json.dumps(log))
    return whichloop("import", "react.json", "plan.json", "--scorer", "match", "--name", "monday", "--json").json


def test_two_logs_are_compared(monday):
    react, plan = monday["arms"]
    assert (react["arm"], react["accuracy"]["value"]) == ("react/openai/gpt-4o-mini", pytest.approx(50 / TASKS))
    assert (react["lm_calls"]["value"], react["tokens"]["value"], plan["lm_calls"]["value"]) == (2, 220, 3)
    assert react["cost_usd"]["value"] == pytest.approx(0.02)
    assert (monday["wall_s"], monday["complete"]) == (None, True)
    (pair,) = [pair for pair in monday["pairs"] if pair["metric"] == "accuracy"]
    assert pair["verdict"] == "better"


def test_an_imported_run_is_blessed_and_a_worse_one_fails_the_gate(monday, whichloop):
    blessed = whichloop("gate", "monday", "--bless", "--output", "base.json")
    assert blessed.code == 0
    assert "seed" not in blessed.out + blessed.err
    same = whichloop("gate", "monday", "--baseline", "base.json")
    assert (same.code, "pass: identical" in same.out) == (0, True)
    whichloop("import", "worse.json", "plan.json", "--scorer", "match", "--name", "tuesday")
    worse = whichloop("gate", "tuesday", "--baseline", "base.json")
    assert worse.code == 1
    assert "35 worse" in worse.out
    assert "react/openai/gpt-4o-mini/t20" in whichloop("gate", "tuesday", "--baseline", "base.json", "-v").out
    alone = whichloop("gate", "--baseline", "base.json")
    assert (alone.code, alone.err.count("\n")) == (2, 1)
    assert "nothing to run" in alone.err


def test_an_imported_run_cannot_be_resumed(monday, whichloop):
    resumed = whichloop("resume", "monday")
    said = "error: runs/monday: imported from another tool's files, so there is nothing to run\n"
    assert (resumed.code, resumed.err) == (2, said)


def test_errors_are_one_line_and_leave_nothing(whichloop, here):
    (here / "bad.csv").write_text("task,score\nx,much\n")
    for arguments in (
        ["bad.csv"],
        ["none.csv"],
        [str(FILES / "capitals.eval")],
        [str(FILES / "capitals.eval"), "--scorer", "letters", "--scale", "1"],
        [str(FILES / "capitals.json"), "--format", "csv"],
    ):
        ended = whichloop("import", *arguments)
        assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1), arguments
        assert ended.err.startswith("error: ")
    assert not (here / "runs").exists()


def test_names_and_paths_of_runs(whichloop, here):
    (here / "a.csv").write_text("task,score\nx,1\n")
    whichloop("import", "a.csv", "--name", "here/mine")
    whichloop("import", "a.csv", "--name", "mine", "--runs", "elsewhere")
    for folder in (here / "here" / "mine", here / "elsewhere" / "mine"):
        assert (folder / "manifest.json").exists()
    again = whichloop("import", "a.csv", "--name", "here/mine")
    said = "here/mine: exists already; take another --name, or replace the run that is there: --replace"
    assert (again.code, again.err) == (2, f"error: {said}\n")
    assert whichloop("import", "a.csv", "--name", "here/mine", "--replace").code == 0


def test_arms_that_share_no_task_are_not_compared_and_the_exit_code_says_so(whichloop, here):
    (here / "a.csv").write_text("agent,id,score\na,run-1,1\na,run-2,0\nb,run-3,1\nb,run-4,0\n")
    ended = whichloop("import", "a.csv")
    assert ended.code == 4
    assert "nothing is compared: no task was scored in two arms (a: run-1, run-2; b: run-3, run-4)" in ended.err


# --- the page ---


def test_the_page_names_every_column():
    text = PAGE.read_text(encoding="utf-8")
    assert not [word for meaning, names in COLUMNS.items() for word in (meaning, *names) if f"`{word}`" not in text]
