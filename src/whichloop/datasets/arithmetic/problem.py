"""How a word problem comes about: its steps are planned, and made, as its wording has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from random import Random
from typing import Any

from whichloop.protocol import Plan, Ref

from .. import calculator
from ..generating import Draw
from ..story import Story, Wording
from ..task import StatelessEnvironment

ENVIRONMENT = StatelessEnvironment(calculator.TOOLS)
NAMES = (
    "Amina", "Bruno", "Chiara", "Dmitri", "Esi", "Farid", "Greta", "Hana", "Ivo", "Jia",
    "Kofi", "Lucia", "Mateo", "Nadia", "Oskar", "Priya", "Quentin", "Rosa", "Sven", "Tala",
)  # fmt: skip
_ARGUMENTS = {"convert_units": ("value", "from_unit", "to_unit"), "percent_of": ("percent", "number")}


@dataclass(frozen=True, slots=True)
class WordProblem:
    """A word problem before it becomes a task."""

    sentences: list[str]
    question: str
    plan: Plan
    expected: Any
    repeats: bool
    """Whether two calls are the same once results stand in the place of references."""


class ProblemStory(Story):
    """A word problem as it is being written."""

    wording = Wording(__file__)

    def settle(self) -> None:
        self.begin(ENVIRONMENT)

    def find(self, goal: str, tool: str, *values: Any) -> Ref:
        """Plan the call that finds `goal`; a division by zero is planned to fail."""
        fails = tool == "divide" and self.seen(values[1]) == 0
        return self.call(f"Find {goal}.", tool, dict(zip(_ARGUMENTS.get(tool, ("a", "b")), values, strict=True)), fails=fails)

    def step(self, what: str, values: list[Any], goal: str) -> Ref:
        return self.find(goal, what, *values)

    def solve(
        self, names: Mapping[str, Any], answer: Any = None, told: list[str] | None = None, *, is_solvable: bool = True
    ) -> WordProblem:
        """Return the problem; its steps, if they are not planned yet, and its sentences are those of the wording."""
        answer = self.follow(names) if answer is None else answer
        if told is None:
            told = [self.wording.vformat(text, (self, self.name), names) for text in self.wording.find(f"{self.name}.sentences")]
        answer = answer if is_solvable else None
        made = [(call.tool, self.seen(call.arguments)) for call in self.calls]
        repeats = any(call in made[:index] for index, call in enumerate(made))
        return WordProblem(told, self.say("question", names), Plan(tuple(self.calls), answer), self.seen(answer), repeats)


Template = Callable[[Random], WordProblem]


def template(story: Callable[[ProblemStory, Random], WordProblem]) -> Template:
    @wraps(story)
    def told(draw: Random) -> WordProblem:
        problem = ProblemStory(Draw())
        problem.name = story.__name__
        return story(problem, draw)

    return told
