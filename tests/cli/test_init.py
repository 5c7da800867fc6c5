"""`whichloop init`: what it writes works, and what is there stays."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from whichloop.protocol.names import program_spec
from whichloop.runs.config import CompareConfig

KEPT = {".gitignore", "pyproject.toml"}
FILES = {"whichloop.toml", "loop_tools.py", "loop_tasks.jsonl", "tests/test_loops.py", ".github/workflows/loops.yml"} | KEPT


def written(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_it_writes_files_whose_tasks_the_scripted_model_solves(here, whichloop, monkeypatch):
    ended = whichloop("init", "project")
    assert ended.code == 0
    assert written(here / "project") == FILES
    assert "__pycache__/" in (here / "project" / ".gitignore").read_text().splitlines()
    assert "  cd project\n" in ended.out
    monkeypatch.chdir(here / "project")
    CompareConfig.model_validate(tomllib.loads(Path("whichloop.toml").read_text()))
    flags = ("--profile", "clean", "--repeats", "1", "-q", "--json")
    made = whichloop("compare", "--config", "whichloop.toml", *flags).json
    assert {arm["loop"]: arm["accuracy"]["value"] for arm in made["arms"]} == {"bare": 1.0, "finish": 1.0}
    assert {arm["tasks"] for arm in made["arms"]} == {24}


@pytest.mark.slow
def test_the_suite_passes_every_check(here, whichloop):
    whichloop("init")
    ended = whichloop("check", "suite", "jsonl", "--data", "loop_tasks.jsonl", "--tools", "loop_tools", "--run-tools")
    assert ended.code == 0, ended.out + ended.err
    assert "FAILED" not in ended.out


@pytest.mark.parametrize("name", sorted(FILES - KEPT))
def test_a_file_that_is_there_is_named_and_nothing_is_written(here, whichloop, name):
    (here / name).parent.mkdir(parents=True, exist_ok=True)
    (here / name).write_text("mine")
    ended = whichloop("init")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"error: {name}: already there; nothing was written\n"
    assert written(here) == {name}
    assert (here / name).read_text() == "mine"


def test_a_file_in_the_place_of_the_folder_is_named(here, whichloop):
    (here / "project").write_text("mine")
    assert whichloop("init", "project").err == "error: project is not a directory\n"


@pytest.mark.parametrize("program", ["a.py:solve", "sh -c 'say \"hi\"'", "a.py:solve(venv=new)"])
def test_any_program_is_text_in_the_files(here, whichloop, program):
    assert whichloop("init", "--program", program).code == 0
    assert tomllib.loads((here / "whichloop.toml").read_text())["loops"] == [program_spec(program), "finish"]
    assert tomllib.loads((here / "pyproject.toml").read_text())["tool"]["whichloop"]["loop"] == [program_spec(program)]
    compile((here / "tests/test_loops.py").read_text(), "test_loops.py", "exec")
    assert f"program={json.dumps(program)}" in (here / "tests/test_loops.py").read_text()
    assert not [name for name in FILES if "@" in (here / name).read_text().replace("@pytest", "").replace("@v", "")]


@pytest.mark.parametrize("name", sorted(KEPT))
def test_what_is_kept_stays_and_the_rest_is_written(here, whichloop, name):
    (here / name).write_text("mine\n")
    assert whichloop("init").code == 0
    assert written(here) == FILES
    assert (here / name).read_text() == "mine\n"


def test_a_program_is_gated_as_a_program(here, whichloop):
    (here / "my_agent.py").write_text("async def solve(task): ...\n")
    assert whichloop("init", "--program", "my_agent.py:solve").code == 0
    assert tomllib.loads((here / "whichloop.toml").read_text())["loops"] == ['program(command="my_agent.py:solve")', "finish"]
    assert 'whichloop_gate(program="my_agent.py:solve", profile=profile' in (here / "tests/test_loops.py").read_text()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--loop", "mine", "--program", "a.py:solve"], "--loop and --program exclude each other"),
        (["--program", ""], "write a command line, my.module:function or FILE.py:function"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_nothing_is_written(here, whichloop, flags, said):
    ended = whichloop("init", *flags)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert ended.err.count("\n") == 1
    assert written(here) == set()


@pytest.mark.parametrize("there", [True, False])
def test_what_its_test_needs_is_told_where_it_is_missing(whichloop, here, monkeypatch, there):
    monkeypatch.setattr("whichloop._extras.is_installed", lambda _: there)
    ended = whichloop("init", "project")
    assert ended.code == 0
    assert ("  pip install pytest " in ended.out) != there
