"""How often the gate is wrong; Markdown to stdout.

python benchmarks/gate_rates.py [--share S] [--only NAME …] [--write]

Runs are simulated trial by trial and judged by the gate's own code, with fresh draws on both sides: nothing changed (every
regression is a false alarm), and a change of exactly the margin (every pass is an error). What a size finds is in power_check.py.
--write renews the tables in docs/gate-rates.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pages import head, make_tables, row
from whichloop.metrics.gate import Held, decide, worst
from whichloop.metrics.statistics import wilson
from whichloop.metrics.summary import PRIMARY, TaskValues

PAGE = Path(__file__).parents[1] / "docs" / "gate-rates.md"
ALPHA, MARGIN, MORE = 0.05, 0.02, 0.10
RUNS = 1_000
METRICS: Mapping[str, float] = {PRIMARY: MARGIN, "steps": MORE, "tokens": MORE}
Floats = NDArray[np.float64]


class World(NamedTuple):
    """Tasks, how likely each is solved, and what trials of one template share."""

    name: str
    chances: Callable[[np.random.Generator, int], Floats]
    template: int = 1
    """Tasks of one template."""
    shared: float = 0.0
    """Spread, in logits, of what befalls all trials of a template in one run."""


WORLDS = (
    World("nearly all solved", lambda rng, n: rng.beta(20, 1, n)),
    World("many flaky", lambda rng, n: rng.beta(2, 1, n)),
    World("solved always or never", lambda rng, n: np.where(rng.random(n) < 0.7, 0.98, 0.02)),
    World("templates of five", lambda rng, n: np.repeat(rng.beta(6, 2, -(-n // 5)), 5)[:n], template=5, shared=0.7),
)


class Change(NamedTuple):
    """What became of the loop between baseline and run."""

    drop: float = 0.0
    """Of every task's chance, as far as it has so much."""
    growth: float = 0.0
    """Of steps and tokens, as a share."""


NONE = Change()


class Tasks(NamedTuple):
    """The tasks of one simulated suite."""

    world: World
    chances: Floats
    lengths: Floats

    @classmethod
    def drawn(cls, world: World, n: int, rng: np.random.Generator) -> Tasks:
        return cls(world, world.chances(rng, n), rng.integers(2, 9, n).astype(float))

    def run(self, repeats: int, change: Change, rng: np.random.Generator) -> dict[str, Floats]:
        """Metric → values of one run, a row per task."""
        n = len(self.chances)
        templates = np.arange(n) // self.world.template
        logits = np.log(self.chances / (1 - self.chances)) + rng.normal(0, self.world.shared, templates[-1] + 1)[templates]
        chances = np.clip(1 / (1 + np.exp(-logits)) - change.drop, 0, 1)
        solved = rng.random((n, repeats)) < chances[:, None]
        steps = (self.lengths[:, None] + rng.poisson(0.5, (n, repeats)) + 3 * ~solved) * (1 + change.growth)
        return {PRIMARY: solved.astype(float), "steps": steps, "tokens": steps * rng.lognormal(6.5, 0.2, (n, repeats))}

    def values(self, rows: Floats) -> TaskValues:
        """The same by task, of one metric."""
        size = self.world.template
        clusters = {f"t{place}": f"c{place // size}" if size > 1 else "" for place in range(len(rows))}
        return TaskValues(dict(zip(clusters, rows.tolist(), strict=True)), clusters)


class Size(NamedTuple):
    """Of a baseline and a run."""

    tasks: int
    repeats: int
    run_repeats: int

    def __str__(self) -> str:
        more = "" if self.repeats == self.run_repeats else f", of the run × {self.run_repeats}"
        return f"{self.tasks} × {self.repeats}{more}"


def judged(tasks: Tasks, size: Size, metrics: Mapping[str, float], arms: int, change: Change, rng: np.random.Generator) -> str:
    """The gate's outcome of one baseline and one run."""
    held = []
    for arm in range(arms):
        old, new = tasks.run(size.repeats, NONE, rng), tasks.run(size.run_repeats, change, rng)
        held += [Held(f"a{arm}", of, tasks.values(old[of]), tasks.values(new[of]), margin) for of, margin in metrics.items()]
    return worst(line.result for line in decide(held, ALPHA))


def outcomes(
    world: World, size: Size, runs: int, *, metrics: Mapping[str, float], arms: int = 1, change: Change = NONE
) -> Counter[str]:
    """Outcome → how often, in so many runs, each of its own suite."""
    changed = round(1000 * (change.drop + change.growth))
    rng = np.random.default_rng([size.tasks, size.repeats, arms, len(metrics), WORLDS.index(world), changed])
    return Counter(judged(Tasks.drawn(world, size.tasks, rng), size, metrics, arms, change, rng) for _ in range(runs))


# --- the tables ---

ACCURACY = {PRIMARY: MARGIN}
FALSE_ALARMS: tuple[tuple[Size, Mapping[str, float], int], ...] = (
    (Size(40, 1, 1), ACCURACY, 1),
    (Size(120, 1, 1), ACCURACY, 1),
    (Size(120, 3, 3), ACCURACY, 1),
    (Size(120, 1, 1), METRICS, 1),
    (Size(120, 1, 3), METRICS, 1),
    (Size(120, 3, 3), METRICS, 4),
)
HIDDEN: tuple[tuple[Size, Sequence[str], Change], ...] = (
    (Size(400, 1, 1), (PRIMARY,), Change(drop=0.05)),
    (Size(400, 3, 3), (PRIMARY,), Change(drop=0.05)),
    (Size(400, 1, 1), ("steps",), Change(growth=MORE)),
    (Size(400, 1, 1), (PRIMARY, "steps"), Change(drop=0.05, growth=MORE)),
)


def share(count: int, of: int) -> str:
    low, high = wilson(count, of)
    return f"{count / of:.3f} [{low:.3f}, {high:.3f}]"


def false_alarms(runs: int, worlds: Sequence[World] = WORLDS) -> Iterator[str]:
    """Nothing changed."""
    yield from head("tasks × repeats", "metrics", *(world.name for world in worlds))
    for size, metrics, arms in FALSE_ALARMS:
        found = [outcomes(world, size, runs, metrics=metrics, arms=arms)["regression"] for world in worlds]
        of = "" if arms == 1 else f" of {arms} arms"
        yield row(size, f"{', '.join(metrics)}{of}", *(share(count, runs) for count in found))


def hidden(runs: int, worlds: Sequence[World] = WORLDS) -> Iterator[str]:
    """What changed lies exactly on the margin: a chance that cannot fall by so much takes the mean, and so the margin, with it."""
    yield from head("tasks × repeats", "metrics", *(world.name for world in worlds))
    for size, held, change in HIDDEN:
        passes = []
        for world in worlds:
            margins = {PRIMARY: _mean_drop(world, size.repeats, change.drop), "steps": MORE}
            passes.append(outcomes(world, size, runs, metrics={name: margins[name] for name in held}, change=change)["pass"])
        yield row(size, ", ".join(held), *(share(count, runs) for count in passes))


def _mean_drop(world: World, repeats: int, drop: float) -> float:
    """Of very many tasks."""
    rng = np.random.default_rng(0)
    tasks = Tasks.drawn(world, 200_000, rng)
    old, new = (tasks.run(repeats, change, rng)[PRIMARY].mean(axis=1) for change in (NONE, Change(drop=drop)))
    return -float((new - old).mean())


TABLES: Mapping[str, Callable[[float], Iterator[str]]] = {
    "false alarms": lambda share: false_alarms(round(share * RUNS)),
    "hidden drops": lambda share: hidden(round(share * RUNS)),
}


if __name__ == "__main__":
    make_tables(__doc__, PAGE, TABLES)
