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
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Self

from whichloop.protocol import SILENT, CallsIn, ContextOverflow, Model, Observer, Outcome, ProviderError, Query, StopReason, Toolbox
from whichloop.protocol.json_text import Json

from .gateway import MODEL, ProgramTrial, served
from .worker import LEFTOVER_S, Solver, SolverFailed, keep_last, kill_group, run_in_worker

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
        """Let the program solve the task. Raises SolverFailed and BudgetExceeded."""
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
        return {}

    async def solve_trial(self, trial: ProgramTrial, question: str) -> Mapping[str, Json]:
        """Let a process solve the task. Raises SolverFailed, and ValueError as `solver` does."""
        job = {"question": question, "tools": trial.tool_list(), "model": MODEL, "max_steps": self.max_steps}
        async with served(trial) as url:
            return await run_in_worker(self.solver(), {**job, "url": url, "options": self.options()})


def question_text(query: Query) -> str:
    """Return what the program is asked: the question with its context, and the schema of the answer, if there is one."""
    if query.schema is None:
        return query.full_text
    return f"{query.full_text}\n\nAnswer with JSON that this schema allows: {json.dumps(query.schema)}"


def outcome(trial: ProgramTrial, message: Mapping[str, object]) -> Outcome:
    """Return what a trial came to. Raises BudgetExceeded, and SolverFailed for what left the program."""
    if trial.budget is not None:
        raise trial.budget
    at_limit = message.get("stop") == StopReason.MAX_STEPS.value
    if at_limit and message.get("answer") is not None:
        return Outcome(message["answer"], StopReason.FORCED, trial.replies)
    if trial.limit_reached or at_limit:
        return Outcome(None, StopReason.MAX_STEPS, trial.replies)
    if "error" in message:
        what = f"{message['type']}: {message['error']}"
        stops = {ContextOverflow: StopReason.CONTEXT_OVERFLOW, ProviderError: StopReason.PROVIDER_ERROR}
        stop = next((stop for kind, stop in stops.items() if isinstance(trial.failure, kind)), None)
        if stop is None:
            raise SolverFailed(what)
        return Outcome(None, stop, trial.replies, details={"error": what})
    given = {**message, **trial.posted}
    if "answer" not in given:
        raise SolverFailed("it ended without an answer: it printed nothing, and posted none")
    return Outcome(given["answer"], StopReason.FORCED if trial.is_forced else StopReason.FINISHED, trial.replies)


MAX_ANSWER_BYTES = 1 << 20
"""What a program may print on standard output, where nothing but its answer belongs."""
_ERROR = re.compile(r"\w*(?:Error|Exception|error|panic|fatal)\b.*\S")
"""What lines that name an error have; Node writes its version below them."""


def process_message(code: int, printed: bytes, errors: str) -> dict[str, Any]:
    """Return how a process ended as the message that ends a trial.

    `code`: its exit code; negative: the signal that ended it. `printed`: at most one byte more than it may print; then it was ended
    for that. `errors`: the end of what it wrote to standard error; the last line that names an error is told, else the last.
    """
    if len(printed) > MAX_ANSWER_BYTES:
        return {"type": "flood", "error": f"it printed more than {MAX_ANSWER_BYTES:,} bytes, where its answer belongs"}
    if code:
        name = next((one.name for one in signal.Signals if one == -code), f"signal {-code}")
        lines = [line.strip() for line in errors.strip().splitlines()] or ["it wrote nothing to standard error"]
        told = next((line for line in reversed(lines) if _ERROR.search(line)), lines[-1])
        return {"type": f"exit code {code}" if code > 0 else name, "error": told}
    return {"answer": read_answer(printed)} if printed else {}


def read_answer(printed: bytes) -> str:
    """Return what a program printed as its answer: text without the white space around it; what is not UTF-8 becomes U+FFFD."""
    return printed.decode("utf-8", "replace").strip()


async def run_executable(
    words: Sequence[str], environment: Mapping[str, str], question: str, folder: Path | None = None
) -> dict[str, Any]:
    """Run a process, with the question on its standard input, and return the message that ends its trial.

    `folder`: where it runs; None for the current directory. Whatever ends this call, the process and all that it has started in its
    group are killed. Raises OSError if it cannot be started.
    """
    last_words = bytearray()
    with tempfile.TemporaryFile() as asked:  # a program that does not read its question keeps nobody waiting
        asked.write(question.encode("utf-8", "replace"))
        asked.seek(0)
        async with _pipe() as (out, stdout), _pipe() as (errors, stderr):
            process = await asyncio.create_subprocess_exec(
                *words, stdin=asked, stdout=out, stderr=errors, env=environment, cwd=folder, start_new_session=True
            )
            out.close()
            errors.close()
            exited = asyncio.create_task(process.wait())
            reading = asyncio.create_task(up_to(stdout, MAX_ANSWER_BYTES + 1))
            dropping = asyncio.create_task(keep_last(stderr, last_words))
            try:
                await asyncio.wait({exited, reading}, return_when=asyncio.FIRST_COMPLETED)
                if exited.done() or len(await reading) <= MAX_ANSWER_BYTES:  # it may close its output long before it ends
                    await asyncio.wait({exited})
            finally:
                kill_group(process)
                await asyncio.wait({exited})
                await asyncio.wait({reading, dropping}, timeout=LEFTOVER_S)
    printed, _ = await asyncio.gather(reading, dropping)  # the pipes are closed, whoever else holds them open
    return process_message(exited.result(), printed, last_words.decode("utf-8", "replace"))


@contextlib.asynccontextmanager
async def _pipe() -> AsyncIterator[tuple[BinaryIO, asyncio.StreamReader]]:
    """Give a pipe whose end does not depend on the process: asyncio's own would wait for whoever inherited it."""
    read_end, write_end = os.pipe()
    reader = asyncio.StreamReader()
    with open(read_end, "rb", 0) as source, open(write_end, "wb", 0) as sink:
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, source)
        try:
            yield sink, reader
        finally:
            transport.close()


async def up_to(reader: Any, count: int) -> bytes:
    """Return the first bytes of a stream, asyncio's or aiohttp's; fewer if it ends before."""
    try:
        return bytes(await reader.readexactly(count))
    except asyncio.IncompleteReadError as ended:
        return ended.partial


def executable(first: str) -> str:
    """Return the path of what a command's first word names. Raises ValueError if it cannot be executed."""
    found = shutil.which(first)
    if found is None and not Path(first).is_file():
        raise ValueError(f"command: there is no {first!r} to run")
    if found is None:
        cure = f"; write python {first}, or {first}:FUNCTION" if first.endswith(".py") else ""
        raise ValueError(f"command: {first} is no program: it cannot be executed{cure}")
    return found
