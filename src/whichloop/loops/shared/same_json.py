"""Whether two values are the same JSON."""

from __future__ import annotations

from typing import Any


def same_json(one: Any, other: Any) -> bool:
    """Return whether two values are the same JSON: true is not 1, as it is in Python, and 5 is 5.0, as a browser writes that.

    A value of a type that JSON lacks is the same as no other.
    """
    pairs = [(one, other)]  # no recursion: a model may nest as deep as JSON is read
    while pairs:
        left, right = pairs.pop()
        kind = _json_type(left)
        if kind is None or kind is not _json_type(right):
            return False
        if kind is dict:
            if left.keys() != right.keys():
                return False
            pairs += [(value, right[key]) for key, value in left.items()]
        elif kind is list:
            if len(left) != len(right):
                return False
            pairs += zip(left, right, strict=True)
        elif left != right:
            return False
    return True


def _json_type(value: Any) -> type | None:
    """Return which of JSON's types a value has, `float` for any number; None if it has none."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float
    return next((kind for kind in (str, bool, dict, list, type(None)) if isinstance(value, kind)), None)
