"""Which loop to take for these very tasks, where they are few and have repeats: what an exact test shows of them alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import scipy

from whichloop.metrics.pairs import MAX_FEW_TASKS, Pair
from whichloop.metrics.statistics import highest_share, too_few_units
from whichloop.metrics.within_tasks import WithinTasks
from whichloop.text.numbers import listed_names

from .air import every_profile, is_still, what_disturbs
from .few_tasks_table import FewTasksClaims, FewTasksTable
from .matrix import AGENT, AnswerMatrix, AnswerRow
from .prices import Prices
from .sentence import AnswerSentence
from .undecided import FIRST_TASKS

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


REPEATS = 10
"""Repeats that are proposed where tasks are few and ran once."""
MIN_BEYOND = 0.5
"""Share of a loop's trials from which on it is told that they go beyond the limit."""


def nothing_of_others(matrix: AnswerMatrix) -> AnswerSentence:
    """Return that the tasks of a run decide nothing of others, and what would."""
    first = f"for a choice that holds for others, run about {FIRST_TASKS}"
    return AnswerSentence(f"Of other tasks that decides nothing; {first}{what_disturbs(matrix)}")


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

    def sentences(self) -> Iterator[AnswerSentence]:
        """Yield which loop to adopt for these tasks, who is shown ahead of whom, and what each solved; nothing without repeats."""
        if not self._are_known:
            return
        rows = [row for row in self.on.matrix.rows if self._is_tested(row)]
        rows = sorted(rows, key=lambda row: (-(self.on.solved(row) / (self.on.trials(row) or 1)), row.mean_cost))
        head = f"On {self.these_tasks}{f' with {self.on.limits.words}' if self.on.limits.words else ''}"
        counts, notes = self._counts(rows), "".join(f"; {note}" for note in self._notes(rows))
        on_tasks = FewTasksClaims(self.on.matrix, self.accuracy, self.alpha)
        leaders, claims = on_tasks.leaders(rows), "; ".join(on_tasks.in_words(rows))
        if leaders:
            first, cheaper = leaders[0], self._cheaper(leaders[0], on_tasks.unbeaten(rows))
            named = "".join(f", or {self.prices.with_cost(row, has_unit=False)}, {self._by_task(row, first)}" for row in cheaper)
            few = "".join(f", or {row.loop}, {self._by_task(row, first)}" for row in cheaper)
            yield AnswerSentence(
                f"{head}: adopt {self.prices.with_cost(first)}{named}; {claims}; {counts}{notes}",
                f"{head}: adopt {first.loop}{few}; {claims}{notes}",
                adopts=first.loop,
                or_else=tuple(row.loop for row in cheaper),
                of_tasks=f"on {self.these_tasks}",
                opens=True,
            )
        elif on_tasks.claims(rows):
            none = f"no {self.on.matrix.subject} is ahead of another one and behind none"
            yield AnswerSentence(f"{head} {none}: {claims}; {counts}{notes}", f"{head} {none}: {claims}{notes}", opens=True)
        else:
            none = f"no {self.on.matrix.subject} is told from another by its repeats"
            yield AnswerSentence(f"{head} {none}: {counts}{notes}", f"{head} {none}{notes}", opens=True)
            if repeats := what_repeats_would(self.on.matrix, self.accuracy, self.alpha):
                yield AnswerSentence(repeats)

    def with_repeats(self) -> Iterator[AnswerSentence]:
        """Yield that repeats would tell more of tasks that are few and ran once each."""
        tasks = max((pair.difference.n for pair in self.accuracy), default=0)
        trials = [cell.arm.summary.scored for row in self.on.matrix.rows for cell in row.cells if cell is not None]
        if not 0 < tasks <= MAX_FEW_TASKS or max(trials) > tasks or self.on.matrix.subject == AGENT or is_still(self.on.matrix):
            return
        these, them = ("this task", "it") if tasks == 1 else (f"these {tasks} tasks", "them")
        yield AnswerSentence(f"For {these} alone --repeats {REPEATS} may tell, by exact tests within {them}")

    @property
    def these_tasks(self) -> str:
        """What the tasks are called: `these 8 tasks`."""
        number = max(pair.within.tasks for pair in self.accuracy if pair.within is not None)
        return f"these {number} tasks" if number > 1 else "this task"

    def _cheaper(self, first: AnswerRow, unbeaten: Sequence[AnswerRow]) -> list[AnswerRow]:
        """Return the loops to take in the place of the first one to save costs: each costs less than the one before it.

        `unbeaten`: the loops that are shown behind none, that which solved most first.
        """
        by_falling_cost = [first]
        for row in unbeaten:
            if row.mean_cost < by_falling_cost[-1].mean_cost and by_falling_cost[-1].cost is not None:
                by_falling_cost.append(row)
        return by_falling_cost[1:]

    def _by_task(self, row: AnswerRow, than: AnswerRow) -> str:
        """Return on how many of these tasks a loop that costs less on average does so."""
        tasks = self.on.tasks
        costs = [(self.on.cost(row, task), self.on.cost(than, task)) for task in tasks]
        less = sum(own is not None and other is not None and own < other for own, other in costs)
        if not less or any(None in each for each in costs):
            return "which is cheaper by its mean"
        return f"which is cheaper on {'each' if less == len(tasks) else less} of these tasks"

    def _is_tested(self, row: AnswerRow) -> bool:
        """Whether repeats were tested of a loop and another one."""
        return any(pair.within is not None for pair in self.accuracy if {pair.a, pair.b} & row.arms)

    def _counts(self, rows: Sequence[AnswerRow]) -> str:
        """Return `finish solved 554 of 600 trials, bare 524 …`, of the first three; of several profiles added up, as is said."""
        over_profiles = f" over {every_profile(self.on.matrix)}" if len(self.on.matrix.columns) > 1 else ""
        trials = {self.on.trials(row) for row in rows}
        counts = []
        for number, row in enumerate(rows):
            solved = f"{self.on.solved(row):,.4g}" if self.on.solved(row) else "none"
            if number == 0:
                counts.append(f"{row.loop} solved {solved} of {self.on.trials(row):,} trials{over_profiles}")
            elif len(trials) > 1:
                counts.append(f"{row.loop} {solved} of {self.on.trials(row):,}")
            else:
                counts.append(f"{row.loop} {solved}")
        return listed_names(counts)

    def _notes(self, rows: Sequence[AnswerRow]) -> Iterator[str]:
        """Yield which loops never solve some task, and which go beyond the limit in most of their trials."""
        subject, tasks = self.on.matrix.subject, self.on.tasks
        solvable = [task for task in tasks if any(self.on.solved(row, task) for row in rows)]
        notes: dict[str, list[str]] = {}
        for row in rows:
            never = [task for task in solvable if self.on.of(row, task) and not self.on.solved(row, task)]
            which = "any of them" if len(never) == len(tasks) > 1 else listed_names(never).replace("{", "{{").replace("}", "}}")
            clauses = [f"never {{solve}} {which}"] if never else []
            if beyond := self._beyond(row):
                clauses.append(f"{{exceed}} the limit in {beyond} of {{their}} trials")
            if clauses:
                notes.setdefault(" and ".join(clauses), []).append(row.loop)
        for what, loops in notes.items():
            is_one = len(loops) == 1
            verbs = {"solve": "solves" if is_one else "solve", "exceed": "exceeds" if is_one else "exceed"}
            yield f"{listed_names(loops)} {what.format(**verbs, their='its' if is_one else 'their')}"
        if unsolved := [task for task in tasks if task not in solvable]:
            yield f"no {subject} ever solves {listed_names(unsolved)}"

    def _beyond(self, row: AnswerRow) -> str:
        """Return the share of a loop's trials that went beyond the limit; empty where these are not most of them."""
        over, trials = self.on.trials_at_limit(self.on.of(row)), self.on.trials(row)
        return f"{100 * over / trials:.0f} %" if over > MIN_BEYOND * trials else ""
