"""What a run has done so far, as JSON: replies of the model, results of calls, and what a person decided about calls.

A design computes everything else from these. So a run goes on by being carried out from its start: the n-th request gets the n-th
recorded reply, and each call its recorded result. `Resumable` does that.
"""

from __future__ import annotations

import contextlib
import inspect
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from whichloop.loops.shared.conversation import REJECTED, call_messages
from whichloop.protocol.chat import Message, NativeCall, Reply, Usage
from whichloop.protocol.json_text import canonical_json, sha256
from whichloop.protocol.model import ContextOverflow, ModelError, ProviderError, estimate_usage
from whichloop.protocol.outcome import Expenses
from whichloop.protocol.tool_calls import Observation, StopRun, ToolCall, id_name, idempotency_key
from whichloop.protocol.values import render_value

Entry = dict[str, Any]
ApprovalRule = Callable[[Mapping[str, Any]], bool]
"""Says of a copy of what the tool's function gets whether a person has to approve the call."""
NeedsApproval = Sequence[str] | Set[str] | Mapping[str, ApprovalRule]

_FIELDS: Mapping[str, Mapping[str, type]] = {
    "run": {"id": str, "messages": list},
    "asked": {"scope": str, "input_tokens": int},
    "reply": {"scope": str, "request": str, "reply": dict},
    "failure": {"scope": str, "request": str, "failure": dict},
    "resumed": {},
    "begun": {"call": str, "tool": str, "arguments": dict, "guarded": bool},
    "pending": {"call": str, "id": str, "tool": str, "arguments": dict, "problem": str},
    "decision": {"id": str, "approved": bool, "reason": str, "by": str},
    "result": {"call": str, "result": dict},
}
"""The kinds of entries, with their fields.

`asked` comes before each request of a run with a budget, for one whose reply nobody has kept is spent all the same. `resumed` takes
back the failures of which the run had ended. `begun` and `pending` may have `edited`, arguments that a person gave
in the place of the model's, and a decision `arguments` or a `result`.
"""
FAILURES: Mapping[str, type[ModelError]] = {one.__name__: one for one in (ProviderError, ContextOverflow, ModelError)}
OF_PROVIDER = ("kind", "status", "retry_after_s", "injected", "failed_attempts")
REFUSED = "A person refused this call"
BEGUN = "It had begun before, and may have acted or be at work still."
DECIDE = "so that it may have acted or be at work still: approve calls it again, answer gives the result"
CUT_OFF = f"the run ended while the tool was at work, {DECIDE}"
NO_RESULT = "The run stopped while the tool was at work: it may have acted."


class RunUnderWay(RuntimeError):
    """The checkpoint is in use, here or in another process: its run is under way, or somebody decides about one of its calls."""


class ResumeError(StopRun):
    """The run goes another way than the recorded one: the loop, its prompts, the tools or the query are others than they were."""


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call that waits for a person."""

    id: str
    """What `Checkpoint.approve`, `reject` and `answer` take: another one each time that a call waits, and in each run."""
    call: ToolCall
    """As the model wrote it, with the run's id for it, `call_id`, as in every event."""
    arguments: Mapping[str, Any]
    """The JSON with which the call is made: the model's own, or what a person has given in its place."""
    problem: str = ""
    """Why it waits again, or what its rule could not judge; else empty."""
    idempotency_key: str = ""
    """What the tool is told as `current_call().idempotency_key`: to look up by it whether a call that has begun has acted."""


@dataclass(slots=True)
class RecordedCall:
    """What a checkpoint says of one call."""

    call: ToolCall
    begun: int = 0
    is_guarded: bool = False
    """A person has to know of it, whatever `needs_approval` says now."""
    is_cut_off: bool = False
    """It has begun, and since then it has neither had a result nor waited."""
    edited: Mapping[str, Any] | None = None
    """Arguments of a person's in the place of the model's."""
    asked: list[Entry] = field(default_factory=list)
    """The entries by which it waits or has waited, the last one last."""
    decisions: list[Entry] = field(default_factory=list)
    """About what it has waited for last."""
    result: Entry | None = None

    def take(self, entry: Entry) -> None:
        match entry["kind"]:
            case "begun":
                self.begun += 1
                self.is_cut_off, self.is_guarded = True, self.is_guarded or entry["guarded"]
                self.edited = entry.get("edited")
            case "pending":
                self.asked.append(entry)
                self.decisions, self.is_cut_off, self.is_guarded, self.edited = [], False, True, entry.get("edited")
            case "result":
                self.is_cut_off, self.result = False, entry

    @property
    def waits(self) -> bool:
        """Whether a person has to decide about it."""
        return self.is_guarded if self.is_cut_off else bool(self.asked and not self.decisions)

    @property
    def decision(self) -> Entry | None:
        """What a person decided: of several who did at once, in checkpoints of their own, the one who rejects; else the first."""
        return min(self.decisions, key=lambda entry: bool(entry["approved"]), default=None)

    @property
    def seen(self) -> Observation | None:
        """Its recorded result."""
        return None if self.result is None else Observation(**self.result["result"], call_id=self.call.call_id)


class Checkpoint:
    """What a run has done so far. It belongs to one run, which may go on as often as it stops.

    `entries` is JSON and only grows. `Checkpoint(entries)` is the same one in another process, and `on_entry` hears of each entry.
    """

    def __init__(
        self,
        entries: Iterable[Mapping[str, Any]] = (),
        *,
        needs_approval: NeedsApproval = (),
        refusals: Collection[type[Exception]] = (),
        on_entry: Callable[[Entry], Any] | None = None,
    ) -> None:
        """`needs_approval`: names of tools whose calls wait for a person; give them whenever the run goes on.

        A mapping has a rule for each name: `{"refund": lambda arguments: arguments["amount"] > 100}`. Only False lets a call run.
        `refusals`: exceptions by which these tools say that they have not acted; whatever else one of them raises may have come
        after it has acted, so that the call waits. `on_entry`: a plain function that has stored the entry when it returns.

        Raises ValueError for what is no entry of a checkpoint, TypeError for other arguments than these.
        """
        if isinstance(needs_approval, str):
            raise TypeError("needs_approval: give a list of tools' names, not a text")
        named = needs_approval if isinstance(needs_approval, Mapping) else dict.fromkeys(needs_approval)
        self.needs_approval: Mapping[str, ApprovalRule | None] = dict(named)
        self.refusals = tuple(refusals)
        if not all(isinstance(one, type) and issubclass(one, Exception) and one is not Exception for one in self.refusals):
            raise TypeError("refusals: give exceptions that a tool raises before it acts, and not Exception, which is every one")
        self.on_entry = on_entry
        self._is_held = False
        self.take(entries)

    def take(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Have these entries in the place of any others. Raises ValueError."""
        self.entries: list[Entry] = []
        self.calls: dict[str, RecordedCall] = {}
        """The calls of the run by their ids, in the order in which they came up."""
        self.received: list[Entry] = []
        """Replies, failures that the run overcame, and results, in order."""
        self.run_id = ""
        """Of the run, of which the idempotency keys of its calls are made; empty before it begins."""
        self._talk: list[Message] = []
        for place, entry in enumerate(entries):
            try:
                self._add(dict(entry))
            except (KeyError, TypeError, AttributeError, ValueError):
                raise ValueError(f"entries[{place}] is no entry of a checkpoint: {render_value(entry)[:80]}") from None

    def _add(self, entry: Entry) -> None:
        """Add an entry. Raises KeyError, TypeError, AttributeError or ValueError for what is none."""
        kind = entry["kind"]
        _check(entry)
        match kind:
            case "run" if not self.run_id:
                self._talk = [Message.from_dict(one) for one in entry["messages"]]
                self.run_id = entry["id"]
            case "reply" | "failure":
                (reply_of if kind == "reply" else failure_of)(entry[kind])
                self.received.append(entry)
            case "result":
                Observation(**entry["result"], call_id="")
                self.calls[entry["call"]].take(entry)
                self.received.append(entry)
            case "begun" | "pending":
                made = RecordedCall(ToolCall(entry["tool"], entry["arguments"], entry["call"]))
                self.calls.setdefault(entry["call"], made).take(entry)
            case "decision":
                for call in self.calls.values():
                    if call.asked and call.asked[-1]["id"] == entry["id"]:
                        call.decisions.append(entry)
            case "resumed":
                self.received = self.without_last_failures()
        self.entries.append(entry)

    def without_last_failures(self) -> list[Entry]:
        """Return what was received without the failures that no reply of their scope has followed: the run has ended of them."""
        kept: list[Entry] = []
        overcome: set[str] = set()
        for entry in reversed(self.received):
            overcome |= {entry["scope"]} if entry["kind"] == "reply" else set()
            if entry["kind"] != "failure" or entry["scope"] in overcome:
                kept.append(entry)
        return kept[::-1]

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the checkpoint for a run or a decision. Raises RunUnderWay if it is held: two runs would make the same calls."""
        if self._is_held:
            raise RunUnderWay("the run of this checkpoint is under way: give each run a checkpoint of its own")
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False

    async def keep(self, entry: Entry) -> None:
        """Store an entry and add it. What `on_entry` raises leaves the run, and the entry does not count."""
        self._keep_now(entry)

    def _keep_now(self, entry: Entry) -> None:
        line = json.dumps(entry)
        self._store(line)
        self._add(json.loads(line))

    def _store(self, line: str) -> None:
        if self.on_entry is not None and inspect.isawaitable(self.on_entry(json.loads(line))):
            raise TypeError("on_entry must be a plain function, which has stored the entry when it returns")

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far, for a new run that goes on from it: `Query("Go on.", history=checkpoint.messages)`.

        It has the query and each call with its result, as `outcome.messages` has them, but no answer. Of a call that was cut off
        it says so, or has the result that a person gave.
        """
        messages = list(self._talk)
        for one in self.calls.values():
            seen, decision = one.seen, one.decision or {}
            if seen is None and "result" in decision:
                seen = Observation(one.call.name, "success", render_value(decision["result"]), None, None, one.call.call_id)
            elif seen is None and decision and not decision["approved"]:
                seen = Observation(one.call.name, "error", refusal(decision["reason"], one.begun), REJECTED, None, one.call.call_id)
            elif seen is None and one.begun:
                seen = Observation(one.call.name, "error", NO_RESULT, "NoResult", None, one.call.call_id)
            if seen is not None:
                messages += call_messages(one.call, seen)
        return tuple(messages)

    @property
    def spent(self) -> Expenses:
        """What the run has spent, over all of its parts.

        A reply without usage, and in a run with a budget a request that was cut off, counts as estimated; a request that failed is
        a call without tokens.
        """
        calls, tokens, dollars, unpriced = 0, 0, 0.0, 0
        under_way: dict[str, int] = {}  # scope → input tokens of its request
        for entry in self.entries:
            if entry["kind"] == "asked":
                calls += 1
                tokens += under_way.get(entry["scope"], 0)  # the one before it was cut off: a scope has one at a time
                under_way[entry["scope"]] = entry["input_tokens"]
            elif entry["kind"] in ("reply", "failure"):
                calls += entry["scope"] not in under_way
                input_tokens = under_way.pop(entry["scope"], 0)
                if entry["kind"] == "reply":
                    reply = reply_of(entry["reply"])
                    usage = reply.usage or estimate_usage(input_tokens, reply)
                    tokens += usage.total_tokens
                    dollars += usage.cost_usd or 0.0
                    unpriced += usage.cost_usd is None
        return Expenses(calls, tokens + sum(under_way.values()), dollars, unpriced)

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """The calls that wait for a person: those at which the run stopped, and those that it was making when its process died."""
        return tuple(self.pending_call(one) for one in self.calls.values() if one.waits)

    def pending_call(self, one: RecordedCall) -> PendingCall:
        """Return a call that waits or has waited, as a person is shown it."""
        entry = self.pending_entry(one, CUT_OFF, one.edited) if one.is_cut_off else one.asked[-1]
        key = idempotency_key(self.run_id, one.call.call_id)
        return PendingCall(entry["id"], one.call, entry.get("edited", one.call.arguments), entry["problem"], key)

    def pending_entry(self, one: RecordedCall, problem: str, edited: Mapping[str, Any] | None) -> Entry:
        """Return the entry by which a call waits from now on."""
        asking = sha256(f"{self.run_id} {one.call.call_id} {len(one.asked)}")[:12]
        return {"kind": "pending", "id": f"{id_name(one.call.name)}-{asking}", "problem": problem, **stated(one.call, edited)}

    def approve(self, pending: PendingCall | str, *, arguments: Mapping[str, Any] | None = None, by: str = "") -> None:
        """Let a call run, as it was shown, once the run goes on. `pending`: the call or its id. `by`: who decides.

        `arguments`: the call runs with this JSON object in the place of the model's, which the model is told with the result. If
        the tool does not take it, the call waits again. Raises ValueError for a call that does not wait or no longer does, and for
        arguments that are no JSON object, RunUnderWay while the run is under way. A decision that was not stored does not count.
        """
        self._decide(pending, by, approved=True, **({} if arguments is None else {"arguments": arguments}))

    def reject(self, pending: PendingCall | str, reason: str = "", *, by: str = "") -> None:
        """Refuse a call: the model reads the reason as the call's error. Raises as `approve` does."""
        self._decide(pending, by, approved=False, reason=reason)

    def answer(self, pending: PendingCall | str, result: Any, *, by: str = "") -> None:
        """Give the result of a call, a JSON value, so that the tool is not called: of one that has acted already, or that a person
        carries out. Raises as `approve` does."""
        self._decide(pending, by, approved=True, result=result)

    def _decide(self, pending: PendingCall | str, by: str, **decided: Any) -> None:
        pending_id = pending.id if isinstance(pending, PendingCall) else pending
        entry = {"kind": "decision", "id": pending_id, "reason": "", "by": by, **decided}
        try:
            _check(json.loads(json.dumps(entry, allow_nan=False)))
        except (TypeError, ValueError, RecursionError):
            raise ValueError(f"arguments must be a JSON object, result JSON, reason and by texts, not {decided}, {by!r}") from None
        with self.held():
            waiting = {self.pending_call(one).id: one for one in self.calls.values() if one.waits}
            if (call := waiting.get(pending_id)) is None:
                raise ValueError(f"no call {pending_id!r} waits for a decision; waiting: {', '.join(waiting) or 'none'}")
            if call.is_cut_off:
                self._keep_now(self.pending_entry(call, CUT_OFF, call.edited))
            self._keep_now(entry)


def _check(entry: Entry) -> None:
    """Raise KeyError or TypeError for what lacks a field of its kind, or has another type there."""
    fields = dict(_FIELDS[entry["kind"]]) | {name: dict for name in ("arguments", "edited") if name in entry}
    if not all(isinstance(entry[name], of_type) for name, of_type in fields.items()):
        raise TypeError(entry["kind"])


def refusal(reason: str, begun: int) -> str:
    """Return what the model reads of a call that a person has refused."""
    return (f"{REFUSED}: {reason}" if reason else f"{REFUSED}.") + (f" {BEGUN}" if begun else "")


def stated(call: ToolCall, edited: Mapping[str, Any] | None) -> Entry:
    """Return what entries about a call say of it."""
    arguments = {name: json_value(value) for name, value in dict(call.arguments).items()}
    entry = {"call": str(call.call_id), "tool": call.name, "arguments": arguments}
    return entry if edited is None else entry | {"edited": dict(edited)}


def json_value(value: Any) -> Any:
    """Return a value that JSON gives back as it is; any other becomes the text that a model reads of it."""
    with contextlib.suppress(Exception):  # not JSON, or whatever a class of a tool's own raises
        if json.loads(canonical_json(value)) == value:
            return value
    return render_value(value)


def reply_of(entry: Entry) -> Reply:
    """Return the reply of which `asdict` made the entry."""
    calls = tuple(NativeCall(**call) for call in entry["calls"])
    usage = None if entry["usage"] is None else Usage(**entry["usage"])
    return Reply(**_tuples(entry) | {"calls": calls, "usage": usage, "native": entry["native"]})


def failure_of(entry: Entry) -> ModelError:
    return FAILURES[entry["type"]](entry["message"], **_tuples(entry["fields"]))


def _tuples(fields: Entry) -> Entry:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
