"""The page of an optimization: its sections, what its prompts became, and that hostile text in them stays text."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

from tests.sealing import reseal
from whichloop.experiments.optimize.config import OptimizeConfig, SearchConfig
from whichloop.experiments.optimize.prepare import prepare as prepare_optimization
from whichloop.experiments.optimize.result import OptimizationResult, optimization_result
from whichloop.experiments.optimize.run import run as optimize
from whichloop.reports.html.page import optimization_html
from whichloop.runs.config import CompareConfig


@pytest.fixture(scope="module")
def optimized(tmp_path_factory) -> OptimizationResult:
    """One design, a few rollouts."""
    folder = tmp_path_factory.mktemp("o")
    compare = CompareConfig(
        loops=("bare",), profiles=("teachable",), suite="arithmetic(size=60)", tasks=6, runs=folder, mlflow=False
    )
    made = prepare_optimization(OptimizeConfig(compare=compare, search=SearchConfig(train=4, dev=4)))
    assert optimize(made) == ""
    return optimization_result(made.folder)


@pytest.mark.thorough
def test_an_optimization_has_its_gains_before_its_test(optimized, safe):
    found = safe(optimization_html(optimized))
    headings = [element.text.strip() for element in found.named("h2")]
    assert headings[:3] == ["Verdict", "Gains, ranking and cost", "Optimized prompts"]
    assert {"Test: Verdict", "Test: Charts", "Test: Tables"} <= set(headings)
    assert {"run", f"{optimized.folder.name}/test"} <= {element.text for element in found.named("th", "td")}
    (changed,) = (element.text for element in found.named("pre") if element.attributes.get("class") == "diff")
    assert changed.splitlines()[:3] == ["--- old prompts", f"+++ program {optimized.designs[0].ended.chosen}", "decide"]
    (command,) = (element.text for element in found.named("code") if element.text.startswith("whichloop compare"))
    assert " --loop bare --loop " in command
    assert " --profile teachable --suite 'arithmetic(size=60)' -s split=test --tasks 6" in command
    assert "What each design gained" in [element.text for element in found.named("title")]
    assert optimization_html(optimization_result(optimized.folder)) == optimization_html(optimized)


@pytest.mark.thorough
def test_hostile_text_in_an_optimization_stays_text(optimized, hostile, safe):
    def evil(program):
        prompts = {
            f"{name}{hostile}": replace(prompt, instructions=f"{program.number}{hostile}", demos=({hostile: hostile},))
            for name, prompt in program.candidate.program.items()
        }
        return replace(program, candidate=replace(program.candidate, program=prompts))

    designs = tuple(
        replace(
            design,
            design=f"{design.design}{hostile}",
            warnings=(hostile,),
            ended=replace(design.ended, reason=hostile),
            tried=tuple(map(evil, design.tried)),
            cut_off=hostile,
        )
        for design in optimized.designs
    )
    safe(optimization_html(replace(optimized, designs=designs)))


@pytest.mark.thorough
def test_an_optimization_without_its_test_has_a_page(optimized, safe, tmp_path):
    shutil.copytree(optimized.folder, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "test")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    manifest["splits"]["test"]["opened"] = None
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(manifest))
    reseal(tmp_path / "run" / "manifest.json")
    found = safe(optimization_html(optimization_result(tmp_path / "run")))
    assert "no trial of the test split was run yet" in found.named("main")[0].text
