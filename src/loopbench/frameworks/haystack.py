"""Haystack: `Agent` (docs.haystack.deepset.ai/docs/agent)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .framework import Framework


@dataclass(frozen=True, slots=True)
class Haystack(Framework):
    """Haystack's agent component with functions as tools."""

    requires: ClassVar = ("haystack-ai", "openai")


LOOP = Haystack
