"""The collection: documents about the people, towns, ships, companies, books and lighthouses of invented coasts.

Each coast is a world of its own: its documents speak of nothing outside of it, so that tasks of different coasts share no fact.
Names are alike on purpose: families, first names, adjectives and birds return on every coast. No document contradicts another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

from whichloop.datasets.generating import Draw, draw_new
from whichloop.protocol.digest import digest

Kind = Literal["person", "town", "ship", "company", "book", "lighthouse"]
KINDS: tuple[Kind, ...] = get_args(Kind)

COASTS = 48
MERGED_PER_COAST = 3
"""Withdrawn documents of each coast, which point to the one they were merged into."""


@dataclass(frozen=True, slots=True)
class Entity:
    """What a document is about."""

    kind: Kind
    name: str
    """Unique in the collection; the document's title."""
    facts: Mapping[str, Any]
    """Numbers, texts, and the names of other entities of the coast. What is not recorded is left out."""


@dataclass(frozen=True, slots=True)
class Coast:
    """A closed world of entities."""

    name: str
    """The tag that all its documents carry."""
    entities: Mapping[str, Entity]
    """Entities by name."""

    def of_kind(self, kind: Kind) -> list[Entity]:
        return [entity for entity in self.entities.values() if entity.kind == kind]


@dataclass(frozen=True, slots=True)
class DocumentPage:
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
    """Year of birth, foundation, launch, publication or completion."""
    pages: tuple[DocumentPage, ...]
    links: tuple[str, ...]
    """Titles of the documents that it mentions, sorted."""

    @property
    def text(self) -> str:
        return " ".join(page.text for page in self.pages)


@dataclass(frozen=True, slots=True)
class Collection:
    coasts: tuple[Coast, ...]
    documents: Mapping[str, Document]
    """Documents by id."""
    ids: Mapping[str, str]
    """Title → id."""
    merged: Mapping[str, str]
    """Id of a withdrawn document → id of its successor."""

    @property
    def digest(self) -> str:
        documents = [[item.id, item.title, item.tag, item.year, item.links] for item in self.documents.values()]
        pages = [[[page.text, dict(page.record)] for page in item.pages] for item in self.documents.values()]
        return digest([documents, pages, dict(self.merged)])


@cache
def collection() -> Collection:
    """Draw the collection, once per process, in about 0.1 s."""
    names = _Names(Draw("library", "names"))
    coasts = tuple(_coast(Draw("library", "coast", number), names) for number in range(COASTS))
    draw = Draw("library", "documents")
    everything = [(coast, entity) for coast in coasts for entity in coast.entities.values()]
    merged_count = COASTS * MERGED_PER_COAST
    ids = [f"D{number}" for number in draw.shuffled(range(1000, 1000 + len(everything) + merged_count))]
    documents = {name: _document(name, coast, entity, draw) for name, (coast, entity) in zip(ids, everything, strict=False)}
    by_title = {document.title: document.id for document in documents.values()}
    successors = [by_title[name] for coast in coasts for name in draw.sample(list(coast.entities), MERGED_PER_COAST)]
    merged = dict(zip(ids[len(everything) :], successors, strict=True))
    return Collection(coasts, dict(sorted(documents.items())), by_title, merged)


# Names

_FIRST = (
    "Ada", "Anton", "Berit", "Carl", "Dagny", "Edvin", "Elise", "Frida", "Gustav", "Hedda", "Henrik", "Ingrid", "Ivar", "Jonas",
    "Kaja", "Klara", "Lars", "Lena", "Magnus", "Maren", "Nils", "Olga", "Oskar", "Petra", "Ragnar", "Rita", "Selma", "Sigurd",
    "Tilda", "Torben", "Ulrika", "Viggo", "Wanda", "Yngve",
)  # fmt: skip
_ONSETS = (
    "Al",
    "Bran",
    "Dor",
    "Ek",
    "Fal",
    "Grim",
    "Hal",
    "Ister",
    "Kal",
    "Lund",
    "Mar",
    "Nor",
    "Os",
    "Quil",
    "Rav",
    "Sten",
    "Tor",
    "Vel",
)
_FAMILY_ENDS = ("berg", "dahl", "gren", "holt", "mark", "quist", "rud", "strand", "vik")
_TOWN_ENDS = ("by", "fjord", "havn", "lund", "mouth", "ness", "sund", "wick", "stad", "haug", "bay")
_COAST_ENDS = ("land", "shire", "ey", "moor", "skerry")
_ADJECTIVES = (
    "Amber", "Bold", "Crimson", "Distant", "Early", "Faithful", "Grey", "Hidden", "Idle", "Jolly", "Last", "Lucky", "Merry",
    "Northern", "Patient", "Quiet", "Red", "Silver", "Steady", "Swift", "Tall", "Wandering", "White", "Young",
)  # fmt: skip
_BIRDS = (
    "Avocet", "Bittern", "Cormorant", "Curlew", "Dunlin", "Eider", "Fulmar", "Gannet", "Godwit", "Grebe", "Heron", "Kittiwake",
    "Lapwing", "Merganser", "Osprey", "Petrel", "Plover", "Puffin", "Sandpiper", "Shearwater", "Skua", "Tern", "Turnstone",
    "Whimbrel",
)  # fmt: skip
_THINGS = (
    "Anchor", "Bell", "Candle", "Compass", "Door", "Empty House", "Ferry", "Garden", "Hour", "Island", "Key", "Lantern", "Mirror",
    "Orchard", "Promise", "River", "Salt Road", "Shadow", "Stranger", "Tide", "Voyage", "Winter",
)  # fmt: skip
_TRADES = ("Brothers", "& Daughters", "& Sons", "Ironworks", "Ropeworks", "Shipyard", "Trading House", "Yard")
_HEROES = (
    "a beekeeper", "a bookbinder", "a clockmaker", "a dentist", "a ferryman", "a glazier", "a governess", "a lamplighter",
    "a mapmaker", "a miller", "a milliner", "a pilot", "a postmaster", "a retired judge", "a salt trader", "a tailor",
    "a widow", "an organist",
)  # fmt: skip
_DEEDS = (
    "adopts a stray fox", "buys a haunted mill", "confesses to a theft", "digs for a drowned bell", "escapes from a fever island",
    "finds a forged will", "follows a travelling circus", "hides a deserter", "inherits a salt mine", "learns to fly a balloon",
    "loses a wager", "marries a rival", "raises a sunken barge", "refuses a medal", "sails to the ice", "teaches a prince to swim",
)  # fmt: skip
_CARGOES = ("timber", "salt cod", "wool", "slate", "lamp oil", "barley", "copper", "tar")


class _Names:
    """A source of names that gives each name once."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._names_so_far: set[str] = set()
        self._families = draw.sample([a + b for a in _ONSETS for b in _FAMILY_ENDS], 80)

    def new(self, make: Callable[[Draw], str]) -> str:
        name = draw_new(self._names_so_far, lambda: make(self._draw))
        self._names_so_far.add(name)
        return name

    def families(self) -> list[str]:
        """Draw a few families; other coasts have some of them too."""
        return self._draw.sample(self._families, 5)

    def coast(self) -> str:
        return self.new(lambda draw: draw.choice(_ONSETS) + draw.choice(_COAST_ENDS))

    def town(self) -> str:
        return self.new(
            lambda draw: draw.choice(_ONSETS) + draw.choice(_TOWN_ENDS) + draw.choice(("", "", " Old Harbour", " Upper Town"))
        )

    def person(self, families: list[str]) -> str:
        return self.new(lambda draw: f"{draw.choice(_FIRST)} {draw.choice(families)}")

    def ship(self) -> str:
        return self.new(lambda draw: f"{draw.choice(_ADJECTIVES)} {draw.choice(_BIRDS)}")

    def company(self, families: list[str]) -> str:
        return self.new(lambda draw: f"{draw.choice(families)} {draw.choice(_TRADES)}")

    def book(self) -> str:
        return self.new(lambda draw: f"The {draw.choice(_ADJECTIVES)} {draw.choice(_THINGS)}")

    def lighthouse(self) -> str:
        return self.new(
            lambda draw: f"{draw.choice(_ONSETS)}{draw.choice(_TOWN_ENDS)} {draw.choice(('Head', 'Point', 'Rock'))} Light"
        )

    def plot(self) -> str:
        return self.new(lambda draw: f"{draw.choice(_HEROES)} who {' and '.join(draw.sample(_DEEDS, 2))}")


# Entities


def _coast(draw: Draw, names: _Names) -> Coast:
    name, families = names.coast(), names.families()
    towns = [names.town() for _ in range(4)]
    crafts = ("captain",) * 4 + ("writer",) * 2 + ("engineer",) * 2 + ("merchant",) * 3 + ("scholar",) * 3
    born = draw.sample(range(1778, 1826), len(crafts))
    people = [
        _person(draw, names.person(families), craft, year, draw.choice(towns)) for craft, year in zip(crafts, born, strict=True)
    ]
    people = [_taught(draw, person, people) for person in people]
    captains, writers, engineers, merchants, scholars = people[:4], people[4:6], people[6:8], people[8:11], people[11:]
    mayors = draw.sample([*merchants, *scholars], len(towns))
    companies = [_company(draw, names.company(families), founder, draw.choice(towns)) for founder in merchants]
    years = iter(draw.sample(range(1852, 1899), 9))
    entities = [
        *(_employed(draw, person, companies) for person in people),
        *(_town(draw, town, mayor) for town, mayor in zip(towns, mayors, strict=True)),
        *companies,
        *(_ship(draw, names.ship(), captain, draw.choice(companies), draw.choice(towns), next(years)) for captain in captains),
        *(_book(draw, names, writer, people, next(years)) for writer in (*writers, *writers, draw.choice(writers))),
        *(_lighthouse(draw, names.lighthouse(), engineer, draw.choice(towns)) for engineer in engineers),
    ]
    return Coast(name, {entity.name: entity for entity in entities})


def _person(draw: Draw, name: str, craft: str, born: int, town: str) -> Entity:
    return Entity("person", name, {"born": born, "birthplace": town, "occupation": craft, "siblings": draw.integer(1, 11)})


def _taught(draw: Draw, person: Entity, people: list[Entity]) -> Entity:
    """Return the person with a teacher, who is older; a quarter of the records, and those of the oldest, do not name one."""
    older = [other.name for other in people if other.facts["born"] + 10 <= person.facts["born"]]
    if not older or draw.chance(0.25):
        return person
    return Entity("person", person.name, {**person.facts, "teacher": draw.choice(older)})


def _employed(draw: Draw, person: Entity, companies: list[Entity]) -> Entity:
    """Return the person with an employer; merchants have none, and not all other records name one."""
    if person.facts["occupation"] == "merchant" or draw.chance(0.25):
        return person
    return Entity("person", person.name, {**person.facts, "employer": draw.choice(companies).name})


def _town(draw: Draw, name: str, mayor: Entity) -> Entity:
    facts = {"founded": draw.integer(1105, 1740), "population": draw.integer(410, 28_900), "mayor": mayor.name}
    return Entity("town", name, facts | _recorded(draw, "elevation", draw.integer(3, 390)))


def _company(draw: Draw, name: str, founder: Entity, town: str) -> Entity:
    facts = {"founded": draw.integer(founder.facts["born"] + 24, 1876), "founder": founder.name, "headquarters": town}
    return Entity("company", name, facts | _recorded(draw, "employees", draw.integer(14, 960)))


def _ship(draw: Draw, name: str, captain: Entity, builder: Entity, town: str, year: int) -> Entity:
    facts = {
        "launched": year, "builder": builder.name, "length": draw.integer(19, 96),
        "rig": draw.choice(("barque", "brig", "schooner")), "home_port": town, "captain": captain.name,
    }  # fmt: skip
    return Entity("ship", name, facts | _recorded(draw, "crew", draw.integer(7, 68)))


def _book(draw: Draw, names: _Names, author: Entity, people: list[Entity], year: int) -> Entity:
    friends = [person.name for person in people if person.name != author.name]
    facts = {"year": year, "author": author.name, "pages": draw.integer(88, 940), "plot": names.plot()}
    return Entity("book", names.book(), facts | _recorded(draw, "dedicated_to", draw.choice(friends)))


def _lighthouse(draw: Draw, name: str, architect: Entity, town: str) -> Entity:
    facts = {"completed": draw.integer(1852, 1898), "town": town, "architect": architect.name}
    return Entity("lighthouse", name, facts | _recorded(draw, "height", draw.integer(11, 64)))


def _recorded(draw: Draw, key: str, value: Any) -> dict[str, Any]:
    """Three in four records state it."""
    return {key: value} if draw.chance(0.75) else {}


# Documents

_SENTENCES: Mapping[Kind, tuple[Mapping[str, tuple[str, ...]], ...]] = {
    "person": (
        {
            "occupation": ("The {occupation} {name} lived in {coast}.", "{name} of {coast} was {occupation} by trade."),
            "born": ("The year of birth is {born}.", "The parish book gives {born} as the year of birth."),
            "birthplace": ("The birthplace is {birthplace}.", "The family house stood in {birthplace}."),
            "siblings": ("There were {siblings} siblings.",),
            "employer": ("The employer was {employer}.", "Wages came from one employer, {employer}."),
            "teacher": ("The craft was learnt from {teacher}.", "Everything, a letter says, was owed to one teacher, {teacher}."),
        },
    ),
    "town": (
        {
            "founded": (
                "{name} is a town of {coast}, founded in {founded}.",
                "The town of {name} in {coast} goes back to {founded}.",
            ),
        },
        {
            "population": ("It has {population} inhabitants.", "The census counted {population} inhabitants."),
            "elevation": ("The market square lies {elevation} metres above the sea.",),
            "mayor": ("The mayor is {mayor}.", "Its affairs are led by the mayor, {mayor}."),
        },
    ),
    "ship": (
        {
            "rig": ("The {name} is a {rig} of the {coast} coast.",),
            "builder": ("She was built by {builder}.", "Her builder is {builder}."),
            "launched": ("She was launched in {launched}.", "Her launch fell in the year {launched}."),
            "length": ("She is {length} metres long.", "From stem to stern she measures {length} metres."),
        },
        {
            "home_port": ("Her home port is {home_port}.", "She sails from {home_port}, her home port."),
            "captain": ("Her captain is {captain}.", "She is commanded by {captain}."),
            "crew": ("The crew numbers {crew}.", "She has a crew of {crew}."),
        },
    ),
    "company": (
        {
            "founded": ("{name} is a company of {coast}, founded in {founded}.",),
            "founder": ("The founder was {founder}.", "It owes its beginnings to {founder}, the founder."),
            "headquarters": ("Its seat is in {headquarters}.", "Its offices are in {headquarters}."),
            "employees": ("It employs {employees} people.", "{employees} people work there."),
        },
    ),
    "book": (
        {
            "year": ("{name} is a book from {coast}, published in {year}.",),
            "author": ("It was written by {author}.", "Its author is {author}."),
            "pages": ("The first edition has {pages} pages.",),
            "dedicated_to": ("It is dedicated to {dedicated_to}.",),
        },
        {"plot": ("It tells of {plot}.", "The story is that of {plot}.")},
    ),
    "lighthouse": (
        {
            "town": ("{name} is a lighthouse near {town} in {coast}.",),
            "architect": ("It was designed by {architect}.",),
            "completed": ("It was completed in {completed}.", "Its lamp was first lit on completion in {completed}."),
            "height": ("The tower is {height} metres high.",),
        },
    ),
}
"""Facts on each page of a kind of document, in order, and how they may be worded."""

_ASIDES = (
    "The archive keeps {} letters on the matter.",
    "A storm of 18{} is mentioned in passing.",
    "This page was copied from sheet {}.",
    "Much of the trade of those years was in {cargo}.",
    "One season's freight came to {} tons of {cargo}.",
    "There is a drawing in room {} of the museum.",
)
"""Sentences with a number that no question asks for."""

_YEARS: Mapping[Kind, str] = {
    "person": "born", "town": "founded", "ship": "launched", "company": "founded", "book": "year", "lighthouse": "completed",
}  # fmt: skip
LINKS = frozenset({
    "birthplace", "employer", "teacher", "mayor", "builder", "captain", "home_port", "founder", "headquarters", "author",
    "dedicated_to", "town", "architect",
})  # fmt: skip
"""Facts that name another entity."""


def page_of(kind: Kind, key: str) -> int:
    """Return the 1-based page on which documents of a kind state a fact."""
    return next(number for number, page in enumerate(_SENTENCES[kind], start=1) if key in page)


def year_of(entity: Entity) -> int:
    """Return the year under which the document is catalogued."""
    year: int = entity.facts[_YEARS[entity.kind]]
    return year


def _document(document_id: str, coast: Coast, entity: Entity, draw: Draw) -> Document:
    pages = tuple(_page(coast, entity, sentences, draw) for sentences in _SENTENCES[entity.kind])
    links = tuple(sorted({entity.facts[key] for key in LINKS & entity.facts.keys()}))
    return Document(document_id, entity.name, entity.kind, coast.name, year_of(entity), pages, links)


def _page(coast: Coast, entity: Entity, sentences: Mapping[str, tuple[str, ...]], draw: Draw) -> DocumentPage:
    page_sentences = [
        draw.choice(wordings).format(name=entity.name, coast=coast.name, **entity.facts)
        for key, wordings in sentences.items()
        if key in entity.facts
    ]
    aside = draw.choice(_ASIDES).format(draw.integer(12, 98), cargo=draw.choice(_CARGOES))
    page_sentences.insert(draw.integer(1, len(page_sentences)), aside)
    return DocumentPage(
        " ".join(page_sentences), {key: entity.facts[key] for key in sentences if key in entity.facts and key != "plot"}
    )
