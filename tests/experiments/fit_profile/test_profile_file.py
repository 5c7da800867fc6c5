"""The profile's file, and the run directory that it is fitted to."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.experiments.fit_profile.helpers import fitted_to, known, read_back, run
from whichloop.experiments.fit_profile.estimates import RateEstimate
from whichloop.experiments.fit_profile.fit import FittedProfile, fit_run
from whichloop.metrics.statistics import Interval
from whichloop.models.profiles import FAULT_KINDS, Abilities, Clears, Profile
from whichloop.runs.store.files import RunError, write_manifest_json
from whichloop.runs.store.trials import TrialWriter
from whichloop.runs.trial.trial import FinishedTrial

UNIT = st.floats(0, 1)
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NOTES = st.text(st.characters())


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    rates = draw(st.dictionaries(st.sampled_from(list(FAULT_KINDS)), st.floats(0, 0.03)))
    nothing, failed, words = sorted(draw(st.lists(UNIT, min_size=3, max_size=3)))
    return Profile(
        name=draw(st.from_regex(r"[a-z0-9][a-z0-9._-]*", fullmatch=True)),
        description=draw(ANY_TEXT),
        rates=rates,
        clears=Clears(never=draw(UNIT), attempts=draw(st.integers(1, 100)), nothing=nothing, failed=failed, words=words),
        forget=draw(UNIT),
        bluff=draw(UNIT),
        patience=draw(st.integers(1, 100)),
        latency_s=draw(st.floats(0, 86_400)),
        slow_s=draw(st.floats(0, 86_400)),
        abilities=Abilities(context_tokens=draw(st.none() | st.integers(1, 10**9)), tool_choice=draw(st.booleans())),
    )


@st.composite
def estimates(draw: st.DrawFn) -> RateEstimate:
    points = draw(st.floats(0, 1e6))
    interval = draw(st.none() | st.builds(lambda value: Interval(value, value / 2, min(1.0, 2 * value), 7), UNIT))
    return RateEstimate(draw(st.floats(0, points)), points, interval, draw(NOTES))


@settings(max_examples=cases(6))
@given(
    profiles(),
    st.fixed_dictionaries({kind: estimates() for kind in FAULT_KINDS}),
    st.fixed_dictionaries({"never_worked": st.dictionaries(NOTES, st.integers(1)), "scaled_by": UNIT}),
    st.lists(NOTES, max_size=3),
)
def test_any_fitted_profile_reads_back_from_its_file(profile, rates, basis, arms):
    fitted = FittedProfile(profile, rates, 3, 2, tuple(arms), basis)
    assert read_back(fitted) == profile
    assert json.loads(json.dumps(fitted.as_dict()))["profile"]["name"] == profile.name


def test_a_run_is_fitted_by_arm(tmp_path):
    done = run(["bare", "finish"], known(), size=4)
    folder = written(tmp_path, done, {"bare": ("scripted", "known"), "finish": ("scripted", "known")})
    both, one = fit_run(folder), fit_run(folder, arms=["fin"])
    assert (both.trials, both.arms, both.profile.name) == (16, ("bare", "finish"), "fitted-known")
    assert (one.trials, one.arms) == (8, ("finish",))
    of_finish = [item for item in done if item.record.arm == "finish"]
    assert one.rates == fitted_to(of_finish).rates


def written(folder: Path, done: Sequence[FinishedTrial], arms: Mapping[str, tuple[str, str]], **config: Any) -> Path:
    """A run directory; `arms`: name → model and profile."""
    listed = [{"arm": arm, "loop": arm, "options": {}, "model": model, "profile": given} for arm, (model, given) in arms.items()]
    manifest: dict[str, Any] = {
        "created": "2026-01-01T00:00:00+00:00",
        "config": {"repeats": 1, "alpha": 0.05, "margin": 0.02} | config,
    }
    manifest |= {"suite": {"name": "s", "version": "1", "digest": "d", "tasks": 1}, "profiles": {}, "arms": listed}
    manifest |= {"seed": 0, "versions": {}, "packages": {}, "python": "3.11", "platform": "Linux"}
    write_manifest_json(folder, manifest)
    with TrialWriter(folder) as journal:
        for item in done:
            journal.append(item.record, item.trace)
    return folder


UNPOOLED: list[tuple[dict[str, Any], str]] = [
    ({}, "several profiles cannot be pooled (clean, known); choose with --profile or --arm"),
    ({"arms": ["x"]}, "'x' names 0 arms; this run has bare(in), finish"),
    ({"profile": "stubborn"}, "no such arm"),
]


def test_arms_and_models_are_not_pooled_silently_and_the_model_gives_the_profile_its_name(tmp_path):
    (tmp_path / "arms").mkdir()
    folder = written(tmp_path / "arms", [], {"bare(in)": ("scripted", "clean"), "finish": ("scripted", "known")})
    for options, said in UNPOOLED:
        with pytest.raises(RunError, match=re.escape(said)):
            fit_run(folder, **options)
    done = run(["bare"], known(), size=3, repeats=1)
    (tmp_path / "models").mkdir()
    folder = written(tmp_path / "models", done, {"bare": ("openai/GPT-4o mini", "clean"), "other": ("scripted", "clean")})
    with pytest.raises(RunError, match=r"several models cannot be pooled .*; choose with --model or --arm"):
        fit_run(folder)
    assert fit_run(folder, arms=["bare"]).profile.name == "gpt-4o-mini"
    assert fit_run(folder, model="openai/GPT-4o mini", name="mine").profile.name == "mine"


TIMED: list[tuple[str, dict[str, Any], bool]] = [
    ("openai/x", {}, True),
    ("openai/x", {"cassette": "rec", "cassette_mode": "record"}, True),
    ("openai/x", {"cassette": "rec", "cassette_mode": None}, False),
    ("openai/x", {"cassette": "rec", "cassette_mode": "replay-or-record"}, False),
    ("scripted", {}, False),
    ("scripted", {"real_time": True}, True),
]


def test_latency_is_fitted_only_where_it_is_the_models(tmp_path):
    done = run(["bare"], known(), size=3, repeats=1)
    for number, (model, config, timed) in enumerate(TIMED):
        (tmp_path / str(number)).mkdir()
        found = fit_run(written(tmp_path / str(number), done, {"bare": (model, "clean")}, **config))
        assert (found.rates["provider.slow"].interval is not None) is timed, (model, config)
