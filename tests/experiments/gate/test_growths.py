"""An improvement that costs: what of an amount's growth is of trials that are solved now and were not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.experiments.gate.conftest import ALL, TASKS, failing
from tests.experiments.gate.test_better_here import of_other_code
from whichloop.cli.gate_targets import print_gate
from whichloop.experiments.gate import bless, github_annotations, headline, judge, text, to_junit, to_markdown
from whichloop.experiments.gate.data.findings import Growth
from whichloop.experiments.gate.output.line_words import growth_in_words
from whichloop.experiments.gate.output.next_steps import next_steps, to_json
from whichloop.experiments.gate.output.sentences import further_lines
from whichloop.metrics.record import Record

ARM = "bare/clean"
MARGINS = {"accuracy": 0.02, "tokens": 0.1}


def taking(tokens: dict[str, int]) -> Callable[[Record], Record]:
    """Each trial of a task of the arm takes so many input tokens, and none of output."""

    def change(record: Record) -> Record:
        return replace(record, input_tokens=tokens[record.task], output_tokens=0) if record.arm == ARM else record

    return change


AMOUNTS = st.lists(st.integers(0, 9_999), min_size=TASKS, max_size=TASKS)
FAILED = st.sets(st.sampled_from(ALL), max_size=8)


@settings(max_examples=cases(8))
@given(AMOUNTS, AMOUNTS, FAILED, FAILED)
def test_a_growth_has_the_sums_of_its_trials(untraced, before, now, failed_before, failed_now):
    was, now_taken = dict(zip(ALL, before, strict=True)), dict(zip(ALL, now, strict=True))
    old, new = (
        replace(untraced, records=tuple(failing(*failed, arm=ARM)(taking(tokens)(record)) for record in untraced.records))
        for failed, tokens in ((failed_before, was), (failed_now, now_taken))
    )
    judged = judge(new, of_other_code(bless(old)), metrics=MARGINS)
    line = next(line for line in judged.lines if (line.arm, line.metric) == (ARM, "tokens"))
    repeats, newly_solved = untraced.manifest.settings.repeats, failed_before - failed_now
    grew = sum(now) > sum(before)
    assert bool(judged.growths) == (line.outcome in ("regression", "undecided") and bool(newly_solved) and grew)
    for growth in judged.growths:
        assert growth == Growth(
            arm=ARM,
            metric="tokens",
            newly_solved=repeats * len(newly_solved),
            of_newly_solved=repeats * sum(now_taken[task] - was[task] for task in newly_solved),
            of_all=repeats * (sum(now) - sum(before)),
            solved_before=repeats * (TASKS - len(failed_before)),
            solved_now=repeats * (TASKS - len(failed_now)),
            before=repeats * sum(before),
            now=repeats * sum(now),
        )
        assert growth.per_solved_now * growth.solved_now == pytest.approx(growth.now)


GROWTHS = st.builds(
    Growth,
    arm=st.just(ARM),
    metric=st.just("tokens"),
    newly_solved=st.integers(1, 20),
    of_newly_solved=st.integers(-500, 5_000),
    of_all=st.integers(1, 5_000),
    solved_before=st.integers(0, 50),
    solved_now=st.integers(20, 70),
    before=st.integers(0, 90_000),
    now=st.integers(1, 90_000),
)


@given(GROWTHS)
def test_no_part_is_told_as_more_than_its_whole(growth):
    said = growth_in_words(growth)
    verb = "is solved now and was" if growth.newly_solved == 1 else "are solved now and were"
    assert f" {verb} not took " in said
    is_part = growth.of_newly_solved <= growth.of_all
    assert (f" of the {growth.of_all:,} more in tokens; " in said) == is_part
    if not is_part:
        assert f"took {growth.of_newly_solved:,} more in tokens, all trials together {growth.of_all:,} more; " in said
    assert said.endswith(f"({growth.solved_before:,} → {growth.solved_now:,} solved trials)")
    steps = growth_in_words(replace(growth, metric="steps"))
    assert f" → {growth.per_solved_now:,.2f} (" in steps, "means have the digits of their metric"
    assert ("per solved trial – → " in said) == (growth.solved_before == 0)


@pytest.fixture
def bought(altered):
    """Most tasks were not solved and took little, and are solved now and take more."""
    early = ALL[:9]

    def before(record: Record) -> Record:
        return failing(*early, arm=ARM)(taking({t: 10 if t in early else 900 for t in ALL})(record))

    was = of_other_code(bless(altered(before, traced=False)))
    return was, {task: 1_000 if task in early else 900 for task in ALL}, altered


def test_what_was_bought_is_one_line_in_every_output(bought, capsys):
    was, tokens, altered = bought
    judged = judge(altered(taking(tokens)), was, metrics=MARGINS)
    said = (
        "bare/clean: the 18 trials that are solved now and were not took all of the 17,820 more in tokens; "
        "tokens per solved trial 930 → 975 (6 → 24 solved trials)."
    )
    assert judged.outcome == "regression"
    assert next_steps(judged)[0].say == "Fix the loop, or bless the run if the rise in tokens is meant:"
    assert headline(judged).startswith("regression: bare/clean in tokens ×4.19 [")
    assert said in further_lines(judged, 1)
    print_gate(judged, verbose=True)
    failure = next(case for case in ElementTree.fromstring(to_junit(judged)).iter("testcase") if case.attrib["name"] == "tokens")
    for output in (
        " ".join(capsys.readouterr().out.split()),
        text(judged),
        "\n".join(to_json(judged)["said"]),
        "\n".join(failure.itertext()),
        github_annotations(judged)[0],
        to_markdown(judged).replace("\\", ""),
    ):
        assert said in output
    assert json.loads(json.dumps(judged.to_json()))["growths"] == [growth.to_json() for growth in judged.growths]


def test_without_counterparts_nobody_knows_which_trials_are_newly_solved(bought):
    was, tokens, altered = bought
    assert judge(altered(taking(tokens), traced=False, seed=1), was, metrics=MARGINS).growths == ()


@pytest.mark.parametrize("is_any_dearer", [True, False])
def test_the_worst_trial_of_an_amount_is_one_that_both_sides_solved_if_any_of_these_took_more(bought, is_any_dearer):
    was, tokens, altered = bought
    judged = judge(altered(taking(tokens | ({ALL[10]: 950} if is_any_dearer else {}))), was, metrics=MARGINS)
    (worst,) = judged.worst
    assert worst.newly_solved == (not is_any_dearer)
    assert (worst.was, worst.now) == ((900, 950) if is_any_dearer else (10, 1_000))
    assert (", which was not solved in the baseline" in "".join(further_lines(judged))) == (not is_any_dearer)


def test_only_the_rise_may_be_meant_where_accuracy_rose_though_a_task_was_lost(bought):
    was, tokens, altered = bought
    judged = judge(altered(lambda record: failing(ALL[10], arm=ARM)(taking(tokens)(record)), traced=False), was, metrics=MARGINS)
    changes = {(change.task, change.became) for change in judged.tasks}
    assert (ALL[10], "worse") in changes
    assert judged.outcome == "regression"
    assert next_steps(judged)[0].say == "Fix the loop, or bless the run if the rise in tokens is meant:"


def test_the_loss_is_meant_where_accuracy_fell_beside_a_rise(altered):
    was = of_other_code(bless(altered(taking(dict.fromkeys(ALL, 900)), traced=False)))
    judged = judge(
        altered(lambda record: failing(ALL[0], arm=ARM)(taking(dict.fromkeys(ALL, 2_000))(record)), traced=False),
        was,
        metrics=MARGINS,
    )
    assert judged.outcome == "regression"
    assert next_steps(judged)[0].say == "Fix the loop, or bless the run if the loss is meant:"
