"""Turns a trace into a plan: the calls that gave a result, with references to earlier results. Pure functions."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from loopbench.metrics.trace import ModelExchange, ToolRun, TraceEvent
from loopbench.protocol import Plan, PlannedCall, Query, Ref, refs, render_value
from loopbench.protocol.digest import canonical_json
from loopbench.protocol.redact import MARK, redact
from loopbench.protocol.wire import from_json

MIN_NUMBER = 10
"""Whole numbers closer to zero are too common to tell where they came from."""
MIN_TEXT_CHARS = 3
"""Texts of fewer characters are too common as well."""
MAX_GOAL = 160
"""Longest goal, in characters."""
ANSWER = "answer"

Kind = Literal["json", "text", "other"]
"""What a tool gives: a value that a reference can walk as its JSON reads; text; an object, into which no reference leads."""

_TRUE_RESULT = frozenset({"", "tool.slow"})
"""Faults under which a call still gives what its tool gave."""
_CUT = re.compile(r"\.\.\. \(truncated, \d+ characters in all\)$")
"""The end of what `cap` has cut."""


class Unlearnable(ValueError):
    """No plan can be made of a trial; the message says why."""


@dataclass(frozen=True, slots=True)
class Made:
    """A call of a trial."""

    tool: str
    arguments: Mapping[str, Any]
    text: str | None
    """The result; None if some of it was cut off or taken out, so that no value in it can be trusted."""
    turn: int
    """Calls of one turn were made without knowing each other's results."""
    failed: bool = False
    """It gave an error, and no result."""

    @property
    def key(self) -> str:
        """Equal for equal calls."""
        return canonical_json([self.tool, _plain(self.arguments)])


@dataclass(frozen=True, slots=True)
class FixedValue:
    """A value that stays as it is, though earlier results hold it too."""

    call: str
    """Id of the planned call, or `answer`."""
    argument: str
    """Keys and indices, joined by dots; empty for an answer that is one value."""
    value: str | int | float
    why: str
    seen: tuple[str, ...]
    """The places of earlier results that hold it."""


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A call of a plan that is being written."""

    id: str
    made: Made
    arguments: Mapping[str, Any]
    """The arguments, with references."""
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
        """Return the draft with the run's own values in place of one call's references."""
        step = next(step for step in self.steps if step.id == call)
        steps = tuple(replace(step, arguments=step.made.arguments) if other is step else other for other in self.steps)
        pairs = zip(leaves(step.arguments), leaves(step.made.arguments), strict=True)
        more = [
            FixedValue(call, dotted(path), leaf, why, (shown(ref),)) for (path, ref), (_, leaf) in pairs if isinstance(ref, Ref)
        ]
        return replace(self, steps=steps, kept=(*self.kept, *more))


def made_calls(events: Sequence[TraceEvent]) -> tuple[Made, ...]:
    """Return the calls of a trial that gave a result, in the order in which the results came, each once.

    Raises Unlearnable for what no plan can say: one call with two results, a call whose only result a fault had spoiled, a secret
    among the arguments.
    """
    made: dict[str, Made] = {}
    spoiled: dict[str, str] = {}
    for event, turn in _runs(events):
        if not event.ok:
            continue
        call = _made(event, turn)
        if event.fault not in _TRUE_RESULT:
            spoiled[call.key] = call.tool
        elif made.setdefault(call.key, call).text != call.text:
            raise Unlearnable(f"it called {call.tool} twice alike and got different results, which no plan can say")
    for key in spoiled.keys() - made.keys():
        raise Unlearnable(f"the only result of a call of {spoiled[key]} was spoiled by a fault")
    return tuple(made.values())


def refused_calls(events: Sequence[TraceEvent]) -> tuple[Made, ...]:
    """Return the calls that their tools refused, each once, of a trial in which no call gave a result. Raises Unlearnable."""
    made: dict[str, Made] = {}
    for event, turn in _runs(events):
        if event.fault in _TRUE_RESULT and not event.never_ran:
            call = replace(_made(event, turn), text=None, failed=True)
            made.setdefault(call.key, call)
    return tuple(made.values())


def _runs(events: Sequence[TraceEvent]) -> Iterator[tuple[ToolRun, int]]:
    """Yield the tools' runs, each with the number of its turn: calls between two requests are one turn."""
    turn = 0
    for event in events:
        turn += isinstance(event, ModelExchange)
        if isinstance(event, ToolRun):
            yield event, turn


def _made(event: ToolRun, turn: int) -> Made:
    tool, arguments = event.call.tool, event.call.arguments
    if not isinstance(arguments, dict):
        raise Unlearnable("its trace holds a call that cannot be read")
    text = canonical_json(arguments)
    if MARK in text or redact(text) != text:
        raise Unlearnable(f"there is a secret among the arguments of a call of {tool}")
    return Made(tool, arguments, None if MARK in event.result or _CUT.search(event.result) else event.result, turn)


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
    """Yield all that is not an object or a list, with the keys and indices that lead to it."""
    left = [(path, value)]
    while left:
        path, value = left.pop()
        if isinstance(value, dict | list):
            items = list(value.items() if isinstance(value, dict) else enumerate(value))
            left.extend(((*path, key), item) for key, item in reversed(items))
        else:
            yield path, value


def _filled(value: Any, fill: Callable[[Path, Any], Any], path: Path = ()) -> Any:
    """Return a value with another one in place of each leaf."""
    if isinstance(value, dict):
        return {key: _filled(item, fill, (*path, key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, fill, (*path, index)) for index, item in enumerate(value)]
    return fill(path, value)


def dotted(path: Path) -> str:
    return ".".join(map(str, path))


def shown(ref: Ref) -> str:
    """Return a place in a result as readable text."""
    return f"{ref.call} at {dotted(ref.path)}" if ref.path else ref.call


def result_value(text: str | None, kind: Kind) -> Any:
    """Return a tool's result as references see it; None if nothing in it can be referred to."""
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
        return len(value) < MIN_TEXT_CHARS
    return bool(abs(value) < MIN_NUMBER and value == int(value))


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
        """Take a result. A value in it that was an argument of the call came from elsewhere, and does not count as a place."""
        given = {_key(leaf) for _, leaf in leaves(made.arguments)}
        self.values[call] = result_value(made.text, kind)
        for path, leaf in leaves(self.values[call]):
            key = _key(leaf)
            if key is not None and not (path and key in given):
                self._places.setdefault(key, []).append(Ref(call, path))
        if made.text is not None:
            self._texts.append((call, made.text, _numbers(made.text)))

    def argument(self, call: str, path: Path, value: Any) -> Ref | FixedValue | None:
        """Return the reference for an argument's value, or why it stays fixed though results hold it; None if they do not."""
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
        """Return an answer with references for values that have one place, and the values that have several."""
        kept: list[FixedValue] = []

        def fill(path: Path, leaf: Any) -> Any:
            places = self._places.get(_key(leaf), []) or self._places.get(_key(_read_number(leaf)), [])
            if len(places) > 1:
                kept.append(FixedValue(ANSWER, dotted(path), leaf, f"in {len(places)} places", tuple(map(shown, places))))
            return places[0] if len(places) == 1 else leaf

        return _filled(value, fill), tuple(kept)

    def refuted(self, answer: Any, why: str) -> tuple[FixedValue, ...]:
        """Return an answer's references as fixed values."""
        found = [(path, ref) for path, ref in leaves(answer) if isinstance(ref, Ref)]
        return tuple(FixedValue(ANSWER, dotted(path), ref.of(self.values[ref.call]), why, (shown(ref),)) for path, ref in found)

    def _is_asked(self, value: Any) -> bool:
        return value.casefold() in self._asked if isinstance(value, str) else abs(value) in self._asked_numbers

    def _inside(self, value: Any) -> tuple[str, ...]:
        if isinstance(value, str):
            return tuple(call for call, text, _ in self._texts if value in text)
        return tuple(call for call, _, numbers in self._texts if abs(value) in numbers)


def _read_number(value: Any) -> int | float | None:
    """Return the number that a text spells; models answer in text."""
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
    """Return the plan of the steps."""
    calls = []
    for step, goal in zip(steps, _goals(steps, query), strict=True):
        used = {ref.call for ref in refs(step.arguments)}
        after = tuple(name for name in step.after if name not in used)
        calls.append(PlannedCall(step.id, step.made.tool, step.arguments, goal, fails=step.made.failed, after=after))
    return Plan(tuple(calls), answer)


def _goals(steps: Sequence[PlanStep], query: Query) -> list[str]:
    """Return a sentence for each step, none of which is part of another one or of the question."""
    wordings = itertools.chain(
        ([_goal(number, step) for number, step in enumerate(steps, 1)],),
        ([f"Step {number} of plan {attempt}." for number in range(1, len(steps) + 1)] for attempt in itertools.count(1)),
    )
    return next(goals for goals in wordings if _tells_apart(goals, (query.text, query.context)))


def _tells_apart(goals: Collection[str], asked: Iterable[str]) -> bool:
    texts = (*goals, *asked)
    return all(sum(goal in text for text in texts) == 1 for goal in goals)


_UNSAFE = re.compile(r"[^\w .,:;()'/+=@#%*-]")
"""Characters that formats escape or rearrange: a goal is looked for in prompts literally."""


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
