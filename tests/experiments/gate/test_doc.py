"""What a gate says: one document, as it stands, and what is told beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.gate.conftest import ALL, ARM, Change, asked, changed, failing, line, of, of_other_code
from whichloop.experiments.gate import Baseline, GateResult, bless, gate_doc, judge
from whichloop.experiments.gate.doc import MAX_VERSIONS
from whichloop.metrics.record import Record

PATH = Path("b.json")
SOLVED: dict[str, Any] = {"scores": {"accuracy": 1.0}, "stop": "finished", "answer": 7, "input_tokens": 1_000, "output_tokens": 0}


@pytest.fixture
def judged(alone):
    """Judges a run of made-up trials, each solved for 1,000 tokens, with a change, by a baseline three days old."""

    def call(change: Change = lambda record: record, *, before: Mapping[str, object] | None = None, **margins: float) -> GateResult:
        def made(record: Record) -> Record:
            return replace(record, **SOLVED, call_counts={"asked": 4, "doubled": 0}, false_success=False)

        was = bless(alone(made)).model_copy(update={"created": datetime.now(UTC) - timedelta(days=3), "commit": "c0ffee" * 6})
        found = alone(lambda record: change(made(record)))
        now: Baseline = of_other_code(was).model_copy(update=before or {})
        return judge(found, now, settings=asked(now, margins, "other_answers"), path=PATH)

    return call


def said(result: GateResult) -> list[str]:
    return str(gate_doc(result)).replace(str(result.run), "RUN").split("\n")


END = ["Accepts    other_answers", "Baseline   b.json, 3 days old, commit c0ffeec0ffee", "Basis      scripted model, no faults"]


def test_a_regression(judged):
    def change(record: Record) -> Record:
        crash = of(ALL[:1], repeats=[0], stop="crashed", reason="KeyError: 'x' at my_loop.py:7", scores={"accuracy": 0.0})
        for each in (crash, of(ALL[5:6], answer=8), of(ALL[2:3], input_tokens=9_000)):
            record = each(record) or record
        return record

    assert said(judged(change)) == [
        "regression: bare/clean: new crashes in 1 of 24 trials: KeyError: 'x' at my_loop.py:7",
        "Also          bare/clean: tasks lost, none gained: 1, and not by chance",
        "Tasks         1 worse, 0 better, of 12",
        "Example       arithmetic-0001: finished → crashed; KeyError: 'x' at my_loop.py:7",
        "Worst tokens  bare/clean/arithmetic-0003/0: 1,000 → 9,000",
        "metric                was     is  change              margin  result",
        "accuracy             1.00    .96  -.04 [-.28, +.26]     -.02  regression: tasks_lost",
        "tokens              1,000  1,667  ×1.67 [0.00, 4.06]   ×1.10  undecided: 190 tasks",
        "false_success_rate    .00    .00  +.00 [-.31, +.22]     +.02  pass: unchanged",
        "calls_doubled         .00    .00  +.00 [-.31, +.22]     +.02  pass: unchanged",
        "Accepted   bare/clean: other answers of the same score in 2 of 24 trials, first",
        "           bare/clean/arithmetic-0006/0: 7 → 8",
        *END,
    ]


def test_the_example_is_of_the_most_frequent_cause_with_the_command_that_shows_it(ran):
    was = bless(ran(loops=("finish",), profiles=("flaky-format",)))
    result = judge(ran(loops=("finish(parse_retries=0)",), profiles=("flaky-format",)), was, path=PATH)
    facts = gate_doc(result).facts
    lost = next(task for task in result.tasks if task.cause == "parse")
    assert facts["Example"] == [f"{lost.task}: {lost.told}"]
    assert facts["Show"] == [lost.command]
    assert f"step {lost.step}: " in lost.told
    assert facts["Next"] == [f"whichloop report {result.run} --why"]
    undecided = replace(result, outcome="undecided")
    assert "Next" not in gate_doc(undecided).facts  # to bless is no way out of what is undecided


def test_a_pass_is_short_an_invalid_run_has_no_table_and_a_loosened_margin_stands_beside_the_result(judged):
    shown = said(judged())
    assert shown[:3] == ["pass: identical", "Arm        bare/clean", "Tasks      0 worse, 0 better, of 12"]
    assert [row.split()[-2:] for row in shown[4:8]] == [["pass:", "identical"]] * 4
    invalid = "invalid: bare/clean: 8.3% of its trials errored, more than 2% (2 × provider: down)"
    assert said(judged(of(ALL[:1], status="errored", reason="provider: down"))) == [invalid, *END]
    told = judged(failing(ALL[0]), before={"seed": 5}, accuracy=0.4)
    row = next(row for row in gate_doc(told).tables[0].texts if row[0] == "accuracy")
    assert row[-2:] == ["-.40", "pass: within_margin"]
    assert line(told, arm=ARM).to_json()["margin"] == 0.4
    assert gate_doc(told).facts["Accepts"] == ["other_answers"]


def test_rows_that_decide_stand_first_and_what_to_know_beside_them_is_told_where_there_is_something(wind, baseline):
    shown = gate_doc(judge(changed(wind, of(arm="finish/clean", input_tokens=99_999)), baseline)).tables[0]
    assert shown.columns[0] == "arm"
    assert [row[0] for row in shown.texts].count("finish/clean") == len(baseline.gate.metrics)
    assert shown.texts[0][:2] == ["finish/clean", "tokens"]
    before = baseline.model_copy(update={"packages": dict.fromkeys(baseline.packages, "0")})
    found = judge(changed(wind, failing(*ALL[:3])), before, path=PATH)
    told = gate_doc(replace(found, again=(4, 3), unrun={"my_loop.py": ("41", "43–45")}, not_judged=("steps of a/clean",)))
    facts = told.facts
    assert facts["Again"] == ["3 of 4 changed trials came out the same"]
    assert facts["Never run"] == ["my_loop.py: changed lines 41, 43–45"]
    assert facts["Not judged"] == ["steps of a/clean"]
    assert facts["Changed"][0].endswith(f" and {len(baseline.packages) - MAX_VERSIONS} more")
    assert [row[0] for row in told.tables[-1].texts] == [f"{ARM}/{name}/0" for name in ALL[:3]]
    assert told.data["unrun_lines"] == {"my_loop.py": ["41", "43–45"]}
    assert "Changed" not in gate_doc(judge(wind, before)).facts, "other versions are no news where no task changed"
