"""Receipts: how a scripted model knows what the prompt shows it.

Looking for a result's value in the prompt does not work: "9" may stand in the question too. So the metered toolbox puts every
result that a tool really gave between the two marks of a receipt, `[r:CALL.CONTENT] 9 [CALL.CONTENT:r]`. A planned call counts as
known iff its receipt stands in the request and, beside a mark of it, each value that the plan goes on to use (see `legibility`).
There is a mark on either side, because a loop may cut off the end of a result or its beginning. Plain characters, so that JSON,
JSON in JSON, XML and prose carry them alike. An error that the tool itself raised has them too: a task may want the model to learn
from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from loopbench.protocol import ToolCall, render_value
from loopbench.protocol.digest import canonical_json, sha256

from .legibility import GivenResult, Path, Side, legible_parts

_KEY = r"([0-9a-f]{6})\.([0-9a-f]{4})"
MARK = re.compile(rf"\[r:{_KEY}\]|\[{_KEY}:r\]")
"""Either mark of any receipt."""
_MARK_WITH_SPACE = re.compile(r"\[r:[0-9a-f]{6}\.[0-9a-f]{4}\] ?| ?\[[0-9a-f]{6}\.[0-9a-f]{4}:r\]")


def call_digest(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return six hex digits of tool and canonical arguments."""
    try:
        text = canonical_json([tool, arguments])
    except (TypeError, ValueError, RecursionError):  # what JSON cannot say was not planned either
        text = f"{tool}({render_value(arguments)})"
    return sha256(text)[:6]


def content_digest(text: str) -> str:
    """Return four hex digits of the text that a tool returned."""
    return sha256(text)[:4]


@dataclass(frozen=True, slots=True)
class Truth:
    """What the oracle, a replay of the plan on fresh tools, says of one planned call."""

    call: str
    """CALL digest of tool and resolved arguments."""
    content: str
    """CONTENT digest of the true result."""


class ReceiptEntry(NamedTuple):
    """A result that was given out with a receipt."""

    call: str
    content: str
    value: Any
    ok: bool
    """False: the tool raised."""
    text: str
    """What the tool gave, as text."""

    @property
    def key(self) -> str:
        """CALL.CONTENT, as both marks have it."""
        return f"{self.call}.{self.content}"

    def around(self, text: str) -> str:
        """Return a text between the receipt's marks."""
        return f"[r:{self.key}] {text} [{self.key}:r]"

    @property
    def signed(self) -> str:
        """What a loop sees of the result."""
        return self.around(self.text)


class Form(NamedTuple):
    """A call that a planned one stands for, its references filled in."""

    call: ToolCall
    digest: str
    """CALL."""
    option: int
    """0 for the planned call itself, 1 and on for its alternatives."""


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


class Ledger:
    """All receipts of one trial."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], ReceiptEntry] = {}
        self.issued: list[ReceiptEntry] = []
        """In order."""
        self.filled: dict[tuple[object, ...], Form | None] = {}
        """Planned calls with their references filled in, worked out once (None: they cannot be); keyed by the identity of the
        planned call and by names and identities of the results before it, which plan and entries keep alive."""
        self.listed: dict[tuple[object, ...], list[Form]] = {}
        """The same for all calls that may stand for a planned one."""
        self.forms: dict[str, list[Form]] = {}
        """Planned id → the calls that it has stood for so far, the latest first."""
        self.rests_on: dict[tuple[int, str, str], Mapping[Path, frozenset[str | None]]] = {}
        """The parts of results that an answer without references rests on, worked out once; by plan, planned call and CONTENT."""
        self._shown: dict[tuple[object, ...], Mapping[Path, float]] = {}
        """What `legible_parts` said: prompts show the same again and again."""
        self._vouched: set[tuple[str, str, str]] = set()

    def issue(self, tool: str, arguments: Mapping[str, Any], text: str, value: Any, ok: bool) -> ReceiptEntry:
        return self.sign(call_digest(tool, arguments), text, value, ok)

    def sign(self, call: str, text: str, value: Any, ok: bool) -> ReceiptEntry:
        """`issue` for a call whose digest was taken before it ran."""
        entry = ReceiptEntry(call, content_digest(text), value, ok, text)
        self._entries[entry.call, entry.content] = entry
        self.issued.append(entry)
        return entry

    def find(self, call: str, content: str) -> ReceiptEntry | None:
        return self._entries.get((call, content))

    def vouch(self, entry: ReceiptEntry, text: str) -> None:
        """Note that a text shows all of a result, in whatever words."""
        self._vouched.add((entry.call, entry.content, text.strip()))

    def shown(self, entry: ReceiptEntry, seen: Sighting, paths: tuple[Path, ...]) -> Mapping[Path, float]:
        """Return the paths into a result whose values a sighting of it shows, with the share of its text that ends with each."""
        key = (entry.call, entry.content, seen.side, seen.text, paths)
        known = self._shown.get(key)
        if known is None:
            if (*key[:2], seen.text) in self._vouched:
                known = dict.fromkeys(paths, 1.0)
            else:
                known = legible_parts(GivenResult(entry.text.strip(), entry.value), seen.text, seen.side, paths)
            self._shown[key] = known
        return known
