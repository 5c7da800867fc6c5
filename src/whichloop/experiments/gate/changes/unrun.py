"""Changed lines of a loop that no trial of the run came to: whatever they do, the gate cannot see it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from types import CodeType

from whichloop.text.numbers import listed_names

from ..data.followed import FollowedFile


def lines_of_functions(code: CodeType) -> frozenset[int]:
    """Return the lines of all functions of a module that hold code, without those that begin a function."""
    is_function = bool(code.co_flags & inspect.CO_NEWLOCALS and code.co_flags & inspect.CO_OPTIMIZED)
    lines = {line for *_, line in code.co_lines() if line is not None and line != code.co_firstlineno} if is_function else set()
    inside = (lines_of_functions(each) for each in code.co_consts if isinstance(each, CodeType))
    return frozenset(lines).union(*inside)


def unrun_in_words(files: Iterable[FollowedFile]) -> Iterator[str]:
    """Yield `no trial ran the changed lines 41–43 and 58 of my_loop.py, so nothing is known of what they do` for each file."""
    for file in files:
        if file.unrun:
            spans = listed_names([f"{span[0]}–{span[-1]}" if len(span) > 1 else str(span[0]) for span in file.spans])
            which, do = (f"line {spans}", "it does") if len(file.unrun) == 1 else (f"lines {spans}", "they do")
            yield f"no trial ran the changed {which} of {file.name}, so nothing is known of what {do}"
