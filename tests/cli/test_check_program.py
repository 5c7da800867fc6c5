"""`whichloop check program`, as its user runs it."""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.conftest import here, whichloop
from whichloop.checks.program import FAULTS
from whichloop.checks.program.agent_faults import BY_NAME
from whichloop.programs.program import Program

__all__ = ["here", "whichloop"]

ROOT = Path(__file__).parents[2]
AGENTS = ROOT / "tests" / "programs" / "agents.py"
LIGHT = AGENTS.with_name("light_agents.py")
ONE = ("--fault", "unknown_tool")


@pytest.mark.slow
def test_every_fault_is_checked_if_none_is_named(whichloop):
    found = whichloop("check", "program", "--json", "finish").json
    assert [one["name"] for one in found["findings"]] == [fault.name for fault in FAULTS]


@pytest.mark.thorough
def test_an_executable_meets_faults_of_every_outcome(whichloop):
    """A process for each: one fault for each thing that can happen to it."""
    expected = {"cut_json": "told", "tool_raises": "told", "empty": "silent", "dropped": "handled", "never_finishes": "unlimited"}
    named = [word for fault in expected for word in ("--fault", fault)]
    done = whichloop("check", "program", "--json", *named, "--", "python", str(LIGHT))
    assert {one["name"]: one["outcome"] for one in done.json["findings"]} == expected


@pytest.mark.parametrize(
    "agent",
    [
        (f"{LIGHT}:plain_function",),
        pytest.param(("tests.programs.agents:in_the_event_loop",), marks=pytest.mark.slow),
        pytest.param(("finish",), marks=pytest.mark.slow),
        ("bare(tool_timeout_s=1)",),
        pytest.param((f"{sys.executable} {LIGHT}",), marks=pytest.mark.slow),
    ],
)
def test_an_agent_may_be_named_in_many_ways(whichloop, agent, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=":")
    done = whichloop("check", "program", *ONE, *agent)
    assert done.code == 0, done.err
    assert re.search("^unknown_tool +told +answer 3126$", done.out, re.MULTILINE)
    assert "request 2 says: " in done.out


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


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("finish", "bare"), "name one agent, with its options in brackets; got finish bare"),
        (("finsh",), "there is no program, framework or design 'finsh'; did you mean 'finish'?"),
        (("finish", "--require", "emty=told"), "--require: there is no fault 'emty'; did you mean 'empty'?"),
        (("finish", "--fault", "emty"), "--fault: there is no fault 'emty'"),
        (("finish", "--fault", "empty", "--require", "prose=told"), "--require: prose is demanded, and --fault leaves it out"),
        (("finish", "--limit", "0"), "--limit: a number of seconds above 0 is needed, got 0"),
        (("finish", "--venv", "x"), "--venv and --key are for programs, not for finish"),
        (("http://127.0.0.1:99999/",), "and a port below 65536, not 'http://127.0.0.1:99999/'"),
        (("http://127.0.0.1:9/",), "nothing answers at http://127.0.0.1:9/"),
        (
            ("finish", "--junit", "/dev/null/found.xml"),
            "cannot be written (File exists); nothing was checked",
        ),
        (("no.such_module:solve",), "no.such_module"),
    ],
)
def test_a_mistake_is_told_in_one_line(whichloop, words, says):
    done = whichloop("check", "program", *words)
    assert done.code == 2, done.err
    assert done.err.startswith("error: ")
    assert says in done.err
    assert len(done.err.splitlines()) == 1


def test_an_agent_that_cannot_solve_the_task_is_told_so(whichloop):
    done = whichloop("check", "program", "--", "echo", "41")
    assert done.code == 1
    assert "it does not solve a task without any fault: its answer was '41' (stop finished), not 3126" in done.out


def test_the_help_names_every_fault_through_its_error(whichloop):
    done = whichloop("check", "program", "finish", "--fault", "?")
    assert all(name in done.err for name in BY_NAME)


BAD = """
def alone(question): ...
def more(question, tools, other): ...
LATER = 3
"""


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("python nope.py", "python nope.py: there is no file nope.py here"),
        ("python -u nope.py", "python -u nope.py: there is no file nope.py here"),
        ("nope.sh", "command: there is no 'nope.sh' to run"),
        ("notes.txt", "command: notes.txt is no program: it cannot be executed"),
        ("bad.py", "command: bad.py is no program: it cannot be executed; write python bad.py, or bad.py:FUNCTION"),
        ("nope.py:solve", "nope.py:solve: there is no file nope.py here"),
        ("bad.py:gone", "bad.py:gone: bad.py has no function 'gone'"),
        ("bad.py:LATER", "bad.py:LATER: 'LATER' of bad.py is not a function"),
        ("bad.py:alone", "bad.py:alone: alone(question): a program is solve(task), or solve("),
        ("bad.py:more", "bad.py:more: more(question, tools, other): a program is "),
    ],
)
def test_what_is_no_program_is_told_before_any_trial_in_the_same_words_everywhere(whichloop, here, program, said):
    (here / "bad.py").write_text(BAD)
    (here / "notes.txt").write_text("hello there\n")
    for words in (("check", "program", program), ("compare", "--program", program, "--tasks", "1")):
        ended = whichloop(*words)
        assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
        assert ended.err.startswith(f"error: {said}")
    assert not (here / "runs").exists()


def test_a_program_that_can_begin_is_let_begin(here):
    (here / "fine.py").write_text("def solve(question, tools, **where): ...\ndef talk(task): ...\ndef few(q, t, *, model): ...\n")
    for command in ("fine.py:solve", "fine.py:talk", "fine.py:few", "python fine.py", "python -m fine", "python -c pass", "cat x"):
        assert Program(command).version == ""
