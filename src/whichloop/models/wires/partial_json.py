"""What is certain of a JSON object that is cut short."""

from __future__ import annotations

import json
from typing import Any

from whichloop.protocol.json_text import Json, finite_number, refuse_constant

_DECODER = json.JSONDecoder(parse_constant=refuse_constant, parse_float=finite_number)
_SPACE = " \t\n\r"


def whole_members(text: str) -> dict[str, Json]:
    """Return the members that a comma ends: the last one may be cut, and is left out. Empty for a text that is no object."""
    place = _after_space(text, 0)
    members: dict[str, Any] = {}
    if text[place : place + 1] != "{":
        return members
    while True:
        try:
            key, place = _DECODER.raw_decode(text, _after_space(text, place + 1))
            place = _after_space(text, place)
            if not isinstance(key, str) or text[place : place + 1] != ":":
                return members
            value, place = _DECODER.raw_decode(text, _after_space(text, place + 1))
        except (ValueError, RecursionError):
            return members
        place = _after_space(text, place)
        if text[place : place + 1] != ",":
            return members
        members[key] = value


def _after_space(text: str, place: int) -> int:
    while text[place : place + 1] and text[place] in _SPACE:
        place += 1
    return place
