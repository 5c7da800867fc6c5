"""What loops met in a comparison, in words: stress tests, profiles, or still air."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from whichloop.metrics.pairs import Pair
from whichloop.metrics.statistics import clearance, is_narrow
from whichloop.models.evidence import stress_tests
from whichloop.text.numbers import interval, shown_again

from .matrix import AnswerMatrix, AnswerRow, pairs_of, place_in_column

STRESS = "stress test"
STILL = "clean"
"""The profile without faults."""


def air(matrix: AnswerMatrix) -> str:
    """Return what a profile is called: a stress test where no model was measured to have any of them."""
    return STRESS if matrix.profiles and len(stress_tests(matrix.profiles)) == len(matrix.profiles) else "profile"


def every_profile(matrix: AnswerMatrix) -> str:
    """Return `both profiles`, `all 3 stress tests`."""
    number = len({column.profile for column in matrix.columns})
    return f"{'both' if number == 2 else f'all {number}'} {air(matrix)}s"


def is_still(matrix: AnswerMatrix) -> bool:
    """Whether nothing was disturbed, so that more tasks would show no more."""
    return matrix.profiles == [STILL]


def what_disturbs(matrix: AnswerMatrix) -> str:
    """Return what to do where nothing was disturbed, as a sentence's end; else empty."""
    return f"; {STILL} disturbs nothing: add --profile flaky-format or --profile flaky-tools" if is_still(matrix) else ""


@dataclass(frozen=True, slots=True)
class AdoptionEvidence:
    """What shows every other loop to be worse, in a column than the best there, or than the adopted one over all profiles.

    The surest pair is that whose interval is, in its own widths, farthest away from 0. Of each other loop its surest pair counts,
    and of all these the least sure one decides whether the adoption is told to be narrow.
    """

    matrix: AnswerMatrix
    adopted: AnswerRow
    accuracy: tuple[Pair, ...]
    """Pairs of arms."""
    pooled: tuple[Pair, ...]
    """Pairs of loops over all profiles together."""

    def narrowly(self) -> str:
        """Return that the adoption is narrow, with the pair that decides it; empty where it is not.

        `, narrowly (by 0.062 [0.0001, 0.126] under flaky-tools; chance that a fresh run shows it again, if
        this is the true difference: about 50 %)`.
        """
        pair = self.deciding
        if pair is None or not is_narrow(pair.difference):
            return ""
        return f", narrowly (by {self._in_words(pair)}; {shown_again(pair.difference)})"

    def surely(self) -> str:
        """Return the pair by which the adoption is not narrow, as a clause; empty where no other pair would have made it so."""
        pair = self.deciding
        if pair is None or is_narrow(pair.difference):
            return ""
        has_narrow = any(is_narrow(each.difference) for row in self._others for each in self._against(row))
        return f", and by {self._in_words(pair)}" if has_narrow else ""

    @property
    def deciding(self) -> Pair | None:
        """The surest pair of the other loop whose surest pair is the least sure; None where some other loop has none."""
        surest = [max(self._against(row), key=_clearance, default=None) for row in self._others]
        known_pairs = [pair for pair in surest if pair is not None]
        return min(known_pairs, key=_clearance, default=None) if len(known_pairs) == len(surest) else None

    @property
    def _others(self) -> list[AnswerRow]:
        return [row for row in self.matrix.rows if row is not self.adopted]

    def _against(self, row: AnswerRow) -> Iterator[Pair]:
        """Yield the pairs that show a loop to be worse, it being the second of each."""
        for number in self.matrix.compared:
            best = [each for each in self.matrix.rows if place_in_column(each, number) == "highest"]
            arms = {cell.arm.info.arm for each in (*best, row) if (cell := each.cells[number]) is not None}
            for pair in (pair for each in best for pair in pairs_of(self.accuracy, each, row)):
                if {pair.a, pair.b} <= arms and pair.verdict.word == "better":
                    yield pair
        for pair in (turned for each in self.pooled for turned in (each, each.turned)):
            if (pair.a, pair.b, pair.verdict.word) == (self.adopted.loop, row.loop, "better"):
                yield pair

    def _in_words(self, pair: Pair) -> str:
        """Return `0.062 [0.001, 0.126] under flaky-tools`; of more than two loops with the two that it is of."""
        names = {cell.arm.info.arm: row.loop for row in self.matrix.rows for cell in row.cells if cell is not None}
        is_pooled = pair.a not in names
        where = f" over {every_profile(self.matrix)} together" if is_pooled else self.matrix.under(pair)
        of = f", {names.get(pair.a, pair.a)} against {names.get(pair.b, pair.b)}," if len(self.matrix.rows) > 2 else ""
        return f"{interval(pair.difference, 3)}{of if where else of.removesuffix(',')}{where}"


def _clearance(pair: Pair) -> float:
    return clearance(pair.difference)
