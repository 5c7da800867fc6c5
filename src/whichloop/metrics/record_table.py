"""The records of a run of any size: what trials have in common is held once, and what tells them apart in arrays.

A trial that went as another one did differs from it in the fields of `OWN` only. A run of a scripted model has a few ways to go for
each task, so that a million of its trials take a hundred bytes each; where no two trials are alike, each is held whole.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from operator import attrgetter, eq
from typing import Any, Final, overload

import numpy as np
import orjson
from numpy.typing import NDArray

from whichloop.protocol.digest import canonical_json

from .arm_info import ArmInfo
from .record import Record

OWN = ("repeat", "seed", "wall_s", "started_at", "attempt", "trace_at")
"""Fields in which trials differ that went alike."""
ROW = np.dtype(
    [
        ("kind", "<u4"),
        ("repeat", "<i8"),
        ("seed", "<i8"),
        ("wall_s", "<f8"),
        ("started_at", "<f8"),
        ("attempt", "<i8"),
        ("trace_at", "<i8"),
    ]
)
"""One trial: its kind, and its own fields."""
_BLOCK = 4096
"""Rows that are turned into objects at a time."""
MAX_HELD = 20_000
"""Records of a file up to which each is made once and kept: then they take as much memory as the rest of a command."""

_COMMON = tuple(item.name for item in fields(Record) if item.name not in OWN)
_common = attrgetter(*_COMMON)
_PUT_COMMON = tuple(vars(Record)[name].__set__ for name in _COMMON)
_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), allow_nan=False)
_PUT_OWN = tuple(vars(Record)[name].__set__ for name in OWN)

Rows = NDArray[Any]
Places = NDArray[np.intp]


def common_json(record: Record) -> str:
    """Return the JSON of a record without the fields of `OWN`. Raises ValueError for NaN."""
    plain = dict(zip(_COMMON, _common(record), strict=True))
    try:
        text = orjson.dumps(plain).decode()
    except TypeError:  # long numbers, lone surrogates
        text = ""
    nones = sum(value is None for value in plain.values())
    if text and text.count("null") == nones:  # orjson writes null for NaN: then there are more of them
        return text
    return _ENCODER.encode({name: value for name, value in record.to_json().items() if name in plain})


def shared_fields(record: Record) -> Record:
    """Return what a record has in common with others: one without the fields of `OWN`, which raise AttributeError."""
    kind = object.__new__(Record)
    for put, value in zip(_PUT_COMMON, _common(record), strict=True):
        put(kind, value)
    return kind


@dataclass(frozen=True)  # no slots: few records are made once
class RecordStore:
    """All rows of a file, and their kinds."""

    kinds: Sequence[Record]
    """Records without the fields of `OWN`."""
    rows: Rows
    """[n] of `ROW`."""

    @cached_property
    def _all_records(self) -> list[Record]:
        return list(self._records_at(np.arange(len(self.rows))))

    def records(self, places: Places) -> Iterator[Record]:
        """Yield the records in these rows."""
        return map(self._all_records.__getitem__, places.tolist()) if len(self.rows) <= MAX_HELD else self._records_at(places)

    def _records_at(self, places: Places) -> Iterator[Record]:
        common = [_common(kind) for kind in self.kinds]
        for start in range(0, len(places), _BLOCK):
            for row in self.rows[places[start : start + _BLOCK]].tolist():
                record = object.__new__(Record)
                for put, value in zip(_PUT_COMMON, common[row[0]], strict=True):
                    put(record, value)
                for put, value in zip(_PUT_OWN, row[1:], strict=True):
                    put(record, value)
                yield record

    def by_trial(self) -> tuple[Places, NDArray[np.bool_]]:
        """Return the rows sorted by trial, those of one in the order of the file, and which of them are the first of theirs."""
        cells: dict[tuple[str, str], int] = {}
        cell_of = np.array([cells.setdefault((kind.arm, kind.task), len(cells)) for kind in self.kinds], dtype=np.int64)
        cell, repeat = cell_of[self.rows["kind"]], self.rows["repeat"]
        order = np.lexsort((repeat, cell))  # a stable sort
        differs = (np.diff(cell[order]) != 0) | (np.diff(repeat[order]) != 0)
        return order, np.concatenate((np.ones(min(len(repeat), 1), dtype=np.bool_), differs))

    def latest(self) -> RecordTable:
        """Return the last record of each trial, in the order in which trials first ended."""
        order, begins = self.by_trial()
        first, last = order[begins], order[np.roll(begins, -1)]
        return RecordTable(self, last[np.argsort(first)])


class RecordTable(Sequence[Record]):
    """Records in some order, each made when it is asked for."""

    def __init__(self, store: RecordStore, places: Places) -> None:
        self.store = store
        self.places = places
        """Rows of the store, in the table's order."""

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> RecordTable: ...
    def __getitem__(self, index: int | slice) -> Record | RecordTable:
        if isinstance(index, slice):
            return RecordTable(self.store, self.places[index])
        return next(self.store.records(self.places[[index]]))

    def __iter__(self) -> Iterator[Record]:
        return self.store.records(self.places)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]  # equal to lists, which have none

    @property
    def codes(self) -> NDArray[np.uint32]:
        """The kind of each record, as its place among the store's kinds."""
        return np.asarray(self.store.rows["kind"][self.places], dtype=np.uint32)

    def column(self, name: str) -> NDArray[Any]:
        """Return `repeat`, `wall_s`, `started_at`, `attempt` or `trace_at` of each record."""
        return np.asarray(self.store.rows[name][self.places])

    def kinds(self) -> Iterator[Record]:
        """Yield the kind of each record."""
        for start in range(0, len(self.places), _BLOCK):
            codes = self.store.rows["kind"][self.places[start : start + _BLOCK]]
            yield from map(self.store.kinds.__getitem__, codes.tolist())

    def each_kind(self) -> Iterator[tuple[int, Record]]:
        """Yield each kind that there is, once, with its code."""
        counts = np.bincount(self.codes, minlength=len(self.store.kinds))
        return ((code, self.store.kinds[code]) for code in np.flatnonzero(counts).tolist())

    def where(self, fits: Callable[[Record], bool]) -> RecordTable:
        """Return the records whose kind fits."""
        keeps = np.zeros(len(self.store.kinds), dtype=np.bool_)
        for code, kind in self.each_kind():
            keeps[code] = fits(kind)
        return RecordTable(self.store, self.places[keeps[self.codes]])

    def of_arm(self, arm: str) -> RecordTable:
        return self.where(lambda kind: kind.arm == arm)

    def ordered(self, key: Callable[[Record], Any]) -> RecordTable:
        """Return the records by a key of their kinds, and those of equal key by their repeats; equal ones stay in their order."""
        keys = {code: key(kind) for code, kind in self.each_kind()}
        rank = {value: place for place, value in enumerate(sorted(set(keys.values())))}
        ranks = np.zeros(len(self.store.kinds), dtype=np.int64)
        for code, value in keys.items():
            ranks[code] = rank[value]
        return RecordTable(self.store, self.places[np.lexsort((self.column("repeat"), ranks[self.codes]))])


def alike(records: Iterable[Record]) -> Iterable[Record]:
    """Return the records for reading what is not a field of `OWN`: of a table their kinds, in a hundredth of the time."""
    return records.kinds() if isinstance(records, RecordTable) else records


def distinct(records: Iterable[Record]) -> Iterable[Record]:
    """Return of records that differ only in fields of `OWN` one, where that is known without looking; it lacks these fields."""
    return (kind for _, kind in records.each_kind()) if isinstance(records, RecordTable) else records


def where(records: Sequence[Record], fits: Callable[[Record], bool]) -> Sequence[Record]:
    """Return the records that fit, which is read from fields that are not of `OWN`."""
    return records.where(fits) if isinstance(records, RecordTable) else [record for record in records if fits(record)]


def of_tasks(records: Sequence[Record], tasks: Collection[str]) -> Sequence[Record]:
    """Return the records of these tasks."""
    return where(records, lambda record: record.task in tasks)


def records_by_arm(records: Sequence[Record], arms: Iterable[ArmInfo]) -> Mapping[str, Sequence[Record]]:
    """Return the records of each of these arms, in their order."""
    if isinstance(records, RecordTable):
        return {info.arm: records.of_arm(info.arm) for info in arms}
    by_arm: dict[str, list[Record]] = {info.arm: [] for info in arms}
    for record in records:
        if record.arm in by_arm:
            by_arm[record.arm].append(record)
    return by_arm


def columns(records: Sequence[Record], names: Sequence[str]) -> list[NDArray[Any]]:
    """Return `repeat`, `wall_s`, `started_at` or `attempt` of all records, one array each."""
    if isinstance(records, RecordTable):
        return [records.column(name) for name in names]
    return [np.array([getattr(record, name) for record in records]) for name in names]


def by_key(records: Sequence[Record]) -> Sequence[Record]:
    """Return the records in the order of arm, task and repeat."""
    if isinstance(records, RecordTable):
        return records.ordered(lambda kind: (kind.arm, kind.task))
    return sorted(records, key=lambda record: record.key)


# --- digest ---


_DIGESTED = (
    "arm", "suite_digest", "task", "status", "answer", "stop", "steps", "calls", "tool_calls",
    "input_tokens", "output_tokens", "errors", "scores", "false_success", "trace_digest",
)  # fmt: skip

_BEFORE = tuple(sorted(name for name in (*_DIGESTED, "faults") if name < "repeat"))
_BEHIND = tuple(sorted(name for name in (*_DIGESTED, "faults") if name > "repeat"))


def records_digest(records: Iterable[Record]) -> str:
    """Return the sha256 over the records sorted by (arm, task, repeat): never of times, cost, host, ids or the order in the file.

    Each is a line of canonical JSON with the fields of `_DIGESTED` and the faults.
    """
    ordered = by_key(records if isinstance(records, Sequence) else list(records))
    (repeats,), sha256, between = columns(ordered, ("repeat",)), hashlib.sha256(), b""
    digests: dict[int, tuple[bytes, bytes]] = {}
    is_kept = isinstance(ordered, RecordTable)
    for kind, repeat in zip(alike(ordered), repeats.tolist(), strict=True):
        parts = digests.get(id(kind))
        if parts is None:
            parts = _digested(kind, _BEFORE)[:-1] + b',"repeat":', b"," + _digested(kind, _BEHIND)[1:]
            if is_kept:  # else another record may have the same id
                digests[id(kind)] = parts
        sha256.update(b"%b%b%d%b" % (between, parts[0], repeat, parts[1]))
        between = b"\n"
    return sha256.hexdigest()


def _digested(kind: Record, names: Sequence[str]) -> bytes:
    named_values = {name: getattr(kind, name) for name in names}
    if "faults" in named_values:
        named_values["faults"] = [fault.to_json() for fault in kind.faults]
    return canonical_json(named_values).encode("ascii")


NO_FAULT = ""
"""Stands for what was lost in trials without any fault that the loop noticed."""


def lost_to(scored: Sequence[Record]) -> Mapping[str, float]:
    """Return kind of fault → accuracy lost to it, as a mean over scored trials; all kinds together make 1 minus the mean accuracy.

    What a trial lost is put down to its faults that landed, that the codec did not absorb and that the loop never got past; where
    it got past all of them, to all that landed. Of several each has an equal part.
    """
    losses: dict[str, float] = {}
    for record in alike(scored):
        if not record.is_solved:
            felt = [fault for fault in record.faults if fault.landed and not fault.absorbed]
            lasting = [fault for fault in felt if not fault.recovered]
            kinds = [fault.kind for fault in lasting or felt] or [NO_FAULT]
            for kind in kinds:
                losses[kind] = losses.get(kind, 0.0) + (1 - record.accuracy) / len(kinds)
    return {kind: total / len(scored) for kind, total in sorted(losses.items())}


MIN_CACHED_TOKENS: Final = 1_024
"""Tokens that a prompt must share with an earlier one before a provider reads them from its cache."""
_STARTS = (1, 2, 3, 5, 9, 17)
DISTANCES: Final = (*(str(a) if b == a + 1 else f"{a}-{b - 1}" for a, b in pairwise(_STARTS)), f"{_STARTS[-1]}+")
"""Ranges of distances, in prompts: 1, 2, 3-4, 5-8, 9-16, 17+."""
_RANGES = tuple(DISTANCES[max(sum(start <= distance for start in _STARTS), 1) - 1] for distance in range(_STARTS[-1] + 1))
"""The range of each distance up to the last start."""


def distance_range(distance: int) -> str:
    """Return the range that a distance of 1 or more lies in."""
    return _RANGES[min(distance, _STARTS[-1])]


def retention_at(record: Record, distance: str) -> float | None:
    """Return results shown / results needed at one range of distances; None where no result was needed."""
    needed = record.results_needed.get(distance, 0)
    return min(1.0, record.results_shown.get(distance, 0) / needed) if needed else None


def served_by_cache(scored: Sequence[Record]) -> Mapping[str, float]:
    """Return measure → the share of the input tokens of scored trials that a prompt cache serves, where that is known of each.

    Of `tokens_with_cache` it is what a cache could serve, of `cost_usd` what the prices were told that it served. Nothing is told
    of dollars where a trial cost less than uncached though no cache served it: then its replies came from a recording.
    """
    records = list(alike(scored))
    input_tokens = sum(record.input_tokens for record in records)
    if not input_tokens:
        return {}
    cacheable = [record.cacheable_tokens for record in records]
    known_tokens = [tokens for tokens in cacheable if tokens is not None]
    shares = {}
    if len(known_tokens) == len(records):
        served = sum(min(tokens, record.input_tokens) for tokens, record in zip(known_tokens, records, strict=True))
        shares["tokens_with_cache"] = served / input_tokens
    if all(is_priced_by_cache(record) for record in records):
        shares["cost_usd"] = sum(record.cached_tokens for record in records) / input_tokens
    return shares


def is_priced_by_cache(record: Record) -> bool:
    """Whether a trial's dollars are known with a cache and without one, and nothing but a cache makes the difference."""
    if record.cost_usd is None or record.nominal_usd is None:
        return False
    return record.cached_tokens > 0 or record.cost_usd >= record.nominal_usd
