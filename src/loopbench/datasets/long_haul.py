"""Trails of 20 to 60 calls through a harbour archive: each card names the next, and what stood early is needed at the end.

Most cards are long-winded: 300 to 900 characters of remarks stand around the two or three facts that count, with numbers and codes
that do not. What a design keeps of its history, and how much of it, decides. A world is a key and the trail's measures; cards are
drawn from them again when the environment is opened, remarks when a card is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, TypeVar

from loopbench.protocol import Plan, Ref, Tool

from . import calculator
from .generating import Draft, Draw, PlanWriter, Source, generate, part
from .task import Suite, Task
from .worlds import Toolset, WorldEnvironment

NAME = "long_haul"
ANSWER_FORMAT = 'Give the number alone. If it cannot be determined, the right answer is "not determined".'
STEP_LIMIT = 75
"""A quarter more than the longest plan: the longer a way, the more often something goes wrong on it."""
EASY, MEDIUM, HARD = (21, 29), (30, 44), (45, 60)
"""Calls of a plan, from and to."""
REMARKS = (300, 900)
"""Characters of what does not matter on a long-winded card."""
MOST_NUMBERS = 200

_PORTS = (
    "Aalborg", "Almeria", "Ancona", "Antwerp", "Arkhangelsk", "Bari", "Bergen", "Bilbao", "Bordeaux", "Brest", "Brindisi",
    "Bristol", "Cadiz", "Cagliari", "Calais", "Cardiff", "Cork", "Dover", "Dubrovnik", "Dundee", "Esbjerg", "Faro", "Gdansk",
    "Genoa", "Ghent", "Gothenburg", "Hamburg", "Hull", "Izmir", "Kiel", "Klaipeda", "Kotor", "Larvik", "Lisbon", "Lorient",
    "Malaga", "Malmo", "Messina", "Murmansk", "Nantes", "Narvik", "Odessa", "Oporto", "Oslo", "Ostend", "Palermo", "Patras",
    "Piraeus", "Plymouth", "Ravenna", "Riga", "Rostock", "Rotterdam", "Santander", "Split", "Stavanger", "Szczecin",
    "Tallinn", "Trieste", "Turku", "Valletta", "Varna", "Vigo", "Zadar",
)  # fmt: skip
_PEOPLE = (
    "Agnes", "Bertil", "Carlota", "Davit", "Elin", "Fergus", "Gisela", "Hakon", "Ines", "Jonas",
    "Katja", "Lorenzo", "Marit", "Nuno", "Oriol", "Petra", "Ragna", "Stefano", "Tilda", "Ulrik",
)  # fmt: skip
_SHIPS = (
    "Albatross", "Boreas", "Clementine", "Dauntless", "Esperance", "Fulmar", "Gannet", "Halcyon", "Iolanthe", "Juniper",
    "Kestrel", "Lodestar", "Marigold", "Nereid", "Osprey", "Perseverance", "Quicksilver", "Rosalind", "Sandpiper", "Tern",
)  # fmt: skip
_GOODS = ("amber", "barley", "copper", "cork", "dried figs", "flax", "indigo", "olive oil", "pepper", "salt", "tar", "wool")
_SEALS = ("anchor", "beacon", "cormorant", "dolphin", "eagle", "falcon", "gull", "heron", "ibis", "jackdaw", "kite", "lantern")
_LETTERS = "ABCDEFGHJKLMNPQRSTVWXZ"
_CODE = re.compile(r"[A-Z]{2}-[0-9]{4}")

Drawn = TypeVar("Drawn", str, int)


# --- the archive ---


class ArchiveError(LookupError):
    """The archive does not hold what is asked for."""


class VaultShut(PermissionError):
    """A vault that was to be opened with the wrong seals."""


@dataclass(frozen=True, slots=True)
class Card:
    """A card of a trail."""

    code: str
    port: str
    facts: dict[str, Any]
    """What stands on it beside port and next card."""
    next_code: str | None
    """None on the last card."""


@dataclass(frozen=True, slots=True)
class Archive:
    """All that the tools of one task act on. Nothing in it ever changes."""

    key: int
    is_wordy: bool
    """Whether cards have remarks."""
    trails: tuple[tuple[Card, ...], ...]
    cards: Mapping[str, Card]
    """By code: those of the trails, their annexes, and others."""
    moved: Mapping[str, str]
    """Code that stands on a card → the code under which that card is found now."""
    tickets: Mapping[str, int]
    vaults: Mapping[str, tuple[frozenset[str], int]]
    """Name → the seals that open it, and the number of crates in it."""
    others: tuple[str, ...]
    """Codes of cards that belong to no trail of the task."""


@dataclass(frozen=True, slots=True)
class Measures:
    """What an archive is drawn from; a task's world as JSON."""

    key: int
    lengths: tuple[int, ...]
    """Cards of each trail."""
    facts: tuple[str, ...] = ()
    """What cards tell beside crates: `booked`, `price`, `ticket`, `seal`."""
    is_wordy: bool = True
    annex_every: int = 0
    """Each so-manieth card has an annex; 0: none has."""
    moved: tuple[int, ...] = ()
    """Places in the first trail, from 0, of cards that lie elsewhere than the card before says."""
    is_lost: bool = False
    """The first trail's last card names one that is nowhere."""
    burnt: tuple[int, ...] = ()
    """Trails whose last card cannot be read."""
    seals_at: tuple[int, ...] = ()
    """Places in the first trail of the cards whose seals open the vault that its last card names."""

    def as_world(self) -> dict[str, Any]:
        """What differs from an archive without any peculiarity."""
        given = {item.name: getattr(self, item.name) for item in fields(self) if getattr(self, item.name) != item.default}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}

    @classmethod
    def from_world(cls, world: Mapping[str, Any]) -> Measures:
        given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in world.items()}
        return cls(**given)


class _Drawing:
    """An archive as it is being drawn."""

    def __init__(self, measures: Measures) -> None:
        self.measures = measures
        self.draw = Draw(NAME, "archive", measures.key)
        self.ports = iter(self.draw.shuffled(_PORTS))
        self.cards: dict[str, Card] = {}
        self.moved: dict[str, str] = {}
        self.tickets: dict[str, int] = {}
        self.vaults: dict[str, tuple[frozenset[str], int]] = {}
        self._taken: set[str | int] = set()

    def archive(self) -> Archive:
        trails = tuple(self._trail(number, length) for number, length in enumerate(self.measures.lengths))
        others = self._others()
        shown = (self.cards, self.moved, self.tickets, self.vaults)
        return Archive(self.measures.key, self.measures.is_wordy, trails, *shown, others)

    def _trail(self, number: int, length: int) -> tuple[Card, ...]:
        measures, draw = self.measures, self.draw
        codes = [self._code() for _ in range(length)]
        ports = [next(self.ports) for _ in range(length)]
        facts = [self._facts(place) for place in range(length)]
        following: list[str | None] = [*codes[1:], self._code() if measures.is_lost and number == 0 else None]
        for place in measures.moved if number == 0 else ():
            old = self._code()
            self.moved[old] = codes[place]
            following[place - 1] = old
        if number == 0 and measures.seals_at:
            vault = f"V-{draw.integer(11, 98)}"
            seals = frozenset(facts[place]["seal"] for place in measures.seals_at)
            self.vaults[vault] = (seals, self._crates())
            facts[-1] = {"vault": vault, "opened_by_the_seals_of": [ports[place] for place in measures.seals_at]}
        if number in measures.burnt:
            facts[-1] = dict.fromkeys(facts[-1]) | {"state": "burnt, only code and port can be read"}
        trail = tuple(map(Card, codes, ports, facts, following))
        self.cards |= zip(codes, trail, strict=True)
        return trail

    def _facts(self, place: int) -> dict[str, Any]:
        draw, wanted = self.draw, self.measures.facts
        facts: dict[str, Any] = {"crates": self._crates()}
        if "booked" in wanted:
            facts["booked"] = "in" if place == 0 or draw.chance(0.6) else "out"
        if "price" in wanted:
            facts["price"] = draw.integer(3, 97)
        if "seal" in wanted:
            facts["seal"] = self._new(lambda: f"{draw.choice(_SEALS)}-{draw.integer(100, 999)}")
        if "ticket" in wanted:
            facts["ticket"] = self._new(lambda: f"T-{draw.integer(10_000, 99_999)}")
            self.tickets[facts["ticket"]] = self._crates()
        if self.measures.annex_every and place % self.measures.annex_every == self.measures.annex_every - 1:
            facts["annex"] = self._code()
            self.cards[facts["annex"]] = Card(facts["annex"], "annex", {"crates": self._crates()}, None)
        return facts

    def _others(self) -> tuple[str, ...]:
        """A dozen cards in a circle, like those of the trails."""
        codes = tuple(self._code() for _ in range(12))
        for place, code in enumerate(codes):
            facts = self._facts(0) | {"port": self.draw.choice(_PORTS)}
            self.cards[code] = Card(code, facts.pop("port"), facts, codes[(place + 1) % len(codes)])
        return codes

    def _code(self) -> str:
        draw = self.draw
        return self._new(lambda: f"{draw.choice(_LETTERS)}{draw.choice(_LETTERS)}-{draw.integer(1000, 9999)}")

    def _crates(self) -> int:
        """Different for each card: a calculator is never asked for the same twice."""
        return self._new(lambda: self.draw.integer(1_013, 9_871))

    def _new(self, drawn: Callable[[], Drawn]) -> Drawn:
        while True:
            made = drawn()
            if made not in self._taken:
                self._taken.add(made)
                return made


def archive_of(measures: Measures) -> Archive:
    """The same for the same measures."""
    return _Drawing(measures).archive()


# --- the tools ---


def read_card(archive: Archive, code: str) -> dict[str, Any]:
    """Read a card of the archive, in the edition that counts. The last card of a trail has no next card."""
    card = archive.cards.get(_checked(code))
    if card is None:
        raise ArchiveError(f"card {code} is not in its drawer; if it was moved, the register of moved cards knows it")
    shown: dict[str, Any] = {"card": card.code}
    if archive.is_wordy:
        shown |= {"port": card.port, "remarks": _remarks(archive, code)}
    elif "seal" in card.facts:
        shown["port"] = card.port
    return shown | card.facts | {"next_card": card.next_code}


def read_old_edition(archive: Archive, code: str) -> dict[str, Any]:
    """Read a card as it stood in the edition of 1911, which has been superseded."""
    card = archive.cards.get(_checked(code))
    if card is None:
        raise ArchiveError(f"the edition of 1911 has no card {code}")
    draw = Draw(NAME, "1911", archive.key, code)
    return {"card": code, "edition": 1911, "crates": draw.integer(1_013, 9_871), "next_card": draw.choice(archive.others)}


def find_moved(archive: Archive, code: str) -> dict[str, str]:
    """Look up in the register of moved cards under which code a card that is not in its drawer lies now."""
    if _checked(code) not in archive.moved:
        raise ArchiveError(f"the register of moved cards does not know {code}")
    return {"card": code, "moved_to": archive.moved[code]}


def redeem_ticket(archive: Archive, ticket: str) -> dict[str, Any]:
    """Redeem a ticket that stands on a card; gives the dollars paid for it."""
    if ticket not in archive.tickets:
        raise ArchiveError(f"no ticket {ticket!r} was ever issued; tickets look like T-12345")
    return {"ticket": ticket, "paid": archive.tickets[ticket]}


def open_vault(archive: Archive, vault: str, seals: list[str]) -> dict[str, Any]:
    """Open a vault with exactly the seals that it wants, in any order; gives the number of crates in it."""
    if vault not in archive.vaults:
        raise ArchiveError(f"there is no vault {vault!r}; vaults look like V-12")
    wanted, crates = archive.vaults[vault]
    if frozenset(seals) != wanted:
        raise VaultShut(f"vault {vault} stays shut: these are not its seals")
    return {"vault": vault, "crates_inside": crates}


def add_up(numbers: list[float]) -> int | float:
    """Add up to 200 numbers at once."""
    if not 1 <= len(numbers) <= MOST_NUMBERS:
        raise ValueError(f"{len(numbers)} numbers were given, and there must be 1 to {MOST_NUMBERS}")
    total = math.fsum(numbers)
    return int(total) if total.is_integer() else total


def _checked(code: str) -> str:
    """Raises ValueError for what is no code."""
    if not _CODE.fullmatch(code):
        raise ValueError(f"{code!r} is no card's code; codes look like KX-4821")
    return code


def _remarks(archive: Archive, code: str) -> str:
    """Drawn anew at each reading, always the same."""
    draw = Draw(NAME, "remarks", archive.key, code)
    most = draw.integer(*REMARKS)
    made = ""
    for sentence in draw.shuffled(_ASIDES):
        told = sentence.format(
            who=draw.choice(_PEOPLE), port=draw.choice(_PORTS), ship=draw.choice(_SHIPS), goods=draw.choice(_GOODS),
            code=draw.choice(archive.others), number=draw.integer(12, 9_900), year=draw.integer(1871, 1938),
        )  # fmt: skip
        if len(made) + len(told) > most:
            break
        made += f" {told}" if made else told
    return made


_ASIDES = (
    "The ink of this card has faded, and {who} went over it with a pencil in {year}.",
    "Card {code} was filed behind this one for some years, and belongs elsewhere.",
    "A pencilled note in the margin gives the figure {number}, which {who} thought was a page number.",
    "The {ship} lay off {port} for {number} hours that winter, waiting for the ice to clear.",
    "Somebody has stuck a newspaper cutting on the back, about the price of {goods} in {port}.",
    "In the edition of 1911 another card stood here, {code}, of which nothing more is known.",
    "{who} of the customs house in {port} certified the copy and charged {number} for the stamp.",
    "The paper is thicker than that of the other cards and bears the watermark of a mill near {port}.",
    "A crew list of the {ship}, with {number} names on it, was found between this card and its neighbour.",
    "According to {who} the drawer was rearranged in {year}, when the archive moved to its present rooms.",
    "The handwriting is that of {who}, who also kept the books of the {ship}.",
    "There is a stain in the lower corner, probably of {goods}, and a hole where a pin held a receipt.",
    "An inventory of {year} counts {number} cards in this drawer, which nobody has been able to confirm.",
    "The harbour office in {port} asked for a transcript in {year} and never sent it back.",
    "On the back stands a list of purchases: {goods}, rope, candles and {number} nails.",
    "{who} suspected that the port was confused with {port}, but the stamp is clear enough.",
    "A later hand has added that the {ship} was sold to a company in {port} in {year}.",
    "The card was on show in {port} in {year}, in an exhibition on the trade in {goods}.",
    "A clerk has underlined the word {goods} twice and written {number} beside it, without saying why.",
    "The photograph that used to be attached shows {who} on the deck of the {ship}.",
)

_TOOLSET: Toolset[Archive] = Toolset(read_card, read_old_edition, find_moved, redeem_ticket, open_vault)
_CALCULATOR = (*calculator.tools("add", "subtract", "multiply"), Tool.from_function(add_up, blocking=False))


def _open(task: Task) -> WorldEnvironment[Archive]:
    archive = archive_of(Measures.from_world(task.world))
    return WorldEnvironment((*_TOOLSET.over(archive), *_CALCULATOR), archive)


# --- the tasks ---


@dataclass(slots=True)
class _Story:
    """A task as it is being written: the archive, and the plan that goes through it."""

    draw: Draw
    measures: Measures
    archive: Archive = field(init=False)
    plan: PlanWriter = field(default_factory=PlanWriter)

    def __post_init__(self) -> None:
        self.archive = archive_of(self.measures)

    @property
    def trail(self) -> tuple[Card, ...]:
        return self.archive.trails[0]

    def follow(self, number: int = 0) -> list[Ref]:
        """Plan the reading of a whole trail, each card by what the one before says; gives the cards read."""
        trail = self.archive.trails[number]
        name = "the trail" if len(self.archive.trails) == 1 else f"the {_ORDINALS[number]} trail"
        code: str | Ref = trail[0].code
        read: list[Ref] = []
        for place in range(len(trail)):
            if number == 0 and place in self.measures.moved:
                code = self._find(code, place, name)
            read.append(self.plan.call(f"Read card {place + 1} of {name}.", "read_card", {"code": code}))
            code = part(read[-1], "next_card")
        return read

    def _find(self, code: str | Ref, place: int, name: str) -> Ref:
        """Meet an empty drawer, and look up where the card is."""
        empty = self.plan.call(f"Try the drawer of card {place + 1} of {name}.", "read_card", {"code": code}, fails=True)
        found = self.plan.call(f"Find out where card {place + 1} of {name} is.", "find_moved", {"code": code}, after=[empty])
        return part(found, "moved_to")

    def draft(self, asked: str, answer: Any, expected: int | None) -> Draft:
        """`asked`: the question itself, behind the story of how the trail is followed."""
        plan = Plan(tuple(self.plan.calls), answer)
        question = f"{' '.join(_told(self.draw, self.archive))} {asked} {ANSWER_FORMAT}"
        return Draft(question, plan, expected, "numeric", world=self.measures.as_world(), difficulty=_difficulty(plan))


_ORDINALS = ("first", "second", "third")


def _difficulty(plan: Plan) -> str:
    """By length."""
    calls = len(plan.calls)
    return "easy" if calls <= EASY[1] else "medium" if calls <= MEDIUM[1] else "hard"


def _calls(draw: Draw) -> int:
    """How many calls a plan may have: the three difficulties are equally frequent."""
    return draw.integer(*draw.choice((EASY, MEDIUM, HARD)))


def _story(draw: Draw, *lengths: int, facts: Sequence[str] = (), **options: Any) -> _Story:
    return _Story(draw, Measures(draw.integer(0, 10**12), lengths, tuple(facts), **options))


def _told(draw: Draw, archive: Archive) -> Iterator[str]:
    """Who asks, where the trail begins, and how it is followed."""
    words = {
        "who": draw.choice(_PEOPLE), "other": draw.choice(_PEOPLE), "ship": draw.choice(_SHIPS), "goods": draw.choice(_GOODS),
        "port": draw.choice(_PORTS), "year": draw.integer(1871, 1938), "number": draw.integer(12, 98),
    }  # fmt: skip
    starts = [trail[0].code for trail in archive.trails]
    yield draw.choice(_OCCASIONS).format(**words)
    if draw.chance(0.6):
        yield draw.choice(_INCIDENTALS).format(**words)
    if len(starts) == 1:
        yield draw.choice(_RULES).format(start=starts[0], **words)
    else:
        named = ", ".join(f"the {which} with {start}" for which, start in zip(_ORDINALS, starts, strict=False))
        yield draw.choice(_RULES_FOR_MANY).format(count={2: "Two", 3: "Three"}[len(starts)], starts=named, **words)


_OCCASIONS = (
    "{who} is settling the estate of the owner of the {ship}, a dealer in {goods}.",
    "The insurers of the {ship} want to know from {who} what became of a cargo of {goods}.",
    "For a museum in {port} {who} traces a shipment of {goods} that left in {year}.",
    "A court in {port} has asked {who} to reconstruct the last voyage of the {ship}.",
    "{who} writes the history of a trading house that carried {goods} from {port}.",
    "Heirs of a captain of the {ship} quarrel about {goods}, and {who} is to find out who is right.",
    "Since {year} nobody has checked the cards on the {goods} of the {ship}; now {who} does.",
    "{who} inherited a receipt for {goods}, stamped in {port}, and wants to see what it is worth.",
    "An auction house in {port} offers papers of the {ship}, and {who} compares them with the archive.",
    "At the university {who} studies how {goods} went round the coast after {year}.",
    "Before the archive lends its cards to {port}, {who} goes through those on the {ship}.",
    "{who} and {other} disagree about how much {goods} the {ship} had on board.",
)
_INCIDENTALS = (
    "The reading room closes in {number} minutes.",
    "A guide to the archive, printed in {year}, recommends gloves.",
    "{other} tried the same last year and lost the thread after {number} cards.",
    "The {ship} is said to have had {number} sailors.",
    "The catalogue fills {number} drawers, most of them about other ships.",
    "{other} in {port} has promised to help with the handwriting.",
    "Copies cost {number} cents a page, so nothing is copied.",
    "Rain has come through the roof in {port}, and some drawers were moved in {year}.",
)
_RULES = (
    "The trail begins with card {start}; every card names the next one, and the last one names none.",
    "Begin at {start} and go on from each card to the one that it gives as its next card, until there is no next card.",
    "Card {start} comes first. Each card holds the code of its successor; the card without one ends the trail.",
    "It all starts on card {start}, from where code leads to code: read on until a card leads nowhere.",
    "{who} holds card {start}. Whatever a card gives as next card has to be read after it, up to the card that gives none.",
    "Follow the cards from {start} on, one after the other, as each of them points to the next; the end is where nothing follows.",
)
_RULES_FOR_MANY = (
    "{count} trails have to be followed, {starts}; every card names the next one, and the last of a trail names none.",
    "There are {count} trails of cards: {starts}. Each card gives the code of its successor, until one gives none.",
    "{count} trails of cards begin here, {starts}. Read each from card to card until a card leads nowhere.",
    "{count} rows of cards are to be read, {starts}; a card's next card follows it, and where there is none the trail has ended.",
)


# Chains, in which nothing but the last card is asked for


def _walk(draw: Draw) -> Draft:
    story = _story(draw, _calls(draw))
    cards = story.follow()
    asked = draw.choice(
        (
            "How many crates does the last card give?",
            "What number of crates stands on the card at the trail's end?",
            "How many crates were left, according to the very last card?",
        )
    )
    return story.draft(asked, part(cards[-1], "crates"), story.trail[-1].facts["crates"])


def _telegrams(draw: Draw) -> Draft:
    story = _story(draw, _calls(draw), is_wordy=False)
    cards = story.follow()
    asked = draw.choice(
        (
            "The cards are short, like telegrams. Which number of crates does the final one report?",
            "All of them are telegrams of few words. How many crates are named in the one that closes the trail?",
            "Nobody wasted words on these cards. What count of crates stands on the last?",
        )
    )
    return story.draft(asked, part(cards[-1], "crates"), story.trail[-1].facts["crates"])


# Running totals


def _ledger(draw: Draw, *, is_wordy: bool = True) -> Draft:
    story = _story(draw, (_calls(draw) + 1) // 2, facts=["booked"], is_wordy=is_wordy)
    total: Ref | None = None
    balance = 0
    for place, (card, read) in enumerate(zip(story.trail, story.follow(), strict=True), 1):
        goes_in = card.facts["booked"] == "in"
        balance += card.facts["crates"] if goes_in else -card.facts["crates"]
        crates = part(read, "crates")
        total = total and story.plan.call(
            f"Book what card {place} says.", "add" if goes_in else "subtract", {"a": total, "b": crates}
        )
        total = total or crates
    asked = draw.choice(
        (
            "The store was empty at first. How many crates are in it after the last card, each card's crates booked in or out?",
            "Each card books its crates in or out of an empty store. What is the balance at the end? It may be negative.",
            "Starting from nothing, add the crates that are booked in and subtract those that are booked out. What is left?",
        )
    )
    return story.draft(asked, total, balance)


def _cash_book(draw: Draw) -> Draft:
    return _ledger(draw, is_wordy=False)


def _freight(draw: Draw) -> Draft:
    story = _story(draw, (_calls(draw) - 1) // 2, facts=["price"])
    values = [
        story.plan.call(f"Value the crates of card {place}.", "multiply", {"a": part(read, "crates"), "b": part(read, "price")})
        for place, read in enumerate(story.follow(), 1)
    ]
    total = story.plan.call("Add up the values of all cards.", "add_up", {"numbers": values})
    asked = draw.choice(
        (
            "Each card gives a number of crates and the price of one crate. How many dollars were all the crates together worth?",
            "For every card, its crates times its price is what they brought in. How many dollars is that over the whole trail?",
            "What did the crates of all cards cost together, each at the price in dollars that its own card gives?",
        )
    )
    return story.draft(asked, total, sum(card.facts["crates"] * card.facts["price"] for card in story.trail))


# All that was seen on the way


def _tally(draw: Draw) -> Draft:
    story = _story(draw, _calls(draw) - 1)
    numbers = [part(read, "crates") for read in story.follow()]
    total = story.plan.call("Add up the crates of all cards.", "add_up", {"numbers": numbers})
    asked = draw.choice(
        (
            "How many crates do all the cards of the trail name together?",
            "What is the sum of the crates over every single card?",
            "Add up the crates of all cards from the first to the last. What is the total?",
        )
    )
    return story.draft(asked, total, sum(card.facts["crates"] for card in story.trail))


def _annexes(draw: Draw) -> Draft:
    every, calls = draw.integer(3, 5), _calls(draw)
    story = _story(draw, (calls - 1) * every // (every + 1), annex_every=every)
    numbers: list[Ref] = []
    expected = 0
    for place, (card, read) in enumerate(zip(story.trail, story.follow(), strict=True), 1):
        numbers.append(part(read, "crates"))
        expected += card.facts["crates"]
        if "annex" in card.facts:
            annex = story.plan.call(f"Read the annex of card {place}.", "read_card", {"code": part(read, "annex")})
            numbers.append(part(annex, "crates"))
            expected += story.archive.cards[card.facts["annex"]].facts["crates"]
    total = story.plan.call("Add up the crates of cards and annexes.", "add_up", {"numbers": numbers})
    asked = draw.choice(
        (
            "Some cards have an annex, a card of its own. How many crates are there on all cards and annexes together?",
            "Where a card names an annex, the crates on that card count too. How many crates is it in all?",
            "What is the total of the crates, with those of every annex that the cards of the trail refer to?",
        )
    )
    return story.draft(asked, total, expected)


def _tickets(draw: Draw, *, is_wordy: bool = True) -> Draft:
    story = _story(draw, (_calls(draw) - 1) // 2, facts=["ticket"], is_wordy=is_wordy)
    paid = [
        part(story.plan.call(f"Redeem the ticket of card {place}.", "redeem_ticket", {"ticket": part(read, "ticket")}), "paid")
        for place, read in enumerate(story.follow(), 1)
    ]
    total = story.plan.call("Add up what was paid for all tickets.", "add_up", {"numbers": paid})
    asked = draw.choice(
        (
            "Every card carries a ticket. How many dollars are paid for all of them, once they are redeemed?",
            "What do the tickets of all cards bring in together when each is redeemed, in dollars?",
            "Redeem the ticket of each card. How many dollars is that in total?",
        )
    )
    return story.draft(asked, total, sum(story.archive.tickets[card.facts["ticket"]] for card in story.trail))


def _coupons(draw: Draw) -> Draft:
    return _tickets(draw, is_wordy=False)


# Something early that is needed at the very end


def _vault(draw: Draw, *, seals: int = 1, is_wordy: bool = True) -> Draft:
    length = _calls(draw) - 1
    places = tuple(sorted(draw.sample(range(length // 3 if seals == 1 else length - 1), seals)))
    story = _story(draw, length, facts=["seal"], seals_at=places, is_wordy=is_wordy)
    cards = story.follow()
    given = {"vault": part(cards[-1], "vault"), "seals": [part(cards[place], "seal") for place in places]}
    inside = part(story.plan.call("Open the vault with what was found on the way.", "open_vault", given), "crates_inside")
    asked = draw.choice(
        (
            "The last card tells of a vault, and whose seals open it. How many crates are in the vault?",
            "At the end waits a vault that opens with seals seen on the way. What number of crates does it hold?",
            "Each card has a seal, and the vault that the last card names wants some of them. How many crates lie inside?",
        )
    )
    return story.draft(asked, inside, next(iter(story.archive.vaults.values()))[1])


def _seals(draw: Draw) -> Draft:
    return _vault(draw, seals=draw.integer(2, 4), is_wordy=False)


# Trails that are walked side by side


def _two_trails(draw: Draw) -> Draft:
    calls = _calls(draw) - 1
    first = calls // 2 + draw.integer(-4, 4)
    story = _story(draw, first, calls - first)
    one, other = story.follow(0)[-1], story.follow(1)[-1]
    answer = story.plan.call("Compare the two trails' ends.", "subtract", {"a": part(one, "crates"), "b": part(other, "crates")})
    left, right = (trail[-1].facts["crates"] for trail in story.archive.trails)
    asked = draw.choice(
        (
            "By how many crates does the last card of the first trail exceed that of the second? It may be negative.",
            "Subtract the crates on the second trail's last card from those on the first trail's last card: what comes out?",
            "What is the difference in crates between both ends, the first trail's minus the second's?",
        )
    )
    return story.draft(asked, answer, left - right)


def _convoy(draw: Draw) -> Draft:
    calls = _calls(draw) - 1
    first, second = calls // 3 + draw.integer(-2, 2), calls // 3 + draw.integer(-2, 2)
    story = _story(draw, first, second, calls - first - second, is_wordy=False)
    ends = [part(story.follow(number)[-1], "crates") for number in range(3)]
    total = story.plan.call("Add up the crates of the three ends.", "add_up", {"numbers": ends})
    asked = draw.choice(
        (
            "How many crates do the last cards of the three trails give together?",
            "The three ships met at the end. What is the sum of the crates on the three final cards?",
            "Take the card that ends each trail: how many crates are that in all?",
        )
    )
    return story.draft(asked, total, sum(trail[-1].facts["crates"] for trail in story.archive.trails))


# Cards that are not where they should be


def _empty_drawers(draw: Draw) -> Draft:
    missing = draw.integer(1, 3)
    length = _calls(draw) - 2 * missing
    places = tuple(sorted(draw.sample(range(2, length), missing)))
    story = _story(draw, length, moved=places)
    cards = story.follow()
    asked = draw.choice(
        (
            "Not all cards are in their drawers any more. How many crates does the last one name?",
            "Some cards have been moved since. Which number of crates is on the card that ends the trail?",
            "A drawer may be empty although the card still exists. How many crates does the trail's final card give?",
        )
    )
    return story.draft(asked, part(cards[-1], "crates"), story.trail[-1].facts["crates"])


# Trails that lead nowhere


def _burnt(draw: Draw) -> Draft:
    story = _story(draw, _calls(draw), burnt=(0,))
    story.follow()
    asked = draw.choice(
        (
            "How many crates does the card at the very end give?",
            "Which number of crates stands on the last card, after the fire in the archive?",
            "How many crates had the final card of the trail?",
        )
    )
    return story.draft(asked, None, None)


def _lost(draw: Draw) -> Draft:
    story = _story(draw, _calls(draw) - 2, is_lost=True, is_wordy=False)
    code = part(story.follow()[-1], "next_card")
    empty = story.plan.call("Try the drawer of the card that follows.", "read_card", {"code": code}, fails=True)
    story.plan.call("Ask the register for the card that follows.", "find_moved", {"code": code}, after=[empty], fails=True)
    asked = draw.choice(
        (
            "How many crates stand on the last card, the one that names no other?",
            "What number of crates does the card without a successor give?",
            "Which number of crates is given where the trail ends?",
        )
    )
    return story.draft(asked, None, None)


def _half_burnt(draw: Draw) -> Draft:
    calls = _calls(draw)
    story = _story(draw, calls // 2, calls - calls // 2, burnt=(1,))
    story.follow(0)
    story.follow(1)
    asked = draw.choice(
        (
            "How many crates do the last cards of both trails give together?",
            "What is the sum of the crates on the two final cards?",
            "Add the crates at the end of one trail to those at the end of the other: what is the result?",
        )
    )
    return story.draft(asked, None, None)


TEMPLATES = (
    _walk, _cash_book, _tally, _seals, _two_trails, _ledger, _coupons, _annexes, _vault, _telegrams,
    _empty_drawers, _convoy, _tickets, _freight,
)  # fmt: skip
UNANSWERABLE = (_burnt, _lost, _half_burnt)

SOURCE = Source(
    NAME,
    "1",
    partial(generate, NAME, templates=TEMPLATES, unanswerable=UNANSWERABLE),
    _open,
    distractors=frozenset({"read_old_edition"}),
)


def load(size: int | None = None, seed: int = 0) -> Suite:
    """The suite `long_haul`.

    `size`: number of tasks, 1 to 100,000; left out, 120. `seed`: another one gives other tasks. With neither, the tasks are the
    committed snapshot. Raises ValueError for values out of range.
    """
    return replace(SOURCE.suite(size, seed), step_limit=STEP_LIMIT)


SUITE = load
