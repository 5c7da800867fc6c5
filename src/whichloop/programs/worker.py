"""A warm process in an interpreter of its own that runs a solver for many trials; it speaks JSON, a line a message."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import shlex
import signal
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from whichloop.models.metering import waits
from whichloop.protocol.redact import without_secrets

from .gateway import keep, place

OUTSIDE = Path(__file__).with_name("outside")
RUNNER = OUTSIDE / "runner.py"
API_KEY = "none"
MAX_QUESTION_BYTES = 100_000
"""Longest question that stands in the environment, too; Linux allows 131,072 bytes for a variable (execve(2))."""
HERE = "127.0.0.1"
_NO_KEYS = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), API_KEY)
_QUIET = _NO_KEYS | {
    "OTEL_SDK_DISABLED": "true", "CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True", "NO_PROXY": HERE, "no_proxy": HERE, "PYTHONUNBUFFERED": "1",
}  # fmt: skip
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
    if interpreter:
        environment.pop("PYTHONPATH", None)  # it leads to packages of another interpreter
        folder = Path(interpreter).parent
        environment["PATH"] = os.pathsep.join([str(folder), *filter(None, [environment.get("PATH")])])
        environment |= {"VIRTUAL_ENV": str(folder.parent)} if (folder.parent / "pyvenv.cfg").is_file() else {}
    direct = {name: ",".join([*filter(None, [environment.get(name)]), HERE]) for name in ("NO_PROXY", "no_proxy")}
    return environment | direct | _NO_KEYS


def trial_environment(url: str, question: str, model: str, max_steps: int) -> dict[str, str]:
    """Return what tells an executable of its trial. `url`: the address below which the trial is served."""
    asked = question.encode("utf-8", "replace")
    told = {
        "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_BASE": f"{url}/v1",  # LiteLLM looks at the second one
        "ANTHROPIC_BASE_URL": url, "GOOGLE_GEMINI_BASE_URL": url,  # these clients add the version of the API themselves
        **dict.fromkeys(("OPENAI_MODEL", "ANTHROPIC_MODEL", "GEMINI_MODEL"), model),
        "WHICHLOOP_TOOLS_URL": f"{url}/tools", "WHICHLOOP_ANSWER_URL": f"{url}/answer", "WHICHLOOP_MCP_URL": f"{url}/mcp",
        "WHICHLOOP_MCP_COMMAND": mcp_command(url), "WHICHLOOP_MAX_STEPS": str(max_steps),
    }  # fmt: skip
    if len(asked) <= MAX_QUESTION_BYTES and b"\0" not in asked:
        told["WHICHLOOP_QUESTION"] = asked.decode()
    return _NO_KEYS | told


def mcp_command(url: str) -> str:
    """Return the command that gives a trial's tools over MCP's standard input and output."""
    return shlex.join([sys.executable, str(OUTSIDE / "mcp_stdio.py"), f"{url}/mcp"])


MAX_LINE_BYTES = 1 << 26
MAX_WORKERS = max(1, min((os.cpu_count() or 1) // 2, 4))
"""Processes of one solver. With several frameworks in a run, more would only get in each other's way."""
MAX_JOBS = 16
"""Trials that one process has at a time; more would only wait for each other, and their time limits run."""
MANY_JOBS = 4
"""Trials at a time from which another process is worth its start, which takes seconds."""
LEFTOVER_S = 0.5
"""Seconds that output may still come after the process has ended: a child in a session of its own can hold the pipe open."""
MAX_LAST_WORDS = 2_000
"""Bytes of what a process wrote to standard error that are kept, from its end."""


class SolverFailed(Exception):
    """What left a solver, the exception's type and message; or why its process did not start, or ended by itself."""


class Solver(NamedTuple):
    """What a worker runs, and with which interpreter."""

    python: str
    """Path of the interpreter."""
    target: str
    """FILE.py:FUNCTION or MODULE:FUNCTION."""
    environment: tuple[tuple[str, str], ...] | None = None
    """Names and values of its environment; None: what frameworks get."""

    @property
    def variables(self) -> dict[str, str]:
        return framework_environment() if self.environment is None else dict(self.environment)


async def keep_last(reader: asyncio.StreamReader, kept: bytearray) -> None:
    while piece := await reader.read(1 << 16):
        kept += piece
        del kept[:-MAX_LAST_WORDS]


def kill_group(process: asyncio.subprocess.Process) -> None:
    """Kill a process, and what it has started in its group, which may hold its pipes open."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


class Worker:
    """One process. It starts at once, and ends with the event loop or by itself."""

    def __init__(self, solver: Solver) -> None:
        self._solver = solver
        self._numbers = itertools.count()
        self._jobs: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._ready: asyncio.Future[asyncio.subprocess.Process | None] = asyncio.get_running_loop().create_future()
        """The process, once it has imported its solver; None if that failed."""
        self._why_gone = ""
        self.is_closed = False
        """It gets no more trials: it is gone, or one that was cancelled goes on in it."""
        keep(self._live())

    @property
    def jobs(self) -> int:
        return len(self._jobs)

    async def run(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Return the message that ended a job. A cancelled one goes on: the process gets no other then. Raises SolverFailed."""
        number, process = next(self._numbers), None
        ended = self._jobs[number] = asyncio.get_running_loop().create_future()
        try:
            with waits().counted():  # the program is imported: no loop is to blame for that
                process = await asyncio.shield(self._ready)
            if process is not None and process.stdin is not None:
                process.stdin.write(json.dumps({"id": number, **job}).encode() + b"\n")
                message: dict[str, Any] = await ended
                if message:
                    return message
            raise SolverFailed(self._why_gone)
        except asyncio.CancelledError:
            self.is_closed = self.is_closed or process is not None
            raise
        finally:
            del self._jobs[number]
            if self.is_closed and not self._jobs and process is not None and process.returncode is None:
                kill_group(process)

    async def _live(self) -> None:
        """Start the process, hand out its messages until it ends, and tell whoever still waits why it is gone."""
        process, reading, failed, last_words = None, None, "", bytearray()
        try:
            process = await asyncio.create_subprocess_exec(
                self._solver.python, str(RUNNER), self._solver.target, env=self._solver.variables, limit=MAX_LINE_BYTES,
                start_new_session=True,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            assert process.stdout is not None
            assert process.stderr is not None
            reading = asyncio.create_task(keep_last(process.stderr, last_words))
            self._why_gone = "it did not start"
            while message := json.loads(await process.stdout.readline() or "{}"):
                if "ready" in message:
                    self._ready.set_result(process)
                    self._why_gone = "the process of the solver ended"
                elif (job := self._jobs.get(message.get("id", -1))) and not job.done():
                    job.set_result(message)
                failed = message.get("failed", "")
        except OSError as error:
            self._why_gone = f"{self._solver.python}: {error.strerror}"
        except ValueError:
            self._why_gone = "the process of the solver wrote into the pipe of its runner"
        finally:
            self.is_closed = True
            if process is not None and reading is not None:
                kill_group(process)
                await asyncio.wait({reading}, timeout=LEFTOVER_S)
                reading.cancel()
                with contextlib.suppress(TimeoutError):  # it waits for whoever inherited the pipes, too
                    await asyncio.wait_for(process.wait(), LEFTOVER_S)
                lines = last_words.decode("utf-8", "replace").strip().splitlines()
                self._why_gone = failed or ": ".join([self._why_gone, *lines[-1:]])
            if not self._ready.done():
                self._ready.set_result(None)
            for job in self._jobs.values():
                if not job.done():
                    job.set_result({})


_WORKERS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Solver, list[Worker]]] = WeakKeyDictionary()


async def run_in_worker(solver: Solver, job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message that ended a job, by the least busy of the event loop's processes for a solver.

    One at first, more while all of them are busy, and a new one for each that died. Raises SolverFailed.
    """
    async with place(solver, MAX_WORKERS * MAX_JOBS):
        workers = _WORKERS.setdefault(asyncio.get_running_loop(), {}).setdefault(solver, [])
        workers[:] = [worker for worker in workers if not worker.is_closed]
        least = min(workers, key=lambda worker: worker.jobs, default=None)
        if least is None or (least.jobs >= MANY_JOBS and len(workers) < MAX_WORKERS):
            least = Worker(solver)
            workers.append(least)
        return await least.run(job)
