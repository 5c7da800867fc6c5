"""Changed lines of a loop that no trial of the run came to: whatever they do, the gate cannot see it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from types import CodeType

from loopbench.text.counts import listed_names

UnrunLines = Mapping[str, Sequence[int]]
"""File of a loop → its changed lines that no trial came to, sorted."""


def lines_of_functions(code: CodeType) -> frozenset[int]:
    """Return the lines of all functions of a module that hold code, without those that begin a function."""
    is_function = bool(code.co_flags & inspect.CO_NEWLOCALS and code.co_flags & inspect.CO_OPTIMIZED)
    lines = {line for *_, line in code.co_lines() if line is not None and line != code.co_firstlineno} if is_function else set()
    inside = (lines_of_functions(each) for each in code.co_consts if isinstance(each, CodeType))
    return frozenset(lines).union(*inside)


def unrun_in_words(unrun: UnrunLines) -> Iterator[str]:
    """Yield `no trial ran the changed lines 41–43 and 58 of my_loop.py, so nothing is known of what they do` for each file."""
    for name, lines in unrun.items():
        spans = listed_names([*_spans(lines)])
        which, do = (f"line {spans}", "it does") if len(lines) == 1 else (f"lines {spans}", "they do")
        yield f"no trial ran the changed {which} of {name}, so nothing is known of what {do}"


def _spans(lines: Sequence[int]) -> Iterator[str]:
    """Yield `41–43` for lines that follow one another, and `58` for one alone."""
    for _, each in groupby(enumerate(lines), lambda numbered: numbered[1] - numbered[0]):
        span = [line for _, line in each]
        yield str(span[0]) if len(span) == 1 else f"{span[0]}–{span[-1]}"
