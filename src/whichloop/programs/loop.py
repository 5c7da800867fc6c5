"""A program in the place of a loop: it gets the question, the tools and an OpenAI endpoint, and gives an answer."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from whichloop.protocol import (
    SILENT,
    CallsIn,
    ContextOverflow,
    Model,
    Observer,
    Outcome,
    ProviderError,
    Query,
    StopReason,
    Toolbox,
)
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
