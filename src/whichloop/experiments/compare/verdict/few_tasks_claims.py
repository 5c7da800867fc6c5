"""Which loop is shown ahead of which on a few tasks with repeats, under which profile, and by which p: claims, and their words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from whichloop.metrics.pairs import Pair
from whichloop.metrics.within_tasks import WithinTasks
from whichloop.protocol.values import joined
from whichloop.text.numbers import listed_names, p_value

from .matrix import AnswerMatrix, AnswerRow, pairs_of

TESTED = "exact test within tasks, "
"""What the first p of a sentence is of."""


@dataclass(frozen=True, slots=True)
class Claim:
    """That each of some loops is shown ahead of each of some others, in each of some columns of the matrix."""

    ahead: tuple[str, ...]
    behind: tuple[str, ...]
    under: tuple[str, ...]
    """The columns' headings."""
    p: float
    """The largest adjusted p of all that is claimed."""

    def in_words(self, *, has_columns: bool, tested: str = "") -> str:
        """Return `finish is ahead of bare under flaky-tools (p = 0.044, adjusted)`."""
        number = len(self.ahead) * len(self.behind) * len(self.under)
        written = p_value(self.p)
        or_less = " or less" if number > 1 else ""
        p = f"p {written}" if written.startswith("<") else f"p = {written}{or_less}"
        under = f" under {listed_names(self.under)}" if has_columns else ""
        verb = "is" if len(self.ahead) == 1 else "are"
        return f"{listed_names(self.ahead)} {verb} ahead of {listed_names(self.behind)}{under} ({tested}{p}, adjusted)"


@dataclass(frozen=True, slots=True)
class FewTasksClaims:
    """What repeats show of the loops of a matrix on these tasks. `accuracy`: pairs of arms."""

    matrix: AnswerMatrix
    accuracy: tuple[Pair, ...]
    alpha: float

    def is_ahead(self, row: AnswerRow, other: AnswerRow) -> bool:
        """Whether a loop is shown to solve more of these tasks in some column, and less in none."""
        return bool(self._shown(row, other)) and not self._shown(other, row)

    def leaders(self, rows: Sequence[AnswerRow]) -> list[AnswerRow]:
        """Return the loops that are shown ahead of another one and behind none."""
        return [row for row in self.unbeaten(rows) if any(self.is_ahead(row, other) for other in rows)]

    def unbeaten(self, rows: Sequence[AnswerRow]) -> list[AnswerRow]:
        """Return the loops that no other one is ahead of."""
        return [row for row in rows if not any(self.is_ahead(other, row) for other in rows)]

    def claims(self, rows: Sequence[AnswerRow]) -> tuple[Claim, ...]:
        """Return whom the leaders are ahead of; of other loops only what says of a further loop that it is behind."""
        leaders = self.leaders(rows)
        named: set[str] = set()
        groups: dict[tuple[tuple[str, ...], tuple[str, ...]], list[tuple[str, float]]] = {}
        for row in [*leaders, *(row for row in rows if row not in leaders)]:
            by_columns: dict[tuple[str, ...], dict[str, float]] = {}
            for other in rows:
                shown_pairs = self._shown(row, other)
                if shown_pairs and (row in leaders or other.loop not in named):
                    columns = tuple(self._heading(pair) for pair, _ in shown_pairs)
                    by_columns.setdefault(columns, {})[other.loop] = max(within.p for _, within in shown_pairs)
            for columns, behind in by_columns.items():
                groups.setdefault((columns, tuple(behind)), []).append((row.loop, max(behind.values())))
                named |= {*behind}
        return tuple(
            Claim(tuple(loop for loop, _ in ahead), behind, columns, max(p for _, p in ahead))
            for (columns, behind), ahead in groups.items()
        )

    def in_words(self, rows: Sequence[AnswerRow]) -> Iterator[str]:
        """Yield each claim in words, and then which loops no test tells from any other one."""
        has_columns = len(self.matrix.columns) > 1
        for number, claim in enumerate(self.claims(rows)):
            yield claim.in_words(has_columns=has_columns, tested="" if number else TESTED)
        apart = {row.loop for row in rows for other in rows if self._shown(row, other) or self._shown(other, row)}
        if alike := [row.loop for row in rows if row.loop not in apart]:
            yield f"{joined(alike)} {'is' if len(alike) == 1 else 'are'} told apart from none"

    def _shown(self, row: AnswerRow, other: AnswerRow) -> list[tuple[Pair, WithinTasks]]:
        """Return the columns' pairs in which a loop is shown to solve more of these tasks than another one."""
        return [
            (pair, pair.within)
            for pair in pairs_of(self.accuracy, row, other)
            if row is not other and pair.within is not None and pair.within.is_ahead(self.alpha)
        ]

    def _heading(self, pair: Pair) -> str:
        return self.matrix.under(pair).removeprefix(" under ")
