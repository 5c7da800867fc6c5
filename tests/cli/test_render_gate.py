"""The gate's short form: a screen that says what decides, whatever the names are and however narrow the terminal is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.experiments.gate.conftest import printed
from tests.experiments.gate.test_outputs import judgements, no_command, safe_lines
from whichloop.cli.console import WIDE
from whichloop.cli.gate_targets import print_gate
from whichloop.experiments.gate import GateArm, GateResult, Side, TaskChange
from whichloop.experiments.gate.output import brief
from whichloop.experiments.gate.output.line_words import is_gain
from whichloop.metrics.gate import Bounds, GateLine, LineOutcome

WIDTHS = st.sampled_from([30, 80, 120, WIDE])


@given(judgements(), WIDTHS)
def test_no_text_of_a_model_or_a_file_becomes_a_command_or_reaches_the_terminal(judged, width):
    lines = printed(judged, width)
    assert lines[0].startswith(f"{judged.outcome}:"[:width])
    for line in lines:
        assert "\n" not in line
        assert no_command(line)
    safe_lines("\n".join(lines))


def line_of(arm: str, metric: str, outcome: LineOutcome) -> GateLine:
    bounds = Bounds(-0.15, -0.21, -0.09) if metric == "accuracy" else Bounds(1.25, 1.1, 1.42)
    return GateLine(arm, metric, 0.95, 0.8, bounds, 0.02, 60, 60, 0.01, 0.02, 0.9, outcome, outcome == "regression")


def change(arm: str, number: int, cause: str | None, *, worse: bool = True) -> TaskChange:
    good, bad = Side(("finished",), (1.0,)), Side(("max_steps",), (0.0,))
    was, now = (good, bad) if worse else (bad, good)
    return TaskChange(arm, f"t{number}", was, now, 0, 2, 2, cause, "why", f"whichloop show runs/r {arm}/t{number}/0")  # type: ignore[arg-type]


@pytest.fixture
def judged() -> GateResult:
    """Three arms with three metrics each, and many changed tasks."""
    arms = (
        GateArm("bare/clean", "bare/clean", False, 60, 60, (line_of("bare/clean", "accuracy", "pass"),)),
        GateArm(
            "finish/clean",
            "finish/clean",
            False,
            60,
            60,
            (
                line_of("finish/clean", "accuracy", "pass"),
                line_of("finish/clean", "steps", "regression"),
                line_of("finish/clean", "tokens", "regression"),
            ),
        ),
        GateArm(
            "mine/clean",
            "mine/clean",
            False,
            60,
            60,
            (line_of("mine/clean", "accuracy", "undecided"), line_of("mine/clean", "steps", "pass")),
        ),
    )
    changes = [
        *(change("finish/clean", number, "parse") for number in range(9)),
        *(change("mine/clean", number, "tool argument") for number in range(9, 12)),
        change("mine/clean", 12, "parse", worse=False),
    ]
    return GateResult("regression", (), arms, tuple(changes), 3, (), Path("runs/r"), None, 0.05, True)


def test_a_row_per_arm_with_the_metric_that_decides_the_gravest_first(judged):
    heading, *rows = brief.rows(judged, short=False)
    assert heading == brief.HEADING
    assert [(row[0], row[1], row[4]) for row in rows] == [
        ("finish/clean", "steps", "regression"),
        ("finish/clean", "accuracy", "pass"),
        ("mine/clean", "accuracy", "undecided"),
        ("bare/clean", "accuracy", "pass"),
    ]
    assert rows[2][2:4] == ("0.950 → 0.800", "-0.150 [-0.210, -0.090]")
    assert brief.rows(judged, short=True)[3][2:4] == (".95 → .80", "-.15 [-.21, -.09]")
    assert [said for said in brief.brief_sentences(judged) if said.startswith("Likewise regression: finish/clean in tokens ×")]


def improved(line: GateLine) -> GateLine:
    return replace(line, outcome="pass", worse=False, better=True)


def rows_of(*lines: GateLine, tasks: Sequence[TaskChange] = ()) -> list[str]:
    arms = tuple(GateArm(arm, arm, False, 60, 60, tuple(line for line in lines if line.arm == arm)) for arm in ("a", "b"))
    told = GateResult("pass", (), tuple(arm for arm in arms if arm.lines), tuple(tasks), 0, (), Path("runs/r"), None, 0.05, True)
    return [f"{row[0]} {row[1]}" for row in brief.rows(told, short=False)[1:]]


def test_of_an_arm_that_passes_the_row_is_what_improved_accuracy_first():
    """Values that stayed in every trial claim less than a pass does, and are no news beside what got better."""
    accuracy, stayed = line_of("a", "accuracy", "pass"), line_of("a", "false_success_rate", "unchanged")
    cheaper = improved(line_of("a", "tokens", "pass"))
    assert rows_of(improved(accuracy), cheaper, stayed) == ["a accuracy"]
    assert rows_of(accuracy, cheaper, stayed) == ["a tokens", "a accuracy"]
    same = replace(accuracy, run=accuracy.baseline)
    assert rows_of(same, cheaper, stayed) == ["a tokens"]
    assert rows_of(accuracy, stayed) == ["a accuracy"]
    assert rows_of(accuracy, cheaper, tasks=[change("a", 1, None, worse=False)]) == ["a accuracy"], "by its tasks"
    assert rows_of(accuracy, cheaper, tasks=[change("a", 1, None, worse=False), change("a", 2, "parse")]) == [
        "a tokens",
        "a accuracy",
    ]
    assert rows_of(accuracy, line_of("b", "accuracy", "unchanged"), improved(line_of("b", "tokens", "pass"))) == [
        "b tokens",
        "b accuracy",
        "a accuracy",
    ]
    assert rows_of(improved(accuracy), line_of("a", "tokens", "undecided")) == ["a tokens", "a accuracy"]


@given(st.lists(st.tuples(st.sampled_from(get_args(LineOutcome)), st.booleans()), min_size=1, max_size=4))
def test_no_row_hides_what_needs_a_look_or_what_improved(drawn):
    metrics = ("accuracy", "tokens", "steps", "lm_calls")
    lines = [replace(line_of("a", metrics[n], outcome), better=better) for n, (outcome, better) in enumerate(drawn)]
    arm = GateArm("a", "a", False, 60, 60, tuple(lines))
    shown = brief.deciding(GateResult("pass", (), (arm,), (), 0, (), Path("runs/r"), None, 0.05, True), arm)
    needs = [line for line in lines if line.outcome in brief.NEEDS_A_LOOK]
    if needs:
        assert shown.outcome == next(each for each in brief.NEEDS_A_LOOK if each in {line.outcome for line in needs})
    elif gains := [line for line in lines if is_gain(line)]:
        assert shown is gains[0]
    else:
        assert shown is lines[0], "accuracy"


def test_an_example_of_the_most_frequent_cause_and_where_the_others_are(judged):
    said, command = brief.examples(judged)
    assert (said.partition(" worse")[0], command) == ("- finish/clean/t0", "    whichloop show runs/r finish/clean/t0/0")
    assert brief.changed(judged) == ["Tasks: 12 worse (parse 10, tool argument 3), 1 better: -v has all"]
    here = replace(judged, outcome="worse here")
    assert brief.examples(here)[-1] == "and 12 other changed tasks: -v, or --json for all"
    assert brief.changed(here) == []


def test_it_fits_a_screen_and_verbose_has_the_rest(judged, capsys):
    lines = printed(judged, 80)
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    with patch.dict("os.environ", {"COLUMNS": "80"}):
        print_gate(judged, verbose=True)
    whole = capsys.readouterr().out
    assert "p (Holm)" in whole
    assert whole.count("- finish/clean/t") == 9


def test_more_arms_than_a_screen_has_rows_are_counted(judged):
    arms = tuple(
        GateArm(f"arm{number}", "b", False, 1, 1, (line_of(f"arm{number}", "accuracy", "pass"),))
        for number in range(brief.MAX_ARMS + 3)
    )
    many = GateResult("pass", (), arms, (), 0, (), Path("runs/r"), None, 0.05, True)
    assert len(brief.rows(many, short=False)) == 1 + brief.MAX_ARMS
    assert brief.brief_sentences(many) == ["And 3 more arms, none of them with a graver outcome (-v)."]
