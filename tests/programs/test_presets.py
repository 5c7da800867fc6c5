"""Command-line agents by name: what each is given, and that agents of the real ones' shapes solve tasks with it.

The open-source ones run for real where the folder WHICHLOOP_CLI_AGENTS has them (see docs/your-agent.md).
"""

import json
import os
import tomllib
from pathlib import Path

import pytest

from tests.cli.conftest import here, whichloop
from whichloop.programs.program import PRESETS, Program
from whichloop.protocol.names import parse_spec, program_spec
from whichloop.runs.registry import make_loop, programs_named

__all__ = ["here", "whichloop"]

SHAPED = Path(__file__).with_name("shaped_agents.py")
URL = "http://127.0.0.1:9/t/x"


@pytest.mark.parametrize("name", PRESETS)
def test_all_that_an_agent_is_given_lies_in_its_own_folder_and_names_the_trial(tmp_path, name):
    words, environment = PRESETS[name].launch(URL, tmp_path, 9)
    places = {"HOME", "PWD", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"}
    assert all(environment[place].startswith(str(tmp_path)) for place in places)
    [settings] = [file for file in tmp_path.rglob("*") if file.is_file()]
    text = settings.read_text()
    given = tomllib.loads(text) if settings.suffix == ".toml" else json.loads(text)
    servers = given.get("mcp_servers") or given.get("mcpServers") or given["mcp"]
    assert [server.get("url") or server["httpUrl"] for server in servers.values()] == [f"{URL}/mcp"]
    assert list(servers) == ["whichloop"]
    assert f"{URL}/v1" in text or f"{URL}/v1" in words or environment["ANTHROPIC_BASE_URL"] == URL  # Claude Code adds /v1 itself
    assert "$" not in " ".join([*words, *environment.values(), text.replace('"$schema"', "")])


def test_a_name_is_a_preset_and_anything_else_a_command(monkeypatch):
    assert Program("codex").preset is PRESETS["codex"]
    assert Program("codex exec -").preset is None
    spec = parse_spec(program_spec("codex(executable=/opt/codex)"))
    loop = make_loop(spec)
    assert isinstance(loop, Program)
    assert loop.command_words() == ["/opt/codex"]
    assert "codex" in programs_named(spec)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ValueError, match=r"^command: there is no 'claude' to run"):
        assert Program("claude-code").version


@pytest.mark.thorough
def test_an_agent_of_that_shape_solves_tasks(whichloop, here):
    (here / "codex").write_text(SHAPED.read_text())
    (here / "codex").chmod(0o755)
    program = f"codex(executable={here / 'codex'}, label=codex)"
    flags = ("--tasks", "1", "--profile", "clean", "--profile", "flaky-mcp")
    arms = whichloop("compare", "-q", "--json", "--program", program, *flags).json["arms"]
    assert len(arms) == 2
    assert [arm["accuracy"]["value"] for arm in arms if arm["arm"].endswith("clean")] == [1.0]


REAL = {"opencode": "node_modules/.bin/opencode", "qwen-code": "node_modules/.bin/qwen"}


@pytest.mark.real
@pytest.mark.parametrize("name", sorted(REAL))
def test_a_real_agent_solves_tasks(whichloop, name):
    home = os.environ.get("WHICHLOOP_CLI_AGENTS")
    if home is None or not Path(home, REAL[name]).exists():
        pytest.skip(f"no {name}: WHICHLOOP_CLI_AGENTS names no folder in which npm has installed it")
    program = f"{name}(executable={Path(home, REAL[name])}, label={name})"
    [arm] = whichloop("compare", "-q", "--json", "--program", program, "--tasks", "2").json["arms"]
    assert arm["accuracy"]["value"] == 1.0
