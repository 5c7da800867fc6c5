"""By what loops of equal accuracy differ: tokens, tokens with a prompt cache, and wrong answers given as done.

Each is told against a loop that is as accurate, and only where its own paired test shows it: a loop that takes fewer tokens by the
list may take more where a provider caches prompts, or give more wrong answers as if it were done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loopbench.metrics.comparison import Comparison, Pair
from loopbench.metrics.summary import PRIMARY, ArmSummary
from loopbench.text.counts import listed
from loopbench.text.numbers import interval_of, p_value

from .claims import RATE
from .matrix import AnswerMatrix, AnswerRow, amount, pairs_of
from .prices import Prices, is_shown_cheaper

CACHED = "tokens_with_cache"
WRONG = "wrong answers given as done"


@dataclass(frozen=True, slots=True)
class Ahead:
    """A loop that is shown to be ahead of another one in one count."""

    row: AnswerRow
    by: str
    """What is counted."""
    numbers: str
    """Both counts, and the paired difference or its p."""
    counts: str
    """Both counts alone, in brackets; of several profiles none, for few words."""


@dataclass(frozen=True, slots=True)
class TieBreaks:
    """What else than accuracy is known of the loops of a matrix."""

    found: AnswerMatrix
    accuracy: tuple[Pair, ...]
    """Pairs of arms on accuracy, as the others in their own metric."""
    costs: tuple[Pair, ...]
    cached: tuple[Pair, ...]
    """In tokens with a prompt cache; none where costs are in dollars, whose prices know of caches."""
    wrong: tuple[Pair, ...]

    def equals(self, loop: AnswerRow, candidates: Sequence[AnswerRow]) -> list[AnswerRow]:
        """Return the candidates that no profile tells from a loop in accuracy, the most accurate first."""
        others = [row for row in candidates if row is not loop]
        return [row for row in others if not any(_is_decided(pair) for pair in pairs_of(self.accuracy, loop, row))]

    def reversals(self, loop: AnswerRow, candidates: Sequence[AnswerRow]) -> list[Ahead]:
        """Return, for each count, the equal of a loop that is furthest ahead of it, if a test shows one to be."""
        found = []
        for by, pairs in (("tokens with a prompt cache", self.cached), (WRONG, self.wrong)):
            ahead = [row for row in self.equals(loop, candidates) if is_shown_cheaper(row, loop, pairs)]
            if ahead:
                row = min(ahead, key=lambda each: sum(pair.difference.value for pair in pairs_of(pairs, each, loop)))
                told = (self._wrong if by == WRONG else self._tokens)(row, loop)
                found.append(Ahead(row, by, "; ".join(each for _, each in told), f" ({told[0][0]})" if len(told) == 1 else ""))
        return found

    def in_words(self, loop: AnswerRow, candidates: Sequence[AnswerRow]) -> tuple[str, str]:
        """Return which equals are ahead of a loop in which count, as a sentence's end, and the same in few words."""
        found = self.reversals(loop, candidates)
        full = [f"; by {each.by} {each.row.loop} is ahead of {loop.loop} ({each.numbers})" for each in found]
        brief = [f"; by {each.by} {each.row.loop} is ahead of {loop.loop}{each.counts}" for each in found]
        return "".join(full), "".join(brief)

    def split(self, loop: AnswerRow, candidates: Sequence[AnswerRow]) -> tuple[str, str]:
        """Return by what a loop is to be adopted, and by what its equals, and the same in few words.

        Empty where no count disagrees.
        """
        found = self.reversals(loop, candidates)
        if not found:
            return "", ""
        unit = "dollars" if self.found.unit == "cost_usd" else "list tokens"
        full, brief, prices = [], [], Prices(self.found, self.costs)
        for row in dict.fromkeys(each.row.loop for each in found):
            own = [each for each in found if each.row.loop == row]
            full.append(f"or {row} {' and '.join(f'by {each.by} ({each.numbers})' for each in own)}")
            brief.append(f"or {row} {' and '.join(f'by {each.by}{each.counts}' for each in own)}")
        rival = found[0].row
        is_cheaper = is_shown_cheaper(loop, rival, self.costs)
        by = f"by {unit}" if is_cheaper else f"by the mean of its {unit} alone"
        against = f"{prices.per_trial(loop)} against {prices.price(rival)}{prices.paired_saving(loop, rival)}"
        priced = f"{prices.price(loop)} against {prices.price(rival)}"
        return f" {by} ({against}), {', '.join(full)}", f" {by} ({priced}), {', '.join(brief)}"

    def dearer(self, loop: AnswerRow, candidates: Sequence[AnswerRow]) -> tuple[str, str]:
        """Return what the most accurate equal of a loop costs, and the same in few words; empty where it is not known."""
        rival = next(iter(self.equals(loop, candidates)), None)
        if rival is None or rival.cost is None or loop.cost is None or not loop.cost.value:
            return "", ""
        prices = Prices(self.found, self.costs)
        if not is_shown_cheaper(loop, rival, self.costs):
            return f": {loop.loop} is not told from {rival.loop} in cost ({prices.per_trial(rival)})", ""
        full = f": {rival.loop} takes {prices.per_trial(rival)}{prices.paired_saving(loop, rival)}"
        return full, f" ({rival.loop}: {100 * (rival.cost.value / loop.cost.value - 1):.0f} % more)"

    def harm(self, loop: AnswerRow) -> str:
        """Return that a loop gave more wrong answers as done than others, as a clause behind its name.

        Empty where no test shows it. Numbers are told against the most accurate of the others.
        """
        fewer = [row for row in self.found.rows if row is not loop and is_shown_cheaper(row, loop, self.wrong)]
        if not fewer:
            return ""
        numbers = "; ".join(full for _, full in self._wrong(fewer[0], loop, is_harm=True))
        others = f" and than {listed([row.loop for row in fewer[1:]])}" if len(fewer) > 1 else ""
        return f", though it gave more wrong answers as done than {fewer[0].loop} ({numbers}){others}"

    def _tokens(self, row: AnswerRow, loop: AnswerRow) -> list[tuple[str, str]]:
        """Return `2,049 against 4,864`, and the same with `, paired difference 2,815 [2,458, 3,150]`, by profile."""
        told = []
        for pair in pairs_of(self.cached, row, loop):
            own, other = self._mean(row, pair.a), self._mean(loop, pair.b)
            gap = interval_of(pair.turned.difference, lambda value: amount(value, "tokens"))
            counts, under = f"{own} against {other}", self.found.under(pair)
            told.append((f"{counts}{under}", f"{counts}, paired difference {gap}{under}"))
        return told

    def _wrong(self, row: AnswerRow, loop: AnswerRow, *, is_harm: bool = False) -> list[tuple[str, str]]:
        """Return `5 against 16 of 120`, and the same with its p, of the profiles whose test shows it; as a harm, `16 against 5`."""
        told = []
        for pair in pairs_of(self.wrong, row, loop):
            if pair.verdict.word == "better":
                own, other = (_summary(each, arm) for each, arm in ((row, pair.a), (loop, pair.b)))
                p = p_value(pair.p_holm)
                fewer, more = own.false_success or "none", other.false_success
                counts = f"{f'{more} against {fewer}' if is_harm else f'{fewer} against {more}'} of {other.scored:,}"
                under = self.found.under(pair)
                told.append((f"{counts}{under}", f"{counts}{under}, p {p if p.startswith('<') else f'= {p}'}"))
        return told

    def _mean(self, row: AnswerRow, arm: str) -> str:
        mean = _summary(row, arm).means[CACHED]
        return "–" if mean is None else amount(mean.value, "tokens")


def tie_breaks(found: AnswerMatrix, comparison: Comparison) -> TieBreaks:
    """Return what else is known of the loops of a comparison."""

    def of(metric: str) -> tuple[Pair, ...]:
        return tuple(pair for pair in comparison.pairs if pair.metric == metric)

    return TieBreaks(found, of(PRIMARY), of(found.unit), of(CACHED) if found.unit == "tokens" else (), of(RATE))


def _is_decided(pair: Pair) -> bool:
    return pair.verdict.word in ("better", "worse")


def _summary(row: AnswerRow, arm: str) -> ArmSummary:
    return next(cell.arm.summary for cell in row.cells if cell is not None and cell.arm.info.arm == arm)
