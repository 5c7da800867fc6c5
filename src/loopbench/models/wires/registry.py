"""The wires that the server speaks, and which of them a request is meant for."""

from __future__ import annotations

from collections.abc import Mapping

from .chat import CHAT
from .contract import Path, Wire

WIRES: tuple[Wire, ...] = (CHAT,)
"""The first to which a request is addressed answers it; the last takes what no other one does."""


def wire_for(path: Path, headers: Mapping[str, str]) -> Wire:
    """Return the wire of a request; `headers`: their names in small letters."""
    return next(wire for wire in WIRES if wire.is_addressed(path, headers))
