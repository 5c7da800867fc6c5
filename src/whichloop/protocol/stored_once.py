"""Texts that say what other texts say already: as references to those, so that what is long is stored once.

A stored text is a text, or a list of pieces: a text is itself, a number is the source of that place, and a list of one number is
that source as a JSON text has it, without its quotation marks. Sources are taken in their order and each at most once, which keeps
both ways linear, and what comes of stored texts no longer than they and their sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .json_text import Encoder

Stored = str | list[Any]
MIN_CHARS = 24
"""Shorter sources are not worth a reference."""
AHEAD = 4
"""How many sources are looked for at a time: one that stands nowhere does not hide those behind it."""
_ENCODER = Encoder(ensure_ascii=False)


def stored_once(texts: Iterable[str], sources: Sequence[str]) -> list[Stored]:
    """Return texts as references to sources, as far as they hold any."""
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
