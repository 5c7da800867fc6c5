"""What a prompt shows of a result: which of the values that a plan uses can be read there, and how far into it they stand.

A value counts only within its own result: between the two marks of its receipt, or next to one of them where the rest was cut off.
There it is found by its place: what stands there is held against the text that the tool gave, character by character, quotes,
escapes and white space aside. A result that was written anew, as XML, in fields or in prose, is searched for the key of each value
with the value after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from .values import one_line, render_value, span_of, uncapped

Path = tuple[str | int, ...]
"""Keys and indices into a result; empty for all of it."""
Side = Literal["both", "front", "back"]
"""Which marks of the receipt a text stands by."""

MIN_ALIGNED = 8
"""Characters of a result beside a single mark that are no chance: "2." after a mark may be the number of the next line."""

_ENTITY = re.compile(r"&(?:amp;)*(quot|apos|lt|gt|amp|#0*39|#0*34|#x0*27|#x0*22);", re.IGNORECASE)
_PLAIN_ENTITIES = {"lt": "<", "gt": ">", "amp": "&"}
_ESCAPE = re.compile(r"\\+(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([nrtfb])|(.)|\Z)", re.DOTALL)
_QUOTES = str.maketrans("", "", "\"'`")


class GivenResult(NamedTuple):
    """What a tool gave."""

    text: str
    value: Any


def legible_parts(result: GivenResult, text: str, side: Side, paths: Sequence[Path]) -> dict[Path, float]:
    """Return the paths whose values a text shows, with the share of the text that ends with each.

    `text`: what stands between the marks of the result's receipt, or beside the one that is left.
    """
    if text == result.text:
        spans = {path: _span(result, path) for path in paths}
        return {path: _share(span[1], len(text)) for path, span in spans.items() if span is not None}
    bare_text, bare_result = bare(text), bare(result.text)
    front = 0 if side == "back" else common_start(bare_result, bare_text)
    back = 0 if side == "front" else common_start(bare_result[::-1], bare_text[::-1])
    if side != "both" and max(front, back) < MIN_ALIGNED:
        return {}
    places: dict[Path, float] = {}
    is_anew = side == "both" and bare_text != bare_result and "[r:" not in text  # what holds other results says nothing of this one
    laid_out = one_line(unquoted(text)) if is_anew else ""
    for path in paths:
        span = _span(result, path)
        if span is None:
            continue
        start, end = (len(bare(result.text[:place])) for place in span)
        if end <= front:
            places[path] = _share(end, len(bare_text))
        elif start >= len(bare_result) - back:
            places[path] = _share(len(bare_text) - (len(bare_result) - end), len(bare_text))
        elif laid_out and (place := _stated(result.value, path, laid_out)) is not None:
            places[path] = _share(place, len(laid_out))
    return places


def _share(place: int, length: int) -> float:
    return place / length if length else 1.0


def _span(result: GivenResult, path: Path) -> tuple[int, int] | None:
    """Return where the part at a path begins and ends in the result's text; None where the length cap has cut it off."""
    whole = 0, len(result.text)
    if not path:
        return whole
    start, end = span_of(result.value, path)
    rendered = render_value(result.value)
    if result.text[:end] == rendered[:end]:
        return start, end
    return None if rendered.startswith(uncapped(result.text)) else whole  # else it was worded by someone else


def unquoted(text: str) -> str:
    """Return a text without quotes, escapes and entities, however often it was quoted: JSON in JSON and XML become alike."""
    if "&" in text:
        text = _ENTITY.sub(lambda match: _PLAIN_ENTITIES.get(match[1].lower(), ""), text)
    if "\\" in text:
        text = _ESCAPE.sub(_unescaped, text)
        if _SURROGATE.search(text):
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.translate(_QUOTES)


_SURROGATE = re.compile("[\ud800-\udfff]")


def _unescaped(escape: re.Match[str]) -> str:
    digits = escape[1] or escape[2]
    if digits:
        return chr(int(digits, 16))
    return " " if escape[3] else (escape[4] or "")


def bare(text: str) -> str:
    """Return a text without quotes, escapes, entities and white space."""
    return "".join(unquoted(text).split())


def common_start(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


# --- results that were written anew ---


def _stated(value: Any, path: Path, text: str) -> int | None:
    """Return where a text that was laid out anew has stated the part of a value at a path, by its key; None if it does not."""
    try:
        for key in path:
            value = value[key]
    except (KeyError, IndexError, TypeError):
        return None
    last = 0
    for key, leaf in _leaves(value, next((step for step in reversed(path) if isinstance(step, str)), "")):
        match = _pattern(key, _spellings(leaf)).search(text)
        if match is None:
            return None
        last = max(last, match.end())
    return last


def _leaves(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    """Yield the values of no parts within a value, each with the nearest key above it."""
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from _leaves(item, str(name))
    elif isinstance(value, list | tuple) and value:
        for item in value:
            yield from _leaves(item, key)
    else:
        yield key, value


def _spellings(value: Any) -> tuple[str, ...]:
    """Return the ways in which a value is written: as JSON has it, and as Python does."""
    return tuple(dict.fromkeys(one_line(unquoted(text)) for text in (render_value(value), _as_json(value), str(value))))


def _as_json(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else render_value(value)


@lru_cache(maxsize=2048)
def _pattern(key: str, spellings: tuple[str, ...]) -> re.Pattern[str]:
    """Return what finds a value after its key, by itself where it has none; never a part of a longer number or word."""
    stated = "|".join(map(re.escape, sorted(spellings, key=len, reverse=True)))
    value = rf"(?<![\w.+-])(?:{stated})(?!\w|[.,]\d)"
    if not key:
        return re.compile(value)
    words = r"[_ -]?".join(map(re.escape, re.split(r"[_ -]+", one_line(unquoted(key)))))
    return re.compile(rf"(?<!\w)(?i:{words})(?!\w)[^\w+-]{{0,12}}(?:(?:is|was|are|of) )?{value}")
