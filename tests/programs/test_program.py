"""A program of the user's own as a loop: how it is named, what it may be set to, what it is given, and what it says."""

import asyncio
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.models.fake import FakeModel
from whichloop.models.scripted_calls import NATIVE
from whichloop.models.wires.base import Refusal
from whichloop.programs.gateway import ModelArguments, ProgramTrial
from whichloop.programs.loop import process_message, read_answer
from whichloop.programs.program import Program
from whichloop.programs.worker import MAX_QUESTION_BYTES, own_environment, trial_environment
from whichloop.protocol import Act, BudgetExceeded, Request, Tool, Toolbox, ToolCall
from whichloop.protocol.names import parse_spec, program_spec
from whichloop.runs.registry import loops_named, programs_named

WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(
    lambda text: text.strip() == text and "(" not in text
)


@given(WORDS, st.sampled_from(["", "old", "/opt/new", "~/envs/a", ".venv", "../venv", "a b"]))
def test_the_short_way_names_the_same_command_with_its_options(command, venv):
    spec = parse_spec(program_spec(f'{command} (venv="{venv}", processes=2)' if venv else command))
    assert spec.name == "program"
    assert spec.options == {"command": command, **({"venv": venv, "processes": 2} if venv else {})}
    assert parse_spec(str(spec)) == spec


def test_what_is_started_is_named_without_importing_it():
    spec = parse_spec('provider_retry(loop=\'program(command="my.agent:solve", venv="new")\')')
    assert programs_named(spec) == ["my.agent:solve", "new"]
    assert loops_named(spec) == ["provider_retry"]
    assert programs_named(parse_spec("langchain(venv=old)")) == ["old"]
    assert programs_named(parse_spec("bare")) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"command": "a:b", "venv": "x", "python": "y"}, "exclude each other"),
        ({"command": "python x.py", "executable": "/bin/x"}, "^executable: it is for the named agents"),
        ({"command": "cat", "processes": -1}, "processes must be from 0"),
        ({"command": "no-such-program --flag"}, "there is no 'no-such-program'"),
        ({"command": "cat", "keys": ("NO_SUCH_KEY",)}, "keys: the environment has no NO_SUCH_KEY"),
        ({"command": "broken.py:solve"}, "ModuleNotFoundError: No module named 'no_such_module'"),
    ],
)
def test_what_cannot_be_meant_or_is_not_there_is_told_before_anything_runs(tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.py").write_text("import no_such_module")
    with pytest.raises(ValueError, match=said):
        Program(**options).version  # noqa: B018  # the property looks


def test_python_is_the_one_that_runs_whichloop_or_the_one_that_was_chosen(tmp_path):
    own = Program("python a.py")
    assert (own.command_words(), own.environment_digest, own.packages) == ([sys.executable, "a.py"], "", {})
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    other = Program("python3 a.py", venv=str(tmp_path))
    assert other.command_words() == [f"{tmp_path}/bin/python", "a.py"]
    assert other.environment_digest
    assert other.packages == {"python": sys.version.split()[0]}
    assert Program("cat 'a b'").command_words() == ["cat", "a b"]


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("python agent.py", ["agent.py"]),
        ("node ./agent.mjs --fast", ["agent.mjs"]),
        ("agent:solve", ["agent.py"]),
        ("deep.agent:solve", ["deep/agent.py"]),
        ("deep/agent.py:solve", ["deep/agent.py"]),
    ],
)
def test_its_sources_are_the_files_that_it_names(tmp_path, monkeypatch, command, files):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep").mkdir()
    for name in ("agent.py", "deep/agent.py", "agent.mjs"):
        (tmp_path / name).write_text("solve = len")
    assert [os.path.relpath(file) for file in Program(command).sources if "whichloop" not in str(file)] == files


def test_keys_stay_here_unless_they_are_named(monkeypatch):
    shaped = "ghp_" + "a1B2" * 9
    secrets = {"SEARCH_API_KEY": "s", "HF_TOKEN": "t", "DATABASE_URL": "postgres://me:pass@host/x", "PLAIN_NAME": shaped}
    for name, value in {**secrets, "PLAIN": "yes"}.items():
        monkeypatch.setenv(name, value)
    given = own_environment(["SEARCH_API_KEY"], "")
    assert (given["SEARCH_API_KEY"], given["PLAIN"]) == ("s", "yes")
    assert not {"t", secrets["DATABASE_URL"], shaped} & set(given.values())


def test_a_chosen_interpreter_comes_first_and_has_no_packages_of_another(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("no_proxy", "internal.example")
    given = own_environment((), "")
    assert (given["PYTHONPATH"], given["no_proxy"]) == ("/elsewhere", "internal.example,127.0.0.1")
    given = own_environment((), "/opt/new/bin/python")
    assert "PYTHONPATH" not in given
    assert given["PATH"].startswith(f"/opt/new/bin{os.pathsep}")


@given(st.text() | st.just("x" * (MAX_QUESTION_BYTES + 1)))
def test_any_question_can_stand_in_an_environment_or_is_left_out(question):
    told = trial_environment("http://127.0.0.1:1/t/x", question, "scripted", 3)
    assert all("\0" not in value and value.encode() is not None for value in told.values())
    assert ("WHICHLOOP_QUESTION" in told) == ("\0" not in question and len(question) <= MAX_QUESTION_BYTES)
    assert told.get("WHICHLOOP_QUESTION", question) in (question, question.encode("utf-8", "replace").decode())


@given(st.integers(-64, 255), st.binary(max_size=40), st.text(max_size=40))
def test_each_end_is_an_answer_or_an_error_or_nothing(code, printed, errors):
    said = process_message(code, printed, errors)
    assert set(said) in ({"answer"}, {"type", "error"}, set())
    assert ("answer" in said) == (code == 0 and bool(printed))
    assert ("error" in said) == (code != 0)


@given(st.binary())
def test_whatever_is_printed_is_an_answer_without_the_space_around_it(printed):
    answer = read_answer(b" \n" + printed + b"\t\r\n")
    assert answer == read_answer(printed) == printed.decode("utf-8", "replace").strip()


@pytest.mark.parametrize("ends", [ProgramTrial.close, lambda trial: setattr(trial, "budget", BudgetExceeded("used up"))])
def test_no_tool_runs_after_the_end_of_a_trial_or_of_its_budget(ends):
    ran = list[int]()

    def note(n: int) -> int:
        """Note a number."""
        ran.append(n)
        return n

    async def go_on():
        trial = ProgramTrial(FakeModel(), Toolbox((Tool.from_function(note),)), None)
        await trial.call("note", {"n": 1})
        ends(trial)
        with pytest.raises(Refusal, match="This trial is over"):
            await trial.call("note", {"n": 2})

    asyncio.run(go_on())
    assert ran == [1]


def price(amount: float, currency: str = "EUR", digits: int = 2) -> str:
    """A price in words."""
    return f"{amount} {currency} {digits}"


def said(*calls):
    kept = ModelArguments(Toolbox((Tool.from_function(price),)))
    for call in calls:
        kept.add(Request(messages=(), codec=NATIVE), NATIVE.render(Act("", (ToolCall("price", call),))))
    return kept


@given(st.integers(-(10**6), 10**6), st.booleans())
def test_a_number_read_as_float_and_a_default_that_is_filled_in_are_what_was_said(amount, fills):
    given_arguments = {"amount": float(amount), **({"currency": "EUR", "digits": 2} if fills else {})}
    found = said({"amount": amount}).as_said("price", given_arguments)
    assert found == {"amount": amount}
    assert isinstance(found["amount"], int)


@pytest.mark.parametrize("other", [{"amount": 4.0}, {"amount": "much"}, {}, {"amount": 3, "colour": "red"}])
def test_another_call_and_one_that_the_tool_refuses_stay_as_they_are(other):
    assert said({"amount": 3}).as_said("price", other) is other
    assert said({"amount": 3}).as_said("unknown", other) is other
