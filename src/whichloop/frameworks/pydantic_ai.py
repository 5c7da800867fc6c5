"""Pydantic AI: `Agent` (ai.pydantic.dev)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from .framework import Framework


@dataclass(frozen=True, slots=True)
class PydanticAI(Framework):
    """Pydantic AI's agent with functions as tools."""

    tool_errors: Literal["default", "shown"] = "default"
    """`shown`: a tool that fails raises `ModelRetry` (ai.pydantic.dev/tools-advanced/#tool-retries)."""
    retries: int = 1
    """Failures in a row of one tool that the model may mend, `Agent(retries=…)` (ai.pydantic.dev/tools-advanced/#tool-retries)."""

    wire: Literal["responses", "chat"] = "responses"
    """What a name such as `openai:gpt-5` stands for, or `OpenAIChatModel` (ai.pydantic.dev/models/openai)."""

    requires: ClassVar = ("pydantic-ai-slim[openai]", "openai")


LOOP = PydanticAI
