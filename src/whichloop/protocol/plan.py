"""Plans: the calls that solve a task, with references from one to another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .json_text import Json
from .names import nearest


@dataclass(frozen=True, slots=True)
class Ref:
    """A reference to an earlier call's result, or a part of it."""

    call: str
    path: tuple[str | int, ...] = ()
    """Keys and indices into the result."""

    def of(self, value: Any) -> Any:
        """Return the part of `value` at `path`. Raises KeyError, IndexError or TypeError if it has none."""
        for key in self.path:
            value = value[key]
        return value


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One call of a plan."""

    id: str
    tool: str
    arguments: Mapping[str, Any]
    """Literals and `Ref`s, at any depth."""
    goal: str
    """A sentence, unique within the task, that says what the call is for."""
    alternatives: tuple[PlannedCall, ...] = ()
    """Calls that may replace this one; they have its id."""
    fails: bool = False
    """An error is the expected result."""
    after: tuple[str, ...] = ()
    """Ids of further calls that must come before, because this call depends on what they change."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The calls that solve a task, each after those that it refers to, and the answer.

    Raises ValueError for a duplicate id or goal, an alternative with another id, and a reference or an `after` to a call that does
    not come before.
    """

    calls: tuple[PlannedCall, ...]
    answer: Any
    """A literal, or a value with `Ref`s; None if the task has no answer and saying so is right."""
    dependencies: Mapping[str, frozenset[str]] = field(init=False, compare=False, repr=False)
    """Call → the calls that must come before it."""
    uses: Mapping[str, Mapping[tuple[str | int, ...], frozenset[str | None]]] = field(init=False, compare=False, repr=False)
    """Call → the parts of its result that are referred to, by path → the calls that do so; None stands for the answer."""

    is_referring: bool = field(init=False, compare=False, repr=False)
    rests_on: frozenset[str] = field(init=False, compare=False, repr=False)
    """The calls whose results the answer is made of; of an answer without a reference, those that no other call refers to.

    Empty where the task has no answer.
    """

    def __post_init__(self) -> None:
        _check_links(self.calls, self.answer)
        seen = {call.id: frozenset(call.after).union(ref.call for ref in refs(call.arguments)) for call in self.calls}
        object.__setattr__(self, "dependencies", seen)
        uses = self._uses()
        object.__setattr__(self, "uses", uses)
        object.__setattr__(self, "is_referring", any(refs(self.answer)))
        stated = frozenset(call for call, parts in uses.items() if any(None in users for users in parts.values()))
        rests_on = stated or frozenset(call.id for call in self.calls if call.id not in uses)
        object.__setattr__(self, "rests_on", frozenset() if self.answer is None else rests_on)

    def _uses(self) -> dict[str, dict[tuple[str | int, ...], frozenset[str | None]]]:
        users: list[tuple[str | None, object]] = [(None, self.answer)]
        users += [(call.id, option.arguments) for call in self.calls for option in (call, *call.alternatives)]
        uses: dict[str, dict[tuple[str | int, ...], frozenset[str | None]]] = {}
        for user, value in users:
            for ref in refs(value):
                parts = uses.setdefault(ref.call, {})
                parts[ref.path] = parts.get(ref.path, frozenset()) | {user}
        return uses


def _check_links(calls: Sequence[PlannedCall], answer: Any) -> None:
    """Raise ValueError for what keeps calls and an answer from being a plan, see `Plan`."""
    ids: dict[str, None] = {}
    goals: set[str] = set()
    for call in calls:
        if call.id in ids:
            raise ValueError(f"plan: id {call.id!r} is a duplicate")
        if call.goal in goals:
            raise ValueError(f"plan: two calls have the same goal, {call.goal!r}")
        for other in call.alternatives:
            if other.id != call.id:
                raise ValueError(f"plan: an alternative of call {call.id!r} has another id, {other.id!r}")
        named = [ref.call for option in (call, *call.alternatives) for ref in refs(option.arguments)]
        for name in (*named, *call.after):
            if name not in ids:
                raise ValueError(f"plan: call {call.id!r} refers to {name!r}, not before it; {nearest(name, ids)}")
        ids[call.id] = None
        goals.add(call.goal)
    for ref in refs(answer):
        if ref.call not in ids:
            raise ValueError(f"plan: the answer refers to {ref.call!r}, a call that is not in the plan; {nearest(ref.call, ids)}")


def refs(value: object) -> Iterator[Ref]:
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from refs(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from refs(item)


_LITERALS = frozenset({int, float, str, bool, type(None)})


def resolve(value: Any, results: Mapping[str, Any]) -> Any:
    """Replace references by results. Raises KeyError, IndexError or TypeError if a result, or its part, is missing."""
    kind = type(value)
    if kind in _LITERALS:
        return value
    if kind is Ref:
        return value.of(results[value.call])
    if kind is dict or isinstance(value, Mapping):
        return {key: item if type(item) in _LITERALS else resolve(item, results) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [item if type(item) in _LITERALS else resolve(item, results) for item in value]
    return value


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """Return a plan as plain JSON; a reference is `{"$ref": id, "path": […]}`.

    Raises ValueError for a literal with a key `$ref`, which would be read back as a reference.
    """
    return {"calls": [_call_to_json(call) for call in plan.calls], "answer": _value_to_json(plan.answer)}


def plan_from_json(data: Mapping[str, Any]) -> Plan:
    """Read a plan. Raises KeyError for a missing field and ValueError for a broken plan."""
    calls = tuple(_call_from_json(item) for item in data["calls"])
    return Plan(calls, value_from_json(data["answer"]))


def _call_to_json(call: PlannedCall) -> dict[str, Json]:
    data = {"id": call.id, "tool": call.tool, "arguments": _value_to_json(call.arguments), "goal": call.goal}
    if call.alternatives:
        data["alternatives"] = [_call_to_json(other) for other in call.alternatives]
    if call.fails:
        data["fails"] = True
    if call.after:
        data["after"] = list(call.after)
    return data


def _call_from_json(data: Mapping[str, Any]) -> PlannedCall:
    return PlannedCall(
        id=data["id"],
        tool=data["tool"],
        arguments=value_from_json(data["arguments"]),
        goal=data["goal"],
        alternatives=tuple(_call_from_json(item) for item in data.get("alternatives", ())),
        fails=data.get("fails", False),
        after=tuple(data.get("after", ())),
    )


def _value_to_json(value: object) -> Any:
    if isinstance(value, Ref):
        return {"$ref": value.call, "path": list(value.path)} if value.path else {"$ref": value.call}
    if isinstance(value, Mapping):
        if "$ref" in value:
            raise ValueError("plan: a literal holds the key '$ref', which marks a reference")
        return {key: _value_to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_value_to_json(item) for item in value]
    return value


def value_from_json(value: object) -> Any:
    if isinstance(value, Mapping):
        if "$ref" in value:
            return Ref(value["$ref"], tuple(value.get("path", ())))
        return {key: value_from_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [value_from_json(item) for item in value]
    return value
