"""A loop: the contract of a design, and of what stands around one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol, Self, cast, runtime_checkable

from .events import SILENT, Observer
from .model import Model
from .outcome import AnswerT, Outcome, Query, StopReason
from .program import Program
from .threads import run_sync
from .tools import Toolbox

CallsIn = Literal["native", "text"]
"""How the replies of a design hold calls: in the API's own form, or in their text. Profiles that were measured go by it."""


@runtime_checkable
class Loop(Protocol):
    """A design: frozen configuration plus `run`.

    `run` returns an Outcome whatever a tool does, and whatever a model does that answers or raises ModelError; cancellation and
    StopRun, of which BudgetExceeded is one, pass through, and so does any other exception of a model's, which is a bug. The
    built-in loops also have `run_sync(query, tools, model)`, and raise TypeError for arguments of other types.

    A loop may have more: `calls_in`, a CallsIn; `takes_images`, True where it shows its model the images of a query; and what an
    `Optimizable` has, if its prompts can be changed.
    """

    @property
    def name(self) -> str: ...

    @property
    def stops(self) -> frozenset[StopReason]:
        """The stop reasons that this configuration can reach on a query that has no type, apart from the harness's own.

        On a query with a type any loop may also stop as `parse_failed`: its answer may be none of the type.
        """

    async def run(self, query: Query[AnswerT], tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome[AnswerT]: ...

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


class RunsSync:
    """Gives a loop `run_sync`, by which code that is no coroutine runs it."""

    __slots__ = ()

    def run_sync(self: Loop, query: Query[AnswerT], tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome[AnswerT]:
        """Run the loop on the caller's thread, also in a cell of a notebook. Raises RuntimeError inside any other coroutine."""
        return run_sync(self.run(query, tools, model, observer))


@dataclass(frozen=True, slots=True)
class WrappedLoop(RunsSync):
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
    def calls_in(self) -> str:
        """How the loop within has calls written: `native` or `text`; empty where it does not say."""
        return str(getattr(self.loop, "calls_in", ""))

    @property
    def takes_images(self) -> bool:
        """Whether the loop within shows its model the images of a query."""
        return bool(getattr(self.loop, "takes_images", False))

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

    async def run(self, query: Query[AnswerT], tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome[AnswerT]:
        return await self.loop.run(query, tools, model, observer)
