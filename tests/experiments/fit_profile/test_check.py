"""A fitted profile is held against the run that it came from, and says how far it is off."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.experiments.running import ran as run_of
from tests.models.real.provider import NAME, completion, serving
from tests.sealing import reseal
from whichloop.experiments.fit_profile.check import MEASURES, check_fit, compare_records
from whichloop.experiments.fit_profile.doc import fit_doc
from whichloop.experiments.fit_profile.fit import FittedProfile, fit_run
from whichloop.metrics.record import Record
from whichloop.models.profiles import load_profile
from whichloop.text.doc import Lines

Made = Callable[..., Path]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """Makes a run of two quick loops over a few tasks."""
    return lambda **config: ran(tmp_path, **config)


def ran(folder: Path, **config: Any) -> Path:
    return run_of(folder / "runs", **({"loops": ("bare", "finish"), "suite": "arithmetic(size=10)"} | config)).folder


@pytest.fixture(scope="module")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same under faults, with repeats; tests only read it."""
    return ran(tmp_path_factory.mktemp("repeated"), profiles=("flaky-format",), repeats=2)


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one loop, which tests copy before they change it."""
    return ran(tmp_path_factory.mktemp("once"), loops=("bare",))


def under(fitted: FittedProfile, profile: str) -> FittedProfile:
    """The fit as if it had come to another profile."""
    return replace(fitted, profile=load_profile(profile))


def test_a_model_that_speaks_rubbish_is_told(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with serving(lambda heard: completion("la li lu")) as server:
        folder = made(models=(NAME,), base_url=server.url)
    fitted = fit_run(folder)
    check = check_fit(folder, fitted)
    calls = next(gap for gap in check.gaps if (gap.loop, gap.measure) == ("finish", "calls"))
    assert calls.off
    assert calls.profile > 2 * calls.run


def trials(arm: str, values: Any) -> list[Record]:
    """A record for each task and repeat; `values`: accuracy and calls, of shape (2, tasks, repeats)."""
    return [
        Record(arm, "s", "d", f"t{task}", repeat, 0, "scored", scores={"accuracy": float(right)}, calls={"decide": int(calls)})
        for task, (rights, all_calls) in enumerate(zip(*values, strict=True))
        for repeat, (right, calls) in enumerate(zip(rights, all_calls, strict=True))
    ]


def test_of_profiles_that_reproduce_their_runs_no_more_than_alpha_are_called_off() -> None:
    generator, alpha, times = np.random.default_rng(7), 0.1, 100
    called = 0
    for _ in range(times):
        hard = generator.beta(2, 1, size=(20, 1))

        def drawn(hard: Any = hard) -> Any:
            return np.stack([generator.random((20, 2)) < hard, 1 + generator.poisson(6 * (2 - hard), size=(20, 2))])

        gaps = compare_records({"a/x": "a/y"}, trials("a/x", drawn()), trials("a/y", drawn()), alpha)
        called += any(gap.off for gap in gaps)
    assert called / times < alpha + 3 * np.sqrt(alpha * (1 - alpha) / times)


def test_code_of_the_users_own_is_run_only_if_it_is_typed(made: Made) -> None:
    own = "whichloop.loops.bare:Bare"
    folder = made(loops=(own,), profiles=("flaky-format",))
    fitted = fit_run(folder)
    check = check_fit(folder, fitted)
    assert check.gaps == ()
    assert f"--allow {own}" in check.problem
    assert check_fit(folder, fitted, [own]).gaps


def test_a_profile_that_reproduces_its_run_is_not_called_off(repeated: Path, made: Made) -> None:
    check = check_fit(repeated, fit_run(repeated))
    assert (check.problem, check.off, check.tasks, check.repeats) == ("", (), 10, 2)
    assert [(gap.loop, gap.measure) for gap in check.gaps] == [(loop, what) for loop in ("bare", "finish") for what in MEASURES]
    for gap in check.gaps:
        assert gap.difference.value == pytest.approx(gap.run - gap.profile)
        assert gap.difference.low <= 0 <= gap.difference.high
    clean = made(profiles=("clean",))  # nothing is drawn: the loops do again what they did
    gaps = check_fit(clean, fit_run(clean)).gaps
    assert all((gap.run, gap.difference.value, gap.off) == (gap.profile, 0.0, False) for gap in gaps)


def test_a_profile_that_does_not_says_by_how_much(made: Made) -> None:
    folder = made(profiles=("stubborn",), suite="arithmetic(size=20)")
    fitted = fit_run(folder)
    check = check_fit(folder, replace(fitted, profile=load_profile("clean")))
    assert {gap.loop for gap in check.off} == {"bare", "finish"}
    assert all(gap.run > gap.profile for gap in check.off if gap.measure == "errors")
    doc = fit_doc(fitted, check)
    assert doc.data["check"]["off"]
    warnings = [text for block in doc.blocks if isinstance(block, Lines) for label, text in block.items if label == "Warning"]
    assert f"off under this profile: bare, {check.off[0].measure}" in warnings


OTHERS: list[tuple[str, Callable[[Any], Any], str]] = [
    ("suite", lambda suite: suite.update(digest="other"), "the suite has changed since the run"),
    ("arms", lambda arms: arms[0].update(code="other"), "loop bare has changed since the run"),
    ("config", lambda config: config.update(loops=["finish"]), "the manifest does not name the loop of bare/clean"),
    ("config", lambda config: config.update(quarantine="gone.toml"), "gone.toml"),
]


@pytest.mark.parametrize(("part", "change", "said"), OTHERS)
def test_what_has_changed_since_the_run_is_not_blamed_on_the_profile(once: Path, tmp_path: Path, part, change, said) -> None:
    folder = tmp_path / once.name
    shutil.copytree(once, folder)
    fitted, path = fit_run(folder), folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest[part])
    path.write_text(json.dumps(manifest))
    reseal(path)
    check = check_fit(folder, fitted)
    assert check.gaps == ()
    assert said in check.problem
    assert "\n" not in check.problem
