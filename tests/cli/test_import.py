"""`import` and `export`: from other tools' files to the gate and back, and the page about it."""

from __future__ import annotations

import json
import shlex
import zipfile
from pathlib import Path

import pytest

from whichloop.experiments.import_runs.columns import COLUMNS

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


def test_the_page_names_every_column():
    text = PAGE.read_text(encoding="utf-8")
    assert not [word for meaning, names in COLUMNS.items() for word in (meaning, *names) if f"`{word}`" not in text]


def chats(case, *, tasks=6):
    """Rows with messages: their question may stand in a column, or be worded otherwise for each agent."""
    for n in range(tasks):
        for agent in ("careful", "hasty"):
            asked = f"What does item {n} cost?" + f" Be {agent}." * (case == "worded")
            messages = [{"role": "user", "content": asked}, {"role": "assistant", "content": "3"}]
            row = {"agent": agent, "task_id": f"order-{n}", "trial": 0, "messages": messages, "success": (n + len(agent)) % 3 > 0}
            yield row | ({"question": f"item {n}"} if case == "asked" else {})


def put(path, case, *, tasks=6):
    path.write_text("".join(json.dumps(row) + "\n" for row in chats(case, tasks=tasks)))


def suite_of(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    return manifest["suite"], manifest["task_digests"]


@pytest.mark.parametrize(
    ("case", "exported"),
    [
        ("plain", "atif"),
        ("worded", "otlp"),
        ("asked", "atif"),
        ("scaled", "otlp"),
        pytest.param("plain", "otlp", marks=pytest.mark.slow),
        pytest.param("worded", "atif", marks=pytest.mark.slow),
        pytest.param("asked", "otlp", marks=pytest.mark.slow),
        pytest.param("scaled", "atif", marks=pytest.mark.slow),
    ],
)
def test_a_gate_holds_an_import_against_its_own_export(whichloop, tmp_path, case, exported):
    scale = ["--scale", "1,0"] * (case == "scaled")
    put(tmp_path / "chat.jsonl", case)
    assert whichloop("import", "chat.jsonl", "--name", "first", *scale).code == 0
    assert whichloop("gate", "first", "--bless", "--output", "base.json").code == 0
    assert whichloop("export", "first", "--format", exported, "--output", "out.jsonl").code == 0
    assert whichloop("import", "out.jsonl", "--name", "again").code == 0
    assert suite_of(tmp_path / "runs" / "first") == suite_of(tmp_path / "runs" / "again")
    judged = whichloop("gate", "again", "--baseline", "base.json")
    assert judged.code == 0, judged.err
    assert "pass: identical" in judged.out
    both = whichloop("import", "chat.jsonl", "out.jsonl", *scale)
    assert "is there and in chat.jsonl; say whether they are two arms" in both.err  # not that a task asks something else


def test_a_task_that_asks_something_else_is_still_told(whichloop, tmp_path):
    put(tmp_path / "chat.jsonl", "asked")
    whichloop("import", "chat.jsonl", "--name", "first")
    whichloop("gate", "first", "--bless", "--output", "base.json")
    (tmp_path / "chat.jsonl").write_text((tmp_path / "chat.jsonl").read_text().replace('"item 3"', '"item 33"'))
    whichloop("import", "chat.jsonl", "--name", "other")
    whichloop("export", "other", "--format", "atif", "--output", "out")
    whichloop("import", "out", "--name", "again")
    refused = whichloop("gate", "again", "--baseline", "base.json")
    assert refused.code == 3
    assert "1 changed, 0 added, 0 removed" in refused.out


def written(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data))


def judged(number, resolved, run):
    """What terminal-bench writes of a trial."""
    task = f"task-{number:02}"
    return {"id": f"{task}-{run}", "task_id": task, "instruction": task, "is_resolved": resolved, "failure_mode": "unset"}


def submission(folder, agent, *, solved, model, names=("x-1",)):
    """Runs of an agent whose metadata call its model each time otherwise."""
    for number, name in enumerate(names):
        written(folder / f"run{number}" / "run_metadata.json", {"agent_name": agent, "model_name": name})
        trials = [judged(n, n < solved, f"{folder.name}{number}") for n in range(20)]
        written(folder / f"run{number}" / "results.json", {"results": trials})
    return [folder, "--arm", agent, "--model", model]


def test_agents_crossed_with_models_say_which_moves_accuracy(whichloop, tmp_path):
    given = [
        *submission(tmp_path / "careful-small", "careful", solved=15, model="small", names=("x-1", "x-1-20250514")),
        *submission(tmp_path / "careful-large", "careful", solved=17, model="large"),
        *submission(tmp_path / "hasty-small", "hasty", solved=3, model="small"),
        *submission(tmp_path / "hasty-large", "hasty", solved=4, model="large"),
    ]
    made = whichloop("import", *map(str, given), "--json")
    assert "careful-small: x-1, x-1-20250514 are taken as the one model of --model\n" in made.err
    (harness,) = made.json["harness"]
    assert (harness["loops"], harness["conditions"], harness["tasks"]) == (["careful", "hasty"], ["small", "large"], 20)
    assert harness["difference"]["low"] > 0
    assert {arm["arm"] for arm in made.json["arms"]} == {"careful/small", "careful/large", "hasty/small", "hasty/large"}


def test_a_run_is_exported_and_read_back(whichloop, here):
    whichloop("compare", "--loop", "bare", "--suite", "arithmetic(size=2)", "--profile", "flaky-tools")
    accuracy = whichloop("report", "latest", "--json").json["arms"][0]["accuracy"]
    for name, out in (("atif", "a"), ("otlp", "b.jsonl"), ("otlp", "c d.log"), ("otlp", "e"), ("otlp", "f.csv")):
        written = whichloop("export", "latest", "--format", name, "--output", out, "--runs", "runs")
        assert (written.code, written.out) == (0, "")
        said, _, command = written.err.strip().partition("; read them back: whichloop ")
        assert said == f"wrote 2 trials to {out}"
        back = whichloop(*shlex.split(command), "--runs", f"back {out}", "--name", "back", "--json").json
        assert back["arms"][0]["accuracy"] == accuracy
