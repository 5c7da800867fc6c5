"""The collection on its shelves: a full-text index (SQLite FTS5, https://sqlite.org/fts5.html) and the tools over it.

Nothing here changes: one index serves all trials of a process.
"""

from __future__ import annotations

import re
import sqlite3
from functools import cache, lru_cache
from typing import Any

from whichloop.datasets.calculator import LIMIT
from whichloop.datasets.task import Toolset

from .collection import Collection, Document, Kind, collection

MAX_TERMS = 24
"""Most words and phrases of a query that count; further ones are left out."""
MAX_CHARS = 1_000
"""Longest query: the time for a phrase of frequent words grows with the square of its length."""
MAX_RESULTS = 20
MAX_VALUES = 100
PAGE_OF_LIST = 20
"""Documents in one answer of `list_documents`."""

_REMEMBERED = 1024
"""Searches whose results are kept: the trials of a task, and its checks, ask for the same ones."""

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


class Shelves:
    """A collection and its index."""

    def __init__(self, held: Collection) -> None:
        """Building the index takes about 50 ms."""
        self.held = held
        self.tags = sorted({document.tag for document in held.documents.values()})
        self._cited_by: dict[str, list[Document]] = {}
        for document in held.documents.values():
            for title in document.links:
                self._cited_by.setdefault(title, []).append(document)
        self._index = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._index.execute(
            "CREATE VIRTUAL TABLE pages USING"
            " fts5(title, body, id UNINDEXED, kind UNINDEXED, name UNINDEXED, tokenize = 'porter unicode61')"
        )
        self._index.executemany(
            "INSERT INTO pages VALUES (?, ?, ?, ?, ?)",
            [(item.title, item.text, item.id, item.kind, _words_only(item.title)) for item in held.documents.values()],
        )
        self._index.execute("PRAGMA query_only = ON")
        self.matches = lru_cache(_REMEMBERED)(self._matches)

    def _matches(self, query: str, limit: int, kind: Kind | None) -> tuple[tuple[Document, str], ...]:
        """Return documents, each with the sentence that fits best: one whose title is the query, then by BM25, equal ones by id.

        Raises BadQuery without a word.
        """
        rows = self._index.execute(
            "SELECT id FROM pages WHERE pages MATCH ? AND (? IS NULL OR kind = ?)"
            " ORDER BY name = ? DESC, round(bm25(pages, ?, 1.0), 6), id LIMIT ?",
            (match_expression(query), kind, kind, _words_only(query), _TITLE_WEIGHT, limit),
        )
        documents = [self.held.documents[name] for (name,) in rows.fetchall()]
        return tuple((document, _snippet(document, query)) for document in documents)

    def document(self, document_id: str) -> Document:
        """Return a document. Raises NoSuchDocument or DocumentMerged."""
        if document_id in self.held.merged:
            raise DocumentMerged(f"Document {document_id} was merged into another one; document_history tells into which.")
        if document_id not in self.held.documents:
            raise NoSuchDocument(f"There is no document {document_id[:40]!r}; ids look like D1234 and come from search or a list.")
        return self.held.documents[document_id]

    def cited_by(self, title: str) -> list[Document]:
        return sorted(self._cited_by.get(title, []), key=lambda item: item.title)


def match_expression(query: str) -> str:
    """Return an FTS5 expression of the query's words and quoted phrases: no operator of FTS5 gets through.

    Raises BadQuery where the query holds no word.
    """
    phrases = [" ".join(_WORD.findall(quoted or word)) for quoted, word in _TERM.findall(query)]
    terms = list(dict.fromkeys(phrase for phrase in phrases if phrase))[:MAX_TERMS]
    if not terms:
        raise BadQuery("The query holds no word to search for.")
    return " OR ".join(f'"{term}"' for term in terms)


def _words_only(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


def _snippet(document: Document, query: str) -> str:
    """Return the sentence that shares most words with the query, the first of equals."""
    wanted = set(_words_only(query).split())
    return max(_SENTENCE.split(document.text), key=lambda sentence: len(wanted & set(_words_only(sentence).split())))


def _card(document: Document) -> dict[str, Any]:
    return {"id": document.id, "title": document.title, "kind": document.kind}


# Tools


def search(shelves: Shelves, query: str, limit: int = 5, kind: Kind | None = None) -> dict[str, Any]:
    """Search titles and texts of all documents for any of the query's words; words in "double quotes" count as a phrase.

    Best matches come first (BM25), a document whose title is the whole query before all others. `limit`: 1 to 20 results.
    `kind`: documents of this kind only. Gives id, title, kind and a matching sentence of each; read_document gives the text.
    """
    if not 1 <= limit <= MAX_RESULTS:
        raise BadQuery(f"limit is {limit}, and must lie between 1 and {MAX_RESULTS}.")
    if len(query) > MAX_CHARS:
        raise BadQuery(f"The query has {len(query)} characters; at most {MAX_CHARS} are allowed.")
    return {"results": [{**_card(document), "snippet": snippet} for document, snippet in shelves.matches(query, limit, kind)]}


def read_document(shelves: Shelves, document_id: str, page: int = 1) -> dict[str, Any]:
    """Read one page of a document: its text, and as `record` the facts that this page states.

    `page`: 1-based; `pages` in the result tells how many there are. What a record does not name is not known to the library.
    """
    document = shelves.document(document_id)
    if not 1 <= page <= len(document.pages):
        raise NoSuchPage(f"Document {document_id} has pages 1 to {len(document.pages)}, not {page}.")
    shown_page = document.pages[page - 1]
    return {
        **_card(document),
        "page": page,
        "pages": len(document.pages),
        "text": shown_page.text,
        "record": dict(shown_page.record),
    }


def list_documents(
    shelves: Shelves,
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
    if tag not in shelves.tags:
        raise UnknownTag(f"No document carries the tag {tag[:40]!r}; tags are names of coasts.")
    if offset < 0:
        raise BadQuery(f"offset is {offset}, and must not be negative.")
    fitting = [
        document
        for document in shelves.held.documents.values()
        if document.tag == tag
        and (kind is None or document.kind == kind)
        and (from_year is None or document.year >= from_year)
        and (to_year is None or document.year <= to_year)
    ]
    fitting.sort(key=lambda item: (item.year, item.title))
    listed = fitting[offset : offset + PAGE_OF_LIST]
    return {"total": len(fitting), "documents": [{**_card(document), "year": document.year} for document in listed]}


def references(shelves: Shelves, document_id: str) -> dict[str, Any]:
    """The documents that a document mentions, by title."""
    links = shelves.document(document_id).links
    return {"documents": [_card(shelves.held.documents[shelves.held.ids[title]]) for title in links]}


def cited_by(shelves: Shelves, document_id: str, kind: Kind | None = None) -> dict[str, Any]:
    """The documents that mention a document, by title. `kind`: those of this kind only."""
    citing = shelves.cited_by(shelves.document(document_id).title)
    return {"documents": [_card(document) for document in citing if kind is None or document.kind == kind]}


def document_history(shelves: Shelves, document_id: str) -> dict[str, Any]:
    """Whether a document is current or was merged, and then the id of the document that took it in."""
    if document_id in shelves.held.merged:
        return {"document_id": document_id, "status": "merged", "successor": shelves.held.merged[document_id]}
    return {"document_id": shelves.document(document_id).id, "status": "current", "successor": None}


def similar_documents(shelves: Shelves, document_id: str) -> dict[str, Any]:
    """Up to five other documents of the same kind whose titles share a word with a document's title."""
    document = shelves.document(document_id)
    words = set(_words_only(document.title).split()) - {"the", "light"}
    alike = [
        other
        for other in shelves.held.documents.values()
        if other.kind == document.kind and other.id != document.id and words & set(_words_only(other.title).split())
    ]
    return {"documents": [_card(other) for other in alike[:5]]}


def summarize_numbers(shelves: Shelves, values: list[int | float]) -> dict[str, Any]:
    """Count, sum, smallest, largest, and range (largest - smallest) of 1 to 100 numbers."""
    if not 1 <= len(values) <= MAX_VALUES:
        raise BadQuery(f"values holds {len(values)} numbers, and must hold 1 to {MAX_VALUES}.")
    if not all(abs(value) <= LIMIT for value in values):
        raise BadQuery(f"values holds a number beyond ±{LIMIT:.0e}.")
    low, high = min(values), max(values)
    return {"count": len(values), "sum": sum(values), "smallest": low, "largest": high, "range": high - low}


TOOLS: Toolset[Shelves] = Toolset(
    search,
    read_document,
    list_documents,
    references,
    cited_by,
    document_history,
    similar_documents,
    summarize_numbers,
    writes=(),
)
DISTRACTORS = frozenset({"references", "similar_documents"})


@cache
def open_shelves() -> Shelves:
    """Return the shelves of this process, built when the first environment is opened."""
    return Shelves(collection())
