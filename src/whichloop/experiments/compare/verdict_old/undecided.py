"""What a comparison leaves undecided, and which run is likely to decide it, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from whichloop.metrics.outlook import Outlook
from whichloop.metrics.pairs import Pair
from whichloop.metrics.statistics import are_too_few_to_plan
from whichloop.protocol.values import counted
from whichloop.text.numbers import chance_in_words, difference_text, listed_names, p_value, tasks_in_words

from .air import is_still
from .matrix import AnswerMatrix, AnswerRow, pairs_of
from .sentence import AnswerSentence, DecidingRun


def difference_in_words(pair: Pair, a: str, b: str) -> tuple[str, str]:
    """Return a minus b with its interval, p and the number of common tasks, and the same in brief. `a`, `b`: their names."""
    tasks, p = counted(pair.difference.n, "common task"), p_value(pair.p_holm)
    clusters = f" in {counted(pair.units, 'cluster')}" if pair.units < pair.difference.n else ""
    gap = f"{a} minus {b}: {difference_text(pair.difference, 3)}"
    tested = f"paired over {tasks}{clusters} (p {p if p.startswith('<') else f'= {p}'})"
    return f"{gap} in accuracy, {tested}", f"{gap}, {tested}"


FIRST_TASKS = 50
"""Tasks to run first where there are too few to say anything: from as many, the variance is known well enough to plan with."""


def too_few_to_plan(undecided: Sequence[Pair], alpha: float) -> str:
    """Return that tasks, or clusters of them, are too few to decide any of these pairs or to tell how many would; empty where they
    are not."""
    most = max(undecided, key=lambda pair: pair.units)
    is_clustered = all(pair.units < pair.difference.n for pair in undecided)
    if not are_too_few_to_plan(most.units, alpha, is_clustered=is_clustered):
        return ""
    if not is_clustered:
        few = counted(most.units, "task is", "tasks are")
        return f"{few} too few to tell how many would decide; run about {FIRST_TASKS} first"
    return f"{counted(most.units, 'cluster')} of tasks can show no difference, whatever the number of tasks in them"


@dataclass(frozen=True, slots=True)
class _Plan:
    """A run that is likely to tell a loop from another one, in words."""

    row: AnswerRow
    """The other one."""
    tasks: str
    """How many, and under which profile."""
    chance: str
    decides: DecidingRun
    alike: str
    """That the run is likelier to show the two to be equivalent than to differ, as a clause; else empty."""

    def between(self, loop: AnswerRow) -> str:
        """Return what the run does, and the chance that it does."""
        if self.alike:
            return f"{self.tasks} would decide between {loop.loop} and {self.row.loop}{self.alike} ({self.chance})"
        return f"{self.tasks} would tell {loop.loop} from {self.row.loop} ({self.chance})"


MAX_TASKS = 100_000
"""Tasks beyond which a run that would decide is not told: in practice nobody can run it."""


def _feasible(pair: Pair) -> Outlook | None:
    """Return what is likely to decide a pair; None where there is no run that would and that anybody can run."""
    return None if pair.outlook is None or pair.outlook.more.tasks > MAX_TASKS else pair.outlook


NO_SIZE = "no feasible number of tasks is likely to decide"


def what_decides(pair: Pair, alpha: float) -> str:
    """Return which run would decide an undecided pair: `400 tasks would decide (chance about 80 %)`. `alpha`: of the test."""
    if few := too_few_to_plan([pair], alpha):
        return few
    outlook = _feasible(pair)
    if outlook is None:
        return NO_SIZE
    size = outlook.more
    chance = f"chance about {chance_in_words(size.chance)}"
    return f"{tasks_in_words(size, outlook)} would decide{likelier_equivalent(pair)} ({chance})"


def likelier_equivalent(pair: Pair) -> str:
    """Return that the run that would decide a pair is likelier to show it to be equivalent than to differ; else empty."""
    is_likelier = pair.outlook is not None and pair.outlook.is_likelier_equivalent
    return f", most likely as equivalent within {pair.margin:g}" if is_likelier else ""


@dataclass(frozen=True, slots=True)
class UndecidedPairs:
    """A loop, and the others from which no profile may have told it. `accuracy`: pairs of arms."""

    matrix: AnswerMatrix
    accuracy: Sequence[Pair]
    loop: AnswerRow
    rivals: Sequence[AnswerRow]

    def sentences(self, alpha: float) -> Iterator[AnswerSentence]:
        """Yield which of the rivals the loop is undecided against, and the run that is likely to tell them apart."""
        undecided = self._undecided()
        rows = list(dict.fromkeys(row.loop for _, row in undecided))
        if not rows or is_still(self.matrix):
            return
        between = f"Undecided {'between' if len(rows) == 1 else 'among'} {listed_names([self.loop.loop, *rows])}"
        if few := too_few_to_plan([pair for pair, _ in undecided], alpha):
            yield AnswerSentence(f"{between}: {few}", has_precedence=True)
        elif (plan := self._soonest(undecided)) is None:
            yield AnswerSentence(f"{between}: {NO_SIZE}", has_precedence=True)
        else:
            told_apart = plan.between(self.loop)
            decides = f"{plan.tasks} would decide{plan.alike} ({plan.chance})" if len(rows) == 1 else told_apart
            brief = f"{'' if len(rows) == 1 else f'{between}: '}{told_apart.replace('chance about ', 'chance ')}"
            yield AnswerSentence(f"{between}: {decides}", brief, decides=plan.decides, has_precedence=True)

    def confirming(self) -> Iterator[AnswerSentence]:
        """Yield which run would confirm, with other faults, what all profiles together show of the loop."""
        plan = self._soonest(self._undecided())
        if plan is not None:
            better = f"{self.loop.loop} is better than {plan.row.loop}"
            text = f"To confirm that {better}: {plan.tasks} would tell the two apart ({plan.chance})"
            yield AnswerSentence(text, f"{plan.tasks} would confirm that {better} ({plan.chance})", decides=plan.decides)

    def _undecided(self) -> list[tuple[Pair, AnswerRow]]:
        return [
            (pair, row)
            for row in self.rivals
            for pair in pairs_of(self.accuracy, self.loop, row)
            if pair.verdict.word == "undecided"
        ]

    def _soonest(self, undecided: Sequence[tuple[Pair, AnswerRow]]) -> _Plan | None:
        """Return the run of fewest tasks that is likely to decide one of these pairs; None if no feasible one is."""
        plans = [(feasible, pair, row) for pair, row in undecided if (feasible := _feasible(pair)) is not None]
        if not plans:
            return None
        outlook, pair, row = min(plans, key=lambda plan: (plan[0].more.tasks, plan[0].more.chance))
        size = outlook.more
        tasks = f"{tasks_in_words(size, outlook)}{self.matrix.under(pair)}"
        chance = f"chance about {chance_in_words(size.chance)}"
        return _Plan(row, tasks, chance, DecidingRun((pair.a, pair.b), size.tasks, size.chance), likelier_equivalent(pair))
