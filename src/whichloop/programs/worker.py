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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from whichloop.models.metering import waits
from whichloop.protocol.redact import without_secrets

from .gateway import keep

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


RUNNER = Path(__file__).with_name("outside") / "runner.py"
MAX_LINE_BYTES = 1 << 26
MAX_WORKERS = max(1, min((os.cpu_count() or 1) // 2, 4))
"""Processes of one solver. With several frameworks in a run, more would only get in each other's way."""
MAX_JOBS = 16
"""Trials that one process has at a time; more would only wait for each other, and their time limits run."""
MANY_JOBS = 4
"""Trials at a time from which another process is worth its start, which takes seconds."""
GRACE_S = 2.0
"""Seconds that a cancelled trial has to end in its process."""
MAX_STDERR_CHARS = 2_000
"""Characters of what a worker wrote to standard error that are kept, from its end."""


class WorkerGone(Exception):
    """The process of a solver did not start, or ended by itself."""


class SolverFailed(Exception):
    """What left a solver: the exception's type and message."""


class Solver(NamedTuple):
    """What a worker runs, and with which interpreter."""

    python: str
    """Path of the interpreter."""
    target: str
    """FILE.py:FUNCTION or MODULE:FUNCTION."""
    environment: tuple[tuple[str, str], ...] | None = None
    """Names and values of its environment; None: what frameworks get."""


@dataclass(frozen=True, slots=True)
class SolverJob:
    """One trial for a solver."""

    question: str
    tools: list[dict[str, Any]]
    url: str
    """Address below which the trial is served."""
    model: str
    max_steps: int
    options: Mapping[str, Any]

    def message(self, number: int) -> bytes:
        fields = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({"id": number, **fields}).encode() + b"\n"


class Worker:
    """One process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._stderr = ""
        self._cancelled: set[int] = set()
        """Numbers of cancelled trials that have not ended."""
        self.stuck = False
        """A cancelled trial goes on in it; it ends with the trials that it has."""
        self.gone = ""
        """Why it is gone; empty while it runs."""

    @property
    def jobs(self) -> int:
        """Number of trials that it has."""
        return len(self._waiting)

    async def run(self, job: SolverJob) -> dict[str, Any]:
        """Return the message that ended a job. Raises WorkerGone."""
        if self.gone:
            raise WorkerGone(self.gone)
        assert self._process.stdin is not None
        number = next(self._numbers)
        ended: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = ended
        try:
            self._process.stdin.write(job.message(number))
            with contextlib.suppress(ConnectionError):  # the reader below says that the process has gone
                await self._process.stdin.drain()
            return await ended
        except asyncio.CancelledError:
            self._process.stdin.write(json.dumps({"cancel": number}).encode() + b"\n")
            self._cancelled.add(number)
            asyncio.get_running_loop().call_later(GRACE_S, self._check_cancelled, number)
            raise
        finally:
            self._waiting.pop(number, None)
            self._end_if_stuck()

    def _check_cancelled(self, number: int) -> None:
        """Note that a cancelled trial is still under way: it may hold up all others, and gets no company any more."""
        self.stuck = self.stuck or number in self._cancelled
        self._end_if_stuck()

    def _end_if_stuck(self) -> None:
        if self.stuck and not self._waiting:
            self._kill()

    def _kill(self) -> None:
        """Kill the process and what it has started in its group, which may hold its pipes open."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def started(self) -> None:
        """Wait until the solver is imported. Raises WorkerGone."""
        message = await self._message()
        if "ready" not in message:
            raise WorkerGone(message.get("failed") or f"it did not start{self._last_words()}")

    async def hand_out_messages(self) -> None:
        """Hand out messages until the process ends."""
        try:
            while message := await self._message():
                self._cancelled.discard(message.get("id", -1))
                waiting = self._waiting.get(message.get("id", -1))
                if waiting is not None and not waiting.done():
                    waiting.set_result(message)
        finally:
            self.gone = f"the process of the solver ended{self._last_words()}"
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(WorkerGone(self.gone))

    async def read_stderr(self) -> None:
        """Keep the end of what the process writes to standard error."""
        assert self._process.stderr is not None
        while piece := await self._process.stderr.read(1 << 16):
            self._stderr = (self._stderr + piece.decode("utf-8", "replace"))[-MAX_STDERR_CHARS:]

    async def _message(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        message: dict[str, Any] = json.loads(line) if line else {}
        return message

    def _last_words(self) -> str:
        lines = self._stderr.strip().splitlines()
        return f": {lines[-1]}" if lines else ""

    async def end(self) -> None:
        """End the process and wait for it."""
        self._kill()
        while True:
            try:
                await self._process.wait()
                return
            except asyncio.CancelledError:  # the event loop ends; a killed process has to be waited for, and ends at once
                continue


class Workers:
    """The processes of one solver: one at first, more while all of them are busy, and a new one for each that died."""

    def __init__(self, solver: Solver) -> None:
        self._solver = solver
        self._starting: asyncio.Future[Worker] | None = None
        self._ready: list[Worker] = []
        self._free = asyncio.Semaphore(MAX_WORKERS * MAX_JOBS)

    async def run(self, job: SolverJob) -> dict[str, Any]:
        """Return the message that ended a job. Raises WorkerGone."""
        with waits().counted():  # others have the turn, or a framework is imported: no loop is to blame for that
            await self._free.acquire()
            try:
                worker = await self._worker()
            except BaseException:
                self._free.release()
                raise
        try:
            return await worker.run(job)
        finally:
            self._free.release()

    async def _worker(self) -> Worker:
        """Return the least busy process; start one more if it is too busy. Raises WorkerGone."""
        self._ready = [worker for worker in self._ready if not worker.gone and not worker.stuck]
        least = min(self._ready, key=lambda worker: worker.jobs, default=None)
        if least is None or (least.jobs >= MANY_JOBS and len(self._ready) < MAX_WORKERS):
            self._start()
        if least is not None:
            return least
        assert self._starting is not None
        return await asyncio.shield(self._starting)

    def _start(self) -> None:
        if self._starting is not None:
            return
        self._starting = started = asyncio.get_running_loop().create_future()
        started.add_done_callback(self._started)
        keep(lambda: _run_worker(self._solver, started))

    def _started(self, started: asyncio.Future[Worker]) -> None:
        self._starting = None
        if not started.cancelled() and started.exception() is None:
            self._ready.append(started.result())


_WORKERS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Solver, Workers]] = WeakKeyDictionary()


def workers_here(solver: Solver) -> Workers:
    """Return the running event loop's workers for a solver."""
    workers = _WORKERS.setdefault(asyncio.get_running_loop(), {})
    return workers.setdefault(solver, Workers(solver))


async def _run_worker(solver: Solver, started: asyncio.Future[Worker]) -> None:
    environment = framework_environment() if solver.environment is None else dict(solver.environment)
    try:
        process = await asyncio.create_subprocess_exec(
            solver.python, str(RUNNER), solver.target, env=environment, limit=MAX_LINE_BYTES, start_new_session=True,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
    except OSError as error:
        started.set_exception(WorkerGone(f"{solver.python}: {error.strerror}"))
        return
    worker = Worker(process)
    reading_stderr = asyncio.create_task(worker.read_stderr())
    try:
        try:
            await worker.started()
        except WorkerGone as error:
            started.set_exception(error)
            return
        started.set_result(worker)
        await worker.hand_out_messages()
    finally:
        await worker.end()
        reading_stderr.cancel()
