"""The answer by the margin and by what loops cost, and the wrong answers that they gave as done."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.experiments.compare.verdict_old.answer import answer, answer_json
from whichloop.experiments.compare.verdict_old.claims import RATE, claims_in_words
from whichloop.experiments.compare.verdict_old.matrix import AnswerRow
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import Comparison, compare

PROFILES = ("calm", "rough")
Shares = Mapping[str, Sequence[float]]
"""Loop → share of tasks that it solves, by profile."""


@pytest.fixture(scope="session")
def priced(record) -> Callable[..., Comparison]:
    """Compares loops that solve given shares of their tasks, and give given numbers of wrong answers as done, by a margin."""

    def make(
        shares: Shares,
        tokens: Mapping[str, int],
        margin: float,
        claims: Mapping[str, Sequence[int]] | None = None,
        *,
        tasks: int = 200,
    ) -> Comparison:
        infos, records = [], []
        for loop, by_profile in shares.items():
            for place, share in enumerate(by_profile):
                arm = f"{loop}/{PROFILES[place]}"
                infos.append(ArmInfo(arm, loop, {}, "scripted", PROFILES[place], "s"))
                wrong = (claims or {}).get(loop, (0, 0))[place]
                for task in range(tasks):
                    records.append(
                        record(
                            arm=arm,
                            task=f"t{task:03}",
                            scores={"accuracy": float((task * 37 % tasks) < share * tasks)},
                            input_tokens=tokens[loop] + task % 3,
                            output_tokens=0,
                            false_success=task < wrong,
                        )
                    )
        return compare(records, infos, margin=margin)

    return make


ADOPTED = re.compile(
    r"Adopt (\w+): (\w+) is more accurate by ([^,]+), [-\d.]+\][^,]*, which is within the margin of (\S+); \1 costs"
)


def test_a_difference_within_the_margin_does_not_pay_for_itself(priced):
    shares, tokens = {"fine": (0.97,), "plain": (0.92,), "bad": (0.2,)}, {"fine": 500, "plain": 400, "bad": 10}
    first, worse = answer(priced(shares, tokens, margin=0.15)).sentences
    assert re.fullmatch(
        r"Adopt plain: fine is more accurate by 0\.050 \[0\.0\d+, 0\.\d+\], which is within the margin of 0\.15; "
        r"plain costs 20 % less \(401 tokens a trial against 501\)",
        first,
    )
    assert worse == "Worse: bad"


def test_a_difference_beyond_the_margin_does_and_the_cheaper_loop_stands_beside_it(priced):
    shares, tokens = {"fine": (0.97,), "plain": (0.94,)}, {"fine": 500, "plain": 400}
    for margin in (0.02, 0.035):  # of the second one, the interval goes beyond it
        first, difference, worse = answer(priced(shares, tokens, margin)).sentences
        told = "better than every other loop; plain is cheaper (401 tokens a trial against 501)"
        assert re.fullmatch(rf"Adopt fine \(501 tokens a trial\)(, narrowly \(by [^)]*\))?: {re.escape(told)}", first)
        assert difference.startswith("fine minus plain: 0.030 [")
        assert worse == "Worse: plain"


def test_the_margin_has_to_hold_under_every_profile(priced):
    tokens = {"fine": 500, "plain": 400}
    both = answer(priced({"fine": (0.97, 0.97), "plain": (0.94, 0.94)}, tokens, margin=0.1)).sentences[0]
    assert both.startswith("Adopt plain: fine is more accurate by 0.030 [")
    assert " over both profiles together, which is within the margin of 0.1; plain costs 20 % less" in both
    one = answer(priced({"fine": (0.97, 0.97), "plain": (0.94, 0.8)}, tokens, margin=0.1)).sentences[0]
    assert one.startswith("Adopt fine (501 tokens a trial)")
    assert one.endswith("under some profile; plain is cheaper (401 tokens a trial against 501)")


def test_json_holds_the_answer_with_margin_and_costs(priced):
    comparison = priced({"fine": (0.97,), "plain": (0.94,)}, {"fine": 500, "plain": 400}, 0.1)
    found = answer_json(comparison)
    assert found["recommendation"].startswith("Adopt plain: fine is more accurate by 0.030 [")
    assert (found["margin"], found["unit"]) == (0.1, "tokens")
    assert found["sentences"] == list(answer(comparison).sentences)
    assert [(row["loop"], row["places"]) for row in found["loops"]] == [("fine", {"calm": "highest"}), ("plain", {"calm": "lower"})]
    assert [round(row["cost"]["value"]) for row in found["loops"]] == [501, 401]


def test_of_equal_cost_the_more_accurate_loop_is_adopted(priced):
    first = answer(priced({"fine": (0.97,), "plain": (0.94,)}, {"fine": 400, "plain": 400}, margin=0.1)).sentences[0]
    assert re.fullmatch(r"Adopt fine \(401 tokens a trial\)(, narrowly \(by [^)]*\))?: better than every other loop", first)


NAMES = st.fixed_dictionaries({name: st.lists(st.sampled_from([0.8, 0.9, 0.94, 0.97]), min_size=2, max_size=2) for name in "abc"})


@settings(max_examples=cases(8))
@given(NAMES, st.lists(st.sampled_from([100, 101, 150, 300]), min_size=3, max_size=3), st.sampled_from([0.02, 0.1, 0.3]))
def test_no_loop_is_adopted_for_its_price_that_loses_more_than_the_margin(priced, shares, tokens, margin):
    comparison = priced(shares, dict(zip("abc", tokens, strict=True)), margin, tasks=60)
    found = ADOPTED.match(answer(comparison).sentences[0])
    if found is None:
        return
    cheaper, best = found[1], found[2]
    price = dict(zip("abc", tokens, strict=True))
    assert price[cheaper] < price[best]
    for pair in comparison.pairs:
        if pair.metric == "accuracy" and cheaper in (pair.a[0], pair.b[0]):
            own = pair if pair.b[0] == cheaper else pair.turned
            assert own.difference.value <= margin
            if own.a[0] == best:
                assert own.verdict.within_margin


# --- wrong answers given as done ---


def test_wrong_answers_given_as_done_are_told_where_they_differ(priced):
    shares, tokens = {"a": (0.5, 0.5), "b": (0.5, 0.5)}, {"a": 100, "b": 100}
    alike = answer(priced(shares, tokens, 0.02, {"a": (6, 1), "b": (6, 1)}))
    assert not any(line.startswith("Wrong answers") for line in alike.sentences)
    one = answer(priced(shares, tokens, 0.02, {"a": (6, 1), "b": (0, 1)}))
    assert one.sentences[-1] == "Wrong answers given as done under calm, of 200 trials: a 6 [2, 13], b none [0, 4]"
    assert one.answer_sentences[-1].brief == "Wrong answers given as done, of 400 trials: a 7, b 1"


def test_of_many_loops_the_fewest_and_the_most_wrong_answers_are_told(priced):
    names = "abcdef"
    claims = {name: (number, 0) for number, name in enumerate(names)}
    made = answer(priced(dict.fromkeys(names, (0.5,)), dict.fromkeys(names, 100), 0.02, claims))
    assert claims_in_words(made.rows, ["calm"])[0] == "Wrong answers given as done, of 200 trials: from a none to f 5"


def test_the_adopted_loop_is_named_with_its_share_where_it_gave_more_wrong_answers_than_the_next(priced):
    shares = dict(zip("abcdef", ((0.9,), (0.6,), (0.5,), (0.5,), (0.5,), (0.5,)), strict=True))
    claims = {name: (number, 0) for name, number in zip("abcdef", (5, 3, 0, 4, 9, 1), strict=True)}
    made = answer(priced(shares, dict.fromkeys(shares, 100), 0.02, claims))
    assert made.answer_sentences[0].adopts == "a"
    told = made.answer_sentences[-1]
    assert told.brief == "Wrong answers given as done, of 200: c none to e 9, a 5"
    assert told.text == "Wrong answers given as done, of 200 trials: from c none to e 9, a 5 [2, 11], b 3 [1, 9]"
    fewer = answer(priced(shares, dict.fromkeys(shares, 100), 0.02, claims | {"a": (2, 0)}))
    assert fewer.answer_sentences[-1].text == "Wrong answers given as done, of 200 trials: from c none to e 9, a 2"


def on_few_tasks(row: AnswerRow, tasks: int) -> AnswerRow:
    """Return a row of one column whose wrong answers given as done are of so many tasks."""
    (cell,) = row.cells
    assert cell is not None
    rate = cell.arm.summary.false_success_rate
    assert rate is not None
    summary = replace(cell.arm.summary, means={**cell.arm.summary.means, RATE: replace(rate, n=tasks)})
    return replace(row, cells=(replace(cell, arm=replace(cell.arm, summary=summary)),))


@pytest.mark.parametrize("tasks", [7, 19, 20])
def test_of_few_tasks_counts_have_no_interval_and_the_sentence_says_why(priced, tasks):
    made = answer(priced({"a": (0.5,), "b": (0.5,)}, {"a": 100, "b": 100}, 0.02, {"a": (3, 0), "b": (0, 0)}))
    told, *_ = claims_in_words([on_few_tasks(row, tasks) for row in made.rows], ["calm"], ("a",))
    few = f"a 3, b none; {tasks} tasks are too few for an interval"
    assert told.endswith(few if tasks < 20 else "a 3 [1, 9], b none [0, 4]")


def test_a_paired_test_tells_wrong_answers_apart_where_intervals_overlap(priced):
    made = answer(priced({"a": (0.9,), "b": (0.4,)}, {"a": 100, "b": 100}, 0.02, {"a": (15, 0), "b": (5, 0)}))
    told = made.answer_sentences[-1]
    assert re.search(r"; paired: a gave more than b \(0\.050 \[0\.0\d+, 0\.\d+\], p = 0\.00\d\)$", told.text)
    assert told.brief.endswith("; paired: a more than b")
    few = answer(priced({"a": (0.9,), "b": (0.4,)}, {"a": 100, "b": 100}, 0.02, {"a": (3, 0), "b": (0, 0)}))
    assert "paired" not in few.answer_sentences[-1].text


NAMED_PAIRS = re.compile(r"((?:\b\w(?:, | and ))*\b\w)(?: gave)? more than \w\b(?: under (calm and rough|calm|rough))?")


def pairs_told(sentence: str) -> tuple[int, int]:
    """Return how many pairs of loops with one-letter names a sentence names, and how many more it says there are."""
    paired = sentence.partition("; paired: ")[2]
    named = sum(
        len(re.split(", | and ", more)) * len((under or "one").split(" and ")) for more, under in NAMED_PAIRS.findall(paired)
    )
    more = re.search(r", and (\d+) more pairs?$", paired)
    return named, int(more[1]) if more else 0


WRONG = st.lists(st.tuples(st.sampled_from((0, 25, 50)), st.sampled_from((0, 25, 50))), min_size=2, max_size=5)


@settings(max_examples=cases(8))
@given(WRONG, st.sampled_from((1, 2)))
def test_a_form_that_leaves_out_a_pair_says_how_many_it_leaves_out(priced, wrong, columns):
    loops = "abcdef"[: len(wrong)]
    shares = dict.fromkeys(loops, (0.5,) * columns)
    claims = dict(zip(loops, wrong, strict=True))
    made = answer(priced(shares, dict.fromkeys(loops, 100), 0.02, claims, tasks=60))
    forms = [(each.text, each.brief, each.briefest or each.brief) for each in made.answer_sentences if " as done" in each.text]
    for told in forms:
        whole, *shorter = map(pairs_told, told)
        assert all(sum(form) == sum(whole) for form in shorter)
        assert shorter[0][0] == whole[0]
        assert shorter[1][0] == min(1, sum(whole))


def test_what_holds_of_the_same_loops_under_several_profiles_is_said_once(priced):
    shares, tokens = dict.fromkeys("abc", (0.5, 0.5)), dict.fromkeys("abc", 100)
    two = answer(priced({"a": (0.5, 0.5), "b": (0.5, 0.5)}, tokens, 0.02, {"a": (40, 30), "b": (0, 0)})).answer_sentences[-1]
    assert two.brief.endswith("; paired: a more than b under calm and rough")
    four = answer(priced(shares, tokens, 0.02, {"a": (40, 30), "b": (0, 0), "c": (0, 0)})).answer_sentences[-1]
    assert four.brief.endswith("; paired: a more than b under calm, a more than c under calm, and 2 more pairs")
    assert four.briefest.endswith("; paired: a more than b under calm, and 3 more pairs")
    alike = answer(priced(shares, tokens, 0.02, {"a": (40, 0), "b": (40, 0), "c": (0, 0)})).answer_sentences[-1]
    assert alike.brief.endswith("; paired: a and b more than c under calm")
    assert alike.briefest.endswith("; paired: a more than c under calm, and 1 more pair")


def test_pairs_of_the_adopted_loop_are_told_and_many_are_counted(priced):
    shares = dict.fromkeys("abcdef", (0.5,)) | {"a": (0.9,)}
    claims = {name: (number, 0) for name, number in zip("abcdef", (40, 20, 0, 0, 0, 0), strict=True)}
    told = answer(priced(shares, dict.fromkeys(shares, 100), 0.02, claims)).answer_sentences[-1].text
    paired = told.partition("; paired: ")[2]
    assert paired.count("a gave more than ") == 2
    assert paired.endswith(", and 3 more pairs")
    assert "b gave more" not in paired
