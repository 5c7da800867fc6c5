"""Any loop as one that can be taken up again: after a stop for a person's approval, an error, or the end of the process.

The run is carried out from its start, and what its `Checkpoint` has recorded is given in the place of the model and the tools: no
request is sent twice, and no call that has a result is made again. A design is not told, so that a run that was stopped and taken
up is the run that was never stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, cast

from loopbench.protocol import (
    SILENT,
    AnswerT,
    Chunk,
    Loop,
    Model,
    ModelError,
    Observation,
    Observer,
    Outcome,
    Query,
    Reply,
    Request,
    Toolbox,
    ToolCall,
    WrappedLoop,
    WrappedModel,
    render_value,
)
from loopbench.protocol.budget import Budget
from loopbench.protocol.cancellation import failure_of_model
from loopbench.protocol.chat import whole_pieces
from loopbench.protocol.current_call import CallId
from loopbench.protocol.events import ApprovalAsked, ApprovalDecided
from loopbench.protocol.names import nearest
from loopbench.protocol.redact import logger_of
from loopbench.protocol.tool_calls import NEVER_RAN
from loopbench.protocol.values import cap

from .boundary import has_boundary, run_of, watched
from .call_ids import CallIds, as_asked, ids_of
from .checkpoint import ApprovalRequired, Checkpoint, received_of
from .checkpoint_entries import same_json
from .equal_calls import equal_calls, likenesses, spelling
from .replay import UNLIMITED, Replay, take_up
from .run_arguments import check_run, named
from .run_failure import RunFailed
from .toolbox_around import ToolboxAround, is_said_whole, made_anew, problem_of, shown_arguments, unlike_shown
from .watching import Watching

logger = logger_of(__name__)

REJECTED = "A person refused this call"
EDITED = "A person let this call run with other arguments, {arguments}: "
CUT_OFF = "the run ended while the tool was at work, so that it may have acted: approve calls it again, answer gives the result"
GIVEN_UP = "no result came in time, so that it may have acted or be at work still: approve calls it again, answer gives the result"
RAISED = "the tool raised {error}, so that it may have acted: approve calls it again, answer gives the result"
BEGUN = "It had begun before, and may have acted or be at work still."
EARLIER = "the equal call {id} may have acted or be at work still"
BESIDE = "an equal call waits beside it: {id}"
MADE = "the equal call {id} has its result already: {result}"
NOT_CALLED = NEVER_RAN | {"NotConfirmed", "Rejected"}
"""Errors of a toolbox that has not called the tool."""
CONVERTED = "the tool gets other arguments than were given"
CHANGED = "the tool would get other arguments than were approved, for its types have changed"
PERSON, RULE = "person", "rule"
"""Who decided about a call, where no name was given."""


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
        loop: Any = self.loop
        checkpoint: Any = self.checkpoint
        budget: Any = self.budget
        if isinstance(loop, type) or not isinstance(loop, Loop):
            raise TypeError(f"loop: give a loop, such as Finish(), not {named(loop)}; Resumable(loop, checkpoint)")
        if not isinstance(checkpoint, Checkpoint):
            raise TypeError(
                f"checkpoint: give a Checkpoint, not {named(checkpoint)}; Checkpoint(entries) makes one of what is stored"
            )
        if not isinstance(budget, Budget):
            raise TypeError(f"budget: give a Budget, not {named(budget)}; Budget(tokens=50_000) limits the tokens of the whole run")
        if budget.seconds is not None:
            raise ValueError(
                "budget: limit calls, tokens or dollars, not seconds, for a run may wait for days: asyncio.timeout bounds each part"
            )

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
        told = AfterReplay(observer, ids, replay)
        ids.guarded = self.checkpoint.guarded
        approved = ReplayedToolbox(tools, replay, self.checkpoint, told)
        with ids.failure.resuming():
            return await run_of(self.loop)(query, approved, ReplayedModel(model, replay), told)


class AfterReplay(Watching):
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
            told = ", ".join(dropped) if isinstance(dropped, list | tuple) else str(dropped)
            logger.warning("%s: called beside the answer, so that it was not called; see finish_with_tools", told)
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


class ReplayedToolbox(ToolboxAround):
    """A toolbox that makes the calls that have no result yet, once a person has approved those that need it."""

    def __init__(self, within: Toolbox, replay: Replay, checkpoint: Checkpoint, told: AfterReplay) -> None:
        super().__init__(within)
        self._replay, self._checkpoint, self._told = replay, checkpoint, told
        self._under_way = 0
        self._idle = asyncio.Event()
        self._making: dict[str, asyncio.Event] = {}
        """What equal calls have in common of which one is under way that a person has to know of, and whether it has ended."""
        self._is_stopping = False
        self._problems: list[str] = []

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        """Raises what the tool's StopRun is, and ApprovalRequired."""
        named = self._told.ids.named(call)
        seen = self._replay.result(named)
        if seen is None:
            await self._replay.keep_run()
            seen = await self._new(named, validate)
            await self._replay.keep_result(named, seen)
        return as_asked(seen, call)

    async def _new(self, call: ToolCall, validate: bool) -> Observation:
        """Return the result of a call that has none recorded. Raises ApprovalRequired."""
        is_checked = validate or self.check_arguments or not isinstance(call.arguments, Mapping)
        if is_checked and problem_of(call, self.within) is not None:  # the call will be refused: there is nothing to decide
            return await self._made(call, validate)
        likes = self._likes(call)
        await self._alone(likes)
        why = self._checkpoint.reason_to_wait(call, self.within, likes)
        if why is not None:
            return await self._decided(call, validate, why)
        is_allowed = call.name in self._checkpoint.needs_approval
        return await self._made(call, validate, ApprovalDecided(call, True, RULE) if is_allowed else None)

    async def _made(self, call: ToolCall, validate: bool, decided: ApprovalDecided | None = None) -> Observation:
        """Return the result of a call. Raises ApprovalRequired, without beginning it, once another call waits for a person.

        So it does for a call that a person has to know of, and that has run into a time limit or raised what is no refusal: it may
        have acted, as if the process had died. A design ends the calls that run beside one that raises: one that began now could be
        cut off without a recorded result, although its tool has acted, and would be made again.
        """
        if self._is_stopping:
            await self._stop()
        with self._making_one(frozenset() if decided is None else self._likes(decided.call) | self._likes(call)):
            if decided is not None:
                attempt = await self._replay.begin(decided.call, call, self.within)
                call = replace(call, call_id=CallId(call.call_id, self._replay.run_id, attempt))
                self._told.on_event(decided)
            seen = await self.within.call(call, validate=validate)
        if decided is not None and (problem := may_have_acted(seen, self._checkpoint.refusals)):
            await self._wait(decided.call, problem, self._replay.begun_with(decided.call))
        return seen

    def _likes(self, call: ToolCall) -> frozenset[str]:
        """Return what a call has in common with those that are equal to it; of a tool that nobody has to know of, by their ids."""
        if call.name in self._checkpoint.guarded:
            return likenesses(call, self.within)
        return frozenset({spelling(str(call.call_id))})

    async def _alone(self, likes: frozenset[str]) -> None:
        """Wait for the end of the equal calls that are under way: of it depends whether this one waits for a person."""
        while (ended := next((self._making[like] for like in likes if like in self._making), None)) is not None:
            await ended.wait()

    @contextlib.contextmanager
    def _making_one(self, likes: frozenset[str]) -> Iterator[None]:
        """Around a call that is made. `likes`: of a call that a person has to know of; an equal one waits for its end."""
        self._under_way += 1
        self._idle.clear()
        ended = asyncio.Event()
        self._making |= dict.fromkeys(likes, ended)
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()
            for like in likes:
                del self._making[like]
            ended.set()

    async def _decided(self, call: ToolCall, validate: bool, why: str) -> Observation:
        """Return the result of a call that a person approved, the error of one that was rejected. Raises ApprovalRequired.

        `why`: what a person is told of a call that has not waited yet.
        """
        if self._replay.was_cut_off(call):
            await self._wait(call, CUT_OFF, self._replay.begun_with(call))
        decision = self._replay.decision(call)
        if decision is None:
            await self._wait(call, why)
        given = render_value(decision["result"]) if "result" in decision else None
        decided = ApprovalDecided(call, decision["approved"], decision.get("by", PERSON), decision["reason"], None, given)
        if given is not None:
            self._told.on_event(decided)
            return Observation(call.name, "success", given, None, decision["result"], call.call_id)
        if not decided.approved:
            self._told.on_event(decided)
            reason = f"{REJECTED}: {decided.reason}" if decided.reason else f"{REJECTED}."
            reason += f" {BEGUN}" if self._replay.has_begun(call) else ""
            return Observation(call.name, "error", reason, "Rejected", None, call.call_id)
        return await self._approved(decided, decision.get("arguments"), validate)

    async def _approved(self, decided: ApprovalDecided, given: Mapping[str, Any] | None, validate: bool) -> Observation:
        """Return the result of an approved call. `given`: the arguments of the decision.

        Raises ApprovalRequired where the tool's function would get anything else than the person has seen or written.
        """
        call, asked = decided.call, self._replay.asked(decided.call)
        edited = asked.get("edited") if given is None else given
        made = call if edited is None else replace(call, arguments=edited)
        if edited is not None and (problem := problem_of(made, self.within)):
            await self._wait(call, f"the arguments that were given to {made.name} do not fit: {problem[1]}")
        shown = shown_arguments(made, self.within)
        agreed = received_of(asked)
        if given is not None:
            hidden = unlike_shown(replace(call, arguments=asked.get("edited", call.arguments)), self.within)
            # what is left out was agreed to if it stays what was shown whole
            agreed = {name: value for name, value in agreed.items() if name in shown and not hidden} | dict(given)
        if not same_json(shown, agreed):
            made = await self._as_agreed(call, given is None, shown, agreed, edited)
        likes = self._likes(call) | self._likes(made)
        await self._alone(likes)
        unsure = self._checkpoint.unsure_before(call, likes)
        if unsure is not None and EARLIER.format(id=unsure) not in asked.get("problem", ""):  # it was not so when it was approved
            await self._wait(call, edited=edited)
        if edited is None:
            return await self._made(made, validate or made is not call, decided)
        is_edited = given is not None or self._replay.was_edited(call)
        seen = await self._made(made, True, replace(decided, arguments=shown) if is_edited else decided)
        return replace(seen, data=EDITED.format(arguments=render_value(made.arguments)) + seen.data) if is_edited else seen

    async def _as_agreed(
        self,
        call: ToolCall,
        is_as_shown: bool,
        shown: Mapping[str, Any],
        agreed: Mapping[str, Any],
        edited: Mapping[str, Any] | None,
    ) -> ToolCall:
        """Return the call with the very arguments that a person was shown, which a default or an id of each call would replace.

        Raises ApprovalRequired where the tool would still get others, or where the person has written them.
        """
        as_shown = replace(call, arguments=agreed)
        if is_as_shown and is_said_whole(as_shown, self.within):
            return as_shown
        names = ", ".join(sorted(name for name in {*shown, *agreed} if not same_json(shown.get(name, ...), agreed.get(name, ...))))
        why = f"{CHANGED if is_as_shown else CONVERTED} ({names}): approve what is shown now"
        is_unsettled = is_as_shown and made_anew(as_shown, self.within)  # of which the pending call tells by itself
        await self._wait(call, "" if is_unsettled else why, edited)

    async def _wait(self, call: ToolCall, problem: str = "", edited: Mapping[str, Any] | None = None) -> NoReturn:
        """Raises ApprovalRequired. `edited`: as of `Replay.wait_for_person`."""
        likes = self._likes(call) if edited is None else self._likes(call) | self._likes(replace(call, arguments=edited))
        told = "; ".join(filter(None, (problem, self._equal_before(call, likes))))
        self._is_stopping = True
        with self._making_one(frozenset()):  # the run does not stop before it is stored and told that the call waits
            waiting = await self._replay.wait_for_person(call, self.within, told, edited)
            if waiting.problem:
                self._problems.append(waiting.problem)
            with contextlib.suppress(RunFailed):  # raised once the calls beside this one are at their end
                self._told.on_event(ApprovalAsked(call, waiting.arguments, waiting.problem, waiting.version))
        await self._stop()

    def _equal_before(self, call: ToolCall, likes: frozenset[str]) -> str:
        """Return in words what has become of an equal call, the worst first; empty if there is none that acts or may have acted."""
        unsure = self._checkpoint.unsure_before(call, likes)
        if unsure is not None:
            return EARLIER.format(id=unsure)
        found = equal_calls(self._checkpoint.entries, str(call.call_id), likes)
        beside = next((one.call_id for one in found if one.waits), None)
        if beside is not None:
            return BESIDE.format(id=beside)
        made = [one for one in found if one.result is not None]
        return MADE.format(id=made[-1].call_id, result=cap(made[-1].read, 200)) if made else ""

    async def _stop(self) -> NoReturn:
        """Raises ApprovalRequired once the calls that have begun are at their end, and their results recorded."""
        while self._under_way:
            await self._idle.wait()
        raise self._told.ids.failure.stopped_by(ApprovalRequired(self._checkpoint, "; ".join(self._problems)))


def may_have_acted(seen: Observation, refusals: tuple[type[Exception], ...]) -> str:
    """Return why nobody knows whether a tool has acted that a person has to know of; empty if its result or refusal says so.

    Clients raise what they like where a server does not answer, and few of these are a TimeoutError of Python's: whatever was
    raised once the tool had begun may have come after it has acted. A time limit is no refusal of the tool's.
    """
    if seen.ok or (seen.raised is None and seen.error_type in NOT_CALLED):
        return ""
    if seen.error_type == TimeoutError.__name__ or isinstance(seen.raised, TimeoutError):
        return GIVEN_UP
    if isinstance(seen.raised, refusals):
        return ""
    return RAISED.format(error=cap(f"{seen.error_type}: {seen.data}", 300))
