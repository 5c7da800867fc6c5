"""Command-line agents by name: what each is given, and that agents of the real ones' shapes solve tasks with it.

The open-source ones run for real where the folder WHICHLOOP_CLI_AGENTS has them (see docs/cli-agents.md).
"""

import json
import os
import tomllib
from pathlib import Path

import pytest

from whichloop.cli.main import main
from whichloop.programs.program import PRESETS, Program, TrialPlace
from whichloop.protocol.names import parse_spec, program_spec
from whichloop.runs.registry import make_loop, programs_named

SHAPED = Path(__file__).with_name("shaped_agents.py")
URL = "http://127.0.0.1:9/t/x"


@pytest.fixture
def launched(tmp_path):
    return {name: preset.launch(TrialPlace(URL, _folder(tmp_path / name), "scripted", 9)) for name, preset in PRESETS.items()}


def _folder(path):
    path.mkdir()
    return path


def test_all_that_an_agent_is_given_lies_in_its_own_folder(launched, tmp_path):
    for name, launch in launched.items():
        told = [*launch.arguments, *launch.environment.values()]
        inside = [text for text in told if text.startswith(str(tmp_path))]
        assert all(text.startswith(str(tmp_path / name)) for text in inside)
        files = [file.read_text() for file in (tmp_path / name).rglob("*") if file.is_file()]
        assert URL in " ".join([*told, *files])
        assert f"{URL}/mcp" in " ".join(files)


def test_the_settings_of_codex(launched, tmp_path):
    settings = tomllib.loads((tmp_path / "codex" / "codex" / "config.toml").read_text())
    provider = settings["model_providers"][settings["model_provider"]]
    assert (provider["base_url"], provider["wire_api"]) == (f"{URL}/v1", "responses")
    assert settings["mcp_servers"] == {"whichloop": {"url": f"{URL}/mcp", "default_tools_approval_mode": "approve"}}


def test_the_settings_of_claude_code(launched, tmp_path):
    servers = json.loads((tmp_path / "claude-code" / "mcp.json").read_text())
    assert servers == {"mcpServers": {"whichloop": {"type": "http", "url": f"{URL}/mcp"}}}
    assert launched["claude-code"].environment["ANTHROPIC_BASE_URL"] == URL  # without /v1, which it adds itself


def test_the_last_text_of_opencode_is_its_answer(launched):
    def event(kind, text):
        return json.dumps({"type": kind, "part": {"text": text}})

    read = launched["opencode"].read_answer
    assert read("\n".join([event("text", "Next."), event("tool_use", "no"), event("text", "18"), "no event"])) == "18"
    assert read("no event") == ""


def test_a_name_is_a_preset_and_anything_else_a_command():
    assert Program("codex").preset is PRESETS["codex"]
    assert Program("codex exec -").preset is None
    with pytest.raises(ValueError, match=r"^executable: it is for the named agents"):
        Program("python x.py", executable="/bin/x")
    spec = parse_spec(program_spec("codex(executable=/opt/codex)"))
    loop = make_loop(spec)
    assert isinstance(loop, Program)
    assert loop.command_words() == ["/opt/codex"]
    assert "codex" in programs_named(spec)


def test_an_agent_that_is_not_there_is_told(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ValueError, match=r"^command: there is no 'claude' to run"):
        assert Program("claude-code").version


# --- agents of the real ones' shapes ---


@pytest.fixture
def shaped(tmp_path):
    """The folder of the stand-ins, under the names of the real ones."""
    for name in ("codex", "claude"):
        (tmp_path / name).write_text(SHAPED.read_text())
        (tmp_path / name).chmod(0o755)
    return tmp_path


def compared(capsys, monkeypatch, folder, *flags):
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.argv", ["whichloop", "compare", "-q", "--json", *flags])
    capsys.readouterr()
    code: object = 0
    try:
        main()
    except SystemExit as left:
        code = left.code
    said = capsys.readouterr()
    assert not code, said.err
    return {arm["arm"]: arm for arm in json.loads(said.out)["arms"]}


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "executable"), [("codex", "codex"), ("claude-code", "claude")])
def test_an_agent_of_that_shape_solves_tasks(capsys, monkeypatch, shaped, name, executable):
    program = f"{name}(executable={shaped / executable}, label={name})"
    flags = ("--program", program, "--tasks", "1", "--profile", "clean", "--profile", "flaky-mcp")
    arms = compared(capsys, monkeypatch, shaped, *flags)
    assert len(arms) == 2
    clean = next(arm for at, arm in arms.items() if at.endswith("clean"))
    assert clean["accuracy"]["value"] == 1.0


# --- the open-source ones, for real ---

REAL = {"opencode": "node_modules/.bin/opencode", "qwen-code": "node_modules/.bin/qwen"}


@pytest.mark.real
@pytest.mark.parametrize("name", sorted(REAL))
def test_a_real_agent_solves_tasks(capsys, monkeypatch, tmp_path, name):
    home = os.environ.get("WHICHLOOP_CLI_AGENTS")
    if home is None or not Path(home, REAL[name]).exists():
        pytest.skip(f"no {name}: WHICHLOOP_CLI_AGENTS names no folder in which npm has installed it")
    program = f"{name}(executable={Path(home, REAL[name])}, label={name})"
    [arm] = compared(capsys, monkeypatch, tmp_path, "--program", program, "--tasks", "2").values()
    assert arm["accuracy"]["value"] == 1.0
