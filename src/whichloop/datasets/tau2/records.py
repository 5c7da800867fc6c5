"""A database that all trials share, and the records that one trial has changed: a trial costs what it changes."""

from __future__ import annotations

import ast
import copy
import operator
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from .domain import NotFound, RefusedCall

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


Record = dict[str, Any]
Tables = Mapping[str, Mapping[str, Record]]
"""Table → id → record, plain JSON. Nobody changes it."""


class TrialTables:
    """Tables as one trial sees them."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._changed: dict[str, dict[str, Record]] = {table: {} for table in tables}

    def get(self, table: str, key: str) -> Record:
        """Return a record to read. Raises NotFound."""
        if isinstance(key, str):
            for records in (self._changed[table], self._tables[table]):
                if key in records:
                    return records[key]
        raise NotFound(f"There is no {table.removesuffix('s')} {key!r}")

    def edit(self, table: str, key: str) -> Record:
        """Return a record to change, the trial's own copy. Raises NotFound."""
        changed = self._changed[table]
        if key not in changed:
            changed[key] = copy.deepcopy(self.get(table, key))
        return changed[key]

    def add(self, table: str, key: str, record: Record) -> None:
        """Add a record."""
        self._changed[table][key] = record

    def each(self, table: str) -> Iterator[Record]:
        """Yield the records of a table, those that were added last."""
        changed, shared = self._changed[table], self._tables[table]
        yield from (changed.get(key, record) for key, record in shared.items())
        yield from (record for key, record in changed.items() if key not in shared)

    def changes(self) -> dict[str, dict[str, Record]]:
        """Return a copy of the records that are not as they were in the beginning, by table and id; both sorted."""
        by_table = {
            table: {key: copy.deepcopy(changed[key]) for key in sorted(changed) if changed[key] != self._tables[table].get(key)}
            for table, changed in sorted(self._changed.items())
        }
        return {table: records for table, records in by_table.items() if records}


def calculate(db: TrialTables, expression: str) -> str:
    """Calculate a sum, rounded to cents.

    Args:
        expression: Numbers with + - * / and parentheses, such as '19.99 * 2 + 5'.
    """
    return calculated(expression)


def transfer_to_human_agents(db: TrialTables, summary: str) -> str:
    """Hand the customer over to a human; only where they ask for one, or policy and tools leave no way to help.

    Args:
        summary: The customer's issue in short.
    """
    return "Transfer successful"
