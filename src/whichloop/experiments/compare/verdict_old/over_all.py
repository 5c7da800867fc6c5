"""How the most accurate loop stands to the others over all profiles together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from whichloop.metrics.pairs import Pair
from whichloop.metrics.statistics import VerdictWord, is_narrow
from whichloop.text.numbers import RELATIONS, difference_text, interval, listed_names, narrowly, shown_again

from .air import every_profile
from .matrix import AnswerMatrix, AnswerRow
from .sentence import AnswerSentence, Wording, alike

ADOPT_OVER_ALL = Wording(
    "Adopt {loop}{harm}: over {profiles} together it is better than {others}{by}",
    "Adopt {loop}{harm}: better than {others} over {profiles} together",
)
"""The sentence that says to adopt a loop for all profiles together. `harm` and `by` are empty or begin with their own space."""


@dataclass(frozen=True, slots=True)
class StandingOverAll:
    """A loop over all profiles together."""

    loop: str
    pairs: tuple[Pair, ...]
    """With each other loop, this one being the first of each, the nearest other first."""
    others: int
    """Number of other loops, of which some may not have met every profile."""

    def against(self, *words: VerdictWord) -> set[str]:
        """Return the loops to which it stands so."""
        return {pair.b for pair in self.pairs if pair.verdict.word in words}

    def clearly(self, *words: VerdictWord) -> set[str]:
        """Return the same without those that it is told from narrowly."""
        return {pair.b for pair in self.pairs if pair.verdict.word in words and not is_narrow(pair.difference)}

    @property
    def is_best(self) -> bool:
        """Whether it is shown to be better than every other loop, of which there are several."""
        return len(self.against("better")) == len(self.pairs) == self.others > 1


def over_all(loop: str, matrix: AnswerMatrix, pooled: Sequence[Pair]) -> StandingOverAll:
    """Return how a loop of a matrix stands. `pooled`: pairs of loops over all profiles together."""
    pairs = [pair if pair.a == loop else pair.turned for pair in pooled if loop in (pair.a, pair.b)]
    return StandingOverAll(loop, tuple(sorted(pairs, key=lambda pair: pair.difference.value)), len(matrix.rows) - 1)


@dataclass(frozen=True, slots=True)
class OverAllSentences:
    """What follows for the most accurate loop, in words."""

    matrix: AnswerMatrix
    standing: StandingOverAll

    def picks(self, rivals: Sequence[AnswerRow]) -> bool:
        """Whether the loop is shown to be better than each of its rivals, which no profile by itself tells from it."""
        won = self.standing.against("better")
        return bool(rivals) and len(self.matrix.compared) > 1 and all(row.loop in won for row in rivals)

    def is_close(self, rivals: Sequence[AnswerRow]) -> bool:
        """Whether that is so narrowly of one of them that a fresh run of the same size may well not show it again."""
        return not {row.loop for row in rivals} <= self.standing.clearly("better")

    def pick(self, rivals: Sequence[AnswerRow], harm: str = "") -> Wording:
        """Return that it is to be adopted, and why. `harm`: what speaks against it, behind its name."""
        pairs, loop, is_best = self.standing.pairs, self.standing.loop, self.standing.is_best
        names = [row.loop for row in rivals]
        nearest = pairs[0] if is_best else next(pair for pair in pairs if pair.b in names)
        gap = interval(nearest.difference, 3)
        by = f", the next being {nearest.b} by {gap}" if is_best else f" by {gap}" if len(rivals) == 1 else ""
        beaten = listed_names(names)
        others = Wording(f"every other {self.matrix.subject}", "all others") if is_best else alike(beaten)
        return ADOPT_OVER_ALL.filled(loop=loop, harm=harm, profiles=every_profile(self.matrix), others=others, by=by)

    def sentences(self) -> Iterator[AnswerSentence]:
        """Yield how it stands to the others, where it is not that which decides."""
        pairs = self.standing.pairs
        if not pairs:
            return
        start = f"Over {every_profile(self.matrix)} together {self.standing.loop} is"
        nearest = f"{pairs[0].b} ({difference_text(pairs[0].difference, 3)})"
        if self.standing.is_best:
            best = f"{start}{narrowly(pairs)} better than every other {self.matrix.subject}"
            again = f"; {shown_again(pairs[0].difference)}" if narrowly(pairs[:1]) else ""
            yield AnswerSentence(
                f"{best}, the next being {nearest}{again}", f"{best}, the next being {nearest}{again}" if again else best
            )
            return
        words = {pair.verdict.word for pair in pairs}
        groups = list(dict.fromkeys((pair.verdict.word, _is_close(pair)) for pair in pairs))
        full = [self._relation(word, is_close, nearest) for word, is_close in groups]
        first = nearest if _is_close(pairs[0]) else pairs[0].b
        brief = [
            self._relation(word, is_close, first) for word, is_close in groups if word != "better" or is_close or len(groups) == 1
        ]
        is_open = words <= {"better", "undecided"} and "undecided" in words and not any(is_close for _, is_close in groups)
        yield AnswerSentence(f"{start} {', '.join(full)}", f"{start} {', '.join(brief)}", may_be_left_out=is_open)

    def _relation(self, word: VerdictWord, is_close: bool, nearest: str) -> str:
        """Return how it stands to those with the same verdict, narrow or not: `better than b and c`.

        `nearest`: how the first of all is written.
        """
        pairs = self.standing.pairs
        alike = [pair for pair in pairs if (pair.verdict.word, _is_close(pair)) == (word, is_close)]
        names = listed_names([nearest if pair is pairs[0] else pair.b for pair in alike])
        if not is_close:
            return f"{RELATIONS[word]} {names}"
        return f"narrowly {RELATIONS[word]} {names}; {shown_again(alike[0].difference)}"


def is_clear(pair: Pair) -> bool:
    """Whether a pair of loops is decided over all profiles together, and not narrowly."""
    return pair.verdict.word != "undecided" and not _is_close(pair)


def _is_close(pair: Pair) -> bool:
    """Whether a difference is shown, and narrowly."""
    return pair.verdict.word in ("better", "worse") and is_narrow(pair.difference)
