"""Mistakes that are told with what would be right: commands that mend one, the setting of an unknown name, what a value must be."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


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


class UnknownNameError(ValueError):
    """No loop, suite or profile has this name."""

    def __init__(self, setting: str, reason: str) -> None:
        """`setting`: the field of a configuration whose value such a name is."""
        super().__init__(reason)
        self.setting = setting


@contextmanager
def naming_file(file: Path | None, flags: Mapping[str, Any]) -> Iterator[None]:
    """Let an unknown name be told with the file and the field that it stands in, unless a flag has that field's value.

    `file`: that of the configuration, if there is one. Raises ValueError for such a name.
    """
    try:
        yield
    except UnknownNameError as error:
        if file is None or flags.get(error.setting):
            raise
        raise ValueError(f"{file}: {error.setting}: {error}") from None


_WHOLE, _NUMBER, _TEXT, _SWITCH = "a whole number is needed", "a number is needed", "a text is needed", "true or false is needed"
_LIST, _TABLE = "a list is needed, in square brackets", "a table of names and values is needed"
NEEDED: Mapping[str, str] = {
    "int_parsing": _WHOLE,
    "int_type": _WHOLE,
    "int_from_float": _WHOLE,
    "float_parsing": _NUMBER,
    "float_type": _NUMBER,
    "finite_number": "a finite number is needed",
    "string_type": _TEXT,
    "tuple_type": _LIST,
    "list_type": _LIST,
    "dict_type": _TABLE,
    "model_type": _TABLE,
    "model_attributes_type": _TABLE,
    "missing": "it is missing",
    "bool_parsing": _SWITCH,
    "bool_type": _SWITCH,
    "greater_than_equal": "{ge} or more is needed",
    "greater_than": "more than {gt} is needed",
    "less_than_equal": "{le} or less is needed",
    "less_than": "less than {lt} is needed",
    "literal_error": "{expected} is needed",
}
"""Type of an error → what is needed; the names in braces are those of the error's own context."""


def needed(error: Mapping[str, Any]) -> str:
    """Return what is needed in the place of a value, for one entry of `ValidationError.errors()`; else pydantic's own words."""
    template = NEEDED.get(error["type"])
    if template is None:
        return str(error["msg"]).removeprefix("Value error, ")
    context = error.get("ctx", {})
    return template.format(**{name: f"{value:g}" if isinstance(value, float) else value for name, value in context.items()})
