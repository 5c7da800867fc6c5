"""What the functions behind tools take: the validator, and what reaches a function."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.loops.bare.helpers import data_of, registry
from tests.loops.helpers import add, call
from tests.rows import row
from whichloop.loops.bare import validate_tool_arguments


class Counter:
    def __init__(self) -> None:
        self.n = 0

    def up(self, by: int = 1) -> int:
        """Count up."""
        self.n += by
        return self.n


@dataclasses.dataclass
class Unhashable:
    """A callable that can be no dictionary's key."""

    offset: int = 1

    def __call__(self, x: int) -> int:
        return x + self.offset


async def later(x: int, *, twice: bool = False) -> int:
    """Give x after a while."""
    await asyncio.sleep(0)
    return x * 2 if twice else x


@pytest.mark.parametrize(
    ("function", "arguments", "data"),
    [
        (lambda *args, **kwargs: sorted(kwargs), {"b": 1, "a": 2}, '["a", "b"]'),
        (lambda a, *rest, **more: a, {"a": 1, "anything": 2}, "1"),
        (lambda a, *rest, **more: a, {"anything": 2}, "Error: Tool 't' missing required argument 'a'"),
        (lambda *args: len(args), {}, "0"),
        (lambda *args: len(args), {"x": 1}, "Error: Tool 't' does not accept argument 'x'. Valid parameters: "),
        (lambda x=1, /, y=2: x + y, {"y": 5}, "6"),
        (lambda x=1, /, y=2: x + y, {"x": 5}, "Error: Tool 't' does not accept argument 'x'. Valid parameters: y"),
        (lambda *, only: only, {"only": 1}, "1"),
        (lambda *, only: only, {}, "Error: Tool 't' missing required argument 'only'"),
        (Counter().up, {}, "1"),
        (Counter().up, {"by": 3}, "3"),
        (Counter().up, {"self": 3}, "Error: Tool 't' does not accept argument 'self'. Valid parameters: by"),
        (later, {"x": 2, "twice": True}, "4"),
        (later, {}, "Error: Tool 't' missing required argument 'x'"),
        (dict, {"free": 1}, '{"free": 1}'),
        (partial(add, b=1), {"a": 1}, "2"),
        (Unhashable(2), {"x": 1}, "3"),
        (Unhashable(2), {"y": 1}, "Error: Tool 't' does not accept argument 'y'. Valid parameters: x"),
    ],
)
@row("X-20", "B4-3")
def test_validator_knows_every_kind_of_parameter(function: Callable[..., Any], arguments: dict[str, Any], data: str) -> None:
    assert data_of(call("t", **arguments), registry(t=function)) == data


@row("B4-3")
def test_a_positional_only_parameter_without_default_is_refused_at_register() -> None:
    def strict(a: int, /) -> None: ...

    with pytest.raises(ValueError, match="'a' is positional-only"):
        registry(strict=strict)


NAMES = st.sampled_from("abcde")


@given(
    needed=st.lists(NAMES, unique=True, max_size=3),
    optional=st.lists(st.sampled_from("vwxyz"), unique=True, max_size=2),
    open_ended=st.booleans(),
    given_names=st.sets(st.sampled_from("abcdevwxyz")),
)
@settings(deadline=None)
@row("X-20")
def test_validator_passes_exactly_what_python_could_call(
    needed: list[str], optional: list[str], open_ended: bool, given_names: set[str]
) -> None:
    kinds = inspect.Parameter
    parameters = [kinds(name, kinds.POSITIONAL_OR_KEYWORD) for name in needed]
    parameters += [kinds(name, kinds.KEYWORD_ONLY, default=0) for name in optional]
    parameters += [kinds("rest", kinds.VAR_KEYWORD)] if open_ended else []

    def tool() -> None: ...

    signature = tool.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    arguments = dict.fromkeys(given_names)
    try:
        signature.bind(**arguments)
        callable_so = True
    except TypeError:
        callable_so = False
    assert (validate_tool_arguments(tool, arguments, "t") is None) is callable_so
