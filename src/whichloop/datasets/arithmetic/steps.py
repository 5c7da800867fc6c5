"""What the word problems are written with: a plan that works out each result as it goes, names, and numbers as text."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from whichloop.protocol import PlannedCall, Ref, resolve

from .. import calculator

NAMES = (
    "Amina", "Bruno", "Chiara", "Dmitri", "Esi", "Farid", "Greta", "Hana", "Ivo", "Jia",
    "Kofi", "Lucia", "Mateo", "Nadia", "Oskar", "Priya", "Quentin", "Rosa", "Sven", "Tala",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class WordProblem:
    """A word problem before it becomes a task."""

    sentences: tuple[str, ...]
    """Its sentences, in order."""
    question: str
    answer: Ref | None
    expected: Fraction | int | None
    """The answer, worked out without the tools; None if there is no answer."""


class Steps:
    """The plan of a story as it is being written."""

    def __init__(self) -> None:
        self.calls: list[PlannedCall] = []
        self._resolved_calls: list[tuple[str, Any]] = []
        self._values: dict[str, Any] = {}

    def call(self, goal: str, tool: str, **arguments: Any) -> Ref:
        """Plan a call that finds `goal`, and return the reference to its result."""
        ref, resolved = self._plan(goal, tool, arguments, fails=False)
        self._values[ref.call] = _FUNCTIONS[tool](**resolved)
        return ref

    def failing_call(self, goal: str, tool: str, **arguments: Any) -> None:
        """Plan a call that ends in an error."""
        self._plan(goal, tool, arguments, fails=True)

    @property
    def repeats(self) -> bool:
        """Whether two calls are the same once results stand in the place of references."""
        return any(call in self._resolved_calls[:index] for index, call in enumerate(self._resolved_calls))

    def _plan(self, goal: str, tool: str, arguments: dict[str, Any], fails: bool) -> tuple[Ref, dict[str, Any]]:
        ref, resolved = Ref(f"c{len(self.calls) + 1}"), resolve(arguments, self._values)
        self.calls.append(PlannedCall(ref.call, tool, arguments, f"Find {goal}.", fails=fails))
        self._resolved_calls.append((tool, resolved))
        return ref, resolved


_FUNCTIONS = {tool.name: tool.function for tool in calculator.TOOLS}


def price_text(amount: Fraction) -> str:
    return f"${float(amount):.2f}"
