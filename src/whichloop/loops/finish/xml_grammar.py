"""Which XML replies state an answer, as a grammar: `<output>` as the request's template has it, with the values filled in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from whichloop.protocol import Grammar, GrammarPart, JsonValue, OneOf, Repeated, TextLine, render_value

from .output import options_of
from .xml_output import INDENT, escaped, shape_of

_NUMBER_WORDS = ("type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_TRUTHS = OneOf(("true", "false"))


def xml_grammar(parameters: Mapping[str, Any]) -> Grammar:
    """Return a grammar of `<output>` without a thought before it. `parameters`: JSON schema of the arguments of `__finish__`.

    A bound that JSON schema puts on a text, such as a pattern or the form of a date, is left to the check of the answer.
    """
    return Grammar((("<output>\n", *_members(parameters, parameters, (), INDENT), "</output>"),))


def _members(schema: Mapping[str, Any], root: Mapping[str, Any], above: tuple[str, ...], indent: str) -> Iterator[GrammarPart]:
    """Yield an element for each property; one that is not required may be missing."""
    for name, item in schema.get("properties", {}).items():
        element = (f"{indent}<{name}>", *_content(item, root, above, indent), f"</{name}>\n")
        if name in schema.get("required", ()):
            yield from element
        else:
            yield Repeated(element, 0, 1)


def _content(schema: Any, root: Mapping[str, Any], above: tuple[str, ...], indent: str) -> tuple[GrammarPart, ...]:
    """Return what an element holds: nothing stands for null, and for an object that holds itself."""
    shape, key = shape_of(schema, root), repr(shape_of(schema, root))
    if key in above:
        return ()
    inner: tuple[GrammarPart, ...]
    if shape.get("type") == "array":
        deeper = indent + INDENT
        item = (f"{deeper}<item>", *_content(shape.get("items"), root, (*above, key), deeper), "</item>\n")
        inner = ("\n", Repeated(item, shape.get("minItems", 0), shape.get("maxItems")), indent)
    elif shape.get("properties"):
        inner = ("\n", *_members(shape, root, (*above, key), indent + INDENT), indent)
    else:
        inner = (_value(shape),)
    can_be_null = any(option.get("type") == "null" for option in options_of(schema, root))
    return (Repeated(inner, 0, 1),) if can_be_null else inner


def _value(shape: Mapping[str, Any]) -> GrammarPart:
    """Return what an element without elements holds."""
    allowed = shape.get("enum", [shape["const"]] if "const" in shape else [])
    if allowed:
        return OneOf(tuple("" if value is None else escaped(render_value(value)) for value in allowed))
    match shape.get("type"):
        case "integer" | "number":
            return JsonValue({name: bound for name, bound in shape.items() if name in _NUMBER_WORDS})
        case "boolean":
            return _TRUTHS
        case "null":
            return ""
        case _:
            return TextLine()
