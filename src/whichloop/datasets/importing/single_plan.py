"""A plan as the text of a file: what can be read of it, and what is wrong with it, each with its line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from whichloop.datasets.validity.checks import call_misfits
from whichloop.protocol import Plan, PlannedCall, ToolSpec, plan_from_json
from whichloop.protocol.plan_lines import read_lines

from .json_files import json_value
from .plan_model import read_json

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
Path = tuple[str | int, ...]


class LinesOfJson:
    """The lines of a text that holds one valid JSON value, by the paths of the values in it."""

    def __init__(self, text: str) -> None:
        self._lines = _lines(text)

    def at(self, path: Path) -> int:
        """Return the line of a value, of its key where it has one; of what would hold it, where it is missing."""
        while path not in self._lines:
            path = path[:-1]
        return self._lines[path]


def _lines(text: str) -> Mapping[Path, int]:
    lines: dict[Path, int] = {(): 1}
    path: list[str | int] = []
    """The path of the value that comes next, or has just been read."""
    is_key, line, read_to = False, 1, 0
    kinds: list[str] = []
    for token in _TOKEN.finditer(text):
        line += text.count("\n", read_to, token.start())
        read_to = token.start()
        word = token.group()
        if word in ("}", "]"):
            kinds.pop()
            path.pop()
        elif word == ":":
            is_key = False
        elif word == ",":
            is_key = kinds[-1] == "{"
            if not is_key:
                path[-1] = int(path[-1]) + 1
        elif is_key:
            path[-1] = json.loads(word)
            lines[tuple(path)] = line
        else:
            lines.setdefault(tuple(path), line)
            if word in ("{", "["):
                kinds.append(word)
                path.append("" if word == "{" else 0)
                is_key = word == "{"
    return lines


@dataclass(frozen=True, slots=True)
class PlacedMistake:
    """What is wrong with a plan, and what would be right."""

    line: int
    """Of the file, from 1 on; 0 for the plan as a whole."""
    text: str


@dataclass(frozen=True, slots=True)
class PlacedCall:
    """A call that can be read."""

    call: PlannedCall
    line_of: Callable[[str], int]
    """Gives the line of an argument by its name, and of the call by an empty one."""


@dataclass(frozen=True, slots=True)
class SinglePlan:
    """What can be read of a plan, and what is wrong with it."""

    plan: Plan | None
    """None if something is wrong."""
    calls: tuple[PlacedCall, ...]
    mistakes: tuple[PlacedMistake, ...]

    def misfits(self, tools: Mapping[str, ToolSpec]) -> Iterator[PlacedMistake]:
        """Yield what is wrong with the calls by the tools that there are. `tools`: by name."""
        for placed in self.calls:
            for argument, text in call_misfits(placed.call, tools):
                yield PlacedMistake(placed.line_of(argument), f"call {placed.call.id!r}: {text}")


def single_plan(text: str) -> SinglePlan:
    """Read the text of a plan, in JSON or a call per line. Raises ValueError for JSON that is none."""
    if text.lstrip()[:1] not in ("{", "["):
        return _in_lines(text, lambda line: line)
    value = json_value(text)
    lines = LinesOfJson(text)
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return _in_lines(value, lambda line: lines.at((line - 1,)) if line else 0)
    return _in_json(value, lines)


def _in_lines(text: str | list[str], line_in_file: Callable[[int], int]) -> SinglePlan:
    read = read_lines(text)
    mistakes = tuple(PlacedMistake(line_in_file(mistake.line), mistake.problem) for mistake in read.mistakes)

    def placed(line: int, call: PlannedCall) -> PlacedCall:
        return PlacedCall(call, lambda _: line_in_file(line))

    calls = tuple(placed(line, call) for line, call in read.calls.items())
    return SinglePlan(None if mistakes else Plan(tuple(read.calls.values()), read.answer), calls, mistakes)


def _in_json(value: Any, lines: LinesOfJson) -> SinglePlan:
    is_list = isinstance(value, list) and all(isinstance(call, Mapping) for call in value)
    plan = {"calls": value, "answer": None} if is_list else value
    read = read_json(plan)

    def line(*path: str | int) -> int:
        return lines.at(path[1:] if is_list else path)

    def placed(index: int, call: PlannedCall) -> PlacedCall:
        def line_of(argument: str) -> int:
            return line("calls", index, "arguments", argument) if argument else line("calls", index, "tool")

        return PlacedCall(call, line_of)

    mistakes = tuple(PlacedMistake(line(*mistake.path), mistake.text) for mistake in read.mistakes)
    calls = tuple(placed(index, call) for index, call in read.calls.items())
    return SinglePlan(None if mistakes else plan_from_json(plan), calls, mistakes)
