"""The benchmark's task, for every program that is measured: three dependent sums, so four model calls. Imports nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ASKED = re.compile(r"\((\d+) \+ (\d+)\) \* (\d+) \+ (\d+)")


def add(a: int, b: int) -> int:
    """Add two integers.

    Args:
        a: the first
        b: the second
    """
    return a + b


def multiply(a: int, b: int) -> int:
    """Multiply two integers.

    Args:
        a: the first
        b: the second
    """
    return a * b


def numbers(i: int) -> tuple[int, int, int, int]:
    """The numbers of task i."""
    return i % 97 + 1, i % 89 + 2, i % 7 + 2, i % 83 + 3


def question(i: int) -> str:
    a, b, c, d = numbers(i)
    return f"Compute ({a} + {b}) * {c} + {d} with the tools."


def expected(i: int) -> int:
    a, b, c, d = numbers(i)
    return (a + b) * c + d


Call = tuple[str, dict[str, int]]


def next_call(asked: str, results: Sequence[int]) -> Call | None:
    """The scripted model: the next tool and its arguments, read off the question and the results so far; None at the end."""
    found = _ASKED.search(asked)
    if found is None:
        raise ValueError(f"not one of ours: {asked!r}")
    a, b, c, d = map(int, found.groups())
    if not results:
        return "add", {"a": a, "b": b}
    if len(results) == 1:
        return "multiply", {"a": results[0], "b": c}
    return ("add", {"a": results[1], "b": d}) if len(results) == 2 else None
