"""The entries of a checkpoint as JSON: what a reply, a failure and a result are written as, and the check of a stored one."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any

from whichloop.loops.shared.received_arguments import received_values, same_json
from whichloop.protocol import (
    ContextOverflow,
    ModelError,
    NativeCall,
    Observation,
    ProviderError,
    Reply,
    Toolbox,
    ToolCall,
    Usage,
    render_value,
)
from whichloop.protocol.digest import canonical_json, sha256, short_digest
from whichloop.protocol.threads import is_async_function, is_generator_function
from whichloop.protocol.values import error_text, legible

Entry = dict[str, Any]
"""One line of a checkpoint, as JSON."""

_FIELDS: Mapping[str, Mapping[str, type]] = {
    "asked": {"scope": str, "request": str, "input_tokens": int},
    "reply": {"scope": str, "request": str, "reply": dict},
    "failure": {"scope": str, "request": str, "failure": dict},
    "result": {"call": str, "result": dict},
    "pending": {"call": str, "tool": str, "arguments": dict},
    "decision": {"call": str, "approved": bool, "reason": str},
    "begun": {"call": str},
    "run": {"id": str},
    "resumed": {},
}
"""The kinds of entries, with their fields; `resumed` takes back the failures right before it, of which the run had ended.

`asked` comes before each request of a run with a budget: one whose reply nobody has kept is spent all the same.
`run` comes before the first call of a tool, and says the id of which the idempotency keys of the run's calls are made.
"""
_TEXTS = ("by", "problem", "version", "like")
"""Fields that an entry may have."""
_FAILURES: Mapping[str, type[ModelError]] = {
    "ProviderError": ProviderError,
    "ContextOverflow": ContextOverflow,
    "ModelError": ModelError,
}


def received_entries(entries: Iterable[Entry]) -> list[Entry]:
    """Return what a run has received, in order: replies, failures that it overcame, results."""
    received: list[Entry] = []
    for entry in entries:
        if entry["kind"] in ("reply", "failure", "result"):
            received.append(entry)
        while entry["kind"] == "resumed" and received and received[-1]["kind"] == "failure":
            received.pop()
    return received


def holding(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the entries but for the decisions about something else than what waits: each is bound to what a person was shown.

    Two checkpoints that a database keeps may not know of each other's entries, so that a decision can follow a newer asking. One
    of an earlier version, which does not say what was shown, holds.
    """
    versions: dict[str, Any] = {}
    for entry in entries:
        if entry["kind"] == "pending":
            versions[entry["call"]] = entry.get("version")
        elif entry["kind"] == "decision":
            waits, decided = versions.get(entry["call"]), entry.get("version")
            if waits is not None and decided is not None and waits != decided:
                continue
        yield entry


def version_of(entry: Entry, run_id: str, times_asked: int) -> str:
    """Return a short text for what a person is shown of a waiting call. `times_asked`: how often that was, this time included."""
    shown_parts = [entry.get("received", entry["arguments"]), entry.get("edited")]
    return short_digest(json_numbers([run_id, entry["call"], shown_parts, entry.get("problem", ""), times_asked]))


def json_numbers(value: Any) -> Any:
    """Return a JSON value whose whole numbers are written as such, for a store may write 5.0 as 5. Raises as JSON does."""
    return json.loads(canonical_json(value), parse_float=_number)


def _number(text: str) -> int | float:
    number = float(text)
    return int(number) if number.is_integer() else number


def check_entry(entry: Any, place: int) -> None:
    """Raise ValueError for what is no entry of a checkpoint, as a file that somebody has changed may hold."""
    try:
        fields = _FIELDS[entry["kind"]]
        is_sound = all(isinstance(entry[name], kind) for name, kind in fields.items())
        is_sound = is_sound and all(isinstance(entry.get(name, ""), str) for name in _TEXTS)
        if entry["kind"] == "reply":
            reply_of(entry["reply"])
        elif entry["kind"] == "failure":
            failure_of(entry["failure"])
        elif entry["kind"] in ("decision", "begun"):
            is_sound = is_sound and isinstance(entry.get("arguments", {}), dict)
        elif entry["kind"] == "pending":
            is_sound = is_sound and all(isinstance(entry.get(name, {}), dict) for name in ("received", "edited"))
        elif entry["kind"] == "result":
            Observation(**entry["result"], call_id="")
    except (KeyError, TypeError, AttributeError):
        is_sound = False
    if not is_sound:
        raise ValueError(f"entries[{place}] is no entry of a checkpoint: {render_value(entry)[:80]}")


def reply_entry(reply: Reply) -> Entry:
    return {
        "text": reply.text,
        "calls": [asdict(call) for call in reply.calls],
        "usage": None if reply.usage is None else asdict(reply.usage),
        "finish_reason": reply.finish_reason,
        "attempts": list(reply.failed_attempts),
        **({} if reply.native is None else {"native": reply.native}),
    }


def reply_of(entry: Entry) -> Reply:
    usage = None if entry["usage"] is None else Usage(**entry["usage"])
    calls = tuple(NativeCall(**call) for call in entry["calls"])
    return Reply(entry["text"], calls, usage, entry["finish_reason"], tuple(entry["attempts"]), entry.get("native"))


def failure_entry(error: ModelError) -> Entry:
    kind = next(name for name, failure_class in _FAILURES.items() if isinstance(error, failure_class))
    entry: Entry = {"type": kind, "message": error_text(error)}
    if isinstance(error, ProviderError):
        entry["kind"], entry["attempts"] = error.kind, list(error.failed_attempts)
    return entry


def failure_of(entry: Entry) -> ModelError:
    failure_class = _FAILURES[entry["type"]]
    if failure_class is ProviderError:
        return ProviderError(entry["message"], entry["kind"], failed_attempts=tuple(entry["attempts"]))
    return failure_class(entry["message"])


def json_values(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: json_value(value) for name, value in arguments.items()}


def json_value(value: Any) -> Any:
    """Return a value that JSON gives back as it is; any other becomes the text that a model reads of it."""
    with contextlib.suppress(Exception):  # not JSON, or whatever a class of a tool's own raises
        if same_json(json.loads(canonical_json(value)), value):
            return value
    return render_value(value)


INSTEAD = (
    "write def, and have the entry stored when it returns: in a file (CheckpointFile), or by your database's synchronous client; "
    "an async one serves by asyncio.run_coroutine_threadsafe(…).result() on an event loop of another thread"
)


def store_of(on_entry: Any) -> Callable[[Entry], Any] | None:
    """Return what stores entries. Raises TypeError for what cannot be called, and for what a call of which stores nothing."""
    if on_entry is None:
        return None
    if not callable(on_entry):
        raise TypeError(f"on_entry: give a function that stores an entry, not {on_entry!r}")
    if is_async_function(on_entry) or is_generator_function(on_entry):
        kind = "async" if is_async_function(on_entry) else "a generator function"
        raise TypeError(f"on_entry is {kind}, and its entries would be lost; {INSTEAD}")
    stores: Callable[[Entry], Any] = on_entry
    return stores


def store(on_entry: Callable[[Entry], Any], entry: Entry) -> None:
    """Have an entry stored. Raises what `on_entry` raises, and TypeError where it has only made what would store the entry."""
    result = on_entry(entry)
    if not (inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result) or isinstance(result, Future)):
        return
    for name in ("close", "cancel"):  # of a coroutine, of a task: an entry that does not count had better not be stored later
        if callable(end := getattr(result, name, None)):
            end()
            break
    raise TypeError(f"on_entry returned {type(result).__name__}, by which nothing is stored yet; {INSTEAD}")


NEW_EACH_TIME = "new each time"
"""In the place of an id or a time that the tool's types make: calls that differ in these alone are equal."""


@dataclass(frozen=True, slots=True)
class EqualCall:
    """What has become of a call that equals another one, by the entries of it so far."""

    call_id: str
    keys: frozenset[str]
    """Equality keys: of the call as the model has written it, and of what has run."""
    shown_key: str = ""
    """The equality key of what a person was last shown of it."""
    begun: Entry | None = None
    """The last entry that notes that it began; None if it has not."""
    waits: bool = False
    """It waits for a decision."""
    is_answered: bool = False
    """A person has given its result."""
    is_unsure: bool = False
    """It began and waited then, because the process died or no result came, and nobody has given its result."""
    result: Entry | None = None
    """The entry of its result; None if it has none, or was never made."""

    @property
    def keys_now(self) -> frozenset[str]:
        """The keys by which it is equal to others now: while it waits, what a person is shown counts, too."""
        return self.keys | {self.shown_key} if self.waits else self.keys

    @property
    def read(self) -> str:
        """What the model read of its result."""
        return "" if self.result is None else Observation(**self.result["result"]).as_dict()["data"]

    def after(self, entry: Entry) -> EqualCall:
        """Return what has become of it once this entry of it is there, too."""
        match entry["kind"]:
            case "begun":
                return replace(self, begun=entry, keys=self.keys | {entry.get("like", self.shown_key)})
            case "pending":
                return self._shown(entry)
            case "decision":
                return self._decided(entry)
            case "result" if self.begun is not None or self.is_answered:
                return replace(self, result=entry)
        return self

    def _shown(self, entry: Entry) -> EqualCall:
        """Return it as it waits for a person, who has been shown it."""
        arguments = entry["received"] if "received" in entry else entry["arguments"]  # all that an earlier version has noted
        shown_key = entry["like"] if "like" in entry else _key_of_values(entry["tool"], arguments, arguments)
        began_as_shown = self.begun is not None and "like" not in self.begun  # an earlier version did not note with what it began
        return replace(
            self,
            keys=self.keys | {shown_key} if began_as_shown else self.keys,
            shown_key=shown_key,
            waits=True,
            is_unsure=self.is_unsure or self.begun is not None,
        )

    def _decided(self, decision: Entry) -> EqualCall:
        """Return it as a person has decided about it, who may have given its result."""
        if "result" not in decision:
            return replace(self, waits=False)
        return replace(self, waits=False, is_answered=True, is_unsure=False, keys=self.keys | {self.shown_key})


def equal_calls(entries: Iterable[Entry], call_id: str, keys: Collection[str]) -> list[EqualCall]:
    """Return the calls equal to this one, in the order in which they came up. `keys`: its `equality_keys`."""
    others: dict[str, EqualCall] = {}
    for entry in holding(entries):
        other = entry.get("call")
        if other is None or other == call_id:
            continue
        equal_call = others.get(other) or EqualCall(other, frozenset({spelling(other)}))
        others[other] = equal_call.after(entry)
    return [one for one in others.values() if not one.keys_now.isdisjoint(keys)]


def spelling(call_id: str) -> str:
    """Return what the ids of calls have in common that the model has written alike: they differ in their number alone."""
    return call_id.rpartition("-")[0]


def equality_keys(call: ToolCall, tools: Toolbox) -> frozenset[str]:
    """Return what equal calls have in common: any two that share one of these are equal."""
    return frozenset({spelling(str(call.call_id)), equality_key(call, tools)})


def equality_key(call: ToolCall, tools: Toolbox) -> str:
    """Return a short digest of what the tool's function gets: converted, with its defaults; of what was written if that fails.

    Equal values have the same one, whatever form JSON has for them: fields that JSON leaves out count, times of two zones are equal
    at the same moment, and 5 is 5.0. What the tool's types make anew each time does not count.
    """
    written: Mapping[str, Any] = call.arguments
    try:
        got, again = received_values(call, tools), received_values(call, tools)
    except Exception:  # of the tool's types: the tool gets what was written
        return _key_of_values(call.name, written, written)
    return _key_of_values(call.name, got, again)


def _key_of_values(tool: str, got: Mapping[str, Any], again: Mapping[str, Any]) -> str:
    """Return the key of a call. `got`, `again`: what the function gets, converted twice, so that what is new each time differs."""
    try:
        return short_digest([tool, _in_common(_parts(got), _parts(again))])
    except Exception:  # a circular value, one that is nested too deep, an error in a user's class
        return sha256(f"{tool} {render_value(got)}")


def _in_common(one: Any, other: Any) -> Any:
    """Return the parts of two values without those in which they differ."""
    if canonical_json(one) == canonical_json(other):
        return one
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [_in_common(left, right) for left, right in zip(one, other, strict=True)]
    return [NEW_EACH_TIME]


def _parts(value: Any) -> Any:
    """Return a value as JSON that is the same for equal values, and another for others: a model or dataclass by all its fields."""
    if isinstance(value, Enum):
        return _parts(value.value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int | float | Decimal):
        return _number_parts(value)
    if isinstance(value, date | time | timedelta):
        return _time_parts(value)
    if isinstance(value, list | tuple):
        return ["list", *map(_parts, value)]
    if isinstance(value, set | frozenset):
        return ["set", *sorted(map(_parts, value), key=canonical_json)]
    fields = _fields(value)
    if fields is None:
        return ["other", type(value).__name__, legible(repr(value))]
    return ["fields", *sorted(([_parts(name), _parts(part)] for name, part in fields.items()), key=canonical_json)]


def _number_parts(value: int | float | Decimal) -> Any:
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return int(value) if value.is_integer() else ["number", repr(float(value))]
    sign, digits, exponent = value.as_tuple()
    if not value or not isinstance(exponent, int):
        return ["decimal", str(value).lower() if value else "0"]
    kept = "".join(map(str, digits)).rstrip("0")  # not by normalize(), which rounds, nor by int(), for 1E+999999999 is short
    return ["decimal", sign, kept, exponent + len(digits) - len(kept)]


def _time_parts(value: date | time | timedelta) -> Any:
    if isinstance(value, datetime) and value.utcoffset() is not None:
        value = value.astimezone(UTC)
    return ["time", str(value) if isinstance(value, timedelta) else value.isoformat()]


def _fields(value: Any) -> Mapping[Any, Any] | None:
    """Return the fields of a mapping or an object, None if it has none."""
    if isinstance(value, Mapping):
        return value
    if dataclasses.is_dataclass(value):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    fields = {**getattr(value, "__dict__", {}), **(getattr(value, "__pydantic_extra__", None) or {})}
    return fields or None


ApprovalRule = Callable[[Mapping[str, Any]], bool]
"""Says of a call's arguments, a copy of the very values that the tool's function gets, whether a person has to approve the call.

Only False lets it run at once.
"""


NeedsApproval = Sequence[str] | Set[str] | Mapping[str, ApprovalRule]
"""Names of tools, or a rule for each. (Not a collection of names: a dictionary is one, whatever its rules return.)"""


def rules_of(needs_approval: NeedsApproval) -> Mapping[str, ApprovalRule | None]:
    """Return the rule for each name, None where every call waits. Raises TypeError."""
    tools: Any = needs_approval
    if isinstance(tools, str):
        raise TypeError(f"needs_approval: give a list of tools' names, such as [{tools!r}], not a text")
    if not isinstance(tools, Iterable):
        raise TypeError(
            "needs_approval: give a list of tools' names or a mapping with a rule for each, such as "
            f"{{'refund': lambda arguments: True}}, not {type(tools).__name__}"
        )
    rules = dict(tools) if isinstance(tools, Mapping) else dict.fromkeys(tools)
    for name, rule in rules.items():
        if not isinstance(name, str):
            raise TypeError(f"needs_approval: a tool's name must be a text, not {name!r}")
        if isinstance(tools, Mapping):
            _check_rule(name, rule)
    return rules


def refusals_of(refusals: Collection[type[Exception]]) -> tuple[type[Exception], ...]:
    """Return the exceptions by which a tool says that it has not acted. Raises TypeError for what is no list of such classes."""
    types: Any = refusals
    if isinstance(types, type) or not isinstance(types, Iterable):
        named = types.__name__ if isinstance(types, type) else repr(types)
        raise TypeError(f"refusals: give a list of exception classes, such as [NoSuchOrder], not {named}")
    classes = tuple(types)
    for one in classes:
        if not (isinstance(one, type) and issubclass(one, Exception)):
            raise TypeError(f"refusals: give classes of exceptions, not {one!r}")
        if one is Exception:
            raise TypeError(
                "refusals: Exception is every error, so that no call that may have acted would wait; give exceptions that the tool "
                "raises only before it acts, such as [NoSuchOrder]"
            )
    return classes


def _check_rule(name: str, rule: Any) -> None:
    """Raise TypeError for a rule that is no plain function of a call's arguments as one mapping."""
    wrong = "" if callable(rule) else repr(rule)
    if is_async_function(rule):
        wrong = "an async function"
    elif not wrong and not _takes_one(rule):
        wrong = f"one that takes {inspect.signature(rule)}"
    if wrong:
        raise TypeError(f"needs_approval: the rule of {name!r} must be a plain function of the call's arguments, not {wrong}")


def _takes_one(rule: Callable[..., Any]) -> bool:
    """Return whether a function can be called with one argument; one whose signature cannot be read is believed to."""
    try:
        signature = inspect.signature(rule)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind({})
    except TypeError:
        return False
    return True
