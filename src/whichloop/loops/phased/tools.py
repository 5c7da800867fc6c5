"""Tools in whatever form they come: a toolbox, tools, typed functions, or objects as langchain makes them (row S1-32).

Rows such as S1-32 are those of docs/conformance.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from whichloop.protocol import Tool, Toolbox


def as_toolbox(tools: Toolbox | Iterable[Any]) -> Toolbox:
    """Return tools of any form as one toolbox. Raises TypeError for anything else, ValueError if two share a name."""
    return tools if isinstance(tools, Toolbox) else Toolbox(as_tool(tool) for tool in tools)


def as_tool(tool: Any) -> Tool:
    """Return a tool of a Tool, a typed function, or anything with name, description, args_schema and ainvoke or invoke."""
    if isinstance(tool, Tool):
        return tool
    call = _async_call(tool) if hasattr(tool, "ainvoke") else _sync_call(tool) if hasattr(tool, "invoke") else None
    if call is not None and isinstance(getattr(tool, "name", None), str):
        return Tool(tool.name, str(getattr(tool, "description", "") or ""), _schema(tool), call)
    if callable(tool):
        return Tool.from_function(tool)
    raise TypeError(f"a {type(tool).__name__} is not a tool: it needs name, description, args_schema, and ainvoke or invoke")


def _async_call(tool: Any) -> Callable[..., Any]:
    async def ainvoke(**arguments: Any) -> Any:
        result = tool.ainvoke(arguments)
        return await result if inspect.isawaitable(result) else result

    return ainvoke


def _sync_call(tool: Any) -> Callable[..., Any]:
    def invoke(**arguments: Any) -> Any:  # a plain function: the toolbox runs it off the event loop
        return tool.invoke(arguments)

    return invoke


def _schema(tool: Any) -> Mapping[str, Any]:
    """Return the JSON schema of the arguments, from a pydantic model or a schema."""
    args_schema = getattr(tool, "args_schema", None)
    if args_schema is not None and hasattr(args_schema, "model_json_schema"):
        json_schema: Mapping[str, Any] = args_schema.model_json_schema()
        return json_schema
    return args_schema if isinstance(args_schema, Mapping) else {"type": "object"}


def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


def multiply(a: float, b: float) -> float:
    """Multiply two numbers."""
    return a * b


def get_tools(model: str | None = None) -> list[Tool]:
    """Return the tools of the document's usage example: two sums to try an executor with, the same for every `model`."""
    return [Tool.from_function(function, blocking=False) for function in (add, multiply)]
