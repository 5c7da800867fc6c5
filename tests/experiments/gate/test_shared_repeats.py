"""A run with another number of repeats than its baseline: under one seed those that both have are the same trials."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.experiments.gate.test_better_here import of_other_code
from whichloop.experiments.gate import bless, headline, judge
from whichloop.experiments.gate.output.next_steps import next_steps
from whichloop.experiments.gate.output.sentences import further_lines
from whichloop.protocol.values import counted

ONE_LOOP = {"loops": ("bare",), "profiles": ("flaky-tools",)}


@pytest.mark.parametrize(
    ("was", "now"), [(2, 1), (1, 2), *(pytest.param(*repeats, marks=pytest.mark.slow) for repeats in ((3, 2), (2, 3)))]
)
@pytest.mark.parametrize("loop", ["bare", "bare(max_consecutive_errors=1)"])
def test_other_repeats_of_the_same_seed_are_judged_as_if_both_had_those_that_both_have(ran, was, now, loop):
    """The law: what one side has besides changes nothing of the judgement, and an unchanged loop passes."""
    old, new = bless(ran(**ONE_LOOP, repeats=was)), ran(**ONE_LOOP | {"loops": (loop,)}, repeats=now)
    both = min(was, now)
    judged = judge(new, old)
    as_short = judge(ran(**ONE_LOOP | {"loops": (loop,)}, repeats=both), bless(ran(**ONE_LOOP, repeats=both)))
    assert (judged.outcome, judged.lines, judged.paired) == (as_short.outcome, as_short.lines, True)
    assert [replace(task, command="") for task in judged.tasks] == [replace(task, command="") for task in as_short.tasks]
    assert (judged.outcome == "identical") == (loop == "bare")
    said = f"udged by the {counted(both, 'repeat')} that both have (the run has {now}, the baseline {was})"
    assert sum(said in line for line in (headline(judged), *further_lines(judged))) == 1
    assert judged.to_json()["shared_repeats"] == {"both": both, "run": now, "baseline": was}
    assert as_short.to_json()["shared_repeats"] is None


def test_what_is_undecided_with_fewer_repeats_names_the_gate_by_all_of_them(ran):
    was = bless(ran(**ONE_LOOP, repeats=2))
    judged = judge(ran(**ONE_LOOP, repeats=1), of_other_code(was), path=Path("b.json"))
    step = next_steps(replace(judged, outcome="undecided"))[0]
    assert step.say == "Without --repeats 1 all 2 repeats of the baseline are compared:"
    assert "--repeats" not in step.commands[0]


def test_of_another_seed_or_a_real_model_all_repeats_count(ran):
    was = bless(ran(**ONE_LOOP, repeats=2))
    of_a_real_model = was.model_copy(update={"arms": {k: a.model_copy(update={"model": "m"}) for k, a in was.arms.items()}})
    new = ran(**ONE_LOOP, repeats=1)
    real = replace(
        new,
        manifest=new.manifest.model_copy(
            update={"arms": tuple(arm.model_copy(update={"model": "m"}) for arm in new.manifest.arms)}
        ),
    )
    for judged in (judge(ran(**ONE_LOOP, repeats=1, seed=5), was), judge(real, of_a_real_model)):
        assert not judged.paired
        assert judged.shared is None
        note = "Another number of repeats than in the baseline, 1, not 2: tasks pair up, their trials do not."
        assert note in (*judged.notes, *judged.details)
