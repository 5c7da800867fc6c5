"""Importer of BFCL's single-turn categories (Patil et al., ICML 2025) as published: questions, functions, calls that are right.

Read are the Python categories of versions 3 and 4: simple, multiple, parallel, parallel_multiple and irrelevance. A file holds JSON
lines of `id`, `question` and `function`, and `possible_answer/` beside it a file of the same name with the calls that are right,
each parameter with its allowed values. Nothing is ever evaluated.

The functions have no implementation. Stub tools acknowledge a call and note it down; one whose arguments are missing, unknown or of
a wrong type is refused, as a real function would, and noted down as refused. Scored are the calls, not the answer's text: each call
that is wanted has been made once, and no other (scorer `bfcl`). A wrong call that was accepted cannot be taken back, a repeated one
is one too many, a refused one may be made again. In irrelevance no function fits: right is an answer without any call, refused ones
included, so that a loop which never calls anything gets that category right.

The plan makes each call with the first of its allowed values. A row that has no right calls, or whose right calls contradict its
own functions, is quarantined with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import jsonschema  # type: ignore[import-untyped]
from pydantic import Field

from loopbench.protocol import Plan, PlannedCall, Query, Tool, ToolArgumentError, plan_to_json

from .importing.json_files import JsonRow, check_limit, checked, json_lines
from .task import Suite, Task

VERSION = "1"
CATEGORIES = ("simple", "multiple", "parallel", "parallel_multiple", "irrelevance")
IRRELEVANCE = "irrelevance"
MADE = "The calls are made."
NOTHING_FITS = "None of the functions fits this."
ACKNOWLEDGED = {"status": "accepted", "note": "This function is a stub: it does nothing and has no result to wait for."}

_NAMES = "|".join((*CATEGORIES, "simple_python"))
_FILE = re.compile(rf"(?:BFCL_v\d+_)?(?:{_NAMES})\.jsonl?")
_ID = re.compile(rf"({_NAMES})_\d+")
_SUPPORTED = f"supported are single-turn rows of the categories {', '.join(CATEGORIES)}, with ids such as 'parallel_0'"

_TYPES = {
    "string": "string",
    "integer": "integer",
    "float": "number",
    "number": "number",
    "boolean": "boolean",
    "array": "array",
    "list": "array",
    "tuple": "array",
    "dict": "object",
    "object": "object",
}
"""BFCL's name of a type → JSON schema's; "any" has none."""
MAX_NAME = 64
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
"""Characters that providers do not allow in a function's name; dots above all."""
_Validator = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int),
)
"""JSON schema, but 5.0 is no integer: BFCL goes by Python's types, where an int does for a float and not the reverse."""


class _Message(JsonRow):
    role: Literal["system", "user"]
    content: str


class _Type(JsonRow):
    """A parameter as BFCL describes it."""

    type: Literal["string", "integer", "float", "number", "boolean", "array", "list", "tuple", "dict", "object", "any"] = "any"
    description: str | None = None
    format: str | None = None
    enum: Annotated[list[Any], Field(min_length=1)] | None = None
    default: Any = None
    properties: dict[str, _Type] | None = None
    required: list[str] | None = None
    items: _Type | None = None

    def as_schema(self) -> dict[str, Any]:
        """Return the parameter as JSON schema."""
        made: dict[str, Any] = {} if self.type == "any" else {"type": _TYPES[self.type]}
        for name in ("description", "format", "enum", "default", "required"):
            if name in self.model_fields_set and (name == "default" or getattr(self, name) is not None):
                made[name] = getattr(self, name)
        if self.properties is not None:
            made["properties"] = {name: inner.as_schema() for name, inner in self.properties.items()}
        if self.items is not None:
            made["items"] = self.items.as_schema()
        return made


class _Parameters(_Type):
    type: Literal["dict", "object"]


class _FunctionRow(JsonRow):
    name: Annotated[str, Field(min_length=1)]
    description: str = ""
    parameters: _Parameters


class _Question(JsonRow):
    id: str
    question: Annotated[list[list[_Message]], Field(min_length=1, max_length=1)]
    function: list[_FunctionRow]


class _Id(JsonRow):
    id: str


_Call = Annotated[dict[str, dict[str, Annotated[list[Any], Field(min_length=1)]]], Field(min_length=1, max_length=1)]


class _Answers(JsonRow):
    id: str
    ground_truth: list[_Call]


class Contradiction(ValueError):
    """Right calls that the row's own functions do not take; the message says which and why."""


# Functions and their stubs.


@dataclass(frozen=True, slots=True)
class _Function:
    """A function of a row, as its tool needs it."""

    name: str
    """The name as published."""
    tool: str
    """The tool's name, which providers' protocols allow."""
    description: str
    schema: Mapping[str, Any]
    """JSON schema of the arguments; no others are taken."""

    def problem(self, arguments: Mapping[str, Any]) -> str:
        """Return what is wrong with a call's arguments; empty if nothing is."""
        return "; ".join(map(_complaint, _Validator(self.schema).iter_errors(arguments)))


def _complaint(error: jsonschema.ValidationError) -> str:
    where = ".".join(map(str, error.absolute_path))
    return f"{where}: {error.message}" if where else str(error.message)


def tool_names(names: Sequence[str]) -> dict[str, str]:
    """Return, for each published name, one that providers allow: "." and the like become "_", and what then clashes gets a number.

    A name that is legal already keeps itself.
    """
    made: dict[str, str] = {}
    for name in sorted(names, key=lambda name: (_legal(name) != name, names.index(name))):
        base, number = _legal(name), 1
        legal = base
        while legal in made.values():
            number += 1
            legal = f"{base[: MAX_NAME - len(str(number)) - 1]}_{number}"
        made[name] = legal
    return made


def _legal(name: str) -> str:
    return _ILLEGAL.sub("_", name)[:MAX_NAME]


def _functions(rows: Sequence[_FunctionRow]) -> dict[str, _Function]:
    """Return functions by published name, in the row's order."""
    names = tool_names(list(dict.fromkeys(row.name for row in rows)))
    return {
        row.name: _Function(
            row.name,
            names[row.name],
            row.description,
            row.parameters.as_schema() | {"additionalProperties": False},
        )
        for row in rows
    }


class _Stubs:
    """A row's functions as tools that only note down how they are called."""

    def __init__(self, functions: Sequence[_Function]) -> None:
        self._calls: list[dict[str, Any]] = []
        self._refused: list[dict[str, Any]] = []
        self.tools = tuple(
            Tool(item.tool, item.description, item.schema, _Stub(partial(self._called, item)), blocking=False) for item in functions
        )

    def _called(self, function: _Function, arguments: dict[str, Any]) -> Mapping[str, str]:
        """Note a call. Raises ToolArgumentError for arguments that the function does not take."""
        call = {"function": function.name, "arguments": arguments}
        problem = function.problem(arguments)
        if problem:
            self._refused.append(call)
            raise ToolArgumentError(f"Tool '{function.tool}': {problem}")
        self._calls.append(call)
        return ACKNOWLEDGED

    def state(self) -> dict[str, Any]:
        """Return the calls made and those refused, each in order, under the functions' published names."""
        return {"calls": list(self._calls), "refused": list(self._refused)}

    def close(self) -> None:
        return None


@dataclass(frozen=True, slots=True)
class _Stub:
    """A function that takes arguments of any name, `self` too."""

    called: partial[Mapping[str, str]]

    def __call__(self, /, **arguments: Any) -> Mapping[str, str]:
        return self.called(arguments)


def _open(task: Task) -> _Stubs:
    rows = [_FunctionRow.model_validate(row) for row in task.world["functions"]]
    return _Stubs(tuple(_functions(rows).values()))


# Plans.


def plan_of(calls: Sequence[Mapping[str, Mapping[str, Any]]], functions: Mapping[str, _Function]) -> Plan:
    """Plan the right calls, each with the first of its allowed values; none needs another. Raises Contradiction."""
    planned = []
    for number, call in enumerate(calls, start=1):
        ((name, allowed),) = call.items()
        if name not in functions:
            raise Contradiction(f"call {number} is of {name!r}, which is none of its functions")
        function = functions[name]
        arguments = _arguments(allowed, function, f"call {number}, {name!r}")
        planned.append(PlannedCall(f"c{number}", function.tool, arguments, f"Call {number}: run {function.tool}."))
    return Plan(tuple(planned), MADE if planned else NOTHING_FITS)


def _arguments(allowed: Mapping[str, Any], function: _Function, where: str) -> dict[str, Any]:
    known, required = function.schema.get("properties", {}), function.schema.get("required", ())
    made = {}
    for name, options in allowed.items():
        if name not in known:
            raise Contradiction(f"{where}: it has no parameter {name!r}")
        if options[0] == "" and name not in required:
            continue
        values = [_value(option, known[name]) for option in options if option != ""] or [""]
        valid = list(filter(_Validator(known[name]).is_valid, values))
        if not valid:
            raise Contradiction(f"{where}: no allowed value of {name!r} has its type")
        made[name] = valid[0]
    problem = function.problem(made)
    if problem:
        raise Contradiction(f"{where}: {problem}")
    return made


def _value(option: Any, schema: Mapping[str, Any]) -> Any:
    """Return an allowed value as a call has it. An object's field gets its first allowed value, and is left out if that is `""`."""
    if isinstance(option, list):
        return [_value(item, schema.get("items", {})) for item in option]
    if not isinstance(option, dict):
        return option
    made = {}
    for name, options in option.items():
        choices = options if isinstance(options, list) and options else [options]
        if choices[0] == "" and name not in schema.get("required", ()):
            continue
        choice = next((item for item in choices if item != ""), "")
        made[name] = _value(choice, schema.get("properties", {}).get(name, {}))
    return made


# Files.


def _task(row: _Question, calls: Sequence[Any] | None) -> Task:
    """Make the task of a row. `calls`: the right ones; None if the file does not give them."""
    texts = {role: "\n\n".join(said.content for said in row.question[0] if said.role == role) for role in ("system", "user")}
    task = Task(
        row.id,
        Query(texts["user"], texts["system"]),
        expected=calls,
        scorer="bfcl",
        labels={"category": _category(row.id)},
        world={"functions": [function.model_dump(exclude_unset=True) for function in row.function]},
    )
    functions = _functions(row.function)
    if len(functions) < len(row.function):
        return _unusable(task, "two of its functions have the same name")
    if calls is None:
        return _unusable(task, "possible_answer has no entry for it")
    if (calls == []) != (_category(row.id) == IRRELEVANCE):
        return _unusable(task, "possible_answer lists no call")
    try:
        plan = plan_of(calls, functions)
        plan_to_json(plan)
    except Contradiction as error:
        return _unusable(task, f"possible_answer: {error}")
    except ValueError as error:  # a literal that looks like a reference
        return replace(task, no_plan=str(error))
    made = [(call.tool, call.arguments) for call in plan.calls]
    if any(call in made[:place] for place, call in enumerate(made)):
        return replace(task, no_plan="two of its calls are the same, and a model that follows a plan could not tell them apart")
    return replace(task, plan=plan)


def _unusable(task: Task, reason: str) -> Task:
    return replace(task, no_plan=reason, quarantined=reason)


def _category(identifier: str) -> str:
    """Return a row's category; empty if it is not supported."""
    found = _ID.fullmatch(identifier)
    return found[1].removesuffix("_python") if found else ""


def _questions(path: Path, category: str | None) -> Iterator[tuple[str, _Question]]:
    """Read a file's rows, of one category if one is named, and where each stands."""
    for where, _, value in json_lines(path):
        identifier = checked(_Id, value, where).id
        if not _category(identifier):
            raise ValueError(f"{where}: row {identifier!r} belongs to no supported category; {_SUPPORTED}")
        if category is not None and _category(identifier) != category:
            continue
        row = checked(_Question, value, where)
        if not any(said.role == "user" for said in row.question[0]):
            raise ValueError(f"{where}: field 'question': there is no user message")
        yield where, row


def _right_calls(path: Path) -> dict[str, list[Any]]:
    """Read the right calls by row id. Raises ValueError."""
    made: dict[str, list[Any]] = {}
    for where, _, value in json_lines(path):
        row = checked(_Answers, value, where)
        if row.id in made:
            raise ValueError(f"{where}: id {row.id!r} is a duplicate")
        made[row.id] = row.ground_truth
    return made


def _file_tasks(path: Path, category: str | None, limit: int | None) -> Iterator[tuple[str, Task]]:
    rows = list(islice(_questions(path, category), limit))
    answered = [row.id for _, row in rows if _category(row.id) != IRRELEVANCE]
    answers = path.parent / "possible_answer" / path.name
    right: dict[str, list[Any]] = {}
    if answered:
        if not answers.is_file():
            raise ValueError(f"{path}: no file {answers} with the calls that are right")
        right = _right_calls(answers)
        if not right.keys() & set(answered):
            raise ValueError(f"{answers}: none of its ids is in {path}")
    for where, row in rows:
        yield where, _task(row, [] if _category(row.id) == IRRELEVANCE else right.get(row.id))


def _files(data: Path) -> list[Path]:
    if not data.is_dir():
        return [data]
    found = sorted(path for path in data.iterdir() if _FILE.fullmatch(path.name))
    if not found:
        names = ", ".join(f"BFCL_v4_{name}.json" for name in ("simple_python", *CATEGORIES[1:]))
        raise ValueError(f"{data}: the folder holds none of the files that are supported ({names}; BFCL_v3_… too)")
    return found


def load(data: Path | None = None, category: str | None = None, limit: int | None = None) -> Suite:
    """Read the suite `bfcl` from files as published; the data is not part of this package.

    `data`: a file of questions, or a folder of which the supported ones are read, `--data PATH`. `category`: only that one.
    `limit`: how many rows to take from the start of each file; all where left out.

    Task ids are the rows' own. Raises OSError where a file cannot be read, and ValueError that names file, line and field for a row
    that is none, for a row of another category (multi-turn, live, Java, JavaScript …) and for answers of other questions.
    """
    if data is None:
        raise ValueError("bfcl: no data file; give a published one, or a folder of them, with --data PATH")
    check_limit("bfcl", limit)
    if category is not None and category not in CATEGORIES:
        raise ValueError(f"bfcl: category is {category!r}, and must be one of {', '.join(CATEGORIES)}")
    tasks: dict[str, Task] = {}
    for path in _files(Path(data)):
        for where, task in _file_tasks(path, category, limit):
            if task.id in tasks:
                raise ValueError(f"{where}: id {task.id!r} is a duplicate")
            tasks[task.id] = task
    if not tasks:
        of = "" if category is None else f" of category {category!r}"
        raise ValueError(f"{data}: no row{of}; each line is one object with 'id', 'question' and 'function'")
    return Suite("bfcl", VERSION, tuple(tasks.values()), _open, distractors=_unused(tasks.values()))


def _unused(tasks: Iterable[Task]) -> frozenset[str]:
    """Return the tools that no plan needs."""
    offered = {tool.name for task in tasks for tool in _open(task).tools}
    return frozenset(offered - {call.tool for task in tasks if task.plan for call in task.plan.calls})


SUITE = load
