"""The tasks: trails, comparisons, sums and lists over the documents of one coast."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from whichloop.datasets.generating import DeadEnd, Draft, part
from whichloop.protocol import Ref

from .collection import LINKS, Coast, Entity, Kind, collection, year_of
from .trail import (
    DATED,
    EVENTS,
    EXTREMES,
    LISTS,
    NUMBERS,
    RELATIONS,
    SUMS,
    WORKS,
    Place,
    Trail,
    ask,
    drawn_item,
    template,
)

# Trails


@template
def _two_documents(trail: Trail) -> Draft:
    return ask(trail, trail.walk(trail.named(trail.any_entity()), 1), difficulty="easy")


@template
def _three_documents(trail: Trail) -> Draft:
    return ask(trail, trail.walk(trail.named(trail.any_entity()), 2), difficulty="medium")


@template
def _four_documents(trail: Trail) -> Draft:
    return ask(trail, trail.walk(trail.named(trail.any_entity()), 3), difficulty="hard")


@template
def _five_documents(trail: Trail) -> Draft:
    return ask(trail, trail.walk(trail.named(trail.any_entity()), 4), difficulty="hard")


@template
def _by_its_story(trail: Trail) -> Draft:
    """A book is known by what it tells, word for word."""
    book = trail.draw.choice(trail.coast.of_kind("book"))
    plot = book.facts["plot"]
    results = trail.plan.call(f"Find the book with the story of {plot}.", "search", {"query": f'"{plot}"'})
    place = trail.with_id(book, f"the book that tells of {plot}", part(results, "results", 0, "id"))
    return ask(trail, trail.walk(place, trail.draw.integer(1, 2)))


@template
def _by_catalogue(trail: Trail) -> Draft:
    """An entity is known by coast, kind and year."""
    entity = trail.any_entity()
    year, (_, dated) = year_of(entity), DATED[entity.kind]
    if sum(year_of(other) == year for other in trail.coast.of_kind(entity.kind)) > 1:
        raise DeadEnd
    arguments = {"tag": trail.coast.name, "kind": entity.kind, "from_year": year, "to_year": year}
    listed = trail.plan.call(f"List what the catalogue has of the {entity.kind} of {year}.", "list_documents", arguments)
    phrase = f"the only {entity.kind} of {trail.coast.name} {dated} in {year}"
    return ask(trail, trail.walk(trail.with_id(entity, phrase, part(listed, "documents", 0, "id")), trail.draw.integer(1, 2)))


@template
def _by_old_number(trail: Trail) -> Draft:
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
    return ask(trail, trail.walk(place, trail.draw.integer(1, 3)), opening)


@template
def _by_mention(trail: Trail) -> Draft:
    """An entity is known by a person that only its own document names."""
    person = trail.walk(trail.named(trail.any_entity()), trail.draw.integer(0, 2))
    (kind, key), works = drawn_item(trail.draw, _works_of(trail.coast, person.entity))
    mentions = {"document_id": trail.document(person), "kind": kind}
    cited = trail.plan.call(f"See which document, a {kind}'s, mentions {person.phrase}.", "cited_by", mentions)
    phrase = trail.draw.choice(WORKS[kind, key]).format(person.phrase)
    return ask(trail, trail.with_id(works[0], phrase, part(cited, "documents", 0, "id")), besides=key)


def _works_of(coast: Coast, person: Entity) -> list[tuple[tuple[Kind, str], list[Entity]]]:
    """Return the works that a person stands behind, if in some way of doing so there is only one."""
    works_by_way = [((kind, key), [item for item in coast.of_kind(kind) if item.facts[key] == person.name]) for kind, key in WORKS]
    return [(way, works) for way, works in works_by_way if len(works) == 1]


# Comparisons, sums and lists


@template
def _which_most(trail: Trail) -> Draft:
    kind, key = trail.draw.choice(list(EXTREMES))
    entities = trail.draw.sample(trail.coast.of_kind(kind), _count(trail, kind))
    places = [trail.named(entity) for entity in entities]
    names = _and([entity.name for entity in entities])
    return _ask_winner(trail, places, key, f"Take these {DATED[kind][0]}: {names}.", trail.draw.integer(0, 1))


@template
def _which_most_behind(trail: Trail) -> Draft:
    """The entities that are compared are not those that the question names."""
    kind, relation = trail.draw.choice(list(RELATIONS))
    entities = [entity for entity in trail.coast.of_kind(kind) if relation in entity.facts]
    starts = [trail.named(entity) for entity in trail.draw.sample(entities, min(len(entities), trail.draw.integer(2, 3)))]
    places = [trail.on(start, relation) for start in starts]
    if len({place.entity.name for place in places}) < len(places) or len(places) < 2:
        raise DeadEnd
    compared = [key for of, key in EXTREMES if of == places[0].entity.kind]
    return _ask_winner(trail, places, drawn_item(trail.draw, compared), f"Take {_and([place.phrase for place in places])}.", 0)


def _count(trail: Trail, kind: Kind) -> int:
    there = len(trail.coast.of_kind(kind))
    if there < 3:
        raise DeadEnd
    return trail.draw.integer(3, min(there, 4))


def _ask_winner(trail: Trail, places: list[Place], key: str, opening: str, steps: int) -> Draft:
    """Ask for something else about the one with the largest, or smallest, number, or so many steps from there."""
    kind = places[0].entity.kind
    read = [trail.fact(place, key) for place in places]
    numbers = [place.entity.facts[key] for place in places]
    if len(set(numbers)) < len(numbers):
        raise DeadEnd
    pick, phrase = trail.draw.choice(list(zip((max, min), EXTREMES[kind, key], strict=True)))
    winner = places[numbers.index(pick(numbers))]
    trail.wait_for(read)
    chosen = replace(
        winner, phrase=f"the one of them that is {phrase}" if phrase.startswith("the") else f"the one of them {phrase}"
    )
    return ask(trail, trail.walk(chosen, steps), f"{opening} ", besides=key)


def _and(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


@template
def _years_between(trail: Trail) -> Draft:
    places = [trail.walk(trail.named(trail.any_entity()), trail.draw.integer(1, 2)) for _ in range(2)]
    if places[0].entity.name == places[1].entity.name:
        raise DeadEnd
    keys = [drawn_item(trail.draw, [key for of, key in EVENTS if of == place.entity.kind]) for place in places]
    years = [trail.fact(place, key) for place, key in zip(places, keys, strict=True)]
    spread = trail.plan.call("Work out the years between the two.", "summarize_numbers", {"values": years})
    first, second = (place.entity.facts[key] for place, key in zip(places, keys, strict=True))
    event_phrases = [EVENTS[place.entity.kind, key].format(place.phrase) for place, key in zip(places, keys, strict=True)]
    return trail.task(
        f"How many years lie between {event_phrases[0]} and {event_phrases[1]}?",
        part(spread, "range"),
        abs(first - second),
        "numeric",
    )


@template
def _sum_of_a_coast(trail: Trail) -> Draft:
    question, values, expected = _ask_for_all(trail, SUMS)
    if None in expected:
        raise DeadEnd
    total = trail.plan.call("Add up what the documents say.", "summarize_numbers", {"values": values})
    return trail.task(f"What is {question}?", part(total, "sum"), sum(expected), "numeric")


@template
def _names_of_a_coast(trail: Trail) -> Draft:
    question, values, expected = _ask_for_all(trail, LISTS)
    if len(set(expected)) < len(expected) or None in expected:
        raise DeadEnd
    return trail.task(f"{question}?" if question.startswith("Wh") else f"{question}.", values, expected, "set")


def _ask_for_all(trail: Trail, wordings: dict[tuple[Kind, str], tuple[str, ...]]) -> tuple[str, list[Ref], list[Any]]:
    """Ask for a fact of all entities of a kind and a span of years: return question, references and values.

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
    many, dated = DATED[kind]
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


@template
def _silent_document(trail: Trail) -> Draft:
    place = trail.walk(trail.named(trail.any_entity()), trail.draw.integer(1, 2))
    kind, key = place.entity.kind, _OPTIONAL[place.entity.kind]
    if key in place.entity.facts:
        raise DeadEnd
    trail.fact(place, key)
    wordings = RELATIONS[kind, key] if key in LINKS else NUMBERS[kind, key]
    wording = trail.draw.choice(wordings).format(place.phrase)
    return trail.task(f"Give the name of {wording}." if key in LINKS else wording, None, None, "normalized")


@template
def _silent_in_a_sum(trail: Trail) -> Draft:
    question, _, expected = _ask_for_all(trail, SUMS)
    if None not in expected:
        raise DeadEnd
    return trail.task(f"What is {question}?", None, None, "numeric")


@template
def _no_such_mention(trail: Trail) -> Draft:
    person = trail.walk(trail.named(trail.any_entity()), trail.draw.integer(1, 2))
    kind, key = trail.draw.choice(list(WORKS))
    if person.entity.kind != "person" or any(item.facts[key] == person.entity.name for item in trail.coast.of_kind(kind)):
        raise DeadEnd
    mentions = {"document_id": trail.document(person), "kind": kind}
    trail.plan.call(f"See whether a document, a {kind}'s, mentions {person.phrase}.", "cited_by", mentions)
    phrase = trail.draw.choice(WORKS[kind, key]).format(person.phrase)
    wording = trail.draw.choice(NUMBERS[kind, trail.draw.choice([number for of, number in NUMBERS if of == kind])])
    return trail.task(wording.format(phrase), None, None, "normalized")


TEMPLATES = (
    _two_documents, _by_mention, _which_most, _three_documents, _sum_of_a_coast, _by_its_story, _which_most_behind,
    _four_documents, _by_catalogue, _names_of_a_coast, _years_between, _by_old_number, _five_documents,
)  # fmt: skip


UNANSWERABLE = (_silent_document, _silent_in_a_sum, _no_such_mention)
