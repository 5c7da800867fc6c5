"""A program of the user's own as a loop: how it is named, what it may be set to, and what it is given."""

import os
import shutil
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.programs.loop import MAX_ANSWER_BYTES, Ended, read_answer
from whichloop.programs.program import Program
from whichloop.programs.worker import MAX_QUESTION_BYTES, own_environment, trial_environment
from whichloop.protocol.names import parse_spec, program_spec
from whichloop.runs.registry import loops_named, make_loop, programs_named

PLAIN = st.characters(exclude_categories=["Cs", "Cc"])
WORDS = st.text(PLAIN, min_size=1).filter(lambda text: text.strip() == text and "(" not in text)


# --- names ---


@given(WORDS)
def test_the_short_way_names_the_same_command(command):
    spec = parse_spec(program_spec(command))
    assert (spec.name, spec.options) == ("program", {"command": command})


@given(WORDS, st.sampled_from(["old", "/opt/new", "~/envs/a", ".venv", "../venv", "a b"]))
def test_options_stand_behind_the_command(command, venv):
    spec = parse_spec(program_spec(f'{command} (venv="{venv}", processes=2)'))
    assert spec.options == {"command": command, "venv": venv, "processes": 2}
    assert parse_spec(str(spec)) == spec


@pytest.mark.parametrize("path", ["/opt/new", "~/envs/a", ".venv", "../venv", "./venv"])
def test_a_path_needs_no_quotes(path):
    assert parse_spec(f"langchain(venv={path})").options == {"venv": path}


@pytest.mark.parametrize("text", ["", "  ", "(venv=a)", "python a.py(command=b)"])
def test_what_names_no_program_is_refused(text):
    with pytest.raises(ValueError, match=r"write a command line|in front of the brackets"):
        program_spec(text)


def test_what_is_started_is_named_without_importing_it():
    spec = parse_spec('provider_retry(loop=\'program(command="my.agent:solve", venv="new")\')')
    assert programs_named(spec) == ["my.agent:solve", "new"]
    assert loops_named(spec) == ["provider_retry"]
    assert programs_named(parse_spec("langchain(venv=old)")) == ["old"]
    assert programs_named(parse_spec("bare")) == []


# --- settings ---


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"command": " "}, "command: it is empty"),
        ({"command": "python 'a"}, "command: No closing quotation"),
        ({"command": "a:b", "venv": "x", "python": "y"}, "exclude each other"),
        ({"command": "node a.mjs", "venv": "x"}, "venv: it is for Python"),
        ({"command": "a:b", "processes": 2}, "processes: it is for executables"),
        ({"command": "cat", "processes": -1}, "processes must be from 0"),
    ],
)
def test_what_cannot_be_meant_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        Program(**options)


@pytest.mark.parametrize(
    ("loop", "said"),
    [
        (Program("no-such-program --flag"), "there is no 'no-such-program'"),
        (Program("python a.py", venv="nowhere"), "venv: nowhere has no bin/python"),
        (Program("a:b", python="nowhere"), "python: there is no nowhere"),
        (Program("cat", keys=("NO_SUCH_KEY",)), "keys: the environment has no NO_SUCH_KEY"),
    ],
)
def test_what_is_not_there_is_told_before_anything_runs(loop, said):
    with pytest.raises(ValueError, match=said):
        loop.version  # noqa: B018


@pytest.mark.parametrize(
    "command", [pytest.param("nowhere_at_all:solve", marks=pytest.mark.slow), "broken.py:solve", "fine.py:missing"]
)
def test_a_function_that_cannot_be_imported_is_told_before_anything_runs(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.py").write_text("import no_such_module")
    (tmp_path / "fine.py").write_text("solve = len")
    with pytest.raises(ValueError, match=r"No module named|has no function"):
        Program(command).version  # noqa: B018


@pytest.mark.parametrize("said", ["", "3", "[]", "no JSON", '{"failed": "it is too old"}'])
def test_an_interpreter_that_is_none_is_told_before_anything_runs(tmp_path, said):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho '{said}'\n")
    python.chmod(0o755)
    with pytest.raises(ValueError, match=r"does not run what a program needs|it is too old"):
        Program("len:len", python=str(python)).version  # noqa: B018


def test_python_is_the_one_that_runs_whichloop_or_the_one_that_was_chosen(tmp_path):
    assert Program("python a.py").command_words() == [sys.executable, "a.py"]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    assert Program("python3 a.py", venv=str(tmp_path)).command_words() == [f"{tmp_path}/bin/python", "a.py"]
    assert Program("cat 'a b'").command_words() == ["cat", "a b"]


def test_two_interpreters_are_two_environments(tmp_path):
    (tmp_path / "python").symlink_to(sys.executable)
    own, other = Program("python a.py"), Program("python a.py", python=str(tmp_path / "python"))
    assert (own.environment_digest, own.packages) == ("", {})
    assert other.environment_digest
    assert other.packages["python"] == sys.version.split()[0]


def test_its_sources_are_the_files_that_it_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep").mkdir()
    for name in ("agent.py", "deep/agent.py", "agent.mjs"):
        (tmp_path / name).write_text("solve = len")
    own = {command: [str(file) for file in Program(command).sources if "whichloop" not in str(file)] for command in COMMANDS}
    assert {command: [os.path.relpath(file) for file in files] for command, files in own.items()} == COMMANDS


COMMANDS = {
    "python agent.py": ["agent.py"],
    "node ./agent.mjs --fast": ["agent.mjs"],
    "agent:solve": ["agent.py"],
    "deep.agent:solve": ["deep/agent.py"],
    "deep/agent.py:solve": ["deep/agent.py"],
}


def test_it_is_made_from_its_name():
    loop = make_loop(parse_spec('program(command=cat, keys=["A"], processes=3)'), 6)
    assert loop == Program("cat", keys=("A",), processes=3, max_steps=7)


# --- what it is given ---


def test_keys_stay_here_unless_they_are_named(monkeypatch):
    secrets = {"SEARCH_API_KEY": "s", "HF_TOKEN": "t", "DATABASE_URL": "postgres://me:pass@host/x", "OPENAI_API_KEY": "sk-real"}
    for name, value in {**secrets, "PLAIN": "yes"}.items():
        monkeypatch.setenv(name, value)
    given = own_environment(["SEARCH_API_KEY"], "")
    assert given["SEARCH_API_KEY"] == "s"
    assert given["PLAIN"] == "yes"
    assert not {"t", secrets["DATABASE_URL"], "sk-real"} & set(given.values())


def test_a_chosen_interpreter_comes_first_and_has_no_packages_of_another(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    assert own_environment((), "")["PYTHONPATH"] == "/elsewhere"
    given = own_environment((), "/opt/new/bin/python")
    assert "PYTHONPATH" not in given
    assert given["PATH"].startswith(f"/opt/new/bin{os.pathsep}")


def test_addresses_on_this_machine_go_by_no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "internal.example")
    given = own_environment((), "")
    assert given["no_proxy"].split(",") == ["internal.example", "127.0.0.1"]


@given(st.text())
def test_any_question_can_stand_in_an_environment_or_is_left_out(question):
    told = trial_environment("http://127.0.0.1:1/t/x", question, "scripted", 3)
    assert all("\0" not in value and value.encode() is not None for value in told.values())
    assert ("WHICHLOOP_QUESTION" in told) == ("\0" not in question)
    assert told.get("WHICHLOOP_QUESTION", question) in (question, question.encode("utf-8", "replace").decode())


def test_a_long_question_is_on_standard_input_only():
    assert "WHICHLOOP_QUESTION" not in trial_environment("http://127.0.0.1:1/t/x", "x" * (MAX_QUESTION_BYTES + 1), "m", 3)


# --- what it answers ---


@given(st.binary())
def test_whatever_is_printed_is_an_answer(printed):
    answer = read_answer(printed)
    assert answer == answer.strip()
    assert answer.encode().decode() == answer


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.sampled_from(" \t\r\n")), st.text(st.sampled_from(" \n")))
def test_an_answer_comes_back_without_the_space_around_it(answer, before, after):
    assert read_answer(f"{before}{answer}{after}".encode()) == answer.strip()


@given(st.integers(-64, 255), st.binary(max_size=40), st.text(max_size=40), st.booleans())
def test_each_end_is_an_answer_or_an_error_or_nothing(code, printed, errors, flooded):
    said = Ended(code, printed, errors, flooded).message()
    assert set(said) in ({"answer"}, {"type", "error"}, set())
    assert ("answer" in said) == (code == 0 and not flooded and bool(printed))
    assert ("error" in said) == (code != 0 or flooded)


def test_limits_are_of_use():
    assert MAX_ANSWER_BYTES >= 100_000  # what a record keeps of an answer
    assert shutil.which("cat")
