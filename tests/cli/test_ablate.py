"""`whichloop ablate`, end to end: conclusions first, one JSON object, resumed and reported like any run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from whichloop.cli.render import interval_plot
from whichloop.metrics.factors.factorial import Effect
from whichloop.metrics.statistics import Interval, Verdict

pytestmark = pytest.mark.thorough

BRIEF = ["--suite", "arithmetic(size=12)", "--profile", "flaky-format", "--no-mlflow", "--quiet"]
RETRIES = ["finish", "--factor", "parse_retries=0,2", "--factor", "forced_finish=both,off"]


def test_tables_on_demand_then_the_chart_then_a_line_per_factor(whichloop):
    said = whichloop("ablate", *RETRIES, *BRIEF, "-v")
    assert said.code == 0
    lines = said.out.splitlines()
    first = next(place for place, line in enumerate(lines) if re.match(r"parse_retries 0 → 2: [+-]0\.\d{3} \[", line))
    assert lines[first + 1].startswith("forced_finish both → off: ")
    heads = ["Main effects on accuracy", "Interactions on accuracy", "Main effects on other metrics", "Cells"]
    places = [next(place for place, line in enumerate(lines) if line.startswith(head)) for head in heads]
    bars = [place for place, line in enumerate(lines) if "├" in line and "┤" in line]
    assert [*places, *bars, first] == sorted([*places, *bars, first])
    assert len(bars) == 3
    assert "accuracy; ● shown, ○ not shown, │ no difference" in said.out
    assert "run directory: " not in said.err  # it is asked to be quiet
    assert "Traceback" not in said.err


def test_json_is_one_object_and_report_gives_it_again(whichloop, here: Path):
    said = whichloop("ablate", *RETRIES, *BRIEF, "--json").json
    assert said["ablation"]["loop"] == "finish"
    assert said["ablation"]["design"] == "full"
    assert said["cells"][0]["values"] == {"parse_retries": 0, "forced_finish": "both"}
    assert {"run", "digest", "effects", "arms", "pairs"} <= said.keys()
    assert whichloop("report", "latest", "--json", "--no-html").json == said
    page = next(here.glob("runs/*/report.html")).read_text("utf-8")
    assert "What each factor does" in page


def test_report_shows_the_effects_again_with_tables_and_the_arms_on_demand(whichloop):
    first = whichloop("ablate", *RETRIES, *BRIEF).out
    assert "Main effects" not in first
    assert whichloop("report", "latest", "--no-html").out == first
    whole = whichloop("report", "latest", "--no-html", "-v").out
    assert whole.endswith(f"\n{first}")
    assert "\nMain effects on accuracy" in whole
    more = whichloop("report", "latest", "--no-html", "--all-metrics").out
    assert more.endswith(f"\n{first}")
    assert "Accuracy, a minus b" in more
    assert "### Main effects on accuracy" in whichloop("report", "latest", "--no-html", "--markdown").out


@pytest.mark.slow
def test_what_a_budget_ended_is_resumed(whichloop, here: Path):
    whole = whichloop("ablate", *RETRIES, *BRIEF, "--json").json
    (here / "short.toml").write_text("concurrency = 1\n[budget]\ncalls = 40\n", "utf-8")
    short = whichloop("ablate", *RETRIES, *BRIEF, "--config", "short.toml")
    assert short.code == 130
    command = short.err.rpartition("  whichloop ")[2].splitlines()[0]
    assert re.fullmatch(r"resume runs/\S+ --budget-calls \d+", command)
    again = whichloop(*command.split(), "--quiet", "--json").json
    assert again["digest"] == whole["digest"]
    assert again["effects"] == whole["effects"]


def test_a_mistake_is_one_line_and_exit_code_2(whichloop):
    said = whichloop("ablate", "finish", "--factor", "forced_finish=both,of", *BRIEF)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("error: cell forced_finish=of: loop finish: forced_finish: ")
    assert said.err.count("\n") == 1


def test_values_with_commas_stand_in_quotes(whichloop):
    said = whichloop("ablate", "finish", "--factor", 'system_prompt="Go, now.","Take, your, time."', *BRIEF, "--json").json
    assert said["ablation"]["factors"] == {"system_prompt": ["Go, now.", "Take, your, time."]}


# The chart.


def effect(term: str, low: float, value: float, high: float, word: str = "undecided") -> Effect:
    verdict = Verdict(word, False)  # type: ignore[arg-type]
    return Effect(term, "main", ("a",), "accuracy", "clean", Interval(value, low, high, 9), 0.5, 0.5, 0.05, 0.02, verdict, None)


def test_intervals_stand_over_one_axis():
    found = [effect("a: 0 → 1", 0.0, 0.5, 1.0, "better"), effect("b: 0 → 1", -1.0, 0.0, 1.0)]
    axis, first, second, _ = (line.plain for line in interval_plot(found, 51))
    assert axis == f"{' ' * 10}-1.00{' ' * 15}0{' ' * 15}+1.00"
    assert first == f"a: 0 → 1  {' ' * 20}├{'─' * 9}●{'─' * 9}┤"
    assert second == f"b: 0 → 1  ├{'─' * 19}○{'─' * 19}┤"


@pytest.mark.parametrize("width", [20, 30, 200])
def test_the_chart_fits_where_it_can(width):
    found = [effect("a long name: 0 → 1", 0.1, 0.5, 0.9, "better"), effect("b: 0 → 1", -0.2, 0.0, 0.2)]
    lines = [line.plain for line in interval_plot(found, width)]
    assert all(len(line) <= max(width, 24) for line in lines[:-1])
    assert sum("├" in line for line in lines) == 2


def test_where_nothing_varies_there_is_a_chart_all_the_same():
    assert "○" in interval_plot([effect("a: 0 → 1", 0.0, 0.0, 0.0)], 80)[1].plain
