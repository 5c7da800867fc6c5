"""Any loop as one whose run goes on after a stop: a person's approval, an error, or the end of the process.

The run is carried out from its start, and what its `Checkpoint` has recorded is given in the place of the model and the tools: no
request is sent twice, and no call that has a result is made again. A design is not told, so that a run that was stopped and went on
is the run that was never stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NoReturn

from whichloop.protocol.cancellation import failure_of_model
from whichloop.protocol.chat import Chunk, Message, Reply, whole_pieces
from whichloop.protocol.events import SILENT, ApprovalAsked, ApprovalDecided, Observer
from whichloop.protocol.json_text import digest
from whichloop.protocol.loop import WrappedLoop
from whichloop.protocol.model import Asks, Model, ModelAround, ModelError, ProviderError, Request, estimate_input
from whichloop.protocol.outcome import AnswerT, Budget, Outcome, Query
from whichloop.protocol.redact import logger_of, redact
from whichloop.protocol.tool_calls import NEVER_RAN, BudgetExceeded, CallId, Observation, StopRun, ToolCall
from whichloop.protocol.tools import Toolbox, ToolboxAround
from whichloop.protocol.values import cap, error_text, legible, render_value

from .checkpoint import (
    CUT_OFF,
    DECIDE,
    FAILURES,
    OF_PROVIDER,
    Checkpoint,
    Entry,
    PendingCall,
    RecordedCall,
    ResumeError,
    failure_of,
    json_value,
    refusal,
    reply_of,
    stated,
)
from .shared.boundary import RelayingObserver, check_run, has_boundary, problem_of, received_values, run_of, watched
from .shared.call_ids import CallIds, RunFailed, as_asked, ids_of
from .shared.conversation import REJECTED

logger = logger_of(__name__)

UNLIMITED = Budget()
UNPRICED = "a budget of {:g} dollars cannot be kept, for the model does not say what a reply costs: limit tokens or calls"
EDITED = "A person let this call run with other arguments, {arguments}: "
GIVEN_UP = f"no result came in time, {DECIDE}"
RAISED = f"the tool raised {{error}}, {DECIDE}"
UNFIT = "the arguments that were given to {tool} do not fit: {problem}"
NOT_CALLED = NEVER_RAN | {"NotConfirmed", REJECTED}


class ApprovalRequired(StopRun):
    """The run has stopped at calls that a person has to approve; it goes on once that is decided. `Resumable` raises this."""

    def __init__(self, pending: tuple[PendingCall, ...] = ()) -> None:
        super().__init__(pending)
        self.pending = pending
        """The calls that waited when the run stopped."""

    def __str__(self) -> str:
        return f"waiting for a person to approve or reject: {', '.join(one.call.name for one in self.pending)}"


@dataclass(frozen=True, slots=True)
class Resumable(WrappedLoop):
    """A loop whose run can go on: run it again, with the same query, tools and checkpoint.

    Events tell what happens now; what is recorded is not told again. What a design asks or calls beside the model and the tools of
    the run, such as the `select_model` of `phased`, is not recorded.
    """

    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    """What the run has done so far; a checkpoint belongs to one run."""
    budget: Budget = UNLIMITED
    """What the whole run may spend, however often it goes on: calls, tokens, dollars. The run then ends with BudgetExceeded."""

    def __post_init__(self) -> None:
        if self.budget.seconds is not None:
            raise ValueError("budget: limit calls, tokens or dollars, not seconds, for a run may wait for days")

    @has_boundary
    async def run(self, query: Query[AnswerT], tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome[AnswerT]:
        """Begin the run or go on with it.

        Raises ApprovalRequired where a call waits for a person, ResumeError where the run is another one than the checkpoint's,
        BudgetExceeded where the budget is used up, ValueError for a name in `needs_approval` that no tool has and for a budget of
        dollars over a model without prices, and RunUnderWay for a checkpoint that is in use.
        """
        check_run(query, tools, model, observer)
        self.budget.check_price(model)
        if unknown := sorted(set(self.checkpoint.needs_approval).difference(tools.names)):
            raise ValueError(f"needs_approval: no tool is named {unknown[0]!r}; the tools are {', '.join(tools.names) or 'none'}")
        with self.checkpoint.held():
            return await watched(self._recorded, query, tools, model, observer)

    async def _recorded(self, query: Query[Any], tools: Toolbox, model: Model, observer: Observer) -> Outcome[Any]:
        ids = ids_of(observer, query)
        if not self.checkpoint.run_id:
            talk = (*(query.history or ()), Message("user", query.full_text, images=query.images))
            await self.checkpoint.keep({"kind": "run", "id": ids.run_id, "messages": [message.as_dict() for message in talk]})
        elif len(self.checkpoint.without_last_failures()) < len(self.checkpoint.received):  # the model is asked again
            await self.checkpoint.keep({"kind": "resumed"})
        ids.run_id = self.checkpoint.run_id
        asked = {one.call.name for one in self.checkpoint.calls.values() if one.is_guarded}
        ids.guarded = frozenset(self.checkpoint.needs_approval) | asked
        replay = Replay(self.checkpoint, self.budget, observer, ids)
        with ids.failure.leaving():
            return await run_of(self.loop)(query, ReplayedToolbox(tools, replay), ReplayedModel(model, replay), replay)


class Replay(RelayingObserver):
    """A run while it is carried out: gives what is recorded, keeps what is new, and passes on what a design tells of that."""

    def __init__(self, checkpoint: Checkpoint, budget: Budget, observer: Observer, ids: CallIds) -> None:
        super().__init__(observer, ids)
        self.checkpoint = checkpoint
        self._budget = budget
        self._replies: dict[str, deque[Entry]] = {}
        for entry in checkpoint.received:
            if entry["kind"] != "result":
                self._replies.setdefault(entry["scope"], deque()).append(entry)
        self._results = {name for name, call in checkpoint.calls.items() if call.result is not None}

    def note(self, kind: str, **data: Any) -> None:
        """Pass a note on, unless something recorded is still to be given."""
        if not self._results and not any(self._replies.values()):
            with self.ids.failure.noticed():
                self.observer.note(kind, **data)

    async def keep(self, kind: str, **fields: Any) -> None:
        """Keep an entry. Raises RunFailed for what storing it raises."""
        with self.ids.failure.noticed():
            await self.checkpoint.keep({"kind": kind, **fields})

    # --- the model ---

    async def reply(self, request: Request) -> Reply | None:
        """Return the recorded reply to a request, None if it is new.

        Requests of one scope follow each other, so that each has to be the next one that was recorded. Raises ResumeError if it is
        not, and the failure that was recorded in the place of a reply. Other tasks of the event loop may run meanwhile, but not
        within a scope of its own: the results of tasks that run together would come in another order than recorded.
        """
        recorded = self._replies.get(request.scope)
        if not recorded:
            return None
        if recorded[0]["request"] != digest(request.as_dict()):
            raise self._other_run(f"a request of role {request.role.value}")
        entry = recorded.popleft()
        if entry["kind"] == "failure":
            raise failure_of(entry["failure"])
        if not request.scope:
            await asyncio.sleep(0)
        return reply_of(entry["reply"])

    def _other_run(self, what: str) -> Exception:
        problem = f"{what} is not the recorded one: loop, prompts, tools or query have changed; go on from checkpoint.messages"
        return self.ids.failure.stopped_by(ResumeError(problem))

    async def ask(self, request: Request) -> None:
        """Note a new request before it is made, if there is a budget. Raises BudgetExceeded if that is used up."""
        if self._budget.is_unlimited:
            return
        spent = self.checkpoint.spent
        used_up = self._budget.used_up(spent)
        if not used_up and self._budget.dollars is not None and spent.unpriced:
            used_up = UNPRICED.format(self._budget.dollars)
        if used_up:
            raise self.ids.failure.stopped_by(BudgetExceeded(used_up))
        await self.keep("asked", scope=request.scope, input_tokens=estimate_input(request))

    async def received(self, kind: str, request: Request, came: Entry) -> None:
        """Keep what has come of a request, a `reply` or a `failure`."""
        await self.keep(kind, scope=request.scope, request=digest(request.as_dict()), **{kind: came})

    # --- the tools ---

    def result(self, call: ToolCall) -> Observation | None:
        """Return the recorded result of a call, None if it has none. Raises ResumeError for one before a recorded reply."""
        recorded = self.checkpoint.calls.get(call.call_id)
        if recorded is None and self._replies.get(""):
            raise self._other_run(f"a call of {call.name}")
        self._results.discard(call.call_id)
        return None if recorded is None else recorded.seen


class ReplayedModel(ModelAround):
    """A model that is asked what is not recorded yet."""

    def __init__(self, model: Model, replay: Replay) -> None:
        super().__init__(model)
        self._replay = replay

    async def chunks(self, request: Request, ask: Asks) -> AsyncGenerator[Chunk, None]:
        """Raises as the model does, and ResumeError."""
        if (reply := await self._replay.reply(request)) is not None:
            for piece in whole_pieces(reply):
                yield piece
            yield Chunk(reply=reply)
            return
        await self._replay.ask(request)
        try:
            async with contextlib.aclosing(ask(request)) as chunks:
                async for chunk in chunks:
                    if chunk.reply is not None:
                        reply = chunk.reply
                        await self._replay.received("reply", request, asdict(reply))
                    yield chunk
            if reply is None:
                raise ProviderError("the stream ended without a reply", "server")
        except (ModelError, asyncio.CancelledError) as error:
            failure = failure_of_model(error)
            await self._replay.received("failure", request, failure_entry(failure))
            raise failure from failure.__cause__


class ReplayedToolbox(ToolboxAround):
    """A toolbox that makes the calls that have no result yet, once a person has approved those that need it."""

    def __init__(self, within: Toolbox, replay: Replay) -> None:
        super().__init__(within)
        self._replay, self._checkpoint = replay, replay.checkpoint
        self._under_way = 0
        self._none_under_way = asyncio.Event()
        self._is_stopping = False

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        """Raises what the tool's StopRun is, ApprovalRequired and ResumeError."""
        named = self._replay.ids.named(call)
        seen = self._replay.result(named)
        return as_asked(await self._result_of_new(named, validate) if seen is None else seen, call)

    async def _result_of_new(self, call: ToolCall, validate: bool) -> Observation:
        """Return the result of a call that has none recorded. Raises ApprovalRequired."""
        recorded = self._checkpoint.calls.get(call.call_id, RecordedCall(call))
        is_checked = validate or self.check_arguments or not isinstance(call.arguments, Mapping)
        if is_checked and not recorded.asked and problem_of(call, self.within) is not None:  # it will be refused
            return await self._make(call, validate)
        if not recorded.is_guarded and call.name not in self._checkpoint.needs_approval:
            if recorded.begun:
                logger.warning("%s is called again: the run ended while it was at work", call.name)
            return await self._make(call, validate)
        if recorded.is_cut_off:
            await self._stop_for_person(call, CUT_OFF, recorded.edited)
        if not recorded.asked:
            why = self._reason_to_wait(call)
            if why is None:
                return await self._make(call, validate, ApprovalDecided(call, True, "rule"))
            await self._stop_for_person(call, why)
        decision = recorded.decision
        if decision is None:
            await self._stop_for_person(call)
        return await self._result_by_decision(call, validate, recorded, decision)

    def _reason_to_wait(self, call: ToolCall) -> str | None:
        """Return why a call of a tool in `needs_approval` waits, empty if nothing is to be said of it; None if a rule lets it.

        What a rule cannot judge waits, too: it raises, or returns anything but True and False.
        """
        rule = self._checkpoint.needs_approval.get(call.name)
        if rule is None:
            return ""
        try:
            verdict: Any = rule(deepcopy(received_values(call, self.within)))
        except Exception as error:  # a model may leave out what the rule looks at
            why = f"the rule of {call.name} raised {type(error).__name__}: {cap(redact(error_text(error)), 300)}"
        else:
            if isinstance(verdict, bool):
                return "" if verdict else None
            why = f"the rule of {call.name} returned {cap(redact(legible(repr(verdict))), 300)}, which is neither True nor False"
        logger.warning("needs_approval: %s", why)
        return why

    async def _result_by_decision(self, call: ToolCall, validate: bool, recorded: RecordedCall, decision: Entry) -> Observation:
        """Return the result of a call that a person approved or gave the result of, the error of one that was refused.

        Raises ApprovalRequired where the tool does not take the arguments that a person gave.
        """
        result = render_value(decision["result"]) if "result" in decision else None
        edited = decision.get("arguments", recorded.edited) if decision["approved"] and result is None else None
        decided = ApprovalDecided(call, decision["approved"], decision["by"] or "person", decision["reason"], edited, result)
        if edited is not None and (problem := problem_of(replace(call, arguments=edited), self.within)):
            await self._stop_for_person(call, UNFIT.format(tool=call.name, problem=problem[1]), edited)
        if decided.approved and result is None:
            return await self._make(call, validate or edited is not None, decided)
        self._replay.on_event(decided)
        if result is not None:
            return await self._kept(call, Observation(call.name, "success", result, None, decision["result"], call.call_id))
        text = refusal(decided.reason, recorded.begun)
        return await self._kept(call, Observation(call.name, "error", text, REJECTED, None, call.call_id))

    async def _make(self, call: ToolCall, validate: bool, decided: ApprovalDecided | None = None) -> Observation:
        """Make a call and return its result. `decided`: of a call that a person has to know of.

        Raises ApprovalRequired, without beginning the call, once another call waits for a person: a design ends the calls that run
        beside one that raises, so that one that began now could be cut off although its tool has acted. Raises it, too, for a call
        that a person has to know of and that ran into a time limit or raised what is no refusal.
        """
        if self._is_stopping:
            await self._stop_once_none_is_under_way()
        edited = None if decided is None else decided.arguments
        with self._counted():
            await self._replay.keep("begun", guarded=decided is not None, **stated(call, edited))
            call_id = CallId(call.call_id, self._checkpoint.run_id, self._checkpoint.calls[call.call_id].begun)
            if decided is not None:
                self._replay.on_event(decided)
            to_make = ToolCall(call.name, call.arguments if edited is None else edited, call_id)
            seen = await self.within.call(to_make, validate=validate)
            problem = "" if decided is None else may_have_acted(seen, self._checkpoint.refusals)
            if edited is not None:
                seen = replace(seen, data=EDITED.format(arguments=render_value(edited)) + seen.data)
            if not problem:
                return await self._kept(call, seen)
        await self._stop_for_person(call, problem, edited)

    async def _kept(self, call: ToolCall, seen: Observation) -> Observation:
        await self._replay.keep(**result_entry(call, seen))
        return seen

    async def _stop_for_person(self, call: ToolCall, problem: str = "", edited: Mapping[str, Any] | None = None) -> NoReturn:
        """Record that a call waits, unless it does already, tell the observer, and raise ApprovalRequired."""
        self._is_stopping = True
        with self._counted():  # the run does not stop before it is stored and told that the call waits
            one = self._checkpoint.calls.get(call.call_id, RecordedCall(call))
            if not one.asked or one.is_cut_off or one.decisions:
                await self._replay.keep(**self._checkpoint.pending_entry(one, problem, edited))
            waiting = self._checkpoint.pending_call(self._checkpoint.calls[call.call_id])
            with contextlib.suppress(RunFailed):  # raised once the calls beside this one are at their end
                self._replay.on_event(ApprovalAsked(call, waiting.arguments, waiting.problem, waiting.id))
        await self._stop_once_none_is_under_way()

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        """Count a call as under way within the block."""
        self._under_way += 1
        self._none_under_way.clear()
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._none_under_way.set()

    async def _stop_once_none_is_under_way(self) -> NoReturn:
        """Raises ApprovalRequired once the calls that have begun are at their end, and their results recorded."""
        while self._under_way:
            await self._none_under_way.wait()
        raise self._replay.ids.failure.stopped_by(ApprovalRequired(self._checkpoint.pending))


def may_have_acted(seen: Observation, refusals: tuple[type[Exception], ...]) -> str:
    """Return why nobody knows whether a tool has acted that a person has to know of; empty if its result or refusal says so.

    Whatever was raised once the tool had begun may have come after it has acted. A time limit is no refusal of the tool's.
    """
    if seen.ok or (seen.raised is None and seen.error_type in NOT_CALLED):
        return ""
    if seen.error_type == TimeoutError.__name__ or isinstance(seen.raised, TimeoutError):
        return GIVEN_UP
    return "" if isinstance(seen.raised, refusals) else RAISED.format(error=cap(f"{seen.error_type}: {seen.data}", 300))


def failure_entry(error: ModelError) -> Entry:
    kind = next(name for name, failure_class in FAILURES.items() if isinstance(error, failure_class))
    fields = {name: getattr(error, name) for name in OF_PROVIDER} if kind == "ProviderError" else {}
    return {"type": kind, "message": error_text(error), "fields": fields}


def result_entry(call: ToolCall, seen: Observation) -> Entry:
    result = asdict(replace(seen, value=None, raised=None))
    del result["call_id"], result["raised"]
    return {"kind": "result", "call": str(call.call_id), "result": result | {"value": json_value(seen.value)}}
