"""What a run has done so far, as JSON: replies of the model, results of tools, and what a person decided about calls.

A design computes everything else from these, so that a run is taken up again by carrying it out from its start and giving it what
is recorded here in the place of the model and the tools ("durable execution" by replay). `Resumable` does that.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping
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
from loopbench.protocol.digest import canonical_json, digest, sha256
from loopbench.protocol.values import error_text

from .toolbox_around import received_arguments

logger = logging.getLogger(__name__)

Entry = dict[str, Any]
"""One line of a checkpoint, as JSON."""


ApprovalRule = Callable[[Mapping[str, Any]], bool]
"""Says of a call's arguments, as the model wrote them, whether a person has to approve the call."""


class ResumeError(StopRun):
    """The run goes another way than the recorded one: the loop, its prompts, the tools or the query are others than they were."""


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call that waits for a person."""

    id: str
    """What `Checkpoint.approve` and `Checkpoint.reject` take."""
    call: ToolCall


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
        self.entries: list[Entry] = []
        self.needs_approval = _rules(needs_approval)
        self.on_entry = on_entry
        self.is_running = False
        for place, entry in enumerate(entries):
            check_entry(entry, place)
            self.entries.append(dict(entry))

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """The calls that wait for a person, also those at which the run stopped in another process."""
        found: dict[str, PendingCall] = {}
        for entry in self.entries:
            if entry["kind"] == "pending":
                found[entry["call"]] = PendingCall(entry["call"], ToolCall(entry["tool"], entry["arguments"]))
            elif entry["kind"] == "decision":
                found.pop(entry["call"], None)
        return tuple(found.values())

    def approve(self, pending: PendingCall | str, *, arguments: Mapping[str, Any] | None = None) -> None:
        """Let a call run once the run is resumed. `pending`: the call or its id.

        `arguments`: the call runs with these in the place of the model's, which the model is told with the result. If the tool does
        not take them, the call waits again once the run is resumed, and the ApprovalRequired says why. Raises ValueError for a call
        that does not wait, and for arguments that are no JSON object.
        """
        if arguments is None:
            self._decide(pending, True)
            return
        given = dict(arguments) if isinstance(arguments, Mapping) else None
        if given is None or _json_value(given) != given:
            raise ValueError(f"approve: arguments must be a JSON object, such as {{'amount': 50}}, not {arguments!r}")
        self._decide(pending, True, arguments=given)

    def reject(self, pending: PendingCall | str, reason: str = "") -> None:
        """Refuse a call: the model reads the reason as the call's error. Raises ValueError for a call that does not wait."""
        self._decide(pending, False, reason)

    def must_wait(self, call_id: str, call: ToolCall, tools: Toolbox) -> bool:
        """Whether a call needs a person's decision; one that was asked for once counts, whatever `needs_approval` says now.

        A rule judges what the tool's function gets, and not what the model wrote: `"true"` for True, a default that it left out.
        """
        if any(entry["kind"] == "pending" and entry["call"] == call_id for entry in self.entries):
            return True
        if call.name not in self.needs_approval:
            return False
        rule = self.needs_approval[call.name]
        try:
            return rule is None or bool(rule(received_arguments(call, tools)))
        except Exception as error:  # a model may leave out what the rule looks at: what cannot be judged is shown to a person
            logger.warning("needs_approval: the rule of %s raised %s: %s", call.name, type(error).__name__, error_text(error))
            return True

    def _decide(self, pending: PendingCall | str, approved: bool, reason: str = "", **edited: Entry) -> None:
        name = pending.id if isinstance(pending, PendingCall) else pending
        waiting = [one.id for one in self.pending]
        if name not in waiting:
            raise ValueError(f"no call {name!r} waits for a decision; waiting: {', '.join(waiting) or 'none'}")
        self.add({"kind": "decision", "call": name, "approved": approved, "reason": reason, **edited})

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
        self._seen = Counter[str]()

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

    # --- the tools ---

    def id_of(self, call: ToolCall) -> str:
        """Return the id of the next call like this one: calls that are equal are told apart by their order."""
        try:
            said = digest(call.arguments)
        except (TypeError, ValueError, RecursionError):
            said = sha256(render_value(call.arguments))
        like = f"{call.name}-{said[:12]}"
        self._seen[like] += 1
        return f"{like}-{self._seen[like]}"

    def result(self, call_id: str, call: ToolCall) -> Observation | None:
        """Return the recorded result of a call, None if it has none yet."""
        entry = self._results.pop(call_id, None)
        if entry is None:
            return None
        self._left -= 1
        return Observation(**entry["result"], call_id=call.call_id)

    def keep_result(self, call_id: str, seen: Observation) -> None:
        made = asdict(replace(seen, value=None))
        del made["call_id"]
        self._checkpoint.add({"kind": "result", "call": call_id, "result": made | {"value": _json_value(seen.value)}})

    def decision(self, call_id: str) -> Entry | None:
        """Return what a person has decided about a call, None if nobody has since it began to wait.

        Of two people who decide at once, in checkpoints of their own, the one who rejects it counts; else the first.
        """
        since: list[Entry] = []
        for entry in self._checkpoint.entries:
            if entry["kind"] == "pending" and entry["call"] == call_id:
                since.clear()
            elif entry["kind"] == "decision" and entry["call"] == call_id:
                since.append(entry)
        return min(since, key=lambda entry: bool(entry["approved"]), default=None)

    def wait_for_person(self, call_id: str, call: ToolCall) -> None:
        """Note that a call waits for a person."""
        if all(one.id != call_id for one in self._checkpoint.pending):
            arguments = _json_value(dict(call.arguments))
            self._checkpoint.add({"kind": "pending", "call": call_id, "tool": call.name, "arguments": arguments})


# --- entries ---


def _rules(needs_approval: Collection[str] | Mapping[str, ApprovalRule]) -> Mapping[str, ApprovalRule | None]:
    """Return the rule for each name, None where every call waits. Raises TypeError."""
    given: Any = needs_approval
    if isinstance(given, str):
        raise TypeError(f"needs_approval: give a list of tools' names, such as [{given!r}], not a text")
    if not isinstance(given, Iterable):
        raise TypeError(
            "needs_approval: give a list of tools' names or a mapping with a rule for each, such as "
            f"{{'refund': lambda arguments: True}}, not {type(given).__name__}"
        )
    rules = dict(given) if isinstance(given, Mapping) else dict.fromkeys(given)
    for name, rule in rules.items():
        if not isinstance(name, str):
            raise TypeError(f"needs_approval: a tool's name must be a text, not {name!r}")
        if isinstance(given, Mapping):
            _check_rule(name, rule)
    return rules


def _check_rule(name: str, rule: Any) -> None:
    """Raise TypeError for a rule that is no plain function of a call's arguments as one mapping."""
    wrong = "" if callable(rule) else repr(rule)
    if inspect.iscoroutinefunction(rule):
        wrong = "an async function"
    elif not wrong and not _takes_one(rule):
        wrong = f"one that takes {inspect.signature(rule)}"
    if wrong:
        raise TypeError(f"needs_approval: the rule of {name!r} must be a plain function of the call's arguments, not {wrong}")


def _takes_one(rule: Callable[..., Any]) -> bool:
    """Whether a function can be called with one argument; one whose signature cannot be read is believed to."""
    try:
        signature = inspect.signature(rule)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind({})
    except TypeError:
        return False
    return True


_FIELDS: Mapping[str, Mapping[str, type]] = {
    "reply": {"scope": str, "request": str, "reply": dict},
    "failure": {"scope": str, "request": str, "failure": dict},
    "result": {"call": str, "result": dict},
    "pending": {"call": str, "tool": str, "arguments": dict},
    "decision": {"call": str, "approved": bool, "reason": str},
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
            is_sound = is_sound and isinstance(entry.get("arguments", {}), dict)
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


def _json_value(value: Any) -> Any:
    """Return a value that JSON gives back as it is; any other becomes the text that a model reads of it."""
    try:
        if json.loads(canonical_json(value)) == value:
            return value
    except (TypeError, ValueError, RecursionError):
        pass
    return render_value(value)
