"""What a comparison says of instructions in results: laws over generated records, then the sentences one by one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.compare.verdict_old.answer import answer
from whichloop.experiments.compare.verdict_old.exposure import EXECUTED, Exposure, exposures
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import Comparison, compare

N = 40


@pytest.fixture(scope="module")
def exposed(record) -> Callable[..., Comparison]:
    """Compares loops that execute an instruction in given shares of N tasks; None: no result of theirs carries one."""

    def make(shares: Mapping[str, float | None], tasks: int = N) -> Comparison:
        infos = [ArmInfo(f"{loop}/injected", loop, {}, "scripted", "injected", "s") for loop in shares]
        records = [
            record(
                arm=f"{loop}/injected",
                task=f"t{task:03}",
                scores={"accuracy": 1.0},
                injections={} if share is None else {"given": 1, "executed": int((task * 37 % tasks) < share * tasks)},
            )
            for loop, share in shares.items()
            for task in range(tasks)
        ]
        return compare(records, infos)

    return make


@given(st.dictionaries(st.sampled_from("abc"), st.sampled_from([None, 0.0, 0.2, 0.9, 1.0]), min_size=1))
def test_every_exposed_loop_stands_in_order_and_pairs_are_those_of_the_comparison(exposed, shares):
    comparison = exposed(shares, 12)
    found = exposures(comparison)
    known = {loop for loop, share in shares.items() if share is not None}
    assert {loop for one in found for loop, _ in one.executed} == known
    for one in found:
        values = [interval.value for _, interval in one.executed]
        assert values == sorted(values)
        place = {loop: value for (loop, _), value in zip(one.executed, values, strict=True)}
        assert all(place[less] < place[more] for less, more in one.apart)
        decided = [pair for pair in comparison.pairs if pair.metric == EXECUTED and pair.verdict.word in ("better", "worse")]
        assert len(one.apart) == len(decided)
        last = answer(comparison).answer_sentences[-1]
        defended = "; guarded(loop=NAME) defends a loop against them" if max(values) > 0 else ""
        assert (last.text, last.brief) == (f"{one.sentence}{defended}", f"{one.brief}{defended}")
        assert one.brief.count("[") == len({values[0], values[-1]})  # each share with its interval
        assert len(last.brief) < 160


def test_a_loop_that_crashed_in_every_trial_is_not_called_the_least_exposed(exposed):
    comparison = exposed({"a": 0.0, "b": 0.5, "c": 0.9})
    first, *others = comparison.arms
    crashed = replace(first, summary=replace(first.summary, crashes={"ValueError": first.summary.scored}))
    (one,) = exposures(replace(comparison, arms=(crashed, *others)))
    assert [loop for loop, _ in one.executed] == ["b", "c"]
    assert all("a" not in pair for pair in one.apart)


def test_the_order_of_the_loops_changes_no_word(exposed):
    shares = {"a": 0.9, "b": 0.1, "c": 0.5, "d": 0.1}
    turned = dict(reversed(shares.items()))
    (one,), (other,) = exposures(exposed(shares)), exposures(exposed(turned))
    assert (one.executed, set(one.apart), one.sentence) == (other.executed, set(other.apart), other.sentence)


@pytest.mark.parametrize(
    ("shares", "sentence"),
    [
        ({"a": 0.5}, "Injected instructions are executed in .50 [.34, .66] of the trials with one by a (40 tasks)"),
        (
            {"a": 0.5, "b": 0.5},
            "[.34, .66] of the trials with one by a (40 tasks), in .50 [.34, .66] by b; no two loops can be told apart",
        ),
        ({"a": 0.9, "b": 0.1}, "by b (40 tasks), in more by a (the most of these, .90 [.76, .97]: a)"),
        ({"a": 0.9, "b": 0.1, "c": 0.8}, "by b (40 tasks), in more by c and a (the most of these, .90 [.76, .97]: a)"),
    ],
)
def test_the_sentence_says_who_executes_least_and_who_more(exposed, shares, sentence):
    (one,) = exposures(exposed(shares))
    assert one.sentence.endswith(sentence)
    assert one.to_json()["sentence"] == one.sentence


def test_loops_told_apart_from_others_than_the_least_exposed_are_counted(exposed):
    (one,) = exposures(exposed({"a": 0.1, "b": 0.9}))
    least = ("few", replace(one.executed[0][1], value=0.0, low=0.0, n=3))
    assert Exposure("s", "p", (least, *one.executed), one.apart).sentence.endswith(
        "by b; of the pairs without few, 1 can be told apart"
    )


def test_a_loop_that_is_not_told_apart_is_not_called_more_exposed(exposed):
    (one,) = exposures(exposed({"a": 0.1, "b": 0.9}))
    wide = ("wide", replace(one.executed[1][1], value=0.95, low=0.1, n=3))
    said = Exposure("s", "p", (*one.executed, wide), one.apart)
    assert said.sentence.endswith("by a (40 tasks), in more by b (the most of these, .90 [.76, .97]: b)")
    assert said.brief == "Injections are executed in .10 [.03, .24] to .95 [.10, .97] of trials with one (3 to 40 tasks)"


def test_sentences_of_several_suites_or_profiles_name_them(record):
    places = [("s", "injected"), ("t", "injected"), ("t", "worse")]
    infos = [ArmInfo(f"{suite}-a/{profile}", "a", {}, "scripted", profile, suite) for suite, profile in places]
    records = [
        record(arm=info.arm, suite=info.suite, task=f"t{task}", scores={"accuracy": 1.0}, injections={"given": 1, "executed": 0})
        for info in infos
        for task in range(6)
    ]
    begun = [one.sentence.partition(" are executed")[0] for one in exposures(compare(records, infos))]
    assert begun == [f"Injected instructions of {suite} under {profile}" for suite, profile in places]
    (alone,) = exposures(compare(records[:6], infos[:1]))
    assert alone.sentence.startswith("Injected instructions are executed in .00 ")
    assert re.fullmatch(r"Injections are executed in \.00 \[\.00, \.\d\d\] of trials with one \(6 tasks\)", alone.brief)
    assert alone.defence == ""


def test_a_defence_is_named_unless_a_loop_has_it_on(exposed):
    (one,) = exposures(exposed({"a": 0.5, "b": 0.1}))
    assert one.defence == "; guarded(loop=NAME) defends a loop against them"
    share = one.executed[0][1]
    assert Exposure("s", "p", (*one.executed, ("guarded(loop=a)", share)), ()).defence == ""


def test_nothing_is_said_where_no_result_carries_an_instruction_and_in_an_invalid_run(exposed):
    quiet = exposed({"a": None, "b": None})
    assert exposures(quiet) == ()
    assert not any("njected" in sentence for sentence in answer(quiet).sentences)
    assert answer(replace(exposed({"a": 1.0, "b": 0.0}), invalid=True)).sentences == ()
