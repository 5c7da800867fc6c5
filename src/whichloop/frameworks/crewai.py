"""CrewAI: one `Agent` with one task in a `Crew` (docs.crewai.com)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from whichloop.protocol import StopReason

from .framework import Framework


@dataclass(frozen=True, slots=True)
class CrewAI(Framework):
    """CrewAI's agent with functions as tools."""

    stops: ClassVar = Framework.stops | {StopReason.FORCED}  # at its limit it asks for an answer, and not every model gives one
    requires: ClassVar = ("crewai",)


LOOP = CrewAI
