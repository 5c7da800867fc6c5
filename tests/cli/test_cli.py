"""The command line, end to end: exit codes, one line for each mistake, results on stdout and all else on stderr."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import pty
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from loopbench.cli.main import main

QUICK = ["--no-mlflow", "--loop", "bare", "--suite", "arithmetic(size=6)"]
LOOP = """
from loopbench.protocol import Outcome, StopReason

class {name}:
    name, stops = "own", frozenset()

    def with_step_limit(self, tool_steps):
        return self

    async def run(self, query, tools, model, observer=None):
        return Outcome({answer!r}, StopReason.FINISHED, 0)
"""


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


@pytest.fixture
def here(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def loopbench(here, capsys, monkeypatch) -> Callable[..., Ended]:
    """Runs the command within this process: what a process of its own would add is 2 s."""

    def call(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["loopbench", *arguments])
        capsys.readouterr()
        code: Any = 0
        try:
            main()
        except SystemExit as left:
            code = left.code
        said = capsys.readouterr()
        return Ended(code or 0, said.out, said.err)

    return call


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Of a bare machine: a new home, no caches; modules of the user's own are found in `folder`."""
    return {"PATH": os.defpath, "HOME": str(folder / "home"), "PYTHONPATH": str(folder), "PYTHONHASHSEED": "random", **more}


def process(folder: Path, *arguments: str, **more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "loopbench", *arguments]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=folder, env=environment(folder, **more), **pipes)


def ended(running: subprocess.Popen[str]) -> Ended:
    out, err = running.communicate(timeout=120)
    return Ended(running.returncode, out, err)


@contextlib.contextmanager
def running(folder: Path, *arguments: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    child = process(folder, *arguments, **more)
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def only_run(folder: Path) -> Path:
    """The one run directory; waits until it has a line of results."""
    for _ in range(1_200):
        found = [path.parent for path in (folder / "runs").glob("*/trials.jsonl") if path.stat().st_size]
        if found:
            return found[0]
        time.sleep(0.05)
    raise AssertionError("no run has begun")


def lines(run: Path) -> list[tuple[str, str, int]]:
    rows = [json.loads(line) for line in (run / "trials.jsonl").read_bytes().splitlines()]
    return [(row["arm"], row["task"], row["repeat"]) for row in rows]


# --- start ---


def test_help_and_import_load_nothing_heavy():
    code = """
import sys
import loopbench
loaded = {name for name in sys.modules if name.startswith("loopbench.")} - {"loopbench._lazy"}
assert not loaded, f"import loopbench loads {loaded}"
from loopbench.cli.main import main
sys.argv = ["loopbench", "--help"]
try:
    main()
except SystemExit as left:
    assert not left.code
heavy = {"dspy", "mlflow", "scipy", "statsmodels", "pandas", "numpy", "litellm", "pyarrow"} & set(sys.modules)
assert not heavy, heavy
"""
    made = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    assert "compare" in made.stdout
    assert made.stderr == ""


def test_version(loopbench):
    assert loopbench("--version").out.startswith("loopbench ")


# --- mistakes ---


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["compare", "--suite", "nope"], "unknown suite 'nope'"),
        (["compare", "--suite", "arithmetics"], "did you mean 'arithmetic'"),
        (["compare", "--suite", "gsm8k"], "--data FILE"),
        (["compare", "--suite", "gsm8k", "--data", "none.jsonl"], "none.jsonl"),
        (["compare", "--loop", "bear"], "did you mean 'bare'"),
        (["compare", "--loop", "bare("], "not a name"),
        (["compare", "--loop", "bare(max_step=3)"], "did you mean 'max_steps'"),
        (["compare", "--loop", "bare(max_steps=x)"], "max_steps: "),
        (["compare", "--loop", "bare", "--loop", "bare"], "'bare' is a duplicate"),
        (["compare", "--loop", "no_module:X"], "no module named 'no_module'"),
        (["compare", "--profile", "flaky"], "unknown profile 'flaky'"),
        (["compare", "--profile", "none.toml"], "none.toml"),
        (["compare", "--model", "gpt"], "write provider/model"),
        (["compare", "--model", "openai/x", "--profile", "stubborn"], "under 'clean' only"),
        (["compare", "--tasks", "0"], "error: --tasks: "),
        (["compare", "--repeats", "-1"], "error: --repeats: "),
        (["compare", "--concurrency", "0"], "error: --concurrency: "),
        (["compare", "--alpha", "2"], "error: --alpha: "),
        (["compare", "--alpha", "nan"], "error: --alpha: "),
        (["compare", "--margin", "0"], "error: --margin: "),
        (["compare", "--trial-timeout", "inf"], "error: --trial-timeout: "),
        (["compare", "--budget-calls", "0"], "error: --budget-calls: "),
        (["compare", "--config", "none.toml"], "error: none.toml: no such file\n"),
        (["compare", "--config", "."], "error: .: is a directory"),
        (["compare", "--suite", "csv", "--data", "folder.csv"], "error: folder.csv: is a directory"),
        (["compare", "--config", "bad.toml"], "bad.toml: unknown field 'lops'; did you mean 'loops'"),
        (["compare", "--config", "torn.toml"], "torn.toml: no valid TOML"),
        (["compare", "--config", "latin.toml"], "latin.toml: no valid TOML"),
        (["compare", "--config", "typed.toml"], "typed.toml: seed: "),
        (["compare", "--config", "keyed.toml"], "keyed.toml: provider: Input should be a valid dictionary"),
        (["compare", "--config", "twice.toml"], "error: twice.toml: loops: 'bare' is a duplicate"),
        (["compare", "--config", "alone.toml"], "error: alone.toml: "),
        (["optimize", "--config", "twice.toml"], "error: twice.toml: loops: 'bare' is a duplicate"),
        (["optimize", "--config", "twice.toml", "--loop", "bare", "--train", "0"], "error: --train: "),
        (["optimize", "--threads", "0"], "error: --threads: "),
        (["optimize", "--test", "0"], "error: --test: "),
        (["resume", "nope"], "no run 'nope'"),
        (["resume", "latest"], "no run 'latest'"),
        (["report", "nope"], "no run 'nope'; in runs: none yet"),
        (["report", "."], "not a run directory (it has no manifest.json)"),
        (["report", ".", "--json", "--csv"], "exclude each other"),
        (["show", "nope", "x"], "no run 'nope'"),
        (["show", ".", "x"], "not a run directory"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing_behind(loopbench, here, arguments, said):
    (here / "bad.toml").write_text("lops = ['bare']\n")
    (here / "torn.toml").write_text("loops = [\n")
    (here / "latin.toml").write_bytes("experiment = 'Z\u00fcrich'\n".encode("latin-1"))
    (here / "twice.toml").write_text("loops = ['bare', 'bare']\n")
    (here / "alone.toml").write_text("address = 'x'\n")
    (here / "typed.toml").write_text("seed = 'x'\n")
    (here / "keyed.toml").write_text("provider = 'sk-proj-0123456789abcdef'\n")
    (here / "folder.csv").mkdir()
    before = sorted(here.iterdir())
    found = loopbench(*arguments)
    assert (found.code, found.out) == (2, "")
    assert found.err.count("\n") == 1
    assert found.err.startswith("error: ")
    assert said in found.err
    assert "0123456789" not in found.err
    assert sorted(here.iterdir()) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["frob"],
        ["compare", "--frob"],
        ["compare", "--tasks", "x"],
        ["list", "nope"],
        ["show"],
        ["report"],
        ["compare", "extra"],
    ],
)
def test_what_the_command_does_not_know_is_a_usage_error(loopbench, here, arguments):
    found = loopbench(*arguments)
    assert (found.code, found.out) == (2, "")
    assert "Error" in found.err
    assert list(here.iterdir()) == []


def test_text_from_a_file_reaches_the_terminal_without_its_control_characters(loopbench, here):
    (here / "sly.toml").write_bytes(b'loops = ["bare\\u001b[2J\\u202e"]\n')
    found = loopbench("compare", "--config", "sly.toml")
    assert found.code == 2
    assert not {"\x1b", "\u202e"} & set(found.err)


def test_a_folder_that_cannot_be_written_is_one_line(loopbench, here):
    (here / "runs").write_text("a file")
    found = loopbench("compare", *QUICK)
    assert (found.code, found.err.count("\n")) == (2, 1)
    assert "Errno" not in found.err


def test_a_process_says_the_same(here):
    (here / "torn.toml").write_text("loops = [\n")
    found = ended(process(here, "compare", "--config", "torn.toml"))
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith("error: torn.toml: no valid TOML")
    assert found.err.count("\n") == 1
    assert [path.name for path in here.iterdir()] == ["torn.toml"]


# --- compare, report, show ---


def test_compare_prints_results_to_stdout_and_all_else_to_stderr(here):
    found = ended(process(here, "compare", *QUICK, "--json"))
    assert found.code == 0
    assert found.out.count("\n") == 1
    made = json.loads(found.out)
    run = only_run(here)
    assert made["run"] == str(run.resolve())
    assert made["arms"][0]["accuracy"]["value"] == 1.0
    assert "progress: done=6/6 " in found.err
    assert ' | arm="bare/clean" n=6 accuracy=1.000 ' in found.err
    assert f"run directory: runs/{run.name}" in found.err
    assert sorted(path.name for path in here.iterdir()) == ["runs"]  # no cache, no home, no MLflow store
    assert sorted(path.name for path in run.iterdir()) == [
        "manifest.json",
        "report.html",
        "run.lock",
        "traces.zst",
        "trials.jsonl",
    ]


def test_on_a_terminal_progress_is_a_live_view_that_leaves_nothing_behind(here):
    shown, terminal = pty.openpty()
    command = [sys.executable, "-m", "loopbench", "compare", *QUICK, "--json"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": terminal}
    with subprocess.Popen(command, cwd=here, env=environment(here, TERM="xterm"), **pipes) as child:
        os.close(terminal)
        seen = b""
        with contextlib.suppress(OSError):  # Linux: the other end was closed
            while piece := os.read(shown, 65_536):
                seen += piece
        os.close(shown)
        assert child.stdout is not None
        assert json.loads(child.stdout.read())["complete"] is True
    assert child.returncode == 0, seen
    assert b"6/6" in seen
    assert re.search(rb"bare/clean\S* +6 +1\.000 \[0\.\d\d, 1\.00\]", seen)
    left = seen.rpartition(b"\x1b[2K")[2].splitlines()
    assert [line.partition(b": ")[0] for line in left] == [b"page", b"run directory"]


def test_report_says_the_same_as_compare_in_every_form(loopbench, here):
    compared = loopbench("compare", *QUICK, "--profile", "flaky-tools", "--profile", "clean", "--json")
    assert compared.code == 0
    assert json.loads(loopbench("report", "latest", "--json").out) == json.loads(compared.out)
    run = only_run(here)
    assert loopbench("report", str(run), "--json").out == loopbench("report", run.name, "--json").out == compared.out
    rows = list(csv.DictReader(io.StringIO(loopbench("report", "latest", "--csv").out)))
    assert [row["arm"] for row in rows] == ["bare/flaky-tools", "bare/clean"]
    assert loopbench("report", "latest", "--markdown").out.startswith(f"## {run.name}\n\n### Arms\n\n| arm | scored |")
    table = loopbench("report", "latest")
    assert table.out.startswith("arithmetic 1: 6 tasks × 1, seed 0\n")
    assert "bare/flaky-tools" in table.out
    assert (table.err, table.code) == (f"page: runs/{run.name}/report.html\n", 0)


def test_quiet_is_quiet_and_flags_win_over_a_file(loopbench, here):
    (here / "run.toml").write_text(
        'loops = ["bare", "bare(check_types=true)"]\nsuite = "arithmetic(size=9)"\nmlflow = false\nruns = "elsewhere"\nseed = 4\n'
    )
    found = loopbench("compare", "--config", "run.toml", "--tasks", "2", "--seed", "5", "-q", "--json")
    made = json.loads(found.out)
    assert [arm["arm"] for arm in made["arms"]] == ["bare/clean", "bare(check_types=true)/clean"]
    assert [arm["options"] for arm in made["arms"]] == [{}, {"check_types": True}]
    assert {arm["trials"] for arm in made["arms"]} == {2}
    run = f"elsewhere/{Path(made['run']).name}"
    assert found.err.splitlines() == [f"page: {run}/report.html", f"run directory: {run}"]
    shown = loopbench("report", "latest", "--runs", "elsewhere")
    assert "2 tasks × 1, seed 5" in shown.out


def test_show_explains_a_trial_that_failed(loopbench, here):
    loopbench("compare", "--no-mlflow", "--loop", "bare", "--profile", "stubborn", "--suite", "arithmetic(size=30)", "-q")
    rows = [json.loads(line) for line in (only_run(here) / "trials.jsonl").read_text().splitlines()]
    failed = next(row for row in rows if row["stop"] == "error_valve" and "wire" in row["errors"])
    found = loopbench("show", "latest", failed["task"])
    assert found.code == 0
    for needed in (failed["faults"][0]["kind"], "── fault", "── unreadable", "── stop: error_valve", "expected: "):
        assert needed in found.out
    assert "\x1b" not in found.out
    whole = json.loads(loopbench("show", "latest", f"bare/stubborn/{failed['task']}/0", "--json").out)
    assert whole["stop"] == "error_valve"
    refused = loopbench("show", "latest", "bare/stubborn")
    assert (refused.code, "matches 30 trials" in refused.err) == (2, True)


def test_what_a_model_says_cannot_touch_the_terminal(loopbench, here, monkeypatch):
    (here / "own_dirty.py").write_text(LOOP.format(name="Dirty", answer="\x1b[2J\u202e<b>\ud800"))
    monkeypatch.syspath_prepend(here)
    loopbench("compare", *QUICK[:-1], "arithmetic(size=1)", "--loop", "own_dirty:Dirty")
    for arguments in (["show", "latest", "own_dirty:Dirty/clean"], ["report", "latest"], ["report", "latest", "--markdown"]):
        found = loopbench(*arguments)
        assert found.code == 0
        assert not {"\x1b", "\u202e"} & set(found.out)


@pytest.mark.parametrize("what", ["loops", "suites", "profiles", "metrics", "models"])
def test_everything_that_can_be_named_is_listed(loopbench, what):
    found = loopbench("list", what, "--json")
    entries = json.loads(found.out)
    assert (found.code, found.err) == (0, "")
    expected = {
        "loops": {"bare", "react_extract"},
        "suites": {"arithmetic", "gsm8k"},
        "profiles": {"bad-network", "clean", "flaky-format", "flaky-tools", "forgetful", "stubborn", "provider-trouble"},
        "metrics": {"accuracy", "steps", "exact", "numeric"},
        "models": {"scripted"},
    }[what]
    assert expected <= {entry["name"] for entry in entries}
    assert all(entry["summary"] for entry in entries)
    if what == "loops":
        assert all(option["doc"] for entry in entries for option in entry["options"])
    table = loopbench("list", what)
    assert all(entry["name"] in table.out for entry in entries)


def test_a_run_whose_faults_did_not_land_is_invalid(loopbench, here):
    from loopbench.metrics.record import FaultRecord, Record
    from loopbench.runs.store.journal import Journal

    loopbench("compare", *QUICK, "-q")
    run = only_run(here)
    rows = [Record.from_json(json.loads(line)) for line in (run / "trials.jsonl").read_text().splitlines()]
    (run / "trials.jsonl").unlink()
    with Journal(run) as journal:
        for row in rows:
            lost = Record(**{**row.to_json(), "faults": (FaultRecord("wire.empty", "decide:c1"),), "trace_at": None})
            journal.append(lost, b"")
    found = loopbench("report", "latest")
    assert (found.code, "This run is invalid" in found.out) == (4, True)


# --- code of the user's own ---


@pytest.mark.thorough
def test_own_code_runs_when_typed_and_is_not_imported_because_a_run_names_it(here):
    (here / "own_loop.py").write_text(LOOP.format(name="Mine", answer="not determined"))
    compared = ended(process(here, "compare", *QUICK[:-1], "arithmetic(size=12)", "--loop", "own_loop:Mine", "--json"))
    assert compared.code == 0, compared.err
    accuracies = {arm["arm"]: arm["accuracy"]["value"] for arm in json.loads(compared.out)["arms"]}
    assert accuracies == {"bare/clean": 1.0, "own_loop:Mine/clean": pytest.approx(1 / 12)}
    (here / "own_loop.py").write_text("from pathlib import Path\nPath('imported').touch()\n")
    shown = ended(process(here, "show", "latest", "own_loop:Mine/clean/arithmetic-0001"))
    assert (shown.code, "stop: finished" in shown.out) == (0, True)
    reported = ended(process(here, "report", "latest", "--json"))
    assert reported.out == compared.out
    assert not (here / "imported").exists()


def test_a_loop_of_ones_own_inside_another_is_not_imported_because_a_run_names_it(here, loopbench, monkeypatch):
    (here / "own_inner.py").write_text(LOOP.format(name="Mine", answer="1"))
    monkeypatch.syspath_prepend(here)
    guarded = 'repeat_guard(loop="own_inner:Mine")'
    assert loopbench("compare", "--no-mlflow", "--loop", guarded, "--suite", "arithmetic(size=2)", "-q").code == 0
    untyped = loopbench("resume", "latest", "-q")
    assert (untyped.code, untyped.out) == (2, "")
    assert "--allow own_inner:Mine" in untyped.err
    assert loopbench("resume", "latest", "-q", "--allow", "own_inner:Mine").code == 0


def test_a_resume_refuses_changed_code(here, loopbench, monkeypatch):
    (here / "own_changing.py").write_text(LOOP.format(name="Mine", answer="1"))
    monkeypatch.syspath_prepend(here)
    loopbench("compare", "--no-mlflow", "--loop", "own_changing:Mine", "--suite", "arithmetic(size=2)", "-q")
    untyped = loopbench("resume", "latest", "-q")
    assert (untyped.code, untyped.out) == (2, "")
    assert "type its name to let it be imported: --allow own_changing:Mine" in untyped.err
    assert loopbench("resume", "latest", "-q", "--allow", "own_changing:Mine").code == 0
    (here / "own_changing.py").write_text(LOOP.format(name="Mine", answer="2") + "# changed\n")
    before = (only_run(here) / "trials.jsonl").read_bytes()
    found = ended(process(here, "resume", "latest", "--allow", "own_changing:Mine"))
    assert (found.code, found.out) == (2, "")
    assert "changed since this run began: arm own_changing:Mine/clean (its code)" in found.err
    assert "results are never mixed, nothing was written" in found.err
    assert found.err.count("\n") == 1
    assert (only_run(here) / "trials.jsonl").read_bytes() == before


# --- interruption ---


def test_a_budget_stops_with_130_and_is_that_of_the_whole_run(loopbench, here):
    whole = json.loads(loopbench("compare", *QUICK, "--runs", "whole", "--json").out)
    found = loopbench("compare", *QUICK, "--budget-calls", "15", "--json")
    assert found.code == 130
    assert json.loads(found.out)["complete"] is False
    run = only_run(here)
    assert "budget of 15 model calls used up: " in found.err
    (command,) = re.findall(rf"\n  loopbench (resume runs/{run.name} --budget-calls \d+)\n", found.err)
    before = (run / "trials.jsonl").read_bytes()
    again = loopbench("resume", run.name, "-q")
    assert (again.code, (run / "trials.jsonl").read_bytes()) == (130, before)
    assert f"  loopbench {command}\n" in again.err
    assert loopbench(*command.split(), "-q").code == 0
    assert json.loads(loopbench("report", run.name, "--json").out)["digest"] == whole["digest"]


@pytest.mark.thorough
def test_ctrl_c_leaves_a_run_that_can_be_resumed(here):
    with running(
        here, "compare", "--no-mlflow", "--loop", "bare", "--suite", "arithmetic(size=300)", "--repeats", "200", "--json"
    ) as child:
        run = only_run(here)
        refused = ended(process(here, "resume", run.name))
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert "another process is writing to this run" in refused.err
        child.send_signal(signal.SIGINT)
        pressed = time.monotonic()
        found = ended(child)
    assert time.monotonic() - pressed < 20
    assert found.code == 130, found.err
    assert "Traceback" not in found.err
    assert "interrupted: " in found.err
    assert f"  loopbench resume runs/{run.name}\n" in found.err
    assert json.loads(found.out)["complete"] is False
    assert len(lines(run)) == len(set(lines(run))) == 60_000 - int(found.err.partition("interrupted: ")[2].split()[0])


@pytest.mark.thorough
def test_kills_at_any_moment_lose_nothing_and_do_nothing_twice(here):
    size = ["--no-mlflow", "--loop", "bare", "--suite", "arithmetic(size=300)", "--profile", "flaky-format", "--profile", "clean"]
    calm = ended(process(here, "compare", *size, "--runs", "calm", "--concurrency", "1", "--json", PYTHONHASHSEED="1"))
    assert calm.code == 0, calm.err
    moments = random.Random()
    with running(here, "compare", *size, "--concurrency", "64", "-q", PYTHONHASHSEED="2") as child:
        run = only_run(here)
        time.sleep(moments.uniform(0, 0.5))
    kept = [len((run / "trials.jsonl").read_bytes().splitlines())]
    for _ in range(2):
        with running(here, "resume", run.name, "-q") as child:
            waited = time.monotonic() + 30
            while child.poll() is None and time.monotonic() < waited:
                if len((run / "trials.jsonl").read_bytes().splitlines()) > kept[-1]:
                    time.sleep(moments.uniform(0, 0.3))
                    break
                time.sleep(0.02)
        kept.append(len((run / "trials.jsonl").read_bytes().splitlines()))
    finished = ended(process(here, "resume", run.name, "--json", PYTHONHASHSEED="3"))
    assert finished.code == 0, (kept, finished.err)
    assert len(lines(run)) == len(set(lines(run))) == 600, kept
    assert json.loads(finished.out)["digest"] == json.loads(calm.out)["digest"], kept
    assert json.loads(finished.out)["complete"] is True


# --- what a reader needs to see ---


def test_show_without_a_trial_lists_those_that_were_not_solved(here, loopbench):
    loopbench("compare", "--no-mlflow", "--profile", "flaky-format", "--tasks", "12", "-q")
    missed = json.loads(loopbench("show", "latest", "--json").out)
    lines = loopbench("show", "latest").out.splitlines()
    assert len(missed) > 0
    assert all(record["scores"]["accuracy"] < 1 for record in missed)
    assert [line.split()[0] for line in lines[:-1]] == [f"{r['arm']}/{r['task']}/{r['repeat']}" for r in missed]
    assert loopbench("show", "latest", lines[0].split()[0]).code == 0


def test_a_narrow_terminal_gets_a_line_per_column_and_loses_nothing(here, loopbench, monkeypatch):
    loopbench("compare", "--no-mlflow", "--profile", "flaky-tools", "--tasks", "6", "-q")
    monkeypatch.setenv("COLUMNS", "220")
    wide = loopbench("report", "latest").out
    monkeypatch.setenv("COLUMNS", "60")
    narrow = loopbench("report", "latest").out
    assert "\n  accuracy: " in narrow
    assert "\n  accuracy: " not in wide
    numbers = set(re.findall(r"\d[\d.]* \[[^\]]*\]", wide))
    assert len(numbers) > 8
    assert numbers == set(re.findall(r"\d[\d.]* \[[^\]]*\]", narrow))


def test_reasons_stand_under_the_table(here, loopbench, monkeypatch):
    monkeypatch.setenv("COLUMNS", "220")
    (here / "own_crash.py").write_text(LOOP.format(name="Mine", answer="").replace("return Outcome(", "return 1 / 0, Outcome("))
    monkeypatch.syspath_prepend(here)
    found = loopbench("compare", "--no-mlflow", "--loop", "own_crash:Mine", "--suite", "arithmetic(size=3)", "-q")
    assert "own_crash:Mine/clean, crashed: 3 × ZeroDivisionError: division by zero" in found.out


def test_a_suite_with_an_unknown_scorer_is_refused_before_anything_runs(here, loopbench, monkeypatch):
    (here / "own_suite.py").write_text(
        "from dataclasses import replace\n"
        "from loopbench.datasets import arithmetic\n"
        "def load():\n"
        "    suite = arithmetic.load(size=2)\n"
        "    return replace(suite, tasks=tuple(replace(task, scorer='numerik') for task in suite.tasks))\n"
        "def broken():\n"
        "    raise KeyError('nothing here')\n"
    )
    monkeypatch.syspath_prepend(here)
    for suite, said in (("own_suite:load", "unknown scorer 'numerik'"), ("own_suite:broken", "KeyError: 'nothing here'")):
        found = loopbench("compare", "--no-mlflow", "--suite", suite, "-q")
        assert (found.code, found.out) == (2, "")
        assert said in found.err
    assert not (here / "runs").exists()
