"""Two arms on these very tasks: exact tests of their repeats, paired where these share their draws."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import fisher_exact, hypergeom

from tests.cases import cases
from whichloop.experiments.compare.doc import decision_lines
from whichloop.experiments.compare.verdict import Decision, verdict
from whichloop.metrics.arm_info import IMPORTED, ArmInfo
from whichloop.metrics.comparison import compare
from whichloop.metrics.summary import PRIMARY
from whichloop.metrics.within_tasks import Stratum, drawn_sum, paired_within_tasks, unpaired_within_tasks

SCORES = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=30)


def trials(record, arm, scores, tasks=1):
    return [
        record(arm=arm, task=f"t{n % tasks}", repeat=n // tasks, scores={"accuracy": float(right)})
        for n, right in enumerate(scores)
    ]


@given(SCORES)
def test_turned_round_the_test_is_the_same(record, scores):
    a, b = (trials(record, arm, [pair[n] for pair in scores]) for n, arm in enumerate("ab"))
    one, other = paired_within_tasks(a, b), paired_within_tasks(b, a)
    assert one is not None
    assert other is not None
    assert one.p == pytest.approx(other.p)
    assert one.excess == pytest.approx(-other.excess)
    assert one.turned == (one.p, -one.excess)
    if one.excess == 0:
        assert one.p == 1


def test_without_repeats_nothing_is_known(record):
    a, b = (trials(record, arm, [True, False, True], tasks=3) for arm in "ab")
    assert paired_within_tasks(a, b) is None
    assert paired_within_tasks(a, []) is None


LISTS = st.lists(st.booleans(), min_size=2, max_size=12)


@given(st.lists(st.tuples(LISTS, LISTS), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_the_order_of_repeats_that_share_nothing_does_not_matter(record, tasks, random):
    def arm(name, which, shuffled):
        return [
            record(arm=name, task=f"t{task}", repeat=repeat, scores={"accuracy": float(right)})
            for task, lists in enumerate(tasks)
            for repeat, right in enumerate(random.sample(lists[which], len(lists[which])) if shuffled else lists[which])
        ]

    one = unpaired_within_tasks(arm("a", 0, False), arm("b", 1, False))
    assert one is not None
    assert one == unpaired_within_tasks(arm("a", 0, True), arm("b", 1, True))
    other = unpaired_within_tasks(arm("b", 1, True), arm("a", 0, True))
    assert other is not None
    assert (other.p, other.excess) == pytest.approx((one.p, -one.excess), abs=1e-9)


def of_tasks(record, arm, solved, trials=30):
    return [
        record(arm=arm, task=f"t{task}", repeat=repeat, scores={"accuracy": float(repeat < right)})
        for task, right in enumerate(solved)
        for repeat in range(trials)
    ]


def test_imported_repeats_are_drawn_within_tasks_and_those_of_own_runs_paired(record):
    solved = {"a": (25, 24, 20, 22), "b": (21, 20, 19, 20)}
    law, reached = np.ones(1), 0
    for one, other in zip(*solved.values(), strict=True):
        least = max(0, one + other - 30)
        law = np.convolve(law, hypergeom(60, one + other, 30).pmf(range(least, min(30, one + other) + 1)))
        reached += one - least
    expected = 2 * law[reached:].sum()
    assert expected == pytest.approx(0.154, abs=0.0005)
    records = [each for arm, counts in solved.items() for each in of_tasks(record, arm, counts)]
    for profile, p in ((IMPORTED, expected), ("rough", 2 / 2**11)):
        made = compare(records, [ArmInfo(arm, arm, {}, "m", profile, "s") for arm in solved])
        within = next(pair for pair in made.pairs if pair.metric == PRIMARY).within
        assert within is not None
        assert within.p == pytest.approx(p)


def test_of_graded_scores_of_imported_runs_nothing_is_claimed(record):
    graded = [record(arm="a", task="t", repeat=repeat, scores={"accuracy": 0.9}) for repeat in range(20)]
    other = [record(arm="b", task="t", repeat=repeat, scores={"accuracy": 0.1}) for repeat in range(20)]
    assert unpaired_within_tasks(graded, other) is None
    assert unpaired_within_tasks(of_tasks(record, "a", (1, 0), trials=1), of_tasks(record, "b", (0, 1), trials=1)) is None
    assert unpaired_within_tasks(graded, []) is None


def compared(record, solved, *, tasks=3, calm=None):
    """Compares loops by the scores of their trials; `calm`: their scores under a second profile."""
    by_profile = {"rough": solved} | ({} if calm is None else {"calm": calm})
    infos = [ArmInfo(f"{loop}/{air}", loop, {}, "scripted", air, "s") for air, scores in by_profile.items() for loop in scores]
    return compare([each for info in infos for each in trials(record, info.arm, by_profile[info.profile][info.loop], tasks)], infos)


@given(st.dictionaries(st.sampled_from("abcde"), st.lists(st.booleans(), min_size=6, max_size=6), min_size=2, max_size=5))
def test_in_a_comparison_p_is_multiplied_by_the_number_of_pairs_that_are_tested_so(record, solved):
    pairs = [pair for pair in compared(record, solved, tasks=2).pairs if pair.metric == PRIMARY]
    assert len(pairs) == math.comb(len(solved), 2)
    for pair in pairs:
        alone = paired_within_tasks(*(trials(record, arm, solved[arm[0]], tasks=2) for arm in (pair.a, pair.b)))
        assert alone is not None
        assert pair.within == (min(1.0, alone.p * len(pairs)), alone.excess)


def test_what_repeats_show_of_tasks_that_are_too_few_is_told_as_of_these_tasks(record):
    found = verdict(compared(record, {"a": [True] * 60, "b": [False] * 60}))
    assert found.decision == Decision("Adopt", ("a",))
    assert found.is_of_these_tasks
    assert list(decision_lines(found, "3 tasks")) == [("Adopt", "a (on these 3 tasks)")]


@settings(max_examples=cases(12))
@given(st.integers(1, 8), st.integers(2, 12), st.randoms(use_true_random=False))
def test_the_table_of_tasks_adds_up_to_what_the_arms_solved(record, tasks, repeats, random):
    scores = {loop: [random.random() < 0.5 for _ in range(tasks * repeats)] for loop in "abc"}
    on_tasks = compared(record, scores, tasks=tasks).on_tasks
    for loop, own in scores.items():
        each = [*on_tasks[f"{loop}/rough"].values()]
        assert sum(solved for solved, _ in each) == sum(own)
        assert [trials for _, trials in each] == [repeats] * tasks


SEVERAL = st.fixed_dictionaries({loop: st.lists(st.booleans(), min_size=24, max_size=24) for loop in "abcd"})


@settings(max_examples=cases(12))
@given(SEVERAL, st.none() | SEVERAL)
def test_what_is_adopted_on_few_tasks_is_behind_no_other_loop(record, solved, calm):
    """Whatever the counts: the verdict follows what is shown in some profile, and of these tasks alone."""
    made = compared(record, solved | {"a": [True] * 24}, tasks=4, calm=calm)  # ahead of most, so that something is shown
    found = verdict(made)
    turned = [each for pair in made.pairs_on(PRIMARY) for each in (pair, pair.turned)]
    shown = {
        (pair.a[0], pair.b[0])
        for pair in turned
        if pair.within is not None and pair.within.is_apart(0.05) and pair.within.excess > 0
    }
    unbeaten = {loop for loop in "abcd" if not any(behind == loop for _, behind in shown)}
    assert found.decision is not None
    assert found.is_of_these_tasks == bool(shown)
    assert found.decision.outcome == {0: "Depends", 1: "Adopt"}.get(len(unbeaten), "Undecided")
    assert set(found.decision.loops) == unbeaten


def test_on_many_tasks_of_few_clusters_repeats_claim_nothing(record):
    infos = [ArmInfo(arm, arm, {}, "m", IMPORTED, "s") for arm in "ab"]
    records = [
        replace(each, cluster=f"c{int(each.task[1:]) % 4}")
        for arm, right in (("a", 3), ("b", 0))
        for each in of_tasks(record, arm, [right] * 40, trials=3)
    ]
    made = compare(records, infos)
    assert all(pair.within is None for pair in made.pairs)
    assert [each.numbers["units"] for each in made.caveats if each.code == "few clusters"] == [4]


@st.composite
def strata(draw):
    trials, others = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    solved, by_others = draw(st.integers(0, trials)), draw(st.integers(0, others))
    return Stratum(solved, trials, solved + by_others, trials + others)


def turned(stratum):
    return Stratum(stratum.all_solved - stratum.solved, stratum.all_trials - stratum.trials, stratum.all_solved, stratum.all_trials)


@given(strata())
def test_the_law_of_one_stratum_is_hypergeometric(stratum):
    law = hypergeom(stratum.all_trials, stratum.all_solved, stratum.trials)
    chances = [law.pmf(stratum.least + place) for place in range(len(stratum.law))]
    assert stratum.law == pytest.approx(chances)
    tails, excess = drawn_sum([stratum])
    expected = math.fsum(solved * chance for solved, chance in enumerate(chances, stratum.least))
    assert excess == pytest.approx(stratum.solved - expected, abs=1e-9)
    rest = turned(stratum)
    table = [[stratum.solved, stratum.trials - stratum.solved], [rest.solved, rest.trials - rest.solved]]
    assert tails.greater == pytest.approx(fisher_exact(table, alternative="greater").pvalue)
    assert tails.less == pytest.approx(fisher_exact(table, alternative="less").pvalue)


@given(st.lists(strata(), min_size=1, max_size=6), st.floats(0.001, 0.5))
def test_under_the_null_p_is_at_most_alpha_with_a_chance_of_alpha_whatever_the_margins(found, alpha):
    law = np.ones(1)
    for stratum in found:
        law = np.convolve(law, stratum.law)
    tails = [(law[place:].sum(), law[: place + 1].sum()) for place in range(len(law))]
    rejected = [chance for chance, pair in zip(law, tails, strict=True) if 2 * min(pair) <= alpha]
    assert math.fsum(rejected) <= alpha + 1e-9
