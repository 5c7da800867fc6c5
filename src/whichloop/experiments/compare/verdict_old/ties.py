"""By what loops of equal accuracy differ: cost by the list, cost with a prompt cache, and wrong answers given as done.

Each is told against a loop that is as accurate, and only where its own paired test shows it: a loop that takes fewer tokens or
dollars by the list may take more where a provider caches prompts, or give more wrong answers as if it were done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from whichloop.metrics.comparison import ArmResult, Comparison
from whichloop.metrics.pairs import Pair
from whichloop.metrics.summary import PRIMARY
from whichloop.metrics.views import Unit
from whichloop.protocol.names import SCRIPTED
from whichloop.text.numbers import listed_names, p_value

from .claims import RATE
from .matrix import AnswerMatrix, AnswerRow, gap_in_words, pairs_of, with_sign
from .prices import Prices, is_shown_cheaper
from .sentence import NO_WORDS, Wording

CACHED: Mapping[Unit, str] = {"tokens": "tokens_with_cache", "nominal_usd": "cost_usd"}
"""Unit of costs by the list → the same with a prompt cache."""
BY_CACHE = "{} with a prompt cache"
WRONG = "wrong answers given as done"


@dataclass(frozen=True, slots=True)
class Ahead:
    """A loop that is shown to be ahead of another one in one count."""

    row: AnswerRow
    by: str
    """What is counted."""
    counts: Wording
    """Both counts in brackets, in full with the paired difference or its p; in few words none of several profiles."""


@dataclass(frozen=True, slots=True)
class TieBreaks:
    """What else than accuracy is known of the loops of a matrix."""

    matrix: AnswerMatrix
    accuracy: tuple[Pair, ...]
    """Pairs of arms on accuracy, as the others in their own metric."""
    costs: tuple[Pair, ...]
    cached: tuple[Pair, ...]
    """In costs with a prompt cache; none where a cache makes no difference, or that is not known."""
    wrong: tuple[Pair, ...]

    def equals(self, loop: AnswerRow, candidates: Sequence[AnswerRow]) -> list[AnswerRow]:
        """Return the candidates that no profile tells from a loop in accuracy, the most accurate first."""
        others = [row for row in candidates if row is not loop]
        return [row for row in others if not any(_is_decided(pair) for pair in pairs_of(self.accuracy, loop, row))]

    def reversals(self, loop: AnswerRow, candidates: Sequence[AnswerRow]) -> list[Ahead]:
        """Return, for each count, the equal of a loop that is furthest ahead of it, if a test shows one to be."""
        reversed_by = []
        for by, pairs in ((BY_CACHE.format(self._money), self.cached), (WRONG, self.wrong)):
            ahead = [row for row in self.equals(loop, candidates) if is_shown_cheaper(row, loop, pairs)]
            if ahead:
                row = min(ahead, key=lambda each: sum(pair.difference.value for pair in pairs_of(pairs, each, loop)))
                counts = (self._wrong if by == WRONG else self._with_cache)(row, loop)
                full, brief = "; ".join(each.full for each in counts), f" ({counts[0].brief})" if len(counts) == 1 else ""
                reversed_by.append(Ahead(row, by, Wording(f" ({full})", brief)))
        return reversed_by

    def in_words(self, loop: AnswerRow, candidates: Sequence[AnswerRow]) -> Wording:
        """Return which equals are ahead of a loop in which count, as a sentence's end."""
        clauses = [
            f"; by {each.by} {each.row.loop} is ahead of {loop.loop}" + each.counts for each in self.reversals(loop, candidates)
        ]
        return sum(clauses, NO_WORDS)

    def split(self, loop: AnswerRow, candidates: Sequence[AnswerRow]) -> Wording:
        """Return by what a loop is to be adopted, and by what its equals; no words where no count disagrees."""
        reversals = self.reversals(loop, candidates)
        if not reversals:
            return NO_WORDS
        unit = f"list {self._money}"
        rest, prices = NO_WORDS, Prices(self.matrix, self.costs)
        for row in dict.fromkeys(each.row.loop for each in reversals):
            clauses = [f"by {each.by}" + each.counts for each in reversals if each.row.loop == row]
            rest += f", or {row} " + clauses[0] + sum((" and " + clause for clause in clauses[1:]), NO_WORDS)
        rival = reversals[0].row
        is_cheaper = is_shown_cheaper(loop, rival, self.costs)
        by = f"by {unit}" if is_cheaper else f"by the mean of its {unit} alone"
        against = f"{prices.per_trial(loop)} against {prices.price(rival)}{prices.paired_saving(loop, rival)}"
        priced = f"{prices.price(loop)} against {prices.price(rival)}"
        return f" {by} " + Wording(f"({against})", f"({priced})") + rest

    def rivals(self, loop: AnswerRow, candidates: Sequence[AnswerRow]) -> list[AnswerRow]:
        """Return the equals that are ahead of a loop in some count."""
        by_loop = {each.row.loop: each.row for each in self.reversals(loop, candidates)}
        return [*by_loop.values()]

    def dearer(self, loop: AnswerRow, candidates: Sequence[AnswerRow]) -> Wording:
        """Return what the most accurate equal of a loop costs; no words where it is not known."""
        rival = next(iter(self.equals(loop, candidates)), None)
        if rival is None or rival.cost is None or loop.cost is None or not loop.cost.value:
            return NO_WORDS
        prices = Prices(self.matrix, self.costs)
        if not is_shown_cheaper(loop, rival, self.costs):
            return Wording(f": {loop.loop} is not told from {rival.loop} in cost ({prices.per_trial(rival)})", "")
        full = f": {rival.loop} takes {prices.per_trial(rival)}{prices.paired_saving(loop, rival)}"
        return Wording(full, f" ({rival.loop}: {100 * (rival.cost.value / loop.cost.value - 1):.0f} % more)")

    def harm(self, loop: AnswerRow) -> str:
        """Return that a loop gave more wrong answers as done than others, as a clause behind its name.

        Empty where no test shows it. Numbers are told against the most accurate of the others.
        """
        fewer = [row for row in self.matrix.rows if row is not loop and is_shown_cheaper(row, loop, self.wrong)]
        if not fewer:
            return ""
        numbers = "; ".join(each.full for each in self._wrong(fewer[0], loop, is_harm=True))
        others = f" and than {listed_names([row.loop for row in fewer[1:]])}" if len(fewer) > 1 else ""
        return f", though it gave more wrong answers as done than {fewer[0].loop} ({numbers}){others}"

    @property
    def _money(self) -> str:
        return "tokens" if self.matrix.unit == "tokens" else "dollars"

    def _with_cache(self, row: AnswerRow, loop: AnswerRow) -> list[Wording]:
        """Return by profile `2,049 against 4,864, paired difference 2,815 [2,458, 3,150]` with what the cache serves; in brief the
        two numbers alone."""
        counts_by_profile = []
        for pair in pairs_of(self.cached, row, loop):
            arm, other = _arm(row, pair.a), _arm(loop, pair.b)
            gap = gap_in_words(pair.turned, self.matrix.unit)
            counts, under = f"{self._mean(arm)} against {self._mean(other)}", self.matrix.under(pair)
            served = [f"{100 * each.summary.served_by_cache[pair.metric]:.0f} %" for each in (arm, other)]
            cache = "simulated" if arm.info.model == SCRIPTED else "provider's"
            share = f"the {cache} cache serving {served[0]} of the input against {served[1]}"
            counts_by_profile.append(Wording(f"{counts}, paired difference {gap}, {share}{under}", f"{counts}{under}"))
        return counts_by_profile

    def _wrong(self, row: AnswerRow, loop: AnswerRow, *, is_harm: bool = False) -> list[Wording]:
        """Return `5 against 16 of 120` with its p, which the brief form lacks, by profile whose test shows it.

        `is_harm`: the other way round, `16 against 5`.
        """
        counts_by_profile = []
        for pair in pairs_of(self.wrong, row, loop):
            if pair.verdict.word == "better":
                summary, other = (_arm(each, arm).summary for each, arm in ((row, pair.a), (loop, pair.b)))
                p = p_value(pair.p_holm)
                fewer, more = summary.false_success or "none", other.false_success
                counts = f"{f'{more} against {fewer}' if is_harm else f'{fewer} against {more}'} of {other.scored:,}"
                under = self.matrix.under(pair)
                tested = f", p {p if p.startswith('<') else f'= {p}'}"
                counts_by_profile.append(Wording(f"{counts}{under}{tested}", f"{counts}{under}"))
        return counts_by_profile

    def _mean(self, arm: ArmResult) -> str:
        mean = arm.summary.means[CACHED[self.matrix.unit]]
        return "–" if mean is None else with_sign(mean.value, self.matrix.unit)


def tie_breaks(matrix: AnswerMatrix, comparison: Comparison) -> TieBreaks:
    """Return what else is known of the loops of a comparison."""
    return TieBreaks(
        matrix,
        accuracy=comparison.pairs_on(PRIMARY),
        costs=comparison.pairs_on(matrix.unit),
        cached=comparison.pairs_on(_cached_cost(matrix, comparison.arms)),
        wrong=comparison.pairs_on(RATE),
    )


def _cached_cost(matrix: AnswerMatrix, arms: Sequence[ArmResult]) -> str:
    """Return the measure of costs with a prompt cache; empty where no arm has any use of one, or it is not known of each."""
    metric = CACHED.get(matrix.unit, "")
    summaries = [arm.summary for arm in arms if arm.summary.scored and arm.summary.dead != "never asked"]
    served = [summary.served_by_cache.get(metric) for summary in summaries]
    return metric if all(share is not None for share in served) and any(served) else ""


def _is_decided(pair: Pair) -> bool:
    return pair.verdict.word in ("better", "worse")


def _arm(row: AnswerRow, arm: str) -> ArmResult:
    return next(cell.arm for cell in row.cells if cell is not None and cell.arm.info.arm == arm)
