"""JSON that is written often, by an encoder made once, and that of files, where a key that stands twice is refused."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from json import encoder
from typing import Any, TypeAlias, cast

Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | int | float | bool | None"
"""A value of JSON, as a function gives it that writes one. What is read from outside is `object` until it has been looked at."""


class Encoder(json.JSONEncoder):
    """A `json.JSONEncoder` that writes the same texts and raises the same errors, in a third of the time for small values."""

    def __init__(self, **settings: Any) -> None:
        """`settings`: those of `json.JSONEncoder` except `indent`. A `default` must not swallow RecursionError."""
        super().__init__(**settings)
        text = encoder.encode_basestring_ascii if self.ensure_ascii else encoder.encode_basestring
        between = (self.key_separator, self.item_separator)
        self._parts = cast(Any, encoder).c_make_encoder(
            None, self.default, text, None, *between, self.sort_keys, self.skipkeys, self.allow_nan
        )

    def encode(self, o: object) -> str:
        """Raises as `json.JSONEncoder` does."""
        try:
            return "".join(self._parts(o, 0))
        except RecursionError:  # the standard encoder tells a cycle from deep nesting
            return super().encode(o)


def refuse_constant(name: str) -> object:
    """Refuse NaN and infinity. Raises ValueError."""
    raise ValueError(f"{name} is not JSON")


def finite_number(text: str) -> float:
    """Read a number that a float can hold. Raises ValueError."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is out of range")
    return value


class DuplicateKeyError(ValueError):
    """An object that has a key twice, such as a bad merge or a slip of the hand leaves."""


def load_json(text: str | bytes, *, finite: bool = False) -> Any:
    """Return the one value of a text. `finite`: NaN, infinity and numbers too large for a float are refused.

    Raises DuplicateKeyError, and ValueError for what is not JSON or nested too deep.
    """
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    return _decoded(_FINITE if finite else _ANY, text)


def from_json(text: str) -> Any:
    """Read what a model wrote: JSON without NaN, of a key that stands twice the last. Raises ValueError with the reason."""
    return _decoded(_STRICT, text)


def _decoded(decoder: json.JSONDecoder, text: str) -> Any:
    try:
        return decoder.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


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
_STRICT = json.JSONDecoder(parse_constant=refuse_constant, parse_float=finite_number)
