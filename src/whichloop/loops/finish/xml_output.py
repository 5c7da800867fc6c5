"""XML, both ways: the input of a call, the template that asks for an answer, and a lenient reader of what comes back.

The reader knows the names that it looks for, and takes all other markup as text. It goes through the tags once, so that its time
grows with the length of the reply and with nothing else; it knows the five predefined entities and character references only.
"""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import date, time
from enum import Enum
from functools import partial
from typing import Any

from pydantic import BaseModel

from whichloop.protocol import WireError, render_value

INDENT = "    "
INSTRUCTION = """\
You must provide your final answer now. Respond with your answer in the following XML structure:
{template}

Fill in the values. Do not repeat the descriptions."""
_escaped = partial(html.escape, quote=False)

# --- writing ---


def input_xml(fields: Mapping[str, Any] | BaseModel) -> str:
    """Return `<input>` with one element per field, its description as attribute; fields of None are left out."""
    return "\n".join(_element("input", fields))


def output_xml(arguments: Mapping[str, Any]) -> str:
    """Return `<output>` with the values filled in; white space at the ends of a text is written as references, and so is kept."""
    filled = {name: "" if value is None else value for name, value in arguments.items()}
    return "\n".join(_element("output", filled, escape=_with_ends))


def _element(name: str, value: Any, description: str = "", escape: Callable[[str], str] = _escaped) -> list[str]:
    """Return the lines of one element; no line for None."""
    value = value.value if isinstance(value, Enum) else value
    if value is None:
        return []
    opening = f"<{name}{_attribute(description)}>"
    if isinstance(value, BaseModel):
        parts = [(field, getattr(value, field), info.description or "") for field, info in type(value).model_fields.items()]
    elif isinstance(value, Mapping):
        parts = [(render_value(key.value if isinstance(key, Enum) else key), item, "") for key, item in value.items()]
    elif isinstance(value, list | tuple | set | frozenset):
        parts = [("item", item, "") for item in value]
    else:
        text = value.isoformat() if isinstance(value, date | time) else render_value(value)
        return [f"{opening}{escape(text)}</{name}>"]
    return [opening, *(INDENT + line for part in parts for line in _element(*part, escape)), f"</{name}>"]


def _with_ends(text: str) -> str:
    """Escape a text, and the white space at its ends too, which a reader takes for layout."""
    inner = text.strip()
    before, _, after = text.partition(inner) if inner else (text, "", "")
    start, end = ("".join(f"&#{ord(char)};" for char in space) for space in (before, after))
    return f"{start}{_escaped(inner)}{end}"


def _attribute(description: str) -> str:
    quoted = _escaped(description).replace('"', "&quot;")
    return f' description="{quoted}"' if description else ""


def instruction(parameters: Mapping[str, Any]) -> str:
    """Return the message that asks for the answer in XML: an element for each field, described by an attribute (row S3-22)."""
    lines = [INDENT + line for line in _template(parameters, parameters, ())]
    return INSTRUCTION.format(template="\n".join(["<output>", *lines, "</output>"]))


def _template(schema: Mapping[str, Any], root: Mapping[str, Any], above: tuple[str, ...]) -> list[str]:
    """Return one element per property, nested objects inside; an object that stands in itself is left empty."""
    if (key := repr(schema)) in above:
        return []
    lines: list[str] = []
    for name, item in schema.get("properties", {}).items():
        description = item.get("description", "") if isinstance(item, Mapping) else ""
        opening = f"<{name}{_attribute(str(description))}>"
        shape = shape_of(options_of(item, root))
        if shape.get("type") == "array":
            nested = _template(shape_of(options_of(shape.get("items"), root)), root, (*above, key))
            inner = ["<item>", *(INDENT + line for line in nested), "</item>"] if nested else ["<item></item>"]
        else:
            inner = _template(shape, root, (*above, key))
        lines += [opening, *(INDENT + line for line in inner), f"</{name}>"] if inner else [f"{opening}</{name}>"]
    return lines


# --- schemas ---


def resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema after following its reference to `#/$defs/…`; references to elsewhere are not followed."""
    for _ in range(20):  # a reference to a reference to itself
        if not isinstance(schema, Mapping):
            return {}
        target = schema.get("$ref")
        if not isinstance(target, str):
            return schema
        schema = root
        for key in filter(None, target.removeprefix("#").strip("/").split("/")):
            schema = schema.get(key) if isinstance(schema, Mapping) else None
    return {}


def options_of(schema: Any, root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the alternatives of a schema, null first; the schema itself if it has none."""
    schema = resolved(schema, root)
    kinds, either = schema.get("type"), schema.get("anyOf", schema.get("oneOf"))
    options: list[Mapping[str, Any]] = [schema]
    if isinstance(kinds, list):
        options = [{**schema, "type": kind} for kind in kinds]
    elif isinstance(either, list):
        options = [resolved(item, root) for item in either]
    return sorted(options, key=lambda option: option.get("type") != "null")


def shape_of(options: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the alternative that has parts, if any; else the first that is not null."""
    parts = [option for option in options if option.get("type") == "array" or option.get("properties")]
    return (parts or [option for option in options if option.get("type") != "null"] or [{}])[0]


# --- reading ---

MAX_DEPTH = 100
_ATTRIBUTES = r"""(?:\s(?:"[^"<]*"|'[^'<]*'|[^<>"'/]|/(?!>))*)?"""
"""No attribute has a `<` (XML 1.0, section 3.1), so that none is read twice. Not possessive: CPython 3.11.2 gets `*+` wrong."""
_ENTITY = re.compile(r"&(?:(amp|lt|gt|quot|apos)|#(\d{1,7})|#x([0-9a-fA-F]{1,6}));")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_FENCE = re.compile(r"```\w*\s*\Z")
_FORMS: Mapping[str, Any] = {"boolean": bool, "integer": int, "number": int | float, "null": type(None)}
_MISSING = object()


def read_output(text: str, parameters: Mapping[str, Any], *, typed: bool = True) -> tuple[str, dict[str, Any]]:
    """Return the text before the first `<output>`, and its content as values, lists of `<item>` and objects.

    `typed`: texts are read as the schema's types where they can be. Raises WireError if there is no `<output>`.
    """
    text = _without_cdata(text)
    names = dict.fromkeys(["output", "item", *_property_names(parameters)])
    tag = re.compile(rf"<(/?)({'|'.join(map(re.escape, names))}){_ATTRIBUTES}(/?)>")
    to_close, opened, nested = Counter(match[2] for match in tag.finditer(text) if match[1]), Counter[str](), Counter[str]()
    output = {"type": "object", "properties": parameters.get("properties", {})}
    elements = [_Element("", 0, 0, {"properties": {"output": output}}, parameters)]
    for match in tag.finditer(text):
        is_closing, name, is_empty = match.groups()
        within = elements[-1]
        if is_closing:
            to_close[name] -= 1
            if nested[name]:
                nested[name] -= 1
                continue
            while opened[name]:
                element = elements.pop()
                opened[element.name] -= 1
                if element.name == name:  # what was opened within it and is not closed is text
                    elements[-1].found.append((name, element.value(text[element.start : match.start()], typed)))
                    break
        elif name in within.parts:
            element = _Element(name, match.start(), match.end(), within.parts[name], parameters)
            if is_empty:
                within.found.append((name, element.value("", typed)))
            elif to_close[name] > opened[name] + nested[name]:  # an opening tag that nothing closes is text
                elements.append(element)
                opened[name] += 1
        elif opened[name] and not is_empty and (within.parts or within.name != name):
            nested[name] += to_close[name] > opened[name] + nested[name]
        if len(elements) > MAX_DEPTH:
            raise WireError("the XML is nested too deep")
        if elements[0].found:
            thought = _FENCE.sub("", _unescaped(text[: element.opening])).strip()
            value = elements[0].found[0][1]
            return thought, value if isinstance(value, dict) else {}
    raise WireError("the reply holds no <output>…</output>")


class _Element:
    """An element that has been opened, and what was found in it."""

    def __init__(self, name: str, opening: int, start: int, schema: Any, root: Mapping[str, Any]) -> None:
        self.name, self.opening, self.start = name, opening, start
        self.options = options_of(schema, root)
        shape = shape_of(self.options)
        self.is_list = shape.get("type") == "array"
        self.parts: Mapping[str, Any] = {"item": shape.get("items")} if self.is_list else shape.get("properties") or {}
        self.found: list[tuple[str, Any]] = []

    def value(self, text: str, typed: bool) -> Any:
        """Return what the element says: empty, it is "" for a text, None if that is allowed, else missing.

        White space at either end is layout; references to it, such as `&#32;`, are not.
        """
        is_empty = not self.found and not text.strip()
        if is_empty and any(option.get("type") == "null" for option in self.options):
            return None
        found = [(name, value) for name, value in self.found if value is not _MISSING]
        if self.is_list and (self.found or is_empty):
            return [value for _, value in found]
        if self.parts and not self.is_list:
            fields: dict[str, Any] = {}
            for name, value in found:
                fields.setdefault(name, value)
            return fields
        if is_empty and not any(map(_is_free_text, self.options)):
            return _MISSING
        value = _unescaped(text.strip())
        return _typed(value, self.options) if typed else value


def _property_names(schema: Any) -> Iterator[str]:
    """Yield the names of all properties in a schema, at any depth."""
    if isinstance(schema, list):
        for part in schema:
            yield from _property_names(part)
    elif isinstance(schema, Mapping):
        properties = schema.get("properties")
        yield from map(str, properties) if isinstance(properties, Mapping) else ()
        yield from _property_names([*schema.values()])


def _without_cdata(text: str) -> str:
    """Return the text with CDATA sections escaped; a section that is never closed is text already."""
    opening, closing = "<![CDATA[", "]]>"
    pieces, position = [], 0
    while (start := text.find(opening, position)) >= 0 and (end := text.find(closing, start)) >= 0:
        pieces += [text[position:start], _with_ends(text[start + len(opening) : end])]
        position = end + len(closing)
    return "".join((*pieces, text[position:]))


def _is_free_text(shape: Mapping[str, Any]) -> bool:
    is_bound = "enum" in shape or "const" in shape or shape.get("format") in ("date", "date-time", "time", "duration", "uuid")
    return shape.get("type") in ("string", None) and not is_bound


def _typed(text: str, options: list[Mapping[str, Any]]) -> Any:
    """Return the JSON value that a text states, if one of the options takes it; else the text itself."""
    try:
        value = json.loads(text.lower())
    except (ValueError, RecursionError):
        return text
    for option in options:
        form = _FORMS.get(str(option.get("type")), ())
        allowed = option.get("enum", [option["const"]] if "const" in option else ())
        if value in allowed or (isinstance(value, form) and isinstance(value, bool) is (form is bool)):
            return value
    return text


def _unescaped(text: str) -> str:
    return _ENTITY.sub(_entity, text)


def _entity(match: re.Match[str]) -> str:
    if match[1]:
        return _NAMED[match[1]]
    code = int(match[2]) if match[2] else int(match[3], 16)
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else match[0]
