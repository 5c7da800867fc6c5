"""Weaknesses: what a simulated model does wrong until its prompt shows it how: a simulation, and no claim about any model.

In a trial in which a weakness shows, the model follows a *spoiled* plan: arguments changed, a call left out, or the answer stated
in another form. It believes what it gets, so that neither feedback nor a retry helps. A request whose prompt *covers* the weakness
is answered by the right plan: it holds the key phrase of a hint, or its demonstrations show it done right.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from whichloop.protocol import Act, Answer, Message, Move, Plan, PlannedCall, Ref, Request, Role, ToolSpec, refs, render_value
from whichloop.protocol.digest import unit
from whichloop.protocol.program import EXAMPLES

from .demonstrations import DemonstrationContent, is_plain_number, numbers_of, read_demonstrations, rounded, texts_of
from .faults import ANSWER, mislead
from .policy import MADE_UP
from .profiles import Weakness
from .prompt_view import read_prompt
from .receipts import Ledger, Truth


@dataclass(frozen=True, slots=True)
class Cure:
    """What helps against a kind of weakness when the instructions say it."""

    hint: str
    phrase: re.Pattern[str]
    """What of the hint must be there. No loop's own prompt and no suite's text has it."""


CURES: Mapping[str, Cure] = {
    "unit": Cure(
        "Give numbers to tools in the unit of the question, never scaled.",
        re.compile(r"\bnever\s+scaled\b", re.IGNORECASE),
    ),
    "date": Cure(
        "Write dates in a tool's arguments as YYYY-MM-DD, with the year first.",
        re.compile(r"\byear\s+first\b", re.IGNORECASE),
    ),
    "step": Cure(
        "Leave no call out before you answer, not even the last one.",
        re.compile(r"\bleave\s+no\s+(?:call|step)\s+out\b", re.IGNORECASE),
    ),
    "answer": Cure(
        "State a number in full digits, never in thousands.",
        re.compile(r"\bnever\s+in\s+thousands\b", re.IGNORECASE),
    ),
}
"""Kind of weakness → its cure."""


# --- what a request shows ---


@dataclass(frozen=True)
class PromptParts:
    """A request's messages: those of the task at hand, and the demonstrations, which are of other tasks."""

    live: Sequence[Message]
    examples: Sequence[Message] = ()

    @cached_property
    def instructions(self) -> str:
        """Instructions and questions: what the model is told, not what it or a tool has said."""
        return "\n".join(message.content for message in self.live if message.role in ("system", "user"))

    @cached_property
    def example_texts(self) -> tuple[str, ...]:
        """Texts of the demonstrations that are messages."""
        return texts_of(self.examples)

    @cached_property
    def labelled(self) -> tuple[str, ...]:
        """Questions and answers that stand as examples under the instructions."""
        parts = (message.content.partition(EXAMPLES) for message in self.live if message.role == "system")
        return tuple(listed for _, separator, listed in parts if separator)


def split_examples(request: Request) -> PromptParts:
    """Split a request's messages into those of the task at hand and the demonstrations."""
    if not request.examples:
        return PromptParts(request.messages)
    start = sum(message.role == "system" for message in request.messages[:1])  # a later one may be of a demonstration
    end = start + request.examples
    return PromptParts((*request.messages[:start], *request.messages[end:]), request.messages[start:end])


# --- slips ---


@dataclass(frozen=True, slots=True)
class Slip:
    """A weakness that shows in a trial."""

    kind: str
    calls: frozenset[str] = frozenset()
    """Ids of the planned calls that it spoils."""
    tools: frozenset[str] = frozenset()
    """Their tools."""
    only: str | None = None
    """The one tool that the weakness is about; None: all."""
    specs: Mapping[str, ToolSpec] = field(default_factory=dict)

    def is_covered(self, prompt: PromptParts) -> bool:
        """Whether the prompt shows how to do it right."""
        if CURES[self.kind].phrase.search(prompt.instructions):
            return True
        if self.kind == "answer":
            demonstrated = read_demonstrations((*prompt.example_texts, *prompt.labelled), frozenset())
            return any(is_plain_number(answer) for answer in demonstrated.answers)
        if not prompt.examples:
            return False
        demonstrated = read_demonstrations(prompt.example_texts, self.tools)
        return any(
            self._is_right(tool, arguments, demonstrated)
            for tool, arguments in demonstrated.calls
            if self._is_call(tool, arguments)
        )

    def spoiled(self, call: PlannedCall) -> PlannedCall:
        """Return a planned call as a model makes it that does not know better, and its alternatives likewise."""
        changed = tuple(map(self.spoiled, call.alternatives))
        alternatives = call.alternatives if changed == call.alternatives else changed
        arguments = self._arguments(call) if self.only in (None, call.tool) else call.arguments
        if arguments == call.arguments and alternatives is call.alternatives:
            return call
        return replace(call, arguments=arguments, alternatives=alternatives)

    def _arguments(self, call: PlannedCall) -> Mapping[str, Any]:
        if self.kind == "unit":
            return {name: _scaled(value, self._is_whole(call.tool, name)) for name, value in call.arguments.items()}
        if self.kind == "date":
            return {name: _day_first(value) for name, value in call.arguments.items()}
        return call.arguments

    def _is_call(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Return whether an object next to a tool's name can be its arguments, unlike the tool's description."""
        from .filling import fits  # JSON schema takes long to import, and most trials have no weakness

        spec = self.specs.get(tool)
        if spec is None:
            return not {"properties", "$ref"} & arguments.keys()
        return arguments.keys() <= spec.parameters.get("properties", {}).keys() and fits(spec.parameters, dict(arguments))

    def _is_right(self, tool: str, arguments: Mapping[str, Any], demonstrated: DemonstrationContent) -> bool:
        if self.kind == "unit":
            signs = [_unit_sign(number, demonstrated, self._is_whole(tool, name)) for name, number in numbers_of(arguments)]
            return True in signs and False not in signs
        if self.kind == "date":
            texts = list(_texts(list(arguments.values())))
            return any(map(_ISO_DATE.fullmatch, texts)) and not any(map(_DAY_FIRST.fullmatch, texts))
        return True

    def _is_whole(self, tool: str, name: str) -> bool:
        """Whether a tool takes only whole numbers there."""
        spec = self.specs.get(tool)
        item = spec.parameters.get("properties", {}).get(name) if spec is not None else None
        return isinstance(item, Mapping) and item.get("type") == "integer"


def _unit_sign(number: float, demonstrated: DemonstrationContent, whole: bool) -> bool | None:
    """Return True for a number given as it was said, False for a hundredth of one that was, None if nothing tells."""
    numbers = demonstrated.numbers
    is_hundredth = rounded(100 * number) in numbers or (whole and any(math.trunc(other / 100) == number for other in numbers))
    if number in numbers:
        return None if is_hundredth or number in demonstrated.results else True
    return False if is_hundredth else None


def slips_of(
    plan: Plan, weaknesses: Sequence[Weakness], key: tuple[object, ...], specs: Mapping[str, ToolSpec]
) -> tuple[Slip, ...]:
    """Return the weaknesses that show in a trial. They are drawn by trial and kind, the same for every loop; one that has nothing
    to spoil in the plan never shows. `key`: of the trial. `specs`: tools by name.
    """
    drawn = [weakness for weakness in weaknesses if unit(*key, "weakness", weakness.kind) < weakness.rate]
    slips = [_slip(plan, weakness, specs) for weakness in drawn]
    return tuple(slip for slip in slips if slip.calls or slip.kind == "answer")


def chosen(slips: Sequence[Slip], faults: Collection[str] | None) -> tuple[Slip, ...]:
    """Return the slips, each at those calls alone where a fault of its kind strikes, KIND@ROLE:CALL, at any role; None: at all."""
    if faults is None:
        return tuple(slips)
    at = {(kind, point.partition(":")[2]) for kind, _, point in (text.partition("@") for text in faults)}
    cut = [replace(slip, calls=frozenset(call for call in slip.calls if (f"weakness.{slip.kind}", call) in at)) for slip in slips]
    return tuple(slip for slip in cut if slip.calls or (slip.kind == "answer" and ("weakness.answer", ANSWER) in at))


def _slip(plan: Plan, weakness: Weakness, specs: Mapping[str, ToolSpec]) -> Slip:
    slip = Slip(weakness.kind, only=weakness.tool, specs=specs)
    concerned = [call for call in plan.calls if weakness.tool in (None, call.tool)]
    if weakness.kind == "answer":
        return slip
    spoiled_calls = concerned[-1:] if weakness.kind == "step" else [call for call in plan.calls if slip.spoiled(call) is not call]
    return replace(slip, calls=frozenset(call.id for call in spoiled_calls), tools=frozenset(call.tool for call in spoiled_calls))


def _scaled(value: Any, whole: bool) -> Any:
    """Return a hundredth of a number, cut to a whole one where only those are taken; anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _HUGE:
        return value
    if whole:
        return math.trunc(value / 100)
    hundredth = rounded(value / 100)
    return int(hundredth) if hundredth == int(hundredth) else hundredth


_HUGE = 1e15
_ISO_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_DAY_FIRST = re.compile(r"\d{2}/\d{2}/\d{4}")


def _day_first(value: Any) -> Any:
    """Return a value with its ISO dates, at any depth, written with the day first."""
    if isinstance(value, str):
        match = _ISO_DATE.fullmatch(value)
        return value if match is None else "/".join(reversed(match.groups()))
    if isinstance(value, Mapping):
        return {key: _day_first(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_day_first(item) for item in value]
    return value


def is_day_first(value: Any, right: Any) -> bool:
    """Whether a value is the date that was meant, with the day first."""
    return isinstance(right, str) and value != right and value == _day_first(right)


def is_hundredth(value: Any, right: Any) -> bool:
    """Whether a value is a hundredth of the number that was meant, or the whole number in that."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value == right:
        return False
    return value in (_scaled(right, whole=False), _scaled(right, whole=True))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for item in value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ():
        yield from _texts(item)


def in_thousands(value: Any) -> Any:
    """Return a number as so many thousand, in words; 0, and anything else, as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value or not abs(value) < _HUGE:
        return value
    return f"{render_value(_scaled(value / 10, whole=False))} thousand"


_IN_THOUSANDS = re.compile(r"-?[\d.e+-]+ thousand")


# --- the plan that is followed ---


@dataclass(frozen=True, slots=True)
class WorkingPlan:
    """The plan that the model follows in one request."""

    plan: Plan
    spoiled: Mapping[str, frozenset[tuple[str, str]]] = field(default_factory=dict)
    """Planned call → the slips in it, each as kind and the call that it befell."""
    forgotten: Mapping[str, str] = field(default_factory=dict)
    """Calls that are left out, with their goals."""
    says: Callable[[Any], Any] | None = None
    """The form in which an answer is stated; None: as it is."""

    def slipped(
        self,
        calls: Sequence[str],
        move: Move | None,
        *,
        results: Collection[str] = (),
        due: Collection[str] = (),
        is_informed: bool = False,
    ) -> set[tuple[str, str]]:
        """Return the slips that a move shows, as kind and planned call (or `answer`).

        `calls`: ids of the planned calls that it makes. `results`: of those whose results the model has, or thinks it has: a
        spoiled call may be the same as another that was made, and is then never made itself. `due`: of those that it would
        make by the right plan. `is_informed`: the model has all results that it thinks it needs.
        """
        if move is None:
            return set()
        is_answer = isinstance(move, Answer)
        slips = {("step", name) for name in self.forgotten if name in due or (is_answer and is_informed)}
        calls_shown = (*results, *(calls if isinstance(move, Act) else ()))
        slips = slips.union(*(self.spoiled.get(name, frozenset()) for name in calls_shown))
        if isinstance(move, Answer) and self.says is not None and is_in_thousands(move.value):
            slips.add(("answer", ANSWER))
        return slips


def is_in_thousands(value: Any) -> bool:
    """Whether a value is a text that states a number in thousands."""
    return isinstance(value, str) and _IN_THOUSANDS.fullmatch(value) is not None


class PlanWithSlips:
    """The right plan of a trial and, where a weakness shows, what becomes of it from request to request."""

    def __init__(self, plan: Plan, slips: Sequence[Slip]) -> None:
        self.plan = plan
        self.slips = slips
        self.right = WorkingPlan(plan)
        self._plans: dict[tuple[frozenset[str], frozenset[str]], WorkingPlan] = {}
        """Kept: planned calls are known by their identity."""

    def at(self, prompt: PromptParts, oracle: Mapping[str, Truth], ledger: Ledger, role: Role = Role.DECIDE) -> WorkingPlan:
        """Return the plan that is followed in a request. A planner forgets nothing: who chooses the calls does.

        A call whose result the prompt shows was made right, and counts as such: it was decided on by a request that covers the
        weakness, such as another predictor's.
        """
        slips = [slip for slip in self.slips if slip.kind != "step" or role is not Role.PLAN]
        uncovered = [slip for slip in slips if not slip.is_covered(prompt)]
        if not uncovered:
            return self.right
        concerned = frozenset[str]().union(*(slip.calls for slip in uncovered))
        made_right = self._made_right(concerned, "\n".join(message.content for message in prompt.live), oracle, ledger)
        key = (frozenset(slip.kind + (slip.only or "") for slip in uncovered), made_right)
        if key not in self._plans:
            self._plans[key] = _spoil(self.plan, uncovered, made_right)
        return self._plans[key]

    def _made_right(self, concerned: Collection[str], text: str, oracle: Mapping[str, Truth], ledger: Ledger) -> frozenset[str]:
        """Return those of some calls whose right form a text shows the result of: its receipt, and what is used of it."""
        right = {name: oracle[name].call for name in concerned if name in oracle and oracle[name].call in text}
        if not right:
            return frozenset()
        results = read_prompt(self.plan, oracle, ledger, text).results
        return frozenset(name for name, digest in right.items() if name in results and results[name].entry.call == digest)


def _spoil(plan: Plan, slips: Sequence[Slip], made_right: Collection[str]) -> WorkingPlan:
    """Return the plan as the slips leave it; `made_right`: ids of calls that were made right."""
    forgotten = frozenset(name for slip in slips if slip.kind == "step" for name in slip.calls if name not in made_right)
    blamed: dict[str, set[tuple[str, str]]] = {}
    calls = []
    for call in plan.calls:
        if call.id in forgotten:
            continue
        spoiled_call = call
        for slip in slips:
            if slip.kind != "step" and call.id in slip.calls and call.id not in made_right:
                spoiled_call = slip.spoiled(spoiled_call)
                blamed.setdefault(call.id, set()).add((slip.kind, call.id))
        needed = {ref.call for other in (call, *call.alternatives) for ref in refs(other.arguments)} & forgotten
        if needed or forgotten.intersection(call.after):
            spoiled_call = _made_up_call(spoiled_call, forgotten)
            blamed.setdefault(call.id, set()).update(("step", name) for name in needed)
        calls.append(spoiled_call)
    answer = _made_up_answer(plan.answer, forgotten)
    says = in_thousands if any(slip.kind == "answer" for slip in slips) else None
    goals = {call.id: call.goal for call in plan.calls if call.id in forgotten}
    return WorkingPlan(Plan(tuple(calls), answer), {name: frozenset(causes) for name, causes in blamed.items()}, goals, says)


def _made_up_call(call: PlannedCall, forgotten: Collection[str]) -> PlannedCall:
    arguments: Mapping[str, Any] = _made_up(call.arguments, forgotten)
    after = tuple(name for name in call.after if name not in forgotten)
    alternatives = tuple(_made_up_call(other, forgotten) for other in call.alternatives)
    return replace(call, arguments=arguments, after=after, alternatives=alternatives)


def _made_up_answer(answer: Any, forgotten: Collection[str]) -> Any:
    """Return an answer, made up if it comes from what was forgotten; one that names no results comes from all of them."""
    if forgotten and answer is not None and not any(refs(answer)):
        return mislead(answer)
    return _made_up(answer, forgotten)


def _made_up(value: Any, forgotten: Collection[str]) -> Any:
    """Return a value with something made up in the place of results that were never asked for."""
    if isinstance(value, Ref):
        return MADE_UP if value.call in forgotten else value
    if isinstance(value, Mapping):
        return {key: _made_up(item, forgotten) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_made_up(item, forgotten) for item in value]
    return value
