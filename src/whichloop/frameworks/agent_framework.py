"""Microsoft Agent Framework: `Agent` (learn.microsoft.com/agent-framework)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from whichloop.protocol import StopReason

from .framework import Framework


@dataclass(frozen=True, slots=True)
class AgentFramework(Framework):
    """The agent with functions as tools."""

    tool_errors: Literal["default", "shown"] = "default"
    """`shown`: `include_detailed_errors` gives a tool's error to the model (learn.microsoft.com/agent-framework)."""

    wire: Literal["responses", "chat"] = "responses"
    """`OpenAIChatClient`, which asks over Responses, or `OpenAIChatCompletionClient` (learn.microsoft.com/agent-framework)."""

    stops: ClassVar = Framework.stops - {StopReason.MAX_STEPS} | {StopReason.FORCED}  # it always answers at its limit
    requires: ClassVar = ("agent-framework-core", "agent-framework-openai")


LOOP = AgentFramework
