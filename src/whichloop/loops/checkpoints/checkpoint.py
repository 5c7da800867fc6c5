"""What a run has done so far, as JSON: replies of the model, results of tools, and what a person decided about calls.

A design computes everything else from these, so that a run is taken up again by carrying it out from its start and giving it what
is recorded here in the place of the model and the tools ("durable execution" by replay). `Resumable` does that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from whichloop.loops.shared.received_arguments import made_anew, received_values, same_json
from whichloop.protocol import Request, StopRun, Toolbox, ToolCall, render_value
from whichloop.protocol.digest import digest
from whichloop.protocol.outcome import Expenses
from whichloop.protocol.redact import logger_of, redact
from whichloop.protocol.tokens import estimate_input, estimate_usage
from whichloop.protocol.tool_calls import idempotency_key
from whichloop.protocol.values import cap, error_text, legible

from .checkpoint_entries import (
    ApprovalRule,
    Entry,
    NeedsApproval,
    check_entry,
    equal_calls,
    holding,
    json_value,
    refusals_of,
    reply_of,
    rules_of,
    store,
    store_of,
    version_of,
)


def asked_entry(request: Request) -> Entry:
    """Return the entry of a request that is about to be made: a process that dies has paid for a reply that nobody kept."""
    return {
        "kind": "asked",
        "scope": request.scope,
        "request": digest(request.as_dict()),
        "input_tokens": estimate_input(request),
    }


def spent_by(entries: Iterable[Entry]) -> Expenses:
    """Return what the requests of a run took.

    A reply without usage is estimated. A request that was cut off has no reply: it counts as a call with its estimated input. One
    that failed is a call without tokens.
    """
    calls, tokens, dollars, unpriced = 0, 0, 0.0, 0
    tokens_by_scope: dict[str, int] = {}
    for entry in entries:
        if entry["kind"] == "asked":
            calls += 1
            # A request before this one that was cut off is counted here: each scope has at most one in flight.
            tokens += tokens_by_scope.get(entry["scope"], 0)
            tokens_by_scope[entry["scope"]] = entry["input_tokens"]
        elif entry["kind"] in ("reply", "failure"):
            calls += entry["scope"] not in tokens_by_scope  # of a part of the run that had no budget
            input_tokens = tokens_by_scope.pop(entry["scope"], 0)
            if entry["kind"] == "reply":
                reply = reply_of(entry["reply"])
                usage = reply.usage or estimate_usage(input_tokens, reply)
                tokens += usage.total_tokens
                dollars += usage.cost_usd or 0.0
                unpriced += usage.cost_usd is None
    return Expenses(calls, tokens + sum(tokens_by_scope.values()), dollars, unpriced)


logger = logger_of(__name__)


class ResumeError(StopRun):
    """The run goes another way than the recorded one: the loop, its prompts, the tools or the query are others than they were."""


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call that waits for a person."""

    id: str
    """What `Checkpoint.approve` and `Checkpoint.reject` take, and the call's id in every event."""
    call: ToolCall
    """As the model wrote it."""
    arguments: Mapping[str, Any]
    """As the tool will get them: converted to its types, and with its defaults, as JSON."""
    problem: str = ""
    """Why it waits again, what has become of an equal call, and which arguments their JSON form does not say whole; else empty."""
    idempotency_key: str = field(default="", compare=False)
    """What the tool is told as `current_call().idempotency_key`: to look up by it whether a call that has begun has acted."""
    version: str = field(default="", compare=False)
    """A short text for what is shown here, another one each time that the call waits: a web page sends it back with a decision."""


class ApprovalRequired(StopRun):
    """The run has stopped at calls that a person has to approve; it can be resumed once that is decided.

    `Resumable` raises this. A tool that raises it itself ends the run, and nothing waits: name the tool in `needs_approval`.
    """

    def __init__(self, checkpoint: Checkpoint, problem: str = "") -> None:
        """`problem`: why a call waits again that a person had approved."""
        super().__init__(checkpoint, problem)
        self._checkpoint = checkpoint
        self.problem = problem

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """The calls that still wait: those of `Checkpoint.pending`."""
        return self._checkpoint.pending if self._has_checkpoint else ()

    @property
    def _has_checkpoint(self) -> bool:
        checkpoint: Any = self._checkpoint  # a tool may have given anything
        return isinstance(checkpoint, Checkpoint)

    def __str__(self) -> str:
        if not self._has_checkpoint:
            return "a tool raised ApprovalRequired, which only Resumable does: name the tool in Checkpoint(needs_approval=[…])"
        waiting = f"waiting for a person to approve or reject: {', '.join(one.call.name for one in self.pending)}"
        return f"{waiting} ({self.problem})" if self.problem else waiting


class Checkpoint:
    """What a run has done so far. It belongs to one run, which may be taken up as often as it stops.

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
        """`needs_approval`: names of tools whose calls wait for a person; give them whenever the run is taken up.

        A call that is recorded as waiting waits for its decision even if they are left out then.

        A mapping has a rule for each name: `{"refund": lambda arguments: arguments["amount"] > 100}`. A call whose arguments a rule
        cannot read waits, too. `refusals`: exceptions by which these tools say that they have not acted; whatever else one of them
        raises may have come after it has acted, so that the call waits. `on_entry`: a plain function that has stored the entry when
        it returns. Raises ValueError for what is no entry of a checkpoint, and TypeError for what is no list of names or of
        exceptions, for rules that are no plain functions of one argument, and for an `on_entry` that is async.
        """
        self.entries: list[Entry]
        self.needs_approval = rules_of(needs_approval)
        self.refusals = refusals_of(refusals)
        self.on_entry = store_of(on_entry)
        self.is_running = False
        self.take(entries)

    def take(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Have these entries in the place of any others. Raises ValueError for what is no entry."""
        taken: list[Entry] = []
        for place, entry in enumerate(entries):
            check_entry(entry, place)
            taken.append(dict(entry))
        self.entries = taken

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Hold the checkpoint for a run in the block. Raises RuntimeError if one is under way: two would make the same calls."""
        if self.is_running:
            raise RuntimeError("the run of this checkpoint is under way: give each run a checkpoint of its own")
        self.is_running = True
        try:
            yield
        finally:
            self.is_running = False

    @property
    def run_id(self) -> str:
        """The id of the run, of which the idempotency keys of its calls are made; empty before it calls a tool."""
        return next((str(entry["id"]) for entry in self.entries if entry["kind"] == "run"), "")

    @property
    def spent(self) -> Expenses:
        """What the run has spent, over all of its parts: calls, tokens and dollars.

        A reply without usage, and in a run with a budget a request that was cut off, counts as estimated.
        """
        return spent_by(self.entries)

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """The calls that wait for a person, also those at which the run stopped in another process."""
        waiting: dict[str, PendingCall] = {}
        for entry in holding(self.entries):
            if entry["kind"] == "pending":
                waiting[entry["call"]] = pending_of(entry, self.run_id, self.times_asked(entry["call"]))
            elif entry["kind"] == "decision":
                waiting.pop(entry["call"], None)
        return tuple(waiting.values())

    def times_asked(self, call_id: str) -> int:
        """Return how often a person has been asked about a call."""
        return sum(entry["kind"] == "pending" and entry["call"] == call_id for entry in self.entries)

    def approve(
        self,
        pending: PendingCall | str,
        *,
        arguments: Mapping[str, Any] | None = None,
        by: str = "",
        version: str | None = None,
    ) -> None:
        """Let a call run once the run is resumed, as it was shown. `pending`: the call or its id.

        `by`: who decides, for events and the entry. `version`: of the PendingCall that was shown, where only an id comes back, from
        a web page, say; an id alone serves for a call that was asked about once.

        `arguments`: the call runs with these in the place of the model's, which the model is told with the result. Write all of
        them as the model would. If the tool does not take them, or gets others than you have written or were shown, by a default
        that you left out, say, the call waits again once the run is resumed, with the arguments that it would get: approve that.
        Raises ValueError for a call that does not wait, which says what has become of it, for one that is of another run or waits
        with anything else than was shown, and for arguments that are no JSON object, TypeError for a name that is no text. A
        decision that `on_entry` could not store does not count.
        """
        if arguments is None:
            self._decide(pending, {"approved": True}, by, version)
            return
        arguments_approved = dict(arguments) if isinstance(arguments, Mapping) else None
        if arguments_approved is None or json_value(arguments_approved) != arguments_approved:
            raise ValueError(f"approve: arguments must be a JSON object, such as {{'amount': 50}}, not {arguments!r}")
        self._decide(pending, {"approved": True, "arguments": arguments_approved}, by, version)

    def reject(self, pending: PendingCall | str, reason: str = "", *, by: str = "", version: str | None = None) -> None:
        """Refuse a call: the model reads the reason as the call's error. `by`, `version`: as of `approve`.

        Raises ValueError for a call that does not wait, or not as it was shown, TypeError for a reason or a name that is no text.
        """
        self._decide(pending, {"approved": False, "reason": reason}, by, version)

    def answer(self, pending: PendingCall | str, result: Any, *, by: str = "", version: str | None = None) -> None:
        """Give the result of a call, so that the tool is not called: of one that has acted already, or that a person carries out.

        The model reads it as the call's result. Raises ValueError for a call that does not wait, or not as it was shown, and for a
        result that is no JSON, TypeError for a name that is no text.
        """
        if json_value(result) != result:
            raise ValueError(f"answer: the result must be a JSON value, not {type(result).__name__}")
        self._decide(pending, {"approved": True, "result": result}, by, version)

    def reason_to_wait(self, call: ToolCall, tools: Toolbox, keys: Collection[str]) -> str | None:
        """Return why a call needs a person's decision, empty if nothing more is to be said of it; None if it needs none.

        `keys`: its `equality_keys`. A call that was asked for once needs it, whatever `needs_approval` says now. So does one that
        had begun when the run ended, and one whose equal before it may have acted. A rule judges a copy of what the tool's function
        gets, and not what the model wrote: a Decimal, an instance of the tool's own class, a default that was left out. What a rule
        cannot judge is shown to a person, who is told why: it raises, or returns anything but True and False, as a function that
        has forgotten a case does; or the tool's types make another value each time, so that the function would get another one.
        """
        if any(entry["kind"] in ("pending", "begun") and entry["call"] == call.call_id for entry in self.entries):
            return ""
        if self.unsure_before(call, keys) is not None:
            return ""
        if call.name not in self.needs_approval:
            return None
        rule = self.needs_approval[call.name]
        return "" if rule is None else _judged(call, tools, rule)

    @property
    def guarded(self) -> frozenset[str]:
        """The tools of `needs_approval`, and those of which a call is recorded as waiting, whatever `needs_approval` says now."""
        return frozenset(self.needs_approval) | {entry["tool"] for entry in self.entries if entry["kind"] == "pending"}

    def unsure_before(self, call: ToolCall, keys: Collection[str]) -> str | None:
        """Return the id of an equal call that may have acted, for nobody has given its result; None if there is none."""
        earlier_calls = equal_calls(self.entries, str(call.call_id), keys)
        return next((one.call_id for one in reversed(earlier_calls) if one.is_unsure), None)

    def _decide(self, pending: PendingCall | str, decided: Entry, by: str, version: str | None) -> None:
        for name, value in (("reason", decided.get("reason", "")), ("by", by), ("version", version or "")):
            if not isinstance(value, str):
                raise TypeError(f"{name}: give a text, not {type(value).__name__}")
        call_id = pending.id if isinstance(pending, PendingCall) else pending
        with self._deciding():
            now = self._waiting(call_id)
            self._check_shown(pending, version, now)
            signature = {"by": by} if by else {}
            self.add({"kind": "decision", "call": call_id, "reason": "", "version": now.version, **signature, **decided})

    def _deciding(self) -> contextlib.AbstractContextManager[None]:
        """Return what a decision is made within: a checkpoint that others write, too, takes what they have written first."""
        return contextlib.nullcontext()

    def _waiting(self, call_id: Any) -> PendingCall:
        """Return what waits. Raises ValueError for a call that does not wait for a decision, which says what has become of it."""
        waiting = self.pending
        match = next((one for one in waiting if one.id == call_id), None)
        if match is not None:
            return match
        last = next((entry for entry in reversed(self.entries) if entry.get("call") == call_id), None)
        fate = f"; it {_fate(last)}" if last is not None else ""
        ids = ", ".join(one.id for one in waiting) or "none"
        raise ValueError(f"no call {call_id!r} waits for a decision{fate}; waiting: {ids}")

    def _check_shown(self, pending: PendingCall | str, version: str | None, now: PendingCall) -> None:
        """Raise ValueError where a person was shown anything else than what waits now, or where nobody knows what."""
        if isinstance(pending, PendingCall):
            if pending.idempotency_key and pending.idempotency_key != now.idempotency_key:
                raise ValueError(f"call {now.id!r} is that of another run: its idempotency_key is not the one of this checkpoint's")
            keys = (pending.call.name, pending.problem, pending.idempotency_key, pending.version)
            is_shown = keys == (now.call.name, now.problem, now.idempotency_key, now.version)
            is_shown = is_shown and same_json(dict(pending.arguments), dict(now.arguments))
        else:
            is_shown = version is not None or self.times_asked(now.id) == 1
        if is_shown and version in (None, now.version):
            return
        waiting = cap(render_value(dict(now.arguments)), 300) + (f", {now.problem}" if now.problem else "")
        if isinstance(pending, PendingCall) or version is not None:
            raise ValueError(f"call {now.id!r} is not what was shown: it waits with {waiting}; look at it anew")
        raise ValueError(
            f"call {now.id!r} waits again, with {waiting}; look at it anew, and give the PendingCall or its version, for an id "
            "alone does not say what was shown"
        )

    def add(self, entry: Entry) -> None:
        """Add an entry, and tell `on_entry`. What that raises leaves the run; the entry is not stored, and does not count here."""
        self.entries.append(entry)
        if self.on_entry is None:
            return
        try:
            store(self.on_entry, entry)
        except BaseException:
            self._forget(entry)
            raise

    async def keep(self, entry: Entry) -> None:
        """Add an entry of the run that is under way, and return once it is stored. Raises as `add` does.

        A cancellation is raised once the entry is stored.
        """
        self.add(entry)

    async def all_stored(self) -> None:
        """Return once all entries of the run are stored. Raises as `keep` does."""

    def _forget(self, entry: Entry) -> None:
        """Take back an entry that is not stored."""
        self.entries = [one for one in self.entries if one is not entry]


def _fate(entry: Entry) -> str:
    """Return in words what the last entry of a call says of it."""
    if entry["kind"] == "result":
        return "has its result already"
    if entry["kind"] == "begun":
        return "has begun: run the loop again, and it waits if it was cut off"
    decided = "was given a result" if "result" in entry else "was approved" if entry["approved"] else "was rejected"
    return f"{decided} by {entry.get('by') or 'a person'} already"


def received_of(entry: Entry) -> Any:
    """Return the arguments that an entry has shown a person."""
    return entry["received"] if "received" in entry else entry["arguments"]


def pending_of(entry: Entry, run_id: str, times_asked: int) -> PendingCall:
    """Return what waits by an entry of a run. `times_asked`: how often a person has been asked about the call."""
    call = ToolCall(entry["tool"], entry["arguments"], entry["call"])
    key = idempotency_key(run_id, entry["call"]) if run_id else ""
    version = entry.get("version") or version_of(entry, run_id, times_asked)
    return PendingCall(entry["call"], call, received_of(entry), entry.get("problem", ""), key, version)


def _judged(call: ToolCall, tools: Toolbox, rule: ApprovalRule) -> str | None:
    """Return why a call waits by its rule, None if it does not."""
    try:
        received = received_values(call, tools)
        if made_anew(call, tools):
            return ""
        verdict: Any = rule(deepcopy(received))
    except Exception as error:  # a model may leave out what the rule looks at
        why = f"the rule of {call.name} raised {type(error).__name__}: {cap(redact(error_text(error)), 300)}"
    else:
        if isinstance(verdict, bool):
            return "" if verdict else None
        why = f"the rule of {call.name} returned {cap(redact(legible(repr(verdict))), 300)}, which is neither True nor False"
    logger.warning("needs_approval: %s", why)
    return f"{why}, so that it judges nothing"
