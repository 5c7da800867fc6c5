"""The collection on its shelves: a full-text index (SQLite FTS5, https://sqlite.org/fts5.html) and the tools over it.

Nothing here changes: one index serves all trials of a process.
"""

from __future__ import annotations

import re
import sqlite3
from functools import cache, lru_cache
from typing import Any

from whichloop.datasets.calculator import LIMIT
from whichloop.datasets.task import Toolset, look_up

from .collection import Collection, Document, Kind, collection

MAX_TERMS = 24
"""Most words and phrases of a query that count; further ones are left out."""
MAX_CHARS = 1_000
"""Longest query: the time for a phrase of frequent words grows with the square of its length."""
MAX_RESULTS = 20
MAX_VALUES = 100
PAGE_OF_LIST = 20
"""Documents in one answer of `list_documents`."""

_TITLE_WEIGHT = 4.0
_TERM = re.compile(r'"([^"]*)"|(\w+)')
_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r"(?<=\.) (?=[A-Z0-9])")


class NoSuchDocument(ValueError):
    """There is no document under an id."""


class DocumentMerged(ValueError):
    """A document was withdrawn: another one took it in."""


class NoSuchPage(ValueError):
    """A document has fewer pages."""


class UnknownTag(ValueError):
    """No document carries a tag."""


class BadQuery(ValueError):
    """A query, or a number, that nothing can be done with."""


@cache
def _index() -> sqlite3.Connection:
    """Build the full-text index of the collection, in about 50 ms."""
    index = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    index.execute(
        "CREATE VIRTUAL TABLE pages USING"
        " fts5(title, body, id UNINDEXED, kind UNINDEXED, name UNINDEXED, tokenize = 'porter unicode61')"
    )
    documents = collection().documents.values()
    rows = [(item.title, item.text, item.id, item.kind, _words_only(item.title)) for item in documents]
    index.executemany("INSERT INTO pages VALUES (?, ?, ?, ?, ?)", rows)
    index.execute("PRAGMA query_only = ON")
    return index


@lru_cache(1024)  # the trials of a task, and its checks, ask for the same
def _matches(query: str, limit: int, kind: Kind | None) -> list[dict[str, Any]]:
    """Return cards, each with the sentence that fits best: one whose title is the query, then by BM25, equal ones by id.

    What counts are words and quoted phrases: no operator of FTS5 gets through. Raises BadQuery without a word.
    """
    phrases = [" ".join(_WORD.findall(quoted or word)) for quoted, word in _TERM.findall(query)]
    terms = [f'"{phrase}"' for phrase in dict.fromkeys(phrases) if phrase][:MAX_TERMS]
    if not terms:
        raise BadQuery("The query holds no word to search for.")
    rows = _index().execute(
        "SELECT id FROM pages WHERE pages MATCH ? AND (? IS NULL OR kind = ?)"
        " ORDER BY name = ? DESC, round(bm25(pages, ?, 1.0), 6), id LIMIT ?",
        (" OR ".join(terms), kind, kind, _words_only(query), _TITLE_WEIGHT, limit),
    )
    found = [collection().documents[name] for (name,) in rows.fetchall()]
    wanted = set(_words_only(query).split())

    def shared(sentence: str) -> int:
        return len(wanted & set(_words_only(sentence).split()))

    return [{**_card(document), "snippet": max(_SENTENCE.split(document.text), key=shared)} for document in found]


def _words_only(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


def _card(document: Document) -> dict[str, Any]:
    return {"id": document.id, "title": document.title, "kind": document.kind}


def _document(held: Collection, document_id: str) -> Document:
    if document_id in held.merged:
        raise DocumentMerged(f"Document {document_id} was merged into another one; document_history tells into which.")
    problem = f"There is no document {document_id[:40]!r}; ids look like D1234 and come from search or a list."
    return look_up(held.documents, document_id, problem, NoSuchDocument)


# Tools


def search(held: Collection, query: str, limit: int = 5, kind: Kind | None = None) -> dict[str, Any]:
    """Search titles and texts of all documents for any of the query's words; words in "double quotes" count as a phrase.

    Best matches come first (BM25), a document whose title is the whole query before all others. `limit`: 1 to 20 results.
    `kind`: documents of this kind only. Gives id, title, kind and a matching sentence of each; read_document gives the text.
    """
    if not 1 <= limit <= MAX_RESULTS:
        raise BadQuery(f"limit is {limit}, and must lie between 1 and {MAX_RESULTS}.")
    if len(query) > MAX_CHARS:
        raise BadQuery(f"The query has {len(query)} characters; at most {MAX_CHARS} are allowed.")
    return {"results": [dict(result) for result in _matches(query, limit, kind)]}


def read_document(held: Collection, document_id: str, page: int = 1) -> dict[str, Any]:
    """Read one page of a document: its text, and as `record` the facts that this page states.

    `page`: 1-based; `pages` in the result tells how many there are. What a record does not name is not known to the library.
    """
    document = _document(held, document_id)
    if not 1 <= page <= len(document.pages):
        raise NoSuchPage(f"Document {document_id} has pages 1 to {len(document.pages)}, not {page}.")
    shown_page = document.pages[page - 1]
    stated = {"text": shown_page.text, "record": dict(shown_page.record)}
    return {**_card(document), "page": page, "pages": len(document.pages), **stated}


def list_documents(
    held: Collection,
    tag: str,
    kind: Kind | None = None,
    from_year: int | None = None,
    to_year: int | None = None,
    offset: int = 0,
) -> dict[str, Any]:
    """List the documents that carry a tag, which is the name of a coast, by year and title; at most 20 at a time.

    A document's year is that of birth, foundation, launch, publication or completion. `from_year`, `to_year`: both included.
    `offset`: how many to leave out at the start. `total` counts all that fit.
    """
    if all(document.tag != tag for document in held.documents.values()):
        raise UnknownTag(f"No document carries the tag {tag[:40]!r}; tags are names of coasts.")
    if offset < 0:
        raise BadQuery(f"offset is {offset}, and must not be negative.")
    fitting = [
        document
        for document in held.documents.values()
        if document.tag == tag
        and kind in (None, document.kind)
        and (from_year is None or document.year >= from_year)
        and (to_year is None or document.year <= to_year)
    ]
    fitting.sort(key=lambda item: (item.year, item.title))
    listed = fitting[offset : offset + PAGE_OF_LIST]
    return {"total": len(fitting), "documents": [{**_card(document), "year": document.year} for document in listed]}


def references(held: Collection, document_id: str) -> dict[str, Any]:
    """The documents that a document mentions, by title."""
    links = _document(held, document_id).links
    return {"documents": [_card(held.documents[held.ids[title]]) for title in links]}


def cited_by(held: Collection, document_id: str, kind: Kind | None = None) -> dict[str, Any]:
    """The documents that mention a document, by title. `kind`: those of this kind only."""
    title = _document(held, document_id).title
    citing = [document for document in held.documents.values() if title in document.links and kind in (None, document.kind)]
    return {"documents": [_card(document) for document in sorted(citing, key=lambda item: item.title)]}


def document_history(held: Collection, document_id: str) -> dict[str, Any]:
    """Whether a document is current or was merged, and then the id of the document that took it in."""
    if document_id in held.merged:
        return {"document_id": document_id, "status": "merged", "successor": held.merged[document_id]}
    return {"document_id": _document(held, document_id).id, "status": "current", "successor": None}


def similar_documents(held: Collection, document_id: str) -> dict[str, Any]:
    """Up to five other documents of the same kind whose titles share a word with a document's title."""
    document = _document(held, document_id)
    words = set(_words_only(document.title).split()) - {"the", "light"}
    alike = [
        other
        for other in held.documents.values()
        if other.kind == document.kind and other.id != document.id and words & set(_words_only(other.title).split())
    ]
    return {"documents": [_card(other) for other in alike[:5]]}


def summarize_numbers(held: Collection, values: list[int | float]) -> dict[str, Any]:
    """Count, sum, smallest, largest, and range (largest - smallest) of 1 to 100 numbers."""
    if not 1 <= len(values) <= MAX_VALUES:
        raise BadQuery(f"values holds {len(values)} numbers, and must hold 1 to {MAX_VALUES}.")
    if not all(abs(value) <= LIMIT for value in values):
        raise BadQuery(f"values holds a number beyond ±{LIMIT:.0e}.")
    low, high = min(values), max(values)
    return {"count": len(values), "sum": sum(values), "smallest": low, "largest": high, "range": high - low}


TOOLS: Toolset[Collection] = Toolset(
    search, read_document, list_documents, references, cited_by, document_history, similar_documents, summarize_numbers, writes=()
)
DISTRACTORS = frozenset({"references", "similar_documents"})
