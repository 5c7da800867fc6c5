"""The tasks: trails through the documents of one coast.

Answers come from the entities that the documents were written from; the plan finds them with the tools.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar

from loopbench.datasets.generating import SNAPSHOTS, DeadEnd, Draft, Draw, PlanWriter, Source, generate, part, told_by
from loopbench.datasets.task import StatelessEnvironment, Task
from loopbench.protocol import Plan, Ref

from .collection import LINKS, Coast, Entity, Kind, collection, page_of, year_of
from .shelves import DISTRACTORS, TOOLS, shelves

ANSWER_FORMAT = (
    "Answer with the name or the number alone, or with the names separated by commas."
    ' If it cannot be determined, the right answer is "not determined".'
)

Item = TypeVar("Item")

COLLECTION_DIGEST = "30aa1038c20fc4475a7919eeede21d1edf6556f8caba6ec995ebe660c00db74c"
"""What `collection().digest` is: stated, so that a suite can be listed without drawing the collection."""

_CALLED: dict[Kind, tuple[str, ...]] = {
    "person": ("{}",),
    "town": ("the town of {}", "the town {}"),
    "ship": ("the ship {}", "the vessel {}"),
    "company": ("the company {}", "the firm {}"),
    "book": ('the book "{}"',),
    "lighthouse": ("the lighthouse {}", "the tower of {}"),
}
_RELATIONS: dict[tuple[Kind, str], tuple[str, ...]] = {
    ("ship", "captain"): ("the captain of {}", "the person in command of {}"),
    ("ship", "builder"): ("the builder of {}", "the company that built {}"),
    ("ship", "home_port"): ("the home port of {}", "the town that is home port to {}"),
    ("company", "founder"): ("the founder of {}", "the person who founded {}"),
    ("company", "headquarters"): ("the town where {} has its seat", "the seat of {}"),
    ("town", "mayor"): ("the mayor of {}", "the person who is mayor of {}"),
    ("person", "birthplace"): ("the birthplace of {}", "the town where {} was born"),
    ("person", "teacher"): ("the teacher of {}", "the person who taught {}"),
    ("person", "employer"): ("the employer of {}", "the company that employed {}"),
    ("book", "author"): ("the author of {}", "the person who wrote {}"),
    ("book", "dedicated_to"): ("the person to whom {} is dedicated", "the dedicatee of {}"),
    ("lighthouse", "town"): ("the town near which {} stands", "the town closest to {}"),
    ("lighthouse", "architect"): ("the architect of {}", "the person who designed {}"),
}
"""How an entity is called by way of another one."""

_NUMBERS: dict[tuple[Kind, str], tuple[str, ...]] = {
    ("ship", "launched"): ("In which year was {} launched?", "What is the year of the launch of {}?"),
    ("ship", "length"): ("How many metres long is {}?", "What is the length in metres of {}?"),
    ("ship", "crew"): ("How many people are in the crew of {}?", "How large is the crew of {}?"),
    ("company", "founded"): ("In which year was {} founded?", "When, in what year, did {} start as a company?"),
    ("company", "employees"): ("How many people does {} employ?", "How many employees has {}?"),
    ("town", "founded"): ("In which year was {} founded?", "From what year does {} date?"),
    ("town", "population"): ("How many inhabitants has {}?", "What is the population of {}?"),
    ("town", "elevation"): (
        "How many metres above the sea is the market square of {}?",
        "At what elevation in metres does {} lie?",
    ),
    ("person", "born"): ("In which year was {} born?", "What is the year of birth of {}?"),
    ("book", "year"): ("In which year was {} published?", "What year saw the publication of {}?"),
    ("book", "pages"): ("How many pages has {}?", "How many pages long is the first edition of {}?"),
    ("lighthouse", "completed"): ("In which year was {} completed?", "What is the year of completion of {}?"),
    ("lighthouse", "height"): ("How many metres high is {}?", "What is the height in metres of {}?"),
}
"""What can be asked of an entity, where its document says it."""

_MAX: dict[tuple[Kind, str], tuple[str, str]] = {
    ("ship", "launched"): ("launched last", "launched first"),
    ("ship", "length"): ("the longest", "the shortest"),
    ("company", "founded"): ("the youngest", "the oldest"),
    ("town", "founded"): ("the youngest", "the oldest"),
    ("town", "population"): ("the largest by inhabitants", "the smallest by inhabitants"),
    ("person", "born"): ("born last", "born first"),
    ("book", "year"): ("published last", "published first"),
    ("book", "pages"): ("the longest by pages", "the shortest by pages"),
    ("lighthouse", "completed"): ("completed last", "completed first"),
}
"""What the one of several entities is that has the largest, and the smallest, number."""

_EVENTS: dict[tuple[Kind, str], str] = {
    ("ship", "launched"): "the launch of {}",
    ("company", "founded"): "the foundation of {}",
    ("town", "founded"): "the foundation of {}",
    ("person", "born"): "the birth of {}",
    ("book", "year"): "the publication of {}",
    ("lighthouse", "completed"): "the completion of {}",
}
_SUMS: dict[tuple[Kind, str], tuple[str, ...]] = {
    ("ship", "length"): ("the total length in metres", "the sum of the lengths in metres"),
    ("ship", "crew"): ("the total number of crew members", "the sum of the crews"),
    ("company", "employees"): ("the total number of employees", "the sum of the employees"),
    ("town", "population"): ("the total number of inhabitants", "the joint population"),
    ("book", "pages"): ("the total number of pages", "the sum of the pages"),
    ("person", "siblings"): ("the total number of siblings", "the sum of the numbers of siblings"),
}
_LISTS: dict[tuple[Kind, str], tuple[str, ...]] = {
    ("ship", "captain"): ("Who are the captains", "Name the captains"),
    ("ship", "home_port"): ("Which towns are the home ports", "Name the home ports"),
    ("company", "founder"): ("Who are the founders", "Name the founders"),
    ("town", "mayor"): ("Who are the mayors", "Name the mayors"),
    ("person", "birthplace"): ("Which towns are the birthplaces", "Name the birthplaces"),
    ("person", "teacher"): ("Who are the teachers", "Name the teachers"),
}
_WORKS: dict[tuple[Kind, str], tuple[str, ...]] = {
    ("ship", "captain"): ("the ship whose captain is {}", "the ship under the command of {}"),
    ("company", "founder"): ("the company that {} founded", "the company whose founder is {}"),
    ("town", "mayor"): ("the town whose mayor is {}", "the town with {} as mayor"),
    ("lighthouse", "architect"): ("the lighthouse that {} designed", "the lighthouse whose architect is {}"),
}
"""How an entity is called by way of the person that its own document names."""

_DATED: dict[Kind, tuple[str, str]] = {
    "person": ("people", "born"),
    "town": ("towns", "founded"),
    "ship": ("ships", "launched"),
    "company": ("companies", "founded"),
    "book": ("books", "published"),
    "lighthouse": ("lighthouses", "completed"),
}


# Reading


@dataclass(frozen=True, slots=True)
class _Place:
    """An entity as a trail has come to it."""

    entity: Entity
    phrase: str
    """What it is called in the question and in the goals."""
    name: str | Ref
    """Its name, from the question or from a document read before."""


class _Trail:
    """A coast, and the plan of what is searched for and read there: each document and page once."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.coast: Coast = draw.choice(collection().coasts)
        self.plan = PlanWriter()
        self._ids: dict[str, Any] = {}
        self._pages: dict[tuple[str, int], Ref] = {}
        self._after: tuple[Ref, ...] = ()

    def named(self, entity: Entity) -> _Place:
        """An entity that the question names."""
        return _Place(entity, self.draw.choice(_CALLED[entity.kind]).format(entity.name), entity.name)

    def with_id(self, entity: Entity, phrase: str, document_id: Ref) -> _Place:
        """An entity whose document is known without a search for its name."""
        self._ids[entity.name] = document_id
        return _Place(entity, phrase, entity.name)

    def any_entity(self) -> Entity:
        return self.draw.choice(list(self.coast.entities.values()))

    def wait_for(self, refs: list[Ref]) -> None:
        """What is read from here on was chosen in the light of these results."""
        self._after = tuple(refs)

    def document(self, place: _Place) -> Any:
        """The id of the place's document."""
        if place.entity.name not in self._ids:
            results = self.plan.call(f"Find the document about {place.phrase}.", "search", {"query": place.name}, after=self._after)
            self._ids[place.entity.name] = part(results, "results", 0, "id")
        return self._ids[place.entity.name]

    def fact(self, place: _Place, key: str) -> Ref:
        """A fact that the place's document states, or is silent about."""
        number = page_of(place.entity.kind, key)
        page = (place.entity.name, number)
        if page not in self._pages:
            arguments = {"document_id": self.document(place)} | ({"page": number} if number > 1 else {})
            goal = f"Read page {number} of the document about {place.phrase}."
            self._pages[page] = self.plan.call(goal, "read_document", arguments, after=self._after)
        return part(self._pages[page], "record", key)

    def on(self, place: _Place, key: str) -> _Place:
        """The entity that the place's document names."""
        phrase = self.draw.choice(_RELATIONS[place.entity.kind, key]).format(place.phrase)
        return _Place(self.coast.entities[place.entity.facts[key]], phrase, self.fact(place, key))

    def walk(self, place: _Place, steps: int) -> _Place:
        """On by so many random relations, no two alike. Raises DeadEnd where the way ends, or comes back to where it was."""
        been, gone = {place.entity.name}, set[str]()
        for _ in range(steps):
            key = _one_of(self.draw, [key for key in _relations(place.entity) if key not in gone])
            place = self.on(place, key)
            if place.entity.name in been:
                raise DeadEnd
            been.add(place.entity.name)
            gone.add(key)
        return place

    def task(self, question: str, answer: Any, expected: Any, scorer: str, difficulty: str = "") -> Draft:
        """Raises DeadEnd for a question that gives its own answer away."""
        given = expected if isinstance(expected, list) else [expected]
        if expected is not None and any(str(item) in question for item in given):
            raise DeadEnd
        plan = Plan(tuple(self.plan.calls), answer)
        return Draft(
            f"{question} {ANSWER_FORMAT}", plan, expected, scorer, instance=f"coast/{self.coast.name}", difficulty=difficulty
        )


_template = told_by(_Trail)


def _one_of(draw: Draw, items: Sequence[Item]) -> Item:
    if not items:
        raise DeadEnd
    return draw.choice(items)


def _relations(entity: Entity) -> list[str]:
    return [key for key in entity.facts if key in LINKS]


def _ask(trail: _Trail, place: _Place, opening: str = "", difficulty: str = "", besides: str = "") -> Draft:
    """Ends a trail with a question for a number or a name in the place's document, though not `besides`."""
    kind, facts = place.entity.kind, place.entity.facts
    numbers = [key for of, key in _NUMBERS if of == kind and key in facts]
    key = _one_of(trail.draw, [key for key in (*numbers, *_relations(place.entity)) if key != besides])
    if key in LINKS:
        told = trail.draw.choice(_RELATIONS[kind, key]).format(place.phrase)
        question, scorer = trail.draw.choice(("What is the name of {}?", "Give the name of {}.")).format(told), "normalized"
    else:
        question, scorer = trail.draw.choice(_NUMBERS[kind, key]).format(place.phrase), "numeric"
    return trail.task(f"{opening}{question}", trail.fact(place, key), facts[key], scorer, difficulty)


# Trails


@_template
def _two_documents(trail: _Trail) -> Draft:
    return _ask(trail, trail.walk(trail.named(trail.any_entity()), 1), difficulty="easy")


@_template
def _three_documents(trail: _Trail) -> Draft:
    return _ask(trail, trail.walk(trail.named(trail.any_entity()), 2), difficulty="medium")


@_template
def _four_documents(trail: _Trail) -> Draft:
    return _ask(trail, trail.walk(trail.named(trail.any_entity()), 3), difficulty="hard")


@_template
def _five_documents(trail: _Trail) -> Draft:
    return _ask(trail, trail.walk(trail.named(trail.any_entity()), 4), difficulty="hard")


@_template
def _by_its_story(trail: _Trail) -> Draft:
    """A book is known by what it tells, word for word."""
    book = trail.draw.choice(trail.coast.of_kind("book"))
    plot = book.facts["plot"]
    found = trail.plan.call(f"Find the book with the story of {plot}.", "search", {"query": f'"{plot}"'})
    place = trail.with_id(book, f"the book that tells of {plot}", part(found, "results", 0, "id"))
    return _ask(trail, trail.walk(place, trail.draw.integer(1, 2)))


@_template
def _by_catalogue(trail: _Trail) -> Draft:
    """An entity is known by coast, kind and year."""
    entity = trail.any_entity()
    year, (_, dated) = year_of(entity), _DATED[entity.kind]
    if sum(year_of(other) == year for other in trail.coast.of_kind(entity.kind)) > 1:
        raise DeadEnd
    arguments = {"tag": trail.coast.name, "kind": entity.kind, "from_year": year, "to_year": year}
    listed = trail.plan.call(f"List what the catalogue has of the {entity.kind} of {year}.", "list_documents", arguments)
    phrase = f"the only {entity.kind} of {trail.coast.name} {dated} in {year}"
    return _ask(trail, trail.walk(trail.with_id(entity, phrase, part(listed, "documents", 0, "id")), trail.draw.integer(1, 2)))


@_template
def _by_old_number(trail: _Trail) -> Draft:
    """A document is known by a number under which it no longer stands."""
    held = collection()
    old, new = trail.draw.choice([(old, new) for old, new in held.merged.items() if held.documents[new].tag == trail.coast.name])
    entity = trail.coast.entities[held.documents[new].title]
    gone = trail.plan.call(
        f"Read the document that the footnote cites as {old}.", "read_document", {"document_id": old}, fails=True
    )
    history = trail.plan.call(f"See what became of {old}.", "document_history", {"document_id": old}, after=[gone])
    place = trail.with_id(entity, f"the {entity.kind} described there", part(history, "successor"))
    opening = trail.draw.choice(("A footnote cites document {}. ", "Document {} is cited in an old letter. ")).format(old)
    return _ask(trail, trail.walk(place, trail.draw.integer(1, 3)), opening)


@_template
def _by_mention(trail: _Trail) -> Draft:
    """An entity is known by a person that only its own document names."""
    person = trail.walk(trail.named(trail.any_entity()), trail.draw.integer(0, 2))
    (kind, key), works = _one_of(trail.draw, _works_of(trail.coast, person.entity))
    mentions = {"document_id": trail.document(person), "kind": kind}
    cited = trail.plan.call(f"See which document, a {kind}'s, mentions {person.phrase}.", "cited_by", mentions)
    phrase = trail.draw.choice(_WORKS[kind, key]).format(person.phrase)
    return _ask(trail, trail.with_id(works[0], phrase, part(cited, "documents", 0, "id")), besides=key)


def _works_of(coast: Coast, person: Entity) -> list[tuple[tuple[Kind, str], list[Entity]]]:
    """What a person, and for each way of it once, stands behind."""
    found = [((kind, key), [item for item in coast.of_kind(kind) if item.facts[key] == person.name]) for kind, key in _WORKS]
    return [(way, works) for way, works in found if len(works) == 1]


# Comparisons, sums and lists


@_template
def _which_most(trail: _Trail) -> Draft:
    kind, key = trail.draw.choice(list(_MAX))
    entities = trail.draw.sample(trail.coast.of_kind(kind), _count(trail, kind))
    places = [trail.named(entity) for entity in entities]
    names = _and([entity.name for entity in entities])
    return _ask_winner(trail, places, key, f"Take these {_DATED[kind][0]}: {names}.", trail.draw.integer(0, 1))


@_template
def _which_most_behind(trail: _Trail) -> Draft:
    """The ones compared are not those named."""
    kind, relation = trail.draw.choice(list(_RELATIONS))
    entities = [entity for entity in trail.coast.of_kind(kind) if relation in entity.facts]
    starts = [trail.named(entity) for entity in trail.draw.sample(entities, min(len(entities), trail.draw.integer(2, 3)))]
    places = [trail.on(start, relation) for start in starts]
    if len({place.entity.name for place in places}) < len(places) or len(places) < 2:
        raise DeadEnd
    compared = [key for of, key in _MAX if of == places[0].entity.kind]
    return _ask_winner(trail, places, _one_of(trail.draw, compared), f"Take {_and([place.phrase for place in places])}.", 0)


def _count(trail: _Trail, kind: Kind) -> int:
    there = len(trail.coast.of_kind(kind))
    if there < 3:
        raise DeadEnd
    return trail.draw.integer(3, min(there, 4))


def _ask_winner(trail: _Trail, places: list[_Place], key: str, opening: str, steps: int) -> Draft:
    """Asks for something else about the one with the largest, or smallest, number, or so many steps from there."""
    kind = places[0].entity.kind
    read = [trail.fact(place, key) for place in places]
    numbers = [place.entity.facts[key] for place in places]
    if len(set(numbers)) < len(numbers):
        raise DeadEnd
    pick, phrase = trail.draw.choice(list(zip((max, min), _MAX[kind, key], strict=True)))
    winner = places[numbers.index(pick(numbers))]
    trail.wait_for(read)
    chosen = replace(
        winner, phrase=f"the one of them that is {phrase}" if phrase.startswith("the") else f"the one of them {phrase}"
    )
    return _ask(trail, trail.walk(chosen, steps), f"{opening} ", besides=key)


def _and(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


@_template
def _years_between(trail: _Trail) -> Draft:
    places = [trail.walk(trail.named(trail.any_entity()), trail.draw.integer(1, 2)) for _ in range(2)]
    if places[0].entity.name == places[1].entity.name:
        raise DeadEnd
    keys = [_one_of(trail.draw, [key for of, key in _EVENTS if of == place.entity.kind]) for place in places]
    years = [trail.fact(place, key) for place, key in zip(places, keys, strict=True)]
    spread = trail.plan.call("Work out the years between the two.", "summarize_numbers", {"values": years})
    first, second = (place.entity.facts[key] for place, key in zip(places, keys, strict=True))
    told = [_EVENTS[place.entity.kind, key].format(place.phrase) for place, key in zip(places, keys, strict=True)]
    return trail.task(f"How many years lie between {told[0]} and {told[1]}?", part(spread, "range"), abs(first - second), "numeric")


@_template
def _sum_of_a_coast(trail: _Trail) -> Draft:
    question, values, expected = _listed(trail, _SUMS)
    if None in expected:
        raise DeadEnd
    total = trail.plan.call("Add up what the documents say.", "summarize_numbers", {"values": values})
    return trail.task(f"What is {question}?", part(total, "sum"), sum(expected), "numeric")


@_template
def _names_of_a_coast(trail: _Trail) -> Draft:
    question, values, expected = _listed(trail, _LISTS)
    if len(set(expected)) < len(expected) or None in expected:
        raise DeadEnd
    return trail.task(f"{question}?" if question.startswith("Wh") else f"{question}.", values, expected, "set")


def _listed(trail: _Trail, wordings: dict[tuple[Kind, str], tuple[str, ...]]) -> tuple[str, list[Ref], list[Any]]:
    """A fact of all entities of a kind that are dated from one year to another: what is asked, where it is found, and what it is.

    Two to five entities; None for what a document does not state.
    """
    kind, key = trail.draw.choice(list(wordings))
    everyone = sorted(trail.coast.of_kind(kind), key=lambda entity: (year_of(entity), entity.name))
    size = trail.draw.integer(2, min(5, len(everyone)))
    start = trail.draw.integer(0, len(everyone) - size)
    chosen, others = everyone[start : start + size], everyone[:start] + everyone[start + size :]
    first, last = year_of(chosen[0]) - trail.draw.integer(0, 9), year_of(chosen[-1]) + trail.draw.integer(0, 9)
    if any(first <= year_of(other) <= last for other in others):
        raise DeadEnd
    many, dated = _DATED[kind]
    arguments = {"tag": trail.coast.name, "kind": kind, "from_year": first, "to_year": last}
    listed = trail.plan.call(f"List the {many} in question.", "list_documents", arguments)
    places = [
        trail.with_id(entity, f"number {index + 1} of the listed {many}", part(listed, "documents", index, "id"))
        for index, entity in enumerate(chosen)
    ]
    question = f"{trail.draw.choice(wordings[kind, key])} of the {many} of {trail.coast.name} {dated} from {first} to {last}"
    return question, [trail.fact(place, key) for place in places], [entity.facts.get(key) for entity in chosen]


# Questions without an answer

_OPTIONAL: dict[Kind, str] = {
    "person": "teacher", "town": "elevation", "ship": "crew", "company": "employees", "book": "dedicated_to",
    "lighthouse": "height",
}  # fmt: skip
"""What a document of a kind may be silent about."""


@_template
def _silent_document(trail: _Trail) -> Draft:
    place = trail.walk(trail.named(trail.any_entity()), trail.draw.integer(1, 2))
    kind, key = place.entity.kind, _OPTIONAL[place.entity.kind]
    if key in place.entity.facts:
        raise DeadEnd
    trail.fact(place, key)
    told = _RELATIONS[kind, key] if key in LINKS else _NUMBERS[kind, key]
    wording = trail.draw.choice(told).format(place.phrase)
    return trail.task(f"Give the name of {wording}." if key in LINKS else wording, None, None, "normalized")


@_template
def _silent_in_a_sum(trail: _Trail) -> Draft:
    question, _, expected = _listed(trail, _SUMS)
    if None not in expected:
        raise DeadEnd
    return trail.task(f"What is {question}?", None, None, "numeric")


@_template
def _no_such_mention(trail: _Trail) -> Draft:
    person = trail.walk(trail.named(trail.any_entity()), trail.draw.integer(1, 2))
    kind, key = trail.draw.choice(list(_WORKS))
    if person.entity.kind != "person" or any(item.facts[key] == person.entity.name for item in trail.coast.of_kind(kind)):
        raise DeadEnd
    mentions = {"document_id": trail.document(person), "kind": kind}
    trail.plan.call(f"See whether a document, a {kind}'s, mentions {person.phrase}.", "cited_by", mentions)
    phrase = trail.draw.choice(_WORKS[kind, key]).format(person.phrase)
    asked = trail.draw.choice(_NUMBERS[kind, trail.draw.choice([number for of, number in _NUMBERS if of == kind])])
    return trail.task(asked.format(phrase), None, None, "normalized")


TEMPLATES = (
    _two_documents, _by_mention, _which_most, _three_documents, _sum_of_a_coast, _by_its_story, _which_most_behind,
    _four_documents, _by_catalogue, _names_of_a_coast, _years_between, _by_old_number, _five_documents,
)  # fmt: skip
UNANSWERABLE = (_silent_document, _silent_in_a_sum, _no_such_mention)


@cache
def _environment() -> StatelessEnvironment:
    return StatelessEnvironment(TOOLS.over(shelves()))


def _open(task: Task) -> StatelessEnvironment:
    """The same for all: nothing in the library changes."""
    return _environment()


SOURCE = Source(
    "library",
    "1",
    lambda seed: generate("library", seed, TEMPLATES, UNANSWERABLE),
    _open,
    shared=COLLECTION_DIGEST,
    distractors=DISTRACTORS,
    snapshots=SNAPSHOTS,
)

SUITE = load = SOURCE.suite
