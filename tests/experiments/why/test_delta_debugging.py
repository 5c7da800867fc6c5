"""The smallest set with which a test fails, the planted sets of lost trials; and the ablations that `why` proposes."""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import replace
from itertools import chain, combinations
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from whichloop.datasets import arithmetic
from whichloop.experiments.ablate.prepare import prepare
from whichloop.experiments.compare.run import prepare as prepare_comparison
from whichloop.experiments.why.doc import FACTORS, ablation_of
from whichloop.experiments.why.replay import Replays, ddmin, landed, minimal_among, smallest_set
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.trajectory.causes import Cause
from whichloop.models.profiles import Clears, Profile
from whichloop.protocol.names import parse_spec
from whichloop.runs.config import CompareConfig
from whichloop.runs.manifest import Settings
from whichloop.runs.registry import make_loop
from whichloop.runs.schedule import Arm, Trial
from whichloop.runs.trial.trial import TrialContext

ITEMS = tuple("abcdef")
SETS = st.sets(st.sets(st.sampled_from(ITEMS), max_size=4).map(frozenset), max_size=4)
ENOUGH = 2 ** len(ITEMS)


def fails_with(culprits):
    """Fails where all items of any culprit are there: more items never help."""
    return lambda chosen: any(culprit <= set(chosen) for culprit in culprits)


@given(SETS)
@example({frozenset("ab"), frozenset("f")})  # delta debugging ends at a set that the smallest one has nothing in common with
def test_the_smallest_culprit_is_found_and_proven(culprits):
    found, runs, is_proven = smallest_set(ITEMS, fails_with(culprits), ENOUGH)
    assert is_proven
    if not culprits:
        assert (found, runs) == (None, 2)
        return
    assert found is not None
    assert frozenset(found) in culprits
    assert len(found) == min(map(len, culprits))
    assert runs <= ENOUGH


@given(st.dictionaries(st.sets(st.sampled_from(ITEMS)).map(frozenset), st.booleans()))
def test_whatever_the_test_says_no_smaller_set_fails(verdicts):

    def fails(chosen):
        return len(chosen) == len(ITEMS) or verdicts.get(frozenset(chosen), False)

    found, _, _ = smallest_set(ITEMS, fails, ENOUGH)
    assert found is not None
    assert fails(found)
    every = chain.from_iterable(combinations(ITEMS, size) for size in range(len(found)))
    assert not any(map(fails, every))


@given(SETS.filter(lambda culprits: culprits and frozenset() not in culprits))
def test_what_delta_debugging_gives_needs_each_of_its_items(culprits):
    fails = fails_with(culprits)
    found = ddmin(ITEMS, fails)
    assert fails(found)
    assert not any(fails(tuple(other for other in found if other != item)) for item in found)


@given(SETS, st.integers(2, 8))
def test_no_more_runs_are_made_than_allowed_and_what_is_found_fails(culprits, most):
    runs = []

    def fails(chosen):
        runs.append(chosen)
        return fails_with(culprits)(chosen)

    found, count, is_proven = smallest_set(ITEMS, fails, most)
    assert count == len(runs) == len(set(runs)) <= most
    assert found is None or fails_with(culprits)(found)
    assert is_proven or count == most


ONCE = Clears(never=0, attempts=1, nothing=1, failed=1, words=1)
SUITE = arithmetic.load(size=60, seed=3)
LONG = [task for task in SUITE.tasks if task.plan is not None and len(task.plan.calls) >= 4][:3]


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("task", LONG, ids=lambda task: task.id)
def test_a_planted_set_is_found(task, count):
    calls = [call.id for call in task.plan.calls]
    planted = {f"tool.raises@tool:{call}" for call in calls[-count:]}
    others = [f"tool.slow@tool:{call}" for call in calls[:-count]] + ["provider.slow@decide:answer"]
    profile = Profile(name="planted", clears=ONCE, faults=(*others, *sorted(planted)))
    loop = make_loop(parse_spec("bare"), len(calls) + count - 1)
    trial = Trial(Arm("bare/planted", parse_spec("bare"), loop, "scripted", profile), task, 0, 7)
    with asyncio.Runner() as runner:
        replays = Replays(trial, TrialContext(SUITE), runner)
        record = replays.run(profile).record
        found = minimal_among(replays, record)
    assert record.accuracy < 1
    assert len(landed(record)) > count
    assert set(found.faults) == planted
    assert found.smallest


CASES = [(loop, cause) for loop, causes in FACTORS.items() for cause in causes]
SETTINGS = Settings(suite="events(size=8)", repeats=1, alpha=0.05, margin=0.02)


def arm(loop: str) -> ArmInfo:
    return ArmInfo(f"{loop}/flaky-tools", loop, {}, "scripted", "flaky-tools", "events")


@pytest.mark.parametrize("loop", FACTORS)
def test_every_factor_is_an_option_with_its_default_first(loop, tmp_path):
    config = CompareConfig(loops=(loop,), suite="arithmetic(size=4)", tasks=2, mlflow=False, runs=tmp_path / "compare")
    (plain,) = prepare_comparison(config).manifest.arms
    for cause, factors in FACTORS[loop].items():
        assert cause in get_args(Cause)
        made = prepare(loop, factors, config.model_copy(update={"runs": tmp_path / cause.replace(" ", "-")}))
        assert made.manifest.arms[0].configuration == plain.configuration


def test_nothing_is_proposed_where_a_command_would_not_say_it_all():
    react = arm("react_extract")
    assert ablation_of(react, "parse", SETTINGS)
    assert not ablation_of(replace(react, options={"parse_retries": 2}), "parse", SETTINGS)
    assert not ablation_of(replace(react, model="openai/x"), "parse", SETTINGS)
    assert not ablation_of(arm("my_loops:Mine"), "parse", SETTINGS)
    assert not ablation_of(react, "budget", SETTINGS)
    assert not ablation_of(react, "parse", SETTINGS.model_copy(update={"suite": "csv"}))


def test_a_set_at_which_the_runs_were_used_up_is_not_called_the_smallest_and_one_run_is_too_few():
    assert smallest_set(ITEMS, fails_with([{"b"}]), 2) == (ITEMS, 2, False)
    with pytest.raises(ValueError, match="at least 2 runs"):
        smallest_set(ITEMS, fails_with(()), 1)


@pytest.mark.parametrize(("loop", "cause"), CASES)
def test_the_command_names_loop_suite_profile_and_factors_and_none_is_given_for_what_only_prompts_teach(loop, cause):
    words = shlex.split(ablation_of(arm(loop), cause, SETTINGS))
    assert words[:4] == ["whichloop", "compare", "--loop", loop]
    assert [words[place + 1] for place, word in enumerate(words) if word == "--vary"] == list(FACTORS[loop][cause])
    assert words[-4:] == ["--suite", "events(size=8)", "--profile", "flaky-tools"]
    assert not ablation_of(arm(loop), cause, SETTINGS, "weakness.unit")
