"""Command-line agents by name: `--program codex`. A preset says how such an agent is started, all in a trial's own folder.

Each builds a command line, an environment and settings after the documentation of the agent, which docs/cli-agents.md names.
The server of tools is called `whichloop`, so that the model knows the tools by their own names (`models/server/mcp_names.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from whichloop.models.server.mcp_names import SERVER
from whichloop.protocol.names import toml_text
from whichloop.protocol.wire import from_json

from .environment import API_KEY


class TrialPlace(NamedTuple):
    """What an agent is told of its trial."""

    url: str
    """The address below which the trial is served."""
    folder: Path
    """An empty folder, in which the agent runs and has all of its files."""
    model: str
    max_steps: int


@dataclass(frozen=True, slots=True)
class Launch:
    """How an agent is started. The question is on its standard input, and its last argument where `asks` says so."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    asks: bool = False
    read_answer: Callable[[str], str] = str
    """Returns the answer in what the agent has printed."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A command-line agent."""

    executable: str
    """Name of its executable."""
    launch: Callable[[TrialPlace], Launch]


def _codex(place: TrialPlace) -> Launch:
    home = place.folder / "codex"
    home.mkdir()
    settings = [
        f"model = {toml_text(place.model)}",
        f"model_provider = {toml_text(SERVER)}",
        'approval_policy = "never"',
        'sandbox_mode = "read-only"',
        "check_for_update_on_startup = false",
        f"[model_providers.{SERVER}]",
        f"name = {toml_text(SERVER)}",
        f"base_url = {toml_text(f'{place.url}/v1')}",
        'wire_api = "responses"',
        'env_key = "OPENAI_API_KEY"',
        f"[mcp_servers.{SERVER}]",
        f"url = {toml_text(f'{place.url}/mcp')}",
        'default_tools_approval_mode = "approve"',
    ]
    (home / "config.toml").write_text("\n".join(settings) + "\n", encoding="utf-8")
    return Launch(("exec", "--skip-git-repo-check", "--ephemeral", "-"), {"CODEX_HOME": str(home)})


def _claude_code(place: TrialPlace) -> Launch:
    servers = _json_file(place.folder / "mcp.json", {"mcpServers": {SERVER: {"type": "http", "url": f"{place.url}/mcp"}}})
    environment = {
        "ANTHROPIC_BASE_URL": place.url,
        "ANTHROPIC_AUTH_TOKEN": API_KEY,
        "ANTHROPIC_MODEL": place.model,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": place.model,
        "CLAUDE_CONFIG_DIR": str(place.folder / "claude"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    tools = ("--strict-mcp-config", "--mcp-config", servers, "--allowedTools", f"mcp__{SERVER}")
    return Launch(("-p", "--output-format", "text", "--max-turns", str(place.max_steps), *tools), environment)


def _opencode(place: TrialPlace) -> Launch:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{place.url}/v1", "apiKey": API_KEY},
        "models": {place.model: {}},
    }
    model = f"{SERVER}/{place.model}"
    settings = {
        "$schema": "https://opencode.ai/config.json",
        "autoupdate": False,
        "share": "disabled",
        "model": model,
        "small_model": model,
        "provider": {SERVER: provider},
        "mcp": {SERVER: {"type": "remote", "url": f"{place.url}/mcp", "enabled": True}},
    }
    _json_file(place.folder / "opencode.json", settings)
    environment = {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}
    words = ("run", "--auto", "--format", "json", "--title", "trial", "-m", model)
    return Launch(words, environment, asks=True, read_answer=_last_text_of_opencode)


def _qwen_code(place: TrialPlace) -> Launch:
    servers = _json_file(place.folder / "mcp.json", {"mcpServers": {SERVER: {"httpUrl": f"{place.url}/mcp", "trust": True}}})
    words = (
        "--auth-type", "openai", "--openai-base-url", f"{place.url}/v1", "--openai-api-key", API_KEY, "-m", place.model,
        "--approval-mode", "yolo", "--exclude-tools", "tool_search", "--mcp-config", servers,
    )  # fmt: skip
    return Launch(words, asks=True)


def _json_file(path: Path, content: object) -> str:
    """Write a file, and return its path."""
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


def _last_text_of_opencode(printed: str) -> str:
    """Return the last text in OpenCode's events, one a line; what it says beside calls comes before. No text, no answer."""
    texts = [""]
    for line in printed.splitlines():
        try:
            event = from_json(line)
            if event["type"] == "text":
                texts.append(str(event["part"]["text"]))
        except (ValueError, KeyError, TypeError):  # a line that is no such event
            continue
    return texts[-1]


PRESETS: Mapping[str, Preset] = {
    "claude-code": Preset("claude", _claude_code),
    "codex": Preset("codex", _codex),
    "opencode": Preset("opencode", _opencode),
    "qwen-code": Preset("qwen", _qwen_code),
}
