"""A fault profile fitted to a run: rates that were put in come out, with intervals that cover them."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.experiments.fit_profile.helpers import (
    KNOWN,
    LOOPS,
    fit_json,
    fitted_to,
    holds,
    known,
    known_run,
    run,
    traces,
)
from whichloop.experiments.fit_profile.attempts import hint_of, wire_damage
from whichloop.experiments.fit_profile.estimates import cluster_rate
from whichloop.metrics.statistics import wilson
from whichloop.models.faults import spoil
from whichloop.models.profiles import FAULT_KINDS, Clears, load_profile
from whichloop.protocol import Reply, ToolCall
from whichloop.protocol.wire import native_call

# --- the law ---


def test_rates_that_were_put_in_come_out(fitted):
    missed = [kind for kind, rate in KNOWN.items() if not holds(fitted.rates[kind], rate)]
    assert len(missed) <= 2, missed  # of 18 intervals at 95 %
    others = {kind: rate.rate for kind, rate in fitted.rates.items() if kind not in KNOWN and rate.rate}
    assert others == {}


def test_what_is_counted_is_what_was_injected(disturbed, fitted):
    """Kind by kind against the records' answer key, which the fit does not see."""
    scheduled = Counter(fault.kind for item in disturbed for fault in item.record.faults)
    both = ("tool.raises", "tool.flaky")  # one that failed twice may be either
    assert sum(fitted.rates[kind].count for kind in both) == pytest.approx(sum(scheduled[kind] for kind in both), rel=0.15, abs=2)
    for kind in KNOWN.keys() - {*both}:
        slack = 2 + 0.15 * scheduled[kind]
        hidden = kind == "decision.no_tool"  # of a task that only one trial reached, nothing can be said
        native_text = kind in ("wire.malformed", "wire.truncated")  # a plain text that is cut reads as another
        assert fitted.rates[kind].count <= scheduled[kind] + slack, kind
        assert fitted.rates[kind].count >= scheduled[kind] - slack - (5 if hidden or native_text else 0), kind


def test_marks_of_injected_faults_are_not_read(disturbed, fitted):
    bare = traces(disturbed)
    for trace in bare:
        for event in trace["events"]:
            event.pop("fault", None)
    assert fit_json(bare, timed=False, paired=True) == fitted


def test_a_clean_run_fits_a_clean_profile():
    for loop in LOOPS:
        found = fitted_to(run([loop], load_profile("clean"), size=16, repeats=1))
        assert not any((found.profile.rates, found.profile.forget, found.profile.weaknesses)), (loop, found.profile.rates)
        assert all(rate.count == 0 for rate in found.rates.values())
        bound = found.rates["wire.empty"].interval
        assert bound is not None
        assert 0 < bound.high < 0.05


def test_arms_that_meet_the_same_stumbles_are_no_more_data_than_one():
    """Four equal arms: the same rates, and intervals as wide as one arm's."""
    done = known_run("bare")
    one = fitted_to(done)
    same = [trace | {"arm": f"arm {number}"} for trace in traces(done) for number in range(4)]
    four = fit_json(same, timed=False, paired=True)
    for kind in KNOWN:
        alone, pooled = one.rates[kind].interval, four.rates[kind].interval
        assert alone is not None
        assert pooled is not None
        assert pooled.value == pytest.approx(alone.value, abs=1e-9)
        assert pooled.high - pooled.low >= 0.99 * (alone.high - alone.low)


@pytest.mark.slow  # test_likelihoods.py holds it of simulated retries
def test_what_clears_a_fault_comes_out():
    for chance in (1.0, 0.5):
        clears = Clears(never=0, attempts=1, nothing=chance, failed=chance, words=chance)
        rates = {"decision.unknown_tool": 0.1, "decision.wrong_type": 0.1, "wire.empty": 0.1}
        found = fitted_to(run(["finish"], known(rates=rates, clears=clears), size=40, repeats=1)).profile.clears
        assert found.words == pytest.approx(chance, abs=0.15)
        assert found.never == pytest.approx(0, abs=0.1)


@pytest.mark.slow  # test_check.py has a fitted profile reproduce its run
def test_the_fitted_profile_makes_a_similar_run():
    before = run(["bare"], known(bluff=0.0), size=20)
    profile = fitted_to(before).profile
    after = run(["bare"], profile, size=20, seed=1)
    right = [sum(item.record.accuracy for item in done) for done in (before, after)]
    assert abs(right[0] - right[1]) <= 0.15 * len(before)
    calls = [sum(item.record.lm_calls for item in done) for done in (before, after)]
    assert abs(calls[0] - calls[1]) <= 0.15 * calls[0]


@pytest.mark.slow
@pytest.mark.parametrize("loop", LOOPS)
def test_intervals_cover_at_their_level(loop):
    """40 runs: the share of 18 x 40 intervals that hold the rate; 0.95 is nominal, 0.93 what noise of 720 leaves at least."""
    inside = [
        holds(found.rates[kind], rate)
        for seed in range(40)
        for found in [fitted_to(run([loop], known(), size=50, seed=seed))]
        for kind, rate in KNOWN.items()
    ]
    assert sum(inside) / len(inside) >= 0.925


# --- intervals ---


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.1, 50)), min_size=1, max_size=30), st.floats(1, 10))
def test_an_interval_holds_its_rate_and_is_never_empty(shares, effect):
    found = cluster_rate([(share * points, points) for share, points in shares], effect)
    assert found is not None
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.low < found.high


def test_independent_points_give_wilsons_interval_or_a_wider_one():
    pairs = [(1.0, 10.0)] * 3 + [(0.0, 10.0)] * 27
    found = cluster_rate(pairs)
    assert found is not None
    low, high = wilson(3, 300)
    assert (found.low, found.high) == pytest.approx((low, high), rel=0.1)
    assert cluster_rate([]) is None


def test_dependent_points_are_covered_where_wilson_alone_is_not():
    """Rates that differ between tasks (Beta with mean 0.1), 12 points each: simulated coverage of nominal 0.95."""
    random = np.random.default_rng(0)
    clustered, alone = [], []
    for _ in range(400):
        counts = random.binomial(12, random.beta(0.4, 3.6, 60))
        found = cluster_rate([(float(count), 12.0) for count in counts])
        assert found is not None
        clustered.append(found.low <= 0.1 <= found.high)
        low, high = wilson(int(counts.sum()), 720)
        alone.append(low <= 0.1 <= high)
    assert np.mean(clustered) >= 0.92
    assert np.mean(alone) < 0.80


# --- what a raw reply shows ---

ARGUMENTS = st.dictionaries(
    st.text("abcdefgh_", min_size=1, max_size=8), st.integers() | st.text("xyz 01", max_size=9), min_size=1, max_size=4
)
WIRE = tuple(kind for kind in FAULT_KINDS if kind.startswith("wire."))


@given(ARGUMENTS, st.sampled_from(WIRE), st.booleans())
def test_damage_is_told_by_the_reply(arguments, kind, native):
    text = json.dumps({"thought": "Next.", "tool_name": "add", "arguments": arguments})
    clean = Reply("Next.", (native_call(ToolCall("add", arguments)),)) if native else Reply(text)
    assert wire_damage(clean, False) == ""
    assert wire_damage(spoil(kind, clean), True) == kind


@pytest.mark.parametrize(
    ("text", "unreadable", "kind"),
    [
        ("", False, "wire.empty"),
        (" \n", True, "wire.empty"),
        ('```json\n{"a": 1}\n```', False, "wire.fenced"),
        ('{"final_answer": "```\\ncode\\n```"}', False, ""),
        ("[[ ## answer ## ]]\n```python\nx = 1\n```\n[[ ## completed ## ]]", False, ""),
        ("1\n1", False, "wire.duplicated"),
        ("11", False, ""),
        ('{"a": 1}{"a": 1}', True, "wire.duplicated"),
        ("I think the answer is 5.", True, "wire.malformed"),
        ("{'a': 1}", True, "wire.malformed"),
        ("[[ ## next_thought ## ]]\nNext.\n\n[[ ## next_tool_name ## ]]", True, "wire.truncated"),
        ("<output><answer>5</answer>", True, "wire.truncated"),
        ("Thought: Next: add.\nTo", True, "wire.truncated"),
        ('Thought: Next.\nTool: add\nArguments: "a": 1}', True, "wire.malformed"),
    ],
)
def test_damage_by_example(text, unreadable, kind):
    assert wire_damage(Reply(text), unreadable) == kind


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("Tool 'add_v2' not found. Available tools: add", "unknown"),
        ("Tool 'divide': missing argument 'b'. Allowed: a: number, b: number", "missing"),
        ("Tool 'divide': unknown argument 'verbose'. Allowed: a: number", "extra"),
        ("Tool 'divide': argument 'b': Input should be a valid number, got {'about': 8}", "type"),
        ("42", ""),
    ],
)
def test_what_a_refusal_says(text, hint):
    assert hint_of(text) == hint
