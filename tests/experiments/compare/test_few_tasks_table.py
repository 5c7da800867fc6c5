"""A run of a few tasks with repeats: its table of loops and tasks, in the terminal, on the page and in JSON."""

from __future__ import annotations

import json
import re

import pytest

from loopbench.cli.render_answer import answer_lines, task_lines
from loopbench.experiments.compare.prepare import prepare
from loopbench.experiments.compare.results import Results, results
from loopbench.experiments.compare.run import run
from loopbench.reports.html.page import report_html
from loopbench.runs.config import CompareConfig, TrialBudgetConfig
from loopbench.runs.engine.runner import Unwatched

WIDTHS = (50, 80, 120)


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Results:
    config = CompareConfig(
        loops=("bare", "finish"),
        profiles=("flaky-format", "flaky-tools"),
        suite="arithmetic(size=3)",
        repeats=4,
        runs=tmp_path_factory.mktemp("runs"),
        trial_budget=TrialBudgetConfig(tokens=4000),
        mlflow=False,
    )
    made = prepare(config)
    run(made, Unwatched())
    return results(made.folder)


def test_the_counts_are_those_of_the_records(few):
    told = json.loads(json.dumps(few.to_json()))["answer"]["tasks"]
    assert len(told) == 2 * 2 * 3
    for one in told:
        own = [r for r in few.records if (r.task, r.arm) == (one["task"], f"{one['loop']}/{one['column']}")]
        assert one["trials"] == len(own) == 4
        assert one["solved"] == sum(record.accuracy for record in own)
        assert one["over_limit"] == sum(record.stop == "budget" for record in own)
        assert one["cost"] == pytest.approx(sum(record.tokens for record in own) / 4)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_table_stands_below_the_matrix_and_fits(few, width):
    lines = [line.plain for line in task_lines(few.answer.on_tasks, width)]
    assert " ".join(lines).startswith("solved of 4 trials of each task under flaky-format / flaky-tools; over: beyond the limit")
    assert max(map(len, lines)) <= width
    whole = [line.plain for line in answer_lines(few, width)]
    assert set(lines) <= set(whole)
    assert sum("too few" in line for line in whole) == 0
    assert any(line.startswith("On these 3 tasks with at most 4,000 tokens a trial") for line in whole)


def test_trials_beyond_the_limit_have_a_denominator(few):
    said = next(line for line in few.answer.sentences if line.startswith("All of this is for at most 4,000 tokens a trial"))
    needed = "; trials that needed more, and so are not solved, of 24 each: "
    assert re.search(rf"{needed}(bare|finish) \d+, (bare|finish) (\d+|none)$", said)


def test_the_page_says_what_an_arm_is_by_one_of_the_run(few):
    said = "An arm is a loop under a fault profile: bare/flaky-format is the loop bare under the profile flaky-format."
    assert said in report_html(few)


def test_the_page_has_the_same_table_with_costs(few):
    on = few.answer.on_tasks
    page = report_html(few)
    assert f"S{on.caption[1:]}; behind it the trials over the limit" in page
    for row in few.answer.rows:
        for task in on.tasks:
            assert on.cell(row, task, has_limits=True, has_costs=True) in page
