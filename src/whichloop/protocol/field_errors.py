"""What pydantic says of a value, in the words of whoever typed it: what is needed, and not what a validator expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
