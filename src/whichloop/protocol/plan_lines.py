"""A plan as people write it, a line per call: `left = stock(item="chair")`.

A line is a call with named arguments, in Python's notation for literals; `NAME = ` in front gives its result a name, by which later
lines refer to it, or to a part of it: `price["euros"]`, `rows[0]`. What follows `#` is the call's goal, by default the call itself.
A line `answer = VALUE` gives the answer. The text is parsed, and never run. Alternatives, planned errors and calls that must follow
one another without a reference need the form in JSON.
"""

from __future__ import annotations

import ast
import io
import keyword
import math
import textwrap
import tokenize
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .names import nearest
from .plan import Plan, PlannedCall, Ref

ANSWER = "answer"
"""The name that is assigned the plan's answer, and no call's."""
MAX_PLAN_CHARS = 1_000_000
_JSON_WORDS = {"true": True, "false": False, "null": None}


def plan_from_lines(lines: str | Sequence[str], answer: Any = None) -> Plan:
    """Read a plan from its lines. `answer`: the right answer, where no line gives it.

    Raises ValueError that names the line, and says what would be right.
    """
    read = read_lines(lines, answer)
    if read.mistakes:
        raise read.mistakes[0]
    return Plan(tuple(read.calls.values()), read.answer)


class LineMistake(ValueError):
    """What is wrong with a line of a plan, and what would be right."""

    def __init__(self, line: int, problem: str) -> None:
        """`line`: its number, from 1 on; 0 for the plan as a whole."""
        self.line = line
        self.problem = problem
        super().__init__(f"plan, line {line}: {problem}" if line else f"plan: {problem}")


@dataclass(frozen=True, slots=True)
class ReadLines:
    """What could be read of a plan's lines, and what is wrong with the others."""

    calls: Mapping[int, PlannedCall]
    """By the number of the line that each begins in."""
    answer: Any
    mistakes: tuple[LineMistake, ...]
    """In the order of the lines; one for a line, for what follows in it is not sure."""


_FORM = "a line is a call, such as price(item='lamp')"
_NEEDS_JSON = "names such as get-price or from need the plan in JSON"


def read_lines(lines: str | Sequence[str], answer: Any = None) -> ReadLines:
    """Read all of a plan's lines, if all of them are Python. `answer`: the right answer, where no line gives it."""
    text = textwrap.dedent(lines if isinstance(lines, str) else "\n".join(lines))
    if len(text) > MAX_PLAN_CHARS:
        return ReadLines({}, answer, (LineMistake(0, f"longer than {MAX_PLAN_CHARS} characters"),))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of backslashes that mean nothing
            statements = ast.parse(text).body
        tokens = tokenize.generate_tokens(io.StringIO(text, newline=None).readline)  # ast leaves comments out
        comments = {token.start[0]: token.string.lstrip("#").strip() for token in tokens if token.type == tokenize.COMMENT}
        return _read(statements, comments, answer)
    except ValueError as error:
        mistake = LineMistake(0, f"it cannot be parsed ({error})")
    except SyntaxError as error:
        mistake = LineMistake(error.lineno or 1, f"{error.msg}; {_FORM}; {_NEEDS_JSON}")
    except (RecursionError, MemoryError):
        mistake = LineMistake(0, "it is nested too deep")
    return ReadLines({}, answer, (mistake,))


def plan_to_lines(plan: Plan) -> str:
    """Write a plan a line per call. Raises ValueError for one that only JSON can hold."""
    lines = []
    for call in plan.calls:
        if call.alternatives or call.fails or call.after:
            raise ValueError(f"plan: call {call.id!r} has alternatives, a planned error or an order, which lines cannot say")
        if not _is_name(call.id) or call.id == ANSWER or not all(map(_is_name, call.tool.split("."))):
            raise ValueError(f"plan: call {call.id!r} of {call.tool!r}: a line needs names of letters, digits and underscores")
        if "\n" in call.goal or call.goal != call.goal.strip() or not call.goal.isprintable():
            raise ValueError(f"plan: the goal of call {call.id!r} is not one line of text")
        arguments = [f"{name}={_as_text(value)}" for name, value in call.arguments.items() if _is_name(name)]
        others = {name: value for name, value in call.arguments.items() if not _is_name(name)}
        written = f"{call.tool}({', '.join([*arguments, *([f'**{_as_text(others)}'] if others else [])])})"
        lines.append(f"{call.id} = {written}" + ("" if call.goal == ast.unparse(ast.parse(written)) else f"  # {call.goal}"))
    return "\n".join([*lines, f"{ANSWER} = {_as_text(plan.answer)}"])


# --- reading ---


def _read(statements: Sequence[ast.stmt], comments: Mapping[int, str], answer: Any) -> ReadLines:
    calls: dict[int, PlannedCall] = {}
    mistakes: dict[int, LineMistake] = {}
    names: dict[str, None] = {}
    for number, statement in enumerate(statements, 1):
        name = f"call{number}"
        try:
            assigned, value = _assigned(statement)
            name = assigned or name
            if name == ANSWER:
                if statement is not statements[-1]:
                    raise _wrong(statement, "the answer comes after the last call")
                answer = _value(value, names)
                break
            lines = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
            goal = " ".join(comments[line] for line in lines if comments.get(line))
            call = _call(name, value, goal, names)
            if name in {other.id for other in calls.values()}:
                raise _wrong(statement, f"two lines are named {name!r}")
            if call.goal in {other.goal for other in calls.values()}:
                raise _wrong(statement, f"two lines are for {call.goal!r}; say after a # what each is for")
            calls[statement.lineno] = call
        except LineMistake as mistake:
            mistakes.setdefault(mistake.line, mistake)
        finally:
            names[name] = None
    return ReadLines(calls, answer, tuple(mistakes[line] for line in sorted(mistakes)))


def _call(name: str, value: ast.expr, goal: str, names: Collection[str]) -> PlannedCall:
    if not isinstance(value, ast.Call):
        raise _wrong(value, f"{_short_source(value)} is no call; {_FORM}{_hint(value)}")
    tool = _tool(value.func)
    if value.args:
        first = _short_source(value.args[0])
        raise _wrong(value, f"name the argument {first} of {tool}: {tool}(NAME={first})")
    arguments: dict[str, Any] = {}
    for word in value.keywords:
        further = _value(word.value, names)
        if word.arg is not None:
            further = {word.arg: further}
        elif not isinstance(further, dict):
            raise _wrong(value, "after ** stands an object of arguments, such as **{'max-price': 40}")
        if twice := arguments.keys() & further.keys():
            raise _wrong(value, f"{tool} gets the argument {sorted(twice)[0]!r} twice")
        arguments |= further
    return PlannedCall(name, tool, arguments, goal or ast.unparse(value))


def _assigned(statement: ast.stmt) -> tuple[str, ast.expr]:
    """Return the name that a line assigns to, empty if none, and the value."""
    if isinstance(statement, ast.Expr):
        return "", statement.value
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id, statement.value
    raise _wrong(statement, "a line is a call, such as price(item='lamp') or left = stock(item='lamp')")


def _tool(function: ast.expr) -> str:
    if isinstance(function, ast.Name):
        return function.id
    if isinstance(function, ast.Attribute):
        return f"{_tool(function.value)}.{function.attr}"
    raise _wrong(function, f"{_short_source(function)} is no tool's name")


def _value(value: ast.expr, names: Collection[str]) -> Any:
    """Return a literal, or a reference to an earlier call."""
    if isinstance(value, ast.Constant) and (value.value is None or isinstance(value.value, str | int | float)):
        if isinstance(value.value, float) and not math.isfinite(value.value):
            raise _wrong(value, "a number is too large")
        return value.value
    if isinstance(value, ast.List | ast.Tuple):
        return [_value(item, names) for item in value.elts]
    if isinstance(value, ast.Dict):
        mapping = {_key(key, value): _value(item, names) for key, item in zip(value.keys, value.values, strict=True)}
        if len(mapping) < len(value.keys):
            raise _wrong(value, f"{_short_source(value)} has a key twice")
        return mapping
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub | ast.UAdd):
        number = _value(value.operand, names)
        if isinstance(number, int | float) and not isinstance(number, bool):
            return -number if isinstance(value.op, ast.USub) else number
    if isinstance(value, ast.Name | ast.Subscript):
        return _reference(value, names)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id[:1] != "_":
        call = _short_source(value)
        raise _wrong(value, f"{call} is a call: name it on a line of its own before, result = {call}, and write result here")
    raise _wrong(value, f"{_short_source(value)} is neither a literal nor the name of an earlier call{_hint(value)}")


def _hint(value: ast.expr) -> str:
    """Return what may be meant by a call within an expression, such as get-price(item='lamp')."""
    return f"; {_NEEDS_JSON}" if any(isinstance(node, ast.Call) for node in ast.walk(value)) else ""


def _key(key: ast.expr | None, owner: ast.expr) -> str:
    if isinstance(key, ast.Constant) and isinstance(key.value, str):
        if key.value == "$ref":
            raise _wrong(owner, "a literal holds the key '$ref', which marks a reference")
        return key.value
    raise _wrong(owner, f"the key {_short_source(key) if key is not None else '**'} of an object is not text")


def _reference(value: ast.expr, names: Collection[str]) -> Any:
    path: list[str | int] = []
    while isinstance(value, ast.Subscript):
        part = _value(value.slice, ())
        if isinstance(part, bool) or not isinstance(part, str | int):
            raise _wrong(value, f"{_short_source(value.slice)} is neither a key nor an index")
        path.insert(0, part)
        value = value.value
    if not isinstance(value, ast.Name):
        raise _wrong(value, f"{_short_source(value)} is no name of an earlier call")
    if value.id in names:
        return Ref(value.id, tuple(path))
    if value.id in _JSON_WORDS and not path:
        return _JSON_WORDS[value.id]
    raise _wrong(value, f"no earlier line is named {value.id!r}; {nearest(value.id, sorted(names))}")


def _wrong(where: ast.AST, problem: str) -> LineMistake:
    return LineMistake(getattr(where, "lineno", 1), problem)


def _short_source(value: ast.expr) -> str:
    text = ast.unparse(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


# --- writing ---


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text) and text.isascii()


def _as_text(value: Any) -> str:
    """Return a value in Python's notation. Raises ValueError for what JSON cannot hold."""
    if isinstance(value, Ref):
        return ref_as_text(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_as_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_as_text, value)) + "]"
    if value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
        return repr(value)
    raise ValueError(f"plan: {value!r} is no literal")


def ref_as_text(ref: Ref) -> str:
    """Return a reference as a line has it: `rows[0]['name']`."""
    return ref.call + "".join(f"[{part!r}]" for part in ref.path)
