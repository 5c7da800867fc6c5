"""Checking a loop's options against their types, by pydantic: loaded only where a value does not plainly fit."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, get_args

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from whichloop.protocol.cured_error import needed


def check_types(design: type, hints: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Raise ValueError, in one line that names the option, for a value of another type than its hint."""
    for name, value in options.items():
        try:
            adapter = _adapter(hints[name])
            if adapter is not None:
                adapter.validate_python(value, strict=True)
        except ValidationError as error:
            or_none = ", or None" if type(None) in get_args(hints[name]) else ""
            problem = needed(error.errors(include_url=False)[0])
            raise ValueError(f"{design.__name__}: {name}: {problem}{or_none}, got {value!r}") from None


@cache
def _adapter(hint: Any) -> TypeAdapter[Any] | None:
    """Return what checks an option; None where its type does not say what fits: a loop or a function."""
    try:
        return TypeAdapter(hint)
    except PydanticUserError:
        return None
