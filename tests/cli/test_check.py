"""`check`, which finds out what it is given: loops, suites and programs; and `init --loop`, end to end."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.checks.loop.altered_loops import judged_here
from tests.prepared import said_by
from whichloop.checks.any import KINDS, check, told
from whichloop.checks.loop import LAWS
from whichloop.datasets import arithmetic
from whichloop.loops.bare import Bare

SPENDTHRIFT = """
from whichloop.checks.loop.template_loop import TemplateLoop
from whichloop.protocol import BudgetExceeded, Outcome, StopReason

class Spendthrift(TemplateLoop):
    async def run(self, *given):
        try:
            return await super().run(*given)
        except BudgetExceeded:
            return Outcome(None, StopReason.MAX_STEPS, 0)
"""


@pytest.fixture
def whichloop(whichloop: Callable[..., Any]) -> Callable[..., Any]:
    """The same; what the laws find is for other tests."""

    def call(*arguments: str) -> Any:
        with judged_here():
            return whichloop(*arguments)

    return call


def test_a_design_that_keeps_every_law_passes(whichloop):
    ended = whichloop("check", "bare(max_steps=7)")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines() == ["loop bare(max_steps=7)", f"Hold       {len(LAWS)} of {len(LAWS)} laws"]
    in_full = whichloop("check", "loop", "bare(max_steps=7)", "-v").out
    assert all(re.search(rf"^{law.name} +ok ", in_full, re.MULTILINE) for law in LAWS)


def test_a_law_that_does_not_hold_is_told_with_a_counterexample(whichloop, tmp_path):
    (tmp_path / "spending.py").write_text(SPENDTHRIFT)
    ended = whichloop("check", "spending:Spendthrift")
    assert (ended.code, ended.err) == (1, "")
    says = "BudgetExceeded at model call 1: run() returned an Outcome with stop max_steps; the exception must leave it"
    assert re.search(rf"^budget +FAILED +{re.escape(says)}", ended.out, re.MULTILINE)
    assert ended.out.splitlines()[-1] == f"Broken     1 of {len(LAWS)} laws"


HANGS = """
import asyncio, threading
from whichloop.checks.loop.template_loop import TemplateLoop

class InThread(TemplateLoop):
    async def run(self, *given):
        await asyncio.to_thread(threading.Event().wait)
"""


def test_a_loop_that_hangs_ends_in_a_few_lines(machine):
    (machine.folder / "hanging.py").write_text(HANGS)
    ended = machine.run("check", "loop", "hanging:InThread", "--limit", "0.5")
    assert (ended.code, ended.err) == (1, "")
    says = "its check did not end within 0.5 s: the loop waits for what never comes at hanging.py:7"
    assert re.search(rf"^contract +FAILED +{re.escape(says)}$", ended.out, re.MULTILINE)
    of_all = f"of {len(LAWS)} laws"
    assert ended.out.splitlines()[-2:] == [f"Broken     1 {of_all}", f"Not run    {len(LAWS) - 1} {of_all}"]


SHOP = """
from whichloop.datasets import arithmetic
SUITE = arithmetic.SUITE

def tasks(size=4):
    return SUITE(size=size)

def solve(question, tools):
    return "41"

def talk(task):
    return "41"

class Mine:
    async def run(self, *given): ...
"""


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["bare(max_steps=5)"], "loop"),
        (["openai_agents"], "loop"),
        (["shop:Mine"], "loop"),
        (["ecommerce"], "suite"),
        (["shop:tasks(size=3)"], "suite"),
        (["shop:solve"], "program"),
        (["shop:talk"], "program"),
        (["shop.py:solve"], "program"),
        (["shop.py"], "program"),
        (["http://127.0.0.1:9/"], "program"),
        (["python agent.py"], "program"),
        (["python", "agent.py"], "program"),
        (["sh"], "program"),
        (["codex"], "program"),
        (["questions.CSV"], "plans"),
        (["one.plan"], "plans"),
        (["local"], "model"),
        (["local:weights.gguf"], "model"),
        (["openai/gpt-4o-mini"], "model"),
        (["program", "bare"], "program"),
        (["plans", "bare"], "plans"),
    ],
)
def test_what_it_is_is_found_out_or_told(here, monkeypatch, words, kind):
    monkeypatch.delitem(sys.modules, "shop", raising=False)  # another test's
    (here / "shop.py").write_text(SHOP)
    found, rest = told(words)
    assert (found, list(rest)) == (kind, words[1:] if words[0] in KINDS else words)


def test_objects_are_checked_from_python():
    with judged_here():
        found = check(Bare(max_steps=5))
    assert (found.kind, found.ok, found.doc.facts["Hold"]) == ("loop", True, [f"{len(LAWS)} of {len(LAWS)} laws"])
    assert str(found).startswith("loop bare\n")
    assert check(arithmetic.SUITE(size=4)).kind == "suite"
    assert [one["name"] for one in check(Bare, "program", fault=["empty"]).doc.data["findings"]] == ["empty"]
    with pytest.raises(ValueError, match="limit: it is for"):
        check("arithmetic", limit=3)


def test_a_new_loop_passes_its_check_its_test_and_a_comparison(tmp_path):
    path = {"PATH": os.defpath, "HOME": str(tmp_path / "home"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    made = said_by(tmp_path, path, "-m", "whichloop", "init", "--loop", "my_loop", quiet=True)
    next_commands = [line.split() for line in made.splitlines()[3:]]
    assert next_commands == [
        ["whichloop", "check", "loop", "my_loop:MyLoop"],
        ["python", "-m", "pytest", "test_my_loop.py"],
        ["whichloop", "compare", "--loop", "my_loop:MyLoop", "--loop", "bare", "--profile", "flaky-format"],
    ]
    check, compare = (["-m", *command] for command in next_commands if command[0] == "whichloop")
    said_by(tmp_path, path, *check)
    quick = ("--profile", "measured-2024", "--tasks", "24", "--quiet", "--json")
    arms = json.loads(said_by(tmp_path, path, *compare, *quick))["arms"]
    first, second = (arm["accuracy"]["value"] for arm in arms if arm["profile"] == "flaky-format")
    assert first != second  # a first comparison shows something
    assert {arm["loop"]: arm["met"] for arm in arms if arm["profile"] != "flaky-format"} == {
        "my_loop:MyLoop": "text-2024",
        "bare": "text-2024",
    }
    said_by(tmp_path, path, *next_commands[1][1:], "-q", "-p", "no:cacheprovider", "-p", "no:unraisableexception")
