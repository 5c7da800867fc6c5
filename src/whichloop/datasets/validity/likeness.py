"""Near copies among many texts, by the word shingles that they share (Broder 1997)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import scipy

ALIKE = 0.8
"""Jaccard similarity of two texts' shingles from which on they are near copies."""
SHINGLE = 3
"""Number of words in a row."""
EVERYWHERE = 0.5
"""A shingle that stands in more than this share of texts, such as an answer instruction's, tells none from another."""
BLOCK = 500
"""Texts that are compared with all others at once."""

_NUMBER = re.compile(r"\d+(?:[.,:/-]?\d+)*")
_WORD = re.compile(r"\w+|#")


def wording(text: str) -> str:
    """Return a text's words alone: lower case, numbers masked as `#`."""
    return " ".join(_WORD.findall(_NUMBER.sub("#", text.casefold())))


def alike(wordings: Sequence[str]) -> list[list[int]]:
    """Return groups, of two and more, of places whose wordings are near copies of each other, directly or over a third."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, text in enumerate(wordings):
        places[text].append(place)
    groups: dict[int, list[int]] = defaultdict(list)
    for text, group in zip(places, _groups(list(places)), strict=True):
        groups[group] += places[text]
    return [group for group in groups.values() if len(group) > 1]


def _groups(texts: Sequence[str]) -> list[int]:
    if len(texts) < 2:
        return [0] * len(texts)
    numbers: dict[tuple[str, ...], int] = {}
    rows, columns = [], []
    for row, text in enumerate(texts):
        words = text.split(" ")
        for shingle in {tuple(words[at : at + SHINGLE]) for at in range(max(1, len(words) - SHINGLE + 1))}:
            rows.append(row)
            columns.append(numbers.setdefault(shingle, len(numbers)))
    held = scipy.sparse.csr_array((np.ones(len(rows), dtype=np.int32), (rows, columns)))
    held = held[:, np.flatnonzero(held.sum(axis=0) <= max(EVERYWHERE * len(texts), 2))]
    sizes, rows, columns = held.sum(axis=1), [], []
    for start in range(0, len(texts), BLOCK):
        shared = (held[start : start + BLOCK] @ held.T).tocoo()
        row, column = shared.coords[0] + start, shared.coords[1]
        near = shared.data >= ALIKE * (sizes[row] + sizes[column] - shared.data)
        rows += row[near].tolist()
        columns += column[near].tolist()
    graph = scipy.sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(texts), len(texts)))
    found: list[int] = scipy.sparse.csgraph.connected_components(graph, directed=False)[1].tolist()
    return found
