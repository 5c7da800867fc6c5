"""Which call a result is given for, and whose it is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.models.receipts import issue
from whichloop.models.receipts import Ledger, believed, call_digest, paired_results
from whichloop.protocol import Message, NativeCall
from whichloop.protocol.receipts import sightings


def conversation(order: list[int], ledger: Ledger, ids: list[str] | None = None) -> list[Message]:
    """A reply with as many calls as results; result `order[i]` is given for call i."""
    names = ids or [f"id {place}" for place in range(len(order))]
    entries = [issue(ledger, "put", {"n": place}, f"put {place}", place, True) for place in range(len(order))]
    calls = tuple(NativeCall(name, "put", f'{{"n": {place}}}') for place, name in enumerate(names))
    given_for = zip(names, order, strict=True)
    results = [Message("tool", f"it says {entries[place].signed}", call_id=name) for name, place in given_for]
    return [Message("user", "q"), Message("assistant", "", calls), *results]


@given(st.integers(1, 6).flatmap(lambda count: st.permutations(range(count))))
def test_a_result_is_right_iff_it_is_given_for_its_own_call(order):
    ledger = Ledger()
    messages = conversation(list(order), ledger)
    found = list(paired_results(messages))
    assert len(found) == (len(order) if len(order) > 1 else 0)
    assert [one.is_right for one in found] == [place == result for place, result in enumerate(order)][: len(found)]


@given(st.integers(2, 6).flatmap(lambda count: st.permutations(range(count))))
def test_a_model_takes_a_result_for_that_of_the_call_that_it_is_given_for(order):
    ledger = Ledger()
    taken = believed(conversation(list(order), ledger), ledger)
    for place, result in enumerate(order):
        (sighting,) = sightings(taken[2 + place].content)[call_digest("put", {"n": place})]
        assert sighting.text == f"put {result}"
        entry = ledger.find(call_digest("put", {"n": place}), sighting.content)
        assert entry is not None
        assert entry.value == result
    assert all(one.is_right for one in paired_results(taken))
    assert believed(taken, ledger) is taken
    issued = len(ledger.issued)
    believed(conversation(list(order), ledger), ledger)  # seen again, a result is no new one
    assert len(ledger.issued) == issued + len(order)


@given(st.lists(st.integers(0, 3), min_size=4, max_size=4).filter(lambda order: len(set(order)) < 4))
def test_results_of_which_one_is_given_twice_are_taken_for_none_but_their_own(order):
    ledger = Ledger()
    messages = conversation(order, ledger)
    assert believed(messages, ledger) == messages


def test_calls_of_one_id_cannot_be_mixed_up_nor_those_that_nobody_can_read():
    ledger = Ledger()
    same = conversation([1, 0], ledger, ["x", "x"])
    assert [one.is_right for one in paired_results(same)] == [True, True]
    assert believed(same, ledger) is same
    broken = [Message("assistant", "", (NativeCall("x", "put", "{"), NativeCall("y", "put", "["))), *same[2:]]
    assert list(paired_results(broken)) == []
    plain = [same[1], Message("tool", "no receipt", call_id="x"), Message("tool", same[2].content, call_id="other")]
    assert list(paired_results(plain)) == []
