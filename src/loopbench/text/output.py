"""Lines of output before they are printed: a command prints them with styles, Python and notebooks as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
