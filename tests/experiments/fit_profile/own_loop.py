"""A loop of a user's own."""

from __future__ import annotations

from dataclasses import dataclass

from whichloop.loops.bare import Bare


@dataclass(frozen=True)
class Own(Bare):
    """Bare under another name."""
