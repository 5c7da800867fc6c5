"""What stands before a verdict under measured profiles: means that few models make, two estimates, and the form of calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from whichloop.experiments.compare.measured_forms import are_mixed, estimated_twice
from whichloop.experiments.compare.verdict_old.answer import answer, answer_json
from whichloop.experiments.compare.verdict_old.basis import basis
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import Comparison, compare
from whichloop.models.evidence import FAR, faults_of_few_models, other_estimate
from whichloop.models.profiles import built_in_profiles, load_profile
from whichloop.protocol.names import Spec
from whichloop.reports.html.verdict import matrix
from whichloop.runs.built_in import builtin_names, form_option
from whichloop.runs.registry import find

MEANS, MEDIANS = "measured-2024", "measured-2024-median"
Solved = Mapping[tuple[str, Any, str], Sequence[int]]
"""Loop, its options and the form of its calls → of ten tasks those solved, by profile."""


@pytest.fixture(scope="session")
def compared(record) -> Callable[..., Comparison]:
    def make(profiles: Sequence[str], solved: Solved) -> Comparison:
        infos, records = [], []
        for (loop, value, form), shares in solved.items():
            options = {} if value is None else {"fences" if value == "read" else "decision_format": value}
            named = str(Spec(loop, options))
            for profile, share in zip(profiles, shares, strict=True):
                met = profile.replace("measured", form) if profile.startswith("measured") else ""
                info = ArmInfo(f"{named}/{profile}", loop, options, "scripted", profile, "s", form, met)
                infos.append(info)
                records += [
                    record(arm=info.arm, task=f"t{task}", scores={"accuracy": float(task % 10 < share)}) for task in range(60)
                ]
        return compare(records, infos)

    return make


FINISH, BARE, NATIVE = ("finish", None, "native"), ("bare", None, "text"), ("bare", "native", "native")
FENCES_READ = ("bare", "read", "text")


def test_every_profile_of_means_has_one_of_medians_and_the_other_way_round():
    for name in built_in_profiles():
        other = other_estimate(name)
        assert not other or (other_estimate(other) == name and other != name)
    assert (other_estimate(MEANS), other_estimate("clean"), other_estimate("no-such")) == (MEDIANS, "", "")


def test_faults_of_few_models_are_those_whose_mean_is_far_above_the_median():
    for name in built_in_profiles():
        for fault in faults_of_few_models(name):
            assert fault.mean == load_profile(name).rates[fault.kind] >= max(2 * fault.median, fault.median + FAR)
    assert [fault.kind for fault in faults_of_few_models("text-2024")] == ["wire.fenced", "wire.malformed"]
    assert faults_of_few_models("native-2024") == faults_of_few_models("text-2024-median") == []


def test_a_claim_under_means_names_what_few_models_do_and_the_medians(compared):
    _, first, second, verdict, *_ = answer(compared([MEANS], {FINISH: [9], BARE: [5]})).answer_sentences
    assert "text-2024: wire.fenced 13 % of replies on average, 0 % at the median" in first.text
    assert first.text.endswith(f"add --profile {MEDIANS} to see what holds for the median model")
    assert second.command == ("whichloop", "ablate", "bare", "--factor", "decision_format=json,native", "--profile", MEANS)
    assert verdict.text.startswith("Adopt finish (")
    assert [each.is_basis for each in (first, second, verdict)] == [True, True, False]


def test_a_claim_on_few_tasks_by_their_repeats_rests_on_the_same(compared, record):
    one_each = compared([MEANS], {FINISH: [9], BARE: [5]})
    repeats = [
        record(arm=arm.info.arm, task=f"t{task}", repeat=repeat, scores={"accuracy": float(repeat < solved)})
        for arm, solved in zip(one_each.arms, (20, 12), strict=True)
        for task in range(4)
        for repeat in range(20)
    ]
    made = compare(repeats, [arm.info for arm in one_each.arms])
    assert not any(pair.verdict.word in ("better", "worse") for pair in made.pairs if pair.metric == "accuracy")
    _, first, second, verdict, *_ = answer(made).answer_sentences
    assert first.text.startswith(f"{MEANS} holds means over models")
    assert "write their calls in different forms" in second.text
    assert verdict.text.startswith("On these 4 tasks: adopt finish")


def test_what_closes_the_verdicts_on_a_few_tasks_says_that_it_is_of_other_tasks(compared, record):
    arms = [arm.info for arm in compared([MEANS, MEDIANS], {FINISH: [9, 9], BARE: [5, 5]}).arms]
    solved = {"finish": 20, "bare": 12}
    repeats = [
        record(
            arm=arm.arm,
            task=f"t{task}",
            repeat=repeat,
            scores={"accuracy": float(repeat < solved[arm.loop] - (arm.profile == MEANS))},
        )
        for arm in arms
        for task in range(4)
        for repeat in range(20)
    ]
    lines = answer(compare(repeats, arms)).sentences
    assert "Adopt finish on these 4 tasks under both profiles" in lines
    closing = "Under both profiles no loop is shown to beat finish and bare on tasks like these, beyond the 4 at hand"
    assert closing in lines


def test_nothing_stands_before_where_nothing_is_claimed_or_measured(compared):
    assert list(basis(compared([MEANS], {FINISH: [9], BARE: [9]}))) == []
    assert list(basis(compared(["flaky-tools"], {FINISH: [9], BARE: [5]}))) == []


def test_means_and_medians_are_judged_each_by_itself_and_never_pooled(compared):
    found = compared([MEANS, MEDIANS], {FINISH: [9, 9], BARE: [5, 9]})
    infos = [arm.info for arm in found.arms]
    assert estimated_twice(infos) == [(MEANS, MEDIANS)]
    assert are_mixed(infos)
    lines = answer(found).sentences
    assert lines[1] == f"{MEANS} holds means over models and {MEDIANS} medians: two estimates of one thing, each judged by itself"
    robust = "under both profiles, none is shown to beat finish: take it if you do not know which profile is yours"
    assert f"Adopt finish under {MEANS}; which loop to adopt is undecided under {MEDIANS}; {robust}" in lines
    assert any(line.startswith(f"Under {MEANS}: Adopt finish (") for line in lines)
    assert any(line.startswith(f"Under {MEDIANS}: Nothing is decided") for line in lines)
    assert not any("together" in line for line in lines)


def test_where_profiles_differ_the_headline_ends_with_what_holds_under_each(compared):
    made = answer(compared([MEANS, MEDIANS], {FINISH: [9, 8], BARE: [5, 9]}))
    assert made.robust == ("finish",)
    (headline,) = [line for line in made.sentences if line.startswith("Adopt ")]
    assert headline.endswith(
        "; under both profiles, none is shown to beat finish: take it if you do not know which profile is yours"
    )
    assert not any(line.startswith("Under both profiles no loop") for line in made.sentences)
    assert answer(compared([MEANS, MEDIANS], {FINISH: [9, 9], BARE: [5, 5]})).robust == ()


def test_over_profiles_judged_by_themselves_a_line_closes_the_verdicts_and_costs_stand_for_each(compared):
    found = compared([MEANS, MEDIANS], {FINISH: [9, 9], BARE: [5, 5]})
    assert "Under both profiles finish has the highest accuracy" in answer(found).sentences
    others = answer(compared([MEANS, MEDIANS], {FINISH: [9, 5], BARE: [5, 9], NATIVE: [8, 8]})).sentences
    assert "Under both profiles no loop is shown to beat bare(decision_format=native)" in others
    equals = answer(compared([MEANS, MEDIANS], {FINISH: [9, 9], BARE: [5, 9], NATIVE: [9, 9]})).sentences
    assert "Under both profiles no loop is shown to beat finish and bare(decision_format=native)" in equals
    met = "finish and bare(decision_format=native) met native-2024 and native-2024-median (native calls)"
    assert equals[0] == (
        f"{MEANS} and {MEDIANS} are what was measured of a loop's own form of calls: {met}, "
        "bare met text-2024 and text-2024-median (calls in text)"
    )
    open_ones = answer(compared([MEANS, MEDIANS], {FINISH: [9, 9], NATIVE: [9, 9]})).sentences
    nothing = [line for line in open_ones if "is told apart from another" in line]
    assert len(nothing) == 1
    assert nothing[0].startswith("Under both profiles: ")
    crossed = answer(compared([MEANS, MEDIANS], {FINISH: [9, 2], BARE: [2, 9]})).sentences
    assert "No loop is among the best under both profiles" in crossed
    made = answer_json(found)
    assert made["recommendation"].startswith("Under both profiles: Adopt finish (")
    assert [each["profiles"] for each in made["recommendations"]] == [[MEANS], [MEDIANS]]
    assert [each["loops"] for each in made["recommendations"]] == [["finish"], ["finish"]]
    differ = answer_json(compared([MEANS, MEDIANS], {FINISH: [9, 9], BARE: [5, 9]}))
    assert differ["recommendation"] is None
    assert [each["loops"] for each in differ["recommendations"]] == [["finish"], []]
    assert {loop["cost"] for loop in made["loops"]} == {None}
    assert all([*loop["costs"]] == [MEANS, MEDIANS] for loop in made["loops"])
    cost = "tokens a trial under "
    assert matrix(answer(found)).columns == ("loop", MEANS, f"{cost}{MEANS}", MEDIANS, f"{cost}{MEDIANS}")


def test_an_arm_in_the_other_form_shows_what_the_form_does_and_what_the_loop(compared):
    lines = answer(compared([MEANS], {FINISH: [9], BARE: [5], NATIVE: [9]})).sentences
    told = next(line for line in lines if "form of calls alone" in line)
    assert told.startswith(f"Under {MEANS} the form of calls alone makes 0.400 [")
    assert "(bare(decision_format=native) minus bare); the loop makes 0.000 [" in told
    assert told.endswith("(finish minus bare(decision_format=native))")
    assert not any("whichloop ablate" in line for line in lines)


def test_a_loop_that_has_one_form_alone_is_told_without_a_command(compared):
    (said,) = [
        each for each in basis(compared([MEANS], {FINISH: [9], ("stateless", None, "text"): [5]})) if "different forms" in each.text
    ]
    assert said.text.endswith("which may be what differs, not the loop")
    assert said.command == ()


def test_the_option_of_a_loop_s_form_is_that_which_its_class_takes():
    found = {name: form_option(name) for name in builtin_names("loop")}
    assert found["bare"] == ("decision_format", "json")
    for name, (option, default) in found.items():
        if option:
            loop = find("loop", name)
            assert getattr(loop(), option) == default
            assert loop(**{option: "native"}).calls_in == "native"
    assert form_option("my.loops:Mine") == ("", "")


@pytest.mark.parametrize("tasks", [2, 5, 6, 19, 20])
def test_no_number_of_tasks_is_promised_where_there_are_too_few_to_say_anything(record, tasks):
    infos = [ArmInfo(f"{loop}/p", loop, {}, "scripted", "p", "s") for loop in "ab"]
    records = [
        record(arm=info.arm, task=f"t{task}", scores={"accuracy": float(info.loop == "a" or task > 0)})
        for info in infos
        for task in range(tasks)
    ]
    found = compare(records, infos)
    (pair,) = [pair for pair in found.pairs if pair.metric == "accuracy"]
    lines = answer(found).sentences
    assert (pair.outlook is None) == (tasks < 20)
    few = f"Undecided between a and b: {tasks} tasks are too few to tell how many would decide; run about 50 first"
    assert (few in lines) == (tasks < 20)
    assert any("would decide (chance" in line for line in lines) == (tasks >= 20)


def test_what_the_form_makes_is_split_by_the_faults_that_text_was_lost_to(compared):
    found = compared([MEANS], {FINISH: [9], BARE: [5], NATIVE: [9]})
    bare = f"bare/{MEANS}"
    lost = {bare: {"wire.fenced": 0.3, "wire.malformed": 0.1, "": 0.1}}
    arms = tuple(replace(arm, summary=replace(arm.summary, lost_to=lost.get(arm.info.arm, {}))) for arm in found.arms)
    told = next(line for line in answer(replace(found, arms=arms)).sentences if "form of calls alone" in line)
    fenced = "0.300 in trials with fenced replies (what reading them gains, a run with bare(fences=read) tells)"
    parts = f"{fenced}, 0.100 in trials with malformed replies and 0.000 in others"
    assert f"minus bare), the sum of what calls in text lost more: {parts}; the loop makes" in told


@pytest.mark.parametrize("shares", [(9, 5, 8), (9, 2, 5), (7, 3, 7)])
def test_where_an_arm_reads_fences_the_form_is_told_once_and_its_two_parts_make_the_whole(compared, shares):
    native, plain, reads = shares
    found = answer(compared([MEANS], {FINISH: [9], FENCES_READ: [reads], BARE: [plain], NATIVE: [native]}))
    (told,) = [sentence for sentence in found.answer_sentences if "form of calls alone" in sentence.text]
    whole, fences, rest, _ = (float(number) for number in re.findall(r"(-?[0-9.]+) \[", told.text))
    assert (whole, fences, rest) == ((native - plain) / 10, (reads - plain) / 10, (native - reads) / 10)
    assert fences + rest == pytest.approx(whole)
    for one, other in (("bare(decision_format=native)", "bare"), ("bare(fences=read)", "bare")):
        assert f"({one} minus {other})" in told.text
    assert "all else" in told.brief
    assert re.findall(r"(-?[0-9.]+) \[", told.brief) == re.findall(r"(-?[0-9.]+) \[", told.text)
