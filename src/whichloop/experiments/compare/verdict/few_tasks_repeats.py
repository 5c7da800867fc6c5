"""What more repeats of a few tasks would tell of loops that their repeats do not tell apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import count

import scipy

from whichloop.metrics.pairs import Pair
from whichloop.metrics.statistics import highest_share, too_few_units
from whichloop.metrics.within_tasks import WithinTasks
from whichloop.text.numbers import listed_names

from .matrix import AnswerMatrix

POWER = 0.8
"""The chance that so many repeats tell, if the loops go on as they did."""
MAX_REPEATS = 1_000
"""Repeats beyond which no number is told."""


def what_repeats_would(matrix: AnswerMatrix, pairs: Sequence[Pair], alpha: float) -> str:
    """Return which number of repeats would tell two loops apart, the fewest of all `pairs`, as a sentence.

    Where no trial had two scores, return how many trials may still have them, and which repeats would tell loops apart of which so
    many do. Empty where trials are not paired, so that nothing says it.
    """
    pairs_within = [(pair, pair.within) for pair in pairs if pair.within is not None and pair.within.repeats]
    if not pairs_within or len(pairs_within) < len(pairs):
        return ""
    if not any(within.spread for _, within in pairs_within):
        return _where_none_differed(matrix, pairs_within, alpha)
    z = float(scipy.special.ndtri(1 - alpha / (2 * pairs_within[0][1].tested))) + float(scipy.special.ndtri(POWER))
    needed = [(math.ceil(w.repeats * w.spread * z**2 / (w.a - w.b) ** 2), pair) for pair, w in pairs_within if w.a != w.b]
    number, pair = min(needed, key=lambda each: each[0], default=(math.inf, pairs_within[0][0]))
    if number > MAX_REPEATS:
        return f"Even {MAX_REPEATS:,} repeats are not likely to tell one {matrix.subject} from another if they go on so"
    names = _loops(matrix)
    apart = f"{names[pair.a]} from {names[pair.b]}{matrix.under(pair)}"
    return f"About --repeats {number:,} would tell {apart} if they go on so (chance about {100 * POWER:.0f} %)"


def _where_none_differed(matrix: AnswerMatrix, pairs_within: Sequence[tuple[Pair, WithinTasks]], alpha: float) -> str:
    """Return how many trials may still differ, and the repeats that would tell two loops apart of which so many do.

    The bound is on the mean over the columns; the repeats are of one column in which so many differ, all for the same loop.
    """
    names, trials = _loops(matrix), dict[frozenset[str], float]()
    for pair, within in pairs_within:
        both = frozenset((names[pair.a], names[pair.b]))
        trials[both] = trials.get(both, 0.0) + within.trials
    fewest = min(trials.values())
    share = highest_share(fewest, alpha)
    loops = [row.loop for row in matrix.rows if any(row.loop in both for both in trials)]
    percent = f"{100 * share:.0f}" if share >= 0.01 else f"{100 * share:.1g}"
    still = f"up to about {percent} % of trials may still differ (rule of three at {100 * (1 - alpha):g} %)"
    solved_the_same = f"{listed_names(loops)} solved the same in all {fewest:,.0f} trials; {still}"
    number = min((needed for _, w in pairs_within if (needed := _repeats_that_show(w, share, alpha))), default=None)
    if number is None:
        return solved_the_same
    under = " under one profile" if len(matrix.columns) > 1 else ""
    apart = "the two" if len(loops) == 2 else "two of them"
    return (
        f"{solved_the_same}; about --repeats {number:,} would tell {apart} apart if so many do{under}, all in favour of one loop "
        f"(chance about {100 * POWER:.0f} %)"
    )


def _repeats_that_show(within: WithinTasks, share: float, alpha: float) -> int | None:
    """Return the fewest repeats that are likely to tell two loops apart where such a share of trials differ, all in favour of one.

    With a chance of `POWER`, by the binomial law, so many trials then differ that the exact test shows it. None where it takes more
    than `MAX_REPEATS`.
    """
    differing = next(number for number in count(1) if not too_few_units(number, alpha / within.tested))
    for repeats in range(-(-differing // within.tasks), MAX_REPEATS + 1):
        if float(scipy.special.betaincinv(differing, within.tasks * repeats - differing + 1, POWER)) <= share:
            return repeats
    return None


def _loops(matrix: AnswerMatrix) -> dict[str, str]:
    """Return arm → loop."""
    return {cell.arm.info.arm: row.loop for row in matrix.rows for cell in row.cells if cell is not None}
