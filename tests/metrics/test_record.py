"""A record: what its digest is of, what a file must hold to be read as one, and the measures that are taken of it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.metrics.measures import (
    CACHE_READ,
    DISTANCES,
    distance_range,
    prefix_stability,
    retention,
    retention_at,
    tokens_with_cache,
)
from whichloop.metrics.record import MAX_COUNT, FaultRecord, Record, records_digest
from whichloop.metrics.summary import METRICS, measures_of, summarize
from whichloop.protocol.json_text import canonical_json

DIGESTED = (
    "arm", "suite_digest", "task", "repeat", "status", "answer", "stop", "steps", "calls", "tool_calls",
    "input_tokens", "output_tokens", "errors", "scores", "false_success", "trace_digest",
)  # fmt: skip
RECORDS = st.lists(
    st.builds(
        Record,
        st.sampled_from(["a/clean", "é/clean"]),
        st.just("s"),
        st.just("d"),
        st.sampled_from(["t2", 't"3']),
        st.integers(0, 9),
        st.integers(0, 9),
        st.sampled_from(["scored", "errored"]),
        answer=st.none() | st.text(max_size=4) | st.just({"repeat": 2.0}),
        scores=st.dictionaries(st.sampled_from(["accuracy"]), st.sampled_from([0, 1, 1.0, 0.25])),
        faults=st.lists(st.builds(FaultRecord, st.just("tool.raises"), st.just("decide:c1"), st.booleans())).map(tuple),
        wall_s=st.floats(0, 1e9),
    ),
    max_size=8,
    unique_by=lambda record: record.key,
)


@given(RECORDS, st.randoms(use_true_random=False))
def test_the_digest_is_that_of_canonical_json_sorted_by_trial(records, random):
    lines = []
    for record in sorted(records, key=lambda record: record.key):
        kept = {name: getattr(record, name) for name in DIGESTED}
        lines.append(canonical_json(kept | {"faults": [fault.to_json() for fault in record.faults]}))
    random.shuffle(records)
    assert records_digest(records) == hashlib.sha256("\n".join(lines).encode()).hexdigest()


@given(RECORDS)
def test_a_record_is_read_as_it_was_written(records):
    for record in records:
        written = record.to_json()
        again = Record.from_json(json.loads(json.dumps(written | {"of_a_later_version": 1})))
        assert again == record
        assert canonical_json(again.to_json()) == canonical_json(written)  # whole numbers stay whole


FAULT = {"kind": "wire.empty", "point": "decide:c1"}


@pytest.mark.parametrize(
    ("name", "fitting", "wrong"),
    [
        ("arm", ["", "\ud800"], [None, 3]),
        ("version", [1], [0, 2, None, True]),
        ("status", ["excluded"], ["", "done", None]),
        ("steps", [0, MAX_COUNT], [-1, MAX_COUNT + 1, 1.0, True, "1", 10**400]),
        ("seed", [1 - 2**63, 2**63 - 1], [-(2**63), 2**63, 0.5]),
        ("false_success", [True], [1, "true", None]),
        ("seconds", [-1, 0.5, MAX_COUNT], ["1", True, float("nan"), float("inf"), 2.0 * MAX_COUNT]),
        ("cost_usd", [None, 0, 0.5], [-0.1, True, float("inf")]),
        ("later_bytes", [None, 0], [-1, 0.5]),
        ("scores", [{}, {"a": 1, "b": 0.5}], [{"a": 1.5}, {"a": True}, {"a": None}, [0.5], None]),
        ("calls", [{"a": 1}], [{"a": -1}, {"a": 0.5}, []]),
        ("confidence", [None, 0, 1.0], [2, -0.5, "1"]),
        ("answer", [None, [{"a": [0.5]}]], [float("inf"), {"a": [float("nan")]}]),
        ("faults", [[], [FAULT]], [None, [{}], [FAULT | {"landed": 1}], [FAULT | {"kind": 1}], ["x"]]),
        ("unknown", [["steps"]], [[1], "steps", None]),
    ],
)
def test_a_field_is_refused_with_its_name(name: str, fitting: list[Any], wrong: list[Any]) -> None:
    whole = Record("a", "s", "d", "t", 0, 0, "scored").to_json()
    for value in fitting:
        read = Record.from_json(whole | {name: value})
        assert Record.from_json(read.to_json()) == read
        assert name in ("faults", "unknown", "version") or getattr(read, name) == value
    for value in wrong:
        with pytest.raises(ValueError, match=name) as caught:
            Record.from_json(whole | {name: value})
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [None, [], "record", {}, {"version": 1, "arm": "a"}])
def test_what_is_no_record_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match=r"version|: Field required"):
        Record.from_json(data)


NAMES = ("asked", "lost", "doubled", "paired", "mispaired", "early", "overlapped")


def counted(**counts: int) -> Record:
    return Record("a", "s", "d", "t", 0, 0, "scored", call_counts=counts)


@given(st.dictionaries(st.sampled_from(NAMES), st.integers(0, 9)))
def test_shares_stay_in_bounds_whatever_a_file_says(counts):
    one = counted(**counts)
    for name, whole in (("calls_lost", "asked"), ("calls_doubled", "asked"), ("results_mispaired", "paired")):
        share = METRICS[name](one)
        assert (share is None) is (not counts.get(whole))
        assert share is None or 0 <= share <= 1
    assert Record.from_json(one.to_json()) == one


def test_the_measures_of_calls_worked_out_by_hand():
    one = counted(asked=8, lost=2, doubled=1, paired=4, mispaired=1, early=2, overlapped=1)
    assert {name: METRICS[name](one) for name in measures_of("calls")} == {
        "calls_lost": 0.25,
        "calls_doubled": 0.125,
        "results_mispaired": 0.25,
        "calls_overlapped": 0.5,
    }
    assert [METRICS[name](counted()) for name in measures_of("calls")] == [None] * 4


RANGES = st.dictionaries(st.sampled_from(DISTANCES), st.integers(0, 9))
SIZES = st.none() | st.integers(0, 10_000)


def one_of(task: str = "t", **fields: object) -> Record:
    return Record("a", "s", "d", task, 0, 0, "scored", **fields)  # type: ignore[arg-type]


@given(st.integers(1, 400))
def test_every_distance_lies_in_one_range(distance):
    name = distance_range(distance)
    low, _, high = name.rstrip("+").partition("-")
    assert int(low) <= distance <= (10**9 if name.endswith("+") else int(high or low))


@given(RANGES, RANGES, SIZES, SIZES, SIZES, st.integers(0, 10_000), st.integers(0, 10_000))
def test_shares_and_tokens_stay_in_bounds_whatever_a_file_says(needed, shown, later, repeated, cacheable, taken, made):
    one = one_of(
        results_needed=needed, results_shown=shown, later_bytes=later, repeated_bytes=repeated, cacheable_tokens=cacheable,
        input_tokens=taken, output_tokens=made,
    )  # fmt: skip
    for share in (retention(one), prefix_stability(one), *(retention_at(one, distance) for distance in DISTANCES)):
        assert share is None or 0 <= share <= 1
    tokens = tokens_with_cache(one)
    assert (tokens is None) is (cacheable is None)
    assert tokens is None or CACHE_READ * taken + made - 1e-9 <= tokens <= one.tokens
    assert Record.from_json(one.to_json()) == one


def test_the_measures_of_context_worked_out_by_hand():
    one = one_of(
        results_needed={"1": 4, "2": 4}, results_shown={"1": 4, "2": 1}, later_bytes=2_000, repeated_bytes=500,
        cacheable_tokens=1_000, input_tokens=3_000, output_tokens=100,
    )  # fmt: skip
    assert (retention(one), retention_at(one, "1"), retention_at(one, "2"), retention_at(one, "17+")) == (0.625, 1.0, 0.25, None)
    assert prefix_stability(one) == 0.25
    assert tokens_with_cache(one) == 3_100 - 0.9 * 1_000
    found = summarize([one, one_of("u")])
    assert {name: share.value for name, share in found.retention_at.items()} == {"1": 1.0, "2": 0.25}
    assert found.means["retention"] is not None
    assert found.means["retention"].n == 1
