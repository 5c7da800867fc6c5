"""The harbour archive: cards that name one another, and the tools that read them.

An archive is drawn from its measures, a few numbers, and its remarks only when a card is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from whichloop.datasets.task import Toolset, WorldEnvironment, look_up
from whichloop.protocol import Tool

from .. import calculator
from ..generating import Draw, Drawn, draw_new
from ..story import Wording

NAME = "long_haul"
WORDING = Wording(__file__)
REMARKS = (300, 780)
"""Characters of remarks on a long-winded card, from and to; the sentence that reaches this length is the last one."""
MAX_NUMBERS = 200

_LETTERS = "ABCDEFGHJKLMNPQRSTVWXZ"
_CODE = re.compile(r"[A-Z]{2}-[0-9]{4}")


class ArchiveError(LookupError):
    """The archive does not hold what is asked for."""


class VaultShut(PermissionError):
    """The seals given do not open the vault."""


class Card(NamedTuple):
    """A card of a trail."""

    code: str
    port: str
    facts: dict[str, Any]
    """What stands on it beside port and next card."""
    next_code: str | None
    """Code of the next card; None on the last one."""


@dataclass
class TrailArchive:
    """All that the tools of one task act on, drawn from a few measures: a task's world as JSON. Nothing in it ever changes."""

    key: int
    lengths: Sequence[int]
    """Cards of each trail."""
    facts: Sequence[str] = ()
    """What cards tell beside crates: `booked`, `price`, `ticket`, `seal`."""
    is_wordy: bool = True
    """Whether cards have remarks."""
    annex_every: int = 0
    """Every card whose place is a multiple of this has an annex; 0: none has."""
    moved: Sequence[int] = ()
    """Places in the first trail, from 0, of cards that lie elsewhere than the card before says."""
    is_lost: bool = False
    """Whether the first trail's last card names one that does not exist."""
    burnt: Sequence[int] = ()
    """Trails whose last card cannot be read."""
    seals_at: Sequence[int] = ()
    """Places in the first trail of the cards whose seals open the vault that its last card names."""

    def __post_init__(self) -> None:
        self._draw, self._names_so_far = Draw(NAME, "archive", self.key), set[str | int]()
        self.cards: dict[str, Card] = {}
        """Cards by code: those of the trails, their annexes, and others."""
        self.moved_to: dict[str, str] = {}
        """Code that stands on a card → the code under which that card is found now."""
        self.tickets: dict[str, int] = {}
        self.vaults: dict[str, tuple[frozenset[str], int]] = {}
        """Name → the seals that open it, and the number of crates in it."""
        ports = iter(self._draw.shuffled(WORDING.texts["ports"]))
        self.trails = [self._trail(number, [next(ports) for _ in range(length)]) for number, length in enumerate(self.lengths)]
        self.others = [self._code() for _ in range(12)]
        """Codes of cards that belong to no trail of the task."""
        for place, code in enumerate(self.others):
            facts, port = self._facts(0), self._draw.choice(WORDING.texts["ports"])
            self.cards[code] = Card(code, port, facts, self.others[(place + 1) % len(self.others)])

    def _trail(self, number: int, ports: list[str]) -> list[Card]:
        codes = [self._code() for _ in ports]
        facts = [self._facts(place) for place in range(len(ports))]
        following: list[str | None] = [*codes[1:], self._code() if self.is_lost and number == 0 else None]
        for place in self.moved if number == 0 else ():
            old = self._code()
            self.moved_to[old] = codes[place]
            following[place - 1] = old
        if number == 0 and self.seals_at:
            vault = f"V-{self._draw.integer(11, 98)}"
            self.vaults[vault] = (frozenset(facts[place]["seal"] for place in self.seals_at), self._crates())
            facts[-1] = {"vault": vault, "opened_by_the_seals_of": [ports[place] for place in self.seals_at]}
        if number in self.burnt:
            facts[-1] = dict.fromkeys(facts[-1]) | {"state": "burnt"}
        trail = list(map(Card, codes, ports, facts, following))
        self.cards |= zip(codes, trail, strict=True)
        return trail

    def _facts(self, place: int) -> dict[str, Any]:
        draw = self._draw
        facts: dict[str, Any] = {"crates": self._crates()}
        if "booked" in self.facts:
            facts["booked"] = "in" if place == 0 or draw.chance(0.6) else "out"
        if "price" in self.facts:
            facts["price"] = draw.integer(3, 97)
        if "seal" in self.facts:
            facts["seal"] = self._new(lambda: f"{draw.choice(WORDING.texts['seals'])}-{draw.integer(100, 999)}")
        if "ticket" in self.facts:
            facts["ticket"] = self._new(lambda: f"T-{draw.integer(10_000, 99_999)}")
            self.tickets[facts["ticket"]] = self._crates()
        if self.annex_every and place % self.annex_every == self.annex_every - 1:
            facts["annex"] = self._code()
            self.cards[facts["annex"]] = Card(facts["annex"], "annex", {"crates": self._crates()}, None)
        return facts

    def _code(self) -> str:
        draw = self._draw
        return self._new(lambda: f"{draw.choice(_LETTERS)}{draw.choice(_LETTERS)}-{draw.integer(1000, 9999)}")

    def _crates(self) -> int:
        """Draw a number that no other card has: a calculator is never asked for the same twice."""
        return self._new(lambda: self._draw.integer(1_013, 9_871))

    def _new(self, drawn: Callable[[], Drawn]) -> Drawn:
        name = draw_new(self._names_so_far, drawn)
        self._names_so_far.add(name)
        return name


# --- the tools ---


def read_card(archive: TrailArchive, code: str) -> dict[str, Any]:
    """Read a card of the archive, in the edition that counts. The last card of a trail has no next card."""
    problem = f"card {code} is not in its drawer; if it was moved, the register of moved cards knows it"
    card = look_up(archive.cards, _checked(code), problem, ArchiveError)
    content: dict[str, Any] = {"card": card.code}
    if archive.is_wordy:
        content |= {"port": card.port, "remarks": _remarks(archive, code)}
    elif "seal" in card.facts:
        content["port"] = card.port
    return content | card.facts | {"next_card": card.next_code}


def read_old_edition(archive: TrailArchive, code: str) -> dict[str, Any]:
    """Read a card as it stood in the edition of 1911, which has been superseded."""
    look_up(archive.cards, _checked(code), f"the edition of 1911 has no card {code}", ArchiveError)
    draw = Draw(NAME, "1911", archive.key, code)
    return {"card": code, "edition": 1911, "crates": draw.integer(1_013, 9_871), "next_card": draw.choice(archive.others)}


def find_moved(archive: TrailArchive, code: str) -> dict[str, str]:
    """Look up in the register of moved cards under which code a card that is not in its drawer lies now."""
    problem = f"the register of moved cards does not know {code}"
    return {"card": code, "moved_to": look_up(archive.moved_to, _checked(code), problem, ArchiveError)}


def redeem_ticket(archive: TrailArchive, ticket: str) -> dict[str, Any]:
    """Redeem a ticket that stands on a card; gives the dollars paid for it."""
    problem = f"no ticket {ticket[:40]!r} was ever issued; tickets look like T-12345"
    return {"ticket": ticket, "paid": look_up(archive.tickets, ticket, problem, ArchiveError)}


def open_vault(archive: TrailArchive, vault: str, seals: list[str]) -> dict[str, Any]:
    """Open a vault with exactly the seals that it wants, in any order; gives the number of crates in it."""
    problem = f"there is no vault {vault[:40]!r}; vaults look like V-12"
    wanted, crates = look_up(archive.vaults, vault, problem, ArchiveError)
    if frozenset(seals) != wanted:
        raise VaultShut(f"vault {vault} stays shut: these are not its seals")
    return {"vault": vault, "crates_inside": crates}


def add_up(numbers: list[float]) -> int | float:
    """Add up to 200 numbers at once."""
    if not 1 <= len(numbers) <= MAX_NUMBERS:
        raise ValueError(f"{len(numbers)} numbers were given, and there must be 1 to {MAX_NUMBERS}")
    if not all(abs(number) <= calculator.LIMIT for number in numbers):
        raise OverflowError(f"a number is beyond ±{calculator.LIMIT:.0e}")
    total = math.fsum(numbers)
    return int(total) if total.is_integer() else total


def _checked(code: str) -> str:
    if not _CODE.fullmatch(code):
        raise ValueError(f"{code[:40]!r} is no card's code; codes look like KX-4821")
    return code


def _remarks(archive: TrailArchive, code: str) -> str:
    """Draw a card's remarks: anew at each reading, and always the same."""
    draw, texts, remarks = Draw(NAME, "remarks", archive.key, code), WORDING.texts, list[str]()
    enough = draw.integer(*REMARKS)
    for sentence in draw.shuffled(texts["remarks"]):
        remarks.append(
            sentence.format(
                who=draw.choice(texts["people"]), port=draw.choice(texts["ports"]), ship=draw.choice(texts["ships"]),
                goods=draw.choice(texts["goods"]), code=draw.choice(archive.others), number=draw.integer(12, 9_900),
                year=draw.integer(1871, 1938),
            )
        )  # fmt: skip
        if len(" ".join(remarks)) >= enough:
            break
    return " ".join(remarks)


_TOOLSET: Toolset[TrailArchive] = Toolset(read_card, read_old_edition, find_moved, redeem_ticket, open_vault, writes=())
_CALCULATOR = (*calculator.tools("add", "subtract", "multiply"), Tool.from_function(add_up, blocking=False, read_only=True))


def environment(archive: TrailArchive) -> WorldEnvironment[TrailArchive]:
    """Return the tools over an archive."""
    return WorldEnvironment((*_TOOLSET.bound_to(archive), *_CALCULATOR), archive)
