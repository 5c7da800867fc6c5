"""What a plan in JSON may be: the model that checks it and finds every mistake, and the JSON schema that says so to others."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema
from pydantic_core import ErrorDetails

from whichloop.datasets.task import Task
from whichloop.datasets.validity.checks import argument_misfits, call_misfits, name_misfits
from whichloop.protocol import Plan, PlannedCall, Tool, ToolSpec, plan_from_json, refs, resolve
from whichloop.protocol.names import most_like, nearest
from whichloop.protocol.plan import broken_links, value_from_json
from whichloop.protocol.plan_lines import read_lines
from whichloop.protocol.values import ToolArgumentError

from .json_files import json_value

_REFERENCE = {
    "type": "object",
    "description": "The result of an earlier call, or the part of it at a path.",
    "properties": {"$ref": {"type": "string"}, "path": {"type": "array", "items": {"type": ["string", "integer"]}}},
    "required": ["$ref"],
    "additionalProperties": False,
}
_MARK = "value of a plan"
_VALUE = {
    "description": "A literal, or a reference to the result of an earlier call, at any depth.",
    "if": {"type": "object", "required": ["$ref"]},
    "then": {"$ref": "#/$defs/Reference"},
    "else": {"items": {"$ref": "#/$defs/Value"}, "additionalProperties": {"$ref": "#/$defs/Value"}},
}


def _with_right_references(value: Any) -> Any:
    """Return the value as it is. Raises ValueError for an object with the key `$ref` that is no reference."""
    if isinstance(value, Mapping):
        if "$ref" in value:
            path = value.get("path", [])
            right = isinstance(value["$ref"], str) and isinstance(path, list) and value.keys() <= {"$ref", "path"}
            if not right or not all(isinstance(part, str | int) and not isinstance(part, bool) for part in path):
                raise ValueError('a reference is {"$ref": ID} or {"$ref": ID, "path": [KEY, …]}')
        for item in value.values():
            _with_right_references(item)
    elif isinstance(value, list):
        for item in value:
            _with_right_references(item)
    return value


Value = Annotated[Any, AfterValidator(_with_right_references), WithJsonSchema({"format": _MARK})]


_TYPES = {
    "string_type": "text belongs here",
    "list_type": "a list belongs here",
    "bool_type": "true or false belongs here",
    "dict_type": "an object belongs here",
    "model_type": "an object belongs here",
    "model_attributes_type": "an object belongs here",
}
"""What pydantic calls a value of another kind → what would be right."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class CallInJson(_Strict):
    """One call of a plan."""

    id: str = Field(description="The name by which other calls and the answer refer to its result.")
    tool: str = Field(description="The name of the tool.")
    arguments: dict[str, Value] = Field(description="The tool's arguments by name.")
    goal: str = Field(description="What the call is for, in words that no other call of the plan has.")
    alternatives: list[CallInJson] = Field(default=[], description="Calls that may replace this one; they have its id.")
    fails: bool = Field(default=False, description="An error is the expected result.")
    after: list[str] = Field(default=[], description="Ids of further calls that must come before this one.")


class PlanInJson(_Strict):
    """The calls that solve a task, each after those that it refers to, and the answer."""

    calls: list[CallInJson]
    answer: Value = Field(description="The right answer; null if saying that there is none is right.")


def plan_schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of a plan: an object, a list of calls or lines, or the lines in one text."""
    generated = json.dumps(PlanInJson.model_json_schema())
    schema = json.loads(generated.replace(f'"format": "{_MARK}"', '"$ref": "#/$defs/Value"'))
    parts = schema.pop("$defs")
    lines = "a call a line, such as left = stock(item='chair')"
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Plan of a task",
        "anyOf": [
            {"$ref": "#/$defs/PlanInJson"},
            {
                "type": "array",
                "items": {"$ref": "#/$defs/CallInJson"},
                "description": "The calls alone; the task's right answer is the plan's.",
            },
            {"type": "array", "items": {"type": "string"}, "description": f"Lines: {lines}."},
            {"type": "string", "description": f"Lines in one text: {lines}."},
        ],
        "$defs": {"PlanInJson": schema, **parts, "Reference": _REFERENCE, "Value": _VALUE},
    }


_CALLS_OF_A_PLAN, _CALLS_OF_A_CALL = "calls", "alternatives"


@dataclass(frozen=True, slots=True)
class JsonMistake:
    """What is wrong in a plan's JSON, and what would be right."""

    path: tuple[str | int, ...]
    """Where; the last part may be missing there."""
    text: str


@dataclass(frozen=True, slots=True)
class ReadJson:
    """What could be read of a plan in JSON, and what is wrong with the rest."""

    calls: Mapping[int, PlannedCall]
    """Those whose tool and arguments can be read, by their index."""
    mistakes: tuple[JsonMistake, ...]


def checked_plan(value: Any) -> Mapping[str, Any]:
    """Return a plan in JSON as it is. Raises ValueError, in a line, for the first thing in it that is no plan's."""
    for mistake in _misspelt(value) if (shape := _of_wrong_shape(value)) else ():
        raise ValueError(mistake.text)
    for mistake in shape:
        raise ValueError(mistake.text)
    checked: Mapping[str, Any] = value
    return checked


def read_json(value: Any) -> ReadJson:
    """Read all of a plan in JSON that can be read, a misspelt field as the one that is meant."""
    misspelt = list(_misspelt(value))
    meant = _respelt(value)
    shape = _of_wrong_shape(meant)
    if not isinstance(meant, Mapping) or not isinstance(meant.get("calls"), list):
        return ReadJson({}, _in_place(value, misspelt, shape))
    broken = {mistake.path for mistake in shape}
    calls = [_sound(call, ("calls", index), broken) for index, call in enumerate(meant["calls"])]
    answer = None if any(path[0] == "answer" for path in broken) else value_from_json(meant.get("answer"))
    links = broken_links(calls, answer) if all(call.id for call in calls) else ()
    as_mistakes = [JsonMistake(link.path, link.problem) for link in links]
    checkable = {
        index: call
        for index, call in enumerate(calls)
        if not any(path[:2] == ("calls", index) and path[2:3] in ((), ("tool",), ("arguments",)) for path in broken)
    }
    return ReadJson(checkable, _in_place(value, misspelt, [*shape, *as_mistakes]))


def _in_place(value: Any, misspelt: Iterable[JsonMistake], others: Iterable[JsonMistake]) -> tuple[JsonMistake, ...]:
    """Return the mistakes with the paths that a plan's text has. `others`: with paths of fields that are spelt right."""
    return (*misspelt, *(replace(mistake, path=_as_typed(value, mistake.path)) for mistake in others))


def _as_typed(value: Any, path: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Return a path as the plan's text has it, where a field may be misspelt."""
    typed: list[str | int] = []
    for depth, part in enumerate(path):
        if _is_plan_or_call(path[:depth]):
            part = {meant: name for name, meant in _meant(value, path[:depth]).items()}.get(str(part), part)
        typed.append(part)
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):  # it is missing
            value = None
    return tuple(typed)


def _is_plan_or_call(path: tuple[str | int, ...]) -> bool:
    """Return whether a plan, or a call of one, stands at a path."""
    return len(path) % 2 == 0 and set(path[:1]) <= {_CALLS_OF_A_PLAN} and set(path[2::2]) <= {_CALLS_OF_A_CALL}


def _sound(call: Any, path: tuple[str | int, ...], broken: Collection[tuple[str | int, ...]]) -> PlannedCall:
    """Return a call with what is right of it: its id is empty if it has none, and a goal that is missing is one of its own."""
    fields = dict(call) if isinstance(call, Mapping) else {}

    def is_sound(name: str, *deeper: str) -> bool:
        return name in fields and not any(wrong[: len(path) + 1 + len(deeper)] == (*path, name, *deeper) for wrong in broken)

    def kept(name: str, otherwise: Any) -> Any:
        return fields[name] if is_sound(name) else otherwise

    arguments = fields.get("arguments")
    named = arguments if isinstance(arguments, Mapping) else {}
    others = enumerate(kept("alternatives", []))
    return PlannedCall(
        id=kept("id", ""),
        tool=kept("tool", ""),
        arguments={name: value_from_json(value) for name, value in named.items() if is_sound("arguments", name)},
        goal=kept("goal", f"the goal of {_place(path)} is missing"),
        alternatives=tuple(_sound(other, (*path, "alternatives", number), broken) for number, other in others),
        after=tuple(kept("after", ())),
    )


def _misspelt(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[JsonMistake]:
    """Yield the fields of a plan, or of a call of one, that are no such field and are like one that is not there."""
    for name, meant in _meant(value, path).items():
        there = (*path, name)
        yield JsonMistake(there, f"{_place(there)}: there is no such field; did you mean {meant!r}?")
    for field, index, call in _calls_in(value, path):
        yield from _misspelt(call, (*path, field, index))


def _respelt(value: Any, path: tuple[str | int, ...] = ()) -> Any:
    """Return a plan, or a call of one, with the fields that its misspelt ones are meant for."""
    if not isinstance(value, Mapping):
        return value
    meant = _meant(value, path)
    fields = {meant.get(name, name): item for name, item in value.items()}
    inner = _CALLS_OF_A_CALL if path else _CALLS_OF_A_PLAN
    if isinstance(calls := fields.get(inner), list):
        fields[inner] = [_respelt(call, (*path, inner, index)) for index, call in enumerate(calls)]
    return fields


def _calls_in(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str, int, Any]]:
    """Yield the calls in a plan, or in a call of one, each with the field that it stands in, as that is written, and its index."""
    if not isinstance(value, Mapping):
        return
    inner = _CALLS_OF_A_CALL if path else _CALLS_OF_A_PLAN
    meant = _meant(value, path)
    for name, item in value.items():
        if meant.get(name, name) == inner and isinstance(item, list):
            yield from ((name, index, call) for index, call in enumerate(item))


def _meant(value: Any, path: tuple[str | int, ...]) -> dict[str, str]:
    """Return the misspelt fields of a plan, or of a call of one, with those that are meant."""
    known_fields = _known_fields(path)
    if not isinstance(value, Mapping):
        return {}
    free = [name for name in known_fields if name not in value]
    meant: dict[str, str] = {}
    for name in value:
        if name not in known_fields and (likest := most_like(str(name), [field for field in free if field not in meant.values()])):
            meant[name] = likest
    return meant


def _known_fields(path: tuple[str | int, ...]) -> Collection[str]:
    """Return the fields of what stands at a path: a plan at the empty one, else a call."""
    return CallInJson.model_fields if path else PlanInJson.model_fields


def _of_wrong_shape(value: Any) -> list[JsonMistake]:
    if not isinstance(value, Mapping):
        return [JsonMistake((), "a plan is an object with calls and answer, a list of calls, or a call a line, not a mix of them")]
    try:
        PlanInJson.model_validate(value)
    except ValidationError as error:
        return [JsonMistake(found["loc"], _told(found)) for found in error.errors(include_url=False, include_context=False)]
    return []


def _told(found: ErrorDetails) -> str:
    where = _place(found["loc"])
    if found["type"] == "missing":
        return f"{where} is missing"
    if found["type"] == "extra_forbidden":
        return f"{where}: there is no such field; {nearest(str(found['loc'][-1]), _known_fields(found['loc'][:-1]))}"
    problem = _TYPES.get(found["type"]) or found["msg"].removeprefix("Value error, ")
    return f"{where}: {problem}" if where else problem


def _place(path: tuple[str | int, ...]) -> str:
    """Return a path as it is written in Python: `calls[0].tool`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def refused_call(task: Task, tools: Mapping[str, Tool]) -> str:
    """Return, in one line, the first call of a task's plan that its tool will refuse for its arguments; empty if there is none.

    `tools`: by name; one that is known by its schema alone decides by itself. Of a call with references, of which nobody knows yet
    what they stand for, the names of the arguments count.
    """
    for call in task.plan.calls if task.plan is not None and not task.quarantined else ():
        tool = tools.get(call.tool)
        if tool is not None and (problem := _refusal(call, tool)):
            return f"task {task.id!r}, call {call.id!r}: {call.tool}: {problem}"
    return ""


def _refusal(call: PlannedCall, tool: Tool) -> str:
    if tool.arguments is None:
        return ""
    named = next(name_misfits(call, tool.parameters), "")
    if named or any(refs(call.arguments)):
        return named
    try:
        tool.arguments.check(resolve(call.arguments, {}))
    except ToolArgumentError as error:
        return next(argument_misfits(call, tool.parameters), str(error).removeprefix(f"Tool '{tool.name}': "))
    return ""


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
