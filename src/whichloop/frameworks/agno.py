"""Agno: `Agent` (docs.agno.com)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .framework import Framework


@dataclass(frozen=True, slots=True)
class Agno(Framework):
    """Agno's agent, which has no limit of steps: the gateway ends it."""

    requires: ClassVar = ("agno", "openai")


LOOP = Agno
