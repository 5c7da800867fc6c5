"""Grammars as llama.cpp takes them: in the Lark dialect of LLGuidance, which knows JSON schemas.

Format: https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md. Texts and lists are bounded here: a small model may
write on without an end, and a reply that is cut cannot be read. Numbers are not: a JSON schema bounds their range, and not their
digits, so a number that goes on without an end ends with the reply's tokens, and that reply cannot be read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from whichloop.protocol import AnyCall, Grammar, GrammarPart, JsonValue, OneOf, Repeated, TextLine

MAX_TEXT_CHARS = 120
"""Characters of a text in JSON whose schema does not bound it."""
MAX_ITEMS = 6
"""Items of a list in JSON whose schema does not bound it."""
_COMPACT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""JSON on one line: white space, too, can be written without an end."""
_LINE_BREAKS = r"\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
"""What Python splits lines at, in the words of a regular expression."""
_LISTS_OF_SCHEMAS = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED_SCHEMAS = ("properties", "$defs", "definitions")
_SCHEMAS = ("items", "additionalProperties", "not")


def lark(grammar: Grammar) -> str:
    """Return a grammar as text. Raises ValueError for a native call, which must have been written out before."""
    return "%llguidance {}\nstart: " + "\n  | ".join(map(_sequence, grammar.alternatives)) + "\n"


def _sequence(parts: Iterable[GrammarPart]) -> str:
    return " ".join(map(_part, parts)) or '""'


def _part(part: GrammarPart) -> str:
    match part:
        case str():
            return json.dumps(part, ensure_ascii=False)
        case TextLine():
            return f"/[^{_LINE_BREAKS}]{{1,{part.max_chars}}}/"
        case JsonValue():
            return f"%json {json.dumps(bounded(part.schema) | {'x-guidance': _COMPACT}, ensure_ascii=False)}"
        case AnyCall():
            raise ValueError("a native call has no text of its own")
        case OneOf():
            return f"({' | '.join(map(_part, part.texts))})"
        case Repeated():
            most = max(MAX_ITEMS, part.least) if part.most is None else part.most
            return f"({_sequence(part.parts)}){{{part.least},{most}}}"


def bounded(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON schema with bounds on texts, lists and properties where it has none. What fits it fits the given one, too."""
    copy = dict(schema)
    for name in _LISTS_OF_SCHEMAS:
        if isinstance(copy.get(name), list):
            copy[name] = [_bounded(each) for each in copy[name]]
    for name in _NAMED_SCHEMAS:
        if isinstance(copy.get(name), Mapping):
            copy[name] = {key: _bounded(each) for key, each in copy[name].items()}
    for name in _SCHEMAS:
        if name in copy:
            copy[name] = _bounded(copy[name])
    kinds = copy["type"] if isinstance(copy.get("type"), list) else [copy.get("type")]
    if "string" in kinds and not copy.keys() & {"enum", "const", "pattern", "format"}:
        copy["maxLength"] = copy.get("maxLength", max(MAX_TEXT_CHARS, copy.get("minLength", 0)))
    if "array" in kinds:
        copy["maxItems"] = copy.get("maxItems", max(MAX_ITEMS, copy.get("minItems", 0)))
    if "object" in kinds and "properties" in copy:
        copy["additionalProperties"] = copy.get("additionalProperties", False)
    return copy


def _bounded(schema: Any) -> object:
    """Return a schema within another one, with bounds; true and false are schemas too."""
    return bounded(schema) if isinstance(schema, Mapping) else schema
