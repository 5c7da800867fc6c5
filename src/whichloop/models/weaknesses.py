"""Weaknesses: what a simulated model does wrong until its prompt shows it how: a simulation, and no claim about any model.

In a trial in which a weakness shows, the model follows a *spoiled* plan: arguments changed, a call left out, or the answer stated
in another form. It believes what it gets, so that neither feedback nor a retry helps. A request whose prompt *covers* the weakness
is answered by the right plan: its instructions hold the key phrase of a hint, or its demonstrations show it done right. So a better
prompt gains, and the hints of `CURES` are what an optimizer has to find.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from whichloop.protocol import Message, Plan, PlannedCall, Ref, Role, ToolCall, ToolSpec, refs, render_value
from whichloop.protocol.json_text import unit
from whichloop.protocol.receipts import MARK, leaves
from whichloop.protocol.wire import EXAMPLES

from .faults import ANSWER, mislead
from .filling import fits
from .policy import MADE_UP
from .profiles import Weakness
from .receipts import Ledger, Truth, read_prompt

CURES: Mapping[str, str] = {
    "unit": "Give numbers to tools in the unit of the question, never scaled.",
    "date": "Write dates in a tool's arguments as YYYY-MM-DD, with the year first.",
    "step": "Leave no call out before you answer, not even the last one.",
    "answer": "State a number in full digits, never in thousands.",
}
"""Kind of weakness → the hint that helps against it when the instructions say it."""
PHRASES: Mapping[str, re.Pattern[str]] = {
    "unit": re.compile(r"\bnever\s+scaled\b", re.IGNORECASE),
    "date": re.compile(r"\byear\s+first\b", re.IGNORECASE),
    "step": re.compile(r"\bleave\s+no\s+(?:call|step)\s+out\b", re.IGNORECASE),
    "answer": re.compile(r"\bnever\s+in\s+thousands\b", re.IGNORECASE),
}
"""What of the hint must be there. No loop's own prompt and no suite's text has it."""


# --- what a request shows ---


@dataclass(frozen=True)
class PromptParts:
    """A request's messages: those of the task at hand, and the demonstrations, which are of other tasks."""

    live: Sequence[Message]
    examples: Sequence[Message] = ()

    @functools.cached_property
    def instructions(self) -> str:
        """Instructions and questions: what the model is told, not what it or a tool has said."""
        return "\n".join(message.content for message in self.live if message.role in ("system", "user"))

    @functools.cached_property
    def texts(self) -> list[str]:
        """What demonstrations show, without the backslashes of JSON in JSON; a reply that is nothing but a number is an answer."""
        texts = [
            f"{'Answer: ' if message.role == 'assistant' else ''}{message.content}\n"
            + "\n".join(f"{call.name} {call.arguments}" for call in message.calls)
            for message in self.examples
        ]
        return [re.sub(r'\\+"', '"', text) for text in texts]

    def calls_of(self, tools: Collection[str], specs: Mapping[str, ToolSpec]) -> Iterator[ToolCall]:
        """Yield the calls of some tools in demonstrations: a name and, right behind it, a JSON object that the tool takes."""
        names = "|".join(map(re.escape, sorted(tools, key=len, reverse=True)))
        for text in self.texts if tools else ():
            for found in re.finditer(rf"(?<!\w)({names})(?!\w){_BETWEEN}(?=\{{)", text):
                with contextlib.suppress(ValueError, RecursionError):
                    arguments, _ = json.JSONDecoder().raw_decode(text, found.end())
                    if found[1] not in specs or fits(specs[found[1]].parameters, arguments):  # a list of tools is no call
                        yield ToolCall(found[1], arguments)

    @functools.cached_property
    def numbers(self) -> tuple[set[float], set[float]]:
        """The numbers that users say in demonstrations, and those that results give."""
        results = "\n".join(found[2] for message in self.examples for found in _RESULT.finditer(message.content))
        said = "\n".join(_NOT_SAID.sub(" ", message.content) for message in self.examples if message.role == "user")
        return _numbers_in(said), _numbers_in(results)


_BETWEEN = r"(?i:[^\w{]+\w*(?:arg|param|input|tool|name|function|call)\w*){0,4}[^\w{]*"
"""What stands between a tool's name and its arguments: marks, and words that say that arguments come."""
_STATED = re.compile(r"(?:answer|response)\b[ \t#\]\[:=>*\"']*\n?[ \t]*(-?[\d.,]+)[ \t]*(?=[\"<}]|\Z|\n)", re.IGNORECASE)
_RESULT = re.compile(r"\[r:([0-9a-f.]{11})\](.*?)\[\1:r\]", re.DOTALL)
_NOT_SAID = re.compile(rf"{_RESULT.pattern}|\{{[^{{}}]*\}}|{MARK.pattern}", re.DOTALL)
"""Results, and arguments of calls."""
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][-+]?\d+)?(?!\w)")


def _numbers_in(text: str) -> set[float]:
    return {_rounded(float(number.replace(",", ""))) for number in _NUMBER.findall(text)}


def _rounded(number: float) -> float:
    """Round to twelve significant digits, because computed numbers are compared."""
    return float(f"{number:.12g}")


# --- what a model gets wrong ---

_HUGE = 1e15
_ISO_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_DAY_FIRST = re.compile(r"\d{2}/\d{2}/\d{4}")
_IN_THOUSANDS = re.compile(r"-?[\d.e+-]+ thousand")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _HUGE


def hundredth(value: Any, *, whole: bool = False) -> Any:
    """Return a hundredth of a number, cut to a whole one where only those are taken; anything else as it is."""
    if not _is_number(value):
        return value
    scaled = math.trunc(value / 100) if whole else _rounded(value / 100)
    return int(scaled) if scaled == int(scaled) else scaled


def day_first(value: Any) -> Any:
    """Return a value with its ISO dates, at any depth, written with the day first."""
    if isinstance(value, str):
        match = _ISO_DATE.fullmatch(value)
        return value if match is None else "/".join(reversed(match.groups()))
    if isinstance(value, Mapping):
        return {key: day_first(item) for key, item in value.items()}
    return [day_first(item) for item in value] if isinstance(value, list | tuple) else value


def in_thousands(value: Any) -> Any:
    """Return a number as so many thousand, in words; 0, and anything else, as it is."""
    return f"{render_value(hundredth(value / 10))} thousand" if _is_number(value) and value else value


def is_in_thousands(value: Any) -> bool:
    """Whether a value is a text that states a number in thousands."""
    return isinstance(value, str) and _IN_THOUSANDS.fullmatch(value) is not None


@dataclass(frozen=True, slots=True)
class Slip:
    """A weakness that shows in a trial."""

    kind: str
    calls: frozenset[str] = frozenset()
    """Ids of the planned calls that it spoils."""
    tools: frozenset[str] = frozenset()
    only: str | None = None
    """The one tool that the weakness is about; None: all."""
    specs: Mapping[str, ToolSpec] = field(default_factory=dict)

    def spoiled(self, call: PlannedCall) -> PlannedCall:
        """Return a planned call as a model makes it that does not know better, and its alternatives likewise."""
        arguments = call.arguments
        if self.only in (None, call.tool) and self.kind == "unit":
            arguments = {name: hundredth(value, whole=self._is_whole(call.tool, name)) for name, value in arguments.items()}
        elif self.only in (None, call.tool) and self.kind == "date":
            arguments = {name: day_first(value) for name, value in arguments.items()}
        return replace(call, arguments=arguments, alternatives=tuple(map(self.spoiled, call.alternatives)))

    def is_covered(self, prompt: PromptParts) -> bool:
        """Whether the prompt shows how to do it right."""
        if PHRASES[self.kind].search(prompt.instructions):
            return True
        if self.kind == "answer":  # a demonstration, or an example under the instructions, states a plain number
            system = [message.content.partition(EXAMPLES)[2] for message in prompt.live if message.role == "system"]
            return any(_STATED.search(text) for text in (*prompt.texts, *system))
        return any(self._is_right(call, prompt) for call in prompt.calls_of(self.tools, self.specs))

    def _is_right(self, call: ToolCall, prompt: PromptParts) -> bool:
        """Whether a call of a demonstration shows how to do it right."""
        if self.kind == "date":
            texts = [leaf for _, leaf in leaves(call.arguments) if isinstance(leaf, str)]
            return any(map(_ISO_DATE.fullmatch, texts)) and not any(map(_DAY_FIRST.fullmatch, texts))
        if self.kind == "step":
            return True
        said, results = prompt.numbers
        is_right = False
        for name, value in call.arguments.items():
            if _is_number(value) and value:
                number, whole = _rounded(value), self._is_whole(call.name, name)
                is_scaled = _rounded(100 * number) in said or (
                    whole and any(hundredth(other, whole=True) == number for other in said)
                )
                if is_scaled and number not in said:
                    return False
                is_right = is_right or (number in said and number not in results and not is_scaled)
        return is_right

    def _is_whole(self, tool: str, name: str) -> bool:
        item = self.specs[tool].parameters.get("properties", {}).get(name) if tool in self.specs else None
        return isinstance(item, Mapping) and item.get("type") == "integer"


def slips_of(
    plan: Plan,
    weaknesses: Sequence[Weakness],
    key: tuple[object, ...],
    specs: Mapping[str, ToolSpec],
    faults: Collection[str] | None = None,
) -> tuple[Slip, ...]:
    """Return the weaknesses that show in a trial. They are drawn by trial and kind, the same for every loop; one that has nothing
    to spoil in the plan never shows. `key`: of the trial. `specs`: tools by name. `faults`: the only ones that strike,
    KIND@ROLE:CALL; None: all.
    """
    slips = []
    for weakness in weaknesses:
        slip = Slip(weakness.kind, only=weakness.tool, specs=specs)
        concerned = [call for call in plan.calls if weakness.tool in (None, call.tool)]
        spoiled = concerned[-1:] if slip.kind == "step" else [call for call in plan.calls if slip.spoiled(call) != call]
        at = [call.id for call in spoiled] + ([ANSWER] if slip.kind == "answer" else [])
        if faults is not None:
            listed = {text.partition(":")[2] for text in faults if text.startswith(f"weakness.{slip.kind}@")}
            at = [call for call in at if call in listed]
        if at and unit(*key, "weakness", slip.kind) < weakness.rate:
            slips.append(replace(slip, calls=frozenset(at), tools=frozenset(call.tool for call in spoiled)))
    return tuple(slips)


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


def followed_plan(
    plan: Plan, slips: Sequence[Slip], prompt: PromptParts, oracle: Mapping[str, Truth], ledger: Ledger, role: Role = Role.DECIDE
) -> WorkingPlan:
    """Return the plan that is followed in a request. A planner forgets nothing: who chooses the calls does.

    A call whose result the prompt shows was made right, and counts as such: it was decided on by a request that covers the
    weakness, such as another predictor's.
    """
    slips = [slip for slip in slips if not (slip.kind == "step" and role is Role.PLAN) and not slip.is_covered(prompt)]
    if not slips:
        return WorkingPlan(plan)
    text = "\n".join(message.content for message in prompt.live)
    made_right = set[str]()
    if any(name in oracle and oracle[name].call in text for slip in slips for name in slip.calls):
        results = read_prompt(plan, oracle, ledger, text).results
        made_right = {name for name, item in results.items() if name in oracle and item.entry.call == oracle[name].call}
    forgotten = frozenset(name for slip in slips if slip.kind == "step" for name in slip.calls - made_right)
    blamed: dict[str, frozenset[tuple[str, str]]] = {}
    calls = []
    for call in plan.calls:
        if call.id in forgotten:
            continue
        spoiling = [slip for slip in slips if slip.kind != "step" and call.id in slip.calls - made_right]
        made = functools.reduce(lambda made, slip: slip.spoiled(made), spoiling, call)
        needed = {ref.call for other in (call, *call.alternatives) for ref in refs(other.arguments)} & forgotten
        blamed[call.id] = frozenset([*((slip.kind, call.id) for slip in spoiling), *(("step", name) for name in needed)])
        calls.append(_made_up_call(made, forgotten))
    answer = plan.answer
    if forgotten and answer is not None and not any(refs(answer)):
        answer = mislead(answer)  # one that names no results comes from all of them
    says = in_thousands if any(slip.kind == "answer" for slip in slips) else None
    goals = {call.id: call.goal for call in plan.calls if call.id in forgotten}
    return WorkingPlan(Plan(tuple(calls), _made_up(answer, forgotten)), blamed, goals, says)


def _made_up_call(call: PlannedCall, forgotten: Collection[str]) -> PlannedCall:
    after = tuple(name for name in call.after if name not in forgotten)
    alternatives = tuple(_made_up_call(other, forgotten) for other in call.alternatives)
    arguments: Mapping[str, Any] = _made_up(call.arguments, forgotten)
    return replace(call, arguments=arguments, after=after, alternatives=alternatives) if forgotten else call


def _made_up(value: Any, forgotten: Collection[str]) -> Any:
    """Return a value with something made up in the place of results that were never asked for."""
    if isinstance(value, Ref):
        return MADE_UP if value.call in forgotten else value
    if isinstance(value, Mapping):
        return {key: _made_up(item, forgotten) for key, item in value.items()}
    return [_made_up(item, forgotten) for item in value] if isinstance(value, list | tuple) else value
