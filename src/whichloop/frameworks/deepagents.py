"""Deep Agents: `create_deep_agent` (docs.langchain.com/oss/python/deepagents)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from .framework import Framework


@dataclass(frozen=True, slots=True)
class DeepAgents(Framework):
    """LangChain's agent with a plan, files and sub-agents: its own tools stand beside the task's."""

    tool_errors: Literal["default", "shown"] = "default"
    """`shown`: `ToolErrorMiddleware` gives a tool's error to the model (docs.langchain.com/oss/python/langchain/middleware)."""

    requires: ClassVar = ("deepagents", "langchain", "langgraph", "langchain-openai")


LOOP = DeepAgents
