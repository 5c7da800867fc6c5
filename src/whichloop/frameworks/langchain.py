"""LangChain: `create_agent` (docs.langchain.com/oss/python/langchain/agents)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from .framework import Framework


@dataclass(frozen=True, slots=True)
class LangChain(Framework):
    """LangChain's agent, which runs on LangGraph."""

    tool_errors: Literal["default", "shown"] = "default"
    """`shown`: `ToolErrorMiddleware` gives a tool's error to the model (docs.langchain.com/oss/python/langchain/middleware)."""

    requires: ClassVar = ("langchain", "langgraph", "langchain-openai")


LOOP = LangChain
