"""Records as a table are the records, one by one: read from a file, in any order of repeats, alike or not."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.metrics import record_table
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.record import FaultRecord, Record
from whichloop.metrics.record_table import (
    OWN,
    RecordTable,
    by_key,
    columns,
    records_by_arm,
    records_digest,
    shared_fields,
)
from whichloop.metrics.summary import METRICS, summarize, task_values
from whichloop.protocol.digest import canonical_json
from whichloop.runs.run_state import EndedTrials, TrialState
from whichloop.runs.store.trials import TrialFile, read_records

DIGESTED = (
    "arm", "suite_digest", "task", "repeat", "status", "answer", "stop", "steps", "calls", "tool_calls",
    "input_tokens", "output_tokens", "errors", "scores", "false_success", "trace_digest",
)  # fmt: skip
FAULT = FaultRecord("tool.raises", "decide:c1", landed=True)
answers = st.one_of(
    st.sampled_from(["9", None, 'x","repeat":7,"seed":8', {"wall_s": 1.0, "repeat": 2}, '","wall_s":0.5,"simulated_s":0.0']),
    st.text(max_size=4),
)


@st.composite
def drawn(draw: st.DrawFn) -> Record:
    """A record: one of a few kinds with numbers of its own, or anything."""
    status = draw(st.sampled_from(["scored", "scored", "scored", "errored", "excluded"]))
    return Record(
        draw(st.sampled_from(["a/clean", "é/clean"])),
        "s",
        "d",
        draw(st.sampled_from(["t2", "t1", 't"3'])),
        draw(st.integers(0, 4)),
        draw(st.integers(0, 2**32) | st.integers(-(2**63) + 1, 2**63 - 1)),
        status,  # type: ignore[arg-type]
        answer=draw(answers),
        stop=draw(st.sampled_from(["finished", "crashed", None])),
        scores=draw(st.sampled_from([{"accuracy": 1.0}, {"accuracy": 0.0}, {}])),
        steps=draw(st.integers(0, 2)),
        calls={"decide": draw(st.integers(0, 1))},
        cost_usd=draw(st.sampled_from([None, 0.25])),
        faults=draw(st.sampled_from([(), (FAULT,)])),
        template=draw(st.sampled_from(["", "one"])),
        seconds=draw(st.sampled_from([0.0, 1.5])),
        wall_s=draw(st.floats(0, 1e9)),
        started_at=draw(st.one_of(st.just(0.0), st.just(7), st.floats(1e9, 2e9))),
        attempt=draw(st.integers(0, 2)),
        trace_at=draw(st.integers(0, 2**40)),
        unknown=draw(st.sampled_from([(), (), ("steps",)])),
    )


def table_of(records: list[Record]) -> RecordTable:
    with TemporaryDirectory() as folder:
        with closing(TrialFile(Path(folder))) as file:
            file.add((record, b"") for record in records)
        return read_records(Path(folder))


def latest_of(records: list[Record]) -> list[Record]:
    return list({record.key: record for record in records}.values())


@pytest.fixture(params=["each made once", "each made when it is asked for"])
def _held(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "each made once":
        monkeypatch.setattr(record_table, "MAX_HELD", 0)
        monkeypatch.setattr(record_table, "_BLOCK", 3)


@pytest.mark.usefixtures("_held")
@settings(max_examples=cases(12))
@given(st.lists(drawn(), max_size=12))
def test_a_table_holds_the_last_record_of_each_trial(records):
    table, expected = table_of(records), latest_of(records)
    assert list(table) == expected
    assert table == expected
    assert [table[place] for place in range(len(table))] == expected
    assert list(table[1:]) == expected[1:]
    assert [found.started_at for found in table] == [float(record.started_at) for record in expected]


@settings(max_examples=cases(12))
@given(st.lists(drawn(), max_size=12))
def test_what_is_computed_from_a_table_is_what_is_computed_from_its_records(records):
    table, plain = table_of(records).ordered(lambda kind: kind.task), latest_of(records)
    plain.sort(key=lambda record: (record.task, record.repeat))
    assert list(table) == plain
    assert list(by_key(table)) == sorted(plain, key=lambda record: record.key)
    assert records_digest(table) == records_digest(plain)
    for mine, theirs in zip(
        columns(table, ("repeat", "wall_s", "attempt")), columns(plain, ("repeat", "wall_s", "attempt")), strict=True
    ):
        assert mine.tolist() == theirs.tolist()
    metrics: list[Callable[[Record], float | None]] = [
        *METRICS.values(),
        lambda record: record.wall_s,
        lambda record: record.repeat,
    ]
    for metric in metrics:
        assert task_values(table, metric) == task_values(plain, metric)
        assert list(task_values(table, metric).values) == list(task_values(plain, metric).values)  # sums go by their order
    assert summarize(table) == summarize(plain)


@given(st.lists(drawn(), max_size=8))
def test_the_digest_is_that_of_sorted_canonical_json(records):
    records, made = latest_of(records), hashlib.sha256()
    lines = []
    for record in sorted(records, key=lambda record: record.key):
        kept = {name: getattr(record, name) for name in DIGESTED}
        lines.append(canonical_json(kept | {"faults": [fault.to_json() for fault in record.faults]}))
    made.update("\n".join(lines).encode())
    assert records_digest(records) == records_digest(table_of(records)) == made.hexdigest()


@settings(max_examples=cases(12))
@given(st.lists(drawn(), max_size=12))
def test_ended_trials_are_a_mapping_of_how_each_ended(records):
    expected = {record.key: TrialState(record.status, record.stop, record.attempt) for record in records}
    ended = EndedTrials(table_of(records))
    assert dict(ended) == expected
    assert len(ended) == len(expected)
    assert ("a/clean", "t1", 99) not in ended
    assert ("other", "t1", 0) not in ended


def test_one_kind_is_kept_of_all_trials_that_went_alike():
    first = Record("a/clean", "s", "d", "t1", 0, 5, "scored", scores={"accuracy": 1.0}, wall_s=0.25, started_at=1795635976.1924987)
    records = [replace(first, repeat=number, seed=number, wall_s=1e-05 * number, attempt=number % 2) for number in range(50)]
    store = table_of([*records, replace(first, repeat=50, steps=1)]).store
    assert len(store.kinds) == 2


def test_a_kind_has_no_field_of_its_trials_own():
    kind = shared_fields(Record("a", "s", "d", "t", 3, 5, "scored"))
    assert (kind.arm, kind.status) == ("a", "scored")
    for name in OWN:
        with pytest.raises(AttributeError):
            getattr(kind, name)


def test_records_are_parted_by_the_arms_that_are_asked_for():
    records = [Record(arm, "s", "d", "t", 0, 0, "scored") for arm in ("a", "b", "a")]
    for given_ones in (records, table_of([replace(one, repeat=place) for place, one in enumerate(records)])):
        parted = records_by_arm(given_ones, [ArmInfo(arm, "bare", {}, "scripted", "clean", "s") for arm in ("a", "c")])
        assert {arm: len(found) for arm, found in parted.items()} == {"a": 2, "c": 0}
