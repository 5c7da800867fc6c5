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

from tests.sealing import unseal
from whichloop.experiments.ablate.ablation import AblationResult, ablation_result
from whichloop.experiments.ablate.prepare import AblationRequest, prepare
from whichloop.experiments.ablate.tables import ablation_notes, ablation_tables, effect_lines, to_markdown
from whichloop.experiments.compare.prepare import Experiment
from whichloop.experiments.compare.reopen import reopen
from whichloop.experiments.compare.results import MAX_PAIRED, Results, results
from whichloop.experiments.compare.run import run
from whichloop.metrics.statistics import Verdict, VerdictWord
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.manifest import read_manifest
from whichloop.runs.store.files import MANIFEST, TRIALS, RunError, read_manifest_json, write_manifest_json

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
    return done(prepare(AblationRequest("finish", RETRIES), config_in(tmp_path_factory.mktemp("retried"))))


def done(experiment: Experiment) -> AblationResult:
    assert run(experiment, Unwatched()) == ""
    found = ablation_result(results(experiment.folder))
    assert found is not None
    return found


def test_the_cells_are_arms_of_an_ordinary_comparison(config):
    experiment = prepare(AblationRequest("finish", ("parse_retries=0,2,5", "forced_finish=both,off")), config())
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
    trials = folder / TRIALS
    trials.write_bytes(b"".join(trials.read_bytes().splitlines(keepends=True)[:20]))  # as a kill leaves it
    unseal(trials.parent)
    stopped = ablation_result(results(folder))
    assert stopped is not None
    assert not stopped.results.is_complete
    assert stopped.effects != whole.effects
    again = done(reopen(folder))
    assert again.results.digest == whole.results.digest
    assert again.effects == whole.effects
    assert again.ablation == whole.ablation


def test_before_any_trial_there_are_no_effects(config):
    experiment = prepare(AblationRequest("finish", RETRIES), config())
    found = ablation_result(results(experiment.folder))
    assert found is not None
    assert found.effects.effects == ()
    assert effect_lines(found) == []
    assert [table.title for table in ablation_tables(found)] == ["Cells"]


def test_each_profile_has_its_effects(config):
    found = done(
        prepare(AblationRequest("finish", RETRIES), config(profiles=("flaky-format", "clean"), suite="arithmetic(size=6)"))
    )
    assert {effect.profile for effect in found.effects.effects} == {"flaky-format", "clean"}
    said = effect_lines(found)
    assert [line.partition(" ")[0] for line in said] == ["flaky-format:", "flaky-format:", "clean:", "clean:"]
    assert all("profile" in table.columns for table in ablation_tables(found))
    assert any(note.startswith("clean: no odds ratios: every trial was solved") for note in ablation_notes(found))


def test_a_fraction_runs_half_of_the_cells_and_says_what_it_leaves_open(config):
    found = done(prepare(AblationRequest("finish", FOUR, design="fractional"), config(suite="arithmetic(size=4)")))
    assert len(found.results.comparison.arms) == len(found.layout.cells) == 8
    assert found.ablation.resolution == 4
    assert "parse_retries × forced_finish = parallel_tools × list_tools_in_error" in found.layout.aliases
    said = " ".join(ablation_notes(found))
    assert "resolution IV" in said
    assert "knows only the sums of: parse_retries × forced_finish = parallel_tools × list_tools_in_error" in said
    assert found.to_json()["ablation"]["aliases"] == list(found.layout.aliases)


def test_a_fraction_of_mixed_levels_says_how_good_it_is(config):
    wanted = AblationRequest(
        "finish", ("parse_retries=0,1,2", "forced_finish=both,off", "parallel_tools=true,false"), design="fractional"
    )
    found = done(prepare(wanted, config(suite="arithmetic(size=4)")))
    assert len(found.layout.cells) == 10
    assert found.ablation.resolution is None
    assert any(f"D-optimal, efficiency {found.ablation.efficiency:.2f}" in note for note in ablation_notes(found))


@pytest.mark.parametrize(("most", "cells"), [(16 * 12, 16), (16 * 12 - 1, 8), (8 * 12, 8)])
def test_a_budget_decides_how_many_cells_run(config, most, cells):
    assert len(prepare(AblationRequest("finish", FOUR, max_trials=most), config()).arms) == cells


def test_interactions_may_be_left_out(config):
    found = done(prepare(AblationRequest("finish", RETRIES, interactions=False), config(suite="arithmetic(size=4)")))
    assert {effect.kind for effect in found.effects.effects} == {"main"}
    assert not any(table.title.startswith("Interactions") for table in ablation_tables(found))


def test_the_metrics_asked_for_are_kept(config):
    found = done(prepare(AblationRequest("finish", RETRIES, metrics=("lm_calls",)), config(suite="arithmetic(size=4)")))
    assert {effect.metric for effect in found.effects.effects} == {"accuracy", "lm_calls"}


def test_what_a_loop_wraps_may_vary_too(config):
    wanted = AblationRequest("repeat_guard", ('loop="bare(max_steps=8)",finish', "warn_at=2,3"))
    found = done(prepare(wanted, config(suite="arithmetic(size=4)")))
    assert found.ablation.default is None
    assert {effect.term for effect in found.effects.effects if effect.kind == "main"} == {
        'loop: "bare(max_steps=8)" → finish',
        "warn_at: 2 → 3",
    }


def test_options_that_are_not_varied_stay_as_typed(config):
    experiment = prepare(AblationRequest("finish(max_steps=4)", RETRIES), config())
    assert all(arm.spec.options["max_steps"] == 4 for arm in experiment.arms)
    assert read_manifest_json(experiment.folder)["ablation"]["default"] == {"parse_retries": 2, "forced_finish": "both"}


def test_many_cells_are_not_compared_in_pairs(config):
    values = ",".join(map(str, range(MAX_PAIRED + 1)))
    found = done(prepare(AblationRequest("finish", (f"parse_retries={values}",)), config(suite="arithmetic(size=2)")))
    assert found.results.comparison.pairs == ()
    assert not any("no task was scored in both" in warning for warning in found.results.comparison.warnings)
    assert any("too many to compare in pairs" in note for note in ablation_notes(found))
    fewer = done(prepare(AblationRequest("finish", RETRIES), config(suite="arithmetic(size=3)")))
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
        suite="events", tasks=18, repeats=1, profiles=("flaky-format",), mlflow=False, runs=tmp_path_factory.mktemp("runs")
    )
    return done(prepare(AblationRequest("react_extract", ("on_parse_error=finish,observe", "extract=true,false")), config))


def test_a_factor_that_depends_on_another_says_how(reacted):
    first, second = effect_lines(reacted)
    assert first.startswith("on_parse_error finish → observe: +0.")
    assert re.search(r"\], better; with extract true \+0\.\d{3}, false \+0\.\d{3}$", first)
    assert second.startswith("extract true → false: ")
    assert re.search(r"with on_parse_error finish -0\.\d{3}, observe \+0\.\d{3}$", second)


def test_what_a_change_does_at_each_value_stands_with_that_change(reacted):
    """A factor of three values: what depends on another is told of changes from the first, of which the second is no step."""
    name, levels = "on_parse_error", ("finish", "again", "observe")
    main = next(effect for effect in reacted.effects.effects if effect.kind == "main" and effect.factors == (name,))
    both = next(effect for effect in reacted.effects.effects if effect.kind == "interaction")
    steps = [replace(main, term=f"{name}: {change}") for change in ("finish → again", "finish → observe", "again → observe")]
    effects = replace(reacted.effects, effects=(*steps, replace(both, verdict=Verdict("better", False))))
    factors = tuple(replace(each, levels=levels) if each.name == name else each for each in reacted.layout.factors)
    made = replace(reacted, effects=effects, layout=replace(reacted.layout, factors=factors))
    first, second, third, by_value = effect_lines(made)[0].split("; ")
    assert [text.partition(":")[0] for text in (first, second, third)] == [
        f"{name} {levels[0]} → again",
        "again → observe",
        "finish → observe",
    ]
    assert by_value.startswith("with extract true ")


def test_an_invalid_run_has_no_conclusion(reacted):
    broken = replace(reacted.results, comparison=replace(reacted.results.comparison, invalid=True))
    assert effect_lines(replace(reacted, results=broken)) == []
    assert any("no effect of it holds" in note for note in ablation_notes(replace(reacted, results=broken)))


def test_the_cell_that_is_the_loop_itself_is_marked(reacted):
    (cells,) = (table for table in ablation_tables(reacted) if table.title == "Cells")
    assert [row[0] for row in cells.rows] == ["1 *", "2", "3", "4"]
    assert cells.columns[:4] == ("cell", "on_parse_error", "extract", "scored")


def test_verdicts_are_in_the_words_of_a_comparison(reacted):
    words = get_args(VerdictWord)
    effects = [replace(effect, verdict=Verdict(word, False)) for effect in reacted.effects.effects[:3] for word in words]
    made = replace(reacted, effects=replace(reacted.effects, effects=tuple(effects)))
    mains, interactions = ([row[3] for row in table.rows] for table in ablation_tables(made)[:2])
    assert mains == [*words, *words]
    assert interactions == ["more than the sum", "less than the sum", "equivalent", "undecided"]
    assert "], undecided; with extract true" in effect_lines(made)[0]


def test_markdown_holds_tables_and_effect_lines(reacted):
    page = to_markdown(reacted)
    assert "### Main effects on accuracy" in page
    assert "- on\\_parse\\_error finish → observe: +0." in page


def test_json_has_what_the_page_promises(reacted):
    made = json.loads(json.dumps(reacted.to_json(), allow_nan=False))
    assert made["ablation"]["factors"] == {"on_parse_error": ["finish", "observe"], "extract": [True, False]}
    assert [effect["kind"] for effect in made["effects"]][:3] == ["main", "main", "interaction"]
    assert made["effects"][2]["conditional"][0]["given"] == "extract = true"
    assert made["cells"][0]["default"] is True
    assert made["cells"][0]["values"] == {"on_parse_error": "finish", "extract": True}
    assert set(made["cells"][0]) >= {"arm", "profile", "scored", "accuracy", "steps", "tokens"}


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
        (AblationRequest("finish", ()), "--factor: give at least one"),
        (AblationRequest("finish", ("parse_retries",)), "--factor 'parse_retries': write option=value,value"),
        (
            AblationRequest("finish", ("parse_retry=0,2",)),
            "--factor parse_retry: loop finish has no such option; did you mean 'parse_retries'?",
        ),
        (AblationRequest("finish", ("parse_retries=0",)), "--factor parse_retries: give two values or more, the base first"),
        (AblationRequest("finish", ("parse_retries=",)), "--factor parse_retries: give two values or more"),
        (AblationRequest("finish", ("parse_retries=0,2,0",)), "--factor parse_retries: the value 0 is given twice"),
        (AblationRequest("finish", ("parse_retries=0,2", "parse_retries=3,4")), "--factor parse_retries: it is given twice"),
        (AblationRequest("finish(parse_retries=1)", ("parse_retries=0,2",)), "given twice, finish(parse_retries=1) has it too"),
        (
            AblationRequest("finish", ("parse_retries=0,-1",)),
            "cell parse_retries=-1: loop finish(parse_retries=-1): parse_retries must be",
        ),
        (
            AblationRequest("finish", ("forced_finish=true,false",)),
            "cell forced_finish=true: loop finish: forced_finish: ",
        ),
        (
            AblationRequest("finish", ("parse_retries=1,1.0",)),
            "cells parse_retries=1 and parse_retries=1.0 are one and the same loop",
        ),
        (AblationRequest("finish", ("parse_retries=0,(1",)), "'(1' is not a TOML value"),
        (AblationRequest("finsh", ("parse_retries=0,1",)), "unknown loop 'finsh'; did you mean 'finish'?"),
        (AblationRequest("finish", RETRIES, metrics=("step",)), "--metric: unknown metric 'step'; did you mean 'steps'?"),
        (AblationRequest("finish", RETRIES, design="half"), "--design: known: full, fractional"),
        (AblationRequest("finish", RETRIES, max_trials=0), "--budget-trials: it must be at least 1, got 0"),
        (
            AblationRequest("finish", RETRIES, design="fractional"),
            "no fraction of the 4 cells tells main effects from two-factor interactions",
        ),
        (
            AblationRequest("finish", RETRIES, design="full", max_trials=47),
            "4 cells are too many: each takes 12 trials, and 47 are allowed in all",
        ),
        (
            AblationRequest("finish", RETRIES, max_trials=47),
            "all would be 4, each takes 12 trials, and 47 are allowed in all",
        ),
        (AblationRequest("finish", FOUR, max_trials=95), "a fraction needs at least 8 cells, and 7 are affordable"),
        (
            AblationRequest("finish", (f"parse_retries={','.join(map(str, range(201)))}",)),
            "201 cells are too many: 200 arms are the most; a fractional design takes fewer",
        ),
    ],
)
def test_bad_input_is_one_line_and_makes_nothing(config, tmp_path, wanted, said):
    with pytest.raises(ValueError, match=re.escape(said)) as caught:
        prepare(wanted, config())
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.glob(f"runs/*/{MANIFEST}"))


def test_arms_of_all_profiles_count(config):
    values = ",".join(map(str, range(101)))
    with pytest.raises(ValueError, match="101 cells are too many: each takes 2 arms, of 200 in all"):
        prepare(AblationRequest("finish", (f"parse_retries={values}",)), config(profiles=("clean", "stubborn")))


def test_looks_are_for_comparisons(config):
    with pytest.raises(ValueError, match="leave looks out"):
        prepare(AblationRequest("finish", RETRIES), config(loops=("bare", "finish"), looks=2))
