"""What a trial's counts say: calls that are lost or done twice, results that prompts keep, and bytes that they repeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.models.bench import issue
from whichloop.metrics.measures import DISTANCES
from whichloop.models.receipts import Ledger, Truth, call_digest
from whichloop.models.tunnel import Tunnel
from whichloop.protocol import Act, Message, Plan, PlannedCall, Recovery, Request, Role, ToolCall, ToolSpec
from whichloop.runs.trial.counts import MIN_CACHED_BYTES, CallUse, PrefixCount, RetentionCount

CALLS = [ToolCall("put", {"n": number}) for number in range(4)]
DIGESTS = [call_digest(call.name, call.arguments) for call in CALLS]
PLANNED = {digest: f"c{number}" for number, digest in enumerate(DIGESTS)}


def asks(use: CallUse, *places: int, scope: str = "", move: Any = None) -> None:
    calls = [CALLS[place] for place in places]
    request = Request((Message("user", "q"),), role=Role.DECIDE, scope=scope)
    use.count(request, Act("", tuple(calls)) if move is None else move, calls if move is None else None, calls)


def counts(use: CallUse) -> tuple[int, int, int]:
    found = use.fields(0, None)
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


def test_results_that_were_not_shown_are_lost_and_never_more_than_were_asked_for():
    use = CallUse()
    asks(use, 0)
    use.ran(DIGESTS[0], True, None)
    tunnel = Tunnel()
    tunnel.at_once.chances, tunnel.at_once.overlaps = 2, 1
    assert use.fields(1, tunnel) == {"asked": 1, "lost": 1, "early": 2, "overlapped": 1}
    assert use.fields(5, None) == {"asked": 1, "lost": 1}


TEXTS = st.sampled_from(["", "a", "ab", "abc", "b", "ä", "abd", "x" * 40])
PROMPTS = st.lists(st.lists(TEXTS, max_size=4), min_size=1, max_size=8)


def prompt(texts: Sequence[str]) -> Request:
    return Request(tuple(Message("user", text) for text in texts))


def counted(requests: Sequence[Request]) -> PrefixCount:
    made = PrefixCount()
    for request in requests:
        made.count(request)
    return made


def by_hand(prompts: Sequence[Sequence[str]]) -> int:
    """Each prompt against every earlier one, whole messages first and then the beginning of the first that differs."""
    total = 0
    for number, texts in enumerate(prompts):
        most = 0
        for earlier in prompts[:number]:
            shared = next((k for k, pair in enumerate(zip(texts, earlier, strict=False)) if pair[0] != pair[1]), None)
            whole = min(len(texts), len(earlier)) if shared is None else shared
            length = sum(len(f"user \n{text}".encode()) for text in texts[:whole])
            if shared is not None:
                one, other = (f"user \n{text}".encode() for text in (texts[shared], earlier[shared]))
                length += sum(one[: n + 1] == other[: n + 1] for n in range(min(len(one), len(other))))
            most = max(most, length)
        total += most
    return total


@given(PROMPTS)
def test_a_prompt_repeats_its_longest_common_beginning_with_any_earlier_one(prompts):
    found = counted([prompt(texts) for texts in prompts])
    assert found.repeated_bytes == by_hand(prompts)
    assert 0 <= found.repeated_bytes <= found.later_bytes


def test_other_tools_end_what_is_repeated_and_short_beginnings_are_not_cached():
    tool = ToolSpec("add", "Adds.", {"type": "object"})
    long = Message("system", "s" * MIN_CACHED_BYTES)
    same = counted([Request((long,), (tool,)), Request((long,), (tool,))])
    assert same.repeated_bytes == same.later_bytes == same.cacheable_bytes
    other = counted([Request((long,), (tool,)), Request((long,))])
    assert (other.repeated_bytes, other.cacheable_bytes) == (0, 0)
    short = counted([prompt(["a"]), prompt(["a"])])
    assert (short.repeated_bytes, short.cacheable_bytes) == (short.later_bytes, 0)


PLAN = Plan(tuple(PlannedCall(f"c{n}", "look", {"n": n}, f"Look {n}.") for n in range(6)), "done")
ORACLE = {call.id: Truth(call_digest(call.tool, call.arguments), "0000") for call in PLAN.calls}


def kept(shown: Sequence[Sequence[str]], role: Role = Role.DECIDE, scope: str = "") -> RetentionCount:
    """One result comes before each prompt, of c0, c1, …; `shown`: what each prompt shows."""
    ledger = Ledger()
    made = RetentionCount(PLAN, ORACLE, ledger.issued)
    for call, seen in zip(PLAN.calls, shown, strict=False):
        issue(ledger, call.tool, call.arguments, f"result of {call.id}", 1, True)
        made.count(Request((), role=role, scope=scope), seen)
    return made


@given(st.lists(st.sets(st.sampled_from([call.id for call in PLAN.calls])), max_size=6), st.integers(0, 6))
def test_no_more_is_shown_than_needed_and_all_of_it_where_nothing_is_dropped(drops, length):
    whole = [[call.id for call in PLAN.calls[: n + 1]] for n in range(length)]
    assert kept(whole).shown == kept(whole).needed
    found = kept([[name for name in seen if name not in drop] for seen, drop in zip(whole, drops, strict=False)])
    assert all(0 <= found.shown[distance] <= found.needed[distance] for distance in DISTANCES)


def test_a_loop_that_shows_the_last_result_only_loses_all_older_ones():
    found = kept([[call.id] for call in PLAN.calls])
    assert found.needed == {"1": 6, "2": 5, "3-4": 7, "5-8": 3}
    assert found.shown == {"1": 6}
