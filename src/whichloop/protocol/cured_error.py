"""A mistake that is told with what would be right."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


class CuredError(ValueError):
    """A mistake, what would be right, and the commands that do it.

    The text has all of it in one line, for annotations and files of results; a terminal has a line for each.
    """

    def __init__(self, mistake: str, *cures: str, commands: Sequence[Sequence[str]] = ()) -> None:
        self.mistake = mistake
        self.cures = cures
        self.commands = tuple(map(shlex.join, commands))
        """Commands that do what the last of the cures says, for a shell."""
        sentence = "; ".join((mistake, *cures))
        super().__init__(f"{sentence}: {' && '.join(self.commands)}" if self.commands else sentence)

    @property
    def lines(self) -> list[str]:
        """The same in several lines."""
        cures = [f"  {cure}" for cure in self.cures]
        if cures and self.commands:
            cures[-1] += ":"
        return [self.mistake, *cures, *(f"    {command}" for command in self.commands)]
