"""What a run has done so far, as JSON: replies of the model, results of calls, and what a person decided about calls.

A design computes everything else from these. So a run goes on by being carried out from its start: the n-th request gets the n-th
recorded reply, and each call its recorded result. `Resumable` does that.
"""

from __future__ import annotations

import contextlib
import fcntl
import inspect
import json
import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whichloop.loops.shared.conversation import call_messages
from whichloop.protocol import (
    ContextOverflow,
    Message,
    ModelError,
    NativeCall,
    Observation,
    ProviderError,
    Reply,
    StopRun,
    ToolCall,
    Usage,
    render_value,
)
from whichloop.protocol.cancellation import to_its_end
from whichloop.protocol.digest import canonical_json
from whichloop.protocol.files import check_regular, open_regular
from whichloop.protocol.outcome import Expenses
from whichloop.protocol.threads import begin_in_thread, caller_waits
from whichloop.protocol.tokens import estimate_usage
from whichloop.protocol.tool_calls import idempotency_key
from whichloop.protocol.values import error_text

Entry = dict[str, Any]
"""One line of a checkpoint, as JSON."""
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
back the failures right before it, of which the run had ended. `begun` and `pending` may have `edited`, arguments that a person gave
in the place of the model's, and a decision `arguments` or a `result`.
"""
_FAILURES: Mapping[str, type[ModelError]] = {one.__name__: one for one in (ProviderError, ContextOverflow, ModelError)}
_OF_PROVIDER = ("kind", "status", "retry_after_s", "injected", "failed_attempts")
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


class ApprovalRequired(StopRun):
    """The run has stopped at calls that a person has to approve; it goes on once that is decided. `Resumable` raises this."""

    def __init__(self, pending: tuple[PendingCall, ...] = ()) -> None:
        super().__init__(pending)
        self.pending = pending
        """The calls that waited when the run stopped."""

    def __str__(self) -> str:
        return f"waiting for a person to approve or reject: {', '.join(one.call.name for one in self.pending)}"


@dataclass(slots=True)
class RecordedCall:
    """What a checkpoint says of one call."""

    call: ToolCall
    """As the model wrote it."""
    begun: int = 0
    """How often it has begun."""
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
                while self.received and self.received[-1]["kind"] == "failure":
                    self.received.pop()
        self.entries.append(entry)

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
        it says so.
        """
        messages = list(self._talk)
        for one in self.calls.values():
            seen = one.seen
            if seen is None and one.begun:
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
        """The calls that wait for a person, also those at which the run stopped in another process."""
        return tuple(self.pending_call(one) for one in self.calls.values() if one.asked and not one.decisions)

    def pending_call(self, one: RecordedCall) -> PendingCall:
        """Return a call that waits or has waited, as a person is shown it."""
        asked, key = one.asked[-1], idempotency_key(self.run_id, one.call.call_id)
        return PendingCall(asked["id"], one.call, asked.get("edited", one.call.arguments), asked["problem"], key)

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
            ids = [one.id for one in self.pending]
            if pending_id not in ids:
                raise ValueError(f"no call {pending_id!r} waits for a decision; waiting: {', '.join(ids) or 'none'}")
            self._keep_now(entry)


class CheckpointFile(Checkpoint):
    """A checkpoint that is a file of JSON lines, which survives the end of the process at any moment.

    Each entry is on the disk before the run goes on; a thread writes it, so that the event loop goes on meanwhile. A run or a
    decision holds the file's lock (`flock`) and begins with what others have written. A last line without its end, over which its
    writer has died, is taken out.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        needs_approval: NeedsApproval = (),
        refusals: Collection[type[Exception]] = (),
    ) -> None:
        """`path`: the file; where there is none, a run begins, and makes it. Its owner alone may read it.

        Raises as `Checkpoint` does, ValueError for a file that holds anything else, and OSError.
        """
        super().__init__(needs_approval=needs_approval, refusals=refusals)
        self.path = Path(path)
        self._file = -1
        self._writing = threading.Lock()
        if self.path.exists():
            with open_regular(self.path) as file:
                self._read(file.read())

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Raises RunUnderWay also where another process holds the file, ValueError for what is no checkpoint, and OSError."""
        with super().held():
            file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
            try:
                check_regular(file, self.path)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise RunUnderWay(f"{self.path} is in use: its run is under way elsewhere") from None
                os.ftruncate(file, self._read(os.pread(file, os.fstat(file).st_size, 0)))
                self._file = file
                yield
            finally:
                with self._writing:  # of a call that its design has not waited for
                    self._file = -1
                    os.close(file)

    async def keep(self, entry: Entry) -> None:
        """A cancellation is raised once the entry is stored: nobody may go on with the run while something is on its way."""
        if caller_waits():
            return self._keep_now(entry)
        line = json.dumps(entry)
        stored = begin_in_thread(self._store, line)
        try:
            _, error = await to_its_end(stored)
        finally:
            if stored.done() and stored.result()[1] is None:
                self._add(json.loads(line))
        if error is not None:
            raise error

    def _read(self, stored: bytes) -> int:
        """Take the entries of whole lines, and return where the last one ends. Raises ValueError."""
        *lines, torn = stored.split(b"\n")
        try:
            self.take(json.loads(line) for line in lines)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{self.path}: line {len(self.entries) + 1}: {error}") from None
        return len(stored) - len(torn)

    def _store(self, line: str) -> None:
        data = line.encode() + b"\n"
        with self._writing:
            size = os.fstat(self._file).st_size
            try:
                while data:  # a disk that is full takes a part
                    data = data[os.write(self._file, data) :]
                os.fsync(self._file)
            except BaseException:  # whoever reads the file must not find what this process says that it has not kept
                os.ftruncate(self._file, size)
                raise


def _check(entry: Entry) -> None:
    """Raise KeyError or TypeError for what lacks a field of its kind, or has another type there."""
    fields = dict(_FIELDS[entry["kind"]]) | {name: dict for name in ("arguments", "edited") if name in entry}
    if not all(isinstance(entry[name], of_type) for name, of_type in fields.items()):
        raise TypeError(entry["kind"])


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


def failure_entry(error: ModelError) -> Entry:
    kind = next(name for name, failure_class in _FAILURES.items() if isinstance(error, failure_class))
    fields = {name: getattr(error, name) for name in _OF_PROVIDER} if kind == "ProviderError" else {}
    return {"type": kind, "message": error_text(error), "fields": fields}


def failure_of(entry: Entry) -> ModelError:
    return _FAILURES[entry["type"]](entry["message"], **_tuples(entry["fields"]))


def _tuples(fields: Entry) -> Entry:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
