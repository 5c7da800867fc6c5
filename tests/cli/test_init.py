"""`loopbench init`: what it writes works, and what is there stays."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from loopbench.runs.config import CompareConfig

FILES = {"loopbench.toml", "loop_tools.py", "loop_tasks.jsonl", "tests/test_loops.py", ".github/workflows/loops.yml", ".gitignore"}


def written(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_it_writes_files_whose_tasks_the_scripted_model_solves(here, loopbench, monkeypatch):
    ended = loopbench("init", "project")
    assert ended.code == 0
    assert written(here / "project") == FILES
    assert "  cd project\n" in ended.out
    monkeypatch.chdir(here / "project")
    CompareConfig.model_validate(tomllib.loads(Path("loopbench.toml").read_text()))
    flags = ("--profile", "clean", "--repeats", "1", "--no-mlflow", "-q", "--json")
    made = loopbench("compare", "--config", "loopbench.toml", *flags).json
    assert {arm["loop"]: arm["accuracy"]["value"] for arm in made["arms"]} == {"bare": 1.0, "finish": 1.0}
    assert {arm["tasks"] for arm in made["arms"]} == {24}


def test_the_suite_passes_every_check(here, loopbench):
    loopbench("init")
    ended = loopbench("check", "suite", "jsonl", "--data", "loop_tasks.jsonl", "--tools", "loop_tools", "--run-tools")
    assert ended.code == 0, ended.out + ended.err
    assert "FAILED" not in ended.out


@pytest.mark.parametrize("name", sorted(FILES - {".gitignore"}))
def test_a_file_that_is_there_is_named_and_nothing_is_written(here, loopbench, name):
    (here / name).parent.mkdir(parents=True, exist_ok=True)
    (here / name).write_text("mine")
    ended = loopbench("init")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"error: {name}: already there; nothing was written\n"
    assert written(here) == {name}
    assert (here / name).read_text() == "mine"


def test_a_loop_of_a_module_that_is_not_there_is_refused(here, loopbench):
    ended = loopbench("init", "project", "--loop", "nope.nope:X")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "error: --loop nope.nope:X: no module named 'nope' in project, in the current directory or installed\n"
    assert not (here / "project").exists()
    (here / "project").mkdir()
    (here / "project" / "nope.py").touch()
    assert loopbench("init", "project", "--loop", "nope:X").code == 0


def test_a_file_in_the_place_of_the_folder_is_named(here, loopbench):
    (here / "project").write_text("mine")
    assert loopbench("init", "project").err == "error: project is not a directory\n"


@pytest.mark.parametrize("loop", ["finish(parse_retries=0)", 'say("hi")', "a\\b\n"])
def test_any_name_of_a_loop_is_text_in_the_files(here, loopbench, loop):
    assert loopbench("init", "--loop", loop).code == 0
    assert tomllib.loads((here / "loopbench.toml").read_text())["loops"] == [loop, "finish"]
    compile((here / "tests/test_loops.py").read_text(), "test_loops.py", "exec")
    assert json.dumps(loop) in (here / "tests/test_loops.py").read_text()


def test_a_gitignore_that_is_there_stays_and_the_rest_is_written(here, loopbench):
    (here / ".gitignore").write_text("mine\n")
    assert loopbench("init").code == 0
    assert written(here) == FILES
    assert (here / ".gitignore").read_text() == "mine\n"


def test_a_program_is_gated_as_a_program(here, loopbench):
    assert loopbench("init", "--program", "my_agent.py:solve").code == 0
    assert tomllib.loads((here / "loopbench.toml").read_text())["loops"] == ['program(command="my_agent.py:solve")', "finish"]
    assert 'loop_gate(program="my_agent.py:solve", profile=profile' in (here / "tests/test_loops.py").read_text()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--loop", "my_agent.py:solve"], "a function of a file is a program: --program my_agent.py:solve"),
        (["--loop", "finish", "--program", "a.py:solve"], "--loop and --program: give one of them"),
        (["--program", ""], "write a command line, my.module:function or FILE.py:function"),
    ],
)
def test_what_is_no_loop_is_refused_and_nothing_is_written(here, loopbench, flags, said):
    ended = loopbench("init", *flags)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert written(here) == set()
