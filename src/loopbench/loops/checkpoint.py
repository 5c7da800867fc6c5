"""What a run has done so far, as JSON: replies of the model, results of tools, and what a person decided about calls.

A design computes everything else from these, so that a run is taken up again by carrying it out from its start and giving it what
is recorded here in the place of the model and the tools ("durable execution" by replay). `Resumable` does that.
"""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from typing import Any

from loopbench.protocol import ModelError, Observation, Reply, Request, StopRun, Toolbox, ToolCall
from loopbench.protocol.digest import digest
from loopbench.protocol.values import error_text

from .approval_rules import ApprovalRule, refusals_of, rules_of
from .checkpoint_entries import (
    Entry,
    check_entry,
    failure_entry,
    failure_of,
    json_value,
    json_values,
    made_of,
    reply_entry,
    reply_of,
    same_json,
    unsure_like,
)
from .entry_store import store, store_of
from .run_failure import RunFailure
from .toolbox_around import received_values, shown_arguments, unlike_shown

logger = logging.getLogger(__name__)


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
        given: Any = self._checkpoint  # a tool may have given anything
        return isinstance(given, Checkpoint)

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
        needs_approval: Collection[str] | Mapping[str, ApprovalRule] = (),
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
        """Around a run of this checkpoint. Raises RuntimeError if one is under way: two would make the same calls."""
        if self.is_running:
            raise RuntimeError("the run of this checkpoint is under way: give each run a checkpoint of its own")
        self.is_running = True
        try:
            yield
        finally:
            self.is_running = False

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """The calls that wait for a person, also those at which the run stopped in another process."""
        found: dict[str, PendingCall] = {}
        for entry in self.entries:
            if entry["kind"] == "pending":
                found[entry["call"]] = _pending(entry)
            elif entry["kind"] == "decision":
                found.pop(entry["call"], None)
        return tuple(found.values())

    def approve(self, pending: PendingCall | str, *, arguments: Mapping[str, Any] | None = None, by: str = "") -> None:
        """Let a call run once the run is resumed. `pending`: the call or its id. `by`: who decides, for events and the entry.

        `arguments`: the call runs with these in the place of the model's, which the model is told with the result. Write all of
        them as the model would. If the tool does not take them, or gets others than you have written or were shown, by a default
        that you left out, say, the call waits again once the run is resumed, with the arguments that it would get: approve that.
        Raises ValueError for a call that does not wait, which says what has become of it, and for arguments that are no JSON
        object, TypeError for a name that is no text. A decision that `on_entry` could not store does not count.
        """
        if arguments is None:
            self._decide(pending, True, by=by)
            return
        given = dict(arguments) if isinstance(arguments, Mapping) else None
        if given is None or json_value(given) != given:
            raise ValueError(f"approve: arguments must be a JSON object, such as {{'amount': 50}}, not {arguments!r}")
        self._decide(pending, True, by=by, arguments=given)

    def reject(self, pending: PendingCall | str, reason: str = "", *, by: str = "") -> None:
        """Refuse a call: the model reads the reason as the call's error. `by`: as of `approve`.

        Raises ValueError for a call that does not wait, and TypeError for a reason or a name that is no text.
        """
        self._decide(pending, False, reason, by=by)

    def answer(self, pending: PendingCall | str, result: Any, *, by: str = "") -> None:
        """Give the result of a call, so that the tool is not called: of one that has acted already, or that a person carries out.

        The model reads it as the call's result. Raises ValueError for a call that does not wait and for a result that is no JSON,
        TypeError for a name that is no text.
        """
        if json_value(result) != result:
            raise ValueError(f"answer: the result must be a JSON value, not {type(result).__name__}")
        self._decide(pending, True, by=by, result=result)

    def must_wait(self, call: ToolCall, tools: Toolbox) -> bool:
        """Whether a call needs a person's decision; one that was asked for once counts, whatever `needs_approval` says now.

        So does one that had begun when the run ended, and one whose equal before it may have acted. A rule judges a copy of what
        the tool's function gets, and not what the model wrote: a Decimal, an instance of the tool's own class, a default that was
        left out. What a rule cannot judge is shown to a person: it raises, or returns anything but True and False, as a function
        that has forgotten a case does; or the tool's types make another value each time, so that the function would get another
        than the rule.
        """
        if any(entry["kind"] in ("pending", "begun") and entry["call"] == call.call_id for entry in self.entries):
            return True
        if self.unsure_before(call) is not None:
            return True
        if call.name not in self.needs_approval:
            return False
        rule = self.needs_approval[call.name]
        if rule is None:
            return True
        try:
            received = received_values(call, tools)
            if not same_json(shown_arguments(call, tools), shown_arguments(call, tools)):
                return True
            said: Any = rule(deepcopy(received))
        except Exception as error:  # a model may leave out what the rule looks at
            logger.warning("needs_approval: the rule of %s raised %s: %s", call.name, type(error).__name__, error_text(error))
            return True
        if not isinstance(said, bool):
            logger.warning("needs_approval: the rule of %s returned %r, which is neither True nor False", call.name, said)
        return said is not False

    @property
    def guarded(self) -> frozenset[str]:
        """The tools of `needs_approval`, and those of which a call is recorded as waiting, whatever `needs_approval` says now."""
        return frozenset(self.needs_approval) | {entry["tool"] for entry in self.entries if entry["kind"] == "pending"}

    def unsure_before(self, call: ToolCall) -> str | None:
        """Return the id of an equal call that may have acted, for nobody has given its result; None if there is none."""
        return unsure_like(self.entries, call.call_id)

    def _decide(self, pending: PendingCall | str, approved: bool, reason: str = "", *, by: str, **edited: Entry) -> None:
        for name, given in (("reason", reason), ("by", by)):
            if not isinstance(given, str):
                raise TypeError(f"{name}: give a text, not {type(given).__name__}")
        call_id = pending.id if isinstance(pending, PendingCall) else pending
        said = {"by": by} if by else {}
        entry = {"kind": "decision", "call": call_id, "approved": approved, "reason": reason, **said, **edited}
        with self._deciding():
            self._check_waiting(call_id)
            self.add(entry)

    def _deciding(self) -> contextlib.AbstractContextManager[None]:
        """Return what a decision is made within: a checkpoint that others write, too, takes what they have written first."""
        return contextlib.nullcontext()

    def _check_waiting(self, call_id: Any) -> None:
        """Raise ValueError for a call that does not wait for a decision, which says what has become of it."""
        waiting = [one.id for one in self.pending]
        if call_id in waiting:
            return
        last = next((entry for entry in reversed(self.entries) if entry.get("call") == call_id), None)
        told = f"; it {_fate(last)}" if last is not None else ""
        raise ValueError(f"no call {call_id!r} waits for a decision{told}; waiting: {', '.join(waiting) or 'none'}")

    def add(self, entry: Entry) -> None:
        """Add an entry, and tell `on_entry`. What that raises leaves the run; the entry is not stored, and does not count here."""
        self.entries.append(entry)
        if self.on_entry is None:
            return
        try:
            store(self.on_entry, entry)
        except BaseException:
            self.entries = [one for one in self.entries if one is not entry]
            raise


def _fate(entry: Entry) -> str:
    """Return in words what the last entry of a call says of it."""
    if entry["kind"] == "result":
        return "has its result already"
    if entry["kind"] == "begun":
        return "has begun: run the loop again, and it waits if it was cut off"
    decided = "was given a result" if "result" in entry else "was approved" if entry["approved"] else "was rejected"
    return f"{decided} by {entry.get('by') or 'a person'} already"


class Replay:
    """A checkpoint while its run is carried out: gives what is recorded, in order, and records what is new."""

    def __init__(self, checkpoint: Checkpoint, failure: RunFailure) -> None:
        """`failure`: of the run, which ends where an entry cannot be stored. Raises what `on_entry` does."""
        self._checkpoint = checkpoint
        self._failure = failure
        made = made_of(checkpoint.entries)
        if made and made[-1]["kind"] == "failure":  # the run ended of it: the model is asked again
            checkpoint.add({"kind": "resumed"})
            made = made_of(checkpoint.entries)
        self._replies: dict[str, deque[Entry]] = {}
        self._results: dict[str, Entry] = {}
        for entry in made:
            if entry["kind"] == "result":
                self._results[entry["call"]] = entry
            else:
                self._replies.setdefault(entry["scope"], deque()).append(entry)
        self._left = len(self._results) + sum(map(len, self._replies.values()))

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
            told = (
                f"a request of role {request.role.value} is not the one that was recorded: the loop, its prompts, the tools or the "
                "query have changed since; begin a new run, with what was said as its history"
            )
            raise self._failure.stopped_by(ResumeError(told))
        entry = recorded.popleft()
        self._left -= 1
        if entry["kind"] == "failure":
            raise failure_of(entry["failure"])
        return reply_of(entry["reply"])

    def keep_reply(self, request: Request, reply: Reply) -> None:
        self._keep_of(request, "reply", reply_entry(reply))

    def keep_failure(self, request: Request, error: ModelError) -> None:
        self._keep_of(request, "failure", failure_entry(error))

    def _keep_of(self, request: Request, kind: str, what: Entry) -> None:
        self._add({"kind": kind, "scope": request.scope, "request": digest(request.as_dict()), kind: what})

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

    def keep_result(self, call: ToolCall, seen: Observation) -> None:
        made = asdict(replace(seen, value=None, raised=None))
        del made["call_id"], made["raised"]
        self._add({"kind": "result", "call": str(call.call_id), "result": made | {"value": json_value(seen.value)}})

    def begin(self, call: ToolCall) -> None:
        """Note that a call that a person has to know of is about to be made: if no result follows, it may have been made."""
        self._add({"kind": "begun", "call": str(call.call_id)})

    def was_cut_off(self, call: ToolCall) -> bool:
        """Whether the run ended while a call was made, and nobody has decided since what is to become of it."""
        return self._decisions(call.call_id)[0]

    def has_begun(self, call: ToolCall) -> bool:
        """Whether a call was begun at any time, so that it may have acted."""
        return any(entry["kind"] == "begun" and entry["call"] == call.call_id for entry in self._checkpoint.entries)

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
        """Return a person's arguments, with which a call that was cut off had begun; None for the model's."""
        found: Mapping[str, Any] | None = None
        is_asked = False
        for entry in self._checkpoint.entries:
            if entry.get("call") == call.call_id and entry["kind"] == "pending":
                found, is_asked = entry.get("edited"), True
            elif entry.get("call") == call.call_id and entry["kind"] == "decision" and is_asked:
                found, is_asked = entry.get("arguments", found), False  # of two, the first one holds
        return found

    def _held(self, call_id: str) -> Entry | None:
        return min(self._decisions(call_id)[1], key=lambda entry: bool(entry["approved"]), default=None)

    def _decisions(self, call_id: str) -> tuple[bool, list[Entry]]:
        """Return whether a call was cut off, and the decisions about it that hold: those since it last began to wait."""
        is_cut_off = is_asked = False
        since: list[Entry] = []
        for entry in self._checkpoint.entries:
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

    def wait_for_person(
        self, call: ToolCall, tools: Toolbox, problem: str = "", edited: Mapping[str, Any] | None = None
    ) -> PendingCall:
        """Note that a call waits for a person, and return what waits.

        `problem`: why it waits again. `edited`: a person's arguments, which the call is to be made with once they are approved.
        """
        for one in self._checkpoint.pending:
            if one.id == call.call_id:
                return one
        made = call if edited is None else replace(call, arguments=edited)
        written = json_values(call.arguments)
        received = shown_arguments(made, tools)
        problem = "; ".join(filter(None, (problem, unlike_shown(made, tools))))
        entry: Entry = {"kind": "pending", "call": str(call.call_id), "tool": call.name, "arguments": written}
        entry |= {} if same_json(received, written) else {"received": received}
        entry |= {} if edited is None else {"edited": dict(edited)}
        entry |= {"problem": problem} if problem else {}
        self._add(entry)
        return _pending(entry)

    def _add(self, entry: Entry) -> None:
        """Raises RunFailed for what `on_entry` raises."""
        with self._failure.noticed():
            self._checkpoint.add(entry)


def received_of(entry: Entry) -> Any:
    """Return the arguments that an entry has shown a person."""
    return entry["received"] if "received" in entry else entry["arguments"]


def _pending(entry: Entry) -> PendingCall:
    call = ToolCall(entry["tool"], entry["arguments"], entry["call"])
    return PendingCall(entry["call"], call, received_of(entry), entry.get("problem", ""))
