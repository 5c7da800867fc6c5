"""No command ends with exit code 0 and without a result, whatever code of the user's own does to the process that it runs in."""

from __future__ import annotations

import json
import signal

import pytest

from tests.kept import rows

MODULE = '''
import ctypes
import os
import posix
import sys
import threading
from dataclasses import dataclass

from whichloop.datasets.arithmetic import load
from whichloop.loops.bare import Bare

WAYS = {
    "leave": lambda: posix._exit(0),
    "abort": os.abort,
    "segfault": lambda: ctypes.string_at(0),
    "exit": lambda: sys.exit(0),
}


def reach(place):
    if os.environ.get("DIES_AT") == place:
        WAYS[os.environ["DIES_BY"]]()


class Own(Bare):
    def __init__(self, **options):
        reach("loop")
        super().__init__(**options)

    async def run(self, *given, **named):
        reach("run")
        return await super().run(*given, **named)


def suite():
    reach("suite")
    return load(size=2)


def scorer(judgement):
    reach("scorer")
    return 1.0


def price(item: str) -> float:
    """Price of one item."""
    reach("tool")
    return 1.5


TOOLS = [price]
reach("import")
'''
COMPARE = ["compare", "--profile", "clean", "-q", "--suite", "arithmetic(size=1)", "--loop"]
OPTIMIZE = ["optimize", "-q", "--suite", "arithmetic(size=60)", "--profile", "teachable", "--train", "4"]
OPTIMIZE += ["--dev", "4", "--tasks", "4", "--repeats", "1", "--budget", "60calls", "--loop"]
DATA = ["--data", "one.jsonl", "--tools", "own_dying"]
SCORED = ['jsonl(scorer="own_dying:scorer")', "--data", "scored.jsonl", "--tools", "own_dying"]
TASK = {
    "id": "a",
    "query": {"text": "What does it cost?"},
    "expected": 1.5,
    "plan": {
        "calls": [{"id": "c1", "tool": "price", "arguments": {"item": "lamp"}, "goal": "Look up the lamp."}],
        "answer": {"$ref": "c1"},
    },
}
slow = pytest.mark.slow

BAD_INPUT, INVALID = 2, 4
SIGNALS = {"abort": signal.SIGABRT, "segfault": signal.SIGSEGV}


@pytest.fixture
def own(here):
    """The module `own_dying`, and a task that calls its tool."""
    (here / "own_dying.py").write_text(MODULE)
    (here / "one.jsonl").write_text(json.dumps(TASK) + "\n")
    (here / "scored.jsonl").write_text(json.dumps(TASK | {"scorer": "own_dying:scorer"}) + "\n")
    return here


def assert_no_success(ended, way, code=INVALID):
    """What kills the process ends it as a signal does; what Python can tell is one line."""
    if way in SIGNALS:
        assert (ended.code, ended.out) == (-SIGNALS[way], "")
        return
    assert (ended.code, ended.out) == (code, ""), ended.err
    assert {"exit": "called sys.exit(0)", "leave": "called os._exit(0)"}[way] in ended.err
    assert ended.err.count("\n") == 1
    assert "Traceback" not in ended.err


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    "command",
    [
        [*COMPARE, "own_dying:Own"],
        pytest.param(["check", "suite", "own_dying:suite"], marks=slow),
        pytest.param(["check", "loop", "own_dying:Own"], marks=slow),
        pytest.param([*OPTIMIZE, "own_dying:Own"], marks=slow),
        pytest.param(["serve", "--suite", "own_dying:suite", "--port", "0"], marks=slow),
        pytest.param(["compare", "--loop", "own_dying:Own", "--vary", "answer_retries=0,1", "-q"], marks=slow),
    ],
    ids=lambda command: " ".join(command[:2]),
)
@pytest.mark.parametrize("way", ["segfault", "leave", *(pytest.param(way, marks=slow) for way in ("abort", "exit"))])
def test_a_module_that_ends_its_process_when_it_is_imported_ends_no_command_in_success(machine, command, way):
    ended = machine.run(*command, DIES_AT="import", DIES_BY=way)
    if way == "exit":
        assert (ended.code, "importing own_dying failed: SystemExit: 0" in ended.err) == (BAD_INPUT, True)
    else:
        assert_no_success(ended, way, BAD_INPUT if way == "leave" else INVALID)


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("place", "way", "command"),
    [
        ("suite", "exit", ["compare", "-q", "--suite", "own_dying:suite", "--loop", "bare", "--profile", "clean"]),
        pytest.param("loop", "segfault", [*COMPARE, "own_dying:Own"], marks=slow),
        pytest.param("suite", "exit", ["serve", "--suite", "own_dying:suite", "--port", "0"], marks=slow),
        pytest.param("tool", "abort", ["check", "suite", "jsonl", *DATA, "--run-tools", "--json"], marks=slow),
        pytest.param("scorer", "exit", ["check", "suite", *SCORED, "--json"], marks=slow),
    ],
)
def test_code_that_ends_its_process_later_ends_no_command_in_success(machine, place, way, command):
    ended = machine.run(*command, DIES_AT=place, DIES_BY=way)
    assert_no_success(ended, way)


@pytest.mark.usefixtures("own")
def test_a_loop_that_ends_its_process_breaks_the_laws(machine):
    ended = machine.run("check", "loop", "own_dying:Own", "--json", DIES_AT="run", DIES_BY="leave")
    law = json.loads(ended.out)["findings"][0]
    assert (ended.code, law["status"], "called os._exit(0)" in law["detail"]) == (1, "failed", True)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.usefixtures("own")
def test_a_gate_is_not_passed_by_a_module_that_ends_its_process(machine):
    assert machine.run(*COMPARE, "own_dying:Own").code == 0
    assert machine.run("gate", "latest", "--bless", "--output", "base.json").code == 0
    gate = ["gate", "--baseline", "base.json", "--allow", "own_dying:Own", "-q"]
    assert machine.run(*gate).code == 0
    assert_no_success(machine.run(*gate, DIES_AT="import", DIES_BY="segfault"), "segfault")


@pytest.mark.thorough
def test_a_scorer_that_ends_its_process_leaves_a_run_that_can_be_judged_again(machine, own):
    assert machine.run("compare", "--profile", "clean", "-q", "--loop", "bare", "--suite", *SCORED).code == 0
    before = rows(machine.only_run())
    again = ["resume", "latest", "--rescore", "--allow", "own_dying:scorer", "--allow", "own_dying"]
    assert_no_success(machine.run(*again, DIES_AT="scorer", DIES_BY="segfault"), "segfault")
    assert rows(machine.only_run()) == before
    assert machine.run(*again).code == 0


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=slow)])
def test_a_signal_to_the_command_ends_its_run_in_order(machine, own, number):
    with machine.running(*COMPARE[:-3], "--suite", "arithmetic(size=40)", "--repeats", "150", "--loop", "own_dying:Own") as child:
        run = machine.only_run()
        child.send_signal(number)
        ended = machine.ended(child)
    assert ended.code == 130, ended.err
    assert "Traceback" not in ended.err
    assert "interrupted: " in ended.err
    assert f"  whichloop resume runs/{run.name} --allow own_dying:Own\n" in ended.err
