"""What an arm lost, by kinds of fault: all of them together make what it lost."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.metrics.record import FaultRecord
from whichloop.metrics.summary import NO_FAULT, lost_to

FAULTS = st.lists(
    st.builds(
        FaultRecord,
        st.sampled_from(["wire.fenced", "wire.malformed", "tool.raises"]),
        st.just("decide:c1"),
        st.booleans(),
        st.booleans(),
        st.booleans(),
    ),
    max_size=3,
).map(tuple)


@given(st.lists(st.tuples(st.floats(0, 1), FAULTS), min_size=1, max_size=8))
def test_the_kinds_together_make_what_was_lost(record, trials):
    records = [record(task=f"t{n}", scores={"accuracy": right}, faults=faults) for n, (right, faults) in enumerate(trials)]
    made = lost_to(records)
    assert math.fsum(made.values()) == pytest.approx(1 - math.fsum(right for right, _ in trials) / len(trials))
    landed = {fault.kind for _, faults in trials for fault in faults if fault.landed and not fault.absorbed}
    assert {*made} <= landed | {NO_FAULT}


def test_a_fault_that_the_loop_got_past_is_to_blame_only_where_no_other_is(record):
    past = FaultRecord("wire.fenced", "decide:c1", landed=True, recovered=True)
    lasting = FaultRecord("wire.malformed", "decide:c2", landed=True)
    absorbed = FaultRecord("wire.duplicated", "decide:c3", landed=True, absorbed=True)
    wrong = {"accuracy": 0.0}
    assert lost_to([record(scores=wrong, faults=(past, lasting, absorbed))]) == {"wire.malformed": 1.0}
    assert lost_to([record(scores=wrong, faults=(past, absorbed))]) == {"wire.fenced": 1.0}
    assert lost_to([record(scores=wrong, faults=(lasting, FaultRecord("wire.fenced", "x", landed=True)))]) == {
        "wire.fenced": 0.5,
        "wire.malformed": 0.5,
    }
    assert lost_to([record(scores=wrong, faults=(absorbed,))]) == {NO_FAULT: 1.0}
    assert lost_to([record(scores={"accuracy": 1.0}, faults=(lasting,))]) == {}
