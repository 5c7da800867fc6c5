"""Lines of output before they are printed: a command prints them with styles, Python and notebooks as text."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from typing import Any, Literal

from .plain_text import terminal_safe

UNBROKEN = "\u00a0"
"""A space between words that stay on one line."""

Style = Literal["", "bold", "dim", "yellow", "bold magenta"]


@dataclass(frozen=True, slots=True)
class OutputLine:
    """One line of output."""

    text: str
    style: Style = ""


@dataclass(frozen=True, slots=True)
class Prose:
    """A sentence, which a terminal wraps between words."""

    text: str
    style: Style = ""
    indent: str = ""
    """What stands before each line."""
    hanging: str | None = None
    """What stands before all lines but the first; None: the indent."""


def wrapped_words(text: str, width: int, **options: Any) -> list[str]:
    """Return the lines of a text, wrapped between words at a width in columns, with `UNBROKEN` spaces as spaces.

    No line ends within a word with a hyphen, or between a number and its percent sign, as in `5 %`. `options`: of `textwrap.wrap`.
    """
    lines = textwrap.wrap(re.sub(r"(?<=\d) (?=%)", UNBROKEN, text), width, break_on_hyphens=False, **options)
    return [line.replace(UNBROKEN, " ") for line in lines]


def prose_lines(prose: Prose, width: int) -> list[str]:
    """Return the lines of a sentence, wrapped as `wrapped_words` does, and safe for a terminal."""
    return wrapped_words(
        terminal_safe(prose.text),
        width,
        initial_indent=prose.indent,
        subsequent_indent=prose.indent if prose.hanging is None else prose.hanging,
        break_long_words=False,
    )
