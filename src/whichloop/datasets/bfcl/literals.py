"""Values of Java and JavaScript as a call has them, which is as text: `5L`, `new int[]{1, 2}`, `{"a": 1}`; nothing is evaluated.

BFCL's functions of these languages take every argument as a text that holds a literal. Its checker reads the text by the
parameter's type and takes a text that is no literal of that type as it stands: the name of a variable. The readers here give what
the published converters give (bfcl_eval/eval_checker/ast_eval/type_convertor of the project `gorilla`), but for texts over
`MAX_LITERAL`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Literal

Language = Literal["python", "java", "javascript"]
MAX_LITERAL = 2_000
"""Longest text that is read as a literal, in characters; a longer one stays a text, so that no model can make a reader slow."""

_INTEGER, _DECIMAL, _EXPONENT = r"-?\d+", r"-?\d+(?:\.\d+)?", r"(?:[eE][+-]?\d+)?"
_Number = Callable[[str], float]
_JAVA_NUMBERS: dict[str, tuple[re.Pattern[str], str, _Number]] = {
    **dict.fromkeys(("byte", "short", "integer"), (re.compile(_INTEGER), "", int)),
    "long": (re.compile(_INTEGER + "[lL]"), "Ll", int),
    "float": (re.compile(_DECIMAL + _EXPONENT + "[fF]"), "Ff", float),
    "double": (re.compile(_DECIMAL + _EXPONENT), "", float),
}
"""Type → how its literal looks, the letters that end it, what it becomes."""
_JAVASCRIPT_NUMBERS: dict[str, tuple[re.Pattern[str], str, _Number]] = {
    "integer": (re.compile(_INTEGER), "", int),
    "float": (re.compile(_DECIMAL), "", float),
    "Bigint": (re.compile(_INTEGER + "n"), "n", int),
}
_BOOLEANS = {"true": True, "false": False}

_AS_LIST = re.compile(r"new\s+ArrayList<\w*>\(Arrays\.asList\((.+?)\)\)")
_ADDED = re.compile(r"new\s+ArrayList<\w*>\(\)\s*\{\{(.+?)\}\}", re.DOTALL)
_ADD = re.compile(r"add\((.+?)\)")
_NO_ITEMS = re.compile(r"new\s+ArrayList<\w*>\(\)")
_ARRAY = re.compile(r"new\s+\w+\[\]\s*\{(.*?)\}")
_MAP = re.compile(r"new\s+HashMap<.*?>\s*\(\)")
_MAP_BODY = re.compile(r"\s*\{(.*?)\}", re.DOTALL)
_PUT = re.compile(r"put\(\"(.*?)\",\s*+(.*?)\)")
_ROWS = re.compile(r"\[\s*\[")
_ROWS_END = re.compile(r"\]\s*\]")
_NEW_ROWS = re.compile(r"new\s+Array\(\s*\[")
_NEW_ROWS_END = re.compile(r"\]\s*\)")
_LIST = re.compile(r"\[(.*?)\]|new\s+Array\((.*?)\)")
_OBJECT = re.compile(r"\{(.*?)\}")


def read_literal(text: str, kind: str, items: str | None, language: Language) -> Any:
    """Return the value of a literal, or the text itself where it is none of its type.

    `kind`: BFCL's type of the parameter; `items`: that of a list's items, None if the file names none.
    """
    if len(text) > MAX_LITERAL:
        return text
    return (_java if language == "java" else _javascript)(text, kind, items)


def write_literal(value: Any, kind: str, items: str | None, language: Language) -> str:
    """Return a text that `read_literal` reads as `value`. Raises ValueError where no literal gives it."""
    for text in (_written_java if language == "java" else _written_javascript)(value, kind, items):
        if _same(read_literal(text, kind, items, language), value):
            return text
    raise ValueError(f"no {'Java' if language == 'java' else 'JavaScript'} literal of type {kind!r} gives the value {value!r}")


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _number(text: str, shape: tuple[re.Pattern[str], str, _Number]) -> Any:
    pattern, ending, number = shape
    return number(text.rstrip(ending) if ending else text) if pattern.fullmatch(text) else text


# Java


def _java(text: str, kind: str, items: str | None = None) -> Any:
    if kind in _JAVA_NUMBERS:
        return _number(text, _JAVA_NUMBERS[kind])
    if kind == "boolean":
        return _BOOLEANS.get(text, text)
    readers = {"ArrayList": _array_list, "Array": _array}
    if kind in readers:
        return readers[kind](text, items)
    return _hash_map(text) if kind == "HashMap" else text


def _array_list(text: str, items: str | None) -> Any:
    if match := _AS_LIST.search(text):
        written: list[str] = match[1].split(",")
    elif match := _ADDED.search(text):
        written = _ADD.findall(match[1])
    else:
        return [] if _NO_ITEMS.search(text) else text
    return [_item(item.strip(), items) for item in written]


def _item(text: str, items: str | None) -> Any:
    if items in ("char", "String"):
        return text[1:-1]
    return _java(text, items) if items else _java_by_looks(text)


def _array(text: str, items: str | None) -> Any:
    match = _ARRAY.search(text)
    if match is None:
        return text
    written = [item.strip() for item in match[1].split(",") if item.strip()]
    return [_java(item, items) if items else _java_by_looks(item) for item in written]


def _hash_map(text: str) -> Any:
    for start in _MAP.finditer(text):
        if body := _MAP_BODY.match(text, start.end()):
            return {key: _java_by_looks(value.strip()) for key, value in _PUT.findall(body[1])}
    return {} if _MAP.search(text) else text


def _java_by_looks(text: str) -> Any:
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if text.startswith('"') and text.endswith('"'):
        return text[1:-1]
    for kind in ("long", "float"):
        if not isinstance(value := _number(text, _JAVA_NUMBERS[kind]), str):
            return value
    return _number_by_looks(text)


def _number_by_looks(text: str) -> Any:
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _written_java(value: Any, kind: str, items: str | None) -> Iterable[str]:
    """Yield texts that may do, the most natural one first."""
    if isinstance(value, list):
        plain, quoted = (", ".join(_java_word(item, items, quotes) for item in value) for quotes in (False, True))
        for inner in (quoted, plain):
            yield f"new ArrayList<>(Arrays.asList({inner}))" if kind == "ArrayList" else f"new Object[]{{{inner}}}"
    elif isinstance(value, dict):
        puts = " ".join(f"put({_quoted(key)}, {_java_word(item, None, quotes=True)});" for key, item in value.items())
        yield f"new HashMap<String, Object>() {{{{ {puts} }}}}"
    else:
        yield _java_word(value, kind, quotes=False)


def _java_word(value: Any, kind: str | None, quotes: bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value!r}{_JAVA_NUMBERS[kind][1][:1] if kind in _JAVA_NUMBERS else ''}"
    return _quoted(value) if quotes else str(value)


def _quoted(value: Any) -> str:
    return f'"{value}"'


# JavaScript


def _javascript(text: str, kind: str, items: str | None = None) -> Any:
    if kind in _JAVASCRIPT_NUMBERS:
        return _number(text, _JAVASCRIPT_NUMBERS[kind])
    if kind == "String":
        return _unquoted(text)
    if kind == "Boolean":
        return _BOOLEANS.get(text, text)
    if kind == "array":
        return _list(text.strip(), items)
    return _object(text.strip()) if kind == "dict" else text


def _unquoted(text: str) -> str:
    return text[1:-1] if text[:1] in ('"', "'") and text.endswith(text[0]) else text


def _list(text: str, items: str | None) -> Any:
    for opening, ending in ((_ROWS, _ROWS_END), (_NEW_ROWS, _NEW_ROWS_END)):
        if (start := opening.match(text)) and (end := ending.search(text, start.end())):
            first, *others = (row.strip() for row in re.findall(r"\[(.*?)\]", text[: end.end()]))
            return [[_javascript_by_looks(item) for item in row.split(",")] for row in (first.removeprefix("["), *others)]
    match = _LIST.match(text)
    if match is None:
        return text
    inner = (match[1] if match[1] is not None else match[2]).strip()
    written = [item.strip() for item in inner.split(",")] if inner else []
    return [_javascript(item, items) if items else _javascript_by_looks(item) for item in written]


def _object(text: str) -> Any:
    if text == "{}":
        return {}
    match = _OBJECT.match(text)
    if match is None:
        return text
    fields: dict[str, Any] = {}
    for pair in _pairs(match[1]):
        key, _, value = pair.partition(":")
        fields[key.strip().strip("'\"")] = _field(value.strip())
    return fields


def _pairs(inner: str) -> list[str]:
    """Split at each comma that a further key follows: what stands between it and the next comma has a colon."""
    pairs: list[str] = []
    for part in inner.lstrip(":").split(","):
        if pairs and ":" in pairs[-1] and ":" in part[1:]:
            pairs.append(part)
        elif pairs:
            pairs[-1] += f",{part}"
        else:
            pairs.append(part)
    return [pair for pair in pairs if ":" in pair]


def _field(text: str) -> Any:
    if text.startswith("[") and text.endswith("]"):
        return _list(text, None)
    if text.startswith("{") and text.endswith("}"):
        return _object(text)
    return _javascript_by_looks(text.strip("'\""))


def _javascript_by_looks(text: str) -> Any:
    text = text.strip()
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    return _unquoted(text) if text[:1] in ('"', "'") and text.endswith(text[0]) else _number_by_looks(text)


def _written_javascript(value: Any, kind: str, items: str | None) -> Iterable[str]:
    """Yield texts that may do, the most natural one first."""
    if isinstance(value, list | dict):
        yield _javascript_word(value)
    elif isinstance(value, str):
        yield from (_quoted(value), value) if kind == "String" else (value,)
    else:
        yield f"{_javascript_word(value)}{'n' if kind == 'Bigint' else ''}"


def _javascript_word(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_javascript_word, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(key)}: {_javascript_word(item)}" for key, item in value.items()) + "}"
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, int | float) else _quoted(value)
