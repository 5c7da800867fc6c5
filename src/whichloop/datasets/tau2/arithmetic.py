"""The tool `calculate` of tau2-bench's shops: plain arithmetic, rounded to cents."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from .domain import RefusedCall

MAX_CHARS = 200
"""Longest expression."""
LIMIT = 10**15
"""Largest magnitude of a result on the way."""
_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def calculated(expression: str) -> str:
    """Return the value of an expression of decimal numbers, `+ - * /` and parentheses, rounded to two decimals.

    Raises RefusedCall for anything else, for a division by 0, and for numbers beyond LIMIT.
    """
    if len(expression) > MAX_CHARS or not set(expression) <= set("0123456789+-*/(). "):
        raise RefusedCall(f"The expression is not plain arithmetic of at most {MAX_CHARS} characters")
    try:
        value = _value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise RefusedCall("The expression is not plain arithmetic") from None
    except ZeroDivisionError:
        raise RefusedCall("The expression divides by 0") from None
    return str(round(float(value), 2))


def _value(node: ast.expr) -> Fraction:
    match node:
        case ast.Constant(value=int() | float() as number):
            value = Fraction(str(number))
        case ast.UnaryOp(op=ast.UAdd(), operand=inner):
            value = _value(inner)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            value = -_value(inner)
        case ast.BinOp(left=left, op=between, right=right) if type(between) in _OPERATORS:
            value = _OPERATORS[type(between)](_value(left), _value(right))
        case _:
            raise ValueError("not arithmetic")
    if abs(value) > LIMIT:
        raise ValueError("too large")
    return value
