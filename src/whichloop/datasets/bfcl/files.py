"""BFCL's files: rows become tasks, and what is wrong with a file is said by file, line and field; plans come of right
calls."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from whichloop.datasets.importing.json_files import JsonRow, checked, json_lines
from whichloop.datasets.task import Task
from whichloop.protocol import Plan, PlannedCall, Query, plan_to_json

from .functions import FunctionRow, ParameterRow, StubFunction, stub_functions
from .official import officially_right

MADE = "The calls are made."
NOTHING_FITS = "None of the functions fits this."


class Contradiction(ValueError):
    """A row that cannot be used, such as one whose functions do not take the right calls; the message says why."""


def _arguments(allowed: Mapping[str, Any], function: StubFunction, where: str) -> dict[str, Any]:
    properties, required = function.row.parameters.properties or {}, function.row.parameters.required or ()
    arguments = {}
    for name, options in allowed.items():
        if name not in properties:
            raise Contradiction(f"{where}: it has no parameter {name!r}")
        if not options:
            raise Contradiction(f"{where}: no value of {name!r} is allowed, and neither is leaving it out")
        if options[0] == "" and name not in required:
            continue
        values = [_value(option, properties[name]) for option in ([option for option in options if option != ""] or [""])]
        fitting = [value for value in values if function.shows(name, value)]
        if not fitting:
            raise ValueError(f"{where}: no allowed value of {name!r} has its type")
        arguments[name] = fitting[0]
    problem = function.problem(arguments)
    if problem:
        raise Contradiction(f"{where}: {problem}")
    return arguments


def _value(option: Any, parameter: ParameterRow) -> Any:
    """Return an allowed value as a call has it. An object's field gets its first allowed value, and is left out if that is `""`."""
    if isinstance(option, list):
        return [_value(item, parameter.items or _ANY) for item in option]
    if not isinstance(option, dict):
        return option
    fields = {}
    for name, options in option.items():
        choices = options if isinstance(options, list) and options else [options]
        if choices[0] == "" and name not in (parameter.required or ()):
            continue
        choice = next((item for item in choices if item != ""), "")
        fields[name] = _value(choice, (parameter.properties or {}).get(name, _ANY))
    return fields


_ANY = ParameterRow()


CATEGORIES = (
    *("simple", "multiple", "parallel", "parallel_multiple", "irrelevance"),
    *("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple", "live_irrelevance", "live_relevance"),
)
ANY_CALL = "any call"
"""What a row of relevance expects."""
_PUBLISHED = {"simple_python": "simple"}
"""Version 4's name of a category that version 3 calls otherwise."""
_NAMES = "|".join((*CATEGORIES, *_PUBLISHED))
_FILE = re.compile(rf"(?:BFCL_v\d+_)?(?:{_NAMES})\.jsonl?")
_ID = re.compile(rf"({_NAMES})_\d+(?:-\d+)*")
_SUPPORTED = f"supported are single-turn rows of the categories {', '.join(CATEGORIES)}, with ids such as 'parallel_0'"


class _Message(JsonRow):
    role: Literal["system", "user", "assistant"]
    content: str


class _Question(JsonRow):
    id: str
    question: Annotated[list[list[_Message]], Field(min_length=1, max_length=1)]
    function: list[FunctionRow]


class _Id(JsonRow):
    id: str


_Call = Annotated[dict[str, dict[str, list[Any]]], Field(min_length=1, max_length=1)]


class _Answers(JsonRow):
    id: str
    ground_truth: list[_Call]


def _task(row: _Question, calls: Sequence[Any] | None) -> Task:
    """Make the task of a row. `calls`: the right ones; None if the file does not give them."""
    category = _category(row.id)
    functions = [function.model_dump(exclude_unset=True) for function in row.function]
    task = Task(
        row.id,
        _query(row.question[0]),
        expected=ANY_CALL if category == "live_relevance" else calls,
        scorer='bfcl(checker = "official")',
        labels={"category": category},
        world={"functions": functions, "checker": "official"},
    )
    try:
        return replace(task, plan=_plan(row, calls, functions))
    except Contradiction as error:
        return replace(task, no_plan=str(error), quarantined=str(error))
    except ValueError as error:
        return replace(task, no_plan=str(error))


def _plan(row: _Question, calls: Sequence[Any] | None, published: Sequence[Mapping[str, Any]]) -> Plan:
    """Plan the right calls, each with the first of its allowed values that fits the schema; none needs another.

    Raises Contradiction for a row that cannot be used, and ValueError for one that a model can be asked, but that has no plan, such
    as where all allowed values of a parameter contradict the type that a model is shown.
    """
    functions = stub_functions(row.function, calls)
    if len(functions) < len(row.function):
        raise Contradiction("two of its functions have the same name")
    if _category(row.id) == "live_relevance":
        raise ValueError("any call of a function counts as right, so that no call is known to be the right one")
    if calls is None:
        raise Contradiction("possible_answer has no entry for it")
    if (calls == []) != ("irrelevance" in row.id):
        raise Contradiction("possible_answer lists no call")
    planned, made = [], []
    for number, call in enumerate(calls, start=1):
        ((name, allowed),) = call.items()
        if name not in functions:
            raise Contradiction(f"possible_answer: call {number} is of {name!r}, which is none of its functions")
        tool = functions[name].tool
        arguments = _arguments(allowed, functions[name], f"possible_answer: call {number}, {name!r}")
        planned.append(PlannedCall(f"c{number}", tool, arguments, f"Call {number}: run {tool}."))
        made.append({"function": name, "arguments": arguments})
    plan = Plan(tuple(planned), MADE if planned else NOTHING_FITS)
    plan_to_json(plan)  # a literal may look like a reference
    if calls and not officially_right(calls, made, published):
        raise Contradiction("possible_answer: the published checker takes none of its allowed values")
    if any(call in made[:place] for place, call in enumerate(made)):
        raise ValueError("two of its calls are the same, and a model that follows a plan could not tell them apart")
    return plan


def _query(messages: Sequence[_Message]) -> Query:
    """Return what the user said; with whose words are whose, if the assistant has said something, too."""
    spoken = [message for message in messages if message.role != "system"]
    alone = all(message.role == "user" for message in spoken)
    said = "\n\n".join(message.content if alone else f"{message.role.title()}: {message.content}" for message in spoken)
    return Query(said, "\n\n".join(message.content for message in messages if message.role == "system"))


def _category(identifier: str) -> str:
    match = _ID.fullmatch(identifier)
    return _PUBLISHED.get(match[1], match[1]) if match else ""


def _questions(path: Path, category: str | None) -> Iterator[tuple[str, _Question]]:
    """Read a file's rows, of one category if one is named, and where each stands."""
    for where, _, value in json_lines(path):
        identifier = checked(_Id, value, where).id
        if not _category(identifier):
            raise ValueError(f"{where}: row {identifier!r} belongs to no supported category; {_SUPPORTED}")
        if category is not None and _category(identifier) != category:
            continue
        row = checked(_Question, value, where)
        if not any(message.role == "user" for message in row.question[0]):
            raise ValueError(f"{where}: field 'question': there is no user message")
        yield where, row


def file_tasks(path: Path, category: str | None, limit: int | None) -> Iterator[tuple[str, Task]]:
    """Read a file's tasks, of one category if one is named, and where each stands. Raises OSError and ValueError."""
    rows = list(islice(_questions(path, category), limit))
    answered = [row.id for _, row in rows if not _category(row.id).endswith("relevance")]
    answers = path.parent / "possible_answer" / path.name
    right: dict[str, list[Any]] = {}
    if answered:
        if not answers.is_file():
            raise ValueError(f"{path}: no file {answers} with the calls that are right")
        for where, _, value in json_lines(answers):
            answer = checked(_Answers, value, where)
            if answer.id in right:
                raise ValueError(f"{where}: id {answer.id!r} is a duplicate")
            right[answer.id] = answer.ground_truth
        if not right.keys() & set(answered):
            raise ValueError(f"{answers}: none of its ids is in {path}")
    for where, row in rows:
        yield where, _task(row, [] if "irrelevance" in _category(row.id) else right.get(row.id))


def files_in(data: Path) -> list[Path]:
    """Return the files that are read: the one named, or a folder's that are supported. Raises ValueError if there is none."""
    if not data.is_dir():
        return [data]
    files = sorted(path for path in data.iterdir() if _FILE.fullmatch(path.name))
    if not files:
        names = ", ".join(f"BFCL_v4_{name}.json" for name in ("simple_python", *CATEGORIES[1:]))
        raise ValueError(f"{data}: the folder holds none of the files that are supported ({names}; BFCL_v3_… too)")
    return files
