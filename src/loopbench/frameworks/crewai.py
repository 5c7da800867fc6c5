"""CrewAI: one `Agent` with one task in a `Crew` (docs.crewai.com)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .framework import Framework


@dataclass(frozen=True, slots=True)
class CrewAI(Framework):
    """CrewAI's agent with functions as tools."""

    requires: ClassVar = ("crewai",)


LOOP = CrewAI
