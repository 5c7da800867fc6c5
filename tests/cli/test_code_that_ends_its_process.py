"""What a command answers does not depend on what code of the user's own does to the process that it runs in."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from whichloop.runs.silent_end import told_of_exit

LOOP = """
import ctypes
import json
import os
import subprocess
import sys
import sys
from dataclasses import dataclass

from whichloop.loops import Bare
from whichloop.protocol import Outcome, StopReason


def patch():
    json.loads = json.dumps = lambda *given, **options: 1 / 0


def mute():
    json.loads, json.dumps = lambda *given, **options: {}, lambda *given, **options: "{}"


def close():
    sys.stdout.close()
    os.close(1)


ACTIONS = {
    "nothing": lambda: None,
    "_exit": lambda: os._exit(0),
    "abort": os.abort,
    "segfault": lambda: ctypes.string_at(0),
    "exit": lambda: sys.exit(0),
    "recursion": lambda: sys.setrecursionlimit(70),
    "patch": patch,
    "mute": mute,
    "close": close,
}


@dataclass(frozen=True)
class Own:
    action: str = "nothing"
    name = "own"
    stops = frozenset()

    def with_step_limit(self, tool_steps):
        return self

    async def run(self, query, tools, model, observer=None):
        await Bare().run(query, tools, model)
        with open("before", "a") as file:
            file.write(f"{os.getpid()}\\n")
        ACTIONS[self.action]()
        return Outcome("1", StopReason.FINISHED, 0)
"""

ACTIONS = [
    "_exit",
    pytest.param("abort", marks=pytest.mark.slow),
    pytest.param("segfault", marks=pytest.mark.slow),
]


@pytest.fixture
def own(here, monkeypatch):
    """The module `own_ending` in the current directory."""
    (here / "own_ending.py").write_text(LOOP)
    monkeypatch.syspath_prepend(here)


def compare(whichloop, action, *more):
    loop = f"own_ending:Own(action={action})"
    return whichloop("compare", "--loop", loop, "--suite", "arithmetic(size=1)", "--profile", "clean", "-q", *more)


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("action", ACTIONS)
def test_a_gate_is_not_passed_by_dying(whichloop, here, action):
    assert compare(whichloop, "nothing").code == 0
    assert whichloop("gate", "latest", "--bless", "--output", "base.json").code == 0
    gated = whichloop("gate", "--baseline", "base.json", "--loop", f"own_ending:Own(action={action})", "-q")
    if action == "_exit":  # it can be told whose doing that is: the loop's, which lost no trial before
        assert gated.code == 1
        assert gated.out.startswith("regression: own_ending:Own(action=_exit)/clean: new crashes in 1 of 1 trials: SystemExit: ")
    else:
        assert gated.code == 4
        assert f"its worker process died ({({'abort': 'signal 6', 'segfault': 'signal 11'})[action]}) three times" in gated.out
    assert "Traceback" not in gated.err


@pytest.mark.usefixtures("own")
def test_a_comparison_without_a_result_is_invalid_and_can_be_resumed(whichloop, here):
    compared = compare(whichloop, "abort", "--json")
    assert compared.code == 4
    assert json.loads(compared.out)["arms"][0]["errored"] == 1
    (here / "before").unlink()
    resumed = whichloop("resume", "latest", "-q", "--allow", "own_ending:Own", "--retry", "infrastructure")
    assert resumed.code == 4
    assert (here / "before").read_text().count("\n") == 3


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    "action",
    ["_exit", "patch", *(pytest.param(action, marks=pytest.mark.slow) for action in ("recursion", "close", "exit", "mute"))],
)
def test_what_a_loop_changes_does_not_reach_the_results(whichloop, here, action):
    compared = compare(whichloop, action, "--json")
    assert compared.code == (4 if action in ("exit", "_exit") else 0)  # the only trial crashed
    found = json.loads(compared.out)
    arm, told = found["arms"][0], {each["code"] for each in found["warnings"]}
    assert (arm["scored"], arm["errored"]) == (1, 0)
    assert action != "patch" or "broken laws" in told, "its answer is never right: that is checked in a process of its own, too"
    assert arm["errors"] == ({"crash": 1} if action in ("exit", "_exit") else {})
    assert "Traceback" not in compared.err
    assert len(list(here.glob("runs/*/report.html"))) == 1


def test_a_module_of_the_current_directory_runs_in_a_worker_too(whichloop, here):
    """Though the directory is not on the command's own search path."""
    (here / "own_ending.py").write_text(LOOP)
    compared = compare(whichloop, "recursion")
    assert compared.code == 0
    assert "Traceback" not in compared.err
    assert (here / "before").read_text() != f"{os.getpid()}\n"


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["compare", "--suite", "arithmetic(size=1)", "--loop"], marks=pytest.mark.slow),
        ["check", "loop"],
    ],
)
def test_a_module_that_leaves_when_it_is_imported_is_an_error(machine, here, command):
    (here / "own_leaving.py").write_text("import os\nos._exit(0)\n")
    ended = machine.run(*command, "own_leaving:Own")
    assert (ended.code, ended.out) == (2, "")
    assert "importing own_leaving failed: SystemExit: code of a loop, a tool or a suite called os._exit(0)" in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.usefixtures("own")
def test_a_forked_process_of_a_loops_own_may_leave(here):
    with told_of_exit():
        child = os.fork()
        if child == 0:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert os._exit.__module__ == "posix"


@pytest.mark.usefixtures("own")
def test_built_in_loops_stay_in_the_process_of_the_command(whichloop, monkeypatch):
    def refuse(*given):
        raise AssertionError("a worker was started")

    monkeypatch.setattr("whichloop.runs.engine.engine.ProcessLink", refuse)
    assert whichloop("compare", "--loop", "bare", "--suite", "arithmetic(size=1)", "-q").code == 0


def test_a_watchdog_ends_a_process_in_which_code_of_a_users_own_is_at_work():
    """As pytest-timeout does: an exception in its thread would be no end."""
    code = (
        "import os, threading, time\n"
        "from whichloop.runs.silent_end import told_of_exit\n"
        "with told_of_exit():\n"
        "    threading.Timer(0.1, os._exit, ({},)).start()\n"
        "    time.sleep(30)\n"
    )
    for status, ended in ((1, 1), (0, 4)):
        assert subprocess.run([sys.executable, "-c", code.format(status)], check=False).returncode == ended
