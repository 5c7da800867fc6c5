"""What more repeats of a few tasks would tell of loops that their repeats do not tell apart."""

from __future__ import annotations

import math
from collections.abc import Sequence

from loopbench.metrics.comparison import Pair
from loopbench.metrics.special import ndtri

from .matrix import AnswerMatrix

POWER = 0.8
"""The chance that so many repeats tell, if the loops go on as they did."""
MAX_REPEATS = 1_000
"""Repeats beyond which no number is told."""


def what_repeats_would(found: AnswerMatrix, pairs: Sequence[Pair], alpha: float) -> str:
    """Return which number of repeats would tell two loops apart, the fewest of all `pairs`, or that more repeats cannot.

    Empty where trials are not paired, so that nothing says it.
    """
    known = [(pair, pair.within) for pair in pairs if pair.within is not None and pair.within.repeats]
    if not known or len(known) < len(pairs):
        return ""
    if not any(within.spread for _, within in known):
        return "more repeats cannot tell them apart, as they solved the same in every trial"
    z = float(ndtri(1 - alpha / (2 * known[0][1].tested))) + float(ndtri(POWER))
    needed = [(math.ceil(w.repeats * w.spread * z**2 / (w.a - w.b) ** 2), pair) for pair, w in known if w.a != w.b]
    number, pair = min(needed, key=lambda each: each[0], default=(math.inf, known[0][0]))
    if number > MAX_REPEATS:
        return f"even {MAX_REPEATS:,} repeats are not likely to tell them apart"
    names = {cell.arm.info.arm: row.loop for row in found.rows for cell in row.cells if cell is not None}
    apart = f"{names[pair.a]} from {names[pair.b]}{found.under(pair)}"
    return f"about --repeats {number:,} would tell {apart} if they go on so (chance about {100 * POWER:.0f} %)"
