"""Google's Agent Development Kit: `LlmAgent` over LiteLLM (google.github.io/adk-docs)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from .framework import Framework


@dataclass(frozen=True, slots=True)
class GoogleADK(Framework):
    """ADK's agent with functions as tools."""

    tool_errors: Literal["default", "shown"] = "default"
    """`shown`: `ReflectAndRetryToolPlugin` shows a tool's error (google.github.io/adk-docs/plugins/reflect-and-retry)."""

    requires: ClassVar = ("google-adk", "litellm", "mcp")


LOOP = GoogleADK
