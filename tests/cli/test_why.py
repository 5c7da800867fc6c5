"""`whichloop report --why`, from the runs of real loops to the line that is printed."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kept import execute, put, rows
from whichloop.cli.main import main
from whichloop.runs.store.trials import read_records, read_trace

pytestmark = pytest.mark.thorough

SIZE = ("--profile", "flaky-format", "--profile", "forgetful", "--tasks", "12", "--seed", "1", "--quiet")
LOOPS = ("--loop", "bare", "--loop", "react_extract")


@pytest.fixture(scope="module")
def run_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder `runs` with one comparison, for this module's tests to copy."""
    runs: Path = tmp_path_factory.mktemp("why") / "runs"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(runs.parent)
        patch.setattr(sys, "argv", ["whichloop", "compare", *LOOPS, *SIZE])
        with pytest.raises(SystemExit) as left:
            main()
    assert not left.value.code
    return runs


@pytest.fixture
def compared(whichloop: Callable[..., Any], run_once: Path) -> Callable[..., Any]:
    shutil.copytree(run_once, "runs")
    return whichloop


def run_folder() -> Path:
    (folder,) = (path for path in Path("runs").iterdir() if path.is_dir())
    return folder


def test_arms_that_did_the_same_are_told(whichloop):
    loops = ("--loop", "bare", "--loop", "provider_retry(loop=bare)", "--profile", "flaky-format", "--tasks", "12")
    whichloop("compare", *loops, "--quiet")
    told = whichloop("report", "--why", "latest", "--json").json
    assert told["same"] == {"provider_retry(loop=bare)/flaky-format": "bare/flaky-format"}
    assert "provider_retry(loop=bare)/flaky-format = bare/flaky-format" in whichloop("report", "--why", "latest").out


@pytest.mark.slow
def test_losses_under_a_profile_that_does_not_apply_say_so(whichloop):
    own = ("--loop", "finish", "--loop", "bare", "--profile", "text-2024", "--tasks", "30", "--quiet")
    whichloop("compare", *own)
    assert re.search(r"^Warning .*: finish/text-2024$", whichloop("report", "--why", "latest").out, re.MULTILINE)
    assert "Warning" not in whichloop("report", "--why", "latest", "--arm", "bare").out


def test_the_answer_fits_80_columns_and_its_commands_run(compared, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = compared("report", "--why", "latest").out.splitlines()
    assert len(lines) <= 24
    assert all(len(line) <= 80 or " whichloop " in line for line in lines)  # a command is whole
    monkeypatch.setenv("COLUMNS", "200")
    for more, least in (((), 1), (("-v",), 2), (("--arm", "react_extract", "--arm", "bare"), 2)):
        out = compared("report", "--why", "latest", *more).out
        commands = re.findall(r"^show +(whichloop show .*)$", out, re.MULTILINE)
        assert len(commands) >= least
        causes = re.findall(r"^([a-z ]+?)  +step (\d+).*\nshow", out, re.MULTILINE)
        for command, (cause, step) in zip(commands, causes, strict=True):
            shown = compared(*shlex.split(command)[1:]).out
            assert f"step {step}" in shown or re.search(rf"^ *{step}\. .* → ", shown, re.MULTILINE)
            assert len(more) == 4 or f"{cause}, step {step}: " in shown


def test_one_object_for_scripts(compared):
    told = compared("report", "--why", "latest", "--json").json
    assert set(told) == {"run", "pairs", "arms", "untraced", "findings", "same"}
    assert [(pair["a"], pair["b"]) for pair in told["pairs"]] == [
        ("bare/flaky-format", "react_extract/flaky-format"),
        ("bare/forgetful", "react_extract/forgetful"),
    ]
    for pair in told["pairs"]:
        assert len(pair["divergences"]) == pair["only_a"] + pair["only_b"]
        assert all(
            set(one) == {"winner", "loser", "task", "repeat", "step", "parts_at", "cause", "detail", "stop", "fault"}
            for one in pair["divergences"]
        )
    assert {group["profile"] for group in told["findings"]} == {"flaky-format", "forgetful"}


def test_an_arm_a_loop_and_a_trial(compared):
    arm = compared("report", "--why", "latest", "--arm", "react_extract/flaky-format", "--json").json
    assert (arm["pairs"], [one["arm"] for one in arm["arms"]]) == ([], ["react_extract/flaky-format"])
    loop = compared("report", "--why", "latest", "--arm", "react_extract", "--json").json
    assert [one["arm"] for one in loop["arms"]] == ["react_extract/flaky-format", "react_extract/forgetful"]
    example = arm["arms"][0]["examples"][0]
    trial = f"react_extract/flaky-format/{example['task']}/{example['repeat']}"
    told = compared("show", "latest", trial, "--json").json
    assert {name: told[name] for name in ("cause", "step", "detail", "fault")} == {
        name: example[name] for name in ("cause", "step", "detail", "fault")
    }
    said = " ".join(compared("show", "latest", trial).out.split())
    assert f"{example['cause']}, step {example['step']}: {example['detail']}" in said


def test_a_step_of_a_lost_trial_has_the_same_number_in_every_command(compared):
    assert compared("compare", "--loop", "bare", *SIZE, "-s", "name=old").code == 0
    assert compared("gate", "old", "--bless", "--output", "bare.json").code == 0
    rerun = ("--loop", "react_extract", "--quiet", "--json")
    changed = {
        f"{each['arm']}/{each['task']}/{each['repeat']}": each
        for each in json.loads(compared("gate", "--baseline", "bare.json", *rerun).out)["tasks"]
        if each["cause"]
    }
    both = next(str(path) for path in Path("runs").iterdir() if path.is_dir() and len(read_records(path)) == 48)
    alone = {
        f"{arm['arm']}/{each['task']}/{each['repeat']}": each
        for arm in compared("report", "--why", both, "--arm", "react_extract", "--json").json["arms"]
        for each in arm["examples"]
    }
    pairs = compared("report", "--why", both, "--arm", "bare", "--arm", "react_extract", "--json").json["pairs"]
    parted = [each for pair in pairs for each in pair["divergences"]]
    trials = {f"{each['loser']}/{each['task']}/{each['repeat']}": each for each in parted if each["loser"].startswith("react")}
    assert len(trials) > 3
    assert set(trials) == set(changed)  # the same loop against the same one, in one run and in two
    assert any(each["step"] != each["parts_at"] for each in trials.values())
    for name, each in trials.items():
        assert each["cause"] == alone[name]["cause"] == changed[name]["cause"]
        assert each["step"] == alone[name]["step"] == changed[name]["step"]
    for name, each in list(trials.items())[:3]:
        assert f"{each['cause']}, step {each['step']}: " in compared("show", both, name).out


def test_with_one_task_no_other_is_told_of(compared):
    told = compared("report", "--why", "latest", "--task", "arithmetic-0008", "--json").json
    assert {one["task"] for pair in told["pairs"] for one in pair["divergences"]} <= {"arithmetic-0008"}
    assert all(group["tasks"] == 1 for group in told["findings"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--arm", "nope"), "no arm 'nope'; there are "),
        (("--arm", "react_extrct"), "no arm 'react_extrct'; did you mean 'react_extract'? there are "),
        (("--arm", "bare/nope"), "no arm 'bare/nope'; did you mean 'bare'? there are "),
        (("--arm", "nope", "--arm", "bare"), "no arm 'nope'; there are bare/flaky-format, "),
        (("--arm", "bare/flaky-format", "--arm", "react_extract/forgetful"), "are not two arms with the same tasks and profile"),
        (("--arm", "bare", "--arm", "bare"), "are not two arms with the same tasks and profile"),
        (("--task", "nope"), "no trial of a task 'nope'"),
        (("--task", "arith"), "'arith' matches "),
        (("--arm", "flaky"), "'flaky' matches "),
    ],
)
def test_what_is_not_there_is_said_in_a_line(compared, words, says):
    ended = compared("report", "--why", "latest", *words)
    assert ended.code == 2
    assert says in ended.err
    assert ended.err.count("\n") == 1


def test_a_run_without_traces_still_tells_about_its_tasks(compared):
    put(run_folder(), [row | {"trace_at": 0} for row in rows(run_folder())])
    out = compared("report", "--why", "latest", "-v").out
    assert re.search(r"^Untraced +\d+ lost trials: the step is not known$", out, re.MULTILINE)
    assert "arithmetic, flaky-format: 12 tasks" in out


def test_results_of_another_tool_are_told_too(whichloop):
    rows = ["arm,task,repeat,score", "a,t1,0,1", "a,t2,0,0", "b,t1,0,0", "b,t2,0,0"]
    Path("results.csv").write_text("\n".join(rows) + "\n")
    assert whichloop("import", "results.csv", "--name", "imported").code == 0
    ended = whichloop("report", "--why", "imported", "-v")
    assert ended.code == 0, ended.err
    assert "3 lost trials: the step is not known" in ended.out
    assert "unsolved (expected answer?)" in ended.out
    (pair,) = whichloop("report", "--why", "imported", "--json").json["pairs"]
    assert [pair[name] for name in ("both", "only_a", "only_b", "neither", "tasks")] == [0, 1, 0, 1, 1]


def rewrite(change: Callable[[bytes], bytes]) -> None:
    """Put changed traces in the place of a run's own."""
    folder = run_folder()
    records = list(read_records(folder))
    traces = [
        change(json.dumps(read_trace(folder, record).to_json(), separators=(",", ":")).encode()) + b"\n" for record in records
    ]
    put(folder, records, traces)


def test_a_damaged_trace_is_one_line(compared):
    rewrite(lambda trace: trace.replace(b'"role":"decide"', b'"role":["...."]'))
    ended = compared("report", "--why", "latest")
    assert ended.code == 2
    assert re.search(r"trials.sqlite: trial \S+: event \d+ of the trace: role: Input should be a valid string$", ended.err.strip())


def test_a_damaged_file_of_traces_is_one_line(compared):
    execute(run_folder(), "UPDATE traces SET trace = x'00'")
    ended = compared("report", "--why", "latest")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert re.search(r"trials.sqlite: trace of \S+: its checksum does not fit, ", ended.err.strip())


def test_control_characters_of_a_model_reach_no_terminal(compared):
    """A tool that a model made up, or anything else in a trace, may hold them."""
    named = re.compile(rb'"(name|tool)":"(\w+)"')
    rewrite(lambda trace: named.sub(rb'"\1":"\2\\u001b[2J\\u009b"', trace))
    ended = compared("report", "--why", "latest", "-v")
    assert ended.code == 0, ended.err
    assert "[2J" in ended.out  # it was told
    assert "\x1b" not in ended.out
    assert "\x9b" not in ended.out
