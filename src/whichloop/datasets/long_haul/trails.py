"""The trails: what is asked of them, and the plan that walks them. Their wording stands in `wording.toml`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from whichloop.protocol import Ref

from ..generating import Draft, part
from ..story import Story
from ..task import Task, WorldEnvironment
from .archive import WORDING, TrailArchive, environment

EASY, MEDIUM, HARD = (21, 29), (30, 44), (45, 60)
"""Number of calls of a plan, from and to."""
_ORDINALS = ("first", "second", "third")


def open_archive(task: Task) -> WorldEnvironment[TrailArchive]:
    return environment(TrailArchive(**task.world))


class TrailStory(Story):
    """An archive, and the plan that goes through it."""

    wording = WORDING

    def plan_length(self) -> int:
        """Draw how many calls a plan may have: the three difficulties are equally frequent."""
        return self.integer(*self.choice((EASY, MEDIUM, HARD)))

    def archive_of(self, *lengths: int, **options: Any) -> None:
        """Draw an archive with trails of these lengths. `options`: those measures that differ from the defaults."""
        self.measures = {"key": self.integer(0, 10**12), "lengths": list(lengths), **options}
        self.archive = TrailArchive(**self.measures)

    def settle(self) -> None:
        self.archive.is_wordy = False  # no plan needs the remarks
        self.begin(environment(self.archive), self.measures)

    def walk(self, number: int = 0) -> list[Ref]:
        """Plan the reading of a whole trail, each card by what the one before says; return the cards read."""
        trails = self.archive.trails
        name = "the trail" if len(trails) == 1 else f"the {_ORDINALS[number]} trail"
        code: str | Ref = trails[number][0].code
        read: list[Ref] = []
        for place in range(len(trails[number])):
            if number == 0 and place in self.archive.moved:
                empty = self.read(f"Try the drawer of card {place + 1} of {name}.", code, fails=True)
                moved = self.call(f"Find out where card {place + 1} of {name} is.", "find_moved", {"code": code}, after=[empty])
                code = part(moved, "moved_to")
            read.append(self.read(f"Read card {place + 1} of {name}.", code))
            code = part(read[-1], "next_card")
        return read

    def read(self, goal: str, code: str | Ref, fails: bool = False) -> Ref:
        return self.call(goal, "read_card", {"code": code}, fails=fails)

    def add_up(self, goal: str, cards: Sequence[Ref], what: str = "crates") -> Ref:
        return self.call(goal, "add_up", {"numbers": [part(card, what) for card in cards]})

    def task(self, answer: Any) -> Draft:
        """Return the task: the story of how the trail is followed, then what is asked."""
        request = self.say("wish", {})
        calls = len(self.calls)
        difficulty = "easy" if calls <= EASY[1] else "medium" if calls <= MEDIUM[1] else "hard"
        question = f"{' '.join(self._told())} {request} {WORDING.texts['answer_format']}"
        return self.draft(question, answer, difficulty=difficulty)

    def _told(self) -> Iterator[str]:
        """Tell who asks, where the trail begins, and how it is followed."""
        texts = WORDING.texts
        who, other = self.sample(texts["people"], 2)
        words = {
            "who": who, "other": other, "ship": self.choice(texts["ships"]), "goods": self.choice(texts["goods"]),
            "port": self.choice(texts["ports"]), "year": self.integer(1871, 1938), "number": self.integer(12, 98),
        }  # fmt: skip
        yield self.say("occasions", words)
        if self.chance(0.6):
            yield self.say("incidentals", words)
        starts = [trail[0].code for trail in self.archive.trails]
        if len(starts) == 1:
            yield self.say("rules", {"start": starts[0], **words})
        else:
            named = ", ".join(f"the {which} with {start}" for which, start in zip(_ORDINALS, starts, strict=False))
            yield self.say("rules_for_many", {"count": {2: "Two", 3: "Three"}[len(starts)], "starts": named, **words})


# Chains, in which nothing but the last card is asked for


def _walk(s: TrailStory) -> Draft:
    s.archive_of(s.plan_length())
    return s.task(part(s.walk()[-1], "crates"))


def _telegrams(s: TrailStory) -> Draft:
    s.archive_of(s.plan_length(), is_wordy=False)
    return s.task(part(s.walk()[-1], "crates"))


def _empty_drawers(s: TrailStory) -> Draft:
    """Some cards are not where they should be."""
    missing = s.integer(1, 3)
    length = s.plan_length() - 2 * missing
    s.archive_of(length, moved=sorted(s.sample(range(2, length), missing)))
    return s.task(part(s.walk()[-1], "crates"))


# Running totals, and all that was seen on the way


def _ledger(s: TrailStory, **options: Any) -> Draft:
    s.name = "ledger"
    s.archive_of((s.plan_length() + 1) // 2, facts=["booked"], **options)
    first, *others = s.walk()
    total = part(first, "crates")
    for place, read in enumerate(others, 2):
        tool = "add" if s.archive.trails[0][place - 1].facts["booked"] == "in" else "subtract"
        total = s.call(f"Book what card {place} says.", tool, {"a": total, "b": part(read, "crates")})
    return s.task(total)


def _cash_book(s: TrailStory) -> Draft:
    return _ledger(s, is_wordy=False)


def _freight(s: TrailStory) -> Draft:
    s.archive_of((s.plan_length() - 1) // 2, facts=["price"])
    values = [
        s.call(f"Value the crates of card {place}.", "multiply", {"a": part(read, "crates"), "b": part(read, "price")})
        for place, read in enumerate(s.walk(), 1)
    ]
    return s.task(s.call("Add up the values of all cards.", "add_up", {"numbers": values}))


def _tally(s: TrailStory) -> Draft:
    s.archive_of(s.plan_length() - 1)
    return s.task(s.add_up("Add up the crates of all cards.", s.walk()))


def _annexes(s: TrailStory) -> Draft:
    every, calls = s.integer(3, 5), s.plan_length()
    s.archive_of((calls - 1) * every // (every + 1), annex_every=every)
    cards = s.walk()
    annexes = [
        s.read(f"Read the annex of card {place}.", part(read, "annex")) for place, read in enumerate(cards, 1) if place % every == 0
    ]
    return s.task(s.add_up("Add up the crates of cards and annexes.", [*cards, *annexes]))


def _tickets(s: TrailStory, **options: Any) -> Draft:
    s.name = "tickets"
    s.archive_of((s.plan_length() - 1) // 2, facts=["ticket"], **options)
    paid = [
        s.call(f"Redeem the ticket of card {place}.", "redeem_ticket", {"ticket": part(read, "ticket")})
        for place, read in enumerate(s.walk(), 1)
    ]
    return s.task(s.add_up("Add up what was paid for all tickets.", paid, "paid"))


def _coupons(s: TrailStory) -> Draft:
    return _tickets(s, is_wordy=False)


# Something early that is needed at the very end


def _vault(s: TrailStory, seals: int = 1, **options: Any) -> Draft:
    s.name, length = "vault", s.plan_length() - 1
    places = sorted(s.sample(range(length // 3 if seals == 1 else length - 1), seals))
    s.archive_of(length, facts=["seal"], seals_at=places, **options)
    cards = s.walk()
    arguments = {"vault": part(cards[-1], "vault"), "seals": [part(cards[place], "seal") for place in places]}
    return s.task(part(s.call("Open the vault with what was found on the way.", "open_vault", arguments), "crates_inside"))


def _seals(s: TrailStory) -> Draft:
    return _vault(s, s.integer(2, 4), is_wordy=False)


# Trails that are walked side by side


def _two_trails(s: TrailStory) -> Draft:
    calls = s.plan_length() - 1
    first = calls // 2 + s.integer(-4, 4)
    s.archive_of(first, calls - first)
    one, other = s.walk(0)[-1], s.walk(1)[-1]
    return s.task(s.call("Compare the two trails' ends.", "subtract", {"a": part(one, "crates"), "b": part(other, "crates")}))


def _convoy(s: TrailStory) -> Draft:
    calls = s.plan_length() - 1
    first, second = calls // 3 + s.integer(-2, 2), calls // 3 + s.integer(-2, 2)
    s.archive_of(first, second, calls - first - second, is_wordy=False)
    return s.task(s.add_up("Add up the crates of the three ends.", [s.walk(number)[-1] for number in range(3)]))


# Trails that lead nowhere


def _burnt(s: TrailStory) -> Draft:
    s.archive_of(s.plan_length(), burnt=[0])
    s.walk()
    return s.task(None)


def _lost(s: TrailStory) -> Draft:
    s.archive_of(s.plan_length() - 2, is_lost=True, is_wordy=False)
    code = part(s.walk()[-1], "next_card")
    empty = s.read("Try the drawer of the card that follows.", code, fails=True)
    s.call("Ask the register for the card that follows.", "find_moved", {"code": code}, after=[empty], fails=True)
    return s.task(None)


def _half_burnt(s: TrailStory) -> Draft:
    calls = s.plan_length()
    s.archive_of(calls // 2, calls - calls // 2, burnt=[1])
    s.walk(0)
    s.walk(1)
    return s.task(None)


STORIES: tuple[Callable[[TrailStory], Draft], ...] = (
    _walk, _cash_book, _tally, _seals, _two_trails, _ledger, _coupons, _annexes, _vault, _telegrams,
    _empty_drawers, _convoy, _tickets, _freight,
)  # fmt: skip
UNANSWERABLE = (_burnt, _lost, _half_burnt)
