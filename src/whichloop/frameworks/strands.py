"""Strands Agents: `Agent` (strandsagents.com)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .framework import Framework


@dataclass(frozen=True, slots=True)
class Strands(Framework):
    """Strands' agent, over a streamed model."""

    requires: ClassVar = ("strands-agents[openai]", "openai")


LOOP = Strands
