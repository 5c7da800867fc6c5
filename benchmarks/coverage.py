"""How often intervals hold the truth and tests raise a false alarm, by simulation; Markdown to stdout.

python benchmarks/coverage.py [--share S] [--only NAME …] [--write]

Scenes are eight settings in which all is tried. Grids are cells of many sizes, rates and spreads: accuracies of one arm from 0.5 to
0.995 (those below are their mirror image), and pairs whose losses are spread evenly, or of whole tasks or clusters. Both grids take
about an hour. --write renews the tables in docs/statistics.md.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pages import head, make_tables, row
from whichloop.metrics.calibration import Calibration, Histogram, auroc, brier, calibration, histogram
from whichloop.metrics.harness import Crossed
from whichloop.metrics.paired import PairedFlip, mean_interval
from whichloop.metrics.pairs import AT_BUDGET, paired_test, pairs_of_family
from whichloop.metrics.record import Record
from whichloop.metrics.reliability import Reliability, reliability
from whichloop.metrics.statistics import Interval, accuracy_interval
from whichloop.metrics.summary import PRIMARY, TaskValues
from whichloop.metrics.views import cost_per_solved

PAGE = Path(__file__).parents[1] / "docs" / "statistics.md"
RUNS = 2_000
HALF, MIN_RUNS = 1_000, 400
"""Where a run takes milliseconds, such as those with a bootstrap of their own."""
ALPHA = 0.05
MARGIN = 0.1
DIFFERENCE = 0.1
ALIKE = float("inf")
"""A spread at which all tasks have the same rate."""

Array = NDArray[np.float64]
Generator = np.random.Generator


def generator_of(key: str) -> Generator:
    """The same in every process."""
    return np.random.default_rng(zlib.crc32(key.encode()))


def rates(mean: float, spread: float, shape: int | tuple[int, ...], generator: Generator) -> Array:
    """Chances of success from a Beta distribution. `spread`, its a + b: small where tasks are solved nearly always or never."""
    return np.full(shape, mean) if spread == ALIKE else generator.beta(mean * spread, (1 - mean) * spread, shape)


def solved(rate: Array, repeats: int, generator: Generator) -> Array:
    """0 or 1, with an axis of repeats behind those of the rates."""
    return (generator.random((*rate.shape, repeats)) < rate[..., None]).astype(float)


def clusters_of(tasks: int, size: int) -> list[str] | None:
    """Return the cluster of each task; None where each stands alone."""
    return None if size == 1 else [str(task // size) for task in range(tasks)]


@dataclass(frozen=True)
class Scene:
    """Tasks, and the rates at which they, or their templates, are solved."""

    tasks: int
    repeats: int
    per_template: int
    mean: float
    spread: float

    @property
    def name(self) -> str:
        return f"{self.size}, {self.mean:g}" + (", alike" if self.spread < 1 else "")

    @property
    def size(self) -> str:
        return f"{self.tasks}{'' if self.per_template == 1 else f' in {self.units} templates'} × {self.repeats}"

    @property
    def clusters(self) -> list[str] | None:
        return clusters_of(self.tasks, self.per_template)

    @property
    def units(self) -> int:
        return self.tasks // self.per_template

    @property
    def of_two(self) -> float:
        """The mean chance to solve a task twice."""
        return self.mean * (self.mean * self.spread + 1) / (self.spread + 1)

    def shared(self, drawn: Array) -> Array:
        """One value per task from one per template."""
        return np.repeat(drawn, self.per_template)

    def rates(self, generator: Generator) -> Array:
        return self.shared(rates(self.mean, self.spread, self.units, generator))

    def lengths(self, generator: Generator) -> Array:
        """How many steps a task takes, on average: log-normal, with a long tail."""
        return self.shared(5 * generator.lognormal(0, 0.5, self.units))

    def steps(self, lengths: Array, generator: Generator) -> Array:
        """[task, repeat]"""
        return np.asarray(lengths[:, None] * generator.lognormal(-0.045, 0.3, (len(lengths), self.repeats)))

    def records(self, scores: Array, told: Array | None = None) -> list[Record]:
        """Of scores and confidence, [task, repeat]."""
        names = self.clusters or [""] * self.tasks
        return [
            Record(
                "a", "s", "d", f"t{task}", repeat, 0, "scored",
                scores={PRIMARY: score}, confidence=None if told is None else told[task, repeat], cluster=names[task],
            )
            for task, row in enumerate(scores.tolist())
            for repeat, score in enumerate(row)
        ]  # fmt: skip


SCENES = (
    Scene(20, 1, 1, 0.5, 2.0),
    Scene(20, 5, 1, 0.95, 2.0),
    Scene(100, 1, 1, 0.9, 2.0),
    Scene(50, 1, 1, 0.7, 0.05),
    Scene(100, 5, 1, 0.7, 2.0),
    Scene(60, 1, 5, 0.8, 8.0),
    Scene(200, 2, 10, 0.7, 8.0),
    Scene(400, 1, 1, 0.98, 2.0),
)
MEAN_STEPS = 5 * float(np.exp(0.125))
Check = Callable[[Scene, Generator], bool | None]


# --- one arm: does the interval hold the truth? ---


def holds(interval: Interval | tuple[float, float], truth: float) -> bool:
    low, high = interval if isinstance(interval, tuple) else (interval.low, interval.high)
    return low - 1e-9 <= truth <= high + 1e-9


def accuracy(scene: Scene, generator: Generator) -> bool:
    scores = solved(scene.rates(generator), scene.repeats, generator)
    return holds(accuracy_interval(scores.tolist(), scene.clusters), scene.mean)


def graded(scene: Scene, generator: Generator) -> bool:
    """Scores between 0 and 1: the rates themselves."""
    return holds(accuracy_interval(scene.rates(generator)[:, None].tolist(), scene.clusters), scene.mean)


def repeats(of: Callable[[Reliability], Interval], truth: Callable[[Scene], float]) -> Check:
    def check(scene: Scene, generator: Generator) -> bool | None:
        draws = np.random.default_rng(int(generator.integers(2**32)))
        found = reliability("a", scene.records(solved(scene.rates(draws), scene.repeats, draws)))
        return None if found is None else holds(of(found), truth(scene))

    return check


def mean_steps(scene: Scene, generator: Generator) -> bool:
    found = scene.steps(scene.lengths(generator), generator).mean(1)
    return holds(mean_interval(found.tolist(), scene.clusters), MEAN_STEPS)


def per_solved(scene: Scene, generator: Generator) -> bool:
    """A task that is not solved costs half as much again."""
    scores = solved(scene.rates(generator), scene.repeats, generator)
    costs = scene.steps(scene.lengths(generator), generator) * (1.5 - 0.5 * scores)
    found = cost_per_solved(costs.mean(1).tolist(), scores.mean(1).tolist(), scene.clusters)
    return found is None or holds(found, MEAN_STEPS * (1.5 - 0.5 * scene.mean) / scene.mean)


def _confident(scene: Scene, generator: Generator) -> tuple[Array, Array]:
    """Confidence and outcome, [task, repeat]: confidence knows the rate, with an error, and is too high."""
    rate = scene.rates(generator)
    told = 0.5 + 0.45 * rate[:, None] + generator.normal(0, 0.15, (scene.tasks, scene.repeats))
    return np.clip(told, 0, 1), solved(rate, scene.repeats, generator)


@cache
def _confident_population(mean: float, spread: float) -> Histogram:
    told, right = _confident(Scene(200_000, 1, 1, mean, spread), np.random.default_rng(2))
    return histogram(told.ravel().tolist(), (right.ravel() > 0).tolist(), [0] * told.size)


def confidence(of: Callable[[Calibration], Interval | None], measure: Callable[[Histogram], Array]) -> Check:
    def check(scene: Scene, generator: Generator) -> bool | None:
        told, right = _confident(scene, np.random.default_rng(int(generator.integers(2**32))))
        calibrated = calibration("a", scene.records(right, told))
        found = None if calibrated is None else of(calibrated)
        return None if found is None else holds(found, float(measure(_confident_population(scene.mean, scene.spread))[0]))

    return check


# --- two arms ---


def apart(scene: Scene, generator: Generator, difference: float = DIFFERENCE) -> PairedFlip:
    """Two arms; the second solves less by `difference` on average, the more the easier a task is."""
    rate = scene.rates(generator)
    a, b = (solved(each, scene.repeats, generator) for each in (rate, rate * (1 - difference / scene.mean)))
    return PairedFlip(a.mean(1) - b.mean(1), scene.clusters)


def difference(truth: float) -> Check:
    return lambda scene, generator: holds(apart(scene, generator, truth).interval(), truth)


RATIO = 1.1


def _two_lengths(scene: Scene, generator: Generator) -> tuple[Array, Array]:
    """Task means of steps of two arms; the second takes a tenth more, more or less of it from task to task."""
    lengths = scene.lengths(generator)
    longer = RATIO * lengths * scene.shared(generator.lognormal(-0.02, 0.2, scene.units))
    return scene.steps(lengths, generator).mean(1), scene.steps(longer, generator).mean(1)


def step_difference(scene: Scene, generator: Generator) -> bool:
    a, b = _two_lengths(scene, generator)
    return holds(PairedFlip(b - a, scene.clusters, reach=None).interval(), (RATIO - 1) * MEAN_STEPS)


# --- crossed loops and models ---

LOOPS, MODELS = np.array([-0.1, 0.0, 0.1]), np.array([-0.05, 0.0, 0.05])
BOTH = 0.05 * np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
"""What loops and models move together, [loop, model]: rows and columns add up to 0."""
MINUS = "loop minus model"


def moves(source: str, truth: float, moved: Array = LOOPS, both: Array = 0 * BOTH) -> Check:
    """How far a source moves accuracy, or how much farther loops do than models, in three loops × three models.

    Tasks differ, and so do they in how much a loop moves them; of the scene its size counts. `moved`: by loops, on average over
    tasks, [loop]. `both`: by loops and models together, [loop, model].
    """

    def check(scene: Scene, generator: Generator) -> bool:
        base, own = (scene.shared(generator.uniform(low, high, scene.units)) for low, high in ((0.3, 0.7), (0.5, 1.5)))
        rate = base + (moved[:, None] * own)[:, None] + MODELS[:, None] + both[:, :, None]
        drawn = generator.random((scene.repeats, *rate.shape)) < rate
        chance = None if scene.repeats == 1 else drawn.var(0, ddof=1).mean((0, 1)) / scene.repeats
        found = Crossed(drawn.mean(0), chance, scene.clusters)
        parts = {part.source: part.deviation for part in found.parts()} if source != MINUS else {MINUS: found.difference()}
        return holds(parts[source], truth)

    return check


# --- tests: True where the test rejects ---


def flipped(truth: float) -> Check:
    return lambda scene, generator: apart(scene, generator, truth).p_difference < ALPHA


def equivalent(truth: float) -> Check:
    return lambda scene, generator: apart(scene, generator, truth).p_equivalence(MARGIN) < ALPHA


def equal_steps(scene: Scene, generator: Generator) -> bool:
    """The true difference is the margin."""
    a, b = _two_lengths(scene, generator)
    return PairedFlip(b - a, scene.clusters, reach=None).p_equivalence((RATIO - 1) * MEAN_STEPS) < ALPHA


def _arms(scene: Scene, generator: Generator, apart: float, arms: int) -> dict[str, TaskValues]:
    """The first arm is better than all others by `apart`."""
    rate = scene.rates(generator)
    clusters = {f"t{task}": name for task, name in enumerate(scene.clusters or [""] * scene.tasks)}
    made = {}
    for place in range(arms):
        scores = solved(rate * (1 - (apart / scene.mean if place else 0)), scene.repeats, generator)
        made[str(place)] = TaskValues({f"t{task}": row.tolist() for task, row in enumerate(scores)}, clusters)
    return made


def any_wrong(count: int, apart: float, of_first: bool = False) -> Check:
    """Whether any verdict of some arms is wrong. Right is that the first is better than the others by `apart`, and these are equal.

    `of_first`: of its pairs alone.
    """

    def check(scene: Scene, generator: Generator) -> bool:
        arms = _arms(scene, generator, apart, count)
        pairs = [(a, b) for a, b in combinations(arms, 2) if a == "0" or not of_first]
        tests = {(a, b): paired_test(AT_BUDGET, arms[a], arms[b], MARGIN) for a, b in pairs}
        return any(
            pair.verdict.within_margin or pair.verdict.word == "worse"
            if apart and pair.a == "0"
            else pair.verdict.word in ("better", "worse")
            for pair in pairs_of_family(AT_BUDGET, tests.items(), ALPHA)
        )

    return check


# --- tables of scenes ---


class Row(NamedTuple):
    """What is checked, and what it promises in every scene."""

    name: str
    check: Check
    promise: tuple[float, float]
    """Least and most; noise of the simulation comes on top."""
    runs: int = RUNS
    stream: str = ""
    """Rows of one stream see the same draws."""


class Section(NamedTuple):
    """One table."""

    name: str
    head: str
    rows: tuple[Row, ...]
    worst: Callable[[Iterable[float]], float] = min
    """The share that is shown, with its scene."""


COVERS, LEVEL = (0.94, 1.0), (0.0, 0.05)
FEW_UNITS = (0.85, 1.0)
"""A bootstrap over twelve or twenty units."""
MIN_TASKS = (0.88, 1.0)
"""Where twenty tasks, most of them always solved, may show nothing of those that are not."""
SKEWED = (0.0, 0.06)
"""Where a long tail of large values lies to one side."""
ONE_ARM = (
    Row("accuracy", accuracy, COVERS),
    Row("graded scores", graded, COVERS),
    Row("pass^2", repeats(lambda r: r.pass_hat[1], lambda s: s.of_two), COVERS, HALF, "repeats"),
    Row("pass@2", repeats(lambda r: r.pass_at[1], lambda s: 2 * s.mean - s.of_two), COVERS, HALF, "repeats"),
    Row("consistency", repeats(lambda r: r.consistency, lambda s: 4 * s.of_two - 4 * s.mean + 1), COVERS, HALF, "repeats"),
    Row("mean steps, tokens, cost", mean_steps, COVERS),
    Row("cost per solved task", per_solved, COVERS, MIN_RUNS),
    Row("Brier", confidence(lambda c: c.brier, brier), MIN_TASKS, MIN_RUNS, "confidence"),
    Row("AUROC", confidence(lambda c: c.auroc, auroc), COVERS, MIN_RUNS, "confidence"),
)
PAIRS = (
    Row("difference of accuracy, 0.1", difference(DIFFERENCE), COVERS),
    Row("difference of accuracy, none", difference(0.0), COVERS),
    Row("difference of steps", step_difference, COVERS),
)
CROSSED = (
    Row("loops, 0.1", moves("loop", 0.1), COVERS, MIN_RUNS, "what loops move, 0.1, beside three models"),
    Row("loops minus models, 0.05", moves(MINUS, 0.05), COVERS, MIN_RUNS, "the same less what models move, 0.05"),
    Row("loops, 0", moves("loop", 0.0, 0 * LOOPS), COVERS, MIN_RUNS, "equal loops"),
    Row("loop × model, 0.05", moves("loop × model", 0.05, both=BOTH), COVERS, MIN_RUNS),
    Row("loop × model, 0", moves("loop × model", 0.0), COVERS, MIN_RUNS, "what loops × models move, nothing"),
    Row("task, 0.12", moves("task", 0.4 / math.sqrt(12)), FEW_UNITS, MIN_RUNS, "what tasks differ by, 0.12"),
    Row("loop × task, 0.03", moves("loop × task", 0.1 / math.sqrt(12)), FEW_UNITS, MIN_RUNS, "what loops × tasks differ by, 0.03"),
)
FALSE_ALARMS = (
    Row("sign-flip: arms are equal", flipped(0.0), LEVEL, RUNS, "equal arms"),
    Row("any verdict of five equal arms (Holm)", any_wrong(5, 0.0), LEVEL, MIN_RUNS),
    Row("equivalence: accuracy differs by the margin", equivalent(MARGIN), LEVEL),
    Row("equivalence: steps differ by the margin", equal_steps, SKEWED),
    Row("any equivalence of five arms (Holm)", any_wrong(5, MARGIN, of_first=True), LEVEL, MIN_RUNS),
    Row("any wrong verdict of three arms, one better by the margin", any_wrong(3, MARGIN), LEVEL, RUNS),
)
SECTIONS = (
    Section("coverage of one arm", "95 % interval of …", ONE_ARM),
    Section("coverage of pairs", "95 % interval or bound of …", PAIRS),
    Section("coverage of crossed loops and models", "95 % interval of what accuracy moves by, of …", CROSSED),
    Section("false alarms", "Rejected at 5 % though …", FALSE_ALARMS, max),
)


def share_of(row: Row, scene: Scene, runs: int) -> float | None:
    """Of so many runs; None where the row says nothing of the scene."""
    generator = generator_of(f"{row.stream or row.name}|{scene.name}")
    found = [row.check(scene, generator) for _ in range(runs)]
    told = [bool(one) for one in found if one is not None]
    return sum(told) / len(told) if told else None


def lines(section: Section, share: float) -> Iterator[str]:
    found = {
        line.name: {scene: one for scene in SCENES if (one := share_of(line, scene, round(share * line.runs))) is not None}
        for line in section.rows
    }
    yield from head(section.head, "least" if section.worst is min else "most", "in")
    for name, shares in found.items():
        worst = section.worst(shares.values())
        yield row(name, f"{worst:.3f}", next(scene.size for scene, one in shares.items() if one == worst))


# --- the grid of one arm ---

RUNS_OF_ARM, RUNS_OF_LOSS = 4_000, 10_000
"""Of each cell."""
Arm = tuple[int, int, int, float, float]
"""Tasks, or templates; tasks of each; repeats, 0: graded scores, the chances themselves; mean and spread of the chances."""
MEANS, SPREADS, SIZES = (0.5, 0.8, 0.9, 0.95, 0.99, 0.995), (0.05, 0.5, 2.0, 20.0, ALIKE), (10, 20, 30, 60, 120, 500)
ARMS: Mapping[str, tuple[Arm, ...]] = {
    "10 to 500 tasks × 1": tuple(product(SIZES, (1,), (1,), MEANS, (ALIKE,))),
    "10 to 500 tasks × 2, 3, 10": tuple(product(SIZES, (1,), (2, 3, 10), MEANS, SPREADS)),
    "10 to 500 tasks, graded": tuple(product(SIZES, (1,), (0,), MEANS, SPREADS[:-1])),
    "5 to 45 templates": tuple(
        (units, *size, mean, spread)
        for units, size, mean, spread in product((5, 8, 12, 24, 45), ((3, 1), (5, 3), (10, 1)), MEANS, SPREADS)
    ),
}
"""Row of the table → its cells."""


def covered(cell: Arm, runs: int) -> float:
    """How often the interval of an accuracy holds it."""
    units, size, repeats, mean, spread = cell
    generator = generator_of(repr((cell,)))
    rate = np.repeat(rates(mean, spread, (runs, units), generator), size, axis=1)
    scores = solved(rate, repeats, generator) if repeats else rate[:, :, None]
    clusters = clusters_of(units * size, size)
    return sum(holds(accuracy_interval(each.tolist(), clusters), mean) for each in scores) / runs


def arms(share: float) -> Iterator[str]:
    yield from head("one arm", "cells", "least coverage")
    for name, cells in ARMS.items():
        yield row(name, len(cells), f"{min(covered(cell, round(share * RUNS_OF_ARM)) for cell in cells):.3f}")


# --- the grid of losses ---

CHANCES: Mapping[str, tuple[float, float]] = {"flaky": (0.83, 7.0), "alike": (0.95, ALIKE), "always or never": (0.8, 0.05)}
"""Worlds, by mean and spread of a cluster's chances."""
KINDS = ("even", "tasks", "clusters")
"""Of losses: spread evenly over tasks, of whole tasks, of whole clusters."""
Loss = tuple[int, int, int, str, str, float]
"""Tasks, tasks of a cluster, repeats, world, kind, and the mean loss of a run against its baseline."""


def loss_found(cell: Loss, runs: int) -> tuple[float, float]:
    """How often the interval holds the loss, and how often a gate passes with a margin as large as the loss."""
    tasks, size, repeats, world, kind, loss = cell
    generator, (mean, spread), shape = generator_of(repr((cell,))), CHANCES[world], (runs, tasks // size)
    before = rates(mean, spread, shape, generator).repeat(size, axis=1)
    kept: Array | float = 1 - loss / mean
    if kind != "even":
        units = generator.random(shape if kind == "clusters" else before.shape) >= loss / mean
        kept = units.repeat(before.shape[1] // units.shape[1], axis=1).astype(np.float64)
    d = (generator.binomial(repeats, before * kept) - generator.binomial(repeats, before)) / repeats
    flips = [PairedFlip(each) for each in d.reshape(*shape, size).mean(2)]
    low, high = (np.array([flip.p(-loss, side) for flip in flips]) for side in ("greater", "less"))
    return float(((low >= 0.025) & (high >= 0.025)).mean()), float((low < ALPHA).mean())


def losses(share: float) -> Iterator[str]:
    yield from head("tasks to a cluster", *(f"{kind}: {what}" for kind in KINDS for what in ("least coverage", "most misses")))
    for size in (1, 4, 10):
        cells: list[str] = []
        for kind in KINDS if size > 1 else KINDS[:2]:
            at = product((60, 120, 200, 300, 600), (size,), (1, 3, 5), CHANCES, (kind,), (0.02, 0.05))
            held, missed = zip(*(loss_found(cell, round(share * RUNS_OF_LOSS)) for cell in at), strict=True)
            cells += [f"{min(held):.3f}", f"{max(missed):.3f}"]
        yield row(size, *cells, *["–"] * (2 * len(KINDS) - len(cells)))


TABLES: Mapping[str, Callable[[float], Iterator[str]]] = {
    **{section.name: partial(lines, section) for section in SECTIONS},
    "grid of one arm": arms,
    "grid of losses": losses,
}

if __name__ == "__main__":
    make_tables(__doc__, PAGE, TABLES)
