"""Values as text and as JSON: results and errors of tools, arguments of calls, and numbers with what they count."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import functools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, time, timedelta
from enum import Enum
from typing import Any

from .json_text import canonical_json

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+(?=[^<>]{0,200}(?<![-=])>)")
"""A memory address as `<Thing object at 0x7f…>` has it; in prose ("fault at 0x10 -> exit") it is part of the result."""


_CUT = "... (truncated, "
MAX_SHOWN = 80
"""Characters of a bad value that an error shows."""


class ToolArgumentError(ValueError):
    """The arguments of a call do not fit the tool; the message says which, and what is allowed."""


def own_copy(value: Any) -> Any:
    """Copy a JSON value that others hold too: a tool that changes its argument must not change the move."""
    if not isinstance(value, list | dict):
        return value
    if type(value) is dict and all(type(item) in ATOMS for item in value.values()):
        return value.copy()
    try:
        return copy.deepcopy(value)
    except Exception:  # nested too deep, or an object that cannot be copied: pass on the original
        return value


def underlying(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function inside any functools.partial."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def cap(text: str, max_chars: int | None) -> str:
    """Cut a text at `max_chars` characters and say that it is cut; None leaves it whole."""
    if max_chars is None or len(text) <= max_chars:
        return text
    return f"{text[:max_chars]}{_CUT}{len(text)} characters in all)"


def shown_short(value: Any) -> str:
    """Return a bad value as an error shows it, on one line; code of the user's own may fail to describe it."""
    try:
        text = one_line(repr(value))
    except Exception:  # the boundary to the user's own code
        text = f"a {type(value).__name__}"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def one_line(text: str) -> str:
    """Return a text as one line, with every run of white space as one space."""
    return " ".join(text.split())


def uncapped(text: str) -> str:
    """Return what a text that `cap` has cut begins with; any other text as it is."""
    return text.rpartition(_CUT)[0] or text


def error_text(error: BaseException) -> str:
    """Return an exception's message, without type, traceback and memory addresses."""
    try:
        return legible(str(error))
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise
    except BaseException as broken:  # a user's __str__
        return f"(no message: {type(broken).__name__} in __str__)"


def render_value(value: Any) -> str:
    """Return any value as text, the same in every process: a str unchanged, otherwise JSON if possible, otherwise `str()`.

    Sets are sorted, memory addresses removed and lone surrogates replaced; never raises.
    """
    if value is None:
        return "None"
    try:
        plain = value if isinstance(value, _JSON_TYPES) else jsonable(value)
        return legible(plain if isinstance(plain, str) else _JSON.encode(plain))
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise
    except BaseException:  # a circular value, a key that JSON lacks, an error in a user's method
        return _legible_text(value, _notation)


def canonical(value: object) -> str:
    """Return canonical JSON; what JSON cannot say, as text."""
    try:
        return canonical_json(value)
    except (TypeError, ValueError, RecursionError):  # NaN, a depth that is read but not written
        return render_value(value)


def json_safe(value: Any) -> Any:
    """Return a value that JSON can hold; whatever JSON cannot hold becomes text."""
    if isinstance(value, str):
        return render_value(value)
    try:
        return json.loads(canonical_json(value))
    except Exception:  # NaN, a cycle, an object, or whatever a class of the loop's own raises
        return render_value(value)


def plain_value(value: Any) -> Any:
    """Return the JSON value that `render_value` writes.

    Models, dataclasses, sets and the like, at any depth, become what a reader of the text sees of them. What JSON cannot hold, such
    as a circular value, is returned as it is.
    """
    if type(value) in ATOMS:
        return value
    try:
        plain = value if isinstance(value, _JSON_TYPES) else jsonable(value)
        return plain if isinstance(plain, str) else json.loads(_JSON.encode(plain))
    except Exception:  # a circular value, a key that JSON lacks, an error in a user's method
        return value


def span_of(value: Any, path: Sequence[str | int]) -> tuple[int, int]:
    """Return where in `render_value(value)` the part at `path` begins and ends.

    All of it where the value has no such part, or is not rendered as JSON throughout.
    """
    whole = render_value(value)
    start, part = 0, value
    try:
        for key in path:
            start += 1
            items = part.items() if isinstance(part, Mapping) else enumerate(part)
            wanted = key if isinstance(part, Mapping) else range(len(part))[int(key)]
            for name, item in items:
                start += len(_JSON.encode(name)) + 2 if isinstance(part, Mapping) else 0
                if name == wanted:
                    break
                start += len(_JSON.encode(item)) + 2
            part = part[key]
        text = legible(_JSON.encode(part))
    except (KeyError, IndexError, TypeError, ValueError, RecursionError):
        return 0, len(whole)
    end = start + len(text)
    return (start, end) if path and whole[start:end] == text else (0, len(whole))


def jsonable(value: Any) -> Any:
    """Return the value that represents another in JSON; `str()` if nothing else does."""
    if isinstance(value, set | frozenset):  # each item rendered once and read back: sets nested in sets stay cheap
        return [json.loads(text) for text in sorted(legible(_JSON.encode(item)) for item in value)]
    try:
        if isinstance(value, type):
            return _legible_text(value)
        if callable(getattr(value, "model_dump", None)):
            return _in_order(value.model_dump(mode="json"), value)
        if dataclasses.is_dataclass(value):
            return {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
        if isinstance(value, Mapping):
            return dict(value)
    except RecursionError:  # the encoder tells a cycle from deep nesting
        raise
    except Exception:  # half built, or a user's method
        return _legible_text(value)
    return _legible_text(value)


def _in_order(plain: Any, source: Any) -> Any:
    """Sort the sets in `plain`, which pydantic made of `source`: it leaves them in an order that differs between processes."""
    if isinstance(plain, dict):
        same = isinstance(source, Mapping) and len(source) == len(plain)
        parts = source.values() if same else [getattr(source, key, None) for key in plain]
        return {key: _in_order(item, part) for (key, item), part in zip(plain.items(), parts, strict=True)}
    if isinstance(plain, list) and isinstance(source, list | tuple | set | frozenset) and len(source) == len(plain):
        items = [_in_order(item, part) for item, part in zip(plain, source, strict=True)]
        return sorted(items, key=_JSON.encode) if isinstance(source, set | frozenset) else items
    return plain


ATOMS = frozenset({str, int, float, bool, type(None)})
"""Values of exactly these types contain no others and need no `await`."""
_JSON_TYPES = (str, int, float, dict, list, tuple)
_JSON = json.JSONEncoder(ensure_ascii=False, default=jsonable)


def _notation(value: Any, above: tuple[int, ...] = ()) -> str:
    """Return `repr` with sorted sets; a part whose own `repr` fails is named by its type."""
    brackets = next((pair for kind, pair in _BRACKETS if isinstance(value, kind)), None)
    if id(value) in above:
        return "...".join(brackets or ("", ""))
    inside = (*above, id(value))
    if brackets is None or not value:
        plain = None if value is None or isinstance(value, _JSON_TYPES) else jsonable(value)
        return _notation(plain, inside) if isinstance(plain, dict | list) else _legible_text(value, repr)
    if isinstance(value, Mapping):
        parts = [f"{_notation(key, inside)}: {_notation(item, inside)}" for key, item in value.items()]
    else:
        parts = [_notation(item, inside) for item in value]
    if isinstance(value, set | frozenset):
        parts.sort()
    single = "," if isinstance(value, tuple) and len(parts) == 1 else ""
    return f"{brackets[0]}{', '.join(parts)}{single}{brackets[1]}"


_BRACKETS = ((Mapping, ("{", "}")), (list, ("[", "]")), (tuple, ("(", ")")), ((set, frozenset), ("{", "}")))


def _legible_text(value: Any, form: Callable[[Any], str] = str) -> str:
    try:
        return legible(form(value))
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise
    except BaseException:  # a user's __str__, or one nested too deep
        return f"<{type(value).__name__}>"


def legible(text: str) -> str:
    """Return a text that every encoding can write, and without addresses of objects, which differ from run to run."""
    text = str.__str__(text)  # of a subclass, an enum's member say, its characters only
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    return _ADDRESS.sub("", text) if " at 0x" in text else text


ROUNDING = 1e-9


def snapped(score: float) -> float:
    """Return a score, and 0 or 1 in the place of one that differs from it by a rounding error."""
    return next((end for end in (0.0, 1.0) if abs(score - end) <= ROUNDING), score)


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return `1 task`, `3 tasks`. `many`: the plural where it takes more than an s, its verb included: `trial is`, `trials are`."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def joined(names: Sequence[str], word: str = "and") -> str:
    """Return `a`, `a and b`, `a, b and c`, or the same with another word before the last one."""
    return f" {word} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def argument_json(value: object) -> object:
    """Return the JSON form of an argument. Raises what JSON or a user's own type raises for a value that cannot be said.

    An enum's member is its value, a date or a time ISO 8601, a set a sorted list, a dataclass an object, and a pydantic model is
    written by its aliases, as it is read.
    """
    return json.loads(_ARGUMENTS.encode(value))


def _argument(value: object) -> object:
    """Return what a value of another type than JSON's is written as."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, set | frozenset):
        return [json.loads(text) for text in sorted(map(_ARGUMENTS.encode, value))]
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"{'-' if value < timedelta() else ''}PT{abs(value).total_seconds():f}S"
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return _in_order(dump(mode="json", by_alias=True), dump(by_alias=True))
    return jsonable(value)


_ARGUMENTS = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_argument)
