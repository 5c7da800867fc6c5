"""Plans as people write them, in JSON or in lines: how they are read, and the JSON schema that says so to others."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

from whichloop.datasets.task import Task
from whichloop.datasets.validity.checks import call_misfits, misfits, misnamed
from whichloop.protocol import Plan, PlannedCall, Tool, ToolSpec, plan_from_json, refs, resolve
from whichloop.protocol.plan_lines import read_lines
from whichloop.protocol.values import ToolArgumentError

from .columns import CellError
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


class BrokenPlan(CellError):
    """What is wrong with the plan in a cell: the text names the first mistake."""

    def __init__(self, column: str, mistakes: Sequence[str]) -> None:
        """`mistakes`: all of them, in their order."""
        texts = [f"not a plan ({mistake.removeprefix('plan: ').removeprefix('plan, ')})" for mistake in mistakes]
        super().__init__(column, texts[0])
        self.each = tuple(CellError(column, text) for text in texts)
        """A mistake each."""


def read_plan(column: str, value: Any, expected: Any) -> Plan:
    """Read a plan: in JSON as `plan_to_json` writes it or as its list of calls, or a line per call, as text or a list of lines.

    `expected`: the answer of a plan whose lines, or whose list, give none. Raises BrokenPlan, which says what is wrong.
    """
    if is_lines(value):
        read = read_lines(value, expected)
        if read.mistakes:
            raise BrokenPlan(column, [str(mistake) for mistake in read.mistakes])
        return Plan(tuple(read.calls.values()), read.answer)
    if isinstance(value, list) and all(isinstance(call, Mapping) for call in value):
        value = {"calls": value, "answer": expected}
    if mistakes := shape_mistakes(value):
        raise BrokenPlan(column, mistakes)
    try:
        return plan_from_json(value)
    except (TypeError, ValueError) as error:
        raise BrokenPlan(column, [str(error)]) from None


def is_lines(value: Any) -> bool:
    """Return whether a plan is written as lines: in one text, or as a list of texts."""
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(line, str) for line in value))


def shape_mistakes(value: Any) -> list[str]:
    """Return what in a plan in JSON is no plan's, each with its place: `calls[0].tool: Field required`."""
    if not isinstance(value, Mapping):
        return ["a plan is an object with calls and answer, a list of calls, or a call a line, not a mix of them"]
    try:
        PlanInJson.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False)
        places = ["".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in one["loc"])[1:] for one in found]
        return [f"{place}: {one['msg'].removeprefix('Value error, ')}" for place, one in zip(places, found, strict=True)]
    return []


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
    _, named = next(misnamed(call, tool.parameters), ("", ""))
    if named or any(refs(call.arguments)):
        return named
    try:
        tool.arguments.check(resolve(call.arguments, {}))
    except ToolArgumentError as error:
        return next(misfits(call, tool.parameters), ("", str(error).removeprefix(f"Tool '{tool.name}': ")))[1]
    return ""


class SinglePlan(NamedTuple):
    """What can be read of the text of a plan, and what is wrong with it."""

    plan: Plan | None
    """None if something is wrong."""
    calls: tuple[tuple[int, PlannedCall], ...]
    """Those that can be read, each with its line; 0 where that is not known."""
    mistakes: tuple[tuple[int, str], ...]
    """What is wrong, each with its line."""

    def misfits(self, tools: Mapping[str, ToolSpec]) -> list[tuple[int, str]]:
        """Return what is wrong with the calls by the tools that there are, each with its line. `tools`: by name."""
        return [(line, f"call {call.id!r}: {text}") for line, call in self.calls for _, text in call_misfits(call, tools)]


def single_plan(text: str) -> SinglePlan:
    """Read the text of a plan, in JSON or a call per line. Raises ValueError for JSON that is none."""
    value = json_value(text) if text.lstrip()[:1] in ("{", "[") else text
    if is_lines(value):
        read = read_lines(value)
        mistakes = tuple((mistake.line, mistake.problem) for mistake in read.mistakes)
        return SinglePlan(None if mistakes else Plan(tuple(read.calls.values()), read.answer), tuple(read.calls.items()), mistakes)
    try:
        plan = read_plan("", value, None)
    except BrokenPlan as error:
        return SinglePlan(None, (), tuple((0, str(mistake)) for mistake in error.each))
    return SinglePlan(plan, tuple((0, call) for call in plan.calls), ())
