"""Any loop as one that can be taken up again: after a stop for a person's approval, an error, or the end of the process.

The run is carried out from its start, and what its `Checkpoint` has recorded is given in the place of the model and the tools: no
request is sent twice, and no call that has a result is made again. A design is not told, so that a run that was stopped and taken
up is the run that was never stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from typing import Any, cast

from whichloop.loops.checkpoints.checkpoint import Checkpoint
from whichloop.loops.checkpoints.replay import UNLIMITED, Replay, take_up
from whichloop.loops.checkpoints.replayed_toolbox import ReplayedToolbox
from whichloop.loops.shared.boundary import has_boundary, run_of, watched
from whichloop.loops.shared.call_ids import CallIds, ids_of
from whichloop.protocol import (
    SILENT,
    AnswerT,
    Chunk,
    Loop,
    Model,
    ModelError,
    Observer,
    Outcome,
    Query,
    Reply,
    Request,
    Toolbox,
    WrappedLoop,
    WrappedModel,
)
from whichloop.protocol.cancellation import failure_of_model
from whichloop.protocol.chat import whole_pieces
from whichloop.protocol.names import nearest
from whichloop.protocol.outcome import Budget
from whichloop.protocol.redact import logger_of

from .shared.boundary import RelayingObserver, check_run, named

logger = logger_of(__name__)


@dataclass(frozen=True, slots=True)
class Resumable(WrappedLoop):
    """A loop whose run can be taken up: run it again, with the same query, tools and checkpoint.

    Events tell what happens now; what is recorded is not told again. What a design asks or calls beside the model and the tools of
    the run, such as the `select_model` of `phased`, is not recorded.
    """

    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    """What the run has done so far; a checkpoint belongs to one run."""
    budget: Budget = UNLIMITED
    """What the whole run may spend, however often it is taken up: calls, tokens, dollars. The run then ends with BudgetExceeded."""

    def __post_init__(self) -> None:
        for name, given, kind in (
            ("loop", self.loop, Loop),
            ("checkpoint", self.checkpoint, Checkpoint),
            ("budget", self.budget, Budget),
        ):
            if isinstance(given, type) or not isinstance(given, kind):
                raise TypeError(f"{name}: {kind.__name__} is needed, not {named(given)}")
        if self.budget.seconds is not None:
            raise ValueError("budget: limit calls, tokens or dollars, not seconds, for a run may wait for days")

    @has_boundary
    async def run(self, query: Query[AnswerT], tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome[AnswerT]:
        """Begin the run or go on with it.

        Raises ApprovalRequired where a call waits for a person, ResumeError where the run is another one than the checkpoint's,
        BudgetExceeded where the budget is used up, ValueError for a name in `needs_approval` that no tool has and for a budget of
        dollars over a model without prices, and RuntimeError for a checkpoint whose run is under way.
        """
        check_run(query, tools, model, observer)
        self.budget.check_price(model)
        for name in sorted(self.checkpoint.needs_approval):
            if name not in tools:
                hint = "; put a tool that a hook adds into the toolbox, and have the hook remove it while it is not to be called"
                raise ValueError(f"needs_approval: there is no tool {name!r}; {nearest(name, tools.names)}{hint}")
        with self.checkpoint.running():
            return await watched(self._recorded, query, tools, model, observer)

    async def _recorded(self, query: Query[Any], tools: Toolbox, model: Model, observer: Observer) -> Outcome[Any]:
        ids = ids_of(observer, query)
        await take_up(self.checkpoint)
        replay = Replay(self.checkpoint, ids.failure, self.budget)
        ids.recorded, ids.not_made, ids.run_id = replay.ids, replay.not_made, replay.run_id
        ids.guarded = self.checkpoint.guarded
        after_replay = AfterReplay(observer, ids, replay)
        replayed_tools = ReplayedToolbox(tools, replay, self.checkpoint, after_replay)
        with ids.failure.resuming():
            return await run_of(self.loop)(query, replayed_tools, ReplayedModel(model, replay), after_replay)


class AfterReplay(RelayingObserver):
    """Passes on what a design tells, but for the notes of the part that is recorded; the loop within makes the outcome whole."""

    def __init__(self, observer: Observer, ids: CallIds, replay: Replay) -> None:
        super().__init__(observer, ids)
        self._replay = replay

    def note(self, kind: str, **data: Any) -> None:
        """Pass a note on, and warn of calls that the model made beside its answer, and that its design therefore drops."""
        if self._replay.is_replaying:
            return
        if kind == "not_run":
            dropped = data.get("tools", data.get("tool_name"))
            names = ", ".join(dropped) if isinstance(dropped, list | tuple) else str(dropped)
            logger.warning("%s: called beside the answer, so that it was not called; see finish_with_tools", names)
        with self.ids.failure.noticed():
            self.observer.note(kind, **data)


async def _let_others_run(request: Request) -> None:
    """Give the event loop up for a turn: a long run that is taken up must not keep it from a service's other tasks.

    Not within a task of several that run together (a scope of its own): their results would come in another order than recorded.
    """
    if not request.scope:
        await asyncio.sleep(0)


class ReplayedModel(WrappedModel):
    """A model that is asked what is not recorded yet."""

    def __init__(self, model: Model, replay: Replay) -> None:
        super().__init__(model)
        self._replay = replay

    async def complete(self, request: Request) -> Reply:
        """Raises as the model does, and ResumeError."""
        reply = self._replay.reply(request)
        if reply is not None:
            await _let_others_run(request)
            return reply
        await self._replay.ask(request)
        try:
            reply = await self.model.complete(request)
        except (ModelError, asyncio.CancelledError) as error:
            failure = failure_of_model(error)
            await self._replay.keep_failure(request, failure)
            raise failure from failure.__cause__
        await self._replay.keep_reply(request, reply)
        return reply

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """Raises as the model does, and ResumeError."""
        reply = self._replay.reply(request)
        if reply is not None:
            await _let_others_run(request)
            for chunk in whole_pieces(reply):
                yield chunk
            yield Chunk(reply=reply)
            return
        await self._replay.ask(request)
        text = ""
        stream = cast(AsyncGenerator[Chunk, None], self.model.stream(request))
        try:
            async with contextlib.aclosing(stream) as chunks:
                async for chunk in chunks:
                    text += chunk.text
                    if chunk.reply is not None:
                        reply = chunk.reply
                        await self._replay.keep_reply(request, reply)
                    yield chunk
        except (ModelError, asyncio.CancelledError) as error:
            failure = failure_of_model(error)
            await self._replay.keep_failure(request, failure)
            raise failure from failure.__cause__
        if reply is None:
            await self._replay.keep_reply(request, Reply(text, finish_reason="other"))
