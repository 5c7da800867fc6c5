"""JSON that is written often, by an encoder made once, and that of files, where a key that stands twice is refused."""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from json import encoder
from typing import Any, TypeAlias

Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | int | float | bool | None"
"""A value of JSON, as a function gives it that writes one. What is read from outside is `object` until it has been looked at."""


class LongNumberError(ValueError):
    """A whole number of more digits than Python turns into text, or reads from one."""

    def __init__(self) -> None:
        digits = sys.get_int_max_str_digits()
        super().__init__(f"a number has more than {digits:,} digits: shorten it, or write it as text, in quotes")


def is_for_digits(error: Exception) -> bool:
    """Return whether an exception is Python's own about a number of too many digits, which has no class of its own."""
    return "integer string conversion" in str(error)


class Encoder(json.JSONEncoder):
    """A `json.JSONEncoder` that writes the same texts and raises the same errors, in a third of the time."""

    def __init__(self, **settings: Any) -> None:
        """`settings`: those of `json.JSONEncoder` except `indent`. A `default` must not swallow RecursionError."""
        super().__init__(**settings)
        make = getattr(encoder, "c_make_encoder", None)  # CPython's own
        text = encoder.encode_basestring_ascii if self.ensure_ascii else encoder.encode_basestring
        self._parts = None
        if make is not None:
            between = (self.key_separator, self.item_separator)
            self._parts = make(None, self.default, text, None, *between, self.sort_keys, self.skipkeys, self.allow_nan)

    def encode(self, o: object) -> str:
        """Raises as `json.JSONEncoder` does."""
        if self._parts is None:
            return super().encode(o)
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


Stored = str | list[Any]
MIN_CHARS = 24
"""Shorter sources are not worth a reference."""
AHEAD = 4
"""How many sources are looked for at a time: one that stands nowhere does not hide those behind it."""
_ENCODER = Encoder(ensure_ascii=False)


def stored_once(texts: Iterable[str], sources: Sequence[str]) -> list[Stored]:
    """Return texts as references to sources, as far as they hold any.

    A stored text is a text, or a list of pieces: a text is itself, a number is the source of that place, and a list of one number
    is that source as a JSON text has it, without its quotation marks. Sources are taken in their order and each at most once, which
    keeps both ways linear, and what comes of stored texts no longer than they and their sources.
    """
    forms = [(source, _quoted(source)) for source in sources]
    place, stored = 0, list[Stored]()
    for text in texts:
        pieces, at = list[Any](), 0
        while occurrence := _next(text, at, forms, place):
            start, end, place, reference = occurrence
            pieces += [text[at:start]] if start > at else []
            pieces.append(reference)
            at, place = end, place + 1
        rest = [text[at:]] if at < len(text) else []
        stored.append([*pieces, *rest] if pieces else text)
    return stored


def _next(text: str, at: int, forms: Sequence[tuple[str, str]], place: int) -> tuple[int, int, int, int | list[int]] | None:
    """Return where the next source stands in a text, its start, end and place, and the reference to it."""
    for number in range(place, min(place + AHEAD, len(forms))):
        references: tuple[int | list[int], ...] = (number, [number])
        for form, reference in zip(forms[number], references, strict=True):
            start = text.find(form, at) if len(form) >= MIN_CHARS else -1
            if start >= 0:
                return start, start + len(form), number, reference
    return None


def resolved(stored: Iterable[Stored], sources: Sequence[str]) -> list[str]:
    """Return the texts again. Raises ValueError for a reference to no source, and for sources out of their order."""
    last = -1
    texts: list[str] = []
    for item in stored:
        pieces: list[str] = []
        for piece in [item] if isinstance(item, str) else item:
            if isinstance(piece, str):
                pieces.append(piece)
                continue
            number = source_place(piece)
            if not last < number < len(sources):
                raise ValueError(f"there is no source {number} here")
            last = number
            pieces.append(sources[number] if piece is number else _quoted(sources[number]))
        texts.append("".join(pieces))
    return texts


def source_place(piece: Any) -> int:
    """Return the place of the source that a piece refers to. Raises ValueError for what is no reference."""
    number = piece[0] if isinstance(piece, list) and len(piece) == 1 else piece
    if type(number) is not int:
        raise ValueError("a piece must be a text, a number or a list of one number")
    return number


def _quoted(source: str) -> str:
    return _ENCODER.encode(source)[1:-1]
