"""A comparison's answer as plain JSON: what is recommended, in words, and the accuracies and costs that it weighs."""

from __future__ import annotations

import math
from typing import Any

from whichloop.metrics.comparison import Comparison
from whichloop.metrics.statistics import interval_json

from .answer import ComparisonAnswer, answer
from .each_profile import agreed
from .matrix import AnswerRow


def answer_json(comparison: Comparison, known_answer: ComparisonAnswer | None = None) -> dict[str, Any]:
    """Return a comparison's answer, `known_answer` or made here, under stable names.

    `cost` is the mean over suites and profiles, in `unit`, and `costs` has that of each; where profiles are judged by themselves,
    `cost` is None.

    `cost_per_solved` is the mean cost of a trial by the mean accuracy, None where nothing was solved; `crashed` counts trials.
    The place `does not apply` is that of a loop under a profile that was measured of calls in another form. `recommendations` has
    an entry for each profile that is judged by itself, and a single one for profiles that are judged together: the loops to adopt,
    one or another, and the sentence that says so. `recommendation` is the sentence for all of them; None where profiles recommend
    different loops, and where there is no verdict, as of an invalid run or of a single loop. `robust` names the loops that none is
    shown to beat under any profile, where profiles recommend different loops and some other loop is beaten; else it is empty.
    `limits`: the run's own to each trial, in words. `tasks` has an entry for each loop, column and task where tasks are few and
    have repeats: its scored trials, how many were solved and how many went over the run's limit (None where it set none), and their
    mean cost.
    """
    comparison_answer = answer(comparison) if known_answer is None else known_answer
    recommendation = agreed(comparison_answer.verdicts, comparison_answer.answer_sentences)
    headings = [comparison_answer.heading(column) for column in comparison_answer.columns]
    return {
        "recommendation": None if recommendation is None else recommendation.in_full,
        "recommendations": [each.to_json() for each in comparison_answer.verdicts],
        "robust": list(comparison_answer.robust),
        "sentences": list(comparison_answer.sentences),
        "limits": comparison.limits.words or None,
        "margin": comparison.margin,
        "unit": comparison_answer.unit,
        "loops": [_loop(row, headings) for row in comparison_answer.rows],
        "tasks": list(comparison_answer.on_tasks.to_json()),
    }


def _loop(row: AnswerRow, headings: list[str]) -> dict[str, Any]:
    places = {heading: cell.place for heading, cell in zip(headings, row.cells, strict=True) if cell is not None}
    return {
        "loop": row.loop,
        "costs": {heading: interval_json(cost) for heading, cost in zip(headings, row.costs, strict=True)},
        "cost": interval_json(row.cost),
        "cost_per_solved": None if math.isinf(row.solved_cost) else row.solved_cost,
        "crashed": row.crashed,
        "places": places,
    }
