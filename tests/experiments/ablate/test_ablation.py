"""An ablation from what was typed to its effects: cells, manifest, budget, resuming, and what is refused."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kept import put, rows
from whichloop.experiments.ablate import prepare as preparing
from whichloop.experiments.ablate.ablation import AblationResult, ablation_result
from whichloop.experiments.ablate.doc import ablation_doc
from whichloop.experiments.ablate.prepare import prepare
from whichloop.experiments.compare.reopen import reopen
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import Experiment, run
from whichloop.experiments.compare.run import prepare as prepare_comparison
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.manifest import read_manifest
from whichloop.runs.store.files import MANIFEST, RunError, read_manifest_json, write_manifest_json

pytestmark = pytest.mark.thorough
RETRIES = ("parse_retries=0,2", "forced_finish=both,off")
FOUR = (*RETRIES, "parallel_tools=false,true", "list_tools_in_error=false,true")


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., CompareConfig]:
    """Makes a configuration as `config_in`."""
    return lambda **changes: config_in(tmp_path, **changes)


def config_in(folder: Path, **changes: Any) -> CompareConfig:
    """A configuration: twelve tasks under one profile, without MLflow."""
    values = {"suite": "arithmetic(size=12)", "profiles": ("flaky-format",), "mlflow": False, "runs": folder / "runs"}
    return CompareConfig(**(values | changes))


@pytest.fixture(scope="module")
def retried(tmp_path_factory: pytest.TempPathFactory) -> AblationResult:
    """Two factors of `finish`. Tests that write into its directory copy it first."""
    return done(prepare("finish", RETRIES, config_in(tmp_path_factory.mktemp("retried"))))


def done(experiment: Experiment) -> AblationResult:
    assert run(experiment, Unwatched()) == ""
    found = ablation_result(results(experiment.folder))
    assert found is not None
    return found


def test_the_cells_are_arms_of_an_ordinary_comparison(config):
    experiment = prepare("finish(max_steps=4)", ("parse_retries=0,2,5", "forced_finish=both,off"), config())
    assert [arm.name for arm in experiment.arms] == [
        f"finish(forced_finish={ending}, max_steps=4, parse_retries={retries})/flaky-format"
        for retries in (0, 2, 5)
        for ending in ("both", "off")
    ]
    kept = read_manifest_json(experiment.folder)["ablation"]
    assert (kept["loop"], kept["design"], len(kept["cells"])) == ("finish(max_steps=4)", "full", 6)
    assert kept["factors"] == {"parse_retries": [0, 2, 5], "forced_finish": ["both", "off"]}
    assert kept["cells"][experiment.arms[3].name] == {"parse_retries": 2, "forced_finish": "off"}
    assert kept["default"] == {"parse_retries": 2, "forced_finish": "both"}
    compared = prepare_comparison(config(loops=("bare", "finish")))
    assert ablation_result(results(compared.folder)) is None


def test_effects_are_differences_between_the_arms(retried):
    share = {
        tuple(retried.ablation.cells[arm.info.arm].values()): arm.summary.accuracy.value
        for arm in retried.results.comparison.arms
        if arm.summary.accuracy is not None
    }
    (effect,) = [each for each in retried.effects if (each.metric, each.term) == ("accuracy", "parse_retries: 0 → 2")]
    retries = np.mean([share[2, ending] - share[0, ending] for ending in ("both", "off")])
    assert (effect.difference.value, effect.difference.n) == (pytest.approx(retries), 12)
    assert retries > 0
    assert {effect.metric for effect in retried.effects} == {"accuracy", "steps", "lm_calls", "tokens"}  # no price is known


def test_a_stopped_run_goes_on_to_the_same_effects(retried, tmp_path):
    folder = tmp_path / retried.results.folder.name
    shutil.copytree(retried.results.folder, folder)
    put(folder, rows(folder)[:20])  # as a kill leaves it
    stopped = ablation_result(results(folder))
    assert stopped is not None
    assert not stopped.results.is_complete
    assert stopped.effects != retried.effects
    again = done(reopen(folder))
    assert again.results.digest == retried.results.digest
    assert (again.effects, again.ablation) == (retried.effects, retried.ablation)


def test_a_fraction_runs_half_of_the_cells_and_says_what_it_leaves_open(config, monkeypatch):
    monkeypatch.setattr(preparing, "MAX_CELLS", 15)
    found = done(prepare("finish", FOUR, config(suite="arithmetic(size=4)")))
    assert len(found.results.comparison.arms) == len(found.layout.cells) == 8
    assert "parse_retries × forced_finish = parallel_tools × list_tools_in_error" in found.layout.aliases
    shown = ablation_doc(found)
    warned = " ".join(shown.facts["Warning"])
    assert "8 of 16 cells (resolution 4)" in warned
    assert f"only the sums are known of {found.layout.aliases[0]}" in warned
    assert shown.data["ablation"]["aliases"] == list(found.layout.aliases)
    own = {choice["factor"]: choice["value"] for choice in shown.data["answer"]["choices"]}
    assert ("not run with just these values" in warned) is (own not in map(found.values, found.ablation.cells))


@pytest.fixture(scope="module")
def reacted(tmp_path_factory: pytest.TempPathFactory) -> AblationResult:
    config = config_in(tmp_path_factory.mktemp("reacted"), suite="events", tasks=30, repeats=1)
    return done(prepare("react_extract", ("on_parse_error=finish,observe", "extract=true,false"), config))


def test_the_document_says_which_setting_to_use_and_what_depends_on_what(reacted):
    shown = ablation_doc(reacted)
    first, second = shown.facts["Depends"]
    assert re.fullmatch(r"on_parse_error: finish → observe: \+\.\d\d with extract=true, \+\.\d\d with extract=false", first)
    assert re.fullmatch(r"extract: true → false: -\.\d\d with on_parse_error=finish, \+\.\d\d with on_parse_error=observe", second)
    settings, effects = shown.tables[:2]
    marks = {row[0]: row[1] for row in settings.texts}
    assert marks["finish, true"] == "as it is"
    assert sum(mark == "use" for mark in marks.values()) == 1
    assert shown.facts["Use"] == [shown.data["answer"]["use"]]
    assert [row[0] for row in effects.texts] == ["on_parse_error: finish → observe", "extract: true → false"]
    assert effects.texts[0][3] == "better"
    assert effects.texts[0][4].startswith("+")


MANY = f"parse_retries={','.join(map(str, range(65)))}"

REFUSED = [
    ("finish", ["parse_retries"], {}, "vary: 'parse_retries': write option=value,value"),
    ("finish", ["parse_retry=0,2"], {}, "vary: parse_retry: loop finish has no such option; did you mean 'parse_retries'?"),
    ("finish", ["parse_retries=0,2,0"], {}, "cells parse_retries=0 and parse_retries=0 are one and the same loop"),
    ("finish(parse_retries=1)", ["parse_retries=0,2"], {}, "vary: parse_retries: it is given twice"),
    ("finish", ["parse_retries=0,-1"], {}, "cell parse_retries=-1: loop finish(parse_retries=-1): parse_retries must be"),
    ("finish", ["forced_finish=true,false"], {}, "cell forced_finish=true: loop finish: forced_finish: "),
    ("finish", [MANY], {}, "vary: 65 cells, and 64 are the most: only 4 to 11 options of two values have fractions"),
    ("finish", [MANY], {"profiles": ("clean", "stubborn", "flaky-format", "flaky-tools")}, "65 cells, and 50 are the most"),
]


@pytest.mark.parametrize(("loop", "varied", "changes", "said"), REFUSED)
def test_bad_input_is_one_line_and_makes_nothing(config, tmp_path, loop, varied, changes, said):
    with pytest.raises(ValueError, match=re.escape(said)) as caught:
        prepare(loop, varied, config(**changes))
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.glob(f"runs/*/{MANIFEST}"))


def test_each_profile_has_its_effects_and_before_any_trial_there_are_none(config):
    profiles = ("flaky-format", "clean")
    found = done(prepare("finish", RETRIES, config(profiles=profiles, suite="arithmetic(size=6)")))
    effects = ablation_doc(found).tables[1]
    assert effects.columns[:3] == ("effect", "profile", "accuracy")
    assert [row[1] for row in effects.texts] == [profile for profile in profiles for _ in range(2)]
    assert "clean: no odds ratios: outcomes are separated." in found.notes
    begun = ablation_result(results(prepare("finish", RETRIES, config()).folder))
    assert begun is not None
    assert (begun.effects, ablation_doc(begun).data["answer"]["choices"], "Use" in ablation_doc(begun).facts) == ([], [], False)


BROKEN: list[Any] = [
    *([], {}, {"cells": {}}, {"metrics": ["speed"]}, {"factors": {"extract": [1]}}),
]


@pytest.mark.parametrize("broken", BROKEN)
def test_a_manifest_that_makes_no_sense_is_one_line_and_an_invalid_run_has_no_conclusion(reacted, tmp_path, broken):
    own = reacted.results
    invalid = replace(own, comparison=replace(own.comparison, invalid=True))
    facts = ablation_doc(replace(reacted, results=invalid)).facts
    assert facts["Invalid"] == ["no effect of this run holds"]
    assert {"Use", "Open", "Depends"}.isdisjoint(facts)
    fields = {**own.manifest.ablation, **broken} if isinstance(broken, dict) and broken else broken
    write_manifest_json(tmp_path, own.manifest.to_json() | {"ablation": fields})
    with pytest.raises(RunError, match=r"the manifest's 'ablation' does not fit its arms|json: ablation: ") as caught:
        ablation_result(Results(own.folder, read_manifest(tmp_path), own.records, own.comparison))
    assert "\n" not in str(caught.value)


def test_an_older_run_whose_manifest_has_the_efficiency_of_its_cells_is_read(reacted, tmp_path):
    own = reacted.results
    write_manifest_json(tmp_path, own.manifest.to_json() | {"ablation": {**own.manifest.ablation, "efficiency": 1.0}})
    again = ablation_result(Results(own.folder, read_manifest(tmp_path), own.records, own.comparison))
    assert again is not None
    assert again.effects == reacted.effects
