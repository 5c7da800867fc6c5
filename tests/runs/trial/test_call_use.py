"""Which calls are lost and which done twice, reply by reply."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from whichloop.models.receipts import call_digest
from whichloop.protocol import Act, Message, Recovery, Request, Role, ToolCall
from whichloop.runs.trial.counts import CallUse

CALLS = [ToolCall("put", {"n": number}) for number in range(4)]
DIGESTS = [call_digest(call.name, call.arguments) for call in CALLS]
PLANNED = {digest: f"c{number}" for number, digest in enumerate(DIGESTS)}


def asks(use: CallUse, *places: int, scope: str = "", move: Any = None) -> None:
    calls = [CALLS[place] for place in places]
    request = Request((Message("user", "q"),), role=Role.DECIDE, scope=scope)
    use.count(request, Act("", tuple(calls)) if move is None else move, calls if move is None else None)


def counts(use: CallUse) -> tuple[int, int, int]:
    found = use.fields(0, 0, 0)
    return found.get("asked", 0), found.get("lost", 0), found.get("doubled", 0)


@given(st.lists(st.lists(st.integers(0, 3), unique=True), max_size=5), st.booleans())
def test_a_loop_that_runs_each_call_once_loses_and_doubles_nothing(replies, is_planned):
    """Whatever the model asks for again."""
    use = CallUse()
    use.planned = PLANNED if is_planned else {}
    asked = 0
    for places in replies:
        asks(use, *places)
        asked += len(places)
        for place in places:
            use.ran(DIGESTS[place], True, None)
    asks(use)
    assert counts(use) == (asked, 0, 0)


@given(st.lists(st.integers(0, 3), unique=True, min_size=1), st.data())
def test_what_has_not_run_when_the_model_is_asked_again_is_lost(places, data):
    ran = data.draw(st.lists(st.sampled_from(places), unique=True))
    use = CallUse()
    asks(use, *places)
    for place in ran:
        use.ran(DIGESTS[place], True, None)
    asks(use)
    assert counts(use) == (len(places), len(places) - len(ran), 0)


def test_calls_that_the_end_of_a_trial_cuts_off_are_not_lost():
    use = CallUse()
    asks(use, 0, 1)
    use.ran(DIGESTS[0], True, None)
    assert counts(use) == (1, 0, 0)


def test_scopes_lose_only_their_own_calls_and_a_request_without_one_ends_all():
    use = CallUse()
    asks(use, 0, scope="a")
    asks(use, 1, scope="b")
    asks(use, scope="b")
    assert counts(use) == (1, 1, 0)
    use.ran(DIGESTS[0], True, None)
    asks(use)
    assert counts(use) == (2, 1, 0)


def test_a_run_that_nobody_asked_for_is_one_too_many_if_the_call_had_given_its_result():
    use = CallUse()
    asks(use, 0)
    use.ran(DIGESTS[0], False, "tool.raises")
    use.ran(DIGESTS[0], True, None)  # the loop tries again by itself: nothing had come of it
    assert counts(use)[2] == 0
    use.ran(DIGESTS[0], True, None)
    assert counts(use)[2] == 1
    asks(use, move=Recovery("retry"))
    use.ran(DIGESTS[0], True, None)  # the model has asked for this one
    assert counts(use)[2] == 1


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([None, "tool.raises", "tool.lies"])), max_size=5))
def test_each_run_that_the_loop_makes_by_itself_after_the_result_is_double_whatever_comes_of_it(later):
    """A tool may refuse a second booking: the loop has asked for it all the same."""
    use = CallUse()
    asks(use, 0)
    use.ran(DIGESTS[0], True, None)
    for gave, fault in later:
        use.ran(DIGESTS[0], gave, fault)
    assert counts(use) == (1, 0, len(later))


replies_and_runs = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=4, unique_by=lambda pair: pair[0]), max_size=6
)
"""Replies, each as the calls that it asks for, with the call that the loop makes of each."""


@given(replies_and_runs, st.booleans(), st.booleans())
def test_a_loop_that_makes_one_call_for_each_that_was_asked_for_doubles_none_whatever_it_passes(replies, gives_all, ends_asked):
    """Be the prompt one that shows no result any more, and be the calls those that it made before."""
    use = CallUse()
    use.planned = PLANNED
    for pairs in replies:
        asks(use, *(wrote for wrote, _ in pairs))
        for number, (_, made) in enumerate(pairs):
            use.ran(DIGESTS[made], gives_all or number % 2 == 0, None)
    if ends_asked:
        asks(use)
    assert counts(use)[2] == 0


@given(st.lists(st.integers(0, 3), unique=True, min_size=1), st.data(), st.booleans())
def test_as_many_are_doubled_as_the_loop_makes_again_beside_all_that_was_asked_for(places, data, is_altered):
    """It counts them alike where the loop made another call of each."""
    again = data.draw(st.lists(st.sampled_from(places), max_size=5))
    use = CallUse()
    asks(use, *places)
    for place in (*places, *again):
        use.ran(f"other {place}" if is_altered else DIGESTS[place], True, None)
    assert counts(use)[2] == len(again)
    asks(use)
    assert counts(use)[2] == len(again)


def test_a_call_that_is_altered_to_the_same_one_each_time_is_lost_and_not_doubled():
    use = CallUse()
    for _ in range(7):
        asks(use, 0)
        use.ran(DIGESTS[1], True, None)
    asks(use)
    assert counts(use) == (7, 7, 0)


def test_what_nobody_takes_for_a_result_may_be_asked_for_again():
    use = CallUse()
    asks(use, 0)
    use.ran(DIGESTS[0], True, "tool.lies")
    use.ran(DIGESTS[0], True, None)
    assert counts(use) == (1, 0, 0)


def test_results_that_were_not_shown_are_lost_and_never_more_than_were_asked_for():
    use = CallUse()
    asks(use, 0)
    use.ran(DIGESTS[0], True, None)
    assert use.fields(1, 2, 1) == {"asked": 1, "lost": 1, "early": 2, "overlapped": 1}
    assert use.fields(5, 0, 0) == {"asked": 1, "lost": 1}
