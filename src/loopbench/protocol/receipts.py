"""The marks of receipts in a text, and what stands between them or beside them: see `loopbench.models.receipts`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from .legibility import Side

_KEY = r"([0-9a-f]{6})\.([0-9a-f]{4})"
MARK = re.compile(rf"\[r:{_KEY}\]|\[{_KEY}:r\]")
"""Either mark of any receipt."""
_MARK_WITH_SPACE = re.compile(r"\[r:[0-9a-f]{6}\.[0-9a-f]{4}\] ?| ?\[[0-9a-f]{6}\.[0-9a-f]{4}:r\]")


def receipt_of(mark: re.Match[str]) -> str:
    """Return CALL.CONTENT of what `MARK` has found."""
    return f"{mark[1] or mark[3]}.{mark[2] or mark[4]}"


class Sighting(NamedTuple):
    """What stands beside a receipt's marks in a prompt, up to the next mark."""

    content: str
    side: Side
    text: str
    start: int
    """Where the text begins, in characters of the prompt."""
    length: int
    """Of the prompt."""

    def distance(self, share: float = 1.0) -> float:
        """Return how far from the prompt's end a place in the text stands, given the share of the text that comes before it.

        0 at the end, 0.5 at `HALFWAY` characters from it, towards 1 beyond. In characters, not as a share of the prompt: a design
        must not gain by a long system text.
        """
        behind = self.length - self.start - share * len(self.text)
        return behind / (behind + HALFWAY)


HALFWAY = 2_000
"""Characters from a prompt's end at which half of the chance of forgetting is reached."""
MAX_BESIDE = 60_000
"""Characters beside a single mark that are looked at: the longest result that a toolbox gives, escaped twice."""


def sightings(text: str) -> dict[str, list[Sighting]]:
    """Return the receipts in a text, in order, by their CALL digest."""
    if "[r:" not in text and ":r]" not in text:
        return {}
    marks = list(MARK.finditer(text))
    closed = _pairs(marks)
    paired = set(closed.values())
    found: dict[str, list[Sighting]] = {}
    for place, mark in enumerate(marks):
        call, content = (mark[1], mark[2]) if mark[1] else (mark[3], mark[4])
        side: Side
        if place in closed:
            side, start, end = "both", mark.end(), marks[closed[place]].start()
        elif place in paired:
            continue
        elif mark[1]:
            end = marks[place + 1].start() if place + 1 < len(marks) else len(text)
            side, start, end = "front", mark.end(), min(end, mark.end() + MAX_BESIDE)
        else:
            start = marks[place - 1].end() if place else 0
            side, start, end = "back", max(start, mark.start() - MAX_BESIDE), mark.start()
        shown = text[start:end].lstrip()
        found.setdefault(call, []).append(Sighting(content, side, shown.rstrip(), end - len(shown), len(text)))
    return found


def _pairs(marks: Sequence[re.Match[str]]) -> dict[int, int]:
    """Return the marks that open a result and are closed, with the mark that closes each; between them lie whole results only."""
    open_: list[int] = []
    closed: dict[int, int] = {}
    for place, mark in enumerate(marks):
        if mark[1]:
            open_.append(place)
        elif open_ and marks[open_[-1]].group(1, 2) == mark.group(3, 4):
            closed[open_.pop()] = place
        else:
            open_.clear()
    return closed


def strip_receipts(text: str) -> str:
    """Return the text as the tool gave it."""
    return _MARK_WITH_SPACE.sub("", text)
