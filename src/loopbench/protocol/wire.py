"""Strict JSON, as codecs write and read it: what JSON lacks is refused both ways, and a value comes back as it was."""

from __future__ import annotations

import functools
import json
import math
import operator
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from .chat import NativeCall
from .json_text import Encoder
from .moves import Inexpressible, WireError
from .tools import ToolCall

P = ParamSpec("P")
T = TypeVar("T")


def read_once(read: Callable[P, T]) -> Callable[P, T]:
    """For what reads a reply, a codec's method or a function: of two who read the same one, the second gets what the first found.

    They are the harness, which reads each reply as it comes, and the loop. Only the last reply is kept, and only for who asks next.
    """
    last: tuple[tuple[object, ...], Any] | None = None

    @functools.wraps(read)
    def reading(*args: P.args, **named: P.kwargs) -> T:
        nonlocal last
        known, last = last, None
        if known is not None and not named and len(args) == len(known[0]) and all(map(operator.is_, args, known[0])):
            found: T = known[1]
            return found
        found = read(*args, **named)
        last = None if named else (args, found)
        return found

    return reading


def to_json(value: Any) -> str:
    """Raises Inexpressible for what JSON does not give back as it was: NaN, tuples, keys that are no text, objects."""
    try:
        text = _ENCODER.encode(value)
        same = from_json(text) == value
    except (TypeError, ValueError, RecursionError) as error:
        raise Inexpressible(f"no JSON: {error}") from None
    if not same:
        raise Inexpressible("a value that JSON does not give back as it was")
    return text


def from_json(text: str) -> Any:
    """Raises ValueError, which says why, for text that is no JSON: NaN, numbers too large, what is nested too deep."""
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def native_call(call: ToolCall, place: int = 0) -> NativeCall:
    """A call in a provider's form. `place`: 0-based, among the reply's calls. Raises Inexpressible as `to_json` does."""
    try:
        return NativeCall(f"call_{place}", call.name, to_json(dict(call.arguments)))
    except Inexpressible as error:
        raise Inexpressible(f"arguments: {error}") from None


def read_call(call: NativeCall) -> ToolCall:
    """Raises WireError for arguments that are no JSON object; none at all are an empty one."""
    try:
        arguments = from_json(call.arguments or "{}")
    except ValueError as error:
        raise WireError(f"The arguments of {call.name} are no JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise WireError(f"The arguments of {call.name} must be a JSON object")
    return ToolCall(call.name, arguments, call.id)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is out of range")
    return value


_ENCODER = Encoder(ensure_ascii=False, allow_nan=False)
_DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)
