"""An ablation from what was typed to its effects: cells, manifest, budget, resuming, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from tests.kept import put, rows
from whichloop.experiments.ablate import prepare as preparing
from whichloop.experiments.ablate.ablation import AblationResult, ablation_result
from whichloop.experiments.ablate.doc import MAX_SETTINGS, ablation_doc
from whichloop.experiments.ablate.prepare import prepare
from whichloop.experiments.compare.prepare import Experiment
from whichloop.experiments.compare.reopen import reopen
from whichloop.experiments.compare.results import MAX_PAIRED, Results, results
from whichloop.experiments.compare.run import run
from whichloop.metrics.statistics import PairVerdict, VerdictWord
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.manifest import read_manifest
from whichloop.runs.store.files import MANIFEST, RunError, read_manifest_json, write_manifest_json
from whichloop.text.doc import Lines

pytestmark = pytest.mark.thorough

RETRIES = ("parse_retries=0,2", "forced_finish=both,off")
FOUR = ("parse_retries=0,2", "forced_finish=both,off", "parallel_tools=false,true", "list_tools_in_error=false,true")


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
    experiment = prepare("finish", ("parse_retries=0,2,5", "forced_finish=both,off"), config())
    assert [arm.name for arm in experiment.arms] == [
        f"finish(forced_finish={ending}, parse_retries={retries})/flaky-format"
        for retries in (0, 2, 5)
        for ending in ("both", "off")
    ]
    kept = read_manifest_json(experiment.folder)["ablation"]
    assert kept["loop"] == "finish"
    assert kept["factors"] == {"parse_retries": [0, 2, 5], "forced_finish": ["both", "off"]}
    assert kept["design"] == "full"
    assert kept["cells"][experiment.arms[3].name] == {"parse_retries": 2, "forced_finish": "off"}
    assert kept["default"] == {"parse_retries": 2, "forced_finish": "both"}
    assert len(kept["cells"]) == 6


def test_effects_are_differences_between_the_arms(retried):
    found = retried
    share = {
        tuple(found.ablation.cells[arm.info.arm].values()): arm.summary.accuracy.value
        for arm in found.results.comparison.arms
        if arm.summary.accuracy is not None
    }
    by_term = {effect.term: effect.difference for effect in found.effects.effects if effect.metric == "accuracy"}
    retries = np.mean([share[2, ending] - share[0, ending] for ending in ("both", "off")])
    assert by_term["parse_retries: 0 → 2"].value == pytest.approx(retries)
    assert retries > 0
    assert by_term["parse_retries: 0 → 2"].n == 12
    assert {effect.metric for effect in found.effects.effects} == {"accuracy", "steps", "lm_calls", "tokens"}  # no price is known


def test_a_stopped_run_goes_on_to_the_same_effects(retried, tmp_path):
    whole, folder = retried, tmp_path / retried.results.folder.name
    shutil.copytree(whole.results.folder, folder)
    put(folder, rows(folder)[:20])  # as a kill leaves it
    stopped = ablation_result(results(folder))
    assert stopped is not None
    assert not stopped.results.is_complete
    assert stopped.effects != whole.effects
    again = done(reopen(folder))
    assert again.results.digest == whole.results.digest
    assert again.effects == whole.effects
    assert again.ablation == whole.ablation


def test_before_any_trial_there_are_no_effects(config):
    experiment = prepare("finish", RETRIES, config())
    found = ablation_result(results(experiment.folder))
    assert found is not None
    assert found.effects.effects == ()
    shown = ablation_doc(found)
    assert "Use" not in shown.facts
    assert shown.data["answer"]["choices"] == []


def test_each_profile_has_its_effects(config):
    found = done(prepare("finish", RETRIES, config(profiles=("flaky-format", "clean"), suite="arithmetic(size=6)")))
    assert {effect.profile for effect in found.effects.effects} == {"flaky-format", "clean"}
    effects = ablation_doc(found).tables[1]
    assert effects.columns[:3] == ("effect", "profile", "accuracy")
    assert [row[1] for row in effects.texts] == ["flaky-format", "flaky-format", "clean", "clean"]
    assert any(note.startswith("clean: no odds ratios: every trial was solved") for note in found.effects.notes)


def test_a_fraction_runs_half_of_the_cells_and_says_what_it_leaves_open(config, monkeypatch):
    monkeypatch.setattr(preparing, "MAX_CELLS", 15)
    found = done(prepare("finish", FOUR, config(suite="arithmetic(size=4)")))
    assert len(found.results.comparison.arms) == len(found.layout.cells) == 8
    assert found.ablation.resolution == 4
    assert "parse_retries × forced_finish = parallel_tools × list_tools_in_error" in found.layout.aliases
    shown = ablation_doc(found)
    warned = " ".join(shown.facts["Warning"])
    assert "8 of 16 cells (resolution 4)" in warned
    assert "only the sums are known of parse_retries × forced_finish = parallel_tools × list_tools_in_error" in warned
    assert shown.data["ablation"]["aliases"] == list(found.layout.aliases)
    own = {choice["factor"]: choice["value"] for choice in shown.data["answer"]["choices"]}
    assert ("not run with just these values" in warned) is (own not in map(found.values, found.ablation.cells))


def test_a_fraction_of_mixed_levels_says_how_good_it_is(config, monkeypatch):
    monkeypatch.setattr(preparing, "MAX_CELLS", 10)
    varied = ("parse_retries=0,1,2", "forced_finish=both,off", "parallel_tools=true,false")
    found = done(prepare("finish", varied, config(suite="arithmetic(size=4)")))
    assert len(found.layout.cells) == 10
    assert found.ablation.resolution is None
    assert any(f"D-optimal, efficiency {found.ablation.efficiency:.2f}" in each for each in ablation_doc(found).facts["Warning"])


def test_what_a_loop_wraps_may_vary_too(config):
    found = done(prepare("repeat_guard", ('loop="bare(max_steps=8)",finish', "warn_at=2,3"), config(suite="arithmetic(size=4)")))
    assert found.ablation.default is None
    assert {effect.term for effect in found.effects.effects if effect.kind == "main"} == {
        'loop: "bare(max_steps=8)" → finish',
        "warn_at: 2 → 3",
    }


def test_options_that_are_not_varied_stay_as_typed(config):
    experiment = prepare("finish(max_steps=4)", RETRIES, config())
    assert all(arm.spec.options["max_steps"] == 4 for arm in experiment.arms)
    assert read_manifest_json(experiment.folder)["ablation"]["default"] == {"parse_retries": 2, "forced_finish": "both"}


def test_many_cells_are_not_compared_in_pairs(config):
    values = ",".join(map(str, range(MAX_PAIRED + 1)))
    found = done(prepare("finish", (f"parse_retries={values}",), config(suite="arithmetic(size=2)")))
    assert found.results.comparison.pairs == ()
    assert "no common tasks" not in {each.code for each in found.results.comparison.caveats}
    shown = ablation_doc(found)
    assert any(
        "too many to compare in pairs" in text for block in shown.blocks if isinstance(block, Lines) for _, text in block.items
    )
    shorter, whole = (next(table for table in shown.tables if table.detail is detail) for detail in (False, True))
    assert (len(whole.rows), whole.title) == (MAX_PAIRED + 1, "All settings")
    assert {"use, as it is", ""} == {row[1] for row in shorter.texts}
    assert MAX_SETTINGS <= len(shorter.rows) <= MAX_SETTINGS + 1
    fewer = done(prepare("finish", RETRIES, config(suite="arithmetic(size=3)")))
    assert fewer.results.comparison.pairs


def test_a_comparison_is_no_ablation(config):
    from whichloop.experiments.compare.prepare import prepare as prepare_comparison

    experiment = prepare_comparison(config(loops=("bare", "finish")))
    found = results(experiment.folder)
    assert ablation_result(found) is None


# What is said.


@pytest.fixture(scope="module")
def reacted(tmp_path_factory: pytest.TempPathFactory) -> AblationResult:
    config = CompareConfig(
        suite="events", tasks=30, repeats=1, profiles=("flaky-format",), mlflow=False, runs=tmp_path_factory.mktemp("runs")
    )
    return done(prepare("react_extract", ("on_parse_error=finish,observe", "extract=true,false"), config))


def test_a_factor_that_depends_on_another_says_how(reacted):
    first, second = ablation_doc(reacted).facts["Depends"]
    assert re.fullmatch(r"on_parse_error: finish → observe: \+\.\d\d with extract=true, \+\.\d\d with extract=false", first)
    assert re.fullmatch(r"extract: true → false: -\.\d\d with on_parse_error=finish, \+\.\d\d with on_parse_error=observe", second)


def test_the_matrix_marks_the_setting_to_use_and_the_loop_s_own(reacted):
    shown = ablation_doc(reacted)
    settings, effects = shown.tables[:2]
    marks = {row[0]: row[1] for row in settings.texts}
    assert marks["finish, true"] == "as it is"
    assert sum(mark == "use" for mark in marks.values()) == 1
    assert shown.facts["Use"] == [shown.data["answer"]["use"]]
    assert [row[0] for row in effects.texts] == ["on_parse_error: finish → observe", "extract: true → false"]
    assert effects.texts[0][3] == "better"
    assert effects.texts[0][4].startswith("+")


def test_an_invalid_run_has_no_conclusion(reacted):
    broken = replace(reacted.results, comparison=replace(reacted.results.comparison, invalid=True))
    facts = ablation_doc(replace(reacted, results=broken)).facts
    assert facts["Invalid"] == ["no effect of this run holds"]
    assert {"Use", "Open", "Depends"}.isdisjoint(facts)


def test_verdicts_on_interactions_are_of_the_sum(reacted):
    words = get_args(VerdictWord)
    both = next(effect for effect in reacted.effects.effects if effect.kind == "interaction")
    made = tuple(replace(both, verdict=PairVerdict(word, False)) for word in words)
    table = next(
        table
        for table in ablation_doc(replace(reacted, effects=replace(reacted.effects, effects=made))).tables
        if table.title == "All effects"
    )
    assert [row[4] for row in table.texts] == ["more than the sum", "less than the sum", "equivalent", "undecided"]


def test_json_has_what_the_page_promises(reacted):
    made = json.loads(json.dumps(ablation_doc(reacted).data, allow_nan=False))
    assert made["ablation"]["factors"] == {"on_parse_error": ["finish", "observe"], "extract": [True, False]}
    assert [effect["kind"] for effect in made["effects"]][:3] == ["main", "main", "interaction"]
    assert made["effects"][2]["conditional"][0]["given"] == "extract = true"
    assert made["ablation"]["default"] == {"on_parse_error": "finish", "extract": True}
    assert set(made["ablation"]["cells"]) == {arm["arm"] for arm in made["arms"]}
    assert [choice["factor"] for choice in made["answer"]["choices"]] == ["on_parse_error", "extract"]


@pytest.mark.parametrize(
    "broken",
    [
        None,
        [],
        {},
        {"factors": 3},
        {"cells": {}},
        {"factors": {}},
        {"metrics": ["speed"]},
        {"factors": {"extract": [1]}},
        {"efficiency": None},
        {"resolution": []},
    ],
)
def test_a_manifest_that_makes_no_sense_is_one_line(reacted: AblationResult, tmp_path: Path, broken: Any):
    kept = reacted.results.manifest.ablation
    manifest = reacted.results.manifest.to_json()
    manifest["ablation"] = {**kept, **broken} if isinstance(broken, dict) and broken else broken
    write_manifest_json(tmp_path, manifest)
    with pytest.raises(RunError, match=r"the manifest's 'ablation' does not fit its arms|json: ablation: ") as caught:
        ablation_result(
            Results(reacted.results.folder, read_manifest(tmp_path), reacted.results.records, reacted.results.comparison)
        )
    assert "\n" not in str(caught.value)


# What is refused.


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (("finish", ("parse_retries",)), "vary: 'parse_retries': write option=value,value"),
        (
            ("finish", ("parse_retry=0,2",)),
            "vary: parse_retry: loop finish has no such option; did you mean 'parse_retries'?",
        ),
        (("finish", ("parse_retries=0",)), "vary: parse_retries: give two values or more, the base first"),
        (("finish", ("parse_retries=",)), "vary: parse_retries: give two values or more"),
        (
            ("finish", ("parse_retries=0,2,0",)),
            "cells parse_retries=0 and parse_retries=0 are one and the same",
        ),
        (("finish", ("parse_retries=0,2", "parse_retries=3,4")), "vary: parse_retries: it is given twice"),
        (("finish(parse_retries=1)", ("parse_retries=0,2",)), "given twice, finish(parse_retries=1) has it too"),
        (
            ("finish", ("parse_retries=0,-1",)),
            "cell parse_retries=-1: loop finish(parse_retries=-1): parse_retries must be",
        ),
        (
            ("finish", ("forced_finish=true,false",)),
            "cell forced_finish=true: loop finish: forced_finish: ",
        ),
        (
            ("finish", ("parse_retries=1,1.0",)),
            "cells parse_retries=1 and parse_retries=1.0 are one and the same loop",
        ),
        (("finish", ("parse_retries=0,(1",)), "'(1' is not a TOML value"),
        (("finsh", ("parse_retries=0,1",)), "unknown loop 'finsh'; did you mean 'finish'?"),
        (
            ("finish", (f"parse_retries={','.join(map(str, range(65)))}",)),
            "vary: 65 cells, and 64 are the most: no fraction of the 65 cells",
        ),
    ],
)
def test_bad_input_is_one_line_and_makes_nothing(config, tmp_path, wanted, said):
    with pytest.raises(ValueError, match=re.escape(said)) as caught:
        prepare(wanted[0], wanted[1], config())
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.glob(f"runs/*/{MANIFEST}"))


def test_arms_of_all_profiles_count(config):
    values = ",".join(map(str, range(51)))
    profiles = ("clean", "stubborn", "flaky-format", "flaky-tools")
    with pytest.raises(ValueError, match="51 cells, and 50 are the most"):
        prepare("finish", (f"parse_retries={values}",), config(profiles=profiles))
