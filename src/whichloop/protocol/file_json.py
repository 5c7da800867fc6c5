"""Reading the JSON of files: a key that stands twice in an object is refused, where the standard library drops the first value."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from .json_text import LongNumberError, finite_number, is_for_digits, refuse_constant


class DuplicateKeyError(ValueError):
    """An object that has a key twice, such as a bad merge or a slip of the hand leaves."""


def load_json(text: str | bytes, *, finite: bool = False) -> Any:
    """Return the one value of a text. `finite`: NaN, infinity and numbers too large for a float are refused.

    Raises DuplicateKeyError, LongNumberError, and ValueError for what is not JSON or nested too deep.
    """
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    try:
        return (_FINITE if finite else _ANY).decode(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    except ValueError as error:
        if is_for_digits(error):
            raise LongNumberError from None
        raise


def _unique_keys(pairs: Sequence[tuple[str, object]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        key = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise DuplicateKeyError(f"duplicate key {key[:MAX_KEY_SHOWN]!r}")
    return data


MAX_KEY_SHOWN = 80
"""Characters of a key that the error shows."""
_ANY = json.JSONDecoder(object_pairs_hook=_unique_keys)
_FINITE = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_constant=refuse_constant, parse_float=finite_number)
