"""The wires that the server speaks, and which of them a request is meant for."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import dropwhile
from urllib.parse import unquote

from .chat import CHAT
from .contract import Path, Wire
from .gemini import GEMINI
from .messages import MESSAGES
from .responses import RESPONSES

WIRES: tuple[Wire, ...] = (RESPONSES, MESSAGES, GEMINI, CHAT)
"""The first to which a request is addressed answers it; the last takes what no other one does."""


VERSIONS = ("v1", "v1beta")
"""First segments of the vendors' pages."""


def segments(target: str) -> Path:
    """Return the decoded segments of a request's target as it was sent, without its query."""
    return tuple(unquote(part, errors="replace") for part in target.partition("?")[0].split("/")[1:])


def wire_for(path: Path, headers: Mapping[str, str]) -> Wire:
    """Return the wire of a request; `headers`: a mapping in which the case of a name does not count."""
    return next(wire for wire in WIRES if wire.is_addressed(path, headers))


def page_meant(path: Path, headers: Mapping[str, str]) -> Path | None:
    """Return the page that a path without a version, or with more than one, stands for; None if there is none.

    A vendor's client adds the version to its base address or does not: so a wrong address shows in the path.
    """
    bare = tuple(dropwhile(lambda part: part in VERSIONS, path))
    if len(path) - len(bare) == 1:
        return None
    # The client adds its version behind the one in its base address.
    added = path[len(path) - len(bare) - 1 : len(path) - len(bare)]
    guesses = [(version, *bare) for version in sorted(VERSIONS, key=lambda version: version not in added)]
    return next((guess for guess in guesses if wire_for(guess, headers).page(guess) is not None), None)
