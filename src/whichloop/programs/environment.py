"""The environments of processes in which programs run: no keys of the user's but those that were named."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Collection
from pathlib import Path

from whichloop.protocol.redact import without_secrets

MCP_BRIDGE = Path(__file__).with_name("outside") / "mcp_stdio.py"
API_KEY = "none"
MAX_QUESTION_BYTES = 100_000
"""Longest question that stands in the environment, too; Linux allows 131,072 bytes for a variable (execve(2))."""
HERE = "127.0.0.1"
_NO_PROXIES = ("NO_PROXY", "no_proxy")
_QUIET = {
    "OPENAI_API_KEY": API_KEY,
    "ANTHROPIC_API_KEY": API_KEY,
    "GEMINI_API_KEY": API_KEY,
    "OTEL_SDK_DISABLED": "true",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "NO_PROXY": HERE,
    "no_proxy": HERE,
    "PYTHONUNBUFFERED": "1",
}
"""What frameworks have in their environment: none shall call anyone but the gateway."""


def framework_environment() -> dict[str, str]:
    """Return the environment of a framework: this one without keys, and without what would lead to our own packages."""
    environment = without_secrets(os.environ)
    environment.pop("PYTHONPATH", None)
    return environment | _QUIET


def own_environment(keys: Collection[str], interpreter: str) -> dict[str, str]:
    """Return the environment of a program of the user's own: this one without keys, but with those that were named.

    `interpreter`: path of the interpreter that was chosen for it, empty for the one that runs whichloop.
    """
    environment = without_secrets(os.environ) | {name: os.environ[name] for name in keys if name in os.environ}
    for name in _NO_PROXIES:
        environment[name] = ",".join([*filter(None, [environment.get(name)]), HERE])
    if interpreter:
        environment.pop("PYTHONPATH", None)  # it leads to packages of another interpreter
        bin_folder = Path(interpreter).parent
        environment["PATH"] = os.pathsep.join([str(bin_folder), *filter(None, [environment.get("PATH")])])
        if (bin_folder.parent / "pyvenv.cfg").is_file():
            environment["VIRTUAL_ENV"] = str(bin_folder.parent)
    return environment | {"OPENAI_API_KEY": API_KEY, "ANTHROPIC_API_KEY": API_KEY, "GEMINI_API_KEY": API_KEY}


def trial_environment(url: str, question: str, model: str, max_steps: int) -> dict[str, str]:
    """Return what tells an executable of its trial. `url`: the address below which the trial is served."""
    environment = {
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_BASE": f"{url}/v1",  # LiteLLM looks here
        "OPENAI_API_KEY": API_KEY,
        "OPENAI_MODEL": model,
        "ANTHROPIC_BASE_URL": url,  # Anthropic's clients add the version of the API themselves
        "ANTHROPIC_API_KEY": API_KEY,
        "ANTHROPIC_MODEL": model,
        "GOOGLE_GEMINI_BASE_URL": url,  # Google's clients add the version too
        "GEMINI_API_KEY": API_KEY,
        "GEMINI_MODEL": model,
        "WHICHLOOP_TOOLS_URL": f"{url}/tools",
        "WHICHLOOP_ANSWER_URL": f"{url}/answer",
        "WHICHLOOP_MCP_URL": f"{url}/mcp",
        "WHICHLOOP_MCP_COMMAND": mcp_command(url),
        "WHICHLOOP_MAX_STEPS": str(max_steps),
    }
    if len(question.encode("utf-8", "surrogatepass")) <= MAX_QUESTION_BYTES and "\0" not in question:
        environment["WHICHLOOP_QUESTION"] = question.encode("utf-8", "replace").decode()
    return environment


def home_in(folder: Path) -> dict[str, str]:
    """Return what makes a folder the home of a process that runs there: where it looks for settings, and keeps its files."""
    inside = {"XDG_CONFIG_HOME": "config", "XDG_DATA_HOME": "data", "XDG_STATE_HOME": "state", "XDG_CACHE_HOME": "cache"}
    return {"HOME": str(folder), "PWD": str(folder)} | {name: str(folder / part) for name, part in inside.items()}


def mcp_command(url: str) -> str:
    """Return the command that gives a trial's tools over MCP's standard input and output."""
    return shlex.join([sys.executable, str(MCP_BRIDGE), f"{url}/mcp"])
