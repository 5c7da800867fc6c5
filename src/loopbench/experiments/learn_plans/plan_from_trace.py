"""A plan out of a trace: the calls that gave a result, with references where a value came from an earlier one. Pure functions."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from loopbench.metrics.trace import NEVER_RAN
from loopbench.models.receipts import strip_receipts
from loopbench.protocol import Plan, PlannedCall, Query, Ref, refs, render_value
from loopbench.protocol.digest import canonical_json
from loopbench.protocol.redact import MARK, redact
from loopbench.protocol.wire import from_json

MIN = 10
"""Whole numbers nearer to zero are too common to tell where they came from."""
SHORTEST = 3
"""Texts of fewer characters are."""
MAX_GOAL = 160
"""Characters of a goal."""
ANSWER = "answer"

Kind = Literal["json", "text", "other"]
"""What a tool gives: a value that a reference can walk as its JSON reads; text; an object, into which no reference leads."""

_TRUE_RESULT = frozenset({None, "tool.slow"})
"""Faults under which a call still gives what its tool gave."""
_CUT = re.compile(r"\.\.\. \(truncated, \d+ characters in all\)$")
"""As `protocol.tools.cap` ends what it cuts."""


class Unlearnable(ValueError):
    """No plan can be made of a trial; the message says why."""


@dataclass(frozen=True, slots=True)
class Made:
    """A call of a trial."""

    tool: str
    arguments: Mapping[str, Any]
    text: str | None
    """The result; None where some of it was cut off or taken out, so that no value in it can be trusted."""
    turn: int
    """Calls of one turn were made without a look at each other's results."""
    failed: bool = False
    """It gave an error, and no result."""


@dataclass(frozen=True, slots=True)
class FixedValue:
    """A value that stays as it is, though it stands in earlier results too."""

    call: str
    """Id of the planned call, or `answer`."""
    argument: str
    """Keys and indices, joined by dots; empty for an answer that is one value."""
    value: str | int | float
    why: str
    seen: tuple[str, ...]
    """Where it stands in earlier results."""


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A call of a plan that is being written."""

    id: str
    made: Made
    arguments: Mapping[str, Any]
    """With references."""
    after: tuple[str, ...]
    """Ids of the calls of the turn before."""


@dataclass(frozen=True, slots=True)
class PlanDraft:
    """The steps of a plan that has no answer yet."""

    steps: tuple[PlanStep, ...]
    sources: Sources
    kept: tuple[FixedValue, ...]

    @property
    def references(self) -> int:
        return sum(1 for step in self.steps for _ in refs(step.arguments))

    def with_literals(self, call: str, why: str) -> PlanDraft:
        """The same with the values that the run had in the place of one call's references."""
        step = next(step for step in self.steps if step.id == call)
        steps = tuple(replace(step, arguments=step.made.arguments) if other is step else other for other in self.steps)
        pairs = zip(leaves(step.arguments), leaves(step.made.arguments), strict=True)
        more = [
            FixedValue(call, dotted(path), leaf, why, (shown(ref),)) for (path, ref), (_, leaf) in pairs if isinstance(ref, Ref)
        ]
        return replace(self, steps=steps, kept=(*self.kept, *more))


def made_calls(trace: Mapping[str, Any]) -> tuple[Made, ...]:
    """The calls of a trial that gave a result, in the order in which the results came, each once.

    Raises Unlearnable for what no plan can say: one call with two results, a call whose only result a fault had spoiled, a secret
    among the arguments; and for events that are none.
    """
    made: dict[str, Made] = {}
    spoiled: dict[str, str] = {}
    turn = 0
    for event in trace["events"]:
        if not isinstance(event, dict):
            raise Unlearnable("its trace holds what is no event")
        turn += event.get("event") == "ask"
        if event.get("event") != "tool" or event.get("status") != "success":
            continue
        call = _made(event, turn)
        key = canonical_json([call.tool, _plain(call.arguments)])
        if event.get("fault") not in _TRUE_RESULT:
            spoiled[key] = call.tool
        elif made.setdefault(key, call).text != call.text:
            raise Unlearnable(f"it called {call.tool} twice alike and got different results, which no plan can say")
    for key in spoiled.keys() - made.keys():
        raise Unlearnable(f"the only result of a call of {spoiled[key]} was spoiled by a fault")
    return tuple(made.values())


def refused_calls(trace: Mapping[str, Any]) -> tuple[Made, ...]:
    """The calls of a trial in which none gave a result, those of them that their tools refused, each once. Raises Unlearnable."""
    made: dict[str, Made] = {}
    turn = 0
    for event in trace["events"]:
        turn += event.get("event") == "ask"
        if event.get("event") == "tool" and event.get("fault") in _TRUE_RESULT and event.get("error_type") not in NEVER_RAN:
            call = replace(_made(event, turn), text=None, failed=True)
            made.setdefault(canonical_json([call.tool, _plain(call.arguments)]), call)
    return tuple(made.values())


def _made(event: Mapping[str, Any], turn: int) -> Made:
    tool, arguments, data = event.get("tool"), event.get("arguments"), event.get("data")
    if not (isinstance(tool, str) and isinstance(arguments, dict) and isinstance(data, str)):
        raise Unlearnable("its trace holds a call that cannot be read")
    told = canonical_json(arguments)
    if MARK in told or redact(told) != told:
        raise Unlearnable(f"a secret stands among the arguments of a call of {tool}")
    text = strip_receipts(data)
    return Made(tool, arguments, None if MARK in text or _CUT.search(text) else text, turn)


def _plain(value: Any) -> Any:
    """3.0 as 3, at any depth: equal numbers make equal calls."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


# --- values ---

Path = tuple[str | int, ...]


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """All that is no object or list, with the keys and indices that lead to it."""
    left = [(path, value)]
    while left:
        path, value = left.pop()
        if isinstance(value, dict | list):
            items = list(value.items() if isinstance(value, dict) else enumerate(value))
            left.extend(((*path, key), item) for key, item in reversed(items))
        else:
            yield path, value


def _filled(value: Any, fill: Callable[[Path, Any], Any], path: Path = ()) -> Any:
    """A value with another in the place of each leaf."""
    if isinstance(value, dict):
        return {key: _filled(item, fill, (*path, key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, fill, (*path, index)) for index, item in enumerate(value)]
    return fill(path, value)


def dotted(path: Path) -> str:
    return ".".join(map(str, path))


def shown(ref: Ref) -> str:
    """A place in a result, to read."""
    return f"{ref.call} at {dotted(ref.path)}" if ref.path else ref.call


def result_value(text: str | None, kind: Kind) -> Any:
    """A tool's result as references see it; None where nothing in it can be referred to."""
    if text is None or kind == "other":
        return None
    if kind == "text":
        return text
    try:
        value = from_json(text)
        return value if render_value(value) == text else text  # written otherwise, it is a text that happens to be JSON
    except ValueError:
        return text


def _key(value: Any) -> Hashable:
    """Equal for equal values: numbers by value, text by its characters; None for what says nothing (true, false, null, no text)."""
    if isinstance(value, bool) or value is None or value == "":
        return None
    return ("text" if isinstance(value, str) else "number"), value


def _is_common(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) < SHORTEST
    return bool(abs(value) < MIN and value == int(value))


_DIGITS = re.compile(r"\d+(?:[.,]\d+)*")


def _numbers(text: str) -> frozenset[float]:
    """Every number in a text, without its sign; of "1,250" both readings."""
    parts = (part for token in _DIGITS.findall(text) for part in (token.replace(",", ""), *token.split(",")))
    return frozenset(float(part) for part in parts if part.count(".") <= 1)


class Sources:
    """Where values may have come from: the question, and the results so far."""

    def __init__(self, query: Query) -> None:
        self._asked = query.full_text.casefold()
        self._asked_numbers = _numbers(query.full_text)
        self._places: dict[Hashable, list[Ref]] = {}
        self._texts: list[tuple[str, str, frozenset[float]]] = []
        self.values: dict[str, Any] = {}
        """Call → its result as references see it."""

    def add(self, call: str, made: Made, kind: Kind) -> None:
        """Take a result. A value inside of it that was an argument of the call came from elsewhere: it counts as no place."""
        given = {_key(leaf) for _, leaf in leaves(made.arguments)}
        self.values[call] = result_value(made.text, kind)
        for path, leaf in leaves(self.values[call]):
            key = _key(leaf)
            if key is not None and not (path and key in given):
                self._places.setdefault(key, []).append(Ref(call, path))
        if made.text is not None:
            self._texts.append((call, made.text, _numbers(made.text)))

    def argument(self, call: str, path: Path, value: Any) -> Ref | FixedValue | None:
        """The reference that an argument's value is; why it is none, though results hold it; None where they do not."""
        key = _key(value)
        if key is None:
            return None
        places = self._places.get(key, [])
        asked, common = self._is_asked(value), _is_common(value)
        if len(places) == 1 and not asked and not common:
            return places[0]
        where = tuple(map(shown, places))
        why = "too common a value" if common else "in the question too" if asked else f"in {len(places)} places"
        if not places and not asked and not common:
            where, why = self._inside(value), "inside of a text"
        return FixedValue(call, dotted(path), value, why, where) if where else None

    def answer(self, value: Any) -> tuple[Any, tuple[FixedValue, ...]]:
        """An answer with references in the place of values that stand in one place, and what stands in several."""
        kept: list[FixedValue] = []

        def fill(path: Path, leaf: Any) -> Any:
            places = self._places.get(_key(leaf), []) or self._places.get(_key(_read_number(leaf)), [])
            if len(places) > 1:
                kept.append(FixedValue(ANSWER, dotted(path), leaf, f"in {len(places)} places", tuple(map(shown, places))))
            return places[0] if len(places) == 1 else leaf

        return _filled(value, fill), tuple(kept)

    def refuted(self, answer: Any, why: str) -> tuple[FixedValue, ...]:
        """An answer's references as values that are kept."""
        found = [(path, ref) for path, ref in leaves(answer) if isinstance(ref, Ref)]
        return tuple(FixedValue(ANSWER, dotted(path), ref.of(self.values[ref.call]), why, (shown(ref),)) for path, ref in found)

    def _is_asked(self, value: Any) -> bool:
        return value.casefold() in self._asked if isinstance(value, str) else abs(value) in self._asked_numbers

    def _inside(self, value: Any) -> tuple[str, ...]:
        if isinstance(value, str):
            return tuple(call for call, text, _ in self._texts if value in text)
        return tuple(call for call, _, numbers in self._texts if abs(value) in numbers)


def _read_number(value: Any) -> int | float | None:
    """The number that a text is; models answer in text."""
    try:
        number = from_json(value.strip()) if isinstance(value, str) else None
    except ValueError:
        return None
    return number if isinstance(number, int | float) and not isinstance(number, bool) else None


# --- plans ---


def draft_of(made: Sequence[Made], query: Query, kinds: Mapping[str, Kind], *, any_order: bool = False) -> PlanDraft:
    """Steps of a plan: calls refer to results of earlier turns, and come after the calls of the turn before unless `any_order`.

    `kinds`: tool → what it gives; a tool left out gives what its results read as.
    """
    sources = Sources(query)
    steps: list[PlanStep] = []
    kept: list[FixedValue] = []
    before: tuple[str, ...] = ()
    numbered = ((f"c{number}", call) for number, call in enumerate(made, 1))
    for _, group in itertools.groupby(numbered, key=lambda item: item[1].turn):
        turn = list(group)
        for name, call in turn:
            arguments, more = _with_refs(name, call.arguments, sources)
            kept += more
            steps.append(PlanStep(name, call, arguments, () if any_order else before))
        for name, call in turn:
            sources.add(name, call, kinds.get(call.tool, "json"))
        before = tuple(name for name, _ in turn)
    return PlanDraft(tuple(steps), sources, tuple(kept))


def _with_refs(call: str, arguments: Mapping[str, Any], sources: Sources) -> tuple[Any, list[FixedValue]]:
    kept: list[FixedValue] = []

    def fill(path: Path, leaf: Any) -> Any:
        found = sources.argument(call, path, leaf)
        if isinstance(found, FixedValue):
            kept.append(found)
        return found if isinstance(found, Ref) else leaf

    return _filled(arguments, fill), kept


def plan_of(steps: Sequence[PlanStep], answer: Any, query: Query) -> Plan:
    """The plan that the steps are."""
    calls = []
    for step, goal in zip(steps, _goals(steps, query), strict=True):
        used = {ref.call for ref in refs(step.arguments)}
        after = tuple(name for name in step.after if name not in used)
        calls.append(PlannedCall(step.id, step.made.tool, step.arguments, goal, fails=step.made.failed, after=after))
    return Plan(tuple(calls), answer)


def _goals(steps: Sequence[PlanStep], query: Query) -> list[str]:
    """A sentence for each step, none of which stands in another one or in what is asked."""
    wordings = itertools.chain(
        ([_goal(number, step) for number, step in enumerate(steps, 1)],),
        ([f"Step {number} of plan {attempt}." for number in range(1, len(steps) + 1)] for attempt in itertools.count(1)),
    )
    return next(goals for goals in wordings if _tells_apart(goals, (query.text, query.context)))


def _tells_apart(goals: Collection[str], asked: Iterable[str]) -> bool:
    texts = (*goals, *asked)
    return all(sum(goal in text for text in texts) == 1 for goal in goals)


_UNSAFE = re.compile(r"[^\w .,:;()'/+=@#%*-]")
"""What formats escape, or lay out anew: a goal is looked for in prompts as it stands."""


def _goal(number: int, step: PlanStep) -> str:
    given = ", ".join(f"{name} {_told(value)}" for name, value in step.arguments.items())
    said = f"Step {number}: call {step.made.tool}{f' with {given}' if given else ''}"
    said = " ".join(_UNSAFE.sub(" ", redact(said)).split())
    return f"{said[: MAX_GOAL - 1].rstrip()}."


def _told(value: Any) -> str:
    if isinstance(value, Ref):
        return f"from step {value.call.removeprefix('c')}"
    if isinstance(value, dict | list):
        return "as an object" if isinstance(value, dict) else "as a list"
    return f"'{value}'" if isinstance(value, str) else json.dumps(value)
