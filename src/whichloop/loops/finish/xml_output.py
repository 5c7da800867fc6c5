"""XML, both ways: the input of a call, the template that asks for an answer, and a lenient reader of what comes back.

The reader knows the names that it looks for, and takes all other markup as text. It is not an XML parser: it expands the five
predefined entities and character references only, fetches nothing and cannot be made to grow.

Rows such as S3-22 are those of docs/conformance.md.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from enum import Enum
from itertools import islice
from typing import Any, NamedTuple

from pydantic import BaseModel

from whichloop.protocol import WireError, render_value

from .output import options_of

MAX_TAGS = 200_000
"""Tags of the expected names that a reply may have."""
_ATTRIBUTES = r"""(?:\s(?:"[^"<]*"|'[^'<]*'|[^<>"'/]|/(?!>))*)?"""
"""No attribute has a `<` (XML 1.0, section 3.1), so that none is read twice. Not possessive: CPython 3.11.2 gets `*+` wrong."""


class XmlTag(NamedTuple):
    """One tag of a text."""

    start: int
    end: int
    name: str
    kind: str
    """`open`, `close` or, for an element without content, `empty`."""


@dataclass(frozen=True, slots=True)
class XmlTags:
    """All tags of a text in order, with what ends each opening one.

    Each tag is read once and looked at once for each element that it may end, so that the time grows with the length of the reply
    and with nothing else, whatever is in it.
    """

    text: str
    tags: Sequence[XmlTag]
    balanced: Sequence[int]
    """For each tag, the place of the closing tag that balances it; beyond the last tag if there is none."""
    following: Sequence[int]
    """For each tag, the place of the next closing tag of its name; beyond the last tag if there is none."""
    closing: dict[str, list[int]]
    """Name → places of its closing tags."""

    @classmethod
    def of(cls, text: str, names: Collection[str]) -> XmlTags:
        """Find the tags of these names. Raises WireError if there are too many of them."""
        pattern = re.compile(rf"<(/?)({'|'.join(map(re.escape, dict.fromkeys(names)))}){_ATTRIBUTES}(/?)>")
        matches = pattern.finditer(text)
        tags = [
            XmlTag(tag.start(), tag.end(), tag[2], "empty" if tag[3] else "close" if tag[1] else "open")
            for tag in islice(matches, MAX_TAGS + 1)
        ]
        if len(tags) > MAX_TAGS:
            raise WireError(f"the XML has more than {MAX_TAGS:,} tags")
        none = len(tags)
        balanced, following = [none] * none, [none] * none
        closing: dict[str, list[int]] = {}
        opened: dict[str, list[int]] = {}
        for place, tag in enumerate(tags):
            if tag.kind == "open":
                opened.setdefault(tag.name, []).append(place)
            elif tag.kind == "close":
                closing.setdefault(tag.name, []).append(place)
                if opened.get(tag.name):
                    balanced[opened[tag.name].pop()] = place
        coming: dict[str, int] = {}
        for place in range(none - 1, -1, -1):
            following[place] = coming.get(tags[place].name, none)
            if tags[place].kind == "close":
                coming[tags[place].name] = place
        return cls(text, tags, balanced, following, closing)

    def end_of(self, place: int, last: int, is_leaf: bool) -> int | None:
        """Return the place of the tag before `last` that closes the one at `place`; None if absent.

        That is the next one for a leaf, and else the one that balances it, or the last one if none does.
        """
        end = self.following[place] if is_leaf else self.balanced[place]
        if end < last or is_leaf:
            return end if end < last else None
        places = self.closing.get(self.tags[place].name, [])
        before = bisect_left(places, last) - 1
        return places[before] if before >= 0 and places[before] > place else None


@dataclass(frozen=True, slots=True)
class XmlPart:
    """The content of an element, or a whole text."""

    within: XmlTags
    name: str
    opening: int
    """Where the element's opening tag begins."""
    start: int
    end: int
    first: int
    """Place of the first tag inside."""
    last: int
    """Place of the first tag behind."""

    @classmethod
    def whole(cls, text: str, names: Collection[str]) -> XmlPart:
        """Return a text as one part. Raises WireError if it has too many tags of these names."""
        tags = XmlTags.of(text, names)
        return cls(tags, "", 0, 0, len(text), 0, len(tags.tags))

    @property
    def text(self) -> str:
        return self.within.text[self.start : self.end]

    def elements(self, names: Collection[str], is_leaf: Callable[[str], bool]) -> Iterator[XmlPart]:
        """Yield the elements of these names inside that are siblings. An opening tag that nothing closes is text."""
        tags, place = self.within.tags, self.first
        while place < self.last:
            tag = tags[place]
            if tag.name not in names or tag.kind == "close":
                place += 1
                continue
            if tag.kind == "empty":
                yield XmlPart(self.within, tag.name, tag.start, tag.end, tag.end, place + 1, place + 1)
                place += 1
                continue
            end = self.within.end_of(place, self.last, is_leaf(tag.name))
            if end is not None:
                yield XmlPart(self.within, tag.name, tag.start, tag.end, tags[end].start, place + 1, end)
                place = end
            place += 1


INDENT = "    "
INSTRUCTION = """\
You must provide your final answer now. Respond with your answer in the following XML structure:
{template}

Fill in the values. Do not repeat the descriptions."""

# --- writing ---


def input_xml(fields: Mapping[str, Any], descriptions: Mapping[str, str] | None = None) -> str:
    """Return `<input>` with one element per field, its description as attribute; fields of None are left out."""
    described = descriptions or {}
    lines = [line for name, value in fields.items() for line in _element(name, value, described.get(name, ""))]
    return "\n".join(["<input>", *(INDENT + line for line in lines), "</input>"])


def model_xml(instance: BaseModel) -> str:
    """Return a pydantic instance as `<input>`."""
    return input_xml(_fields(instance), _descriptions(instance))


def output_xml(arguments: Mapping[str, Any]) -> str:
    """Return `<output>` with the values filled in; white space at the ends of a text is written as references, and so is kept."""
    filled = {name: "" if value is None else value for name, value in arguments.items()}
    lines = [line for name, value in filled.items() for line in _element(name, value, escape=_escape_with_ends)]
    return "\n".join(["<output>", *(INDENT + line for line in lines), "</output>"])


def _element(name: str, value: Any, description: str = "", *, escape: Callable[[str], str] | None = None) -> list[str]:
    """Return the lines of one element; no line for None."""
    if value is None:
        return []
    if isinstance(value, Enum):
        value = value.value
    opening = f"<{name}{_attribute(description)}>"
    described = _descriptions(value)
    if isinstance(value, BaseModel):
        value = _fields(value)
    if isinstance(value, Mapping):
        parts = [line for key, item in value.items() for line in _element(_name(key), item, described.get(key, ""), escape=escape)]
    elif isinstance(value, list | tuple | set | frozenset):
        parts = [line for item in value for line in _element("item", item, escape=escape)]
    else:
        text = value.isoformat() if isinstance(value, date | time) else render_value(value)
        return [f"{opening}{(escape or escaped)(text)}</{name}>"]
    return [opening, *(INDENT + part for part in parts), f"</{name}>"]


def _name(key: Any) -> str:
    return render_value(key.value if isinstance(key, Enum) else key)


def _fields(instance: BaseModel) -> dict[str, Any]:
    return {name: getattr(instance, name) for name in type(instance).model_fields}


def _descriptions(value: Any) -> dict[str, str]:
    if not isinstance(value, BaseModel):
        return {}
    return {name: field.description or "" for name, field in type(value).model_fields.items()}


def escaped(text: str) -> str:
    """Return a text as it stands between tags."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _escape_with_ends(text: str) -> str:
    """Escape a text, and the white space at its ends too, which a reader takes for layout."""
    inner = text.strip()
    start = text.find(inner)
    before, after = text[:start] if inner else text, text[start + len(inner) :] if inner else ""
    return f"{_references(before)}{escaped(inner)}{_references(after)}"


def _references(text: str) -> str:
    return "".join(f"&#{ord(char)};" for char in text)


def _attribute(description: str) -> str:
    quoted = escaped(description).replace('"', "&quot;")
    return f' description="{quoted}"' if description else ""


def instruction(parameters: Mapping[str, Any]) -> str:
    """Return the message that asks for the answer in XML: an element for each field, described by an attribute (row S3-22)."""
    lines = [INDENT + line for line in _template(parameters, parameters, ())]
    return INSTRUCTION.format(template="\n".join(["<output>", *lines, "</output>"]))


def _template(schema: Mapping[str, Any], root: Mapping[str, Any], above: tuple[str, ...]) -> list[str]:
    """Return one element per property, nested objects inside; an object that holds itself is left empty."""
    lines: list[str] = []
    for name, item in schema.get("properties", {}).items():
        own = item if isinstance(item, Mapping) else {}
        shape = shape_of(item, root)
        opening = f"<{name}{_attribute(str(own.get('description', '')))}>"
        inner: list[str] = []
        if shape.get("type") == "array":
            entry = shape_of(shape.get("items"), root)
            nested = _nested(entry, root, above)
            inner = ["<item>", *nested, "</item>"] if nested else ["<item></item>"]
            inner = [INDENT + line for line in inner]
        elif shape.get("properties"):
            inner = _nested(shape, root, above)
        lines += [opening, *inner, f"</{name}>"] if inner else [f"{opening}</{name}>"]
    return lines


def _nested(shape: Mapping[str, Any], root: Mapping[str, Any], above: tuple[str, ...]) -> list[str]:
    key = repr(shape)
    return [] if key in above else [INDENT + line for line in _template(shape, root, (*above, key))]


def shape_of(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the alternative that has parts, if any; else the first that is not null."""
    options = options_of(schema, root)
    parts = [option for option in options if option.get("type") == "array" or option.get("properties")]
    return (parts or [option for option in options if option.get("type") != "null"] or [{}])[0]


# --- reading ---

_ENTITY = re.compile(r"&(?:(amp|lt|gt|quot|apos)|#(\d{1,7})|#x([0-9a-fA-F]{1,6}));")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_FENCE = re.compile(r"```\w*\s*\Z")


def read_output(text: str, parameters: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the text before the first `<output>`, and its content as texts, lists of `<item>` and objects.

    Raises WireError if there is no `<output>`.
    """
    text = _without_cdata(text)
    names = ["output", "item", *_property_names(parameters)]
    try:
        output = next(iter(XmlPart.whole(text, names).elements({"output"}, lambda _: False)), None)
        if output is None:
            raise WireError("the reply holds no <output>…</output>")
        tree = _object(output, parameters, parameters)
    except RecursionError:
        raise WireError("the XML is nested too deep") from None
    return _FENCE.sub("", _unescaped(text[: output.opening])).strip(), tree


def _property_names(schema: Any) -> Iterator[str]:
    """Yield the names of all properties in a schema, at any depth."""
    parts = [schema]
    while parts:
        part = parts.pop()
        if isinstance(part, Mapping):
            properties = part.get("properties")
            yield from map(str, properties) if isinstance(properties, Mapping) else ()
            parts += part.values()
        elif isinstance(part, list):
            parts += part


def _without_cdata(text: str) -> str:
    """Return the text with CDATA sections escaped; a section that is never closed is text already."""
    opening, closing = "<![CDATA[", "]]>"
    pieces, position = [], 0
    while (start := text.find(opening, position)) >= 0 and (end := text.find(closing, start)) >= 0:
        pieces += [text[position:start], _escape_with_ends(text[start + len(opening) : end])]
        position = end + len(closing)
    return "".join((*pieces, text[position:]))


def _object(part: XmlPart, schema: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties", {})
    shapes = {name: shape_of(item, root) for name, item in properties.items()}
    values: dict[str, Any] = {}
    for inner in part.elements(properties, lambda name: not _has_parts(shapes[name])):
        if inner.name not in values:
            is_known, value = _value(inner, properties[inner.name], shapes[inner.name], root)
            if is_known:
                values[inner.name] = value
    return values


def _value(part: XmlPart, schema: Any, shape: Mapping[str, Any], root: Mapping[str, Any]) -> tuple[bool, Any]:
    """Return whether there is a value, and which: an empty element is "" for a text, None if that is allowed, else missing.

    White space at either end is layout; references to it, such as `&#32;`, belong to a free text only.
    """
    options = options_of(schema, root)
    text = part.text
    if not text.strip() and any(option.get("type") == "null" for option in options):
        return True, None
    if shape.get("type") == "array":
        item_shape = shape_of(shape.get("items"), root)
        entries = list(part.elements({"item"}, lambda _: not _has_parts(item_shape)))
        if not entries and text.strip():
            return True, _unescaped(text.strip())
        values = (_value(inner, shape.get("items"), item_shape, root) for inner in entries)
        return True, [value for is_known, value in values if is_known]
    if shape.get("properties"):
        return True, _object(part, shape, root)
    if (value := _unescaped(text)) in [choice for option in options for choice in option.get("enum", ())]:
        return True, value
    value = _unescaped(text.strip())
    if any(map(_is_free_text, options)):
        return True, value
    return bool(text.strip()), value.strip()


def _is_free_text(shape: Mapping[str, Any]) -> bool:
    is_bound = "enum" in shape or "const" in shape or shape.get("format") in ("date", "date-time", "time", "duration", "uuid")
    return shape.get("type") in ("string", None) and not is_bound


def _has_parts(shape: Mapping[str, Any]) -> bool:
    return shape.get("type") == "array" or bool(shape.get("properties"))


def _unescaped(text: str) -> str:
    return _ENTITY.sub(_entity, text)


def _entity(match: re.Match[str]) -> str:
    if match[1]:
        return _NAMED[match[1]]
    code = int(match[2]) if match[2] else int(match[3], 16)
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else match[0]
