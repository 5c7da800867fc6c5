"""Importer of GSM8K (Cobbe et al. 2021, arXiv:2110.14168) as published: JSON lines of `question` and `answer`.

An answer works the problem out, with calculator annotations `<<48/2=24>>`, and ends in `#### 72`. The annotations become the
plan; the gold answer is the number after `####`, because some rows take their last step without an annotation. Where no planned
call yields the gold answer, the label `by_construction` says so. A row whose annotations do not add up stays a task, without a plan
and with the reason why.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from whichloop.protocol import Plan, PlannedCall, Query, Ref
from whichloop.protocol.values import one_line

from . import calculator
from .calculator import Number
from .importing.json_files import Filled, JsonRow, check_limit, checked, json_lines
from .task import BY_CONSTRUCTION, StatelessEnvironment, Suite, Task

VERSION = "2"
ANSWER_FORMAT = "Give the answer as a number."
NOT_YIELDED = "no planned call yields the answer"
MAX_EXPRESSION = 200
"""Characters; a longer annotation is not read, so that none nests too deep for the parser."""

TOOLS = calculator.tools("add", "subtract", "multiply", "divide", "power", "round_to")
"""The tools that annotations need; `round_to` for a result that is rounded."""

_FUNCTIONS = {tool.name: tool.function for tool in TOOLS}
_ENVIRONMENT = StatelessEnvironment(TOOLS)

_ANNOTATION = re.compile(r"<<(.*?)>>", re.DOTALL)
_FRACTION = re.compile(r"\s*(\d+)\s*/\s*(\d+)\s*", re.ASCII)
_NUMBER = re.compile(r"\$?(-?)\$?(\d[\d,]*(?:\.\d*)?|\.\d+)", re.ASCII)
_PERCENT = re.compile(r"(\d+(?:\.\d*)?|\.\d+)%", re.ASCII)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d)", re.ASCII)
_ARITHMETIC = re.compile(r"[\d.+\-*/() ]+", re.ASCII)
_WORDS = {"$": "", "^": "**", "½": "(1/2)", "¼": "(1/4)", "¾": "(3/4)", "⅓": "(1/3)", "⅔": "(2/3)"}
_SIGNS: dict[int, int | str] = {
    **str.maketrans("xX\N{MULTIPLICATION SIGN}\N{MIDDLE DOT}\N{DIVISION SIGN}\N{MINUS SIGN}\N{EN DASH}", "****/--"),
    **{ord(sign): text for sign, text in _WORDS.items()},
}
_OPERATORS: dict[type[ast.operator], tuple[str, tuple[str, str], str]] = {
    ast.Add: ("add", ("a", "b"), "add {1} to {0}"),
    ast.Sub: ("subtract", ("a", "b"), "subtract {1} from {0}"),
    ast.Mult: ("multiply", ("a", "b"), "multiply {0} by {1}"),
    ast.Div: ("divide", ("a", "b"), "divide {0} by {1}"),
    ast.Pow: ("power", ("base", "exponent"), "raise {0} to the power {1}"),
}
"""Operator → tool, its arguments, the goal in words."""


class AnnotationError(ValueError):
    """An annotation that no plan can be made of; the message says which one and why."""


@dataclass(frozen=True, slots=True)
class _Operand:
    """A number of an expression: written in it, or the result of an earlier call."""

    argument: Number | Ref
    value: Number

    @property
    def words(self) -> str:
        return f"the result of step {self.argument.call[1:]}" if isinstance(self.argument, Ref) else f"{self.argument}"


class _Planner:
    """A plan as it is made of annotations, one after the other."""

    def __init__(self) -> None:
        self.calls: list[PlannedCall] = []
        self.results_by_call: dict[tuple[Any, ...], _Operand] = {}
        self._results: list[_Operand] = []

    def annotate(self, text: str) -> None:
        """Plan the calls of one annotation, `expression=value`. Raises ValueError, ArithmeticError or SyntaxError."""
        expression, equals, stated = text.partition("=")
        if not equals:
            raise ValueError("there is no '='")
        value, decimals = _stated_result(stated)
        result = self._evaluate(_parse(expression))
        if not _equal(result.value, value):
            if decimals is None:
                raise ValueError(f"the result is {result.value}, not {stated.strip()}")
            operands = {"number": result, "digits": _Operand(decimals, decimals)}
            rounded = self._call("round_to", operands, "round {0} to {1} decimals")
            if not _equal(rounded.value, value):
                raise ValueError(f"the result is {result.value}, not {value}")
            result = rounded
        if isinstance(result.argument, Ref):
            self._results.append(result)

    def _evaluate(self, node: ast.expr) -> _Operand:
        match node:
            case ast.Constant(value=int() | float() as number):
                return self._literal(_tidy(number))
            case ast.UnaryOp(op=ast.UAdd(), operand=inner):
                return self._evaluate(inner)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return self._literal(_tidy(-number))
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return self._operate(ast.Sub(), _Operand(0, 0), self._evaluate(inner))
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
                first = self._evaluate(left)
                return self._operate(operator, first, self._evaluate(right))
        raise ValueError("the expression is no plain arithmetic")

    def _literal(self, number: Number) -> _Operand:
        """Return the closest earlier result of this value, or the number itself."""
        return next((result for result in reversed(self._results) if _equal(result.value, number)), _Operand(number, number))

    def _operate(self, operator: ast.operator, left: _Operand, right: _Operand) -> _Operand:
        tool, names, goal = _OPERATORS[type(operator)]
        return self._call(tool, dict(zip(names, (left, right), strict=True)), goal)

    def _call(self, tool: str, operands: dict[str, _Operand], goal: str) -> _Operand:
        """Return the result of a new call, or of the earlier one with the same values."""
        key = (tool, *(operand.value for operand in operands.values()))
        if key not in self.results_by_call:
            value = _FUNCTIONS[tool](**{name: operand.value for name, operand in operands.items()})
            step = len(self.calls) + 1
            words = goal.format(*(operand.words for operand in operands.values()))
            arguments = {name: operand.argument for name, operand in operands.items()}
            self.calls.append(PlannedCall(f"c{step}", tool, arguments, f"Step {step}: {words}."))
            self.results_by_call[key] = _Operand(Ref(f"c{step}"), value)
        return self.results_by_call[key]


def plan_of(answer: str, gold: Number) -> tuple[Plan, bool]:
    """Return the plan that an answer's annotations state, in their order, with `gold` as its answer; and whether a call yields it.

    A number that equals an earlier annotation's result is taken for that result. Raises AnnotationError where there is no
    annotation, or one that cannot be read or does not give the value it states.
    """
    planner = _Planner()
    annotations = _ANNOTATION.findall(answer)
    if not annotations:
        raise AnnotationError("no annotation")
    for position, text in enumerate(annotations, start=1):
        try:
            planner.annotate(text)
        except (ValueError, ArithmeticError, SyntaxError) as error:
            excerpt = text if len(text) <= 60 else text[:57] + "..."
            reason = "the expression is no plain arithmetic" if isinstance(error, SyntaxError) else error
            raise AnnotationError(f"annotation {position}, {excerpt!r}: {reason}") from error
    if not planner.calls:
        raise AnnotationError("no annotation computes anything")
    return Plan(tuple(planner.calls), gold), any(_equal(made.value, gold) for made in planner.results_by_call.values())


def _parse(expression: str) -> ast.expr:
    """Parse an expression. Raises ValueError or SyntaxError for anything but arithmetic on decimal numbers."""
    plain = _PERCENT.sub(r"(\1/100)", _THOUSANDS.sub("", expression.translate(_SIGNS)))
    if len(plain) > MAX_EXPRESSION:
        raise ValueError(f"the expression is longer than {MAX_EXPRESSION} characters")
    if not _ARITHMETIC.fullmatch(plain):
        raise ValueError("the expression is no plain arithmetic")
    return ast.parse(plain.strip(), mode="eval").body


def _stated(text: str) -> tuple[Number, int]:
    """Read a number that an annotation or a gold answer states, and count its decimals."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text.strip()[:40]!r} is no number")
    sign, digits = match[1], match[2].replace(",", "")
    return _tidy(float(sign + digits)), len(digits.partition(".")[2])


def _stated_result(text: str) -> tuple[Number, int | None]:
    """Read the number or the fraction of whole numbers that an annotation states; a fraction has no decimals to round to."""
    match = _FRACTION.fullmatch(text)
    if match is None:
        return _stated(text)
    if len(text) > MAX_EXPRESSION:
        raise ValueError(f"the fraction is longer than {MAX_EXPRESSION} characters")
    return _tidy(int(match[1]) / int(match[2])), None


def _tidy(number: float) -> Number:
    """Return an int if the number is whole. Raises OverflowError beyond the calculator's range."""
    if not abs(number) <= calculator.LIMIT:
        raise OverflowError(f"a number is beyond ±{calculator.LIMIT:g}")
    return int(number) if number == int(number) else float(number)


def _equal(one: Number, other: Number) -> bool:
    """Return whether two numbers are equal to nine digits; the calculator gives twelve."""
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)


class _Row(JsonRow):
    question: Filled
    answer: str


def _row(row: object, where: str) -> tuple[str, str, Number]:
    """Return question, answer and gold. Raises ValueError that names the field."""
    read = checked(_Row, row, where)
    _, mark, gold = read.answer.rpartition("####")
    if not mark:
        raise ValueError(f"{where}: field 'answer' does not end in '#### number', the gold answer")
    try:
        return read.question.strip(), read.answer, _stated(gold)[0]
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{where}: field 'answer', after '####': {error}; the gold answer is one number") from error


def _task(line: int, question: str, answer: str, gold: Number) -> Task:
    task = Task(f"gsm8k-{line:04d}", Query(f"{question}\n\n{ANSWER_FORMAT}"), gold, "numeric")
    try:
        plan, yields = plan_of(answer, gold)
    except AnnotationError as error:
        return replace(task, no_plan=str(error))
    return replace(task, plan=plan, labels={} if yields else {BY_CONSTRUCTION: NOT_YIELDED})


def _tasks(path: Path, limit: int | None) -> Iterator[Task]:
    first: dict[str, int] = {}
    for where, line, row in islice(json_lines(path), limit):
        question, answer, gold = _row(row, where)
        task = _task(line, question, answer, gold)
        earlier = first.setdefault(one_line(question), line)
        yield task if earlier == line else replace(task, quarantined=f"the same question as line {earlier}")


def _open(task: Task) -> StatelessEnvironment:
    return _ENVIRONMENT


def load(data: Path | None = None, limit: int | None = None) -> Suite:
    """Read the suite `gsm8k` from a file as published; the data is not part of this package.

    `data`: the JSON lines file, `--data FILE`. `limit`: how many rows to take from its start; all where left out.

    Task ids carry the line number. A question that an earlier line asks is quarantined. Raises OSError where the file cannot be
    read, and ValueError that names file, line and field for a row that is none.
    """
    if data is None:
        raise ValueError("gsm8k: no data file; give the published one with --data FILE (JSON lines of question and answer)")
    check_limit("gsm8k", limit)
    tasks = tuple(_tasks(Path(data), limit))
    if not tasks:
        raise ValueError(f"{data}: no row; each line is one object with 'question' and 'answer'")
    return Suite("gsm8k", VERSION, tasks, _open)


SUITE = load
