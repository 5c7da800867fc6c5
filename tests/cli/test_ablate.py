"""`whichloop compare --vary`, end to end: conclusions first, one JSON object, resumed and reported like any run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

BRIEF = ["--suite", "arithmetic(size=12)", "--profile", "flaky-format", "--quiet"]
RETRIES = ["finish", "--vary", "parse_retries=0,2", "--vary", "forced_finish=both,off"]


def test_settings_effects_and_the_one_to_use_then_details_on_demand(whichloop):
    short = whichloop("compare", "--loop", *RETRIES, *BRIEF)
    assert short.code == 0
    assert "run directory: " not in short.err  # it is asked to be quiet
    labels = [line.split("  ")[0] for line in short.out.splitlines()]
    assert labels.index("setting") < labels.index("effect") < labels.index("Use") < labels.index("Basis")
    assert whichloop("report", "latest").out == short.out
    whole = whichloop("report", "latest", "-v").out
    assert short.out in whole
    assert "\nAll effects\n" in whole
    assert "### All effects" in whichloop("report", "latest", "--format", "md").out


def test_json_is_one_object_and_report_gives_it_again(whichloop, here: Path):
    said = whichloop("compare", "--loop", *RETRIES, *BRIEF, "--json").json
    assert said["ablation"]["loop"] == "finish"
    assert said["ablation"]["design"] == "full"
    assert next(iter(said["ablation"]["cells"].values())) == {"parse_retries": 0, "forced_finish": "both"}
    assert {"run", "digest", "effects", "arms", "pairs"} <= said.keys()
    assert whichloop("report", "latest", "--json").json == said
    page = next(here.glob("runs/*/report.html")).read_text("utf-8")
    assert "What each factor does" in page


@pytest.mark.slow
def test_what_a_budget_ended_is_resumed(whichloop, here: Path):
    whole = whichloop("compare", "--loop", *RETRIES, *BRIEF, "--json").json
    (here / "short.toml").write_text("concurrency = 1\n[budget]\ncalls = 40\n", "utf-8")
    short = whichloop("compare", "--loop", *RETRIES, *BRIEF, "--config", "short.toml")
    assert short.code == 130
    command = short.err.rpartition("  whichloop ")[2].splitlines()[0]
    assert re.fullmatch(r"resume runs/\S+ --budget \d+calls", command)
    again = whichloop(*command.split(), "--quiet", "--json").json
    assert again["digest"] == whole["digest"]
    assert again["effects"] == whole["effects"]


def test_a_mistake_is_one_line_and_exit_code_2(whichloop):
    said = whichloop("compare", "--loop", "finish", "--vary", "forced_finish=both,of", *BRIEF)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("error: cell forced_finish=of: loop finish: forced_finish: ")
    assert said.err.count("\n") == 1


def test_values_with_commas_stand_in_quotes(whichloop):
    said = whichloop("compare", "--loop", "finish", "--vary", 'system_prompt="Go, now.","Take, your, time."', *BRIEF, "--json").json
    assert said["ablation"]["factors"] == {"system_prompt": ["Go, now.", "Take, your, time."]}
