"""A loop: what it may see, what it returns, and how it may end."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar, cast, runtime_checkable

from .chat import Chunk
from .model import Model
from .program import Program
from .threads import run_here
from .tools import Toolbox

T = TypeVar("T")


@dataclass(frozen=True, slots=True, init=False)
class Query:
    """All that a loop may know of a task. Gold answers, plans and scorers live elsewhere."""

    text: str
    context: str = ""
    """Material that belongs to the question, a passage or a policy; empty if there is none."""
    schema: Mapping[str, Any] | None = None
    """JSON schema of the answer; None if it is text."""

    def __init__(self, text: str, context: str = "", schema: Mapping[str, Any] | type | None = None) -> None:
        """`schema`: a JSON schema, or a type that has one: a pydantic model, a dataclass, a TypedDict, `list[int]`.

        The answer is a JSON value in any case. Raises TypeError for a type without a JSON schema.
        """
        if schema is not None and not isinstance(schema, Mapping):
            from .schema import answer_schema  # loads pydantic: a typed answer may, the import of a loop must not

            schema = answer_schema(schema)
        for name, value in (("text", text), ("context", context), ("schema", schema)):
            object.__setattr__(self, name, value)

    @property
    def full_text(self) -> str:
        """Question and context in one text."""
        return f"{self.text}\n\nContext:\n{self.context}" if self.context else self.text


class StopReason(StrEnum):
    """Why a run ended. The list is closed; timeout, budget and crashed are set by the harness only."""

    FINISHED = "finished"
    """The model ended the run with its answer."""
    FORCED = "forced"
    """At the step limit the model was asked for its answer, and gave one."""
    MAX_STEPS = "max_steps"
    """The step limit was reached without an answer of the model's; what stands there are the design's own words, if any."""
    UNFINISHED = "unfinished"
    """A single turn called tools and ended there: `details["unfinished"]` has the calls and their results (`finish`)."""
    ERROR_VALVE = "error_valve"
    """Too many errors in a row (`bare`)."""
    PARSE_FAILED = "parse_failed"
    """No reply could be read as what was asked for, within the retries: also a forced answer that is not given (`finish`)."""
    TERMINATED = "terminated"
    """A hook or a rule of the product's ended the run, or a hook raised: `details["error"]`."""
    RECOVERY_FAILED = "recovery_failed"
    """The recovery from errors was given up (`stateless`)."""
    CANCELLED = "cancelled"
    """The product's token cancelled the run (`phased`), or a comparison was interrupted."""
    TIMEOUT = "timeout"
    """The trial's time was up."""
    BUDGET = "budget"
    """The run's or the trial's budget was used up."""
    PROVIDER_ERROR = "provider_error"
    """The model gave no reply, after the retries that it makes itself: `details["error"]`."""
    CONTEXT_OVERFLOW = "context_overflow"
    """The conversation no longer fits the model's context."""
    CRASHED = "crashed"
    """The loop itself raised."""


HARNESS_STOPS = frozenset({StopReason.TIMEOUT, StopReason.BUDGET, StopReason.CRASHED, StopReason.CANCELLED})
"""Every loop can reach these, because the harness sets them."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run."""

    answer: Any
    """Text, or a JSON value if the query has a schema; None if there is no answer.

    How far a design holds its answer to the schema is the design's: `finish` validates it, `bare` gives JSON as text.
    """
    stop: StopReason
    steps: int
    """Replies to deciding requests, as the design counts its steps."""
    confidence: float | None = None
    """A number in [0, 1], from loops that report one."""
    details: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What the design adds: history, trajectory, errors. Not printed with the rest, because it may be long."""
    gave_up: bool = False
    """The answer is the design's own words for having none, such as "maximum steps reached": never scored as right."""

    @property
    def ok(self) -> bool:
        """Whether the model answered: the run finished, or was made to answer at its limit, and there is an answer."""
        return self.stop in (StopReason.FINISHED, StopReason.FORCED) and self.answer is not None and not self.gave_up


class Observer:
    """Receives what happens inside a run. This one does nothing; override what you need."""

    streams: bool = False
    """True: loops that can stream call `chunk`."""

    def note(self, kind: str, **data: Any) -> None:
        """Receive something worth a line in the trace: a dropped call, a parse error, a phase."""

    def chunk(self, chunk: Chunk) -> None:
        """Receive a piece of a streamed reply."""


SILENT = Observer()


@runtime_checkable
class Loop(Protocol):
    """A design: frozen configuration plus `run`.

    `run` returns an Outcome whatever a tool does, and whatever a model does that answers or raises ModelError; cancellation and
    BudgetExceeded pass through, and so does any other exception of a model's, which is a bug. The built-in loops also have
    `run_sync(query, tools, model)`, and raise TypeError for arguments of other types.
    """

    @property
    def name(self) -> str: ...

    @property
    def stops(self) -> frozenset[StopReason]:
        """The stop reasons that this configuration can reach, apart from the harness's own."""

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome: ...

    def with_step_limit(self, tool_steps: int) -> Self:
        """Return the same design with a limit of `tool_steps` tool steps, in its own unit."""


@runtime_checkable
class ForeignLoop(Protocol):
    """A loop whose steps a program takes, in an interpreter of its own. What the program raises leaves `run`."""

    @property
    def version(self) -> str:
        """The program's version, which stands in the arm's name; empty if it has none. Raises ValueError if it is not installed."""

    @property
    def packages(self) -> Mapping[str, str]:
        """Version of each package that the program is made of, by name; empty if unknown."""

    @property
    def environment_digest(self) -> str:
        """Digest of the versions of all packages beside the program; empty if unknown."""

    @property
    def sources(self) -> Sequence[Path]:
        """Files that decide what the program does, beside its packages and the module of the loop's class."""


@dataclass(frozen=True, slots=True)
class WrappedLoop:
    """A loop around another, whose stops, prompts and limits it has; override `run`, and what else is to be different.

    A design's own options follow `loop`.
    """

    loop: Loop
    """The loop within, as it is named on the command line: `loop=bare`, `loop="bare(max_steps=5)"`."""

    @property
    def name(self) -> str:
        return self.loop.name

    @property
    def stops(self) -> frozenset[StopReason]:
        return self.loop.stops

    @property
    def predictors(self) -> Program:
        """The predictors of the loop within. Raises AttributeError if its prompts cannot be changed."""
        within: Program = cast(Any, self.loop).predictors
        return within

    def with_predictors(self, program: Program) -> Self:
        """Return the same design around the loop within with other prompts. Raises what that loop raises."""
        return replace(self, loop=cast(Any, self.loop).with_predictors(program))

    def with_step_limit(self, tool_steps: int) -> Self:
        return replace(self, loop=self.loop.with_step_limit(tool_steps))

    def run_sync(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        return run_here(self.run(query, tools, model, observer))

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        return await self.loop.run(query, tools, model, observer)


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end from synchronous code; inside a running event loop, on a thread."""
    if not _inside_event_loop():
        return asyncio.run(coroutine)
    context = contextvars.copy_context()
    result: list[T] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            result.append(context.run(asyncio.run, coroutine))
        except BaseException as error:  # re-raised in the caller's thread
            failure.append(error)

    thread = threading.Thread(target=work, name="run_sync")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return result[0]


def _inside_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
