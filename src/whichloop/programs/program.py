"""A program of the user's own as an arm: an executable in any language, or a Python function. Nothing in it has to change."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from whichloop.protocol.json_text import Json, canonical_json, sha256
from whichloop.protocol.wire import from_json

from .gateway import MODEL, ProgramTrial, place, served
from .loop import MAX_ANSWER_BYTES, ForeignAgent, ProgramLoop, executable, read_answer, run_executable, up_to
from .worker import API_KEY, RUNNER, Solver, own_environment, trial_environment


@dataclass(frozen=True, slots=True)
class Preset:
    """A command-line agent: how it is started, after its documentation, which docs/your-agent.md names.

    Texts hold `$url`, below which the trial is served, `$folder`, the agent's home in which it runs, `$model`, `$steps` and `$key`.
    The server of tools is called `whichloop`, so that the model knows the tools by their own names (`models/wires/base.py`).
    """

    executable: str
    arguments: str
    file: str
    """Path of its settings in the folder."""
    settings: Mapping[str, object] | str
    """What stands there: JSON, or a text."""
    environment: Mapping[str, str] = field(default_factory=dict)
    asks: bool = False
    """The question is its last argument; it is on its standard input in any case."""
    in_events: bool = False
    """What it prints are events, a line each."""

    def launch(self, url: str, folder: Path, max_steps: int) -> tuple[list[str], dict[str, str]]:
        """Write the settings, and return arguments and environment."""
        told = {"url": url, "folder": str(folder), "model": MODEL, "steps": str(max_steps), "key": API_KEY}
        text = self.settings if isinstance(self.settings, str) else json.dumps(self.settings)
        (folder / self.file).parent.mkdir(exist_ok=True)
        (folder / self.file).write_text(Template(text).safe_substitute(told), encoding="utf-8")
        environment = {name: Template(value).substitute(told) for name, value in {**_HOME, **self.environment}.items()}
        return [Template(word).substitute(told) for word in self.arguments.split()], environment

    def answer(self, printed: str) -> str:
        """Return the answer in what it has printed: of events the last text, as what it says beside calls comes before."""
        texts = [""]
        for line in printed.splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):  # a line that is no such event
                event = from_json(line)
                texts += [str(event["part"]["text"])] if event["type"] == "text" else []
        return texts[-1] if self.in_events else printed


_HOME = {
    "HOME": "$folder", "PWD": "$folder", "XDG_CONFIG_HOME": "$folder/config", "XDG_DATA_HOME": "$folder/data",
    "XDG_STATE_HOME": "$folder/state", "XDG_CACHE_HOME": "$folder/cache",
}  # fmt: skip
"""What makes a folder the home of a process: it finds none of the user's settings there."""
_CODEX = """\
model = "$model"
model_provider = "whichloop"
approval_policy = "never"
sandbox_mode = "read-only"
check_for_update_on_startup = false
[model_providers.whichloop]
name = "whichloop"
base_url = "$url/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
[mcp_servers.whichloop]
url = "$url/mcp"
default_tools_approval_mode = "approve"
"""
_PROVIDER = {
    "npm": "@ai-sdk/openai-compatible", "options": {"baseURL": "$url/v1", "apiKey": "$key"}, "models": {"$model": {}},
}  # fmt: skip
_OPENCODE = {
    "$schema": "https://opencode.ai/config.json", "autoupdate": False, "share": "disabled",
    "model": "whichloop/$model", "small_model": "whichloop/$model", "provider": {"whichloop": _PROVIDER},
    "mcp": {"whichloop": {"type": "remote", "url": "$url/mcp", "enabled": True}},
}  # fmt: skip
PRESETS: Mapping[str, Preset] = {
    "claude-code": Preset(
        "claude",
        "-p --output-format text --max-turns $steps"
        " --strict-mcp-config --mcp-config $folder/mcp.json --allowedTools mcp__whichloop",
        "mcp.json",
        {"mcpServers": {"whichloop": {"type": "http", "url": "$url/mcp"}}},
        {
            "ANTHROPIC_BASE_URL": "$url", "ANTHROPIC_AUTH_TOKEN": "$key", "ANTHROPIC_MODEL": "$model",
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": "$model", "CLAUDE_CONFIG_DIR": "$folder/claude",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    ),
    "codex": Preset(
        "codex", "exec --skip-git-repo-check --ephemeral -", "codex/config.toml", _CODEX, {"CODEX_HOME": "$folder/codex"}
    ),
    "opencode": Preset(
        "opencode", "run --auto --format json --title trial -m whichloop/$model", "opencode.json", _OPENCODE,
        {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}, asks=True, in_events=True,
    ),
    "qwen-code": Preset(
        "qwen",
        "--auth-type openai --openai-base-url $url/v1 --openai-api-key $key -m $model --approval-mode yolo"
        " --exclude-tools tool_search --mcp-config $folder/mcp.json",
        "mcp.json", {"mcpServers": {"whichloop": {"httpUrl": "$url/mcp", "trust": True}}}, asks=True,
    ),
}  # fmt: skip

MAX_ERROR_CHARS = 200
"""Characters of what a service says of an error."""
MAX_START_S = 300
"""Longest time that the imports of a program may take, in seconds."""


def look_at(solver: Solver) -> Mapping[str, Any]:
    """Start an interpreter once, and let it import the solver's function, if it names one.

    Of a solver that names nothing, the interpreter's version, `python`, and its `packages` are returned, name → version.
    Raises ValueError if that fails.
    """
    folders = sorted(Path(solver.python).parent.parent.glob("lib/python*/site-packages"))
    return _look_at(solver, tuple((str(folder), folder.stat().st_mtime_ns) for folder in folders))


@lru_cache(maxsize=256)  # each arm asks several times, and imports may take seconds; packages that changed are read again
def _look_at(solver: Solver, folders: tuple[tuple[str, int], ...]) -> Mapping[str, Any]:
    try:
        ended = subprocess.run(  # noqa: S603  # our own runner, in an interpreter that the user named
            [solver.python, str(RUNNER), solver.target],
            capture_output=True, input=b"", check=False, env=solver.variables, timeout=MAX_START_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ValueError(f"{solver.target}: its import did not end within {MAX_START_S} s") from None
    except OSError as error:
        raise ValueError(f"{solver.python}: {error.strerror}") from None
    try:
        said = json.loads(ended.stdout.splitlines()[0])
        if "failed" not in said:
            found: Mapping[str, Any] = said["ready"]
            return found
        why = f"{solver.target}: {said['failed']}"
    except (ValueError, LookupError, TypeError):
        lines = ended.stderr.decode("utf-8", "replace").strip().splitlines() or ["it said nothing"]
        why = f"{solver.python} does not run what a program needs: {lines[-1]}"
    raise ValueError(why)


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
        words, chosen = self.words, "venv" if self.venv else "python"
        if not words:
            raise ValueError("command: it is empty; write a command line, or my.module:function")
        if self.venv and self.python:
            raise ValueError("venv and python exclude each other: both say which Python runs the program")
        if (self.venv or self.python) and not self.is_function and words[0] not in _PYTHONS:
            raise ValueError(f"{chosen}: it is for Python, and the command begins with {words[0]!r}, not with python")
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

        Asked before the first trial: it imports a function once.
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
        executable(self.command_words()[0])
        first, *rest = self.words
        script = next((word for word in rest if word.endswith(".py")), "")
        if Path(first).name.startswith("python") and script and not {"-c", "-m", "-"} & set(rest) and not Path(script).exists():
            raise ValueError(f"{self.command.strip()}: there is no file {script} here")
        return ""

    @property
    def packages(self) -> Mapping[str, str]:
        """The version of the Python that was chosen for it; empty for the one that runs whichloop."""
        return {"python": self._interpreter_seen()["python"]} if self.interpreter else {}

    @property
    def environment_digest(self) -> str:
        seen = self._interpreter_seen() if self.interpreter else {}
        return sha256(canonical_json([seen["python"], seen["packages"]])) if seen else ""

    def _interpreter_seen(self) -> Mapping[str, Any]:
        return look_at(Solver(self.interpreter, "", tuple(sorted(own_environment((), self.interpreter).items()))))

    @property
    def sources(self) -> tuple[Path, ...]:
        """The files of this package, and those that the command names."""
        return (*super(Program, self).sources, *self._own_files())

    def _own_files(self) -> Iterator[Path]:
        function = _FUNCTION.fullmatch(self.command.strip())
        named_files = [Path(word) for word in self.words] if function is None else [Path(function["module"])]
        if function is not None and not function["module"].endswith(".py"):
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
            raise ValueError(f"venv: {chosen} has no bin/python" if self.venv else f"python: there is no {chosen}")
        return str(path)

    def command_words(self) -> list[str]:
        """Return the words of an executable's command; `python` is the one that was chosen. Raises ValueError."""
        if self.preset is not None:
            return [os.path.abspath(self.executable) if self.executable else self.preset.executable]
        first, *rest = self.words
        return [self.interpreter or sys.executable if first in _PYTHONS else first, *rest]

    def solver(self) -> Solver:
        environment = own_environment(self.keys, self.interpreter)
        return Solver(self.interpreter or sys.executable, self.command.strip(), tuple(sorted(environment.items())))

    async def solve_trial(self, trial: ProgramTrial, question: str) -> Mapping[str, Json]:
        """Let the program solve the task; an executable has its own process. Raises OSError, SolverFailed and ValueError."""
        if self.is_function:
            return await super(Program, self).solve_trial(trial, question)
        words, environment = self.command_words(), own_environment(self.keys, self.interpreter)
        async with place(self, self.processes or os.cpu_count() or 1), served(trial) as url:
            environment |= trial_environment(url, question, MODEL, self.max_steps)
            if self.preset is None:
                return await run_executable(words, environment, question)
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                arguments, more = self.preset.launch(url, Path(folder), self.max_steps)
                words += [*arguments, *([question] if self.preset.asks else [])]
                message = await run_executable(words, environment | more, question, Path(folder))
        if "answer" in message:
            answer = self.preset.answer(message["answer"])
            return {"answer": answer} if answer else {}
        return message


LOOP = Program


@dataclass(frozen=True, slots=True)
class Service(ForeignAgent):
    """An agent behind an address. It gets JSON: `question`, `base_url`, `api_key`, `model`, `tools_url`, `mcp_url`, `max_steps`.

    It answers with JSON, `{"answer": …}`, or with the answer as text. What it is given is on loopback: it runs on this machine.
    """

    url: str
    """Where it takes questions: http:// or https://."""

    def __post_init__(self) -> None:
        is_address = False
        with contextlib.suppress(ValueError):  # for a port that is no number, or too large
            parts = urlsplit(self.url)
            is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        if not is_address:
            raise ValueError(f"url must begin with http:// or https:// and name a host, and a port below 65536, not {self.url!r}")

    @property
    def name(self) -> str:
        return "service"

    async def solve_trial(self, trial: ProgramTrial, question: str) -> Mapping[str, Json]:
        """Let the service solve the task. Raises OSError if nothing listens there."""
        asked = {"question": question, "api_key": API_KEY, "model": MODEL, "max_steps": self.max_steps}
        async with served(trial) as place, aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
            asked |= {"base_url": f"{place}/v1", "tools_url": f"{place}/tools", "mcp_url": f"{place}/mcp"}
            try:
                async with session.post(self.url, json=asked) as response:
                    text = read_answer(await up_to(response.content, MAX_ANSWER_BYTES))
            except aiohttp.ClientConnectorError as error:
                raise OSError(f"nothing answers at {self.url}: {error.os_error}") from None
            except aiohttp.ClientError as error:
                return {"type": type(error).__name__, "error": str(error)}
        if response.status >= 400:
            return {"type": f"status {response.status}", "error": text[:MAX_ERROR_CHARS]}
        try:
            value = from_json(text)
        except ValueError:
            return {"answer": text} if text else {}
        return {"answer": value["answer"]} if isinstance(value, dict) and "answer" in value else {"answer": text}
