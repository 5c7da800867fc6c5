"""A comparison's answer as plain JSON: what is recommended, in words, and the accuracies and costs that it weighs."""

from __future__ import annotations

import math
from typing import Any

from loopbench.metrics.comparison import Comparison

from .answer import answer
from .matrix import AnswerRow


def answer_json(comparison: Comparison) -> dict[str, Any]:
    """Return the answer under stable names; costs are means over suites and profiles, in `unit`.

    `cost_per_solved` is the mean cost of a trial by the mean accuracy, None where nothing was solved; `crashed` counts trials. The
    place `does not apply` is that of a loop under a profile that was measured of calls in another form. `recommendation` is the
    first sentence after those that say what it rests on; None where there is none, as of an invalid run or a single loop.
    """
    made = answer(comparison)
    headings = [made.heading(column) for column in made.columns]
    return {
        "recommendation": next((each.in_full for each in made.said if not each.is_basis), None),
        "sentences": list(made.sentences),
        "margin": comparison.margin,
        "unit": made.unit,
        "loops": [_loop(row, headings) for row in made.rows],
    }


def _loop(row: AnswerRow, headings: list[str]) -> dict[str, Any]:
    places = {heading: cell.place for heading, cell in zip(headings, row.cells, strict=True) if cell is not None}
    return {
        "loop": row.loop,
        "cost": None if row.cost is None else row.cost.as_dict(),
        "cost_per_solved": None if math.isinf(row.solved_cost) else row.solved_cost,
        "crashed": row.crashed,
        "places": places,
    }
