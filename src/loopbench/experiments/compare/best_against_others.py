"""The paired differences of the most accurate arm of an imported run from each other one, in one sentence.

No command runs other tools' agents again to decide what is open, so that the numbers behind the verdict are told at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from loopbench.metrics.comparison import Comparison, Pair
from loopbench.metrics.statistics import Interval
from loopbench.metrics.summary import PRIMARY
from loopbench.protocol.counts import counted
from loopbench.text.counts import MAX_NAMES
from loopbench.text.numbers import hundredths, interval, interval_of

from .matrix import AnswerMatrix, pairs_of
from .sentence import AnswerSentence

Told = Sequence[tuple[str, Pair]]
"""The other arms' names, and each pair with the best arm as its first one."""


def best_against_others(found: AnswerMatrix, comparison: Comparison) -> Iterator[AnswerSentence]:
    """Yield the first row minus each other one, in their order, of an imported run of three arms or more in one column."""
    if len(found.rows) < 3 or len(found.columns) != 1 or found.subject != "agent":
        return
    best, *others = found.rows
    accuracy = [pair for pair in comparison.pairs if pair.metric == PRIMARY]
    pairs = [(row.loop, pair) for row in others for pair in pairs_of(accuracy, best, row)]
    if not pairs:
        return
    shown = pairs[: MAX_NAMES - 1] if len(pairs) > MAX_NAMES else pairs
    more = f", and {len(pairs) - len(shown)} others" if len(shown) < len(pairs) else ""
    over = _over([pair for _, pair in shown])
    full = _listed(shown, lambda gap: interval(gap, 3))
    brief = _listed(shown, lambda gap: interval_of(gap, hundredths))
    yield AnswerSentence(
        f"In accuracy {best.loop} minus {full}{more}; paired over {over}", f"{best.loop} minus {brief}{more} ({over})"
    )


def _listed(told: Told, written: Callable[[Interval], str]) -> str:
    """Return `b: 0.083 [-0.050, 0.211], c: 0.142 [0.001, 0.268]`, with the number of tasks where it is not the same in all."""
    varies = len({pair.difference.n for _, pair in told}) > 1
    each = [f"{name}: {written(pair.difference)}{f' on {pair.difference.n}' if varies else ''}" for name, pair in told]
    return ", ".join(each)


def _over(pairs: Sequence[Pair]) -> str:
    """Return `60 common tasks`, or `so many common tasks` where each pair has its own; with the clusters that they count as."""
    tasks, units = sorted(pair.difference.n for pair in pairs), sorted(pair.units for pair in pairs)
    many = counted(tasks[0], "common task") if tasks[0] == tasks[-1] else "so many common tasks"
    if units == tasks:
        return many
    return f"{many} in {units[0] if units[0] == units[-1] else f'{units[0]} to {units[-1]}'} clusters"
