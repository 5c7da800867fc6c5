"""The library: a search that takes any text, documents that say what their records say, and trails that stay on one coast."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.datasets import library
from whichloop.datasets.library import shelves as desk
from whichloop.datasets.library import stories
from whichloop.datasets.library.collection import COASTS, LINKS, MERGED_PER_COAST, Document, collection
from whichloop.datasets.library.shelves import BadQuery, DocumentMerged, NoSuchDocument, NoSuchPage, UnknownTag
from whichloop.datasets.validity import replay
from whichloop.protocol import run_sync

HELD = collection()
DOCUMENTS = list(HELD.documents.values())
PLAIN = {item.id: " ".join(re.findall(r"\w+", item.text.casefold())) for item in DOCUMENTS}
OLD, NEW = next(iter(HELD.merged.items()))
documents = st.sampled_from(DOCUMENTS)


@settings(max_examples=cases(25), deadline=None)
@given(query=st.text(max_size=80) | st.text(alphabet='"*^:-+(){}[]ANDORNTE ab\0', max_size=40), limit=st.integers(1, 20))
def test_any_text_is_a_query_or_refused_in_words(query: str, limit: int) -> None:
    if not re.search(r"\w", query):
        with pytest.raises(BadQuery, match="no word"):
            desk.search(HELD, query, limit)
        return
    found = desk.search(HELD, query, limit)["results"]
    assert len(found) <= limit
    assert found == desk.search(HELD, query, 20)["results"][:limit]


@pytest.mark.parametrize(
    "query", ["heron AND", "NEAR(ship 5", "title:heron", "-heron", "heron*", '"heron', "^heron", "a OR", "{x}: y", "NOT", "_ heron"]
)
def test_the_syntax_of_fts5_means_nothing(query: str) -> None:
    desk.search(HELD, query)


@settings(max_examples=cases(10), deadline=None)
@given(documents, st.integers(0, 30), st.integers(3, 6))
def test_a_phrase_finds_the_documents_that_hold_it(document: Document, start: int, length: int) -> None:
    words = " ".join(re.findall(r"\w+", document.text)[start : start + length])
    if not words:
        return
    found = desk.search(HELD, f'"{words}"', 20)["results"]
    holding = {item.id for item in DOCUMENTS if f" {words.casefold()} " in f" {PLAIN[item.id]} "}
    assert len(found) == 20 or holding <= {item["id"] for item in found}  # word stems may find more, never less


def test_the_digest_that_the_suite_states_is_that_of_the_collection() -> None:
    assert HELD.digest == library.COLLECTION_DIGEST == library.load().shared
    assert len(HELD.documents) == len(HELD.ids) == 32 * COASTS
    assert len(HELD.merged) == MERGED_PER_COAST * COASTS
    assert not HELD.merged.keys() & HELD.documents.keys()


def test_a_text_says_what_its_record_says_and_nothing_of_another_coast() -> None:
    for document in DOCUMENTS:
        assert all(str(value) in page.text for page in document.pages for value in page.record.values())
        assert {HELD.documents[HELD.ids[title]].tag for title in document.links} <= {document.tag}
    for coast in HELD.coasts:
        for entity in coast.entities.values():
            assert {entity.facts[key] for key in LINKS & entity.facts.keys()} <= coast.entities.keys()


@settings(max_examples=cases(10), deadline=None)
@given(documents)
def test_a_document_is_cited_by_those_that_refer_to_it(document: Document) -> None:
    for there, back in ((desk.references, desk.cited_by), (desk.cited_by, desk.references)):
        for other in there(HELD, document.id)["documents"]:
            assert document.id in [item["id"] for item in back(HELD, other["id"])["documents"]]


@given(st.lists(st.integers(-(10**9), 10**9) | st.floats(-1e9, 1e9), min_size=1, max_size=100))
def test_numbers_are_summarized(values: list[int | float]) -> None:
    made = desk.summarize_numbers(HELD, values)
    assert made["smallest"] <= min(values) <= max(values) <= made["largest"]
    assert made["range"] == made["largest"] - made["smallest"]
    assert (made["count"], made["sum"]) == (len(values), sum(values))


@pytest.mark.parametrize(
    ("error", "words", "tool", "arguments"),
    [
        (DocumentMerged, "document_history", desk.read_document, [OLD]),
        (NoSuchDocument, "ids look like", desk.read_document, ["D1"]),
        (NoSuchPage, "pages 1 to", desk.read_document, [NEW, 9]),
        (UnknownTag, "'Atlantis'", desk.list_documents, ["Atlantis"]),
        (BadQuery, "no word", desk.search, [" ?! "]),
        (BadQuery, "no word", desk.search, ['""']),
        (BadQuery, "between 1 and 20", desk.search, ["ship", 21]),
        (BadQuery, "has 100002 characters; at most 1000", desk.search, [f'"{"the " * 25_000}"']),  # took 13 s
        (BadQuery, "beyond ±", desk.summarize_numbers, [[1, float("nan")]]),
        (BadQuery, "beyond ±", desk.summarize_numbers, [[10**400, 1.5]]),
        (BadQuery, "must hold 1 to 100", desk.summarize_numbers, [[]]),
    ],
)
def test_errors_say_what_is_wrong(error: type[Exception], words: str, tool: Callable[..., Any], arguments: list[Any]) -> None:
    with pytest.raises(error, match=words):
        tool(HELD, *arguments)


def test_a_history_says_what_became_of_a_document() -> None:
    assert [desk.document_history(HELD, name)["successor"] for name in (OLD, NEW)] == [NEW, None]


def test_a_trail_stays_on_the_coast_of_its_instance() -> None:
    many = library.load(size=200, seed=11)
    for task in many.tasks[:40]:
        coast = task.labels["instance"].removeprefix("coast/")
        values = [call.value for call in run_sync(replay(task, many)) if call.tool == "read_document" and not call.failed]
        assert {HELD.documents[value["id"]].tag for value in values} <= {coast}
    splits = {(task.labels["instance"], task.labels["split"]) for task in many.tasks}
    assert len(splits) == len({instance for instance, _ in splits})


def test_the_collection_is_drawn_when_the_first_environment_opens() -> None:
    for cached in (collection, stories.library):
        cached.cache_clear()
    suite = library.load()
    assert collection.cache_info().currsize == 0
    assert suite.open(suite.tasks[0]) is suite.open(suite.tasks[1])
    assert collection.cache_info().currsize == 1
