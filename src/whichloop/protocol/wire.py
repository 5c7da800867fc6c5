"""Strict JSON for codecs: what JSON lacks is refused in both directions, and a value comes back unchanged."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

from .chat import NativeCall, Reply
from .json_text import from_json as from_json
from .moves import Act, Codec, Inexpressible, Move, Recovery, WireError
from .tool_calls import ToolCall


def to_json(value: object) -> str:
    """Write JSON. Raises Inexpressible for a value that would not come back the same: NaN, tuples, objects, keys of other types."""
    try:
        text = _ENCODER.encode(value)
        same = from_json(text) == value
    except (TypeError, ValueError, RecursionError) as error:
        raise Inexpressible(f"no JSON: {error}") from None
    if not same:
        raise Inexpressible("a value that JSON does not give back as it was")
    return text


def read_object(text: str) -> dict[str, Any]:
    """Read a reply that is one JSON object. Raises WireError for anything else."""
    try:
        data = from_json(text)
    except ValueError as error:
        raise WireError(f"The reply is no JSON: {error}") from None
    if not isinstance(data, dict):
        raise WireError("The reply must be one JSON object")
    return data


def read_back(codec: Codec, move: Move, write: Callable[[], Reply]) -> Reply:
    """Return the reply that `write` makes of a move. Raises Inexpressible where the codec does not read it as that move."""
    try:
        reply = write()
        same = codec.parse(reply) == move
    except (WireError, TypeError, ValueError, RecursionError) as error:
        raise Inexpressible(str(error)) from None
    if not same:
        raise Inexpressible("a move that the format does not give back as it was")
    return reply


def native_call(call: ToolCall, place: int = 0) -> NativeCall:
    """Return a call in a provider's form. `place`: 0-based, among the reply's calls. Raises Inexpressible as `to_json` does."""
    try:
        return NativeCall(f"call_{place}", call.name, to_json(dict(call.arguments)))
    except Inexpressible as error:
        raise Inexpressible(f"arguments: {error}") from None


def read_call(call: NativeCall) -> ToolCall:
    """Read a call; empty arguments are an empty object. Raises WireError for arguments that are not a JSON object."""
    try:
        arguments = from_json(call.arguments or "{}")
    except ValueError as error:
        raise WireError(f"The arguments of {call.name} are no JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise WireError(f"The arguments of {call.name} must be a JSON object")
    return ToolCall(call.name, arguments, call.id)


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def calls_in(move: Move | None) -> tuple[ToolCall, ...]:
    """Return the calls that a move makes, or asks to make again."""
    if isinstance(move, Act):
        return move.calls
    return (move.call,) if isinstance(move, Recovery) and move.call is not None else ()


# --- the text of an answer in a reply that is still coming ---
# A codec that says where its format holds it has `answer_so_far(text, calls)`: the reply's text and the arguments of its calls by
# name, as far as they have come, give the answer's text as far as it has come. What comes later only adds to it.


def json_text(text: str, name: str) -> str:
    """Return the text of a property in JSON that may be cut off; empty where there is none yet, or something else."""
    try:
        value = import_module("pydantic_core").from_json(text, allow_partial="trailing-strings")  # only a stream needs pydantic
    except ValueError:
        return ""
    answer = value.get(name) if isinstance(value, dict) else None
    return answer if isinstance(answer, str) else ""


def section(text: str, name: str) -> str:
    """Return what a section of DSPy's chat format holds; a last line that may become the next header is left out."""
    _, header, content = f"\n{text}".partition(f"\n[[ ## {name} ## ]]")
    return without_last_line(content.partition("\n[[ ##")[0].strip(), "[[ ## ") if header else ""


def without_last_line(text: str, *beginnings: str) -> str:
    """Return a text without a last line that is the beginning of one of these: what comes next decides what it is."""
    rest, _, last = text.rpartition("\n")
    return rest.rstrip() if last and any(beginning.startswith(last) for beginning in beginnings) else text
