"""`whichloop import`, from other tools' files to the gate; and the page about it."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import zipfile
from pathlib import Path

import pytest

from whichloop.experiments.import_runs.columns import COLUMNS
from whichloop.experiments.import_runs.foreign_trials import ForeignTrial

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


def write_eval(path, log):
    """As an archive."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("header.json", json.dumps({**log, "samples": None}))
        for sample in log["samples"]:
            made.writestr(f"samples/{sample['id']}_epoch_1.json", json.dumps(sample))


def test_the_order_of_the_rows_of_a_table_decides_nothing(whichloop, here):
    """Four tasks of thirty rows each: rows sorted by their scores say no more than rows in any other order."""
    solved = {"a": (25, 24, 20, 22), "b": (21, 20, 19, 20)}
    said = []
    for turned in (False, True):
        rows = [
            f"{agent},t{task},{int((29 - n if turned and agent == 'b' else n) < right)}"
            for agent, counts in solved.items()
            for task, right in enumerate(counts)
            for n in range(30)
        ]
        (here / "t.csv").write_text("\n".join(["agent,task,score", *rows]) + "\n")
        ended = whichloop("import", "t.csv", "--name", f"turned-{turned}")
        assert ended.code == 0
        said.append(ended.out.splitlines()[1:])
        assert any(line.startswith("Undecided ") for line in said[-1])
    assert said[0] == said[1]


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


def test_the_report_of_an_imported_run_says_nothing_of_our_own_model(monday, whichloop, here):
    shown = whichloop("report", "monday")
    assert shown.code == 0
    assert "scripted" not in shown.out
    assert "simulated" not in shown.out
    names = sorted(path.name for path in (here / "runs" / "monday").iterdir())
    assert names == ["manifest.json", "report.html", "trials.sqlite"]


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


def test_an_imported_run_without_traces_teaches_no_plans(whichloop, here):
    whichloop("import", str(FILES / "capitals.json"), "--scorer", "Exact", "--name", "untraced")
    learned = whichloop("learn", "plans", "untraced", "-o", "learned.jsonl")
    assert (learned.code, "imported from another tool's files, and they hold no traces" in learned.err) == (2, True)


def test_another_list_of_tasks_is_judged_by_those_of_both(whichloop, here):
    (here / "one.csv").write_text("task,score\nx,1\ny,0\n")
    (here / "two.csv").write_text("task,score\nx,1\nz,0\n")
    for name in ("one", "two"):
        whichloop("import", f"{name}.csv", "--arm", "mine", "--name", name)
    whichloop("gate", "one", "--bless", "--output", "base.json")
    gated = whichloop("gate", "two", "--baseline", "base.json")
    assert gated.code == 3
    assert "undecided: the suite changed: 1 tasks are the same, 0 changed, 1 added, 1 removed" in gated.out


def test_what_is_not_told_is_shown_as_a_dash(whichloop, here):
    (here / "a.csv").write_text("arm,task,score,steps\na,x,1,3\na,y,0,4\nb,x,1,\nb,y,1,\n")
    shown = whichloop("import", "a.csv", "-v")
    lines = [line.split() for line in shown.out.splitlines()]
    (head,) = [line for line in lines if line[:2] == ["arm", "scored"]]
    assert "tokens" not in head
    assert "seconds" not in head
    (unknown,) = [line for line in lines if line[:3] == ["b", "2", "0"]]
    assert unknown[-1] == "–"
    assert "What happened" not in shown.out  # stops, errors, faults: nothing is known of any
    assert ["y/0", "lost", "–", "0"] in [line.split() for line in whichloop("show", "latest", "-v").out.splitlines()]
    markdown = whichloop("report", "latest", "--format", "md").out
    assert "| b | 2 | 0 | 0 | 1.000" in markdown
    sized = whichloop("report", "--size", "latest").out
    assert "run about 50 first" in sized
    assert "model calls" not in sized
    assert "USD" not in sized


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


def test_columns_left_out_are_said(whichloop, here):
    (here / "a.csv").write_text("task,score,colour,mood\nx,1,red,good\n")
    assert "a.csv: columns left out: colour, mood" in whichloop("import", "a.csv").err


def test_a_notebook_has_gaps_where_nothing_is_known(whichloop, here):
    import whichloop as library

    (here / "a.csv").write_text("arm,task,score,steps\na,x,1,3\nb,x,1,\n")
    whichloop("import", "a.csv", "--name", "mine")
    found = library.load("mine").trials
    assert found["steps"].tolist()[0] == 3
    assert found[["steps", "tokens"]].isna().iloc[1].all()
    only_of_runs = {"false_success", "false_success.count", "faults.landed", "faults.recovered", "right_unseen", "seed"}
    assert only_of_runs.isdisjoint([*found.columns, *library.load("mine").arms.columns])


# --- the page ---


def commands():
    """What the page types, line by line."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.splitlines()]


def test_the_pages_examples_run(whichloop, here):
    text = PAGE.read_text(encoding="utf-8")
    (table,) = re.findall(r"```csv\n(.*?)```", text, re.DOTALL)
    (here / "results.csv").write_text(table)
    (chat,) = re.findall(r"`chat\.jsonl`.*?```json\n(.*?)```", text, re.DOTALL)
    (here / "chat.jsonl").write_text(json.dumps(json.loads(chat)))
    for name in ("my_agent.json", "my_agent-2.json"):
        shutil.copy(FILES / "capitals.json", here / name)
    shutil.copytree(FILES / "atif", here / "trajectories")
    for name, solved in {"react": 50, "plan": 20, "react-2": 50, "plan-2": 20}.items():
        write_eval(here / f"{name}.eval", inspect_log(name.removesuffix("-2"), solved))
    for program, *arguments in commands():
        assert program == "whichloop"
        ended = whichloop(*arguments)
        assert ended.code == 0, (arguments, ended.err)


def test_the_page_names_every_column():
    text = PAGE.read_text(encoding="utf-8")
    words = {word.removesuffix("_s") for names in COLUMNS.values() for word in names}
    assert not [word for word in words if f"`{word}`" not in text]
    of_no_field = {"asked", "arm", "task", "suite", "score", "model", "error", "messages"}
    assert set(COLUMNS) - of_no_field <= set(ForeignTrial.__dataclass_fields__)


def test_costs_that_only_one_agent_has_are_told_and_those_of_the_other_are_unknown(whichloop, here):
    rows = [f"{agent},{task},{int((task % 4 > 0) == (agent == 'a'))}" for task in range(30) for agent in "ab"]
    written = {
        "of-a": "\n".join(["agent,task,score,cost", *(f"{row},{'0.1' * row.startswith('a')}" for row in rows)]),
        "of-b": "\n".join(["agent,task,score,cost", *(f"{row},{'0.1' * row.startswith('b')}" for row in rows)]),
        "of-none": "\n".join(["agent,task,score", *rows]),
    }
    said = {}
    for name, text in written.items():
        (here / f"{name}.csv").write_text(text)
        said[name] = whichloop("import", f"{name}.csv", "--name", name).out
    assert all("\nAdopt      a\n" in shown for shown in said.values())
    heads = {name: next(line for line in shown.splitlines() if line.startswith("agent ")) for name, shown in said.items()}
    assert [" USD" in head for head in heads.values()] == [True, True, False]
    answer = whichloop("report", "of-a", "--json").json["answer"]
    assert (answer["unit"], [row["cost"] is None for row in answer["rows"]]) == ("cost_usd", [False, True])


def test_words_and_blanks_are_told_end_to_end(whichloop, tmp_path):
    cells = ["yes" if n % 7 == 0 else str(n % 2) for n in range(21)]
    cells[5] = "N/A"
    (tmp_path / "s.csv").write_text("task,score\n" + "".join(f"t{n},{cell}\n" for n, cell in enumerate(cells)))
    made = whichloop("import", "s.csv", "--name", "s")
    assert "s.csv: column 'score' is read so: 'yes' as 1 in 3 cells (the first in line 2), 'N/A' as no score (line 7)\n" in made.err
    assert "left out: 1 of 21 trials, errored: the score is 'N/A'\n" in made.err
    flagged = whichloop("import", "s.csv", "--name", "s", "--replace", "--errors-as-failures")
    assert "write 0 as their score" in flagged.err
