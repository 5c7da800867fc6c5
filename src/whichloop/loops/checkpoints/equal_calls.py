"""Which calls of a run are equal: those of which the tool's function gets the same, whatever a model or a person has written."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any

from whichloop.loops.shared.received_arguments import received_values
from whichloop.protocol import Observation, Toolbox, ToolCall, render_value
from whichloop.protocol.digest import canonical_json, sha256, short_digest
from whichloop.protocol.values import legible

from .checkpoint_entries import Entry, holding

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
