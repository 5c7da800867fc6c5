"""Two arms on these very tasks: exact tests of their repeats, paired where these share their draws."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, hypergeom

from tests.cases import cases
from whichloop.experiments.compare.verdict_old.answer import answer
from whichloop.metrics.arm_info import IMPORTED, NO_LIMITS, ArmInfo, TrialLimits
from whichloop.metrics.comparison import compare
from whichloop.metrics.statistics import highest_share
from whichloop.metrics.summary import PRIMARY
from whichloop.metrics.within_tasks import paired_within_tasks, unpaired_within_tasks
from whichloop.protocol import StopReason

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
    assert (one.a, one.b) == (other.b, other.a)
    assert one.p == pytest.approx(other.p)
    assert one.excess == pytest.approx(-other.excess)
    assert replace(one.turned, p=other.p) == other
    if one.a == one.b:
        assert one.p == 1


def test_it_is_the_sign_test_on_the_trials_that_differ(record):
    found = paired_within_tasks(trials(record, "a", [True] * 10 + [False] * 2), trials(record, "b", [False] * 10 + [False] * 2))
    assert found is not None
    assert (found.a, found.b, found.tasks) == (10, 0, 1)
    assert found.p == pytest.approx(2 / 2**10)


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
    assert replace(other.turned, p=one.p, excess=one.excess) == one
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


def test_the_arm_with_more_trials_is_not_ahead_by_their_number(record):
    a, b = of_tasks(record, "a", (20, 20), trials=40), of_tasks(record, "b", (18, 18), trials=20)
    found = unpaired_within_tasks(a, b)
    assert found is not None
    assert found.a > found.b
    assert not found.is_ahead(0.05)
    assert found.turned.is_ahead(0.05)


def test_of_graded_scores_of_imported_runs_nothing_is_claimed(record):
    graded = [record(arm="a", task="t", repeat=repeat, scores={"accuracy": 0.9}) for repeat in range(20)]
    other = [record(arm="b", task="t", repeat=repeat, scores={"accuracy": 0.1}) for repeat in range(20)]
    assert unpaired_within_tasks(graded, other) is None
    assert unpaired_within_tasks(of_tasks(record, "a", (1, 0), trials=1), of_tasks(record, "b", (0, 1), trials=1)) is None
    assert unpaired_within_tasks(graded, []) is None


def compared(record, solved, *, tasks=3, limits=NO_LIMITS, stops=(), calm=None, tokens=None):
    """Compares loops by the scores of their trials; `stops`: how those trials ended, the first loop's first. `calm`: the scores
    under a second profile. `tokens`: what a trial of each loop takes."""
    by_profile = {"rough": solved} | ({} if calm is None else {"calm": calm})
    infos = [ArmInfo(f"{loop}/{air}", loop, {}, "scripted", air, "s") for air, scores in by_profile.items() for loop in scores]
    records = [
        replace(each, input_tokens=(tokens or {}).get(info.loop, 0), output_tokens=0)
        for info in infos
        for each in trials(record, info.arm, by_profile[info.profile][info.loop], tasks)
    ]
    ended = [replace(each, stop=stop) for each, stop in zip(records, stops, strict=False)] + records[len(stops) :]
    return replace(compare(ended, infos), limits=limits)


@given(st.dictionaries(st.sampled_from("abcde"), st.lists(st.booleans(), min_size=6, max_size=6), min_size=2, max_size=5))
def test_in_a_comparison_p_is_multiplied_by_the_number_of_pairs_that_are_tested_so(record, solved):
    pairs = [pair for pair in compared(record, solved, tasks=2).pairs if pair.metric == PRIMARY]
    assert len(pairs) == math.comb(len(solved), 2)
    for pair in pairs:
        alone = paired_within_tasks(*(trials(record, arm, solved[arm[0]], tasks=2) for arm in (pair.a, pair.b)))
        assert alone is not None
        assert pair.within == replace(alone, p=min(1.0, alone.p * len(pairs)), tested=len(pairs))


def test_an_answer_tells_what_repeats_show_of_tasks_that_are_too_few(record):
    first, *others = answer(compared(record, {"a": [True] * 60, "b": [False] * 60})).sentences
    assert first == (
        "On these 3 tasks: adopt a (0 tokens a trial); a is ahead of b (exact test within tasks, p <0.001, adjusted); "
        "a solved 60 of 60 trials and b none; b never solves any of them"
    )
    assert others == ["Of other tasks that decides nothing; for a choice that holds for others, run about 50"]


def test_the_first_sentence_names_what_is_never_solved_and_who_exceeds_the_limit(record):
    limits = TrialLimits("at most $0.0003 a trial", frozenset({StopReason.BUDGET}))
    sometimes = [n % 3 != 2 for n in range(60)]
    scores = {"dear": [False] * 60, "a": [True] * 60, "partly": sometimes}
    said = answer(compared(record, scores, limits=limits, stops=["budget"] * 57)).answer_sentences
    told = next(each for each in said if not each.is_basis)
    assert told.adopts == "a"
    assert told.text.startswith("On these 3 tasks with at most $0.0003 a trial: adopt a (")
    assert told.text.endswith("; partly never solves t2; dear never solves any of them and exceeds the limit in 95 % of its trials")


def test_loops_that_repeats_do_not_tell_apart_are_not_ranked(record):
    scores = {"a": [True] * 40 + [False] * 20, "b": [False] * 20 + [True] * 40}
    made = answer(compared(record, scores))
    assert made.sentences[:2] == (
        "On these 3 tasks no loop is told from another by its repeats: a solved 40 of 60 trials and b 40",
        "Even 1,000 repeats are not likely to tell one loop from another if they go on so",
    )
    assert not any(each.adopts for each in made.answer_sentences)


def test_where_repeats_told_nothing_it_is_said_what_more_of_them_would(record):
    scores = {"a": [True] * 36 + [False] * 24, "b": [True] * 32 + [False] * 28}
    close = answer(compared(record, scores)).sentences[1]
    found = re.fullmatch(r"About --repeats (\d+) would tell a from b if they go on so \(chance about 80 %\)", close)
    assert found is not None
    times = int(found[1]) / 20
    more = {loop: own * math.ceil(times) for loop, own in scores.items()}
    shown = paired_within_tasks(*(trials(record, arm, more[arm], tasks=3) for arm in "ab"))
    assert shown is not None
    assert shown.is_apart(0.05)


SAME = re.compile(
    r"(a and b|a, b and c|a, b, c and d) solved the same in all (\d+) trials; up to about ([\d.]+) % of trials may still differ "
    r"\(rule of three at 95 %\); about --repeats (\d+) would tell (the two|two of them) apart if so many do, all in favour of "
    r"one loop \(chance about 80 %\)"
)


@settings(max_examples=cases(12))
@given(st.integers(1, 8), st.integers(2, 30), st.integers(2, 4))
def test_loops_that_solved_the_same_may_still_differ_and_as_many_repeats_as_are_told_would_show_it(record, tasks, repeats, loops):
    """By the exact law of the test where the share that is told differs, always for the same loop."""
    trials = tasks * repeats
    scores = {name: [n % 3 > 0 for n in range(trials)] for name in "abcd"[:loops]}
    (found,) = filter(None, map(SAME.fullmatch, answer(compared(record, scores, tasks=tasks)).sentences))
    assert (found[1] == "a and b") == (found[5] == "the two") == (loops == 2)
    share = highest_share(trials)
    assert int(found[2]) == trials
    assert int(found[3]) == round(100 * share)
    assert binom.pmf(0, trials, share) == pytest.approx(0.05)
    needed = next(k for k in itertools.count(1) if math.comb(loops, 2) * 2 / 2**k < 0.05)
    chances = [float(binom.sf(needed - 1, tasks * (int(found[4]) - fewer), share)) for fewer in (0, 1)]
    assert chances[0] >= 0.8 > chances[1]


def test_of_many_trials_it_is_the_rule_of_three():
    assert highest_share(1_000) == pytest.approx(3 / 1_000, rel=0.01)


def test_where_tasks_are_enough_what_they_show_of_others_is_told_too(record):
    """Seven tasks may decide a pair; their repeats are told beside it, and alone where nothing is decided of others."""
    apart = answer(compared(record, {"a": [True] * 70, "b": [False] * 70}, tasks=7)).sentences
    assert apart[0].startswith("Adopt a (0 tokens a trial): better than every other loop")
    assert any(line.startswith("On these 7 tasks: adopt a") for line in apart)
    likely = [n % 7 < 4 for n in range(70)]
    close = answer(compared(record, {"a": [True] * 70, "b": likely}, tasks=7)).sentences
    assert close[0].startswith("On these 7 tasks: adopt a")
    assert close[1].startswith("a minus b: 0.429 [-0.102, 0.816] in accuracy")
    assert [*close[2:]] == ["Of other tasks that decides nothing; for a choice that holds for others, run about 50"]
    assert not any(
        "On these" in line for line in answer(compared(record, {"a": [True] * 90, "b": likely + [True] * 20}, tasks=9)).sentences
    )


@settings(max_examples=cases(12))
@given(st.integers(1, 8), st.integers(2, 12), st.randoms(use_true_random=False))
def test_the_table_of_tasks_adds_up_to_what_the_arms_solved(record, tasks, repeats, random):
    scores = {loop: [random.random() < 0.5 for _ in range(tasks * repeats)] for loop in "abc"}
    made = answer(compared(record, scores, tasks=tasks))
    assert made.on_tasks.is_shown
    for row in made.rows:
        own = [each for each in made.on_tasks.to_json() if each["loop"] == row.loop]
        assert sum(each["solved"] for each in own) == sum(scores[row.loop])
        assert [each["trials"] for each in own] == [repeats] * tasks
        assert [f"{each['solved']:.0f}" for each in own] == [
            made.on_tasks.cell(row, task, has_limits=True) for task in made.on_tasks.tasks
        ]


def test_more_tasks_or_none_repeated_have_no_table(record):
    for tasks, number in ((9, 90), (3, 3)):
        made = answer(compared(record, {"a": [True] * number, "b": [False] * number}, tasks=tasks))
        assert not made.on_tasks.is_shown
        assert list(made.on_tasks.to_json()) == []


SEVERAL = st.fixed_dictionaries({loop: st.lists(st.booleans(), min_size=24, max_size=24) for loop in "abcd"})
CLAIM = re.compile(r"([a-d, and]+) (?:is|are) ahead of ([a-d, and]+?)(?: under ([\w, ]+))? \((?:[a-z ]+, )?p (<|= )(0\.\d+|1\.000)")


def told_claims(text):
    """Yields each loop, the one that it is said to be ahead of, the profile, and the largest p."""
    for ahead, behind, under, sign, p in CLAIM.findall(text):
        names = [re.findall(r"\b[abcd]\b", side) for side in (ahead, behind)]
        profiles = re.findall("rough|calm", under) or ["rough"]
        most = float(p) if sign == "<" else float(p) + 0.0005
        yield from ((one, other, profile, most) for one, other, profile in itertools.product(*names, profiles))


@settings(max_examples=cases(12))
@given(SEVERAL, st.none() | SEVERAL, st.fixed_dictionaries({loop: st.integers(0, 3) for loop in "abcd"}))
def test_each_claim_holds_by_its_own_p_and_no_offer_is_behind_or_dearer(record, solved, calm, tokens):
    """Whatever the counts: who is said to be ahead of whom is so under that profile, and p is no smaller than it may be."""
    solved = solved | {"a": [True] * 24}  # ahead of most, so that something is claimed
    made = compared(record, solved, tasks=4, calm=calm, tokens=tokens)
    within = {}
    for pair in made.pairs:
        for turned in (pair, pair.turned) if pair.metric == PRIMARY else ():
            within[turned.a, turned.b] = turned.within
    told = next(each for each in answer(made).answer_sentences if each.text.startswith("On these 4 tasks"))
    for text in (told.text, told.brief):
        for one, other, profile, most in told_claims(text):
            found = within[f"{one}/{profile}", f"{other}/{profile}"]
            assert found.is_ahead(0.05)
            assert found.p <= most
    shown = {(a[0], b[0]) for (a, b), found in within.items() if found.is_ahead(0.05)}
    if shown and not any(turned[::-1] in shown for turned in shown):
        assert {(one, other) for one, other, _, _ in told_claims(told.text)} <= shown
        assert {other for _, other in shown} == {other for _, other, _, _ in told_claims(told.text)}
    offered = [loop for loop in (told.adopts, *told.or_else) if loop]
    assert bool(offered) or not shown or calm is not None
    for loop in offered:
        assert not any(one != loop and (one, loop) in shown and (loop, one) not in shown for one, _ in shown)
    assert [tokens[loop] for loop in offered] == sorted({tokens[loop] for loop in offered}, reverse=True)
    untold = re.search(r"; ([a-d, and]+) (?:is|are) told apart from none", told.text)
    for loop in re.findall(r"\b[abcd]\b", untold[1]) if untold else ():
        assert not any(loop in each for each in shown)


def test_who_is_ahead_of_whom_is_told_with_its_own_p_and_a_cheaper_equal_is_offered(record):
    """The smallest p of all is not given to loops that are told apart from none."""
    solved = {"a": 49, "b": 43, "c": 38, "d": 43}
    scores = {loop: [True] * number + [False] * (50 - number) for loop, number in solved.items()}
    told = answer(compared(record, scores, tasks=5, tokens={"a": 100, "b": 60, "c": 10, "d": 400})).answer_sentences[0]
    assert told.text.startswith(
        "On these 5 tasks: adopt a (100 tokens a trial), or b (60), which is cheaper on each of these tasks; "
        "a is ahead of c (exact test within tasks, p = 0.006, adjusted); b and d are told apart from none; a solved 49 of 50 trials"
    )
    assert (told.adopts, told.or_else) == ("a", ("b",))


def test_where_profiles_contradict_each_other_each_claim_names_its_own(record):
    good, bad = [True] * 30, [False] * 30
    made = answer(compared(record, {"a": good, "b": bad}, calm={"a": bad, "b": good}))
    assert made.sentences[0].startswith(
        "On these 3 tasks no loop is ahead of another one and behind none: "
        "a is ahead of b under rough (exact test within tasks, p <0.001, adjusted); "
        "b is ahead of a under calm (p <0.001, adjusted); "
        "a solved 30 of 60 trials over both profiles"
    )
    assert not any(each.adopts for each in made.answer_sentences)


def test_few_tasks_that_ran_once_are_told_that_repeats_would_tell(record):
    said = answer(compared(record, {"a": [True] * 7, "b": [True] * 5 + [False] * 2}, tasks=7)).sentences
    assert "Undecided between a and b: 7 tasks are too few to tell how many would decide; run about 50 first" in said
    assert said[-1] == "For these 7 tasks alone --repeats 10 may tell, by exact tests within them"
    assert not any("not told apart" in line and "costs" in line for line in said)


def test_on_many_tasks_of_few_clusters_repeats_claim_nothing(record):
    infos = [ArmInfo(arm, arm, {}, "m", IMPORTED, "s") for arm in "ab"]
    records = [
        replace(each, cluster=f"c{int(each.task[1:]) % 4}")
        for arm, right in (("a", 3), ("b", 0))
        for each in of_tasks(record, arm, [right] * 40, trials=3)
    ]
    made = compare(records, infos)
    assert all(pair.within is None for pair in made.pairs)
    assert any("4 clusters of tasks are too few to show any difference" in warning for warning in made.warnings)
