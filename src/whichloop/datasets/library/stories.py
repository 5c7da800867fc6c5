"""The stories: trails, comparisons, sums and lists over the documents of one coast. Their wording stands in `wording.toml`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar, cast

from whichloop.protocol import Ref
from whichloop.protocol.values import joined

from ..generating import Draft, Draw, part
from ..story import DeadEnd, Story
from ..task import StatelessEnvironment, Task
from .collection import LINKS, WORDING, Coast, Entity, Kind, collection, page_of
from .shelves import TOOLS

Item = TypeVar("Item")
_OPTIONAL: dict[Kind, str] = {
    "person": "teacher", "town": "elevation", "ship": "crew", "company": "employees", "book": "dedicated_to",
    "lighthouse": "height",
}  # fmt: skip
"""What a document of a kind may be silent about."""


@cache
def library() -> StatelessEnvironment:
    """Return the one environment of all trials: nothing in the library changes."""
    return StatelessEnvironment(TOOLS.bound_to(collection()))


def open_library(task: Task) -> StatelessEnvironment:
    return library()


@cache
def phrases(name: str) -> dict[tuple[Kind, str], Any]:
    """Return a table of the wording by kind and fact."""
    return {(cast(Kind, kind), key): texts for kind, facts in WORDING.texts[name].items() for key, texts in facts.items()}


@dataclass(frozen=True, slots=True)
class Place:
    """An entity, and how a trail has come to it."""

    entity: Entity
    phrase: str
    """What it is called in the question and in the goals."""
    name: str | Ref
    """Its name, from the question or from a document read before."""


class Trail(Story):
    """A coast, and what is searched for and read there: each document and page once."""

    wording = WORDING

    def __init__(self, draw: Draw) -> None:
        super().__init__(draw)
        self.coast: Coast = self.choice(collection().coasts)
        self._ids: dict[str, Any] = {}
        self._pages: dict[tuple[str, int], Ref] = {}
        self.after: list[Ref] = []

    def settle(self) -> None:
        self.begin(library())

    def one_of(self, items: Sequence[Item]) -> Item:
        if not items:
            raise DeadEnd
        return self.choice(items)

    def phrase(self, table: str, place: Place, kind: Kind, key: str) -> str:
        """Draw a phrase from a table of the wording, about what the place is called."""
        text: str = self.choice(phrases(table)[kind, key])
        return text.format(place.phrase)

    def start(self, steps: int = 0) -> Place:
        """Return an entity that the question names, or one so many steps from there."""
        return self.walk(self.named(self.choice(list(self.coast.entities.values()))), steps)

    def named(self, entity: Entity) -> Place:
        """Return an entity that the question names."""
        return Place(entity, self.choice(WORDING.texts["called"][entity.kind]).format(entity.name), entity.name)

    def with_id(self, entity: Entity, phrase: str, document_id: Ref) -> Place:
        """Return an entity whose document is known without a search for its name."""
        self._ids[entity.name] = document_id
        return Place(entity, phrase, entity.name)

    def document(self, place: Place) -> Any:
        """Return the id of the place's document, and plan a search for it if needed."""
        if place.entity.name not in self._ids:
            found = self.call(f"Find the document about {place.phrase}.", "search", {"query": place.name}, after=self.after)
            self._ids[place.entity.name] = part(found, "results", 0, "id")
        return self._ids[place.entity.name]

    def fact(self, place: Place, key: str) -> Ref:
        """Return a fact of the place's document, and plan to read its page if needed."""
        number = page_of(place.entity.kind, key)
        page = (place.entity.name, number)
        if page not in self._pages:
            arguments = {"document_id": self.document(place)} | ({"page": number} if number > 1 else {})
            goal = f"Read page {number} of the document about {place.phrase}."
            self._pages[page] = self.call(goal, "read_document", arguments, after=self.after)
        return part(self._pages[page], "record", key)

    def listed(self, goal: str, kind: Kind, first: int, last: int) -> Ref:
        """Plan to list the documents of a kind and a span of years."""
        arguments = {"tag": self.coast.name, "kind": kind, "from_year": first, "to_year": last}
        return self.call(goal, "list_documents", arguments)

    def mentions(self, goal: str, place: Place, kind: Kind) -> Ref:
        return self.call(goal, "cited_by", {"document_id": self.document(place), "kind": kind})

    def on(self, place: Place, key: str) -> Place:
        """Go on to the entity that the place's document names."""
        phrase = self.phrase("relations", place, place.entity.kind, key)
        return Place(self.coast.entities[place.entity.facts[key]], phrase, self.fact(place, key))

    def walk(self, place: Place, steps: int) -> Place:
        """Go on by so many different random relations. Raises DeadEnd if the way ends, or comes back to where it was."""
        been, gone = {place.entity.name}, set[str]()
        for _ in range(steps):
            key = self.one_of([key for key in relations(place.entity) if key not in gone])
            place = self.on(place, key)
            if place.entity.name in been:
                raise DeadEnd
            been.add(place.entity.name)
            gone.add(key)
        return place

    def task(self, question: str, answer: Any, scorer: str = "", difficulty: str = "") -> Draft:
        """Return the task. Raises DeadEnd for a question that gives its own answer away."""
        expected = self.seen(answer)
        if answer is not None and any(str(item) in question for item in (expected if isinstance(expected, list) else [expected])):
            raise DeadEnd
        asked, instance = f"{question} {WORDING.texts['answer_format']}", f"coast/{self.coast.name}"
        return self.draft(asked, answer, scorer, instance=instance, difficulty=difficulty)

    def ask(self, place: Place, opening: str = "", difficulty: str = "", besides: str = "") -> Draft:
        """End a trail with a question for a number or a name in the place's document, though not `besides`."""
        kind, facts = place.entity.kind, place.entity.facts
        numbers = [key for of, key in phrases("numbers") if of == kind and key in facts]
        key = self.one_of([key for key in (*numbers, *relations(place.entity)) if key != besides])
        question = self.phrase("relations" if key in LINKS else "numbers", place, kind, key)
        if key in LINKS:
            question = self.choice(WORDING.texts["named"]).format(question)
        return self.task(f"{opening}{question}", self.fact(place, key), difficulty=difficulty)


def relations(entity: Entity) -> list[str]:
    return [key for key in entity.facts if key in LINKS]


# Trails


def _documents(name: str, steps: int, difficulty: str) -> Callable[[Trail], Draft]:
    """Make a story that asks for what lies so many steps from where the question starts."""

    def tell(s: Trail) -> Draft:
        return s.ask(s.start(steps), difficulty=difficulty)

    tell.__name__ = name
    return tell


def _by_its_story(s: Trail) -> Draft:
    """A book is known by what it tells, word for word."""
    book = s.choice(s.coast.of_kind("book"))
    plot = book.facts["plot"]
    found = s.call(f"Find the book with the story of {plot}.", "search", {"query": f'"{plot}"'})
    place = s.with_id(book, f"the book that tells of {plot}", part(found, "results", 0, "id"))
    return s.ask(s.walk(place, s.integer(1, 2)))


def _by_catalogue(s: Trail) -> Draft:
    """An entity is known by coast, kind and year."""
    entity = s.choice(list(s.coast.entities.values()))
    year, (_, dated) = entity.year, WORDING.texts["dated"][entity.kind]
    if sum(other.year == year for other in s.coast.of_kind(entity.kind)) > 1:
        raise DeadEnd
    found = s.listed(f"List what the catalogue has of the {entity.kind} of {year}.", entity.kind, year, year)
    phrase = f"the only {entity.kind} of {s.coast.name} {dated} in {year}"
    return s.ask(s.walk(s.with_id(entity, phrase, part(found, "documents", 0, "id")), s.integer(1, 2)))


def _by_old_number(s: Trail) -> Draft:
    """A document is known by a number under which it no longer stands."""
    held = collection()
    old, new = s.choice([(old, new) for old, new in held.merged.items() if held.documents[new].tag == s.coast.name])
    entity = s.coast.entities[held.documents[new].title]
    goal = f"Read the document that the footnote cites as {old}."
    gone = s.call(goal, "read_document", {"document_id": old}, fails=True)
    history = s.call(f"See what became of {old}.", "document_history", {"document_id": old}, after=[gone])
    place = s.with_id(entity, f"the {entity.kind} described there", part(history, "successor"))
    opening = s.choice(WORDING.texts["cited"]).format(old)
    return s.ask(s.walk(place, s.integer(1, 3)), opening)


def _by_mention(s: Trail) -> Draft:
    """An entity is known by a person that only its own document names."""
    person = s.walk(s.start(), s.integer(0, 2))
    ways = [
        (way, [item for item in s.coast.of_kind(way[0]) if item.facts[way[1]] == person.entity.name]) for way in phrases("works")
    ]
    (kind, key), works = s.one_of([(way, works) for way, works in ways if len(works) == 1])
    cited = s.mentions(f"See which document, a {kind}'s, mentions {person.phrase}.", person, kind)
    phrase = s.phrase("works", person, kind, key)
    return s.ask(s.with_id(works[0], phrase, part(cited, "documents", 0, "id")), besides=key)


# Comparisons, sums and lists


def _which_most(s: Trail) -> Draft:
    kind, key = s.choice(list(phrases("extremes")))
    there = s.coast.of_kind(kind)
    if len(there) < 3:
        raise DeadEnd
    entities = s.sample(there, s.integer(3, min(len(there), 4)))
    places = [s.named(entity) for entity in entities]
    opening = f"Take these {WORDING.texts['dated'][kind][0]}: {joined([entity.name for entity in entities])}."
    return _ask_winner(s, places, key, opening, s.integer(0, 1))


def _which_most_behind(s: Trail) -> Draft:
    """The entities that are compared are not those that the question names."""
    kind, relation = s.choice(list(phrases("relations")))
    entities = [entity for entity in s.coast.of_kind(kind) if relation in entity.facts]
    starts = [s.named(entity) for entity in s.sample(entities, min(len(entities), s.integer(2, 3)))]
    places = [s.on(start, relation) for start in starts]
    if len({place.entity.name for place in places}) < len(places) or len(places) < 2:
        raise DeadEnd
    compared = [key for of, key in phrases("extremes") if of == places[0].entity.kind]
    return _ask_winner(s, places, s.one_of(compared), f"Take {joined([place.phrase for place in places])}.", 0)


def _ask_winner(s: Trail, places: list[Place], key: str, opening: str, steps: int) -> Draft:
    """Ask for something else about the one with the largest, or smallest, number, or so many steps from there."""
    read = [s.fact(place, key) for place in places]
    numbers = s.seen(read)
    if len(set(numbers)) < len(numbers):
        raise DeadEnd
    pick, phrase = s.choice(list(zip((max, min), phrases("extremes")[places[0].entity.kind, key], strict=True)))
    winner = places[numbers.index(pick(numbers))]
    s.after = read  # what is read from here on depends on these
    which = f"that is {phrase}" if phrase.startswith("the") else phrase
    return s.ask(s.walk(replace(winner, phrase=f"the one of them {which}"), steps), f"{opening} ", besides=key)


def _years_between(s: Trail) -> Draft:
    places = [s.walk(s.start(), s.integer(1, 2)) for _ in range(2)]
    if places[0].entity.name == places[1].entity.name:
        raise DeadEnd
    keys = [s.one_of([key for of, key in phrases("events") if of == place.entity.kind]) for place in places]
    years = [s.fact(place, key) for place, key in zip(places, keys, strict=True)]
    spread = s.call("Work out the years between the two.", "summarize_numbers", {"values": years})
    events = phrases("events")
    first, second = (events[place.entity.kind, key].format(place.phrase) for place, key in zip(places, keys, strict=True))
    return s.task(f"How many years lie between {first} and {second}?", part(spread, "range"))


def _sum_of_a_coast(s: Trail) -> Draft:
    question, values, there = _ask_for_all(s, "sums")
    if None in there:
        raise DeadEnd
    total = s.call("Add up what the documents say.", "summarize_numbers", {"values": values})
    return s.task(f"What is {question}?", part(total, "sum"))


def _names_of_a_coast(s: Trail) -> Draft:
    question, values, there = _ask_for_all(s, "lists")
    if len(set(there)) < len(there) or None in there:
        raise DeadEnd
    return s.task(f"{question}?" if question.startswith("Wh") else f"{question}.", values)


def _ask_for_all(s: Trail, name: str) -> tuple[str, list[Ref], list[Any]]:
    """Ask for a fact of all entities of a kind and a span of years: return question, references and values.

    Two to five entities; None for what a document does not state.
    """
    kind, key = s.choice(list(phrases(name)))
    everyone = sorted(s.coast.of_kind(kind), key=lambda entity: (entity.year, entity.name))
    size = s.integer(2, min(5, len(everyone)))
    start = s.integer(0, len(everyone) - size)
    chosen, others = everyone[start : start + size], everyone[:start] + everyone[start + size :]
    first, last = chosen[0].year - s.integer(0, 9), chosen[-1].year + s.integer(0, 9)
    if any(first <= other.year <= last for other in others):
        raise DeadEnd
    many, dated = WORDING.texts["dated"][kind]
    listed = s.listed(f"List the {many} in question.", kind, first, last)
    places = [
        s.with_id(entity, f"number {index + 1} of the listed {many}", part(listed, "documents", index, "id"))
        for index, entity in enumerate(chosen)
    ]
    question = f"{s.choice(phrases(name)[kind, key])} of the {many} of {s.coast.name} {dated} from {first} to {last}"
    return question, [s.fact(place, key) for place in places], [entity.facts.get(key) for entity in chosen]


# Questions without an answer


def _silent_document(s: Trail) -> Draft:
    place = s.walk(s.start(), s.integer(1, 2))
    kind, key = place.entity.kind, _OPTIONAL[place.entity.kind]
    if key in place.entity.facts:
        raise DeadEnd
    s.fact(place, key)
    wording = s.phrase("relations" if key in LINKS else "numbers", place, kind, key)
    return s.task(f"Give the name of {wording}." if key in LINKS else wording, None, "normalized")


def _silent_in_a_sum(s: Trail) -> Draft:
    question, _, there = _ask_for_all(s, "sums")
    if None not in there:
        raise DeadEnd
    return s.task(f"What is {question}?", None)


def _no_such_mention(s: Trail) -> Draft:
    person = s.walk(s.start(), s.integer(1, 2))
    kind, key = s.choice(list(phrases("works")))
    if person.entity.kind != "person" or any(item.facts[key] == person.entity.name for item in s.coast.of_kind(kind)):
        raise DeadEnd
    s.mentions(f"See whether a document, a {kind}'s, mentions {person.phrase}.", person, kind)
    phrase = s.phrase("works", person, kind, key)
    asked = s.choice([number for of, number in phrases("numbers") if of == kind])
    return s.task(s.choice(phrases("numbers")[kind, asked]).format(phrase), None, "normalized")


STORIES = (
    _documents("two_documents", 1, "easy"), _by_mention, _which_most, _documents("three_documents", 2, "medium"), _sum_of_a_coast,
    _by_its_story, _which_most_behind, _documents("four_documents", 3, "hard"), _by_catalogue, _names_of_a_coast, _years_between,
    _by_old_number, _documents("five_documents", 4, "hard"),
)  # fmt: skip
UNANSWERABLE = (_silent_document, _silent_in_a_sum, _no_such_mention)
