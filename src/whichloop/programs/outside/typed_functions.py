"""Tools as typed Python functions, made from their JSON schemas: frameworks read names, annotations and docstrings of functions.

Standard library only: this module runs in the interpreter of a framework.
"""

from __future__ import annotations

import hashlib
import keyword
import linecache
import math
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, Optional, Union

CALL = "_whichloop_call"
"""What the functions call; no argument may have that name."""
LITERAL = (str, int, bool, type(None))
"""Types of values that a `Literal` may have; values of other types are told by the schema's `type`, if it has one."""
PLAIN_TYPES = {
    "string": "str",
    "number": "float",
    "integer": "int",
    "boolean": "bool",
    "object": "dict",
    "array": "list",
    "null": "None",
}


def annotation(schema: Any) -> str:
    """Return a JSON schema as the text of a Python annotation; `Any` for what Python's types do not say."""
    if not isinstance(schema, dict):
        return "Any"
    listed = schema["enum"] if "enum" in schema else [schema["const"]] if "const" in schema else None
    if isinstance(listed, list) and listed and all(isinstance(value, LITERAL) for value in listed):
        return f"Literal[{', '.join(repr(value) for value in listed)}]"
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return _either([annotation(option) for option in options])
    kind = schema.get("type")
    if isinstance(kind, list):
        return _either([annotation({**schema, "type": one}) for one in kind])
    if kind == "array" and isinstance(schema.get("items"), dict):
        return f"list[{annotation(schema['items'])}]"
    return PLAIN_TYPES.get(str(kind), "Any")


def _either(kinds: list[str]) -> str:
    rest = list(dict.fromkeys(kind for kind in kinds if kind != "None"))
    inner = "None" if not rest else rest[0] if len(rest) == 1 else f"Union[{', '.join(rest)}]"
    return f"Optional[{inner}]" if "None" in kinds and rest else inner


def source(tool: Mapping[str, Any], is_async: bool) -> str:
    """Return the source of the function for a tool (name, description, parameters).

    Raises ValueError for a name of the tool or of an argument that no Python function can have.
    """
    name, parameters = tool["name"], tool["parameters"]
    properties, required = parameters.get("properties", {}), set(parameters.get("required", ()))
    for word in (name, *properties):
        is_itself = unicodedata.normalize("NFKC", word) == word  # Python reads a name as this form of it
        if not (word.isidentifier() and is_itself) or keyword.iskeyword(word) or word == CALL:
            raise ValueError(f"tool {name!r}: no Python function can have the name {word!r}")
    order = sorted(properties, key=lambda word: word not in required)
    signature = ", ".join(_parameter(word, properties[word], word in required) for word in order)
    arguments = ", ".join(f"{word!r}: {word}" for word in order)
    head, wait = ("async def", "await ") if is_async else ("def", "")
    doc = _docstring(tool["description"] or name, {word: properties[word] for word in order})
    return f"{head} {name}({signature}) -> str:\n    {doc!r}\n    return {wait}{CALL}({name!r}, {{{arguments}}})\n"


def _parameter(name: str, schema: Any, is_required: bool) -> str:
    kind = annotation(schema)
    if is_required:
        return f"{name}: {kind}"
    default = schema.get("default") if isinstance(schema, dict) else None
    if not _is_finite(default):
        default = None
    if default is None and not kind.startswith("Optional") and kind != "Any":
        kind = f"Optional[{kind}]"
    return f"{name}: {kind} = {default!r}"


def _is_finite(value: Any) -> bool:
    """Whether a value's text is a literal: those of infinities and of NaN, which are no JSON, are names."""
    if isinstance(value, list | dict):
        return all(map(_is_finite, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, float) or math.isfinite(value)


def _docstring(description: str, properties: Mapping[str, Any]) -> str:
    """Return a docstring in Google's style, which the frameworks that read arguments from it know."""
    lines = [description]
    if properties:
        lines += ["", "Args:"]
    for name, schema in properties.items():
        described = schema.get("description") or schema.get("title") if isinstance(schema, dict) else None
        lines.append(f"    {name}: {described or name}")
    return "\n".join(lines)


_COMPILED: dict[str, Any] = {}


def typed_function(tool: Mapping[str, Any], call: Callable[[str, dict[str, Any]], Any], is_async: bool) -> Callable[..., Any]:
    """Return the function for a tool; it calls `call(name, arguments)`. Raises ValueError as `source` does."""
    text = source(tool, is_async)
    file = f"<tool {tool['name']} {hashlib.sha256(text.encode()).hexdigest()[:8]}>"
    code = _COMPILED.get(text)
    if code is None:
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)  # some frameworks read the source
        code = _COMPILED[text] = compile(text, file, "exec", dont_inherit=True)  # else annotations would be texts
    space: dict[str, Any] = {CALL: call, "Any": Any, "Literal": Literal, "Optional": Optional, "Union": Union}
    space["__name__"] = "whichloop_tools"
    exec(code, space)  # noqa: S102  # the text is ours, and names in it are checked; values are literals
    function: Callable[..., Any] = space[tool["name"]]
    return function


class ToolError(Exception):
    """A tool's error, its type in front."""


class Tools:
    """The tools of a task: iterate over them for typed functions, or call them by name."""

    def __init__(self, listed: list[dict[str, Any]], call: Callable[[str, dict[str, Any]], Any], is_async: bool) -> None:
        self.schemas = [{"type": "function", "function": tool} for tool in listed]
        """As OpenAI's `tools` has them."""
        self.call = call
        """`call(name, arguments)`: the result as text; a coroutine if the solver is one. Raises ToolError."""
        self._listed, self._is_async = listed, is_async

    def __iter__(self) -> Iterator[Callable[..., Any]]:
        return (typed_function(tool, self.call, self._is_async) for tool in self._listed)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        tool = next((tool for tool in self._listed if tool["name"] == name), None)
        if tool is None:
            raise KeyError(name)
        return typed_function(tool, self.call, self._is_async)

    def __len__(self) -> int:
        return len(self._listed)
