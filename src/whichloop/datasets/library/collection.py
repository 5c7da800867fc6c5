"""The collection: documents about the people, towns, ships, companies, books and lighthouses of invented coasts.

Each coast is a world of its own: its documents speak of nothing outside of it, so that tasks of different coasts share no fact.
Names are alike on purpose: families, first names, adjectives and birds return on every coast. No document contradicts another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

from whichloop.datasets.facts import drawn, facts
from whichloop.datasets.generating import Draw, draw_new
from whichloop.datasets.story import Wording

Kind = Literal["person", "town", "ship", "company", "book", "lighthouse"]
COASTS = 48
MERGED_PER_COAST = 3
"""Withdrawn documents of each coast, which point to the one they were merged into."""
WORDING = Wording(__file__)
_YEARS: Mapping[Kind, str] = {
    "person": "born", "town": "founded", "ship": "launched", "company": "founded", "book": "year", "lighthouse": "completed",
}  # fmt: skip
LINKS = frozenset({
    "birthplace", "employer", "teacher", "mayor", "builder", "captain", "home_port", "founder", "headquarters", "author",
    "dedicated_to", "town", "architect",
})  # fmt: skip
"""Facts that name another entity."""


class Entity(NamedTuple):
    """What a document is about."""

    kind: Kind
    name: str
    """Unique in the collection; the document's title."""
    facts: Mapping[str, Any]
    """Numbers, texts, and the names of other entities of the coast. What is not recorded is left out."""

    @property
    def year(self) -> int:
        """The year of birth, foundation, launch, publication or completion."""
        year: int = self.facts[_YEARS[self.kind]]
        return year


class Coast(NamedTuple):
    """A closed world of entities."""

    name: str
    """The tag that all its documents carry."""
    entities: Mapping[str, Entity]
    """Entities by name."""

    def of_kind(self, kind: Kind) -> list[Entity]:
        return [entity for entity in self.entities.values() if entity.kind == kind]


class DocumentPage(NamedTuple):
    text: str
    record: Mapping[str, Any]
    """The facts that the text states."""


@dataclass(frozen=True, slots=True)
class Document:
    id: str
    title: str
    kind: Kind
    tag: str
    year: int
    pages: tuple[DocumentPage, ...]
    links: tuple[str, ...]
    """Titles of the documents that it mentions, sorted."""

    @property
    def text(self) -> str:
        return " ".join(page.text for page in self.pages)


@dataclass(frozen=True)
class Collection:
    coasts: tuple[Coast, ...]
    documents: Mapping[str, Document]
    """Documents by id."""
    ids: Mapping[str, str]
    """Title → id."""
    merged: Mapping[str, str]
    """Id of a withdrawn document → id of its successor."""


@cache
def collection() -> Collection:
    """Draw the collection, once per process, in about 0.1 s."""
    names = _Names()
    coasts = tuple(_coast(Draw("library", "coast", number), names) for number in range(COASTS))
    draw = Draw("library", "documents")
    everything = [(coast.name, entity) for coast in coasts for entity in coast.entities.values()]
    ids = [f"D{number}" for number in draw.shuffled(range(1000, 1000 + len(everything) + COASTS * MERGED_PER_COAST))]
    documents = {name: _document(name, coast, entity, draw) for name, (coast, entity) in zip(ids, everything, strict=False)}
    by_title = {document.title: document.id for document in documents.values()}
    successors = [by_title[name] for coast in coasts for name in draw.sample(list(coast.entities), MERGED_PER_COAST)]
    merged = dict(zip(ids[len(everything) :], successors, strict=True))
    return Collection(coasts, dict(sorted(documents.items())), by_title, merged)


class _Names:
    def __init__(self) -> None:
        self.draw = Draw("library", "names")
        self.lists: Mapping[str, list[str]] = WORDING.texts["words"]
        self._names_so_far: set[str] = set()
        self._families = self.draw.sample([a + b for a in self.lists["onsets"] for b in self.lists["family_ends"]], 80)

    def families(self) -> list[str]:
        """Draw a few families; other coasts have some of them too."""
        return self.draw.sample(self._families, 5)

    def new(self, kind: str, **lists: list[str]) -> str:
        return self._new(lambda: drawn(self.draw, WORDING.texts["names"][kind], {**self.lists, **lists}))

    def plot(self) -> str:
        hero, deeds = self.lists["heroes"], self.lists["deeds"]
        return self._new(lambda: f"{self.draw.choice(hero)} who {' and '.join(self.draw.sample(deeds, 2))}")

    def _new(self, make: Callable[[], str]) -> str:
        name = draw_new(self._names_so_far, make)
        self._names_so_far.add(name)
        return name


def _coast(draw: Draw, names: _Names) -> Coast:
    def entity(kind: Kind, name: str, **known: Any) -> Entity:
        """Draw an entity. Three in four records state what is said to be `mostly` there."""
        helped = {**known, "mostly": lambda value: value if draw.chance(0.75) else None}
        found = facts(draw, WORDING.texts["facts"][kind], helped)
        return Entity(kind, name, {key: value for key, value in found.items() if value is not None})

    name, families = names.new("coast"), names.families()
    towns = [names.new("town") for _ in range(4)]
    crafts = ("captain",) * 4 + ("writer",) * 2 + ("engineer",) * 2 + ("merchant",) * 3 + ("scholar",) * 3
    people = [
        entity("person", names.new("person", families=families), craft=craft, born=born, town=draw.choice(towns))
        for craft, born in zip(crafts, draw.sample(range(1778, 1826), len(crafts)), strict=True)
    ]
    for place, person in enumerate(people):
        older = [other.name for other in people if other.facts["born"] + 10 <= person.facts["born"]]
        if older and not draw.chance(0.25):
            people[place] = person._replace(facts={**person.facts, "teacher": draw.choice(older)})
    captains, writers, engineers, merchants, scholars = people[:4], people[4:6], people[6:8], people[8:11], people[11:]
    mayors, companies = draw.sample([*merchants, *scholars], len(towns)), list[Entity]()
    for founder in merchants:
        company, town = names.new("company", families=families), draw.choice(towns)
        founded = draw.integer(founder.facts["born"] + 24, 1876)
        companies.append(entity("company", company, founder=founder.name, town=town, founded=founded))
    years, entities = iter(draw.sample(range(1852, 1899), 9)), list[Entity]()
    for person in people:
        if person.facts["occupation"] != "merchant" and not draw.chance(0.25):
            person = person._replace(facts={**person.facts, "employer": draw.choice(companies).name})
        entities.append(person)
    entities += [entity("town", town, mayor=mayor.name) for town, mayor in zip(towns, mayors, strict=True)]
    entities += companies
    for captain in captains:
        built = {"builder": draw.choice(companies).name, "town": draw.choice(towns), "year": next(years)}
        entities.append(entity("ship", names.new("ship"), captain=captain.name, **built))
    for writer in (*writers, *writers, draw.choice(writers)):
        friends, plot = [person.name for person in people if person.name != writer.name], names.plot()
        entities.append(entity("book", names.new("book"), author=writer.name, friends=friends, plot=plot, year=next(years)))
    for engineer in engineers:
        entities.append(entity("lighthouse", names.new("lighthouse"), architect=engineer.name, town=draw.choice(towns)))
    return Coast(name, {one.name: one for one in entities})


def page_of(kind: Kind, key: str) -> int:
    """Return the 1-based page on which documents of a kind state a fact."""
    return next(number for number, page in enumerate(WORDING.texts["pages"][kind], start=1) if key in page)


def _document(document_id: str, coast: str, entity: Entity, draw: Draw) -> Document:
    pages, known, cargoes = [], entity.facts, WORDING.texts["words"]["cargoes"]
    for wordings in WORDING.texts["pages"][entity.kind]:
        stated = [key for key in wordings if key in known]
        sentences = [draw.choice(wordings[key]).format(name=entity.name, coast=coast, **known) for key in stated]
        aside = draw.choice(WORDING.texts["aside"]).format(draw.integer(12, 98), cargo=draw.choice(cargoes))
        sentences.insert(draw.integer(1, len(sentences)), aside)
        pages.append(DocumentPage(" ".join(sentences), {key: known[key] for key in stated if key != "plot"}))
    links = tuple(sorted({known[key] for key in LINKS & known.keys()}))
    return Document(document_id, entity.name, entity.kind, coast, entity.year, tuple(pages), links)
