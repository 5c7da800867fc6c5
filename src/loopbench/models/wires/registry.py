"""The wires that the server speaks, and which of them a request is meant for."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

from .chat import CHAT
from .contract import Path, Wire
from .gemini import GEMINI
from .messages import MESSAGES
from .responses import RESPONSES

WIRES: tuple[Wire, ...] = (RESPONSES, MESSAGES, GEMINI, CHAT)
"""The first to which a request is addressed answers it; the last takes what no other one does."""


def segments(target: str) -> Path:
    """Return the decoded segments of a request's target as it was sent, without its query."""
    return tuple(unquote(part, errors="replace") for part in target.partition("?")[0].split("/")[1:])


def wire_for(path: Path, headers: Mapping[str, str]) -> Wire:
    """Return the wire of a request; `headers`: a mapping in which the case of a name does not count."""
    return next(wire for wire in WIRES if wire.is_addressed(path, headers))
