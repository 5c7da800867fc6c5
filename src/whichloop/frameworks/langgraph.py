"""LangGraph: the prebuilt `create_react_agent` (langchain-ai.github.io/langgraph)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from .framework import Framework


@dataclass(frozen=True, slots=True)
class LangGraph(Framework):
    """LangGraph's own agent, which `langchain` took the place of; many programs still have it."""

    tool_errors: Literal["default", "shown"] = "default"
    """`shown`: `handle_tool_errors=True` of `ToolNode` (reference.langchain.com/python/langgraph.prebuilt/tool_node)."""

    requires: ClassVar = ("langgraph", "langgraph-prebuilt", "langchain-openai")


LOOP = LangGraph
