"""Code of the user's own that crashes, never asks its model or ends its process: no command ends in success for it."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.kept import rows
from whichloop.experiments.compare import run

MODULE = '''
import ctypes
import os
import posix
from whichloop.loops.bare import Bare

WAYS = {"leave": lambda: posix._exit(0), "segfault": lambda: ctypes.string_at(0)}

def reach(place):
    if os.environ.get("DIES_AT") == place:
        WAYS[os.environ["DIES_BY"]]()

class Own(Bare):
    pass

def scorer(judgement):
    reach("scorer")
    return 1.0

def price(item: str) -> float:
    """Price of one item."""
    return 1.5

TOOLS = [price]
reach("import")
'''
COMPARE_ONE = ["compare", "--profile", "clean", "-q", "--suite", "arithmetic(size=1)", "--loop", "own_dying:Own"]
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

BAD_INPUT, INVALID = 2, 4
SIGNALS = {"segfault": signal.SIGSEGV}


@pytest.fixture
def own_dying(here):
    """The module `own_dying`, and a task that calls its tool."""
    (here / "own_dying.py").write_text(MODULE)
    (here / "scored.jsonl").write_text(json.dumps(TASK | {"scorer": "own_dying:scorer"}) + "\n")
    return here


def assert_no_success(ended, way, code=INVALID):
    """What kills the process ends it as a signal does; what Python can tell is one line."""
    if way in SIGNALS:
        assert (ended.code, ended.out) == (-SIGNALS[way], "")
        return
    assert (ended.code, ended.out) == (code, ""), ended.err
    assert "called os._exit(0)" in ended.err
    assert ended.err.count("\n") == 1
    assert "Traceback" not in ended.err


@pytest.mark.usefixtures("own_dying")
@pytest.mark.parametrize("way", ["leave", "segfault"])
def test_a_module_that_ends_its_process_when_it_is_imported_ends_no_command_in_success(machine, way):
    assert_no_success(machine.run(*COMPARE_ONE, DIES_AT="import", DIES_BY=way), way, BAD_INPUT if way == "leave" else INVALID)


def test_a_scorer_that_ends_its_process_leaves_a_run_that_can_be_judged_again(machine, whichloop, own_dying, monkeypatch):
    monkeypatch.syspath_prepend(own_dying)
    assert whichloop("compare", "--profile", "clean", "-q", "--loop", "bare", "--suite", *SCORED).code == 0
    before = rows(machine.only_run())
    again = ["resume", "latest", "--rescore", "--allow", "own_dying:scorer", "--allow", "own_dying"]
    assert_no_success(machine.run(*again, DIES_AT="scorer", DIES_BY="segfault"), "segfault")
    assert rows(machine.only_run()) == before
    assert whichloop(*again).code == 0


ENDING = """
import json
import os
from dataclasses import dataclass
from whichloop.loops import Bare
from whichloop.protocol import Outcome, StopReason

def patch():
    json.loads = json.dumps = lambda *given, **options: 1 / 0

ENDINGS = {"nothing": lambda: None, "_exit": lambda: os._exit(0), "abort": os.abort, "patch": patch}

@dataclass(frozen=True)
class Own:
    action: str = "nothing"
    name = "own"
    stops = frozenset()

    def with_step_limit(self, tool_steps):
        return self

    async def run(self, query, tools, model, observer=None):
        await Bare().run(query, tools, model)
        ENDINGS[self.action]()
        return Outcome("1", StopReason.FINISHED, 0)
"""
NOTE_BROKEN_LAWS = run._note_broken_laws
"""Which the command of these tests leaves out otherwise."""


@pytest.fixture
def own_ending(here, monkeypatch):
    """The module `own_ending` in the current directory."""
    (here / "own_ending.py").write_text(ENDING)
    monkeypatch.syspath_prepend(here)


def compare(whichloop, action, *more):
    loop = f"own_ending:Own(action={action})"
    return whichloop("compare", "--loop", loop, "--suite", "arithmetic(size=1)", "--profile", "clean", "-q", *more)


@pytest.mark.usefixtures("own_ending")
@pytest.mark.parametrize("action", ["_exit", pytest.param("abort", marks=pytest.mark.slow)])
def test_a_gate_is_not_passed_by_dying(whichloop, here, action):
    assert compare(whichloop, "nothing").code == 0
    assert whichloop("gate", "latest", "--bless", "--output", "base.json").code == 0
    gated = whichloop("gate", "--baseline", "base.json", "--loop", f"own_ending:Own(action={action})", "-q")
    if action == "_exit":  # it can be told whose doing that is: the loop's, which lost no trial before
        assert gated.code == 1
        assert gated.out.startswith("regression: own_ending:Own(action=_exit)/clean: new crashes in 1 of 1 trials: SystemExit: ")
    else:
        assert gated.code == 4
        assert "its worker process died (signal 6) three times" in gated.out
    assert "Traceback" not in gated.err


@pytest.mark.usefixtures("own_ending")
@pytest.mark.parametrize("action", ["_exit", "patch"])
def test_what_a_loop_changes_does_not_reach_the_results(whichloop, here, monkeypatch, action):
    monkeypatch.setattr(run, "_note_broken_laws", NOTE_BROKEN_LAWS)
    compared = compare(whichloop, action, "--json")
    assert compared.code == (4 if action == "_exit" else 0)  # the only trial crashed
    found = json.loads(compared.out)
    arm, told = found["arms"][0], {each["code"] for each in found["warnings"]}
    assert (arm["scored"], arm["errored"]) == (1, 0)
    assert ("broken laws" in told) == (action == "patch")  # its answer is never right; a crash is told as one
    assert arm["errors"] == ({"crash": 1} if action == "_exit" else {})
    assert "Traceback" not in compared.err
    assert len(list(here.glob("runs/*/report.html"))) == 1


LOOPS = """
from whichloop.loops import Bare

class Boom(Bare):
    name = "boom"

    async def run(self, query, toolbox, model, *args, **kwargs):
        raise KeyError('no such key')
"""
SILENT_LOOP = LOOPS.replace("raise KeyError('no such key')", "return Outcome('42', StopReason.FINISHED, 0)").replace(
    "import Bare\n", "import Bare\nfrom whichloop.protocol import Outcome, StopReason\n"
)
QUICK = ["--suite", "arithmetic(size=3)", "-q", "--profile", "clean"]
SMALL_SEARCH = ["--train", "3", "--dev", "3", "--tasks", "3", "--repeats", "1", "--optimizer", "LabeledFewShot"]
SMALL_SEARCH += ["--budget", "60calls"]


@pytest.fixture
def own_code(here: Path) -> None:
    (here / "own_loops.py").write_text(LOOPS)


@pytest.mark.usefixtures("own_code")
def test_an_arm_that_always_crashes_is_told_first_and_ends_with_4_beside_healthy_ones(whichloop):
    ended = whichloop("compare", "--loop", "own_loops:Boom", "--loop", "bare", "--loop", "finish", *QUICK)
    (warning,) = [line for line in ended.out.splitlines() if "every trial crashed" in line]
    assert warning.startswith("Warning ")
    assert "no such key" in warning
    assert ended.code == 4
    again = whichloop("report", "latest", "--json")
    said = json.loads(again.out)
    assert again.code == 4
    assert said["warnings"][0]["code"] == "always crashed"
    assert said["warnings"][0]["text"] in warning
    assert said["invalid"] is False  # the verdict on the two others holds
    (dead,) = said["dead_arms"]
    assert (dead["cause"], said["warnings"][0]["text"].startswith(dead["arm"])) == ("crashed", True)
    assert [{pair["a"], pair["b"]} for pair in said["pairs"][:1]] == [{"bare/clean", "finish/clean"}]


def test_loops_that_never_ask_their_model_are_told_and_end_with_4_too(whichloop, here):
    (here / "own_loops.py").write_text(SILENT_LOOP)
    silent = ["own_loops:Boom(max_consecutive_errors=2)", "own_loops:Boom(max_consecutive_errors=3)"]
    compared = whichloop("compare", "--loop", silent[0], "--loop", silent[1], "--loop", "bare", *QUICK)
    for loop in silent:
        assert f"{loop}/clean: never asked its model in 3 trials" in compared.out
    said = whichloop("report", "latest", "--json")
    resumed = whichloop("resume", "latest", "--allow", "own_loops:Boom", "-q")
    assert (compared.code, said.code, resumed.code) == (4, 4, 4)
    assert [each["code"] for each in json.loads(said.out)["warnings"][:2]] == ["never asked"] * 2
    assert json.loads(said.out)["invalid"] is False


@pytest.mark.usefixtures("own_code")
def test_an_optimization_ends_as_the_report_of_its_test_does(whichloop):
    designs = ["--loop", "bare", "--loop", "own_loops:Boom"]
    searched = whichloop("optimize", *designs, *SMALL_SEARCH, "-q", "--json")
    dead = json.loads(searched.out)["test"]["dead_arms"]
    assert [(each["arm"].partition("/")[0], each["cause"]) for each in dead] == [
        ("own_loops:Boom", "crashed"),
        ("own_loops:Boom@optimized.json", "crashed"),
    ]
    again = whichloop("report", "latest")
    of_test = whichloop("report", "latest/test")
    assert (searched.code, again.code, of_test.code) == (4, 4, 4)
    assert json.loads(searched.out)["invalid"] is False
    warned = [text.strip() for label, _, text in (line.partition(" ") for line in again.out.splitlines()) if label == "Warning"]
    assert all(each["sentence"] in warned for each in dead)
