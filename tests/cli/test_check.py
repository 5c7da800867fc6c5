"""`whichloop check`, which finds out what it is given, on loops; and `whichloop init --loop`, end to end."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.checks.loop.altered_loops import judged_here
from tests.prepared import said_by
from whichloop.checks.any import KINDS, check, told
from whichloop.checks.loop import LAWS
from whichloop.cli.main import main
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


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


@pytest.fixture
def whichloop(tmp_path: Path, capsys, monkeypatch) -> Callable[..., Ended]:
    """Runs the command within this process, in a directory of its own that is not on the search path."""
    monkeypatch.chdir(tmp_path)
    known = set(sys.modules)

    def call(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["whichloop", *arguments])
        capsys.readouterr()
        code: Any = 0
        try:
            with judged_here():  # what the laws find is for other tests
                main()
        except SystemExit as left:
            code = left.code
        for name in set(sys.modules) - known:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
                del sys.modules[name]
        said = capsys.readouterr()
        return Ended(code or 0, said.out, said.err)

    return call


# --- check ---


def test_a_design_that_keeps_every_law_passes(whichloop):
    ended = whichloop("check", "bare(max_steps=7)")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines() == ["loop bare(max_steps=7)", f"Hold       {len(LAWS)} of {len(LAWS)} laws"]
    in_full = whichloop("check", "loop", "bare(max_steps=7)", "-v").out
    assert all(re.search(rf"^{law.name} +ok ", in_full, re.MULTILINE) for law in LAWS)


def test_a_law_that_does_not_apply_is_told_with_the_reason_and_does_not_fail(whichloop):
    ended = whichloop("check", "loop", "bare(on_provider_error=observe)")
    assert ended.code == 0
    assert re.search(r"^provider error +not run +.*it has a rule of its own", ended.out, re.MULTILINE)


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


@pytest.mark.parametrize("limit", ["0", "-1", "inf", "nan"])
def test_a_limit_that_is_none_is_refused(whichloop, limit):
    ended = whichloop("check", "loop", "bare", "--limit", limit)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "--limit" in ended.err


def test_findings_as_json(whichloop, tmp_path):
    (tmp_path / "spending.py").write_text(SPENDTHRIFT)
    good, bad = (
        whichloop("check", "loop", "bare", "--json"),
        whichloop("check", "loop", "spending:Spendthrift(max_steps=4)", "--json"),
    )
    made = json.loads(good.out)
    assert (good.code, made["kind"], made["name"], made["ok"]) == (0, "loop", "bare", True)
    assert made["findings"][0] == {"name": "contract", "status": "ok", "detail": ""}
    made = json.loads(bad.out)
    assert (bad.code, made["name"], made["ok"]) == (1, "spending:Spendthrift(max_steps=4)", False)
    assert [item["name"] for item in made["findings"]] == [law.name for law in LAWS]
    assert [item["name"] for item in made["findings"] if item["status"] == "failed"] == ["budget"]


def test_the_options_of_a_loop_of_ones_own_are_listed(whichloop):
    assert whichloop("init", "--loop", "my_loop").code == 0
    _, row, title, _, option = whichloop("list", "loops", "my_loop:MyLoop").out.splitlines()
    assert row.startswith("my_loop:MyLoop ")
    assert (title, *option.split(maxsplit=2)) == (
        "Options of my_loop:MyLoop", "max_steps", "10", "Most replies, the one that answers included.",
    )  # fmt: skip
    (listed,) = json.loads(whichloop("list", "loops", "my_loop:MyLoop", "--json").out)
    assert [option["name"] for option in listed["options"]] == ["max_steps"]
    missing = whichloop("list", "loops", "my_loop:MyLop")
    assert (missing.code, missing.err) == (2, "error: loop 'my_loop:MyLop': my_loop has no 'MyLop'; did you mean 'MyLoop'?\n")


@pytest.mark.parametrize("command", ["check", "check program", "compare --program"])
def test_a_loop_in_the_place_of_a_program_is_recognised(whichloop, tmp_path, command):
    (tmp_path / "half.py").write_text("class Mine:\n    async def run(self, *given): ...\n")
    ended = whichloop(*command.split(), "half.py:Mine")
    cure = "'Mine' of half.py is not a function; a loop is named half:Mine, as --loop takes it"
    assert (ended.code, ended.out, ended.err) == (2, "", f"error: half.py:Mine: {cure}\n")


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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("bear", "it cannot be told what 'bear' is; did you mean 'bare'? write check KIND bear, where KIND is loop, program, "),
        ("loop", "check loop: name what is to be checked"),
        ("./gone", "it cannot be told what './gone' is;"),
        ("loop bare finish", "check loop takes one name, with its options in brackets; got bare finish"),
        ("bare --tasks 3", "--tasks: it is for `check suite`, not for `check loop`"),
        ("arithmetic --limit 3", "--limit: it is for `check loop` and `check program`, not for `check suite`"),
        ("local --junit a.xml", "Invalid value for --junit: it is for `check program`, not for `check model`"),
        ("finish --fault empty", "--fault: it is for `check program`, not for `check loop`"),
        ("json:JSONDecodeError", "json:JSONDecodeError: 'JSONDecodeError' of json is not a function"),
        ("json:decoder", "json:decoder: it is neither a loop, nor a suite, nor a function"),
    ],
)
def test_what_cannot_be_checked_is_one_line_and_code_2(whichloop, here, words, said):
    ended = whichloop("check", *words.split())
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert ended.err.startswith(f"error: {said}")
    assert list(here.iterdir()) == []


def test_objects_are_checked_from_python():
    with judged_here():
        found = check(Bare(max_steps=5))
    assert (found.kind, found.ok, found.doc.facts["Hold"]) == ("loop", True, [f"{len(LAWS)} of {len(LAWS)} laws"])
    assert str(found).startswith("loop bare\n")
    assert check(arithmetic.SUITE(size=4)).kind == "suite"
    assert [one["name"] for one in check(Bare, "program", fault=["empty"]).doc.data["findings"]] == ["empty"]
    with pytest.raises(ValueError, match="limit: it is for"):
        check("arithmetic", limit=3)


def test_tools_typed_as_a_file_are_told_how_a_module_is_named(whichloop, tmp_path):
    (tmp_path / "shop.py").touch()
    for typed in ("shop.py", "./shop.py"):
        ended = whichloop("compare", "--loop", "bare", "--suite", "jsonl", "--data", "rows.jsonl", "--tools", typed)
        said = f"error: tools {typed!r}: write MODULE:NAME, such as my_loop:MyLoop for the class MyLoop in my_loop.py\n"
        assert (ended.code, ended.err) == (2, said)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bear", "unknown loop 'bear'; did you mean 'bare'"),
        ("own_loops", "unknown loop 'own_loops'; "),
        ("bare(", "is not a name"),
        ("bare(max_steps=0)", "max_steps must be at least 1"),
        ("nowhere:Loop", "no module named 'nowhere'"),
        ("broken:Loop", "importing broken failed: SyntaxError"),
        ("empty:Loop", "empty has no 'Loop'"),
        ("empty:", "write what of empty is meant, empty:NAME"),
        ("half:Mine", "loop half:Mine: it lacks stops and with_step_limit: see whichloop.protocol.Loop"),
        ("half:Never", "loop half:Never: it lacks run: see whichloop.protocol.Loop"),
        ("half:", "write what of half is meant, half:NAME"),
        ("half.Mine", "unknown loop 'half.Mine'; "),
        ("half.py:Mine", "loop 'half.py:Mine': write MODULE:NAME, such as my_loop:MyLoop"),
        ("./gone.py:Mine", "is not a name; write name, name(option=value) or name@FILE, or MODULE:NAME, such as my_loop:MyLoop"),
    ],
)
def test_a_name_that_leads_nowhere_is_one_line_and_code_2(whichloop, tmp_path, name, said):
    (tmp_path / "broken.py").write_text("def (\n")
    never = "class Never(Mine):\n    run, stops, with_step_limit = None, frozenset(), str\n"
    (tmp_path / "half.py").write_text(f"class Mine:\n    name = 'mine'\n    async def run(self, *given): ...\n{never}")
    for empty in ("empty.py", "own_loops.py"):
        (tmp_path / empty).write_text("")
    ended = whichloop("check", "loop", name)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert ended.err.startswith("error: ")
    assert ended.err.count("\n") == 1


# --- new ---


@pytest.mark.thorough
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


def test_where_pytest_is_missing_the_next_commands_install_it(whichloop, tmp_path, monkeypatch):
    monkeypatch.setattr("whichloop._extras.is_installed", lambda package: package != "pytest")
    lines = whichloop("init", "--loop", "thinker").out.splitlines()
    place = lines.index("  pip install pytest  # which test_thinker.py needs")
    assert lines[place + 1] == "  python -m pytest test_thinker.py"


@pytest.mark.slow
def test_a_loop_that_forgets_the_type_of_a_query_is_told_what_sees_to_it(whichloop, tmp_path):
    assert whichloop("init", "--loop", "my_loop").code == 0
    file = tmp_path / "my_loop.py"
    assert whichloop("check", "loop", "my_loop:MyLoop").code == 0
    file.write_text(re.sub(r"\n    @bounded.*", "", file.read_text()))
    ended = whichloop("check", "loop", "my_loop:MyLoop")
    assert (ended.code, ended.out.count("FAILED")) == (1, 1)
    assert re.search("^typed answers +FAILED ", ended.out, re.MULTILINE)
    assert "the answer is 'hello'; it must be an int or None: decorate `run` with whichloop.loops.bounded" in ended.out


def test_into_another_folder_the_next_commands_lead_there(whichloop, tmp_path):
    folder = tmp_path / "my designs"
    folder.mkdir()
    ended = whichloop("init", str(folder), "--loop", "thinker")
    assert ended.code == 0
    assert {path.name for path in folder.iterdir()} == {"thinker.py", "test_thinker.py"}
    assert {f"  cd '{folder}'", "  python -m pytest test_thinker.py"} <= set(ended.out.splitlines())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["there"], "there.py already exists; nothing was written"),
        (["3x"], "'3x' is no name for a loop"),
        (["My-Loop"], "'My-Loop' is no name for a loop"),
        (["class"], "'class' is no name for a loop"),
        (["json"], "an installed module is named 'json'"),
        (["mine", "nowhere"], "nowhere is not a directory"),
    ],
)
def test_what_cannot_be_written_is_one_line_and_code_2(whichloop, tmp_path, arguments, said):
    (tmp_path / "there.py").write_text("precious")
    ended = whichloop("init", "--loop", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert ended.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["there.py"]
    assert (tmp_path / "there.py").read_text() == "precious"
