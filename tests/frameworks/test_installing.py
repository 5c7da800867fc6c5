"""`whichloop install`: with an installer that works, one that fails, and one that is cut off."""

import re
import sys
from pathlib import Path

import pytest

from whichloop.frameworks.table import FRAMEWORKS

from .conftest import make_environment

pytestmark = pytest.mark.thorough  # processes are started


@pytest.fixture
def uv(tmp_path, monkeypatch):
    """Puts an installer called uv on the search path; the text is what it does for `uv pip install`."""

    def write(installs):
        folder = tmp_path / "tools"
        folder.mkdir()
        link = f"mkdir -p $last/bin && ln -s {Path(sys.executable).resolve()} $last/bin/python"
        script = f'#!/bin/sh\nfor last; do :; done\nif [ "$1" = venv ]; then {link}; else echo Resolved; {installs}; fi\n'
        (folder / "uv").write_text(script)
        (folder / "uv").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    return write


def left_in(home):
    return sorted(path.name for path in home.iterdir()) if home.exists() else []


def test_an_environment_is_made_with_progress_and_kept_until_asked_again(whichloop, home, toy_wiring, uv):
    uv("true")
    ended = whichloop("install", "openai_agents")
    assert (ended.code, left_in(home)) == (0, ["openai_agents"])
    assert "openai_agents: Resolved\n" in ended.err
    assert ended.out.startswith("openai_agents 0.24.0: installed in ")
    (home / "openai_agents" / "old").touch()
    assert whichloop("install", "openai_agents").out.endswith("--again makes it anew\n")
    assert whichloop("install", "openai_agents", "--again", "-q").code == 0
    assert left_in(home) == ["openai_agents"]
    assert not (home / "openai_agents" / "old").exists()


def test_another_version_has_an_environment_of_its_own_without_our_pins(whichloop, home, toy_wiring, uv, tmp_path, monkeypatch):
    """And uv trusts whom the machine trusts."""
    monkeypatch.delenv("UV_SYSTEM_CERTS", raising=False)
    uv(f"echo $UV_SYSTEM_CERTS $* > {tmp_path}/asked")
    ended = whichloop("install", "openai_agents@0.22.0", "-q")
    assert (ended.code, left_in(home)) == (0, ["openai_agents@0.22.0"])
    assert ended.out.endswith("--loop 'openai_agents(venv=openai_agents@0.22.0)'\n")
    words = (tmp_path / "asked").read_text().split()
    assert words[0] == "1"
    assert "openai-agents==0.22.0" in words
    assert "--constraint" not in words


@pytest.mark.parametrize(
    ("installs", "said"),
    [
        ("echo no route to the index >&2; exit 7", "ended with exit code 7: Resolved no route to the index\n"),
        ("true", "wiring/openai_agents.py:solve: ModuleNotFoundError: No module named 'agents'\n"),
    ],
)
def test_what_fails_leaves_nothing_half_made_and_what_was_there_as_it_is(whichloop, home, uv, installs, said):
    uv(installs)
    make_environment(home / "openai_agents", openai_agents="0.20.0")
    for words, left in ((["openai_agents", "--again"], ["openai_agents"]), (["openai_agents@0.22.0"], ["openai_agents"])):
        ended = whichloop("install", *words, "--quiet")
        assert (ended.code, ended.out, left_in(home), ended.err.count("\n")) == (2, "", left, 1)
        assert ended.err.endswith(said)
    assert (home / "openai_agents" / "pyvenv.cfg").exists()


def test_what_was_there_is_put_back_where_the_new_environment_cannot_take_its_place(whichloop, home, toy_wiring, uv, monkeypatch):
    uv("true")
    make_environment(home / "openai_agents", openai_agents="0.20.0")
    rename = Path.rename

    def fails(self, target):
        if Path(target).name == "openai_agents" and self.name != "before":
            raise OSError(5, "no room", str(target))
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails)
    assert whichloop("install", "openai_agents", "--again", "-q").code == 2
    assert (left_in(home), (home / "openai_agents" / "pyvenv.cfg").exists()) == (["openai_agents"], True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["openai_agent"], "error: unknown framework 'openai_agent'; did you mean 'openai_agents'? known: "),
        (["agno", "agnos"], "error: unknown framework 'agnos'; did you mean 'agno'?"),
        (["agno@../x"], "error: agno@../x: '../x' is no version; write agno@"),
        (["agno", "--all"], "error: name frameworks, or give --all; "),
    ],
)
def test_a_wrong_name_makes_nothing(whichloop, home, uv, words, said):
    uv("true")
    ended = whichloop("install", *words)
    assert (ended.code, left_in(home)) == (2, [])
    assert ended.err.startswith(said)


def test_the_list_says_what_is_installed(whichloop, home):
    make_environment(home / "openai_agents", openai_agents="0.20.0")
    listed = {entry["name"]: entry for entry in whichloop("list", "frameworks", "--json").json}
    assert list(listed) == list(FRAMEWORKS)
    assert (listed["openai_agents"]["version"], listed["openai_agents"]["installed"]) == ("0.24.0", "0.20.0")
    assert listed["agno"]["installed"] is None
    said = whichloop("list", "frameworks").out
    assert re.search(r"^openai_agents  +0\.24\.0  +0\.20\.0  ", said, re.MULTILINE)
    assert said.endswith(f"{home}\n")
