"""Receipts: how a scripted model knows what the prompt shows it.

Looking for a result's value in the prompt does not work: "9" may stand in the question too. So the metered toolbox ends every
result that a tool really gave with a receipt `[r:CALL.CONTENT]`, and a planned call counts as known iff its receipt stands in the
request. Plain characters, so that JSON, JSON in JSON, XML and prose carry it alike. An error that the tool itself raised has one
too: a task may want the model to learn from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from loopbench.protocol import ToolCall, render_value
from loopbench.protocol.digest import canonical_json, sha256

_RECEIPT = re.compile(r"\[r:([0-9a-f]{6})\.([0-9a-f]{4})\]")


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

    @property
    def receipt(self) -> str:
        return f"[r:{self.call}.{self.content}]"


class Form(NamedTuple):
    """A call that a planned one stands for, its references filled in."""

    call: ToolCall
    digest: str
    """CALL."""
    option: int
    """0 for the planned call itself, 1 and on for its alternatives."""


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

    def issue(self, tool: str, arguments: Mapping[str, Any], text: str, value: Any, ok: bool) -> ReceiptEntry:
        return self.sign(call_digest(tool, arguments), text, value, ok)

    def sign(self, call: str, text: str, value: Any, ok: bool) -> ReceiptEntry:
        """`issue` for a call whose digest was taken before it ran."""
        entry = ReceiptEntry(call, content_digest(text), value, ok)
        self._entries[entry.call, entry.content] = entry
        self.issued.append(entry)
        return entry

    def find(self, call: str, content: str) -> ReceiptEntry | None:
        return self._entries.get((call, content))


HALFWAY = 2_000
"""Characters from a prompt's end at which half of the chance of forgetting is reached."""


class Sighting(NamedTuple):
    """A receipt in a prompt."""

    content: str
    distance: float
    """How far from the prompt's end it stands: 0 at the end, 0.5 at `HALFWAY` characters from it, towards 1 beyond.

    In characters, not as a share of the prompt: a design must not gain by a long system text.
    """


def sightings(text: str) -> dict[str, list[Sighting]]:
    """Return the receipts in a text, in order, by their CALL digest."""
    if "[r:" not in text:
        return {}
    found: dict[str, list[Sighting]] = {}
    for match in _RECEIPT.finditer(text):
        behind = len(text) - match.end()
        found.setdefault(match.group(1), []).append(Sighting(match.group(2), behind / (behind + HALFWAY)))
    return found


def strip_receipts(text: str) -> str:
    """Return the text as the tool gave it."""
    return re.sub(rf" ?{_RECEIPT.pattern}", "", text)
