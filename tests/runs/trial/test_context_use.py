"""What a trial does with its context, counted request by request."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tests.models.receipts import issue
from whichloop.metrics.record_table import DISTANCES
from whichloop.models.receipts import Ledger, Truth, call_digest
from whichloop.protocol import Message, Plan, PlannedCall, Request, Role, ToolSpec
from whichloop.runs.trial.counts import MIN_CACHED_BYTES, PrefixCount, RetentionCount

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


@given(PROMPTS, st.randoms())
def test_what_later_prompts_repeat_does_not_depend_on_their_order(prompts, random):
    later = prompts[1:]
    random.shuffle(later)
    one, other = (counted([prompt(texts) for texts in listed]) for listed in (prompts, [prompts[0], *later]))
    assert (one.later_bytes, one.repeated_bytes) == (other.later_bytes, other.repeated_bytes)


@given(st.lists(TEXTS, min_size=2, max_size=8))
def test_a_conversation_that_only_grows_repeats_every_prompt_before(texts):
    found = counted([prompt(texts[: n + 1]) for n in range(len(texts))])
    sizes = [counted([prompt([]), prompt(texts[: n + 1])]).later_bytes for n in range(len(texts))]
    assert found.repeated_bytes == sum(sizes[:-1])
    assert found.later_bytes == sum(sizes[1:])


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
    assert +found.shown == {"1": 6}


def test_a_result_that_is_given_again_is_near_again_and_a_failure_is_no_result():
    ledger = Ledger()
    made = RetentionCount(PLAN, ORACLE, ledger.issued)
    first = PLAN.calls[0]
    issue(ledger, first.tool, first.arguments, "it failed", None, False)
    made.count(Request(()), ())
    assert not made.needed
    issue(ledger, first.tool, first.arguments, "1", 1, True)
    made.count(Request(()), ["c0"])
    made.count(Request(()), [])
    issue(ledger, first.tool, first.arguments, "1", 1, True)
    made.count(Request(()), ["c0"])
    assert made.needed == {"1": 2, "2": 1}
    assert +made.shown == {"1": 2}


def test_branches_and_requests_that_need_no_result_are_left_out():
    for role, scope in ((Role.SELECT, ""), (Role.FORMAT, ""), (Role.DECIDE, "branch")):
        assert not kept([["c0"], ["c1"]], role, scope).needed
