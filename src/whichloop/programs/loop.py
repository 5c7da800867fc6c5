"""A program or executable in the place of a loop: it gets the question, the tools and an OpenAI endpoint, and gives an answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import tempfile
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self
from weakref import WeakKeyDictionary

from whichloop.models.metering import waits
from whichloop.protocol import SILENT, CallsIn, ContextOverflow, Model, Observer, Outcome, ProviderError, Query, StopReason, Toolbox
from whichloop.protocol.json_text import Json

from .gateway import MODEL, ProgramTrial, served
from .worker import Solver, SolverFailed, SolverJob, workers_here

DEFAULT_STEPS = 10


@dataclass(frozen=True, slots=True)
class ForeignAgent(ABC):
    """A loop whose steps are someone else's. Its requests, calls and faults are those of any loop; its prompts are its own.

    What it raises leaves `run` and is a crash of it.
    """

    max_steps: int = field(default=DEFAULT_STEPS, kw_only=True)
    """Replies of the model: the program's own limit where it has one; in any case it gets no more, but one without a call."""

    stops: ClassVar[frozenset[StopReason]] = frozenset(
        {StopReason.FINISHED, StopReason.MAX_STEPS, StopReason.PROVIDER_ERROR, StopReason.CONTEXT_OVERFLOW}
    )
    """With FORCED for a program that states an answer at its limit."""
    calls_in: ClassVar[CallsIn] = "native"
    """How calls are written: the endpoint answers every program with the calls of the API."""

    @property
    @abstractmethod
    def name(self) -> str: ...

    @abstractmethod
    async def solve_trial(self, trial: ProgramTrial, question: str) -> Mapping[str, Json]:
        """Return the message that ends a trial: `answer`, or `stop`, or `type` and `error`; nothing of them without an answer."""

    @property
    def version(self) -> str:
        return ""

    @property
    def packages(self) -> Mapping[str, str]:
        return {}

    @property
    def environment_digest(self) -> str:
        return ""

    @property
    def sources(self) -> tuple[Path, ...]:
        """Files that decide what the program is given: those of this package, in the order of their names."""
        return tuple(sorted(Path(__file__).parent.rglob("*.py")))

    def with_step_limit(self, tool_steps: int) -> Self:
        """Return the same program with a limit of `tool_steps` tool steps and one request for the answer."""
        return replace(self, max_steps=tool_steps + 1)

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        """Let the program solve the task. Raises SolverFailed, WorkerGone and BudgetExceeded."""
        trial = ProgramTrial(model, tools, self.max_steps)
        try:
            message = await self.solve_trial(trial, question_text(query))
        finally:
            trial.close()
        return outcome(trial, message)


@dataclass(frozen=True, slots=True)
class ProgramLoop(ForeignAgent):
    """A program that a warm process in an interpreter of its own runs for one trial after the other."""

    @abstractmethod
    def solver(self) -> Solver:
        """Return what runs the program. Raises ValueError if it is not installed."""

    def options(self) -> Mapping[str, Any]:
        """Return the options that the program's wiring gets."""
        return {}

    async def solve_trial(self, trial: ProgramTrial, question: str) -> Mapping[str, Json]:
        """Let a process solve the task. Raises WorkerGone, and ValueError as `solver` does."""
        workers = workers_here(self.solver())
        async with served(trial) as url:
            return await workers.run(SolverJob(question, trial.tool_list(), url, MODEL, self.max_steps, dict(self.options())))


def question_text(query: Query) -> str:
    """Return what the program is asked: the question with its context, and the schema of the answer, if there is one."""
    if query.schema is None:
        return query.full_text
    return f"{query.full_text}\n\nAnswer with JSON that this schema allows: {json.dumps(query.schema)}"


def outcome(trial: ProgramTrial, message: Mapping[str, object]) -> Outcome:
    """Return what a trial came to. Raises BudgetExceeded, and SolverFailed for what left the program."""
    if trial.budget is not None:
        raise trial.budget
    if message.get("stop") == StopReason.MAX_STEPS.value and message.get("answer") is not None:
        return Outcome(message["answer"], StopReason.FORCED, trial.replies)
    if trial.limit_reached or message.get("stop") == StopReason.MAX_STEPS.value:
        return Outcome(None, StopReason.MAX_STEPS, trial.replies)
    if "error" in message:
        what = f"{message['type']}: {message['error']}"
        if isinstance(trial.failure, ContextOverflow):
            return Outcome(None, StopReason.CONTEXT_OVERFLOW, trial.replies, details={"error": what})
        if isinstance(trial.failure, ProviderError):
            return Outcome(None, StopReason.PROVIDER_ERROR, trial.replies, details={"error": what})
        raise SolverFailed(what)
    if not trial.has_answer and "answer" not in message:
        raise SolverFailed("it ended without an answer: it printed nothing, and posted none")
    stop = StopReason.FORCED if trial.is_forced else StopReason.FINISHED
    return Outcome(trial.answer if trial.has_answer else message["answer"], stop, trial.replies)


MAX_ANSWER_BYTES = 1 << 20
"""What a program may print on standard output, where nothing but its answer belongs."""
MAX_LAST_WORDS = 2_000
"""Bytes of what it wrote to standard error that are kept, from its end."""
LEFTOVER_S = 0.5
"""Seconds that output may still come after the process has ended: a child in a session of its own can hold the pipe open."""
PIECE = 1 << 16
_ERROR = re.compile(r"\w*(?:Error|Exception|error|panic|fatal)\b.*\S")
"""What lines that name an error have; Node writes its version below them."""


class Ended(NamedTuple):
    """How a process ended."""

    code: int
    """Its exit code; negative: the signal that ended it."""
    printed: bytes
    errors: str
    """The end of what it wrote to standard error."""
    flooded: bool
    """It printed more than MAX_ANSWER_BYTES, and was ended for that."""

    def message(self) -> dict[str, Any]:
        """Return it as the message that ends a trial."""
        if self.flooded:
            return {"type": "flood", "error": f"it printed more than {MAX_ANSWER_BYTES:,} bytes, where its answer belongs"}
        if self.code:
            name = f"exit code {self.code}" if self.code > 0 else _signal_name(-self.code)
            return {"type": name, "error": telling_line(self.errors) or "it wrote nothing to standard error"}
        return {"answer": read_answer(self.printed)} if self.printed else {}


def telling_line(errors: str) -> str:
    """Return the line of what a process wrote to standard error that says most: the last one that names an error, else the last."""
    lines = [line.strip() for line in errors.strip().splitlines()]
    return next((line for line in reversed(lines) if _ERROR.search(line)), lines[-1] if lines else "")


def read_answer(printed: bytes) -> str:
    """Return what a program printed as its answer: text without the white space around it; what is not UTF-8 becomes U+FFFD."""
    return printed.decode("utf-8", "replace").strip()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


_PLACES: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[object, asyncio.Semaphore]] = WeakKeyDictionary()


@contextlib.asynccontextmanager
async def place(owner: object, count: int) -> AsyncIterator[None]:
    """Hold one of the `count` places for processes that an arm has in this event loop; to wait for one costs a trial no time."""
    places_by_owner = _PLACES.setdefault(asyncio.get_running_loop(), {})
    places = places_by_owner.setdefault(owner, asyncio.Semaphore(count))
    with waits().counted():
        await places.acquire()
    try:
        yield
    finally:
        places.release()


async def run_executable(words: Sequence[str], environment: Mapping[str, str], question: str, folder: Path | None = None) -> Ended:
    """Run a process to its end, with the question on its standard input. Raises OSError if it cannot be started.

    `folder`: where it runs; None for the current directory.

    Whatever ends this call, the process and all that it has started in its group are killed.
    """
    with _question_file(question) as question_file, _Pipe() as out, _Pipe() as errors:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=question_file,
            stdout=out.write_end,
            stderr=errors.write_end,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
        out.close_write_end()
        errors.close_write_end()
        printed, last_words = bytearray(), bytearray()
        exited = asyncio.create_task(process.wait())
        reading = asyncio.create_task(out.read_into(printed, most=MAX_ANSWER_BYTES))
        dropping = asyncio.create_task(errors.read_into(last_words, last=MAX_LAST_WORDS))
        try:
            await asyncio.wait({exited, reading}, return_when=asyncio.FIRST_COMPLETED)
            if len(printed) <= MAX_ANSWER_BYTES:  # it may have closed its standard output long before it ends
                await exited
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            while not exited.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.shield(exited)
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({reading, dropping}, timeout=LEFTOVER_S)
            reading.cancel()
            dropping.cancel()
    assert process.returncode is not None
    flooded = len(printed) > MAX_ANSWER_BYTES
    return Ended(process.returncode, bytes(printed), last_words.decode("utf-8", "replace"), flooded)


@contextlib.contextmanager
def _question_file(question: str) -> Iterator[Any]:
    """Give a file that holds a question: a program that does not read it keeps nobody waiting."""
    with tempfile.TemporaryFile() as file:
        file.write(question.encode("utf-8", "replace"))
        file.seek(0)
        yield file


class _Pipe:
    """A pipe whose end does not depend on the process: asyncio's own would wait for whoever inherited it."""

    def __enter__(self) -> _Pipe:
        self._read_end, self.write_end = os.pipe()
        self._is_open = True
        self._transport: asyncio.ReadTransport | None = None
        return self

    def close_write_end(self) -> None:
        if self._is_open:
            self._is_open = False
            os.close(self.write_end)

    async def read_into(self, into: bytearray, *, most: int | None = None, last: int | None = None) -> None:
        """Read until the end, or until there are more than `most` bytes; of all that comes keep the `last` bytes, if given."""
        reader = asyncio.StreamReader()
        file = os.fdopen(self._read_end, "rb", 0)
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
        while piece := await reader.read(PIECE):
            into += piece
            if last is not None:
                del into[:-last]
            if most is not None and len(into) > most:
                return

    def __exit__(self, *error: object) -> None:
        self.close_write_end()
        if self._transport is None:
            os.close(self._read_end)
        else:
            self._transport.close()


_BEGINNINGS = (b"#!", b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
"""How a file begins that can be executed: a script's, Linux's, two of macOS."""


def executable(first: str) -> str:
    """Return the path of what a command's first word names. Raises ValueError if it cannot be executed."""
    found = shutil.which(first)
    if found is None and Path(first).is_file():
        cure = f"; write python {first}, or {first}:FUNCTION" if first.endswith(".py") else ""
        raise ValueError(f"command: {first} is no program: it cannot be executed{cure}")
    if found is None:
        raise ValueError(f"command: there is no {first!r} to run")
    if os.access(found, os.R_OK):
        with open(found, "rb") as opened:
            if not opened.read(4).startswith(_BEGINNINGS):
                raise ValueError(f"command: {first} is no program: it begins neither with #! nor as an executable does")
    return found
