"""A checkpoint while its run is carried out again: what is recorded takes the place of the model and the tools."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any
from uuid import uuid4

from whichloop.loops.shared.call_ids import RunFailure
from whichloop.loops.shared.received_arguments import is_said_whole, made_anew, same_json, shown_arguments, unlike_shown
from whichloop.protocol import BudgetExceeded, ModelError, Observation, Reply, Request, Toolbox, ToolCall
from whichloop.protocol.digest import digest
from whichloop.protocol.outcome import Budget

from .checkpoint import Checkpoint, PendingCall, ResumeError, asked_entry, pending_of
from .checkpoint_entries import (
    Entry,
    equality_key,
    failure_entry,
    failure_of,
    holding,
    json_value,
    json_values,
    received_entries,
    reply_entry,
    reply_of,
    version_of,
)

UNLIMITED = Budget()
UNPRICED = "a budget of {:g} dollars cannot be kept, for the model does not say what a reply costs: limit tokens or calls"
UNSETTLED = (
    "the tool's types make new values each time, whatever is approved ({names}), so that approve would only ask again: answer "
    "gives the result, and the tool had better make such values itself, of current_call().idempotency_key, say"
)


class Replay:
    """A checkpoint while its run is carried out: gives what is recorded, in order, and records what is new."""

    def __init__(self, checkpoint: Checkpoint, failure: RunFailure, budget: Budget = UNLIMITED) -> None:
        """`failure`: of the run, which ends where an entry cannot be stored. `budget`: of the run, over all of its parts."""
        self._checkpoint = checkpoint
        self._failure = failure
        self._budget = budget
        self._replies: dict[str, deque[Entry]] = {}
        self._results: dict[str, Entry] = {}
        for entry in received_entries(checkpoint.entries):
            if entry["kind"] == "result":
                self._results[entry["call"]] = entry
            else:
                self._replies.setdefault(entry["scope"], deque()).append(entry)
        self._left = len(self._results) + sum(map(len, self._replies.values()))
        self.run_id = checkpoint.run_id or uuid4().hex

    @property
    def is_replaying(self) -> bool:
        """Whether something recorded is still to be given."""
        return self._left > 0

    # --- the model ---

    def reply(self, request: Request) -> Reply | None:
        """Return the recorded reply to a request, None if it is new.

        Requests of one scope follow each other, so that each has to be the next one that was recorded. Raises ResumeError if it is
        not, and the failure that was recorded in the place of a reply.
        """
        recorded = self._replies.get(request.scope)
        if not recorded:
            return None
        if recorded[0]["request"] != digest(request.as_dict()):
            problem = (
                f"a request of role {request.role.value} is not the one that was recorded: the loop, its prompts, the tools or the "
                "query have changed since; begin a new run, with what was said as its history"
            )
            raise self._failure.stopped_by(ResumeError(problem))
        entry = recorded.popleft()
        self._left -= 1
        if entry["kind"] == "failure":
            raise failure_of(entry["failure"])
        return reply_of(entry["reply"])

    async def ask(self, request: Request) -> None:
        """Note a new request before it is made, if there is a budget. Raises BudgetExceeded if that is used up."""
        if self._budget.is_unlimited:
            return
        spent = self._checkpoint.spent
        used_up = self._budget.used_up(spent)
        if not used_up and self._budget.dollars is not None and spent.unpriced:
            used_up = UNPRICED.format(self._budget.dollars)
        if used_up:
            raise self._failure.stopped_by(BudgetExceeded(used_up))
        await self._add(asked_entry(request))

    async def keep_reply(self, request: Request, reply: Reply) -> None:
        await self._keep_of(request, "reply", reply_entry(reply))

    async def keep_failure(self, request: Request, error: ModelError) -> None:
        await self._keep_of(request, "failure", failure_entry(error))

    async def _keep_of(self, request: Request, kind: str, what: Entry) -> None:
        await self._add({"kind": kind, "scope": request.scope, "request": digest(request.as_dict()), kind: what})

    # --- the tools: calls have the run's ids ---

    @property
    def ids(self) -> frozenset[str]:
        """The ids of the calls that are recorded."""
        return frozenset(entry["call"] for entry in self._checkpoint.entries if "call" in entry)

    def result(self, call: ToolCall) -> Observation | None:
        """Return the recorded result of a call, None if it has none yet."""
        entry = self._results.pop(call.call_id, None)
        if entry is None:
            return None
        self._left -= 1
        return Observation(**entry["result"], call_id=call.call_id)

    async def keep_result(self, call: ToolCall, seen: Observation) -> None:
        result = asdict(replace(seen, value=None, raised=None))
        del result["call_id"], result["raised"]
        await self._add({"kind": "result", "call": str(call.call_id), "result": result | {"value": json_value(seen.value)}})

    async def keep_run(self) -> None:
        """Note the run's id, before any call is made: a call that is made again has to have the same idempotency key."""
        if self._checkpoint.run_id:
            await self._all_stored()
        else:
            await self._add({"kind": "run", "id": self.run_id})

    async def begin(self, call: ToolCall, to_make: ToolCall, tools: Toolbox) -> int:
        """Note that a call that a person has to know of is about to be made: if no result follows, it may have been made.

        `to_make`: the call with the arguments that the person has given or was shown, where it is not made as the model wrote it.
        Return how often it has begun, this time included.
        """
        entry: Entry = {"kind": "begun", "call": str(call.call_id), "like": equality_key(to_make, tools)}
        await self._add(entry if to_make is call else entry | {"arguments": dict(to_make.arguments)})
        return self._times_begun(call)

    def was_cut_off(self, call: ToolCall) -> bool:
        """Return whether the run ended while a call was made, and nobody has decided since what is to become of it."""
        return self._decisions(call.call_id)[0]

    def has_begun(self, call: ToolCall) -> bool:
        """Return whether a call was begun at any time, so that it may have acted."""
        return self._times_begun(call) > 0

    def _times_begun(self, call: ToolCall) -> int:
        return sum(entry["kind"] == "begun" and entry["call"] == call.call_id for entry in self._checkpoint.entries)

    def decision(self, call: ToolCall) -> Entry | None:
        """Return what a person has decided about a call, None if nobody has since it began to wait.

        Of two people who decide at once, in checkpoints of their own, the one who rejects it counts; else the first.
        """
        return self._held(call.call_id)

    def asked(self, call: ToolCall) -> Entry:
        """Return what a person was last shown of a call that waits or has waited."""
        entries = reversed(self._checkpoint.entries)
        return next(entry for entry in entries if entry["kind"] == "pending" and entry["call"] == call.call_id)

    def begun_with(self, call: ToolCall) -> Mapping[str, Any] | None:
        """Return the arguments with which a call that was cut off had begun, if a person gave or was shown them; else None."""
        arguments: Mapping[str, Any] | None = None
        is_asked = False
        for entry in holding(self._checkpoint.entries):
            if entry.get("call") == call.call_id and entry["kind"] == "pending":
                arguments, is_asked = entry.get("edited"), True
            elif entry.get("call") == call.call_id and entry["kind"] == "decision" and is_asked:
                arguments, is_asked = entry.get("arguments", arguments), False  # of two, the first one holds
            elif entry.get("call") == call.call_id and entry["kind"] == "begun":
                arguments = entry.get("arguments", arguments)
        return arguments

    def was_edited(self, call: ToolCall) -> bool:
        """Return whether a person has ever given a call other arguments."""
        entries = holding(self._checkpoint.entries)
        decided = (entry for entry in entries if entry["kind"] == "decision" and entry["call"] == call.call_id)
        return any("arguments" in entry for entry in decided)

    def _held(self, call_id: str) -> Entry | None:
        return min(self._decisions(call_id)[1], key=lambda entry: bool(entry["approved"]), default=None)

    def _decisions(self, call_id: str) -> tuple[bool, list[Entry]]:
        """Return whether a call was cut off, and the decisions about it that hold: those since it last began to wait."""
        is_cut_off = is_asked = False
        since: list[Entry] = []
        for entry in holding(self._checkpoint.entries):
            if entry.get("call") != call_id:
                continue
            if entry["kind"] == "decision" and is_asked:
                since.append(entry)
                is_cut_off = False
            elif entry["kind"] in ("pending", "begun"):
                since.clear()
                is_asked = entry["kind"] == "pending"
                is_cut_off = is_cut_off or not is_asked
        return is_cut_off, since

    @property
    def not_made(self) -> set[str]:
        """The ids of the calls that a person has refused or given the result of, so that no tool was called."""
        decided = {entry["call"] for entry in self._checkpoint.entries if entry["kind"] == "decision"}
        held = [entry for entry in map(self._held, decided) if entry is not None]
        return {entry["call"] for entry in held if not entry["approved"] or "result" in entry}

    async def wait_for_person(
        self, call: ToolCall, tools: Toolbox, problem: str = "", edited: Mapping[str, Any] | None = None
    ) -> PendingCall:
        """Note that a call waits for a person, and return what waits.

        `problem`: why it waits again. `edited`: a person's arguments, which the call is to be made with once they are approved.
        """
        for one in self._checkpoint.pending:
            if one.id == call.call_id:
                await self._all_stored()
                return one
        to_make = call if edited is None else replace(call, arguments=edited)
        written = json_values(call.arguments)
        received = shown_arguments(to_make, tools)
        problem = "; ".join(filter(None, (problem, unlike_shown(to_make, tools), _unsettled(to_make, received, tools))))
        entry: Entry = {"kind": "pending", "call": str(call.call_id), "tool": call.name, "arguments": written}
        entry["like"] = equality_key(to_make, tools)
        entry |= {} if same_json(received, written) else {"received": received}
        entry |= {} if edited is None else {"edited": dict(edited)}
        entry |= {"problem": problem} if problem else {}
        run_id, times_asked = self._checkpoint.run_id, self._checkpoint.times_asked(entry["call"]) + 1
        await self._add(entry | {"version": version_of(entry, run_id, times_asked)})
        return pending_of(entry, run_id, times_asked)

    async def _add(self, entry: Entry) -> None:
        """Raises RunFailed for what storing the entry raises."""
        with self._failure.noticed():
            await self._checkpoint.keep(entry)

    async def _all_stored(self) -> None:
        """Return once the entries are stored that calls beside this one have added. Raises as `_add` does."""
        with self._failure.noticed():
            await self._checkpoint.all_stored()


async def take_up(checkpoint: Checkpoint) -> None:
    """Take back the failures that a run ended of, so that the model is asked again. Raises what storing an entry raises."""
    entries = received_entries(checkpoint.entries)
    if entries and entries[-1]["kind"] == "failure":
        await checkpoint.keep({"kind": "resumed"})


def _unsettled(call: ToolCall, shown: Mapping[str, Any], tools: Toolbox) -> str:
    """Return in words which values are made anew each time, also where the tool is given the shown ones; else empty."""
    names = made_anew(call, tools)
    if not names or is_said_whole(replace(call, arguments=shown), tools):
        return ""
    return UNSETTLED.format(names=", ".join(names))
