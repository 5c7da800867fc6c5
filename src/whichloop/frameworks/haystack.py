"""Haystack: `Agent` (docs.haystack.deepset.ai/docs/agent)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from whichloop.protocol import StopReason

from .framework import Framework


@dataclass(frozen=True, slots=True)
class Haystack(Framework):
    """Haystack's agent component with functions as tools."""

    stops: ClassVar = Framework.stops - {StopReason.MAX_STEPS}  # at its limit it returns the last message, whatever it is
    requires: ClassVar = ("haystack-ai", "openai")


LOOP = Haystack
