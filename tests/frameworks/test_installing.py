"""`whichloop install`: with an installer that works, one that fails, and one that is cut off."""

import re
import sys
from pathlib import Path

import pytest

from whichloop.frameworks.table import known_frameworks

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


def test_an_environment_is_made_with_progress_and_kept(whichloop, home, toy_wiring, uv):
    uv("true")
    ended = whichloop("install", "openai_agents")
    assert (ended.code, left_in(home)) == (0, ["openai_agents"])
    assert "openai_agents: Resolved\n" in ended.err
    assert ended.out.startswith("openai_agents 0.24.0: installed in ")
    again = whichloop("install", "openai_agents")
    assert again.out.endswith("--again makes it anew\n")


def test_another_version_has_an_environment_of_its_own_without_our_pins(whichloop, home, toy_wiring, uv, tmp_path):
    uv(f"echo $* > {tmp_path}/asked")
    ended = whichloop("install", "openai_agents@0.22.0", "-q")
    assert (ended.code, left_in(home)) == (0, ["openai_agents@0.22.0"])
    assert ended.out.endswith("--loop 'openai_agents(venv=openai_agents@0.22.0)'\n")
    asked = (tmp_path / "asked").read_text().split()
    assert "openai-agents==0.22.0" in asked
    assert "--constraint" not in asked


@pytest.mark.parametrize(("set_by_user", "asked"), [(None, "1"), pytest.param("0", "0", marks=pytest.mark.slow)])
def test_uv_trusts_whom_the_machine_trusts_unless_told_otherwise(
    whichloop, home, toy_wiring, uv, tmp_path, monkeypatch, set_by_user, asked
):
    uv(f"echo $UV_SYSTEM_CERTS > {tmp_path}/asked")
    monkeypatch.delenv("UV_SYSTEM_CERTS", raising=False)
    if set_by_user is not None:
        monkeypatch.setenv("UV_SYSTEM_CERTS", set_by_user)
    assert whichloop("install", "openai_agents", "-q").code == 0
    assert (tmp_path / "asked").read_text() == f"{asked}\n"


def test_an_installer_that_fails_leaves_nothing_half_made(whichloop, home, uv):
    uv("echo no route to the index >&2; exit 7")
    ended = whichloop("install", "openai_agents", "--quiet")
    assert (ended.code, ended.out, left_in(home)) == (2, "", [])
    assert ended.err.count("\n") == 1
    assert "ended with exit code 7: " in ended.err
    assert ended.err.endswith("no route to the index\n")


def test_what_was_installed_stays_where_a_new_one_fails(whichloop, home, uv):
    make_environment(home / "openai_agents", openai_agents="0.20.0")
    uv("exit 1")
    assert whichloop("install", "openai_agents", "--again").code == 2
    assert left_in(home) == ["openai_agents"]
    assert (home / "openai_agents" / "pyvenv.cfg").exists()


def test_packages_that_the_wiring_cannot_import_are_no_environment(whichloop, home, uv):
    uv("true")
    ended = whichloop("install", "openai_agents", "-q")
    assert (ended.code, left_in(home)) == (2, [])
    assert "its wiring cannot be imported: ModuleNotFoundError: No module named 'agents'" in ended.err


def test_a_new_environment_takes_the_place_of_the_old_one(whichloop, home, toy_wiring, uv):
    make_environment(home / "openai_agents", openai_agents="0.20.0")
    uv("true")
    assert whichloop("install", "openai_agents", "--again", "-q").code == 0
    assert left_in(home) == ["openai_agents"]
    assert not (home / "openai_agents" / "pyvenv.cfg").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["openai_agent"], "error: unknown framework 'openai_agent'; did you mean 'openai_agents'? known: "),
        (["agno", "agnos"], "error: unknown framework 'agnos'; did you mean 'agno'?"),
        (["agno@"], "error: agno@: '' is no version; write agno@"),
        (["agno@../x"], "error: agno@../x: '../x' is no version; "),
        (["agnos@1.0"], "error: unknown framework 'agnos'; "),
        ([], "error: name frameworks, or give --all; "),
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
    listed = whichloop("list", "frameworks", "--json").json
    assert [entry["name"] for entry in listed] == known_frameworks()
    by_name = {entry["name"]: entry for entry in listed}
    assert (by_name["openai_agents"]["version"], by_name["openai_agents"]["installed"]) == ("0.24.0", "0.20.0")
    assert by_name["agno"]["installed"] is None
    assert {option["name"] for option in by_name["openai_agents"]["options"]} == {
        "venv",
        "tool_errors",
        "unknown_tool",
        "wire",
        "max_steps",
    }
    said = whichloop("list", "frameworks").out
    assert re.search(r"^openai_agents  +0\.24\.0  +0\.20\.0  ", said, re.MULTILINE)
    assert said.endswith(f"{home}\n")


def test_loops_and_frameworks_are_listed_apart(whichloop, home):
    loops, heading, frameworks = whichloop("list", "loops").out.partition("\nFrameworks, each in an environment of its own")
    assert heading
    assert "\nfinish " in loops
    assert "\nopenai_agents " not in loops
    assert "\nopenai_agents " in frameworks
