"""Which loop to take for these very tasks, where they are few and have repeats: what an exact test shows of them alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loopbench.metrics.comparison import Pair, too_few_units
from loopbench.metrics.within_tasks import WithinTasks
from loopbench.protocol.counts import counted, joined
from loopbench.text.counts import listed
from loopbench.text.numbers import p_value

from .few_tasks_table import FewTasksTable
from .matrix import AnswerRow, pairs_of
from .paired import FIRST_TASKS
from .prices import Prices
from .sentence import AnswerSentence

MIN_BEYOND = 0.5
"""Share of a loop's trials from which on it is told that they go beyond the limit."""


@dataclass(frozen=True, slots=True)
class FewTasksVerdict:
    """The loops on tasks that speak for themselves alone. `accuracy`: pairs of arms."""

    on: FewTasksTable
    accuracy: tuple[Pair, ...]
    prices: Prices
    alpha: float

    @property
    def are_all_that_is_known(self) -> bool:
        """Whether no pair has enough tasks to say anything of others, and repeats say something of these."""
        return self._are_known and all(too_few_units(pair.units, self.alpha) for pair in self.accuracy)

    @property
    def _are_known(self) -> bool:
        return bool(self.accuracy and self.on.each) and all(pair.within is not None for pair in self.accuracy)

    def told(self) -> Iterator[AnswerSentence]:
        """Yield which loop is ahead on these tasks, and that it says nothing of others."""
        if not self._are_known:
            return
        rows = [row for row in self.on.found.rows if self._within(row)]
        rows = sorted(rows, key=lambda row: (-self._share(row), row.mean_cost))
        best = [row for row in rows if not any(self._is_ahead(other, row) for other in rows)]
        tasks = counted(max(pair.within.tasks for pair in self.accuracy if pair.within is not None), "task")
        head = f"On these {tasks}{f' with {self.on.limits.words}' if self.on.limits.words else ''}"
        notes = "".join(f"; {note}" for note in self._notes(rows))
        if len(best) == len(rows):
            said = f"{head} no {self.on.found.subject} is told from another by its repeats: {self._counts(rows)}"
            yield AnswerSentence(f"{said}{notes}", opens=True)
        else:
            names = joined([self.prices.with_cost(row, has_unit=number == 0) for number, row in enumerate(best)], "or")
            few = f"{head}: adopt {' or '.join(row.loop for row in best)}"
            yield AnswerSentence(
                f"{head}: adopt {names}, {self._reason(best, rows)}{notes}",
                f"{few}{notes}",
                adopts=best[0].loop,
                or_else=tuple(row.loop for row in best[1:]),
                opens=True,
            )
        first = f"; for a choice that holds for others, run about {FIRST_TASKS}" if self.are_all_that_is_known else ""
        yield AnswerSentence(f"Of other tasks that says nothing{first}")

    def _within(self, row: AnswerRow, other: AnswerRow | None = None) -> list[WithinTasks]:
        """Return what repeats show of a loop beside another one, or beside any, the loop being the first of each."""
        others = [each for each in self.on.found.rows if each is not row] if other is None else [other]
        pairs = (pair for each in others for pair in pairs_of(self.accuracy, row, each))
        return [pair.within for pair in pairs if pair.within is not None]

    def _is_ahead(self, row: AnswerRow, other: AnswerRow) -> bool:
        """Whether a loop is shown to solve more of these tasks in some column, and less in none."""
        ahead = any(found.is_ahead(self.alpha) for found in self._within(row, other))
        return ahead and not any(found.is_ahead(self.alpha) for found in self._within(other, row))

    def _reason(self, best: Sequence[AnswerRow], rows: Sequence[AnswerRow]) -> str:
        """Return why these loops are ahead: the trials that they and the next one solved, and how sure it is."""
        others = [row for row in rows if row not in best]
        ahead = [[found.p for one in best for found in self._within(one, row) if found.is_ahead(self.alpha)] for row in others]
        p = p_value(max(min(each, default=0.0) for each in ahead))
        at_most = f"p {p}" if p.startswith("<") else f"p = {p} or less"
        tested = f"exact tests within tasks, {at_most}"
        return f"ahead of every other {self.on.found.subject}: {self._counts([*best, *others])} ({tested}, adjusted)"

    def _counts(self, rows: Sequence[AnswerRow]) -> str:
        """Return `finish solved 554 of 600 trials, bare 524 …`, of the first three."""
        trials = {self.on.trials(row) for row in rows}
        told = []
        for number, row in enumerate(rows):
            of = f" of {self.on.trials(row):,}{' trials' * (number == 0)}" if number == 0 or len(trials) > 1 else ""
            solved = f"{self.on.solved(row):,.4g}" if self.on.solved(row) else "none"
            told.append(f"{row.loop}{' solved' * (number == 0)} {solved}{of}")
        return listed(told)

    def _share(self, row: AnswerRow) -> float:
        return self.on.solved(row) / (self.on.trials(row) or 1)

    def _notes(self, rows: Sequence[AnswerRow]) -> Iterator[str]:
        """Yield which loops never solve some task, and which go beyond the limit in most of their trials."""
        subject, tasks = self.on.found.subject, self.on.tasks
        solvable = [task for task in tasks if any(self.on.solved(row, task) for row in rows)]
        told: dict[str, list[str]] = {}
        for row in rows:
            never = [task for task in solvable if self.on.of(row, task) and not self.on.solved(row, task)]
            which = "any of them" if len(never) == len(tasks) > 1 else listed(never).replace("{", "{{").replace("}", "}}")
            found = [f"never {{solve}} {which}"] if never else []
            if beyond := self._beyond(row):
                found.append(f"{{exceed}} the limit in {beyond} of {{their}} trials")
            if found:
                told.setdefault(" and ".join(found), []).append(row.loop)
        for what, loops in told.items():
            is_one = len(loops) == 1
            verbs = {"solve": "solves" if is_one else "solve", "exceed": "exceeds" if is_one else "exceed"}
            yield f"{listed(loops)} {what.format(**verbs, their='its' if is_one else 'their')}"
        if unsolved := [task for task in tasks if task not in solvable]:
            yield f"no {subject} ever solves {listed(unsolved)}"

    def _beyond(self, row: AnswerRow) -> str:
        """Return the share of a loop's trials that went beyond the limit; empty where these are not most of them."""
        over, trials = self.on.over(self.on.of(row)), self.on.trials(row)
        return f"{100 * over / trials:.0f} %" if over > MIN_BEYOND * trials else ""
