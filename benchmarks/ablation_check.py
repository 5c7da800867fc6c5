"""How often the intervals of `whichloop ablate` hold the true effect, and how often its tests see one that is not there.

python benchmarks/ablation_check.py [--write] [--runs N]

Markdown to stdout; --write renews the table in docs/ablate.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from scipy.special import expit

from pages import write_block
from whichloop.metrics.factors.factorial import Effect, effects
from whichloop.metrics.factors.fractional import fraction, full_factorial
from whichloop.metrics.factors.layout import Cell, Factor, Layout, layout
from whichloop.metrics.record import Record
from whichloop.metrics.statistics import ALPHA, Interval
from whichloop.metrics.summary import PRIMARY

PAGE = Path(__file__).parents[1] / "docs" / "ablate.md"
RUNS = 1000
NODES = 60

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class World:
    """What is true: log odds of success of a task in a cell."""

    name: str
    sizes: tuple[int, ...]
    tasks: int
    repeats: int
    level: float
    """Of a task of average difficulty, in the cell of all bases."""
    steps: tuple[float, ...]
    """What each level of each factor adds, times its number; the last factor does nothing, nor does it interact."""
    both: float
    """What factors 1 and 2 add where neither is at its base."""
    difficulty: float = 1.5
    """Standard deviation over tasks, or over clusters of them."""
    shared: float = 0.5
    """Share of trials whose luck is the same in all cells, as the seeds of faults make it."""
    per_cluster: int = 1
    is_fraction: bool = False

    @property
    def design(self) -> Layout:
        factors = [Factor(f"f{i}", tuple(map(str, range(size)))) for i, size in enumerate(self.sizes)]
        cells = fraction(self.sizes).cells if self.is_fraction else full_factorial(self.sizes)
        return layout(factors, cells)

    def odds(self, cells: Sequence[Cell]) -> Floats:
        """Log odds by cell, of a task of average difficulty."""
        numbers = np.array(cells, dtype=float)
        together = (numbers[:, 0] > 0) & (numbers[:, 1] > 0)
        return np.asarray(self.level + numbers @ np.array(self.steps) + self.both * together)


WORLDS = (
    World("2 × 2", (2, 2), 30, 1, 0.0, (0.8, 0.0), 0.0),
    World("2 × 2", (2, 2), 100, 1, 0.0, (0.8, 0.0), 0.0),
    World("2 × 2 × 2", (2, 2, 2), 30, 2, 0.0, (0.8, 0.4, 0.0), 0.5),
    World("2 × 2 × 2", (2, 2, 2), 100, 1, 0.0, (0.8, 0.4, 0.0), 0.5),
    World("2 × 2 × 2, hardly a failure", (2, 2, 2), 100, 1, 3.5, (0.8, 0.4, 0.0), 0.0),
    World("2 × 2 × 2, 25 clusters of 4", (2, 2, 2), 100, 1, 0.0, (0.8, 0.4, 0.0), 0.5, per_cluster=4),
    World("3 × 2", (3, 2), 100, 2, 0.0, (0.5, 0.0), 0.0),
    World("half of 2⁴", (2, 2, 2, 2), 60, 1, 0.0, (0.8, 0.4, 0.2, 0.0), 0.0, is_fraction=True),
)


class Truth(NamedTuple):
    """What each contrast really is."""

    differences: Floats
    ratios: Floats


def truth(world: World, design: Layout) -> Truth:
    """Means over all tasks that could be drawn, by Gauss and Hermite's quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    shares = expit(world.odds(design.cells)[None, :] + world.difficulty * nodes[:, None])
    means = weights @ shares / weights.sum()
    fitted = optimize.root(
        lambda params: design.matrix.T @ (means - expit(design.matrix @ params)), np.zeros(design.matrix.shape[1])
    )
    return Truth(
        np.array([contrast.weights @ means for contrast in design.contrasts]),
        np.exp([float(contrast.code @ fitted.x) for contrast in design.contrasts]),
    )


def sample(world: World, cells: Sequence[Cell], generator: np.random.Generator) -> Mapping[Cell, list[Record]]:
    """The records of one run."""
    clusters = -(-world.tasks // world.per_cluster)
    hard = np.repeat(generator.normal(0, world.difficulty, clusters), world.per_cluster)[: world.tasks]
    shape = (world.tasks, world.repeats, len(cells))
    together = generator.random((world.tasks, world.repeats, 1))
    luck = np.where(generator.random(together.shape) < world.shared, together, generator.random(shape))
    solved = luck < expit(world.odds(cells)[None, None, :] + hard[:, None, None])
    return {
        cell: [
            _record(str(task), repeat, bool(solved[task, repeat, c]), world.per_cluster)
            for task in range(world.tasks)
            for repeat in range(world.repeats)
        ]
        for c, cell in enumerate(cells)
    }


def _record(task: str, repeat: int, solved: bool, per_cluster: int) -> Record:
    cluster = "" if per_cluster == 1 else f"c{int(task) // per_cluster}"
    return Record("arm", "s", "d", task, repeat, 0, "scored", scores={"accuracy": float(solved)}, cluster=cluster)


@dataclass(frozen=True)
class Found:
    """Shares over many runs."""

    mains: float
    """Of the intervals of main effects those that hold the truth."""
    interactions: float
    ratios: float
    """Of the intervals of odds ratios, where there are any."""
    seen: float
    """Of the effects of the factor that does nothing, those with p < alpha."""
    family: float
    """Of the runs without any effect, those in which one is reported."""


def check(world: World, runs: int, seed: int = 0) -> Found:
    """Simulate `runs` runs, and as many of a world in which no factor does anything."""
    generator, design = np.random.default_rng(seed), world.design
    true = truth(world, design)
    mains: list[bool] = []
    interactions: list[bool] = []
    ratios: list[bool] = []
    seen: list[bool] = []
    for _ in range(runs):
        found = _effects(world, design, generator)
        for effect, difference, ratio in zip(found, *true, strict=True):
            (mains if effect.kind == "main" else interactions).append(_holds(effect.difference, difference))
            if effect.odds_ratio is not None:
                ratios.append(_holds(effect.odds_ratio, ratio))
            if effect.kind == "main" and f"f{len(world.sizes) - 1}" in effect.factors:
                seen.append(effect.p < ALPHA)
    idle = replace(world, steps=(0.0,) * len(world.sizes), both=0.0)
    alarms = [_any(_effects(idle, design, generator)) for _ in range(runs)]
    return Found(*map(_share, (mains, interactions, ratios, seen, alarms)))


def _effects(world: World, design: Layout, generator: np.random.Generator) -> Sequence[Effect]:
    return effects({"": sample(world, design.cells, generator)}, design, metrics=(PRIMARY,)).effects


def _any(found: Sequence[Effect]) -> bool:
    return any(effect.p_holm < ALPHA for effect in found)


def _holds(interval: Interval, value: float) -> bool:
    return interval.low - 1e-9 <= value <= interval.high + 1e-9


def _share(values: Sequence[bool]) -> float:
    return float(np.mean(values)) if values else float("nan")


# --- the table ---

HEAD = (
    "| design | tasks × repeats | main effects | interactions | odds ratios | effect seen where there is none | any seen in a run "
    "without effects |",
    "|---|---|---|---|---|---|---|",
)


def table(runs: int) -> str:
    """Markdown: a line for each world."""
    return "\n".join((*HEAD, *(_line(world, check(world, runs)) for world in WORLDS)))


def _line(world: World, found: Found) -> str:
    shares = (found.mains, found.interactions, found.ratios, found.seen, found.family)
    return f"| {world.name} | {world.tasks} × {world.repeats} | {' | '.join(f'{share:.3f}' for share in shares)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--runs", type=int, default=RUNS)
    given = parser.parse_args()
    made = table(given.runs)
    if given.write:
        write_block(PAGE, "check", made)
    else:
        print(made)


if __name__ == "__main__":
    main()
