"""Reading lines of text, JSON and published JSON files: what is wrong is a ValueError of one line with file, line and field."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter, ValidationError

from whichloop.protocol.json_text import load_json

MAX_LINE_BYTES = 10_000_000
"""Longest line; a longer one is hardly meant to be a question."""
MAX_FILE_BYTES = 500_000_000
"""Largest file: its tasks are all held in memory."""
MAX_DEPTH = 100
"""Deepest nesting of JSON: not every library takes what is deeper."""
MAX_ID_CHARS = 400
"""Longest id of a task: those of tau2, which list all that is wrong, have up to 215."""
_BOM = b"\xef\xbb\xbf"


def _filled(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty")
    return text


def _one_line_id(text: str) -> str:
    if not text or len(text) > MAX_ID_CHARS or not text.isprintable():
        raise ValueError(f"{text[:60]!r} is not an id: one line of 1 to {MAX_ID_CHARS} printable characters")
    return text


Filled = Annotated[str, AfterValidator(_filled)]
"""A text that says something."""
TaskId = Annotated[str, AfterValidator(_one_line_id)]


class JsonRow(BaseModel):
    """The shape of a published row or part of one; fields that it does not name are left out."""

    model_config = ConfigDict(frozen=True, extra="ignore")


R = TypeVar("R")
_reader_of: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Read number and text of each line, ends included. Raises ValueError that names file and line, and OSError."""
    total = number = 0
    with path.open("rb") as file:
        while raw := file.readline(MAX_LINE_BYTES + 1):
            number, total = number + 1, total + len(raw)
            where = f"{path}, line {number}"
            if len(raw) > MAX_LINE_BYTES:
                raise ValueError(f"{where}: the line is longer than {MAX_LINE_BYTES:,} bytes")
            if total > MAX_FILE_BYTES:
                raise ValueError(f"{where}: the file is longer than {MAX_FILE_BYTES:,} bytes; take the first rows: limit")
            if b"\0" in raw:
                raise ValueError(f"{where}: the text is not UTF-8 (there is a NUL byte)")
            try:
                yield number, (raw.removeprefix(_BOM) if number == 1 else raw).decode("utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(f"{where}: the text is not UTF-8 ({error.reason} at byte {error.start + 1})") from None


def json_lines(path: Path) -> Iterator[tuple[str, int, Any]]:
    """Read `FILE, line N`, N, and the value of each line; blank lines are passed over. Raises ValueError and OSError."""
    for number, text in text_lines(path):
        if not text.isspace():
            where = f"{path}, line {number}"
            yield where, number, _value(text, where)


def json_file(path: Path) -> Any:
    """Read the one value of a file. Raises ValueError and OSError."""
    return _value(text_file(path), str(path))


def text_file(path: Path) -> str:
    """Read a file's text in UTF-8, with or without byte order mark. Raises ValueError and OSError."""
    return "".join(text for _, text in text_lines(path))


def checked(kind: type[R], value: Any, where: str = "") -> R:
    """Return the value as a row or another type. Raises ValueError that names the first field that is missing or wrong."""
    try:
        read: R = _reader_of(kind).validate_python(value)
        return read
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"]))
        place = "".join([f"{where}: " if where else "", f"field {field!r}: " if field else ""])
        raise ValueError(place + first["msg"].removeprefix("Value error, ")) from None


def read_quarantine(file: Path) -> dict[str, str]:
    """Read reasons by task id from a JSON object if the file's name ends in `.json`, else from TOML, `task-id = "the reason"`.

    Raises OSError, and ValueError in one line that names the file for anything else than ids with a reason each.
    """
    kind, load = ("JSON", load_json) if file.suffix == ".json" else ("TOML", tomllib.loads)
    try:
        entries = load(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # not UTF-8, or not the format
        raise ValueError(f"{file}: not {kind}: {error}") from None
    return checked(dict[str, Filled], entries, str(file))


def check_limit(importer: str, limit: int | None) -> None:
    """Raise ValueError unless a limit of rows is None or a whole number from 1 on."""
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise ValueError(f"{importer}: limit is {limit!r}, and must be a whole number from 1 on")


def json_value(text: str) -> Any:
    """Read strict JSON of bounded depth, whose text UTF-8 can encode. Raises ValueError, which says why and where in the text."""
    try:
        value = load_json(text, finite=True)
        if "\\ud" in text.lower():
            json.dumps(value, ensure_ascii=False).encode()
        if text.count("[") + text.count("{") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
            raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")
    except RecursionError:
        raise ValueError("not JSON (it is nested too deep)") from None
    except ValueError as error:
        raise ValueError(f"not JSON ({error})") from None
    return value


def _value(text: str, where: str) -> Any:
    try:
        return json_value(text)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _depth(value: Any) -> int:
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return 1 + max(map(_depth, inner), default=0)
