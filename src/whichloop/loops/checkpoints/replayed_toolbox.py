"""The tools of a run that can be taken up: recorded results are given again, and some calls wait for a person's decision."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from whichloop.loops.shared.boundary import RelayingObserver
from whichloop.loops.shared.call_ids import RunFailed, as_asked
from whichloop.loops.shared.received_arguments import (
    different_arguments,
    is_said_whole,
    made_anew,
    problem_of,
    same_json,
    shown_arguments,
    unlike_shown,
)
from whichloop.protocol import Observation, Toolbox, ToolCall, render_value
from whichloop.protocol.events import ApprovalAsked, ApprovalDecided
from whichloop.protocol.tool_calls import NEVER_RAN, CallId
from whichloop.protocol.tools import ToolboxAround
from whichloop.protocol.values import cap

from .checkpoint import ApprovalRequired, Checkpoint, received_of
from .checkpoint_entries import Entry, equal_calls, equality_keys, spelling
from .replay import Replay

REJECTED = "A person refused this call"
EDITED = "A person let this call run with other arguments, {arguments}: "
CUT_OFF = "the run ended while the tool was at work, so that it may have acted: approve calls it again, answer gives the result"
GIVEN_UP = "no result came in time, so that it may have acted or be at work still: approve calls it again, answer gives the result"
RAISED = "the tool raised {error}, so that it may have acted: approve calls it again, answer gives the result"
BEGUN = "It had begun before, and may have acted or be at work still."
EARLIER = "the equal call {id} may have acted or be at work still"
BESIDE = "an equal call waits beside it: {id}"
MADE = "the equal call {id} has its result already: {result}"
UNFIT = "the arguments that were given to {tool} do not fit: {problem}"
NOT_CALLED = NEVER_RAN | {"NotConfirmed", "Rejected"}
"""Errors of a toolbox that has not called the tool."""
CONVERTED = "the tool gets other arguments than were given"
CHANGED = "the tool would get other arguments than were approved, for its types have changed"
PERSON, RULE = "person", "rule"
"""Who decided about a call, where no name was given."""


@dataclass(frozen=True, slots=True)
class Approval:
    """A call that a person has approved."""

    decided: ApprovalDecided
    asked: Entry
    """The entry of the checkpoint by which the person was last asked."""
    given: Mapping[str, Any] | None
    """The arguments that the person has written with this decision; None: the call was approved as it was shown."""

    @property
    def call(self) -> ToolCall:
        """The call as the model wrote it."""
        return self.decided.call

    @property
    def edited(self) -> Mapping[str, Any] | None:
        """The arguments in the place of the model's, of this decision or an earlier one; None: the model's hold."""
        return self.asked.get("edited") if self.given is None else self.given

    @property
    def approved_call(self) -> ToolCall:
        """The call with the arguments that hold."""
        return self.call if self.edited is None else replace(self.call, arguments=self.edited)

    @property
    def asked_call(self) -> ToolCall:
        """The call with the arguments that held when the person was asked."""
        return replace(self.call, arguments=self.asked.get("edited", self.call.arguments))


class ReplayedToolbox(ToolboxAround):
    """A toolbox that makes the calls that have no result yet, once a person has approved those that need it."""

    def __init__(self, within: Toolbox, replay: Replay, checkpoint: Checkpoint, observer: RelayingObserver) -> None:
        """`observer`: of the run, whose calls have the ids that it gives."""
        super().__init__(within)
        self._replay, self._checkpoint, self._observer = replay, checkpoint, observer
        self._under_way = 0
        """The number of calls that are being made."""
        self._none_under_way = asyncio.Event()
        self._ends_by_key: dict[str, asyncio.Event] = {}
        """Equality key of a call that is under way and that a person has to know of → set when the call has ended."""
        self._is_stopping = False
        self._problems: list[str] = []

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        """Raises what the tool's StopRun is, and ApprovalRequired."""
        named = self._observer.ids.named(call)
        seen = self._replay.result(named)
        if seen is None:
            await self._replay.keep_run()
            seen = await self._result_of_new(named, validate)
            await self._replay.keep_result(named, seen)
        return as_asked(seen, call)

    async def _result_of_new(self, call: ToolCall, validate: bool) -> Observation:
        """Return the result of a call that has none recorded. Raises ApprovalRequired."""
        is_checked = validate or self.check_arguments or not isinstance(call.arguments, Mapping)
        if is_checked and problem_of(call, self.within) is not None:  # the call will be refused: there is nothing to decide
            return await self._make(call, validate)
        keys = self._equality_keys(call)
        await self._wait_for_equal_calls(keys)
        why = self._checkpoint.reason_to_wait(call, self.within, keys)
        if why is not None:
            return await self._result_by_decision(call, validate, why)
        is_allowed = call.name in self._checkpoint.needs_approval
        return await self._make(call, validate, ApprovalDecided(call, True, RULE) if is_allowed else None)

    # --- making a call ---

    async def _make(self, call: ToolCall, validate: bool, decided: ApprovalDecided | None = None) -> Observation:
        """Make a call and return its result. `decided`: of a call that a person has to know of.

        Raises ApprovalRequired, without beginning the call, once another call waits for a person: a design ends the calls that run
        beside one that raises, so that one that began now could be cut off without a recorded result, although its tool has acted,
        and would be made again. Raises it, too, for a call that a person has to know of and that has run into a time limit or
        raised what is no refusal: it may have acted, as if the process had died.
        """
        if self._is_stopping:
            await self._stop_once_none_is_under_way()
        keys = frozenset() if decided is None else self._equality_keys(decided.call) | self._equality_keys(call)
        with self._counted(keys):
            if decided is not None:
                attempt = await self._replay.begin(decided.call, call, self.within)
                call = replace(call, call_id=CallId(call.call_id, self._replay.run_id, attempt))
                self._observer.on_event(decided)
            seen = await self.within.call(call, validate=validate)
        if decided is not None and (problem := may_have_acted(seen, self._checkpoint.refusals)):
            await self._stop_for_person(decided.call, problem, self._replay.begun_with(decided.call))
        return seen

    def _equality_keys(self, call: ToolCall) -> frozenset[str]:
        """Return what a call has in common with those that are equal to it; of a tool that nobody has to know of, by their ids."""
        if call.name in self._checkpoint.guarded:
            return equality_keys(call, self.within)
        return frozenset({spelling(str(call.call_id))})

    async def _wait_for_equal_calls(self, keys: frozenset[str]) -> None:
        """Return once the equal calls that are under way have ended: of that depends whether this one waits for a person."""
        while (end := next((self._ends_by_key[key] for key in keys if key in self._ends_by_key), None)) is not None:
            await end.wait()

    @contextlib.contextmanager
    def _counted(self, keys: frozenset[str]) -> Iterator[None]:
        """Count a call as under way within the block. `keys`: by which equal calls wait for its end; empty if none has to."""
        self._under_way += 1
        self._none_under_way.clear()
        end = asyncio.Event()
        self._ends_by_key |= dict.fromkeys(keys, end)
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._none_under_way.set()
            for key in keys:
                del self._ends_by_key[key]
            end.set()

    # --- what a person has decided ---

    async def _result_by_decision(self, call: ToolCall, validate: bool, why: str) -> Observation:
        """Return the result of a call that a person approved, the error of one that was rejected. Raises ApprovalRequired.

        `why`: what a person is told of a call that has not waited yet.
        """
        if self._replay.was_cut_off(call):
            await self._stop_for_person(call, CUT_OFF, self._replay.begun_with(call))
        decision = self._replay.decision(call)
        if decision is None:
            await self._stop_for_person(call, why)
        result = render_value(decision["result"]) if "result" in decision else None
        decided = ApprovalDecided(call, decision["approved"], decision.get("by", PERSON), decision["reason"], None, result)
        if result is not None:
            self._observer.on_event(decided)
            return Observation(call.name, "success", result, None, decision["result"], call.call_id)
        if not decided.approved:
            self._observer.on_event(decided)
            reason = f"{REJECTED}: {decided.reason}" if decided.reason else f"{REJECTED}."
            reason += f" {BEGUN}" if self._replay.has_begun(call) else ""
            return Observation(call.name, "error", reason, "Rejected", None, call.call_id)
        return await self._make_approved(Approval(decided, self._replay.asked(call), decision.get("arguments")), validate)

    async def _make_approved(self, approval: Approval, validate: bool) -> Observation:
        """Make an approved call and return its result.

        Raises ApprovalRequired where the tool's function would get anything else than the person has seen or written.
        """
        call = approval.call
        await self._check_edited(approval)
        to_make = await self._as_agreed(approval)
        keys = self._equality_keys(call) | self._equality_keys(to_make)
        await self._wait_for_equal_calls(keys)
        await self._check_equal_calls(approval, keys)
        if approval.edited is None:
            return await self._make(to_make, validate or to_make is not call, approval.decided)
        if approval.given is None and not self._replay.was_edited(call):  # they were shown before, and no person has written them
            return await self._make(to_make, True, approval.decided)
        received = shown_arguments(to_make, self.within)
        seen = await self._make(to_make, True, replace(approval.decided, arguments=received))
        return replace(seen, data=EDITED.format(arguments=render_value(to_make.arguments)) + seen.data)

    async def _check_edited(self, approval: Approval) -> None:
        """Raise ApprovalRequired where the tool does not take the arguments that a person has written."""
        if approval.edited is not None and (problem := problem_of(approval.approved_call, self.within)):
            await self._stop_for_person(approval.call, UNFIT.format(tool=approval.call.name, problem=problem[1]))

    async def _as_agreed(self, approval: Approval) -> ToolCall:
        """Return the call to make, of which the tool's function gets what the person has agreed to.

        Where the person has approved what was shown, and the tool would now get something else, such as a default that is made anew
        each time, the call states all that was shown. Raises ApprovalRequired where the tool gets something else even then, or
        where the person has written the arguments.
        """
        received = shown_arguments(approval.approved_call, self.within)
        agreed = self._agreed_arguments(approval, received)
        if same_json(received, agreed):
            return approval.approved_call
        as_shown = replace(approval.call, arguments=agreed)
        if approval.given is None:
            if is_said_whole(as_shown, self.within):
                return as_shown
            if made_anew(as_shown, self.within):
                await self._stop_for_person(approval.call, "", approval.edited)  # the pending call itself says what is made anew
        names = ", ".join(different_arguments(received, agreed))
        why = f"{CHANGED if approval.given is None else CONVERTED} ({names}): approve what is shown now"
        await self._stop_for_person(approval.call, why, approval.edited)

    def _agreed_arguments(self, approval: Approval, received: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what a person has agreed that the tool gets. `received`: what it would get now.

        That is what was shown, or else what the person has written. An argument that the person has left out was agreed to as well
        if it was shown, and if the tool got nothing that the JSON form did not show.
        """
        shown = received_of(approval.asked)
        if approval.given is None:
            return dict(shown)
        was_shown_whole = not unlike_shown(approval.asked_call, self.within)
        left_out = {name: value for name, value in shown.items() if name in received} if was_shown_whole else {}
        return left_out | dict(approval.given)

    async def _check_equal_calls(self, approval: Approval, keys: frozenset[str]) -> None:
        """Raise ApprovalRequired for an equal call that may have acted, if the person was not told of it when asked."""
        unsure = self._checkpoint.unsure_before(approval.call, keys)
        if unsure is not None and EARLIER.format(id=unsure) not in approval.asked.get("problem", ""):
            await self._stop_for_person(approval.call, edited=approval.edited)

    # --- stopping for a person ---

    async def _stop_for_person(self, call: ToolCall, problem: str = "", edited: Mapping[str, Any] | None = None) -> NoReturn:
        """Record that a call waits, tell the observer, and raise ApprovalRequired. `edited`: as of `Replay.wait_for_person`."""
        keys = self._equality_keys(call)
        if edited is not None:
            keys |= self._equality_keys(replace(call, arguments=edited))
        reasons = "; ".join(filter(None, (problem, self._fate_of_equal_call(call, keys))))
        self._is_stopping = True
        with self._counted(frozenset()):  # the run does not stop before it is stored and told that the call waits
            waiting = await self._replay.wait_for_person(call, self.within, reasons, edited)
            if waiting.problem:
                self._problems.append(waiting.problem)
            with contextlib.suppress(RunFailed):  # raised once the calls beside this one are at their end
                self._observer.on_event(ApprovalAsked(call, waiting.arguments, waiting.problem, waiting.version))
        await self._stop_once_none_is_under_way()

    def _fate_of_equal_call(self, call: ToolCall, keys: frozenset[str]) -> str:
        """Return in words what has become of an equal call, the worst first; empty if there is none that acts or may have acted."""
        unsure = self._checkpoint.unsure_before(call, keys)
        if unsure is not None:
            return EARLIER.format(id=unsure)
        equals = equal_calls(self._checkpoint.entries, str(call.call_id), keys)
        beside = next((one.call_id for one in equals if one.waits), None)
        if beside is not None:
            return BESIDE.format(id=beside)
        with_result = [one for one in equals if one.result is not None]
        return MADE.format(id=with_result[-1].call_id, result=cap(with_result[-1].read, 200)) if with_result else ""

    async def _stop_once_none_is_under_way(self) -> NoReturn:
        """Raises ApprovalRequired once the calls that have begun are at their end, and their results recorded."""
        while self._under_way:
            await self._none_under_way.wait()
        raise self._observer.ids.failure.stopped_by(ApprovalRequired(self._checkpoint, "; ".join(self._problems)))


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
