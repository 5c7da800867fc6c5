"""Reading published JSON files: whatever is wrong with one is a ValueError of one line that names file, line and field."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from loopbench.protocol.wire import from_json

MAX_LINE = 10_000_000
"""Bytes; a file without line ends must not fill the memory before it is refused."""
MAX_FILE = 200_000_000
"""Bytes of a file that is read as a whole."""
MAX_DEPTH = 64
"""Levels of lists and objects; deeper ones would break whatever walks them."""


class Row(BaseModel):
    """The shape of a published row or part of one; fields that it does not name are left out."""

    model_config = ConfigDict(frozen=True, extra="ignore")


R = TypeVar("R", bound=Row)


def json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """Where each value stands, `FILE, line N`, and the value; blank lines are passed over. Raises ValueError and OSError."""
    with path.open("rb") as lines:
        number = 0
        while raw := lines.readline(MAX_LINE + 1):
            number += 1
            where = f"{path}, line {number}"
            if len(raw) > MAX_LINE:
                raise ValueError(f"{where}: the line is longer than {MAX_LINE} bytes")
            text = _text(raw, where, first=number == 1).strip()
            if text:
                yield where, _parsed(text, where)


def json_file(path: Path) -> Any:
    """The one value of a file. Raises ValueError and OSError."""
    return _parsed(text_file(path), str(path))


def text_file(path: Path) -> str:
    """A file's text in UTF-8, with or without byte order mark. Raises ValueError and OSError."""
    with path.open("rb") as file:
        raw = file.read(MAX_FILE + 1)
    if len(raw) > MAX_FILE:
        raise ValueError(f"{path}: the file is longer than {MAX_FILE} bytes")
    return _text(raw, str(path), first=True)


def checked(kind: type[R], value: Any, where: str) -> R:
    """The value as a row of its kind. Raises ValueError that names the first field that is missing or wrong."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise ValueError(f"{where}: {f'field {field!r}: ' if field else ''}{first['msg']}") from None


def _text(raw: bytes, where: str, *, first: bool) -> str:
    try:
        return raw.decode("utf-8-sig" if first else "utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: the text is not UTF-8 ({error.reason} at byte {error.start})") from None


def _parsed(text: str, where: str) -> Any:
    try:
        value = from_json(text)
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        at = f" at line {line}" if line > 1 else ""
        raise ValueError(f"{where}: no JSON ({getattr(error, 'msg', error)}{at})") from None
    if _is_deep(value):
        raise ValueError(f"{where}: nested deeper than {MAX_DEPTH} levels")
    return value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [part for whole in level for part in _parts(whole)]
        if not level:
            return False
    return True


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value
