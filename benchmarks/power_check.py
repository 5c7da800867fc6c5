"""Whether plans hold: runs simulated from known chances of success, judged by the real verdicts and the real gate.

python benchmarks/power_check.py [--share S] [--write]

What `whichloop report --size` promises against what was decided, planned from the true chances and from pilots of 120 tasks:
Markdown to stdout; --write renews the table in docs/size.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pages import head, make_tables, row
from whichloop.experiments.size.pilot import as_shares
from whichloop.metrics import gate
from whichloop.metrics.pairs import paired_test, pairs_of_family
from whichloop.metrics.power import (
    Spread,
    difference_power,
    equivalence_power,
    fewest_units,
    pass_power,
    regression_power,
    same_loop,
    spread,
    tasks_of,
    units_to_pass,
)
from whichloop.metrics.statistics import ALPHA
from whichloop.metrics.summary import TaskValues

PAGE = Path(__file__).parents[1] / "docs" / "size.md"
POWER = 0.8
RUNS, RUNS_OF_PILOTS = 300, 150
PILOT = 120
MANY = 20_000
"""Tasks that stand for all there are."""

Chances = NDArray[np.float64]


class Population(NamedTuple):
    """Tasks with their chances of success, drawn anew for each run."""

    name: str
    draw: Callable[[np.random.Generator, int], Chances]
    """How likely each of n tasks is solved."""
    template: int = 1
    """Tasks that share a template, and so their chance."""
    ratio: bool = False
    """The chances are mean amounts, around which trials vary by 30 %."""

    def chances(self, rng: np.random.Generator, tasks: int) -> Chances:
        return np.repeat(self.draw(rng, -(-tasks // self.template)), self.template)[:tasks]

    def values(self, rng: np.random.Generator, chances: Chances, repeats: int) -> TaskValues:
        shape = (len(chances), repeats)
        if self.ratio:
            rows = chances[:, None] * np.exp(rng.normal(0.0, 0.3, shape))
        else:
            rows = (rng.random(shape) < chances[:, None]).astype(np.float64)
        clusters = {str(task): str(task // self.template) if self.template > 1 else "" for task in range(len(chances))}
        return TaskValues(dict(zip(clusters, rows.tolist(), strict=True)), clusters)


MOSTLY, MIXED, EVEN, TEMPLATES, LENGTHS = (
    # nine of ten tasks are always solved, the others now and then
    Population("mostly solved", lambda rng, n: np.where(rng.random(n) < 0.9, 1.0, rng.random(n))),
    # easy tasks, hard ones, and all between
    Population("mixed", lambda rng, n: rng.beta(0.6, 0.3, n)),
    Population("0.9 each", lambda rng, n: np.full(n, 0.9)),
    Population("mixed, 5 to a template", lambda rng, n: rng.beta(0.6, 0.3, n), template=5),
    # steps, calls or tokens: tasks differ by a factor of ten
    Population("steps", lambda rng, n: np.exp(rng.normal(3.0, 0.7, n)), ratio=True),
)


class Case(NamedTuple):
    """A population, a decision, and the margin."""

    population: Population
    decision: str
    repeats: int
    margin: float
    whole: bool = True
    """What is lost is whole tasks; else each is solved a little less often."""

    @property
    def name(self) -> str:
        return self.population.name + ("" if self.whole else ", each less often")

    @property
    def bound(self) -> float:
        """The margin in the unit of the variance."""
        return math.log1p(self.margin) if self.population.ratio else self.margin

    @property
    def shift(self) -> float:
        """The true drop: none, the margin, or twice it."""
        return {"difference": self.margin, "regression": 2 * self.margin}.get(self.decision, 0.0)


DECISIONS = ("difference", "equivalence", "pass", "regression")
PLANS = ((MOSTLY, 1, 0.02), (MIXED, 1, 0.05), (MIXED, 3, 0.05), (EVEN, 2, 0.03), (TEMPLATES, 1, 0.05))
CASES = [
    *(Case(population, decision, repeats, margin) for population, repeats, margin in PLANS for decision in DECISIONS),
    *(Case(population, "difference", repeats, 0.05, whole=False) for population in (MIXED, EVEN) for repeats in (1, 3)),
    Case(LENGTHS, "pass", 1, 0.1),
    Case(LENGTHS, "pass", 3, 0.05),
]


def power_of(case: Case, varies: Spread) -> Callable[[int], float]:
    """What is promised of so many units."""
    margin, step, scores = case.bound, varies.step(case.repeats), varies.scores
    ways: dict[str, Callable[[int, float], float]] = {
        "difference": lambda n, variance: difference_power(n, case.shift, variance, step=step),
        "equivalence": lambda n, variance: equivalence_power(n, 0.0, variance, margin, scores=scores),
        "pass": lambda n, variance: pass_power(n, 0.0, variance, margin, scores=scores),
        "regression": lambda n, variance: regression_power(n, -case.shift, variance, margin, scores=scores, step=step),
    }
    variances = varies.plausible(varies.variance(case.repeats, case.shift)).tolist()
    return lambda n: math.fsum(ways[case.decision](n, variance) for variance in variances) / len(variances)


def changed(case: Case, rng: np.random.Generator, chances: Chances) -> Chances:
    """What becomes of the tasks' chances, so that their mean falls by the shift: tasks (templates) are lost altogether, or each is
    solved less often in proportion.
    """
    share, template = case.shift / float(chances.mean()), case.population.template
    if not case.shift:
        return chances
    if not case.whole:
        return np.asarray(chances * (1 - share), dtype=np.float64)
    lost = rng.random(-(-len(chances) // template)) < share
    return np.where(np.repeat(lost, template)[: len(chances)], 0.0, chances)


def observed(case: Case, rng: np.random.Generator, tasks: int) -> Spread:
    """How a pilot of so many tasks varies: of two designs as they are, or of one loop where a gate is planned."""
    chances = case.population.chances(rng, tasks)
    a = case.population.values(rng, chances, max(case.repeats, 2))
    if case.decision in ("pass", "regression"):
        found = same_loop(as_shares(a) if case.population.ratio else a, scores=not case.population.ratio)
    else:
        found = spread(a, case.population.values(rng, changed(case, rng, chances), max(case.repeats, 2)))
    assert found is not None
    return found


def decided(case: Case, rng: np.random.Generator, tasks: int) -> bool:
    """One run of so many tasks, judged by what judges real ones."""
    population = case.population
    before = population.chances(rng, tasks)
    a, b = (population.values(rng, chances, case.repeats) for chances in (before, changed(case, rng, before)))
    if case.decision in ("pass", "regression"):
        metric = "steps" if population.ratio else "accuracy"
        (line,) = gate.judge_lines([gate.Held("arm", metric, a, b, case.margin)], ALPHA)
        return line.result == case.decision
    test = paired_test("accuracy", a, b, case.margin)
    (pair,) = pairs_of_family("accuracy", [(("a", "b"), test)], ALPHA)
    return pair.verdict.word == ("better" if case.decision == "difference" else "equivalent")


def planned(case: Case, varies: Spread) -> int:
    """Tasks."""
    units = (
        units_to_pass(varies, case.repeats, case.bound)
        if case.decision in ("pass", "regression")
        else fewest_units(power_of(case, varies), POWER)
    )
    assert units is not None
    return tasks_of(units, varies)


def power_row(case: Case, runs: int = RUNS, runs_of_pilots: int = RUNS_OF_PILOTS) -> str:
    """A regression is simulated at the size that lets a harmless change pass: its power is what comes with it."""
    rng = np.random.default_rng([ord(letter) for letter in f"{case.population.name} {case.decision} {case.repeats}"])
    true = observed(case, rng, MANY)
    tasks = planned(case, true)
    promised = power_of(case, true)(tasks // case.population.template)
    simulated = sum(decided(case, rng, tasks) for _ in range(runs)) / runs
    from_pilots = sum(decided(case, rng, planned(case, observed(case, rng, PILOT))) for _ in range(runs_of_pilots)) / runs_of_pilots
    cells = (case.name, case.decision, case.repeats, f"{case.margin:g}", f"{tasks:,}")
    return row(*cells, f"{promised:.2f}", f"{simulated:.2f}", f"{from_pilots:.2f}")


def powers(share: float) -> Iterator[str]:
    yield from head("tasks are", "decision", "repeats", "margin", "tasks", "promised", "simulated", "planned from pilots")
    for case in CASES:
        yield power_row(case, round(share * RUNS), round(share * RUNS_OF_PILOTS))


if __name__ == "__main__":
    make_tables(__doc__, PAGE, {"power": powers})
