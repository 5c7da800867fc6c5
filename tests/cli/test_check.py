"""`check`, which finds out what it is given: loops, suites, programs and plans; and `init --loop`, end to end."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.checks.loop.altered_loops import judged_here
from tests.prepared import said_by
from whichloop.checks.any import KINDS, check, told
from whichloop.checks.loop import LAWS
from whichloop.checks.plans import plan_findings
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
def whichloop(whichloop: Callable[..., Any], here: Path) -> Callable[..., Any]:
    """The same, with a suite in the directory; what the laws find is for other tests."""
    (here / "birds.py").write_text(PARROTS)

    def call(*arguments: str) -> Any:
        with judged_here():
            return whichloop(*arguments)

    return call


def test_a_design_that_keeps_every_law_passes(whichloop):
    ended = whichloop("check", "bare(max_steps=7)", "-v")
    assert (ended.code, ended.err) == (0, "")
    in_full = ended.out
    assert in_full.splitlines()[:2] == ["loop bare(max_steps=7)", f"Hold       {len(LAWS)} of {len(LAWS)} laws"]
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


KINDS_OF = {
    "loop": ["bare(max_steps=5)", "openai_agents", "shop:Mine"],
    "suite": ["ecommerce", "shop:tasks(size=3)"],
    "program": ["shop:solve", "shop:talk", "shop.py:solve", "shop.py", "http://127.0.0.1:9/", "python agent.py", "sh", "codex"],
    "plans": ["questions.CSV", "one.plan"],
    "model": ["local", "local:weights.gguf", "openai/gpt-4o-mini"],
}


def test_what_it_is_is_found_out_or_told(here, monkeypatch):
    monkeypatch.delitem(sys.modules, "shop", raising=False)  # another test's
    (here / "shop.py").write_text(SHOP)
    for kind, names in KINDS_OF.items():
        for words in (*([name] for name in names), [kind, "bare"]):
            found, rest = told(words)
            assert (found, list(rest)) == (kind, words[1:] if words[0] in KINDS else words)
    assert told(["python", "agent.py"])[0] == "program"


def test_objects_are_checked_from_python():
    with judged_here():
        found = check(Bare(max_steps=5))
    assert (found.kind, found.ok, found.doc.facts["Hold"]) == ("loop", True, [f"{len(LAWS)} of {len(LAWS)} laws"])
    assert str(found).startswith("loop bare\n")
    assert check(arithmetic.SUITE(size=4)).kind == "suite"
    assert [one["name"] for one in check(Bare, "program", fault=["empty"]).doc.data["findings"]] == ["empty"]
    with pytest.raises(ValueError, match="limit: it is for"):
        check("arithmetic", limit=3)


def test_a_new_loop_passes_its_check_its_test_and_a_comparison(whichloop, here, monkeypatch):
    made = whichloop("init", "--loop", "my_loop")
    next_commands = [line.split() for line in made.out.splitlines()[3:]]
    assert next_commands == [
        ["whichloop", "check", "loop", "my_loop:MyLoop"],
        ["python", "-m", "pytest", "test_my_loop.py"],
        ["whichloop", "compare", "--loop", "my_loop:MyLoop", "--loop", "bare", "--profile", "flaky-format"],
    ]
    monkeypatch.syspath_prepend(here)
    assert whichloop(*next_commands[0][1:]).code == 0
    arms = whichloop(*next_commands[2][1:], "--profile", "measured-2024", "--tasks", "24", "--quiet", "--json").json["arms"]
    first, second = (arm["accuracy"]["value"] for arm in arms if arm["profile"] == "flaky-format")
    assert first != second  # a first comparison shows something
    assert {arm["met"] for arm in arms if arm["profile"] != "flaky-format"} == {"text-2024"}
    path = {"PATH": os.defpath, "HOME": str(here / "home"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    said_by(here, path, *next_commands[1][1:], "-q", "-p", "no:cacheprovider", "-p", "no:unraisableexception")


PARROTS = '''
from pathlib import Path
from whichloop.datasets.task import StatelessEnvironment, Suite, Task
from whichloop.protocol import Plan, PlannedCall, Query, Ref, Tool

def wave(number: int) -> int:
    """Wave back."""
    Path("waved").touch()
    return number + 1

def parrots(loud: bool = False) -> Suite:
    tool = Tool.from_function(wave, blocking=False)
    plans = [Plan((PlannedCall("c1", "wave", {"number": n}, "Wave."),), Ref("c1")) for n in range(20)]
    said = [f"Parrot {n % 7} hears {n + 1 if loud else n}" for n in range(20)]
    tasks = [Task(f"p{n}", Query(said[n]), n + 1, "numeric", plan) for n, plan in enumerate(plans)]
    return Suite("parrots", "3", tuple(tasks), lambda task: StatelessEnvironment((tool,)))
'''

OWN_TOOLS = """
from pathlib import Path

def wave(number: int) -> int:
    'Wave.'
    Path('waved').touch()
    return number + 1
"""


def test_a_suite_that_can_be_guessed_fails_with_the_agent_and_its_share(whichloop) -> None:
    ended = whichloop("check", "suite", "birds:parrots(loud=true)", "--run-tools")
    assert ended.code == 1
    assert {"guessing", "gold"} <= set(re.findall(r"^(\w+) +FAILED ", ended.out, re.MULTILINE))
    assert "echo (answers with the question) passes 100.0% of 20 tasks [83.2%, 100.0%]: p0, p1, p2, …" in ended.out
    assert re.search(r"^echo .*TOO MANY", ended.out, re.MULTILINE)
    assert "\nBroken     2 of 19 laws\n" in ended.out


def test_tools_of_ones_own_are_called_only_with_permission(whichloop, tmp_path) -> None:
    ended = whichloop("check", "suite", "birds:parrots")
    assert ended.code == 0
    assert not (tmp_path / "waved").exists()
    assert ended.out.count("calls tools that may act on the real world; --run-tools allows it") == 4
    assert "\nCalled     no tool\n" in ended.out
    assert ended.out.count("not run") == 5
    assert "oracle" not in ended.out
    allowed = whichloop("check", "suite", "birds:parrots", "--run-tools", "--json")
    assert json.loads(allowed.out)["ran_tools"]
    assert (tmp_path / "waved").exists()


def test_own_tools_of_a_suite_that_brings_none_need_permission_too(whichloop, tmp_path) -> None:
    (tmp_path / "q.csv").write_text("question,answer\nWhat comes after 1?,2\nAnd what follows 7?,8\n")
    (tmp_path / "waving.py").write_text(OWN_TOOLS)
    given = ("check", "suite", "csv", "--data", "q.csv", "--tools", "waving", "--json")
    assert not json.loads(whichloop(*given).out)["ran_tools"]
    assert not (tmp_path / "waved").exists()
    assert json.loads(whichloop(*given, "--run-tools").out)["ran_tools"]
    assert (tmp_path / "waved").exists()


ROOT = Path(__file__).parents[2]
AGENTS = ROOT / "tests" / "programs" / "agents.py"
LIGHT = AGENTS.with_name("light_agents.py")


def test_an_executable_meets_faults_of_every_outcome(whichloop):
    """A process for each: one fault for each thing that can happen to it."""
    expected = {"cut_json": "told", "empty": "silent", "dropped": "handled", "never_finishes": "unlimited"}
    named = [word for fault in expected for word in ("--fault", fault)]
    done = whichloop("check", "program", "--json", *named, "--", "python", str(LIGHT))
    assert {one["name"]: one["outcome"] for one in done.json["findings"]} == expected


def test_a_demanded_outcome_that_is_missing_fails_the_command(whichloop):
    demand = ("--require", "unknown_tool=told,empty=recovered", "--fault", "unknown_tool", "--fault", "empty")
    done = whichloop("check", "program", f"{LIGHT}:plain_function", *demand)
    assert done.code == 1
    assert done.out.endswith("Demanded   1 of 2 outcomes are there\nMissing    empty: demanded recovered, found silent\n")
    kept = whichloop("check", "program", "finish", *demand)
    assert kept.code == 0
    assert kept.out.endswith("Demanded   2 of 2 outcomes are there\n")


def test_junit_and_page_hold_hostile_text_as_text(whichloop, tmp_path):
    (tmp_path / "hostile.py").write_text(
        f"import sys\n\nsys.path.insert(0, {str(ROOT)!r})\n\n\n"
        "def solve(question, tools, **where):\n    from tests.programs.light_agents import plain_function\n"
        "    answer = plain_function(question, tools, **{k: where[k] for k in ('base_url', 'api_key', 'model')})\n"
        "    return answer if answer.isdigit() else '<script>alert(1)</script>]]>\\x00\\x1b[31m'\n"
    )
    outputs = ("--junit", "found.xml", "--page", "found.html", "--require", "empty=told")
    done = whichloop("check", "program", f"{tmp_path}/hostile.py:solve", "--fault", "empty", *outputs)
    assert done.code == 1, done.err
    root = ElementTree.fromstring((tmp_path / "found.xml").read_text())
    assert [suite.get("failures") for suite in root.iter("testsuite")] == ["1"]
    assert ["demanded told, found silent" in failure.get("message", "") for failure in root.iter("failure")] == [True]
    page = (tmp_path / "found.html").read_text()
    assert "<script>alert" not in page
    assert "demanded told, found silent" in page
    assert "\x1b" not in done.out + page


def test_an_agent_that_cannot_solve_the_task_is_told_so(whichloop):
    done = whichloop("check", "program", "--", "echo", "41")
    assert done.code == 1
    assert "it does not solve a task without any fault: its answer was '41' (stop finished), not 3126" in done.out


PRICED_SHOP = '''
"""The order desk's tools."""
from pathlib import Path

PRICES = {"lamp": 39.9, "chair": 120.0}

def price(item: str) -> float:
    """Price of one item, in euros."""
    Path("asked").touch()
    return PRICES[item]
'''
GOOD = {"question": "What does a lamp cost?", "answer": 39.9, "plan": ["lamp = price(item='lamp')", "answer = lamp"]}


@pytest.fixture
def plan(whichloop, here):
    (here / "shop.py").write_text(PRICED_SHOP)

    def run(*words, code=0):
        done = whichloop("check", *words)
        assert done.code == code, done.out + done.err
        return done

    return run


def written_tasks(folder, *rows):
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "t.jsonl"


def test_right_plans_are_counted(plan, tmp_path):
    file = written_tasks(tmp_path, GOOD, {"question": "And today?", "answer": "Monday"})
    assert "Plans      1 of 2 tasks, 1 call\nCalls      tools unknown: --tools MODULE\n" in plan(file).out
    assert "Calls      fit the tools, none was made: --run-tools" in plan(file, "--tools", "shop").out
    assert not (tmp_path / "asked").exists()
    assert "Right      1 plan leads to the right answer" in plan(file, "--tools", "shop", "--run-tools").out
    assert (tmp_path / "asked").exists()
    assert "t-0001\nlamp = price(item='lamp')\nanswer = lamp\n" in plan(file, "-v").out


def test_a_file_without_a_plan_is_refused_with_the_column_that_may_be_meant(plan, whichloop, tmp_path):
    """A check that passes on it would pass in CI."""
    typo = {"plans" if name == "plan" else name: value for name, value in GOOD.items()}
    unused = "columns not used: 'plans'"
    done = plan(written_tasks(tmp_path, typo), code=2)
    assert (done.out, done.err) == ("", f"error: t.jsonl: there is no plan to check in 1 task; {unused}\n")
    compared = whichloop("compare", "--suite", "jsonl", "--data", "t.jsonl", "--tools", "shop")
    assert compared.code == 2
    assert "; write plans (whichloop list plan-schema), or run a real model and learn them" in compared.err
    assert f"Warning    {unused}\n" in plan(written_tasks(tmp_path, GOOD, typo)).out


@given(
    st.lists(st.sampled_from(["sound", "no call", "unread lines", "no tool", "fails"]), min_size=1, max_size=6),
    st.sampled_from([(), ("--tools", "shop"), ("--tools", "shop", "--run-tools")]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=cases(8))
def test_mistakes_stand_in_the_order_of_the_file_whatever_finds_them(plan, tmp_path, kinds, words):
    """A row that cannot be read tells each line of its plan, with tools as without."""
    plans = {
        "sound": GOOD["plan"],
        "no call": ["lamp = 3", "answer = lamp"],
        "unread lines": ["price('lamp')", "lamp = 3"],
        "no tool": ["prize(item='lamp')"],
        "fails": ["sofa = price(item='sofa')", "answer = sofa"],
    }
    file = written_tasks(tmp_path, *(GOOD | {"plan": plans[kind]} for kind in kinds))
    told = {"no call": 1, "unread lines": 2, "no tool": "--tools" in words, "fails": "--run-tools" in words}
    wrong = [f"t.jsonl, line {number}" for number, kind in enumerate(kinds, 1) for _ in range(told.get(kind, 0))]
    listed = json.loads(plan(file, *words, "--json", code=1 if wrong else 0).out)
    assert [problem.partition(": ")[0] for problem in listed["problems"]] == wrong


LAMP = "price(item='lamp')"
SHORT = GOOD | {"plan": LAMP}


def test_a_plan_without_an_answer_is_not_said_to_lead_to_one(plan, tmp_path):
    file = written_tasks(
        tmp_path,
        GOOD,
        SHORT | {"question": "And now?"},
        SHORT | {"question": "Is it cheap?", "answer": "yes", "plan": [LAMP, "answer = 'yes'"]},
    )
    told = plan(file, "--tools", "shop", "--run-tools").out
    own = "Stated     2 plans with the row's own answer: right by construction\n"
    assert f"Right      1 plan leads to the right answer\n{own}" in told
    assert "Warning    1 of them: a call gives it; write `answer = NAME` last" in told
    assert own in plan(file, "--tools", "shop").out
    assert json.loads(plan(file, "--json").out)["by_construction"] == 2


@pytest.mark.parametrize(
    ("text", "led"), [(f"cost = {LAMP}\nanswer = cost", "Answer     39.9, and only a task"), (LAMP, "Answer     none, and")]
)
def test_a_plan_alone_is_carried_out(plan, tmp_path, text, led):
    (tmp_path / "one.plan").write_text(text)
    assert led in plan("one.plan", "--tools", "shop", "--run-tools").out
    (tmp_path / "one.plan").write_text(text.replace("lamp", "sofa"))
    assert "one.plan: task 'one', call 'c" in plan("one.plan", "--tools", "shop", "--run-tools", code=1).out


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=80) | st.text(max_size=80).map(str.encode), st.sampled_from(["t.jsonl", "t.csv", "t.plan", "t.json"]))
def test_any_file_is_read_or_refused_in_lines(tmp_path, data, name):
    (tmp_path / name).write_bytes(data)
    try:
        told = plan_findings(tmp_path / name).problems
    except ValueError as error:
        told = (str(error),)
    assert not [line for line in told if "\n" in line]
