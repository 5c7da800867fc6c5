"""Warnings about trials that are not in an arm's means: one of each kind, however many arms there are."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.arm_warnings import MAX_ERRORED
from whichloop.metrics.comparison import Comparison, compare

TASKS = 40


def compared(record, left: dict[str, tuple[int, int]]) -> Comparison:
    """Compare arms. `left`: arm → errored trials of 40, which have no score, and trials whose cost is not known."""
    infos = [ArmInfo(arm, arm, {}, "scripted", "clean", "s") for arm in left]
    records = [
        record(
            arm=arm,
            task=f"t{task:02}",
            status="errored" if task < errored else "scored",
            reason="429" if task < errored else "",
            cost_usd=None if task >= TASKS - unknown else 0.1,
            scores={} if task < errored else {"accuracy": 1.0},
        )
        for arm, (errored, unknown) in left.items()
        for task in range(TASKS)
    ]
    return compare(records, infos)


@given(left=st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.integers(0, 9), st.integers(0, 20)), min_size=1))
@settings(max_examples=cases(20))
def test_trials_without_a_score_stand_in_one_warning_before_the_costs(record, left: dict[str, tuple[int, int]]) -> None:
    warnings = compared(record, left).warnings
    told = [warning for warning in warnings if "errored and left out" in warning.lower()]
    costs = [place for place, warning in enumerate(warnings) if "cost is known" in warning]
    most = max(errored for errored, _ in left.values())
    assert len(told) == bool(most)
    assert costs == ([len(warnings) - 1] if any(unknown for _, unknown in left.values()) else [])
    if most:
        assert f"{most / TASKS:.1%} of" in told[0]
        assert ("may bias" in told[0]) == (len({errored for errored, _ in left.values()}) > 1)


def test_of_many_arms_the_ones_that_lack_most_are_named(record) -> None:
    errored, *_, costs = compared(record, {name: (number, number) for number, name in enumerate("abcdef", 1)}).warnings
    assert errored == (
        "Errored and left out: 15.0% of the trials of f, 12.5% of e, 10.0% of d and 3 more arms, all of them because of: 429. "
        "The shares of a and f differ by 12.5 points, which may bias their comparison."
    )
    assert costs == (
        "The cost is known for 28 of the 34 scored trials of f, 30 of the 35 of e, 32 of the 36 of d and 3 more arms; "
        "each mean is over these. Between a and f the shares of trials where the cost is known differ by 15.1 points, which may "
        "bias their comparison."
    )


@given(known=st.dictionaries(st.sampled_from("abc"), st.integers(1, TASKS), min_size=1))
def test_seconds_that_some_trials_lack_are_told_with_the_arms_whose_shares_differ(record, known: dict[str, int]) -> None:
    """The law: a warning where an arm lacks some, and a second sentence where two arms lack unlike shares."""
    infos = [ArmInfo(arm, arm, {}, "scripted", "clean", "s") for arm in known]
    records = [
        record(arm=arm, task=f"t{task:02}", cost_usd=0.1, unknown=() if task < number else ("seconds",))
        for arm, number in known.items()
        for task in range(TASKS)
    ]
    said = " ".join(compare(records, infos).warnings)
    assert ("duration in seconds is known for" in said) == (min(known.values()) < TASKS)
    differ = "shares of trials where the duration in seconds is known differ" in said
    assert differ == (len({*known.values()}) > 1)
    for arm, number in known.items():
        if number < TASKS:
            assert f"{number} of " in said, arm


@given(gone=st.dictionaries(st.sampled_from("abc"), st.sets(st.integers(0, TASKS - 1), max_size=8), min_size=2))
@settings(max_examples=cases(15))
def test_repeats_that_a_file_lacks_are_told_as_errored_ones_are(record, gone: dict[str, set[int]]) -> None:
    """`gone`: arm → tasks whose second repeat has no row. Nobody has a third repeat of any task but the first arm."""
    infos = [ArmInfo(arm, arm, {}, "unknown", "imported", "s") for arm in gone]
    records = []
    for place, (arm, lost) in enumerate(gone.items()):
        for task in range(TASKS):
            for repeat in range(3):
                is_there = repeat == 0 or (repeat == 1 and task not in lost) or (repeat == 2 and place == 0)
                status, reason = ("scored", "") if is_there else ("excluded", "not in x.csv")
                records.append(record(arm=arm, task=f"t{task}", repeat=repeat, status=status, reason=reason))
    told = [warning for warning in compare(records, infos).warnings if "repeats that are excluded" in warning.lower()]
    shares = [len(lost) / (3 * TASKS) for lost in gone.values()]
    assert len(told) == (max(shares) > MAX_ERRORED)
    if told:
        assert f"{max(shares):.1%} of " in told[0]
        assert told[0].count("all of them because of: not in x.csv.") == 1
        assert ("may bias" in told[0]) == (max(shares) - min(shares) > MAX_ERRORED)
