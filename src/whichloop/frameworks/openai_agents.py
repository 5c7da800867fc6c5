"""OpenAI Agents SDK: one `Agent`, run by `Runner.run` (openai.github.io/openai-agents-python)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from .framework import Framework


@dataclass(frozen=True, slots=True)
class OpenAIAgents(Framework):
    """The SDK's agent with functions as tools."""

    tool_errors: Literal["default", "shown"] = "default"
    """`shown`: `failure_error_function` words a tool's error for the model (openai.github.io/openai-agents-python/tools)."""
    unknown_tool: Literal["default", "shown"] = "default"
    """`shown`: `tool_not_found_behavior` tells the model (openai.github.io/openai-agents-python/running_agents)."""

    wire: Literal["responses", "chat"] = "responses"
    """What the SDK asks OpenAI over by default, or Chat Completions (openai.github.io/openai-agents-python/models)."""

    requires: ClassVar = ("openai-agents",)


LOOP = OpenAIAgents
