"""smolagents: `ToolCallingAgent` (huggingface.co/docs/smolagents)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from whichloop.protocol import StopReason

from .framework import Framework


@dataclass(frozen=True, slots=True)
class Smolagents(Framework):
    """The agent that calls tools by JSON; it must call `final_answer` to end."""

    stops: ClassVar = Framework.stops - {StopReason.MAX_STEPS} | {StopReason.FORCED}  # it always answers at its limit
    requires: ClassVar = ("smolagents[openai]", "openai")


LOOP = Smolagents
