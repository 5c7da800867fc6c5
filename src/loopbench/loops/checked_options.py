"""The options of a loop that Python code makes: a wrong one is told in one line, as on the command line."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar, get_type_hints

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from loopbench.protocol.names import nearest

Design = TypeVar("Design", bound=type)


def checked_options(design: Design) -> Design:
    """Let a loop raise ValueError, in one line that names the option, for an unknown option and one of another type."""
    made = design.__init__  # type: ignore[misc]
    signature = inspect.signature(made)

    @functools.wraps(made)
    def checked(self: Any, *args: Any, **options: Any) -> None:
        for name in options:
            if name not in signature.parameters:
                raise ValueError(f"{design.__name__}: unknown option {name!r}; {nearest(name, [*_adapters(design)])}")
        try:
            made(self, *args, **options)  # the loop's own checks come first: they say more
        except TypeError:  # a check that compares values of other types
            _check_all(design, signature.bind(self, *args, **options).arguments)
            raise
        _check_all(design, signature.bind(self, *args, **options).arguments)

    design.__init__ = checked  # type: ignore[misc]
    return design


def _check_all(design: type, given: Mapping[str, Any]) -> None:
    adapters = _adapters(design)
    for name, value in given.items():
        try:
            if name in adapters:
                adapters[name].validate_python(value, strict=True)
        except ValidationError as error:
            said = error.errors(include_url=False)[0]["msg"]
            raise ValueError(f"{design.__name__}: {name}: {said}, got {value!r}") from None


@cache
def _adapters(design: type) -> Mapping[str, TypeAdapter[Any]]:
    """Return what checks each option whose type says what fits: not those that hold a loop or a function."""
    hints = get_type_hints(design)
    found = {}
    for item in fields(design):
        if item.metadata.get("option") is False:
            continue
        try:
            found[item.name] = TypeAdapter(hints[item.name])
        except PydanticUserError:
            continue
    return found
