"""The paired differences of the most accurate arm of an imported run from each other one, in one sentence.

No command runs other tools' agents again to decide what is open, so that the numbers behind the verdict are told at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from whichloop.metrics.comparison import Comparison
from whichloop.metrics.pairs import Pair
from whichloop.metrics.summary import PRIMARY
from whichloop.protocol.values import counted
from whichloop.text.numbers import MAX_NAMES, interval

from .matrix import AGENT, AnswerMatrix, pairs_of
from .sentence import AnswerSentence

NamedPairs = Sequence[tuple[str, Pair]]
"""The other arms' names, and each pair with the best arm as its first one."""


def best_against_others(matrix: AnswerMatrix, comparison: Comparison) -> Iterator[AnswerSentence]:
    """Yield the first row minus each other one, in their order, of an imported run of three arms or more in one column."""
    if len(matrix.rows) < 3 or len(matrix.columns) != 1 or matrix.subject != AGENT:
        return
    best, *others = matrix.rows
    accuracy = comparison.pairs_on(PRIMARY)
    pairs = [(row.loop, pair) for row in others for pair in pairs_of(accuracy, best, row)]
    if not pairs:
        return
    named_pairs = pairs[: MAX_NAMES - 1] if len(pairs) > MAX_NAMES else pairs
    more = f", and {len(pairs) - len(named_pairs)} others" if len(named_pairs) < len(pairs) else ""
    over = _common_tasks([pair for _, pair in named_pairs])
    level = _level([pair for _, pair in named_pairs], len(accuracy), comparison.alpha)
    yield AnswerSentence(f"In accuracy {best.loop} minus {_differences_text(named_pairs)}{more}; paired over {over}{level}")


def _level(pairs: Sequence[Pair], family: int, alpha: float) -> str:
    """Return `, 98.3 % intervals for 3 pairs`; empty where they are at the level of a single test. `family`: all pairs."""
    levels = sorted({round(100 * (1 - pair.level), 1) for pair in pairs})
    if all(pair.level == alpha for pair in pairs):
        return ""
    each = f"{levels[0]:g}" if len(levels) == 1 else f"{levels[0]:g} to {levels[-1]:g}"
    return f", {each} % intervals for {family} pairs"


def _differences_text(named_pairs: NamedPairs) -> str:
    """Return `b: 0.083 [-0.050, 0.211], c: 0.142 [0.001, 0.268]`, with the number of tasks where it is not the same in all."""
    varies = len({pair.difference.n for _, pair in named_pairs}) > 1
    each = [f"{name}: {interval(pair.difference, 3)}{f' on {pair.difference.n}' if varies else ''}" for name, pair in named_pairs]
    return ", ".join(each)


def _common_tasks(pairs: Sequence[Pair]) -> str:
    """Return `60 common tasks`, or `so many common tasks` where each pair has its own; with the clusters that they count as."""
    tasks, units = sorted(pair.difference.n for pair in pairs), sorted(pair.units for pair in pairs)
    many = counted(tasks[0], "common task") if tasks[0] == tasks[-1] else "so many common tasks"
    if units == tasks:
        return many
    return f"{many} in {units[0] if units[0] == units[-1] else f'{units[0]} to {units[-1]}'} clusters"
