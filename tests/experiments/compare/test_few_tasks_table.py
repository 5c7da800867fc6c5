"""A run of a few tasks with repeats: its table of loops and tasks, in the terminal, on the page and in JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.cli.render_answer import MAX_LINES, answer_lines, task_lines
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import run
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import compare
from whichloop.metrics.record import Record
from whichloop.reports.html.page import report_html
from whichloop.runs.config import CompareConfig, TrialBudgetConfig
from whichloop.runs.engine.runner import Unwatched

WIDTHS = (50, 80, 120)
LOOPS = ("bare", "finish", "phased", "react_extract", "stateless")
PROFILES = ("flaky-format", "flaky-tools")


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Results:
    config = CompareConfig(
        loops=("bare", "finish"),
        profiles=PROFILES,
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
    whole = [line.plain for line in answer_lines(few, width, is_whole=True)]
    assert set(lines) <= set(whole)
    assert sum("too few" in line for line in whole) == 0
    assert any(line.startswith("On these 3 tasks with at most 4,000 tokens a trial") for line in whole)


def test_two_loops_on_eight_tasks_three_times_end_in_twelve_lines(tmp_path):
    """As the settings that `init` writes have them."""
    made = prepare(CompareConfig(loops=LOOPS[:2], profiles=PROFILES, tasks=8, repeats=3, runs=tmp_path, mlflow=False))
    run(made, Unwatched())
    found = results(made.folder)
    for width in (80, 100):
        lines = [line.plain for line in answer_lines(found, width)]
        assert len(lines) <= MAX_LINES
        assert lines[-1] == "The page and -v show what each loop solved of each task."


@settings(max_examples=cases(12))
@given(st.integers(1, 5), st.integers(1, 2), st.integers(1, 8), st.integers(1, 4), st.integers(0, 99))
def test_an_answer_on_few_tasks_has_their_table_within_twelve_lines_or_says_where_it_is(
    record, loops, profiles, tasks, repeats, seed
):
    found = _results(record, LOOPS[:loops], PROFILES[:profiles], tasks, repeats, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Results, "title", f"arithmetic 2: {tasks} tasks × {repeats}, seed 0")
        lines, whole = [[line.plain for line in answer_lines(found, 80, is_whole=each)] for each in (False, True)]
    table = [line.plain for line in task_lines(found.answer.on_tasks, 80)]
    assert max(map(len, lines)) <= 80
    where = "The page and -v show what each loop solved of each task." in " ".join(lines)
    is_cut = lines[-1].startswith("The rest: whichloop report ")
    is_hidden = not set(table) <= set(lines)
    assert (where or is_cut) if is_hidden else not where
    if (table and not where) or loops <= 2:
        assert len(lines) <= MAX_LINES == 12
    assert set(table) <= set(whole)


def _results(
    record: Callable[..., Record], loops: Sequence[str], profiles: Sequence[str], tasks: int, repeats: int, seed: int
) -> Results:
    chance = Random(seed)
    infos = [ArmInfo(f"{loop}/{profile}", loop, {}, "scripted", profile, "s") for loop in loops for profile in profiles]
    shares = {info.arm: chance.random() for info in infos}
    records = [
        record(
            arm=arm,
            task=f"order-{task}",
            repeat=repeat,
            scores={"accuracy": float(chance.random() < share)},
            input_tokens=chance.randint(100, 9999),
        )
        for arm, share in shares.items()
        for task in range(tasks)
        for repeat in range(repeats)
    ]
    # All that the lines need of one but for the title.
    manifest = SimpleNamespace(arms=(), imported=None, suite=SimpleNamespace(tasks=0), settings=SimpleNamespace(repeats=1))
    return Results(Path("x"), manifest, (), compare(records, infos))  # type: ignore[arg-type]


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
