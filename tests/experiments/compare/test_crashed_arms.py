"""Arms that crashed in every trial, or never asked their model: the answer begins with them, whatever else it says."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.experiments.compare.measured_forms import part_of
from whichloop.experiments.compare.tables import comparison_notes
from whichloop.experiments.compare.verdict_old.answer import answer, answer_json
from whichloop.experiments.compare.verdict_old.claims import RATE, claims_in_words
from whichloop.experiments.compare.verdict_old.warned import dead_arm_sentences, warned
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import Comparison, compare

TRIALS = 6


@pytest.fixture(scope="session")
def with_crashes(record) -> Callable[..., Comparison]:
    """Compares loops that crashed in so many of their trials, and were right in the others.

    `calls`: a trial's, to its model, but for loops that are `unasked`. `claims`: loop → trials with a wrong answer given as done.
    """

    def make(
        crashes: Mapping[str, int],
        calls: int = 2,
        *,
        unasked: Collection[str] = (),
        claims: Mapping[str, int] | None = None,
        trials: int = TRIALS,
    ) -> Comparison:
        infos = [ArmInfo(f"{loop}/clean", loop, {}, "scripted", "clean", "s") for loop in crashes]
        records = [
            record(
                arm=info.arm,
                task=f"t{task}",
                scores={"accuracy": float(task >= crashes[info.loop])},
                calls={"decide": 0 if info.loop in unasked else calls},
                false_success=task < (claims or {}).get(info.loop, 0),
                **({"stop": "crashed", "reason": f"KeyError: '{info.loop}'"} if task < crashes[info.loop] else {}),
            )
            for info in infos
            for task in range(trials)
        ]
        return compare(records, infos)

    return make


@given(
    crashes=st.dictionaries(st.sampled_from("abcdefg"), st.sampled_from([0, 1, TRIALS - 1, TRIALS]), min_size=1),
    calls=st.integers(0, 2),
)
def test_the_answer_begins_with_the_dead_arms_and_with_no_others(with_crashes, crashes, calls):
    made = with_crashes(crashes, calls)
    broken = [f"{loop}/clean" for loop, count in crashes.items() if count == TRIALS]
    unasked = [f"{loop}/clean" for loop, count in crashes.items() if count < TRIALS and not calls]
    assert [arm.info.arm for arm in made.crashed_arms] == broken
    assert [arm.info.arm for arm in made.unasked_arms] == unasked
    causes = {**dict.fromkeys(broken, "crashed"), **dict.fromkeys(unasked, "never asked")}
    listed = made.to_json()["dead_arms"]
    assert {each["arm"]: each["cause"] for each in listed} == causes
    assert all(f"{each['sentence']}." in made.warnings for each in listed)
    said = [each.text for each in dead_arm_sentences(made)]
    assert len(said) == bool(broken) + bool(unasked)
    assert list(answer(made).sentences[: len(said)]) == said
    assert not any("crashed (" in line or "asked" in line for line in warned(made))
    for sentence, arms in zip(said, filter(None, [broken, unasked]), strict=True):
        named = [f"{loop}/clean" for loop in crashes if f"{loop}/clean" in sentence]
        assert named == arms[: 4 if len(arms) <= 4 else 3]


def test_one_arm_is_told_with_its_reason_and_recommends_nothing(with_crashes):
    made = with_crashes({"a": 0, "b": TRIALS})
    first, *others = answer(made).answer_sentences
    assert first.text == "b/clean: every trial crashed (6 of 6), all of them because of: KeyError: 'b'"
    assert first.is_basis
    assert others
    assert answer_json(made)["recommendation"] != first.text
    assert answer_json(with_crashes({"a": 0, "b": TRIALS}, calls=0))["recommendation"] is None


@given(
    crashes=st.dictionaries(st.sampled_from("abcd"), st.sampled_from([0, 1, TRIALS - 1, TRIALS]), min_size=1),
    calls=st.integers(0, 2),
)
def test_no_sentence_but_one_of_a_verdict_is_ever_the_recommendation(with_crashes, crashes, calls):
    told = answer_json(with_crashes(crashes, calls))
    verdicts = [each["recommendation"] for each in told["recommendations"]]
    assert told["recommendation"] == (verdicts[0] if verdicts else None)
    assert bool(verdicts) == (calls > 0 and len(crashes) > 1 and min(crashes.values()) < TRIALS)


def test_several_arms_are_one_sentence_with_the_most_frequent_reason(with_crashes):
    first = answer(with_crashes({"a": 0, "b": TRIALS, "c": TRIALS})).sentences[0]
    assert first == (
        "Every trial of 2 arms crashed: 6 trials of b/clean and 6 of c/clean, most often because of: KeyError: 'b'; "
        "what they score says nothing of an agent"
    )


@pytest.fixture(scope="session")
def with_hangs(record) -> Callable[..., Comparison]:
    """Compares loops of which each trial ended at its time limit, as each loop's trials are told."""

    def make(told: Mapping[str, str], calls: int = 0) -> Comparison:
        infos = [ArmInfo(f"{loop}/clean", loop, {}, "scripted", "clean", "s") for loop in told]
        late = {"scores": {"accuracy": 0.0}, "stop": "timeout", "calls": {"decide": calls}}
        records = [
            record(arm=info.arm, task=f"t{task}", reason=told[info.loop].format(f"4.{task}"), **late)
            for info in infos
            for task in range(TRIALS)
        ]
        return compare(records, infos)

    return make


STUCK = "it let nothing else run for {} s, and was interrupted at b.py:7"


def test_a_loop_that_hangs_before_it_asks_its_model_is_told_with_where_it_stands(with_hangs):
    stuck, waits = STUCK.format("4.0"), "no end within 3 s"
    (sentence,) = dead_arm_sentences(with_hangs({"b": STUCK}))
    end = "it never asked its model, and it is compared with no other arm"
    assert sentence.text == f"b/clean: every trial ran out of time (6 of 6): {stuck}; {end}"
    (sentence,) = dead_arm_sentences(with_hangs({"b": STUCK, "c": waits}))
    arms = "2 arms never asked their model: 6 trials of b/clean and 6 of c/clean, which all ran out of time"
    assert sentence.text.startswith(f"{arms}, most often: {stuck}; their accuracies")


def test_a_loop_that_hangs_later_is_told_with_where_it_stands_and_one_that_waits_is_not(with_hangs):
    first, second = warned(with_hangs({"b": STUCK, "c": "no end within 3 s"}, calls=1))
    assert first == f"Hung: 6 of the 6 trials of b/clean (6 × {STUCK.format('4.0')})"
    assert second.startswith("Out of time, and so not solved: 6 of the 6 trials of b/clean")
    (line,) = [
        note for note in comparison_notes(with_hangs({"b": STUCK, "c": "no end within 3 s"})) if ", hung: " in note
    ]  # on the page
    assert line == f"b/clean, hung: 6 × {STUCK.format('4.0')}"
    assert not [line for line in warned(with_hangs({"b": STUCK})) if line.startswith("Hung")]  # a dead arm's sentence says it


def test_several_arms_that_never_asked_their_model_are_one_sentence(with_crashes):
    (sentence,) = dead_arm_sentences(with_crashes({"a": 0, "b": 1}, calls=0))
    assert sentence.text == (
        "2 arms never asked their model: 6 trials of a/clean and 6 of b/clean; their accuracies are not those of an agent, and "
        "they are compared with no other arm"
    )


# --- wrong answers given as done ---


def test_wrong_answers_given_as_done_are_those_of_the_arms_that_work(with_crashes):
    made = with_crashes({"a": 0, "b": 0, "c": TRIALS, "d": 0}, unasked="d", claims={"a": 4, "b": 2, "d": TRIALS})
    assert answer(made).sentences[-1] == "Wrong answers given as done, of 6 trials: a 4, b 2"


@settings(deadline=None, max_examples=cases(15))
@given(
    loops=st.dictionaries(
        st.sampled_from("abcde"), st.tuples(st.sampled_from(["works", "crashed", "never asked"]), st.integers(0, 20)), min_size=2
    ),
    adopted=st.lists(st.sampled_from("abcde"), max_size=1),
)
def test_what_is_said_of_wrong_answers_is_the_same_without_the_dead_arms(with_crashes, loops, adopted):
    trials = 20
    made = with_crashes(
        {loop: trials if state == "crashed" else 0 for loop, (state, _) in loops.items()},
        unasked=[loop for loop, (state, _) in loops.items() if state == "never asked"],
        claims={loop: wrong for loop, (_, wrong) in loops.items()},
        trials=trials,
    )
    dead = {arm.info.arm for arm in made.dead_arms}
    assert dead == {f"{loop}/clean" for loop, (state, _) in loops.items() if state != "works"}
    working = part_of(made, lambda info: info.arm not in dead)
    told, of_working = (claims_in_words(answer(each).rows, ["clean"], adopted, each.pairs_on(RATE)) for each in (made, working))
    assert told == of_working
