"""A program of the user's own as an arm: an executable in any language, or a Python function. Nothing in it has to change."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import aiohttp

from whichloop.models.wires.base import SERVER
from whichloop.protocol.digest import canonical_json, sha256
from whichloop.protocol.json_text import Json
from whichloop.protocol.names import toml_text
from whichloop.protocol.wire import from_json

from .gateway import MODEL, ProgramTrial, served
from .loop import MAX_ANSWER_BYTES, ForeignAgent, ProgramLoop, executable, place, read_answer, run_executable
from .worker import API_KEY, RUNNER, Solver, home_in, own_environment, trial_environment


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
    """A command-line agent.

    Each builds a command line, an environment and settings after the documentation of the agent, which docs/cli-agents.md names.
    The server of tools is called `whichloop`, so that the model knows the tools by their own names (`models/wires/base.py`).
    """

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


MAX_START_S = 300
"""Longest time that the imports of a program may take, in seconds."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """One interpreter."""

    python: str
    """Its version."""
    packages: Mapping[str, str]
    """Package → version."""


def look_at(solver: Solver) -> Interpreter:
    """Start an interpreter once, and let it import the solver's function, if it names one. Raises ValueError if that fails."""
    folders = sorted(Path(solver.python).parent.parent.glob("lib/python*/site-packages"))
    return _look_at(solver, tuple((str(folder), folder.stat().st_mtime_ns) for folder in folders))


@lru_cache(maxsize=256)  # each arm asks several times, and imports may take seconds; packages that changed are read again
def _look_at(solver: Solver, folders: tuple[tuple[str, int], ...]) -> Interpreter:
    command = [solver.python, str(RUNNER), solver.target]
    environment = None if solver.environment is None else dict(solver.environment)
    try:
        ended = subprocess.run(  # noqa: S603  # our own runner, in an interpreter that the user named
            command, capture_output=True, input=b"", check=False, env=environment, timeout=MAX_START_S
        )
        [(ending, content)] = json.loads(ended.stdout.splitlines()[0]).items()
    except subprocess.TimeoutExpired:
        raise ValueError(f"{solver.target}: its import did not end within {MAX_START_S} s") from None
    except OSError as error:
        raise ValueError(f"{solver.python}: {error.strerror}") from None
    except (ValueError, IndexError, AttributeError):
        last = ended.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["it said nothing"]
        raise ValueError(f"{solver.python} does not run what a program needs: {last[0]}") from None
    if ending != "ready":
        raise ValueError(f"{solver.target}: {content}")
    return Interpreter(content["python"], content["packages"])


_FUNCTION = re.compile(r"(?P<module>[A-Za-z_][\w.]*|\S+\.py):(?P<function>[A-Za-z_]\w*)")
_PYTHONS = frozenset({"python", "python3"})
MAX_PROCESSES = 256
MAX_SOURCE_BYTES = 10_000_000
"""Size of a file beyond which it counts as data of the program, not as code."""


@dataclass(frozen=True, slots=True)
class Program(ProgramLoop):
    """A program that you have: it gets the question, the tools' address and an OpenAI endpoint, and gives an answer."""

    command: str
    """Command line of an executable, a Python function, `my.module:solve` or `FILE.py:solve`, or the name of an agent: `codex`."""
    venv: str = ""
    """Folder of the virtual environment whose Python runs it; default: the Python that runs whichloop."""
    python: str = ""
    """Path of the Python that runs it, if it is in no virtual environment."""
    keys: tuple[str, ...] = ()
    """Names of environment variables with a secret that the program may have; all others are kept from it."""
    executable: str = ""
    """Path of a named agent's executable; default: the one on the search path."""
    processes: int = 0
    """Maximum number of processes at a time, if each trial is a process of its own; 0: one per processor."""
    label: str = ""
    """Name of its arms; default: the command."""

    def __post_init__(self) -> None:
        if not self.words:
            raise ValueError("command: it is empty; write a command line, or my.module:function")
        if self.venv and self.python:
            raise ValueError("venv and python exclude each other: both say which Python runs the program")
        if (self.venv or self.python) and not self.is_function and self.words[0] not in _PYTHONS:
            what = "venv" if self.venv else "python"
            raise ValueError(f"{what}: it is for Python, and the command begins with {self.words[0]!r}, not with python")
        if self.executable and self.preset is None:
            raise ValueError(f"executable: it is for the named agents ({', '.join(PRESETS)}), not for {self.command!r}")
        if self.processes and self.is_function:
            raise ValueError("processes: it is for executables; a function is called in processes that stay")
        if not 0 <= self.processes <= MAX_PROCESSES:
            raise ValueError(f"processes must be from 0 to {MAX_PROCESSES}, not {self.processes}")

    # --- what it is ---

    @property
    def name(self) -> str:
        return "program"

    @property
    def is_function(self) -> bool:
        return _FUNCTION.fullmatch(self.command.strip()) is not None

    @property
    def preset(self) -> Preset | None:
        """How a named agent is started; None for any other command."""
        return PRESETS.get(self.command.strip())

    @property
    def words(self) -> list[str]:
        """The words of the command. Raises ValueError for an open quote."""
        try:
            return shlex.split(self.command)
        except ValueError as error:
            raise ValueError(f"command: {error} in {self.command!r}") from None

    @property
    def version(self) -> str:
        """No version: a program that changes is told by its source. Raises ValueError for one that cannot begin.

        Asked before the first trial: it imports a function once, and has its Python read a script.
        """
        for name in self.keys:
            if name not in os.environ:
                raise ValueError(f"keys: the environment has no {name}")
        if self.is_function:
            file = self.command.strip().rpartition(":")[0]
            if file.endswith(".py") and not Path(file).is_file():
                raise ValueError(f"{self.command.strip()}: there is no file {file} here")
            look_at(self.solver())
            return ""
        found = executable(self.command_words()[0])
        first, *rest = self.words
        if Path(first).name.startswith("python") and rest and not {"-c", "-m", "-"} & set(rest):
            script = next((word for word in rest if word.endswith(".py")), "") if rest[0].startswith("-") else rest[0]
            if script and not Path(script).exists():
                raise ValueError(f"{self.command.strip()}: there is no file {script} here")
            if Path(script).is_file():
                look_at(self.solver()._replace(python=found, target=script))
        return ""

    @property
    def packages(self) -> Mapping[str, str]:
        """The version of the Python that was chosen for it; empty for the one that runs whichloop."""
        interpreter = self._own_interpreter()
        return {} if interpreter is None else {"python": interpreter.python}

    @property
    def environment_digest(self) -> str:
        interpreter = self._own_interpreter()
        return "" if interpreter is None else sha256(canonical_json([interpreter.python, dict(interpreter.packages)]))

    @property
    def sources(self) -> tuple[Path, ...]:
        """The files of this package, and those that the command names."""
        return (*super(Program, self).sources, *self._own_files())

    def _own_files(self) -> Iterator[Path]:
        function = _FUNCTION.fullmatch(self.command.strip())
        if function is None:
            named_files: list[Path] = [Path(word) for word in self.words]
        elif function["module"].endswith(".py"):
            named_files = [Path(function["module"])]
        else:
            inside = Path(*function["module"].split("."))
            places = [Path.cwd(), *map(Path, filter(None, sys.path))]
            files = (file for at in places for file in (at / inside.with_suffix(".py"), at / inside / "__init__.py"))
            named_files = [file for file in files if file.is_file()][:1]
        yield from (file for file in named_files if file.is_file() and file.stat().st_size <= MAX_SOURCE_BYTES)

    # --- what runs it ---

    @property
    def interpreter(self) -> str:
        """Path of the Python that was chosen; empty for the one that runs whichloop. Raises ValueError if there is none."""
        chosen = self.venv or self.python
        if not chosen:
            return ""
        path = Path(chosen).expanduser()
        path = Path(os.path.abspath(path / "bin" / "python" if self.venv else path))  # a link in an environment leads out of it
        if not path.is_file():
            what = f"venv: {chosen} has no bin/python" if self.venv else f"python: there is no {chosen}"
            raise ValueError(what)
        return str(path)

    def command_words(self) -> list[str]:
        """Return the words of an executable's command; `python` is the one that was chosen. Raises ValueError."""
        if self.preset is not None:
            return [os.path.abspath(self.executable) if self.executable else self.preset.executable]
        first, *rest = self.words
        return [self.interpreter or sys.executable if first in _PYTHONS else first, *rest]

    def solver(self) -> Solver:
        environment = own_environment(self.keys, self.interpreter)
        target = self.command.strip()
        return Solver(self.interpreter or sys.executable, target, tuple(sorted(environment.items())))

    def _own_interpreter(self) -> Interpreter | None:
        if not self.interpreter:
            return None
        return look_at(Solver(self.interpreter, "", tuple(sorted(own_environment((), self.interpreter).items()))))

    async def solve_trial(self, trial: ProgramTrial, question: str) -> Mapping[str, Json]:
        """Let the program solve the task; an executable has its own process. Raises OSError, WorkerGone and ValueError."""
        if self.is_function:
            return await super(Program, self).solve_trial(trial, question)
        words, environment = self.command_words(), own_environment(self.keys, self.interpreter)
        async with place(self, self.processes or os.cpu_count() or 1), served(trial) as url:
            trial_variables = environment | trial_environment(url, question, MODEL, self.max_steps)
            if self.preset is not None:
                # its folder is its home, too: it finds none of the user's settings there
                with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
                    folder = Path(name)
                    launch = self.preset.launch(TrialPlace(url, folder, MODEL, self.max_steps))
                    arguments = (*launch.arguments, *((question,) if launch.asks else ()))
                    variables = {**trial_variables, **home_in(folder), **launch.environment}
                    message = (await run_executable([*words, *arguments], variables, question, folder)).message()
                if "answer" not in message:
                    return message
                answer = launch.read_answer(message["answer"])
                return {"answer": answer} if answer else {}
            return (await run_executable(words, trial_variables, question)).message()


LOOP = Program


MAX_ERROR_CHARS = 200


@dataclass(frozen=True, slots=True)
class Service(ForeignAgent):
    """An agent behind an address. It gets JSON: `question`, `base_url`, `api_key`, `model`, `tools_url`, `mcp_url`, `max_steps`.

    It answers with JSON, `{"answer": …}`, or with the answer as text. What it is given is on loopback: it runs on this machine.
    """

    url: str
    """Where it takes questions: http:// or https://."""

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # raised for a port that is no number, or too large
            is_address = False
        if not is_address:
            raise ValueError(f"url must begin with http:// or https:// and name a host, and a port below 65536, not {self.url!r}")

    @property
    def name(self) -> str:
        return "service"

    async def solve_trial(self, trial: ProgramTrial, question: str) -> Mapping[str, Json]:
        """Let the service solve the task. Raises OSError if nothing listens there."""
        async with served(trial) as place, aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
            question_body = {
                "question": question,
                "base_url": f"{place}/v1",
                "api_key": API_KEY,
                "model": MODEL,
                "tools_url": f"{place}/tools",
                "mcp_url": f"{place}/mcp",
                "max_steps": self.max_steps,
            }
            try:
                async with session.post(self.url, json=question_body) as response:
                    return _message(response.status, await response.content.read(MAX_ANSWER_BYTES))
            except aiohttp.ClientConnectorError as error:
                raise OSError(f"nothing answers at {self.url}: {error.os_error}") from None
            except aiohttp.ClientError as error:
                return {"type": type(error).__name__, "error": str(error)}


def _message(status: int, body: bytes) -> dict[str, Any]:
    """Return what came back as the message that ends a trial."""
    text = read_answer(body)
    if status >= 400:
        return {"type": f"status {status}", "error": text[:MAX_ERROR_CHARS]}
    try:
        value = from_json(text)
    except ValueError:
        return {"answer": text} if text else {}
    return {"answer": value["answer"]} if isinstance(value, dict) and "answer" in value else {"answer": text}
