"""The ablations that `why` proposes: each can be run as it stands, and is proposed where its command says all."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import get_args

import pytest

from whichloop.experiments.ablate.prepare import prepare
from whichloop.experiments.compare.prepare import prepare as prepare_comparison
from whichloop.experiments.why.remedies import FACTORS, GUARDS, ProposedAblation, ablation_of
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.trajectory.causes import Cause
from whichloop.runs.config import CompareConfig
from whichloop.runs.manifest import Settings

CASES = [(loop, cause) for loop, causes in FACTORS.items() for cause in causes]
SETTINGS = Settings(suite="events(size=8)", repeats=1, alpha=0.05, margin=0.02)


def arm(loop: str) -> ArmInfo:
    return ArmInfo(f"{loop}/flaky-tools", loop, {}, "scripted", "flaky-tools", "events")


def found(info: ArmInfo, cause: Cause) -> ProposedAblation:
    made = ablation_of(info, cause, SETTINGS)
    assert made is not None
    return made


@pytest.mark.parametrize(
    "loop", [pytest.param(loop, marks=pytest.mark.slow) if number > 1 else loop for number, loop in enumerate(FACTORS)]
)
def test_every_factor_is_an_option_with_its_default_first(loop, tmp_path):
    config = CompareConfig(loops=(loop,), suite="arithmetic(size=4)", tasks=2, mlflow=False, runs=tmp_path / "compare")
    (plain,) = prepare_comparison(config).manifest.arms
    for cause, factors in FACTORS[loop].items():
        assert cause in get_args(Cause)
        made = prepare(loop, factors, config.model_copy(update={"runs": tmp_path / cause.replace(" ", "-")}))
        assert made.manifest.arms[0].configuration == plain.configuration


@pytest.mark.parametrize(("loop", "cause"), CASES)
def test_the_command_names_loop_suite_profile_and_factors(loop, cause):
    words = shlex.split(found(arm(loop), cause).command)
    assert words[:4] == ["whichloop", "compare", "--loop", loop]
    assert [words[place + 1] for place, word in enumerate(words) if word == "--vary"] == list(FACTORS[loop][cause])
    assert words[-4:] == ["--suite", "events(size=8)", "--profile", "flaky-tools"]


def test_where_fenced_replies_were_refused_the_option_that_reads_them_is_proposed(tmp_path):
    made = ablation_of(arm("bare"), "parse", SETTINGS, "wire.fenced")
    assert made is not None
    assert (made.factors, made.cure) == (("fences=refuse,read",), "bare(fences=read)")
    config = CompareConfig(loops=("bare",), suite="arithmetic(size=4)", tasks=2, mlflow=False, runs=tmp_path)
    (plain,) = prepare_comparison(config).manifest.arms
    prepared = prepare("bare", made.factors, config)
    assert prepared.manifest.arms[0].configuration == plain.configuration  # the default comes first
    for other in (ablation_of(arm("bare"), "parse", SETTINGS, "wire.malformed"), ablation_of(arm("bare"), "parse", SETTINGS)):
        assert other is not None
        assert (other.factors, other.cure) == (FACTORS["bare"]["parse"], "")
    refused = ablation_of(arm("finish"), "parse", SETTINGS, "wire.fenced")  # it has no such option
    assert refused is not None
    assert refused.cure == ""


def test_where_instructions_were_obeyed_defences_around_the_loop_are_proposed(tmp_path):
    words = shlex.split(found(arm("finish"), "obeyed instruction").command)
    assert words[:4] == ["whichloop", "compare", "--loop", "guarded(loop=finish)"]
    assert [words[place + 1] for place, word in enumerate(words) if word == "--vary"] == list(GUARDS)
    config = CompareConfig(loops=(words[3],), suite="arithmetic(size=4)", tasks=2, mlflow=False, runs=tmp_path)
    (plain,) = prepare_comparison(config).manifest.arms
    made = prepare(words[3], GUARDS, config)
    assert made.manifest.arms[0].configuration == plain.configuration  # defaults first
    assert not ablation_of(arm("my_loops:Mine"), "obeyed instruction", SETTINGS)


def test_nothing_is_proposed_where_a_command_would_not_say_it_all():
    react = arm("react_extract")
    assert ablation_of(react, "parse", SETTINGS)
    assert not ablation_of(replace(react, options={"parse_retries": 2}), "parse", SETTINGS)
    assert not ablation_of(replace(react, model="openai/x"), "parse", SETTINGS)
    assert not ablation_of(arm("my_loops:Mine"), "parse", SETTINGS)
    assert not ablation_of(react, "budget", SETTINGS)
    assert not ablation_of(react, "parse", SETTINGS.model_copy(update={"suite": "csv"}))


@pytest.mark.parametrize(("loop", "cause"), CASES)
def test_no_option_is_proposed_for_what_only_prompts_teach(loop, cause):
    assert ablation_of(arm(loop), cause, SETTINGS, "weakness.unit") is None
