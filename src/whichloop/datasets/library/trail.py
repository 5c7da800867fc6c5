"""A trail through the documents of one coast: how its steps are worded, and the plan that walks it.

Answers come from the entities that the documents were written from; the plan finds them with the tools.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from whichloop.datasets.generating import DeadEnd, Draft, Draw, PlanWriter, part, told_by
from whichloop.protocol import Ref

from .collection import LINKS, Coast, Entity, Kind, collection, page_of

ANSWER_FORMAT = (
    "Answer with the name or the number alone, or with the names separated by commas."
    ' If it cannot be determined, the right answer is "not determined".'
)


Item = TypeVar("Item")


CALLED: dict[Kind, tuple[str, ...]] = {
    "person": ("{}",),
    "town": ("the town of {}", "the town {}"),
    "ship": ("the ship {}", "the vessel {}"),
    "company": ("the company {}", "the firm {}"),
    "book": ('the book "{}"',),
    "lighthouse": ("the lighthouse {}", "the tower of {}"),
}


RELATIONS: dict[tuple[Kind, str], tuple[str, ...]] = {
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


NUMBERS: dict[tuple[Kind, str], tuple[str, ...]] = {
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


EXTREMES: dict[tuple[Kind, str], tuple[str, str]] = {
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
"""How the entity with the largest, and the smallest, number is called."""


EVENTS: dict[tuple[Kind, str], str] = {
    ("ship", "launched"): "the launch of {}",
    ("company", "founded"): "the foundation of {}",
    ("town", "founded"): "the foundation of {}",
    ("person", "born"): "the birth of {}",
    ("book", "year"): "the publication of {}",
    ("lighthouse", "completed"): "the completion of {}",
}


SUMS: dict[tuple[Kind, str], tuple[str, ...]] = {
    ("ship", "length"): ("the total length in metres", "the sum of the lengths in metres"),
    ("ship", "crew"): ("the total number of crew members", "the sum of the crews"),
    ("company", "employees"): ("the total number of employees", "the sum of the employees"),
    ("town", "population"): ("the total number of inhabitants", "the joint population"),
    ("book", "pages"): ("the total number of pages", "the sum of the pages"),
    ("person", "siblings"): ("the total number of siblings", "the sum of the numbers of siblings"),
}


LISTS: dict[tuple[Kind, str], tuple[str, ...]] = {
    ("ship", "captain"): ("Who are the captains", "Name the captains"),
    ("ship", "home_port"): ("Which towns are the home ports", "Name the home ports"),
    ("company", "founder"): ("Who are the founders", "Name the founders"),
    ("town", "mayor"): ("Who are the mayors", "Name the mayors"),
    ("person", "birthplace"): ("Which towns are the birthplaces", "Name the birthplaces"),
    ("person", "teacher"): ("Who are the teachers", "Name the teachers"),
}


WORKS: dict[tuple[Kind, str], tuple[str, ...]] = {
    ("ship", "captain"): ("the ship whose captain is {}", "the ship under the command of {}"),
    ("company", "founder"): ("the company that {} founded", "the company whose founder is {}"),
    ("town", "mayor"): ("the town whose mayor is {}", "the town with {} as mayor"),
    ("lighthouse", "architect"): ("the lighthouse that {} designed", "the lighthouse whose architect is {}"),
}
"""How an entity is called by way of the person that its own document names."""


DATED: dict[Kind, tuple[str, str]] = {
    "person": ("people", "born"),
    "town": ("towns", "founded"),
    "ship": ("ships", "launched"),
    "company": ("companies", "founded"),
    "book": ("books", "published"),
    "lighthouse": ("lighthouses", "completed"),
}


# Reading


@dataclass(frozen=True, slots=True)
class Place:
    """An entity, and how a trail has come to it."""

    entity: Entity
    phrase: str
    """What it is called in the question and in the goals."""
    name: str | Ref
    """Its name, from the question or from a document read before."""


class Trail:
    """A coast, and the plan of what is searched for and read there: each document and page once."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.coast: Coast = draw.choice(collection().coasts)
        self.plan = PlanWriter()
        self._ids: dict[str, Any] = {}
        self._pages: dict[tuple[str, int], Ref] = {}
        self._after: tuple[Ref, ...] = ()

    def named(self, entity: Entity) -> Place:
        """Return an entity that the question names."""
        return Place(entity, self.draw.choice(CALLED[entity.kind]).format(entity.name), entity.name)

    def with_id(self, entity: Entity, phrase: str, document_id: Ref) -> Place:
        """Return an entity whose document is known without a search for its name."""
        self._ids[entity.name] = document_id
        return Place(entity, phrase, entity.name)

    def any_entity(self) -> Entity:
        return self.draw.choice(list(self.coast.entities.values()))

    def wait_for(self, refs: list[Ref]) -> None:
        """Declare that what is read from here on depends on these results."""
        self._after = tuple(refs)

    def document(self, place: Place) -> Any:
        """Return the id of the place's document, and plan a search for it if needed."""
        if place.entity.name not in self._ids:
            results = self.plan.call(f"Find the document about {place.phrase}.", "search", {"query": place.name}, after=self._after)
            self._ids[place.entity.name] = part(results, "results", 0, "id")
        return self._ids[place.entity.name]

    def fact(self, place: Place, key: str) -> Ref:
        """Return a fact of the place's document, and plan to read its page if needed."""
        number = page_of(place.entity.kind, key)
        page = (place.entity.name, number)
        if page not in self._pages:
            arguments = {"document_id": self.document(place)} | ({"page": number} if number > 1 else {})
            goal = f"Read page {number} of the document about {place.phrase}."
            self._pages[page] = self.plan.call(goal, "read_document", arguments, after=self._after)
        return part(self._pages[page], "record", key)

    def on(self, place: Place, key: str) -> Place:
        """Go on to the entity that the place's document names."""
        phrase = self.draw.choice(RELATIONS[place.entity.kind, key]).format(place.phrase)
        return Place(self.coast.entities[place.entity.facts[key]], phrase, self.fact(place, key))

    def walk(self, place: Place, steps: int) -> Place:
        """Go on by so many different random relations. Raises DeadEnd if the way ends, or comes back to where it was."""
        been, gone = {place.entity.name}, set[str]()
        for _ in range(steps):
            key = drawn_item(self.draw, [key for key in relations(place.entity) if key not in gone])
            place = self.on(place, key)
            if place.entity.name in been:
                raise DeadEnd
            been.add(place.entity.name)
            gone.add(key)
        return place

    def task(self, question: str, answer: Any, expected: Any, scorer: str, difficulty: str = "") -> Draft:
        """Return the task. Raises DeadEnd for a question that gives its own answer away."""
        answers = expected if isinstance(expected, list) else [expected]
        if expected is not None and any(str(item) in question for item in answers):
            raise DeadEnd
        plan = self.plan.plan(answer)
        return Draft(
            f"{question} {ANSWER_FORMAT}", plan, expected, scorer, instance=f"coast/{self.coast.name}", difficulty=difficulty
        )


template = told_by(Trail)


def drawn_item(draw: Draw, items: Sequence[Item]) -> Item:
    if not items:
        raise DeadEnd
    return draw.choice(items)


def relations(entity: Entity) -> list[str]:
    return [key for key in entity.facts if key in LINKS]


def ask(trail: Trail, place: Place, opening: str = "", difficulty: str = "", besides: str = "") -> Draft:
    """End a trail with a question for a number or a name in the place's document, though not `besides`."""
    kind, facts = place.entity.kind, place.entity.facts
    numbers = [key for of, key in NUMBERS if of == kind and key in facts]
    key = drawn_item(trail.draw, [key for key in (*numbers, *relations(place.entity)) if key != besides])
    if key in LINKS:
        relation = trail.draw.choice(RELATIONS[kind, key]).format(place.phrase)
        question, scorer = trail.draw.choice(("What is the name of {}?", "Give the name of {}.")).format(relation), "normalized"
    else:
        question, scorer = trail.draw.choice(NUMBERS[kind, key]).format(place.phrase), "numeric"
    return trail.task(f"{opening}{question}", trail.fact(place, key), facts[key], scorer, difficulty)
