"""The library: a search that takes any text, documents that say what their records say, and trails that stay on one coast."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.datasets import library
from whichloop.datasets.library import shelves as desk
from whichloop.datasets.library import stories
from whichloop.datasets.library.collection import COASTS, LINKS, MERGED_PER_COAST, Document, collection
from whichloop.datasets.library.shelves import BadQuery, DocumentMerged, NoSuchDocument, NoSuchPage, Shelves, UnknownTag
from whichloop.datasets.task import Suite
from whichloop.datasets.validity import replay
from whichloop.protocol import run_sync

HELD = collection()
DOCUMENTS = list(HELD.documents.values())
PLAIN = {item.id: " ".join(re.findall(r"\w+", item.text.casefold())) for item in DOCUMENTS}
documents = st.sampled_from(DOCUMENTS)


@pytest.fixture(scope="module")
def shelves() -> Shelves:
    return desk.open_shelves()


@pytest.fixture(scope="module")
def many() -> Suite:
    return library.load(size=200, seed=11)


# Searching


@settings(max_examples=cases(25), deadline=None)
@given(query=st.text(max_size=80) | st.text(alphabet='"*^:-+(){}[]ANDORNTE ab\0', max_size=40), limit=st.integers(1, 20))
def test_any_text_is_a_query_or_refused_in_words(shelves: Shelves, query: str, limit: int) -> None:
    if not re.search(r"\w", query):
        with pytest.raises(BadQuery, match="no word"):
            desk.search(shelves, query, limit)
        return
    found = desk.search(shelves, query, limit)["results"]
    assert len(found) <= limit
    assert found == desk.search(shelves, query, 20)["results"][:limit]


@pytest.mark.parametrize(
    "query",
    ["heron AND", "NEAR(ship 5", "title:heron", "-heron", "heron*", '"heron', '""', "^heron", "a OR", "{x}: y", "NOT", "_ heron"],
)
def test_the_syntax_of_fts5_means_nothing(shelves: Shelves, query: str) -> None:
    try:
        desk.search(shelves, query)
    except BadQuery:
        assert query == '""'


@settings(max_examples=cases(10), deadline=None)
@given(documents, st.integers(0, 30), st.integers(3, 6))
def test_a_phrase_finds_the_documents_that_hold_it(shelves: Shelves, document: Document, start: int, length: int) -> None:
    words = " ".join(re.findall(r"\w+", document.text)[start : start + length])
    if not words:
        return
    found = desk.search(shelves, f'"{words}"', 20)["results"]
    holding = {item.id for item in DOCUMENTS if f" {words.casefold()} " in f" {PLAIN[item.id]} "}
    assert len(found) == 20 or holding <= {item["id"] for item in found}  # word stems may find more, never less


# The collection


def test_the_digest_that_the_suite_states_is_that_of_the_collection() -> None:
    assert HELD.digest == library.COLLECTION_DIGEST == library.load().shared
    assert len(HELD.documents) == len(HELD.ids) == 32 * COASTS
    assert len(HELD.merged) == MERGED_PER_COAST * COASTS
    assert not HELD.merged.keys() & HELD.documents.keys()


def test_a_text_says_what_its_record_says() -> None:
    for document in DOCUMENTS:
        for page in document.pages:
            assert all(str(value) in page.text for value in page.record.values())


def test_a_coast_speaks_of_nothing_outside() -> None:
    for document in DOCUMENTS:
        assert {HELD.documents[HELD.ids[title]].tag for title in document.links} <= {document.tag}
    for coast in HELD.coasts:
        for entity in coast.entities.values():
            assert {entity.facts[key] for key in LINKS & entity.facts.keys()} <= coast.entities.keys()


@settings(max_examples=cases(10), deadline=None)
@given(documents)
def test_a_document_is_cited_by_those_that_refer_to_it(shelves: Shelves, document: Document) -> None:
    for other in desk.references(shelves, document.id)["documents"]:
        assert document.id in [item["id"] for item in desk.cited_by(shelves, other["id"])["documents"]]
    for other in desk.cited_by(shelves, document.id)["documents"]:
        assert document.id in [item["id"] for item in desk.references(shelves, other["id"])["documents"]]


@given(st.lists(st.integers(-(10**9), 10**9) | st.floats(-1e9, 1e9), min_size=1, max_size=100))
def test_numbers_are_summarized(shelves: Shelves, values: list[int | float]) -> None:
    made = desk.summarize_numbers(shelves, values)
    assert made["smallest"] <= min(values) <= max(values) <= made["largest"]
    assert made["range"] == made["largest"] - made["smallest"]
    assert (made["count"], made["sum"]) == (len(values), sum(values))


def test_errors_say_what_is_wrong(shelves: Shelves) -> None:
    old, new = next(iter(HELD.merged.items()))
    for error, words, call in (
        (DocumentMerged, "document_history", lambda: desk.read_document(shelves, old)),
        (NoSuchDocument, "ids look like", lambda: desk.read_document(shelves, "D1")),
        (NoSuchPage, "pages 1 to", lambda: desk.read_document(shelves, new, 9)),
        (UnknownTag, "'Atlantis'", lambda: desk.list_documents(shelves, "Atlantis")),
        (BadQuery, "no word", lambda: desk.search(shelves, " ?! ")),
        (BadQuery, "between 1 and 20", lambda: desk.search(shelves, "ship", 21)),
        (BadQuery, "has 100002 characters; at most 1000", lambda: desk.search(shelves, f'"{"the " * 25_000}"')),  # took 13 s
        (BadQuery, "beyond ±", lambda: desk.summarize_numbers(shelves, [1, float("nan")])),
        (BadQuery, "beyond ±", lambda: desk.summarize_numbers(shelves, [10**400, 1.5])),
        (BadQuery, "must hold 1 to 100", lambda: desk.summarize_numbers(shelves, [])),
    ):
        with pytest.raises(error, match=words):
            call()
    assert desk.document_history(shelves, old)["successor"] == new
    assert desk.document_history(shelves, new)["status"] == "current"


# The tasks


def test_a_trail_stays_on_the_coast_of_its_instance(many: Suite) -> None:
    for task in many.tasks[:40]:
        coast = task.labels["instance"].removeprefix("coast/")
        values = [call.value for call in run_sync(replay(task, many)) if call.tool == "read_document" and not call.failed]
        assert {HELD.documents[value["id"]].tag for value in values} <= {coast}
    splits = {(task.labels["instance"], task.labels["split"]) for task in many.tasks}
    assert len(splits) == len({instance for instance, _ in splits})


def test_the_collection_is_drawn_when_the_first_environment_opens() -> None:
    for cached in (collection, desk.open_shelves, stories.library):
        cached.cache_clear()
    suite = library.load()
    assert collection.cache_info().currsize == 0
    assert suite.open(suite.tasks[0]) is suite.open(suite.tasks[1])
    assert collection.cache_info().currsize == 1
