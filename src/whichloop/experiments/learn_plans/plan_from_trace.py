"""Turning a trace into a plan: the calls with a result, with references to earlier results. Pure functions."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from whichloop.metrics.trace import ModelExchange, ToolRun, TraceEvent
from whichloop.protocol import Plan, PlannedCall, Query, Ref, refs, render_value
from whichloop.protocol.json_text import canonical_json, whole_numbers_as_int
from whichloop.protocol.redact import MARK, redact
from whichloop.protocol.wire import from_json

MIN_NUMBER = 10
"""Minimum absolute value of an integer to trace to its source; smaller ones are too common."""
MIN_TEXT_CHARS = 3
"""Minimum length of a text to trace to its source."""
MAX_GOAL = 160
"""Maximum length of a goal."""
ANSWER = "answer"

Kind = Literal["json", "text", "other"]
"""The kind of a tool's result: a JSON value into which references can point; text; an object without references."""

_TRUE_RESULT = frozenset({"", "tool.slow", "calls.late", "calls.too_early"})
"""Faults under which a call still has its tool's result."""
_CUT = re.compile(r"\.\.\. \(truncated, \d+ characters in all\)$")
"""The end of a text that `cap` has cut."""


class Unlearnable(ValueError):
    """No plan can be learned from a trial; the message says why."""


@dataclass(frozen=True, slots=True)
class TrialCall:
    tool: str
    arguments: Mapping[str, Any]
    text: str | None
    """The result; None if some of it was cut off or taken out, so that no value in it can be trusted."""
    turn: int
    """The number of its turn; calls of one turn do not depend on each other's results."""

    @property
    def key(self) -> str:
        """A key that is equal for equal calls."""
        return canonical_json([self.tool, whole_numbers_as_int(self.arguments)])


@dataclass(frozen=True, slots=True)
class FixedValue:
    """A value that stays fixed although earlier results contain it."""

    call: str
    """Id of the planned call, or `answer`."""
    argument: str
    """Keys and indices, joined by dots; empty for an answer that is one value."""
    value: str | int | float
    seen: tuple[str, ...]
    """The places in earlier results that contain it."""


@dataclass(frozen=True, slots=True)
class PlanStep:
    id: str
    call: TrialCall
    arguments: Mapping[str, Any]
    """The arguments, with references."""
    after: tuple[str, ...]
    """Ids of the calls of the turn before."""


@dataclass(frozen=True, slots=True)
class PlanDraft:
    """The steps of a plan without an answer."""

    steps: tuple[PlanStep, ...]
    sources: Sources
    fixed_values: tuple[FixedValue, ...]

    def with_literals(self, call: str) -> PlanDraft:
        """Return the draft with the run's own values in place of one call's references."""
        step = next(step for step in self.steps if step.id == call)
        steps = tuple(replace(step, arguments=step.call.arguments) if other is step else other for other in self.steps)
        pairs = zip(leaves(step.arguments), leaves(step.call.arguments), strict=True)
        more = [FixedValue(call, dotted(path), leaf, (ref_text(ref),)) for (path, ref), (_, leaf) in pairs if isinstance(ref, Ref)]
        return replace(self, steps=steps, fixed_values=(*self.fixed_values, *more))


def successful_calls(events: Sequence[TraceEvent]) -> tuple[TrialCall, ...]:
    """Return the calls of a trial that gave a result, in the order in which the results came, each once.

    Raises Unlearnable if no plan can represent them: one call with two results, a call whose only result a fault replaced, a secret
    among the arguments.
    """
    calls: dict[str, TrialCall] = {}
    spoiled: dict[str, str] = {}
    turn = 0
    for event in events:
        turn += isinstance(event, ModelExchange)  # calls between two requests are one turn
        if not isinstance(event, ToolRun) or not event.ok:
            continue
        call = _call_of(event, turn)
        if event.fault not in _TRUE_RESULT:
            spoiled[call.key] = call.tool
        elif calls.setdefault(call.key, call).text != call.text:
            raise Unlearnable(f"it called {call.tool} twice alike and got different results, which no plan can say")
    for key in spoiled.keys() - calls.keys():
        raise Unlearnable(f"the only result of a call of {spoiled[key]} was spoiled by a fault")
    return tuple(calls.values())


def _call_of(event: ToolRun, turn: int) -> TrialCall:
    tool, arguments = event.call.tool, event.call.arguments
    if not isinstance(arguments, dict):
        raise Unlearnable("its trace holds a call that cannot be read")
    text = canonical_json(arguments)
    if MARK in text or redact(text) != text:
        raise Unlearnable(f"there is a secret among the arguments of a call of {tool}")
    return TrialCall(tool, arguments, None if MARK in event.result or _CUT.search(event.result) else event.result, turn)


# --- values ---

Path = tuple[str | int, ...]


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield all values other than objects and lists, with their keys and indices."""
    unvisited = [(path, value)]
    while unvisited:
        path, value = unvisited.pop()
        if isinstance(value, dict | list):
            items = list(value.items() if isinstance(value, dict) else enumerate(value))
            unvisited.extend(((*path, key), item) for key, item in reversed(items))
        else:
            yield path, value


def _filled(value: Any, fill: Callable[[Path, Any], Any], path: Path = ()) -> Any:
    """Return a value with what `fill` gives in place of each leaf."""
    if isinstance(value, dict):
        return {key: _filled(item, fill, (*path, key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, fill, (*path, index)) for index, item in enumerate(value)]
    return fill(path, value)


def dotted(path: Path) -> str:
    """Return a path within a result as text: `orders.0.id`."""
    return ".".join(map(str, path))


def ref_text(ref: Ref) -> str:
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
        return value if render_value(value) == text else text  # otherwise it is a text that happens to be JSON
    except ValueError:
        return text


def _key(value: Any) -> Hashable:
    """Return a key that is equal for equal numbers or texts; None for uninformative values (true, false, null, no text)."""
    if isinstance(value, bool) or value is None or value == "":
        return None
    return ("text" if isinstance(value, str) else "number"), value


_DIGITS = re.compile(r"\d+(?:[.,]\d+)*")


def _numbers(text: str) -> frozenset[float]:
    """Return every number in a text without its sign; for "1,250" both readings."""
    parts = (part for token in _DIGITS.findall(text) for part in (token.replace(",", ""), *token.split(",")))
    return frozenset(float(part) for part in parts if part.count(".") <= 1)


class Sources:
    """The possible sources of values: the question and the results so far."""

    def __init__(self, query: Query) -> None:
        self._question = query.full_text.casefold()
        self._asked_numbers = _numbers(query.full_text)
        self._places: dict[Hashable, list[Ref]] = {}
        self.values: dict[str, Any] = {}
        """Call → its result as references see it."""

    def add(self, call: str, result_call: TrialCall, kind: Kind) -> None:
        """Add a result. Values in it that were arguments of the call come from elsewhere and do not count."""
        arguments = {_key(leaf) for _, leaf in leaves(result_call.arguments)}
        self.values[call] = result_value(result_call.text, kind)
        for path, leaf in leaves(self.values[call]):
            key = _key(leaf)
            if key is not None and not (path and key in arguments):
                self._places.setdefault(key, []).append(Ref(call, path))

    def argument(self, call: str, path: Path, value: Any) -> Ref | FixedValue | None:
        """Return the reference for an argument's value; a FixedValue if it has several places, is a common value, or stands in the
        question too; None if no result contains it."""
        places = self._places.get(_key(value), [])
        if len(places) == 1 and self._is_telling(value):
            return places[0]
        return FixedValue(call, dotted(path), value, tuple(map(ref_text, places))) if places else None

    def _is_telling(self, value: Any) -> bool:
        """Tell whether a value is rare enough to come from the one place that has it, and is not in the question."""
        if isinstance(value, str):
            return len(value) >= MIN_TEXT_CHARS and value.casefold() not in self._question
        return (abs(value) >= MIN_NUMBER or value != int(value)) and abs(value) not in self._asked_numbers

    def answer(self, value: Any) -> tuple[Any, tuple[FixedValue, ...]]:
        """Return an answer with references for values that have one place, and the values that have several."""
        fixed_values: list[FixedValue] = []

        def fill(path: Path, leaf: Any) -> Any:
            places = self._places.get(_key(leaf), []) or self._places.get(_key(_read_number(leaf)), [])
            if len(places) > 1:
                fixed_values.append(FixedValue(ANSWER, dotted(path), leaf, tuple(map(ref_text, places))))
            return places[0] if len(places) == 1 else leaf

        return _filled(value, fill), tuple(fixed_values)

    def refuted(self, answer: Any) -> tuple[FixedValue, ...]:
        """Return an answer's references as fixed values."""
        places = [(path, ref) for path, ref in leaves(answer) if isinstance(ref, Ref)]
        return tuple(FixedValue(ANSWER, dotted(path), ref.of(self.values[ref.call]), (ref_text(ref),)) for path, ref in places)


def _read_number(value: Any) -> int | float | None:
    """Return the number that a text spells; models answer in text."""
    try:
        number = from_json(value.strip()) if isinstance(value, str) else None
    except ValueError:
        return None
    return number if isinstance(number, int | float) and not isinstance(number, bool) else None


# --- plans ---


def draft_of(calls: Sequence[TrialCall], query: Query, kinds: Mapping[str, Kind], *, any_order: bool = False) -> PlanDraft:
    """Return the draft of a plan: calls refer to results of earlier turns, and follow the previous turn's calls unless `any_order`.

    `kinds`: tool → kind of its results; for other tools their results show the kind.
    """
    sources = Sources(query)
    steps: list[PlanStep] = []
    fixed_values: list[FixedValue] = []
    previous: tuple[str, ...] = ()
    numbered = ((f"c{number}", call) for number, call in enumerate(calls, 1))
    for _, group in itertools.groupby(numbered, key=lambda item: item[1].turn):
        turn = list(group)
        for name, call in turn:
            found = {path: sources.argument(name, path, leaf) for path, leaf in leaves(call.arguments)}
            fixed_values += [source for source in found.values() if isinstance(source, FixedValue)]
            from_results = {path: source for path, source in found.items() if isinstance(source, Ref)}
            arguments = _filled(call.arguments, from_results.get)
            steps.append(PlanStep(name, call, arguments, () if any_order else previous))
        for name, call in turn:
            sources.add(name, call, kinds.get(call.tool, "json"))
        previous = tuple(name for name, _ in turn)
    return PlanDraft(tuple(steps), sources, tuple(fixed_values))


def plan_of(steps: Sequence[PlanStep], answer: Any, query: Query) -> Plan:
    calls = []
    for step, goal in zip(steps, _goals(steps, query), strict=True):
        used = {ref.call for ref in refs(step.arguments)}
        after = tuple(name for name in step.after if name not in used)
        calls.append(PlannedCall(step.id, step.call.tool, step.arguments, goal, after=after))
    return Plan(tuple(calls), answer)


def _goals(steps: Sequence[PlanStep], query: Query) -> list[str]:
    """Return a sentence for each step, none of which is part of another one or of the question."""
    wordings = itertools.chain(
        ([_goal(number, step) for number, step in enumerate(steps, 1)],),
        ([f"Step {number} of plan {attempt}." for number in range(1, len(steps) + 1)] for attempt in itertools.count(1)),
    )
    questions = (query.text, query.context)
    return next(goals for goals in wordings if all(sum(goal in text for text in (*goals, *questions)) == 1 for goal in goals))


_UNSAFE = re.compile(r"[^\w .,:;()'/+=@#%*-]")
"""Characters that formats escape or rearrange, which a goal must not have because prompts are searched for it literally."""


def _goal(number: int, step: PlanStep) -> str:
    arguments = ", ".join(f"{name} {_value_text(value)}" for name, value in step.arguments.items())
    goal = f"Step {number}: call {step.call.tool}{f' with {arguments}' if arguments else ''}"
    goal = " ".join(_UNSAFE.sub(" ", redact(goal)).split())
    return f"{goal[: MAX_GOAL - 1].rstrip()}."


def _value_text(value: Any) -> str:
    if isinstance(value, Ref):
        return f"from step {value.call.removeprefix('c')}"
    if isinstance(value, dict | list):
        return "as an object" if isinstance(value, dict) else "as a list"
    return f"'{value}'" if isinstance(value, str) else json.dumps(value)
