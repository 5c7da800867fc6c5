"""Near copies among many texts: MinHash over word shingles (Broder 1997), in about 0.1 ms per text."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from whichloop.protocol.digest import sha256

ALIKE = 0.8
"""Jaccard similarity of two texts' shingles from which on they are near copies."""
SHINGLE = 3
"""Number of words in a row."""
EVERYWHERE = 0.5
"""A shingle that stands in more than this share of texts, such as an answer instruction's, tells none from another."""
BANDS, ROWS = 16, 4
"""Minima are compared in bands: of two texts with similarity 0.8 one band agrees with 99.98 %, of 0.5 with 64 %."""

_NUMBER = re.compile(r"\d+(?:[.,:/-]?\d+)*")
_WORD = re.compile(r"\w+|#")

Hashes = NDArray[np.uint64]


def wording(text: str) -> str:
    """Return a text's words alone: lower case, numbers masked as `#`."""
    return " ".join(_WORD.findall(_NUMBER.sub("#", text.casefold())))


def alike(wordings: Sequence[str]) -> list[list[int]]:
    """Return groups, of two and more, of places whose wordings are near copies of each other, directly or over a third."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, text in enumerate(wordings):
        places[text].append(place)
    different = list(places)
    if len(different) < 2:
        return [group for group in places.values() if len(group) > 1]
    shingles = _shingles(different)
    groups = _Groups(len(different))
    for bucket in _buckets(shingles):
        first = bucket[0]
        for other in bucket[1:]:
            if groups.find(first) != groups.find(other) and _similarity(shingles[first], shingles[other]) >= ALIKE:
                groups.join(first, other)
    all_groups = [[place for index in group for place in places[different[index]]] for group in groups.all()]
    return [group for group in all_groups if len(group) > 1]


def _shingles(wordings: Sequence[str]) -> list[Hashes]:
    """Return each text's different shingles as hashes, sorted, without those that stand nearly everywhere."""
    numbers: dict[str, int] = {}
    ids: list[int] = []
    owners: list[int] = []
    for place, text in enumerate(wordings):
        words = [numbers.setdefault(word, len(numbers) + 1) for word in text.split(" ")]
        words += [0] * (SHINGLE - len(words))
        ids += words
        owners += [place] * len(words)
    owner = np.array(owners)
    last = len(ids) - SHINGLE + 1
    hashes = np.zeros(last, dtype=np.uint64)
    for offset, factor in enumerate(_FACTORS):
        hashes += np.array(ids[offset : last + offset], dtype=np.uint64) * factor
    whole = owner[:last] == owner[SHINGLE - 1 :]  # no shingle reaches from one text into the next
    hashes, owner = _mixed(hashes[whole]), owner[:last][whole]
    _, kind, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    telling = counts[kind] <= max(EVERYWHERE * len(wordings), 2)
    hashes, owner = hashes[telling], owner[telling]
    order = np.lexsort((hashes, owner))
    hashes, owner = hashes[order], owner[order]
    new = np.ones(len(hashes), dtype=bool)
    new[1:] = (hashes[1:] != hashes[:-1]) | (owner[1:] != owner[:-1])
    return np.split(hashes[new], np.searchsorted(owner[new], np.arange(1, len(wordings))))


def _buckets(shingles: Sequence[Hashes]) -> list[list[int]]:
    """Return places, two and more, whose minima agree in a band."""
    filled = [place for place, hashes in enumerate(shingles) if len(hashes)]
    buckets: dict[Hashable, list[int]] = {"": [place for place, hashes in enumerate(shingles) if not len(hashes)]}
    if filled:
        every = np.concatenate([shingles[place] for place in filled])
        starts = np.concatenate(([0], np.cumsum([len(shingles[place]) for place in filled])[:-1]))
        for band in range(BANDS):
            minima = [
                np.minimum.reduceat(_mixed(every * seed), starts).tolist() for seed in _SEEDS[band * ROWS : (band + 1) * ROWS]
            ]
            for place, row in zip(filled, zip(*minima, strict=True), strict=True):
                buckets.setdefault((band, row), []).append(place)
    return [bucket for bucket in buckets.values() if len(bucket) > 1]


def _similarity(one: Hashes, other: Hashes) -> float:
    """Return Jaccard's similarity: shared shingles over all; two texts without any are alike."""
    shared = len(np.intersect1d(one, other, assume_unique=True))
    every = len(one) + len(other) - shared
    return shared / every if every else 1.0


class _Groups:
    """Disjoint sets of places (union-find)."""

    def __init__(self, size: int) -> None:
        self._parents = list(range(size))

    def find(self, place: int) -> int:
        while self._parents[place] != place:
            self._parents[place] = self._parents[self._parents[place]]
            place = self._parents[place]
        return place

    def join(self, one: int, other: int) -> None:
        self._parents[self.find(other)] = self.find(one)

    def all(self) -> list[list[int]]:
        members: dict[int, list[int]] = defaultdict(list)
        for place in range(len(self._parents)):
            members[self.find(place)].append(place)
        return list(members.values())


def _constants(name: str, count: int) -> Hashes:
    """Return odd 64-bit numbers, always the same."""
    return np.array([int(sha256(f"{name}/{index}")[:16], 16) | 1 for index in range(count)], dtype=np.uint64)


_FACTORS = _constants("shingle", SHINGLE)
_SEEDS = _constants("minimum", BANDS * ROWS)


def _mixed(values: Hashes) -> Hashes:
    """Spread the bits over all places (the finalizer of MurmurHash3), modulo 2⁶⁴."""
    values = (values ^ (values >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    values = (values ^ (values >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return values ^ (values >> np.uint64(33))
