"""Warnings of a comparison: when each is told, of whom, and with which numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.metrics.test_comparison import arm, outcomes, record
from whichloop.metrics.caveats import MAX_ERRORED, Caveat, common_tasks, in_order
from whichloop.metrics.comparison import compare
from whichloop.metrics.record import FaultRecord, Record

TASKS = 40
GONE = "not in x.csv"


def told(records: Sequence[Record], names: str = "") -> dict[str, list[Caveat]]:
    """Code → the warnings of a comparison of the records' arms."""
    found = compare(records, [arm(name) for name in names or dict.fromkeys(each.arm for each in records)]).caveats
    assert found == in_order(found)
    made = [caveat.to_json() for caveat in found]  # with its text, made of its numbers
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    return {code: [each for each in found if each.code == code] for code in dict.fromkeys(each.code for each in found)}


def left_out(name: str, tasks: Sequence[int], reason: str = GONE, **changes: Any) -> list[Record]:
    return [record(name, task, status="excluded", reason=reason, **changes) for task in tasks]


@given(left=st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.integers(0, 9), st.integers(0, 20)), min_size=1))
@settings(max_examples=cases(20))
def test_errored_trials_and_unknown_costs_of_each_arm_are_told_and_where_two_differ_most(left):
    """`left`: arm → errored trials of 40, which have no score, and trials whose cost is not known."""
    records = [
        record(name, task, status="errored" if task < errored else "scored", reason="429" if task < errored else "",
               cost_usd=None if task >= TASKS - unknown else 0.1)
        for name, (errored, unknown) in left.items()
        for task in range(TASKS)
    ]  # fmt: skip
    found = told(records)
    errored = {name: many for name, (many, _) in left.items() if many > MAX_ERRORED * TASKS}
    assert {each.arms[0]: each.numbers["trials"] for each in found.get("errored trials", [])} == errored
    assert [each.numbers["trials"] for each in found.get("errored trials", [])] == sorted(errored.values(), reverse=True)
    assert all(each.numbers["reasons"] == {"429": each.numbers["trials"]} for each in found.get("errored trials", []))
    known = {name: (TASKS - errored - unknown, TASKS - errored) for name, (errored, unknown) in left.items()}
    costs = {each.arms[0]: (each.numbers["trials"], each.numbers["of"]) for each in found.get("costs not known", [])}
    assert costs == {name: shares for name, shares in known.items() if shares[0] < shares[1]}
    for code, shares in (
        ("errored unlike", [many / TASKS for many, _ in left.values()]),
        ("costs unlike", [one / of for one, of in known.values()]),
    ):
        gap = max(shares) - min(shares)
        assert [each.numbers["points"] for each in found.get(code, [])] == ([pytest.approx(100 * gap)] if gap > MAX_ERRORED else [])


@given(gone=st.dictionaries(st.sampled_from("abc"), st.sets(st.integers(0, TASKS - 1), max_size=8), min_size=2))
@settings(max_examples=cases(15))
def test_repeats_that_a_file_lacks_are_told_as_errored_ones_are(gone):
    """`gone`: arm → tasks whose second repeat has no row. Nobody has a third repeat of any task but the first arm."""
    records = []
    for place, (name, lost) in enumerate(gone.items()):
        for task in range(TASKS):
            for repeat in range(3):
                is_there = repeat == 0 or (repeat == 1 and task not in lost) or (repeat == 2 and place == 0)
                records += [record(name, task, repeat=repeat)] if is_there else left_out(name, [task], repeat=repeat)
    found = told(records)
    many = {name: len(lost) for name, lost in gone.items() if len(lost) > MAX_ERRORED * 3 * TASKS}
    assert {each.arms[0]: each.numbers["trials"] for each in found.get("lost repeats", [])} == many
    assert all(each.numbers["reasons"] == {GONE: each.numbers["trials"]} for each in found.get("lost repeats", []))
    shares = [len(lost) / (3 * TASKS) for lost in gone.values()]
    assert ("lost unlike" in found) == (max(shares) - min(shares) > MAX_ERRORED)


def test_a_cost_that_no_trial_or_every_trial_tells_is_no_warning():
    known = [record("a", task, cost_usd=0.1) for task in range(3)]
    unknown = [record("a", task, unknown=("tokens",)) for task in range(3, 5)]
    costs = {each.numbers["cost"]: each.numbers["trials"] for each in told([*known, *unknown])["costs not known"]}
    assert costs == {"tokens": 3, "dollars": 3}
    assert told(known) == told(unknown) == {}


def test_faults_that_did_not_land_make_the_run_invalid():
    faults = tuple(FaultRecord("tool.slow", f"decide:c{place}", landed=place < 9) for place in range(10))
    records = [record("a", 0, faults=faults)]
    assert compare(records, [arm("a")]).invalid
    assert told(records)["faults did not land"] == [Caveat("faults did not land", ("a",), {"landed": 9, "scheduled": 10})]


@pytest.mark.parametrize(("right", "wrong", "is_told"), [(5, 9, False), (6, 9, True), (1, 0, False), (0, 99, False)])
def test_answers_that_no_prompt_showed_are_warned_of_beyond_chance(right, wrong, is_told):
    """Only those that are right count: one that is wrong gains nothing."""
    shown = 100 - right - wrong if right > 1 else 0
    kinds = [(1.0, True)] * right + [(0.0, True)] * wrong + [(1.0, False)] * shown
    records = [record("a", task, score, answer_unseen=unseen) for task, (score, unseen) in enumerate(kinds)]
    assert compare(records, [arm("a")]).to_json()["arms"][0]["right_unseen"] == right
    assert ("right though never shown" in told(records)) is is_told


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_a_pair_is_told_of_if_it_shares_less_than_nine_tenths_of_the_larger_arm(shared, only_a, only_b):
    scored = {"a": shared + only_a, "b": shared + only_b}
    is_partial = 10 * shared < 9 * max(scored.values())
    expected = [Caveat("fewer common tasks", ("a", "b"), {"tasks": shared, "of": max(scored.values()), "pairs": 1})]
    apart = [Caveat("no common tasks", ("a", "b"), {"pairs": 1})]
    assert list(common_tasks(scored, {("a", "b"): shared})) == (apart if not shared else expected if is_partial else [])


def test_of_several_pairs_the_worst_is_named():
    apart, partial = common_tasks({"a": 30, "b": 9, "c": 5}, {("a", "b"): 9, ("a", "c"): 0, ("b", "c"): 5})
    assert apart == Caveat("no common tasks", ("a", "c"), {"pairs": 1})
    assert partial == Caveat("fewer common tasks", ("b", "c"), {"tasks": 5, "of": 9, "pairs": 2})
    four = [item for name in "abcd" for item in outcomes(name, [1.0] * 4)]
    assert told(four) == {"few tasks": [Caveat("few tasks", ("a", "b"), {"units": 4, "pairs": 6})]}
    shared = [replace(each, cluster=f"c{int(each.task[1:]) % 4}") for name in "ab" for each in outcomes(name, [1.0] * 40)]
    assert told(shared) == {"few clusters": [Caveat("few clusters", ("a", "b"), {"units": 4, "pairs": 1})]}


def test_an_arm_that_leaves_tasks_out_is_named_unless_all_leave_out_the_same():
    whole, some = outcomes("a", [1.0] * 10), [*outcomes("b", [1.0] * 6), *left_out("b", range(6, 10))]
    numbers = {"tasks": 4, "of": 10, "reasons": {GONE: 4}}
    assert told([*whole, *some])["tasks left out"] == [Caveat("tasks left out", ("b",), numbers)]
    both = [*some, *(replace(each, arm="a") for each in some)]
    assert told(both)["tasks left out"] == [Caveat("tasks left out", (), numbers)]
    again = [*whole, *left_out("a", range(3), repeat=2)]  # arms may have unequal repeats: what one lacks takes no task away
    assert "tasks left out" not in told([*again, *(replace(each, arm="b") for each in whole)])
    assert not compare(both, [arm("a"), arm("b")]).invalid
    assert "tasks left out" not in told([*outcomes("a", [1.0] * 20), *left_out("a", [20])])
    assert compare([*outcomes("a", [1.0]), *left_out("b", [1])], [arm("a"), arm("b")]).pairs == ()
    assert list(told([record("a", 0), *left_out("b", [1])])) == ["no scored trial", "no common tasks", "tasks left out"]


@given(st.integers(1, 20), st.integers(0, 20))
def test_any_task_that_a_broken_tool_leaves_out_makes_the_run_invalid_and_is_told_first(broken, whole):
    reason = "the plan does not replay: OSError: gone"
    records = [*left_out("a", range(broken), reason), *(record("a", broken + task) for task in range(whole))]
    assert compare(records, [arm("a")]).invalid
    numbers = {"tasks": broken, "of": broken + whole, "reasons": {"OSError: gone": broken}}
    assert next(iter(told(records).values())) == [Caveat("plans do not replay", (), numbers)]


def test_what_a_recording_lacks_makes_the_run_invalid():
    records = [*outcomes("a", [1.0] * 3), record("a", 3, status="errored", errors={"recording": 1})]
    assert compare(records, [arm("a")]).invalid
    assert told(records)["recording lacks requests"] == [Caveat("recording lacks requests", (), {"trials": 1, "of": 4})]


def test_an_arm_that_never_asked_its_model_is_told_and_compared_with_none():
    silent = outcomes("silent", [1.0] * 30, calls={})
    records = [*outcomes("a", [1.0, 0.0] * 15), *outcomes("b", [1.0] * 30), *silent]
    found = compare(records, [arm("a"), arm("b"), arm("silent")])
    assert {(item.a, item.b) for item in found.pairs} == {("a", "b")}
    assert found.caveats[0] == Caveat("never asked", ("silent",), {"trials": 30})
    (dead,) = found.dead_arms_json()
    assert (dead["arm"], dead["cause"], dead["sentence"]) == ("silent", "never asked", found.caveats[0].text)
    assert not found.invalid  # the verdict on the others holds
    assert compare(silent, [arm("silent")]).invalid


def test_one_call_in_one_trial_is_an_agent_and_so_is_what_nobody_counted_or_a_budget_refused():
    one = [*outcomes("a", [1.0] * 9, calls={}), record("a", 9)]
    untold = outcomes("a", [1.0] * 9, calls={}, unknown=("lm_calls",))
    refused = outcomes("a", [0.0] * 9, calls={}, stop="budget")
    assert not [records for records in (one, untold, refused) if "never asked" in told(records)]


@pytest.mark.parametrize("asked", [True, False])
def test_an_arm_whose_trials_all_crashed_is_told_with_the_reason(asked):
    crashed = outcomes("b", [0.0] * 10, stop="crashed", reason="KeyError: 'x'", **({} if asked else {"calls": {}}))
    found = compare([*outcomes("a", [1.0] * 10), *crashed], [arm("a"), arm("b")])
    assert found.caveats[0] == Caveat("always crashed", ("b",), {"trials": 10, "reasons": {"KeyError: 'x'": 10}})
    assert ("never asked" in {each.code for each in found.caveats}) is not asked
    assert (bool(found.pairs), found.invalid) == (asked, False)
    assert [(dead["arm"], dead["cause"]) for dead in found.dead_arms_json()] == [("b", "crashed")]
    assert compare(crashed, [arm("b")]).invalid
    assert not compare([*crashed[:-1], record("b", 9)], [arm("b")]).invalid
