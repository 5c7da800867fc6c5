"""The template loop, ready to be altered in one place, and the check's failures as a mapping."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import pytest

from whichloop.checks.loop import LAWS, Finding, check, check_loop, endings, interruption
from whichloop.checks.loop.template_loop import TemplateLoop
from whichloop.protocol import SILENT, Chunk, Loop, Model, Observation, Observer, Outcome, Query, Reply, Request, Toolbox, ToolCall
from whichloop.protocol.model import WrappedModel

FEW = 0.05
"""Share of the random moves and runs that is enough to find what loops do wrong again and again."""


@contextmanager
def fewer_draws(draws: float = FEW) -> Iterator[None]:
    """Within its block the laws draw this share of their random moves, replies and runs."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((endings, "MIN_RUNS"), (endings, "MAX_RUNS"), (endings, "MOVES"), (endings, "REPLIES")):
            patch.setattr(module, name, round(draws * getattr(module, name)))
        yield


@contextmanager
def judged_here(draws: float = FEW) -> Iterator[None]:
    """Within its block the laws are judged with this share of their draws, and a busy machine may block for long."""
    with pytest.MonkeyPatch.context() as patch, fewer_draws(draws):
        patch.setattr(interruption, "STALL_S", 30.0)
        yield


def findings(loop: Loop, *, draws: float = 1.0) -> tuple[Finding, ...]:
    """What `check_loop` finds, judged here."""
    with judged_here(draws):
        return check_loop(loop)


def not_kept(loop: Loop, *, draws: float = 1.0) -> dict[str, str]:
    """Law → counterexample, of the laws that do not hold."""
    return {finding.law: finding.detail for finding in findings(loop, draws=draws) if finding.status == "failed"}


@contextmanager
def only_laws(*names: str) -> Iterator[None]:
    """Within its block a check is of these laws alone."""
    chosen = [law for law in LAWS if law.name in names]
    assert len(chosen) == len(names)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check, "LAWS", chosen)
        yield


def finding_of(law: str, loop: Loop) -> Finding:
    """What the check of one law finds, judged here, where no other law matters."""
    with only_laws(law):
        (found,) = findings(loop, draws=FEW)
    return found


class Changed(WrappedModel):
    """A model or its requests, changed on the way."""

    def __init__(self, model: Model, change: Callable[[Request], Request] = lambda request: request) -> None:
        super().__init__(model)
        self.change = change

    async def complete(self, request: Request) -> Reply:
        return await self.model.complete(self.change(request))

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        yield Chunk(reply=await self.complete(request))


class Within(Toolbox):
    """Tools round tools."""

    def __init__(self, tools: Toolbox) -> None:
        super().__init__(tools)
        self.tools = tools

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        return await self.tools.call(call, validate=validate)


class Own(TemplateLoop):
    """The template, to be broken in one place."""

    __slots__ = ()

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        return self.ended(await super().run(query, self.tools(tools), self.model(model), observer))

    def tools(self, tools: Toolbox) -> Toolbox:
        return tools

    def model(self, model: Model) -> Model:
        return model

    def ended(self, outcome: Outcome) -> Outcome:
        return outcome
