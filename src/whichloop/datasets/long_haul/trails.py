"""The trails: what is asked of them, and the plan that walks them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from whichloop.protocol import Plan, Ref

from ..generating import SNAPSHOTS, Draft, Draw, PlanWriter, Source, generate, part
from ..task import Task, WorldEnvironment
from .archive import GOODS, NAME, PEOPLE, PORTS, SHIPS, Card, Measures, TrailArchive, archive_of, environment

ANSWER_FORMAT = 'Give the number alone. If it cannot be determined, the right answer is "not determined".'
STEP_LIMIT = 75
"""A quarter more than the longest plan: the longer a way, the more often something goes wrong on it."""
EASY, MEDIUM, HARD = (21, 29), (30, 44), (45, 60)
"""Number of calls of a plan, from and to."""


@dataclass(slots=True)
class _Story:
    """A task as it is being written: the archive, and the plan that goes through it."""

    draw: Draw
    measures: Measures
    archive: TrailArchive = field(init=False)
    plan: PlanWriter = field(default_factory=PlanWriter)

    def __post_init__(self) -> None:
        self.archive = archive_of(self.measures)

    @property
    def trail(self) -> tuple[Card, ...]:
        return self.archive.trails[0]

    def follow(self, number: int = 0) -> list[Ref]:
        """Plan the reading of a whole trail, each card by what the one before says; return the cards read."""
        trail = self.archive.trails[number]
        name = "the trail" if len(self.archive.trails) == 1 else f"the {_ORDINALS[number]} trail"
        code: str | Ref = trail[0].code
        read: list[Ref] = []
        for place in range(len(trail)):
            if number == 0 and place in self.measures.moved:
                empty = self.plan.call(f"Try the drawer of card {place + 1} of {name}.", "read_card", {"code": code}, fails=True)
                moved = self.plan.call(
                    f"Find out where card {place + 1} of {name} is.", "find_moved", {"code": code}, after=[empty]
                )
                code = part(moved, "moved_to")
            read.append(self.plan.call(f"Read card {place + 1} of {name}.", "read_card", {"code": code}))
            code = part(read[-1], "next_card")
        return read

    def draft(self, request: str, answer: Any, expected: int | None) -> Draft:
        """Return the task. `request`: the question itself, behind the story of how the trail is followed."""
        plan = self.plan.plan(answer)
        question = f"{' '.join(_told(self.draw, self.archive))} {request} {ANSWER_FORMAT}"
        return Draft(question, plan, expected, "numeric", world=self.measures.as_world(), difficulty=_difficulty(plan))


_ORDINALS = ("first", "second", "third")


def _difficulty(plan: Plan) -> str:
    """Return the difficulty by the plan's length."""
    calls = len(plan.calls)
    return "easy" if calls <= EASY[1] else "medium" if calls <= MEDIUM[1] else "hard"


def _calls(draw: Draw) -> int:
    """Draw how many calls a plan may have: the three difficulties are equally frequent."""
    return draw.integer(*draw.choice((EASY, MEDIUM, HARD)))


def _story(draw: Draw, *lengths: int, facts: Sequence[str] = (), **options: Any) -> _Story:
    return _Story(draw, Measures(draw.integer(0, 10**12), lengths, tuple(facts), **options))


def _told(draw: Draw, archive: TrailArchive) -> Iterator[str]:
    """Tell who asks, where the trail begins, and how it is followed."""
    who, other = draw.sample(PEOPLE, 2)
    words = {
        "who": who, "other": other, "ship": draw.choice(SHIPS), "goods": draw.choice(GOODS),
        "port": draw.choice(PORTS), "year": draw.integer(1871, 1938), "number": draw.integer(12, 98),
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
    request = draw.pick(
        "How many crates does the last card give?",
        "What number of crates stands on the card at the trail's end?",
        "How many crates were left, according to the very last card?",
    )
    return story.draft(request, part(cards[-1], "crates"), story.trail[-1].facts["crates"])


def _telegrams(draw: Draw) -> Draft:
    story = _story(draw, _calls(draw), is_wordy=False)
    cards = story.follow()
    request = draw.pick(
        "The cards are short, like telegrams. Which number of crates does the final one report?",
        "All of them are telegrams of few words. How many crates are named in the one that closes the trail?",
        "Nobody wasted words on these cards. What count of crates stands on the last?",
    )
    return story.draft(request, part(cards[-1], "crates"), story.trail[-1].facts["crates"])


# Running totals


def _ledger(draw: Draw, *, is_wordy: bool = True) -> Draft:
    story = _story(draw, (_calls(draw) + 1) // 2, facts=["booked"], is_wordy=is_wordy)
    first, *others = story.follow()
    total = part(first, "crates")
    for place, (card, read) in enumerate(zip(story.trail[1:], others, strict=True), 2):
        tool = "add" if card.facts["booked"] == "in" else "subtract"
        total = story.plan.call(f"Book what card {place} says.", tool, {"a": total, "b": part(read, "crates")})
    balance = sum(card.facts["crates"] * (1 if card.facts["booked"] == "in" else -1) for card in story.trail)
    request = draw.pick(
        "The store was empty at first. How many crates are in it after the last card, each card's crates booked in or out?",
        "Each card books its crates in or out of an empty store. What is the balance at the end? It may be negative.",
        "Starting from nothing, add the crates that are booked in and subtract those that are booked out. What is left?",
    )
    return story.draft(request, total, balance)


def _cash_book(draw: Draw) -> Draft:
    return _ledger(draw, is_wordy=False)


def _freight(draw: Draw) -> Draft:
    story = _story(draw, (_calls(draw) - 1) // 2, facts=["price"])
    values = [
        story.plan.call(f"Value the crates of card {place}.", "multiply", {"a": part(read, "crates"), "b": part(read, "price")})
        for place, read in enumerate(story.follow(), 1)
    ]
    total = story.plan.call("Add up the values of all cards.", "add_up", {"numbers": values})
    request = draw.pick(
        "Each card gives a number of crates and the price of one crate. How many dollars were all the crates together worth?",
        "For every card, its crates times its price is what they brought in. How many dollars is that over the whole trail?",
        "What did the crates of all cards cost together, each at the price in dollars that its own card gives?",
    )
    return story.draft(request, total, sum(card.facts["crates"] * card.facts["price"] for card in story.trail))


# All that was seen on the way


def _tally(draw: Draw) -> Draft:
    story = _story(draw, _calls(draw) - 1)
    numbers = [part(read, "crates") for read in story.follow()]
    total = story.plan.call("Add up the crates of all cards.", "add_up", {"numbers": numbers})
    request = draw.pick(
        "How many crates do all the cards of the trail name together?",
        "What is the sum of the crates over every single card?",
        "Add up the crates of all cards from the first to the last. What is the total?",
    )
    return story.draft(request, total, sum(card.facts["crates"] for card in story.trail))


def _annexes(draw: Draw) -> Draft:
    every, calls = draw.integer(3, 5), _calls(draw)
    story = _story(draw, (calls - 1) * every // (every + 1), annex_every=every)
    cards = story.follow()
    with_annex = [(place, read) for place, read in enumerate(cards, 1) if place % every == 0]
    annexes = [
        story.plan.call(f"Read the annex of card {place}.", "read_card", {"code": part(read, "annex")})
        for place, read in with_annex
    ]
    numbers = [part(read, "crates") for read in (*cards, *annexes)]
    total = story.plan.call("Add up the crates of cards and annexes.", "add_up", {"numbers": numbers})
    request = draw.pick(
        "Some cards have an annex, a card of its own. How many crates are there on all cards and annexes together?",
        "Where a card names an annex, the crates on that card count too. How many crates is it in all?",
        "What is the total of the crates, with those of every annex that the cards of the trail refer to?",
    )
    own = sum(card.facts["crates"] for card in story.trail)
    beside = [story.archive.cards[card.facts["annex"]] for card in story.trail if "annex" in card.facts]
    return story.draft(request, total, own + sum(card.facts["crates"] for card in beside))


def _tickets(draw: Draw, *, is_wordy: bool = True) -> Draft:
    story = _story(draw, (_calls(draw) - 1) // 2, facts=["ticket"], is_wordy=is_wordy)
    paid = [
        part(story.plan.call(f"Redeem the ticket of card {place}.", "redeem_ticket", {"ticket": part(read, "ticket")}), "paid")
        for place, read in enumerate(story.follow(), 1)
    ]
    total = story.plan.call("Add up what was paid for all tickets.", "add_up", {"numbers": paid})
    request = draw.pick(
        "Every card carries a ticket. How many dollars are paid for all of them, once they are redeemed?",
        "What do the tickets of all cards bring in together when each is redeemed, in dollars?",
        "Redeem the ticket of each card. How many dollars is that in total?",
    )
    return story.draft(request, total, sum(story.archive.tickets[card.facts["ticket"]] for card in story.trail))


def _coupons(draw: Draw) -> Draft:
    return _tickets(draw, is_wordy=False)


# Something early that is needed at the very end


def _vault(draw: Draw, *, seals: int = 1, is_wordy: bool = True) -> Draft:
    length = _calls(draw) - 1
    places = tuple(sorted(draw.sample(range(length // 3 if seals == 1 else length - 1), seals)))
    story = _story(draw, length, facts=["seal"], seals_at=places, is_wordy=is_wordy)
    cards = story.follow()
    arguments = {"vault": part(cards[-1], "vault"), "seals": [part(cards[place], "seal") for place in places]}
    inside = part(story.plan.call("Open the vault with what was found on the way.", "open_vault", arguments), "crates_inside")
    request = draw.pick(
        "The last card tells of a vault, and whose seals open it. How many crates are in the vault?",
        "At the end waits a vault that opens with seals seen on the way. What number of crates does it hold?",
        "Each card has a seal, and the vault that the last card names wants some of them. How many crates lie inside?",
    )
    return story.draft(request, inside, next(iter(story.archive.vaults.values()))[1])


def _seals(draw: Draw) -> Draft:
    return _vault(draw, seals=draw.integer(2, 4), is_wordy=False)


# Trails that are walked side by side


def _two_trails(draw: Draw) -> Draft:
    calls = _calls(draw) - 1
    first = calls // 2 + draw.integer(-4, 4)
    story = _story(draw, first, calls - first)
    one, other = story.follow(0)[-1], story.follow(1)[-1]
    answer = story.plan.call("Compare the two trails' ends.", "subtract", {"a": part(one, "crates"), "b": part(other, "crates")})
    first_crates, second_crates = (trail[-1].facts["crates"] for trail in story.archive.trails)
    request = draw.pick(
        "By how many crates does the last card of the first trail exceed that of the second? It may be negative.",
        "Subtract the crates on the second trail's last card from those on the first trail's last card: what comes out?",
        "What is the difference in crates between both ends, the first trail's minus the second's?",
    )
    return story.draft(request, answer, first_crates - second_crates)


def _convoy(draw: Draw) -> Draft:
    calls = _calls(draw) - 1
    first, second = calls // 3 + draw.integer(-2, 2), calls // 3 + draw.integer(-2, 2)
    story = _story(draw, first, second, calls - first - second, is_wordy=False)
    ends = [part(story.follow(number)[-1], "crates") for number in range(3)]
    total = story.plan.call("Add up the crates of the three ends.", "add_up", {"numbers": ends})
    request = draw.pick(
        "How many crates do the last cards of the three trails give together?",
        "The three ships met at the end. What is the sum of the crates on the three final cards?",
        "Take the card that ends each trail: how many crates are that in all?",
    )
    return story.draft(request, total, sum(trail[-1].facts["crates"] for trail in story.archive.trails))


# Cards that are not where they should be


def _empty_drawers(draw: Draw) -> Draft:
    missing = draw.integer(1, 3)
    length = _calls(draw) - 2 * missing
    places = tuple(sorted(draw.sample(range(2, length), missing)))
    story = _story(draw, length, moved=places)
    cards = story.follow()
    request = draw.pick(
        "Not all cards are in their drawers any more. How many crates does the last one name?",
        "Some cards have been moved since. Which number of crates is on the card that ends the trail?",
        "A drawer may be empty although the card still exists. How many crates does the trail's final card give?",
    )
    return story.draft(request, part(cards[-1], "crates"), story.trail[-1].facts["crates"])


# Trails that lead nowhere


def _burnt(draw: Draw) -> Draft:
    story = _story(draw, _calls(draw), burnt=(0,))
    story.follow()
    request = draw.pick(
        "How many crates does the card at the very end give?",
        "Which number of crates stands on the last card, after the fire in the archive?",
        "How many crates had the final card of the trail?",
    )
    return story.draft(request, None, None)


def _lost(draw: Draw) -> Draft:
    story = _story(draw, _calls(draw) - 2, is_lost=True, is_wordy=False)
    code = part(story.follow()[-1], "next_card")
    empty = story.plan.call("Try the drawer of the card that follows.", "read_card", {"code": code}, fails=True)
    story.plan.call("Ask the register for the card that follows.", "find_moved", {"code": code}, after=[empty], fails=True)
    request = draw.pick(
        "How many crates stand on the last card, the one that names no other?",
        "What number of crates does the card without a successor give?",
        "Which number of crates is given where the trail ends?",
    )
    return story.draft(request, None, None)


def _half_burnt(draw: Draw) -> Draft:
    calls = _calls(draw)
    story = _story(draw, calls // 2, calls - calls // 2, burnt=(1,))
    story.follow(0)
    story.follow(1)
    request = draw.pick(
        "How many crates do the last cards of both trails give together?",
        "What is the sum of the crates on the two final cards?",
        "Add the crates at the end of one trail to those at the end of the other: what is the result?",
    )
    return story.draft(request, None, None)


def _open(task: Task) -> WorldEnvironment[TrailArchive]:
    return environment(Measures.from_world(task.world))


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
    step_limit=STEP_LIMIT,
    snapshots=SNAPSHOTS,
    templates="strata",
)

SUITE = load = SOURCE.suite
