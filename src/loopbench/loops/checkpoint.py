"""What a run has done so far, as JSON: replies of the model, results of tools, and what a person decided about calls.

A design computes everything else from these, so that a run is taken up again by carrying it out from its start and giving it what
is recorded here in the place of the model and the tools ("durable execution" by replay). `Resumable` does that.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from loopbench.protocol import (
    ContextOverflow,
    ModelError,
    NativeCall,
    Observation,
    ProviderError,
    Reply,
    Request,
    StopRun,
    Toolbox,
    ToolCall,
    Usage,
    render_value,
)
from loopbench.protocol.digest import canonical_json, digest
from loopbench.protocol.values import error_text

from .approval_rules import ApprovalRule, rules_of
from .toolbox_around import received_arguments

logger = logging.getLogger(__name__)

Entry = dict[str, Any]
"""One line of a checkpoint, as JSON."""


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
    """Why it waits again after a decision; empty if nobody has decided about it."""


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
        on_entry: Callable[[Entry], Any] | None = None,
    ) -> None:
        """`needs_approval`: names of tools whose calls wait for a person; give them whenever the run is taken up.

        A call that is recorded as waiting waits for its decision even if they are left out then.

        A mapping has a rule for each name: `{"refund": lambda arguments: arguments["amount"] > 100}`. A call whose arguments a rule
        cannot read waits, too. Raises ValueError for what is no entry of a checkpoint, and TypeError for what is no list of names
        and for rules that are no plain functions of one argument.
        """
        self.entries: list[Entry]
        self.needs_approval = rules_of(needs_approval)
        self.on_entry = on_entry
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

        `arguments`: the call runs with these in the place of the model's, which the model is told with the result. If the tool does
        not take them, the call waits again once the run is resumed, and the ApprovalRequired says why. Raises ValueError for a call
        that does not wait, and for arguments that are no JSON object, TypeError for a name that is no text.
        """
        if arguments is None:
            self._decide(pending, True, by=by)
            return
        given = dict(arguments) if isinstance(arguments, Mapping) else None
        if given is None or _json_value(given) != given:
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
        if _json_value(result) != result:
            raise ValueError(f"answer: the result must be a JSON value, not {type(result).__name__}")
        self._decide(pending, True, by=by, result=result)

    def must_wait(self, call: ToolCall, tools: Toolbox) -> bool:
        """Whether a call needs a person's decision; one that was asked for once counts, whatever `needs_approval` says now.

        So does one that had begun when the run ended. A rule judges what the tool's function gets, and not what the model wrote:
        `"true"` for True, a default that it left out. What a rule cannot judge is shown to a person: it raises, or returns None,
        as a function that has forgotten a case does.
        """
        if any(entry["kind"] in ("pending", "begun") and entry["call"] == call.call_id for entry in self.entries):
            return True
        if call.name not in self.needs_approval:
            return False
        rule = self.needs_approval[call.name]
        if rule is None:
            return True
        try:
            said = rule(received_arguments(call, tools))
            return said is None or bool(said)
        except Exception as error:  # a model may leave out what the rule looks at
            logger.warning("needs_approval: the rule of %s raised %s: %s", call.name, type(error).__name__, error_text(error))
            return True

    def _decide(self, pending: PendingCall | str, approved: bool, reason: str = "", *, by: str, **edited: Entry) -> None:
        for name, given in (("reason", reason), ("by", by)):
            if not isinstance(given, str):
                raise TypeError(f"{name}: give a text, not {type(given).__name__}")
        call_id = pending.id if isinstance(pending, PendingCall) else pending
        waiting = [one.id for one in self.pending]
        if call_id not in waiting:
            raise ValueError(f"no call {call_id!r} waits for a decision; waiting: {', '.join(waiting) or 'none'}")
        said = {"by": by} if by else {}
        self.add({"kind": "decision", "call": call_id, "approved": approved, "reason": reason, **said, **edited})

    def add(self, entry: Entry) -> None:
        """Add an entry, and tell `on_entry`. What that raises leaves the run."""
        self.entries.append(entry)
        if self.on_entry is not None:
            self.on_entry(entry)


class Replay:
    """A checkpoint while its run is carried out: gives what is recorded, in order, and records what is new."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        made = _made(checkpoint.entries)
        if made and made[-1]["kind"] == "failure":  # the run ended of it: the model is asked again
            checkpoint.add({"kind": "resumed"})
            made = _made(checkpoint.entries)
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
            raise ResumeError(
                f"a request of role {request.role.value} is not the one that was recorded: the loop, its prompts, the tools or the "
                "query have changed since; begin a new run, with what was said as its history"
            )
        entry = recorded.popleft()
        self._left -= 1
        if entry["kind"] == "failure":
            raise _failure_of(entry["failure"])
        return _reply_of(entry["reply"])

    def keep_reply(self, request: Request, reply: Reply) -> None:
        self._keep_of(request, "reply", _reply_entry(reply))

    def keep_failure(self, request: Request, error: ModelError) -> None:
        self._keep_of(request, "failure", _failure_entry(error))

    def _keep_of(self, request: Request, kind: str, what: Entry) -> None:
        self._checkpoint.add({"kind": kind, "scope": request.scope, "request": digest(request.as_dict()), kind: what})

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
        made = asdict(replace(seen, value=None))
        del made["call_id"]
        self._checkpoint.add({"kind": "result", "call": str(call.call_id), "result": made | {"value": _json_value(seen.value)}})

    def begin(self, call: ToolCall) -> None:
        """Note that a call that a person has to know of is about to be made: if no result follows, it may have been made."""
        self._checkpoint.add({"kind": "begun", "call": str(call.call_id)})

    def was_cut_off(self, call: ToolCall) -> bool:
        """Whether the run ended while a call was made, and nobody has decided since what is to become of it."""
        return self._decisions(call.call_id)[0]

    def decision(self, call: ToolCall) -> Entry | None:
        """Return what a person has decided about a call, None if nobody has since it began to wait.

        Of two people who decide at once, in checkpoints of their own, the one who rejects it counts; else the first.
        """
        return self._held(call.call_id)

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

    def wait_for_person(self, call: ToolCall, tools: Toolbox, problem: str = "") -> PendingCall:
        """Note that a call waits for a person, and return what waits. `problem`: why it waits again."""
        for one in self._checkpoint.pending:
            if one.id == call.call_id:
                return one
        written = _json_values(call.arguments)
        try:
            received = _json_values(received_arguments(call, tools))
        except Exception:  # of the tool's types, or a call that lacks an argument: the tool gets what was written
            received = written
        named = {"call": str(call.call_id), "tool": call.name, "arguments": written}
        entry = {"kind": "pending", **named, **({} if received == written else {"received": received})}
        entry |= {"problem": problem} if problem else {}
        self._checkpoint.add(entry)
        return _pending(entry)


def _pending(entry: Entry) -> PendingCall:
    call = ToolCall(entry["tool"], entry["arguments"], entry["call"])
    received = entry["received"] if "received" in entry else entry["arguments"]
    return PendingCall(entry["call"], call, received, entry.get("problem", ""))


# --- entries ---


_FIELDS: Mapping[str, Mapping[str, type]] = {
    "reply": {"scope": str, "request": str, "reply": dict},
    "failure": {"scope": str, "request": str, "failure": dict},
    "result": {"call": str, "result": dict},
    "pending": {"call": str, "tool": str, "arguments": dict},
    "decision": {"call": str, "approved": bool, "reason": str},
    "begun": {"call": str},
    "resumed": {},
}
"""The kinds of entries, with their fields; `resumed` takes back the failures right before it, of which the run had ended."""
_FAILURES: Mapping[str, type[ModelError]] = {
    "ProviderError": ProviderError,
    "ContextOverflow": ContextOverflow,
    "ModelError": ModelError,
}


def _made(entries: Iterable[Entry]) -> list[Entry]:
    """Return what a run has received, in order: replies, failures that it overcame, results."""
    made: list[Entry] = []
    for entry in entries:
        if entry["kind"] in ("reply", "failure", "result"):
            made.append(entry)
        while entry["kind"] == "resumed" and made and made[-1]["kind"] == "failure":
            made.pop()
    return made


def check_entry(entry: Any, place: int) -> None:
    """Raise ValueError for what is no entry of a checkpoint, as a file that somebody has changed may hold."""
    try:
        fields = _FIELDS[entry["kind"]]
        is_sound = all(isinstance(entry[name], kind) for name, kind in fields.items())
        if entry["kind"] == "reply":
            _reply_of(entry["reply"])
        elif entry["kind"] == "failure":
            _failure_of(entry["failure"])
        elif entry["kind"] == "decision":
            is_sound = is_sound and isinstance(entry.get("arguments", {}), dict) and isinstance(entry.get("by", ""), str)
        elif entry["kind"] == "pending":
            is_sound = is_sound and isinstance(entry.get("received", {}), dict) and isinstance(entry.get("problem", ""), str)
        elif entry["kind"] == "result":
            Observation(**entry["result"], call_id="")
    except (KeyError, TypeError, AttributeError):
        is_sound = False
    if not is_sound:
        raise ValueError(f"entries[{place}] is no entry of a checkpoint: {render_value(entry)[:80]}")


def _reply_entry(reply: Reply) -> Entry:
    return {
        "text": reply.text,
        "calls": [asdict(call) for call in reply.calls],
        "usage": None if reply.usage is None else asdict(reply.usage),
        "finish_reason": reply.finish_reason,
        "attempts": list(reply.failed_attempts),
    }


def _reply_of(entry: Entry) -> Reply:
    usage = None if entry["usage"] is None else Usage(**entry["usage"])
    calls = tuple(NativeCall(**call) for call in entry["calls"])
    return Reply(entry["text"], calls, usage, entry["finish_reason"], tuple(entry["attempts"]))


def _failure_entry(error: ModelError) -> Entry:
    kind = next(name for name, made in _FAILURES.items() if isinstance(error, made))
    entry: Entry = {"type": kind, "message": error_text(error)}
    if isinstance(error, ProviderError):
        entry["kind"], entry["attempts"] = error.kind, list(error.failed_attempts)
    return entry


def _failure_of(entry: Entry) -> ModelError:
    made = _FAILURES[entry["type"]]
    if made is ProviderError:
        return ProviderError(entry["message"], entry["kind"], failed_attempts=tuple(entry["attempts"]))
    return made(entry["message"])


def _json_values(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _json_value(value) for name, value in arguments.items()}


def _json_value(value: Any) -> Any:
    """Return a value that JSON gives back as it is; any other becomes the text that a model reads of it."""
    try:
        if json.loads(canonical_json(value)) == value:
            return value
    except (TypeError, ValueError, RecursionError):
        pass
    return render_value(value)
