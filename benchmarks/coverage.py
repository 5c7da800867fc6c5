"""How often intervals hold the truth and tests raise a false alarm, by simulation; Markdown to stdout.

python benchmarks/coverage.py [--share S] [--only NAME …] [--write]

--write renews the tables in docs/statistics.md.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pages import head, make_tables, row
from whichloop.metrics.bootstrap import sign_flip
from whichloop.metrics.calibration import Calibration, Histogram, auroc, brier, calibration, histogram
from whichloop.metrics.harness import Crossed
from whichloop.metrics.paired import PairedFlip, mean_interval
from whichloop.metrics.pairs import AT_BUDGET, Pair, paired_test, pairs_of_family
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
POPULATION = 200_000

Array = NDArray[np.float64]
Generator = np.random.Generator


@dataclass(frozen=True)
class Scene:
    """Where numbers come from: a task's (or template's) rate of success is drawn from a Beta distribution of this mean."""

    tasks: int
    repeats: int
    per_template: int
    mean: float
    spread: float
    """a + b of the Beta distribution: small means that tasks are nearly always, or nearly never, solved."""

    @property
    def name(self) -> str:
        return f"{self.size}, {self.mean:g}" + (", alike" if self.spread < 1 else "")

    @property
    def size(self) -> str:
        return f"{self.tasks}{'' if self.per_template == 1 else f' in {self.units} templates'} × {self.repeats}"

    @property
    def clusters(self) -> list[str] | None:
        return None if self.per_template == 1 else [str(place // self.per_template) for place in range(self.tasks)]

    @property
    def units(self) -> int:
        return self.tasks // self.per_template

    def shared(self, drawn: Array) -> Array:
        """One value per task from one per template."""
        return np.repeat(drawn, self.per_template)


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


def rates(scene: Scene, generator: Generator) -> Array:
    a, b = scene.mean * scene.spread, (1 - scene.mean) * scene.spread
    return scene.shared(generator.beta(a, b, scene.units))


def solved(rate: Array, repeats: int, generator: Generator) -> Array:
    """0 or 1, [task, repeat]."""
    return (generator.random((len(rate), repeats)) < rate[:, None]).astype(float)


def sizes(scene: Scene, generator: Generator) -> Array:
    """How many steps a task takes, on average: log-normal, with a long tail."""
    return scene.shared(5 * generator.lognormal(0, 0.5, scene.units))


def _records(scene: Scene, scores: Array, told: Array | None = None) -> list[Record]:
    """Of scores and confidence, [task, repeat]."""
    names = scene.clusters or [""] * scene.tasks
    return [
        Record(
            "a", "s", "d", f"t{task}", repeat, 0, "scored",
            scores={PRIMARY: score}, confidence=None if told is None else told[task, repeat], cluster=names[task],
        )
        for task, row in enumerate(scores.tolist())
        for repeat, score in enumerate(row)
    ]  # fmt: skip


def steps(size: Array, repeats: int, generator: Generator) -> Array:
    """[task, repeat]"""
    return np.asarray(size[:, None] * generator.lognormal(-0.045, 0.3, (len(size), repeats)))


MEAN_STEPS = 5 * float(np.exp(0.125))


def moment(scene: Scene, k: int) -> float:
    """The mean of the k-th power of a rate."""
    a, total = scene.mean * scene.spread, scene.spread
    return float(np.prod([(a + i) / (total + i) for i in range(k)]))


# --- one arm: does the interval hold the truth? ---


def holds(interval: Interval | tuple[float, float], truth: float) -> bool:
    low, high = interval if isinstance(interval, tuple) else (interval.low, interval.high)
    return low - 1e-9 <= truth <= high + 1e-9


def accuracy(scene: Scene, generator: Generator) -> bool:
    scores = solved(rates(scene, generator), scene.repeats, generator)
    return holds(accuracy_interval(scores.tolist(), scene.clusters), scene.mean)


def graded(scene: Scene, generator: Generator) -> bool:
    """Scores between 0 and 1: the rates themselves."""
    return holds(accuracy_interval(rates(scene, generator)[:, None].tolist(), scene.clusters), scene.mean)


@cache
def _tried(scene: Scene, seed: int) -> Reliability | None:
    generator = np.random.default_rng(seed)
    scores = solved(rates(scene, generator), scene.repeats, generator)
    return reliability("a", _records(scene, scores))


def repeats(of: Callable[[Reliability], Interval], truth: Truth) -> Check:
    def check(scene: Scene, generator: Generator) -> bool | None:
        found = _tried(scene, int(generator.integers(2**32)))
        return None if found is None else holds(of(found), truth(scene))

    return check


def mean_steps(scene: Scene, generator: Generator) -> bool:
    found = steps(sizes(scene, generator), scene.repeats, generator).mean(1)
    return holds(mean_interval(found.tolist(), scene.clusters), MEAN_STEPS)


def _costly(scene: Scene, generator: Generator) -> tuple[Array, Array]:
    """Scores and costs, [task, repeat]: a task that is not solved costs half as much again."""
    scores = solved(rates(scene, generator), scene.repeats, generator)
    return scores, steps(sizes(scene, generator), scene.repeats, generator) * (1.5 - 0.5 * scores)


def per_solved(scene: Scene, generator: Generator) -> bool:
    scores, costs = _costly(scene, generator)
    found = cost_per_solved(costs.mean(1).tolist(), scores.mean(1).tolist(), scene.clusters)
    return found is None or holds(found, MEAN_STEPS * (1.5 - 0.5 * scene.mean) / scene.mean)


def _many(scene: Scene) -> Scene:
    return Scene(POPULATION, 1, 1, scene.mean, scene.spread)


def _confident(scene: Scene, generator: Generator) -> tuple[Array, Array]:
    """Confidence and outcome, [task, repeat]: confidence knows the rate, with an error, and is too high."""
    rate = rates(scene, generator)
    told = 0.5 + 0.45 * rate[:, None] + generator.normal(0, 0.15, (scene.tasks, scene.repeats))
    return np.clip(told, 0, 1), solved(rate, scene.repeats, generator)


@cache
def _confident_population(scene: Scene) -> Histogram:
    told, right = _confident(_many(scene), np.random.default_rng(2))
    return histogram(told.ravel().tolist(), (right.ravel() > 0).tolist(), [0] * told.size)


@cache
def _calibrated(scene: Scene, seed: int) -> Calibration:
    told, right = _confident(scene, np.random.default_rng(seed))
    found = calibration("a", _records(scene, right, told))
    assert found is not None
    return found


def confidence(of: Callable[[Calibration], Interval | None], measure: Callable[[Histogram], Array]) -> Check:
    def check(scene: Scene, generator: Generator) -> bool | None:
        found = of(_calibrated(scene, int(generator.integers(2**32))))
        return None if found is None else holds(found, float(measure(_confident_population(scene))[0]))

    return check


# --- two arms ---


def _two(scene: Scene, generator: Generator, difference: float = DIFFERENCE) -> tuple[Array, Array]:
    """Scores of two arms, [task, repeat]; the second solves less by `difference` on average, the more the easier a task is."""
    rate = rates(scene, generator)
    lower = rate * (1 - difference / scene.mean)
    return solved(rate, scene.repeats, generator), solved(lower, scene.repeats, generator)


def _apart(scene: Scene, generator: Generator, difference: float = DIFFERENCE) -> Array:
    a, b = _two(scene, generator, difference)
    return np.asarray(a.mean(1) - b.mean(1))


def difference(scene: Scene, generator: Generator) -> bool:
    return holds(PairedFlip(_apart(scene, generator), scene.clusters).interval(), DIFFERENCE)


def no_difference(scene: Scene, generator: Generator) -> bool:
    return holds(PairedFlip(_apart(scene, generator, 0.0), scene.clusters).interval(), 0.0)


RATIO = 1.1


def _two_sizes(scene: Scene, generator: Generator) -> tuple[Array, Array]:
    """Task means of steps of two arms; the second takes a tenth more, more or less of it from task to task."""
    size = sizes(scene, generator)
    longer = RATIO * size * scene.shared(generator.lognormal(-0.02, 0.2, scene.units))
    return steps(size, scene.repeats, generator).mean(1), steps(longer, scene.repeats, generator).mean(1)


def step_difference(scene: Scene, generator: Generator) -> bool:
    a, b = _two_sizes(scene, generator)
    return holds(PairedFlip(b - a, scene.clusters, reach=None).interval(), (RATIO - 1) * MEAN_STEPS)


def ratio_bound(scene: Scene, generator: Generator) -> bool:
    a, b = _two_sizes(scene, generator)
    return PairedFlip(np.log(b) - np.log(a), scene.clusters, reach=None).bounds()[1] >= float(np.log(RATIO)) - 0.02


def _sd(effects: Array) -> float:
    return float(effects.std(ddof=1))


LOOPS, MODELS = np.array([-0.1, 0.0, 0.1]), np.array([-0.05, 0.0, 0.05])
BASE, OWN = (0.3, 0.7), (0.5, 1.5)
"""Ends of what tasks are worth, and of how far a loop moves one."""
TASKS_DIFFER = float(np.diff(BASE)[0]) / math.sqrt(12)
LOOPS_DIFFER = _sd(LOOPS) * float(np.diff(OWN)[0]) / math.sqrt(12)


BOTH = 0.05 * np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
"""What loops and models move together, [loop, model]: rows and columns add up to 0."""
BOTH_MOVE = math.sqrt(float((BOTH**2).sum()) / ((len(LOOPS) - 1) * (len(MODELS) - 1)))


NEITHER = np.zeros((len(LOOPS), len(MODELS)))


def _crossed(scene: Scene, generator: Generator, moved: Array, both: Array) -> Crossed:
    """Three loops × three models; tasks differ, and so do they in how much a loop moves them. Of the scene its size counts.

    `moved`: by loops, on average over tasks, [loop]. `both`: by loops and models together, [loop, model].
    """
    base, own = (scene.shared(generator.uniform(low, high, scene.units)) for low, high in (BASE, OWN))
    loops = moved[:, None] * own
    rate = base + loops[:, None] + MODELS[:, None] + both[:, :, None]
    drawn = generator.random((scene.repeats, *rate.shape)) < rate
    chance = None if scene.repeats == 1 else drawn.var(0, ddof=1).mean((0, 1)) / scene.repeats
    return Crossed(drawn.mean(0), chance, scene.clusters)


def part_of(source: str, truth: float, moved: Array = LOOPS, both: Array = NEITHER) -> Check:
    """How far one source moves accuracy."""

    def check(scene: Scene, generator: Generator) -> bool:
        parts = {part.source: part.deviation for part in _crossed(scene, generator, moved, both).parts()}
        return holds(parts[source], truth)

    return check


def loops_against_models(scene: Scene, generator: Generator) -> bool:
    """How much farther loops move accuracy than models do."""
    return holds(_crossed(scene, generator, LOOPS, NEITHER).difference(), _sd(LOOPS) - _sd(MODELS))


# --- tests: True where the test rejects ---


def flipped(apart: float) -> Check:
    return lambda scene, generator: sign_flip(_apart(scene, generator, apart), scene.clusters).two_sided < ALPHA


def equivalent(apart: float) -> Check:
    return lambda scene, generator: PairedFlip(_apart(scene, generator, apart), scene.clusters).p_equivalence(MARGIN) < ALPHA


def equal_steps(scene: Scene, generator: Generator) -> bool:
    """The true difference is the margin."""
    a, b = _two_sizes(scene, generator)
    return PairedFlip(b - a, scene.clusters, reach=None).p_equivalence((RATIO - 1) * MEAN_STEPS) < ALPHA


def _arms(scene: Scene, generator: Generator, apart: float, arms: int) -> dict[str, TaskValues]:
    """The first arm is better than all others by `apart`."""
    rate = rates(scene, generator)
    names = scene.clusters or [""] * scene.tasks
    clusters = {f"t{task}": name for task, name in enumerate(names)}
    made = {}
    for place in range(arms):
        scores = solved(rate * (1 - (apart / scene.mean if place else 0)), scene.repeats, generator)
        made[str(place)] = TaskValues({f"t{task}": row.tolist() for task, row in enumerate(scores)}, clusters)
    return made


def _judged(arms: Mapping[str, TaskValues], pairs: Iterable[tuple[str, str]]) -> Sequence[Pair]:
    tests = {(a, b): paired_test(AT_BUDGET, arms[a], arms[b], MARGIN) for a, b in pairs}
    return pairs_of_family(AT_BUDGET, tests, ALPHA)


def any_pair(scene: Scene, generator: Generator) -> bool:
    """Whether the verdicts tell any two of five equal arms apart."""
    arms = _arms(scene, generator, 0.0, 5)
    return any(pair.verdict.word in ("better", "worse") for pair in _judged(arms, combinations(arms, 2)))


def any_equivalent(scene: Scene, generator: Generator) -> bool:
    """Whether the first of five arms, better than the others by the margin, is called equivalent to any."""
    first, *others = arms = _arms(scene, generator, MARGIN, 5)
    return any(pair.verdict.within_margin for pair in _judged(arms, [(first, b) for b in others]))


def any_wrong(scene: Scene, generator: Generator) -> bool:
    """Whether any verdict of three arms is wrong, the first being better by the margin: that it is equivalent to another or worse,
    or that the other two, which are equal, are told apart.
    """
    arms = _arms(scene, generator, MARGIN, 3)
    return any(
        pair.verdict.within_margin or pair.verdict.word == "worse" if pair.a == "0" else pair.verdict.word in ("better", "worse")
        for pair in _judged(arms, combinations(arms, 2))
    )


# --- tables ---

Check = Callable[[Scene, Generator], bool | None]
Truth = Callable[[Scene], float]


@dataclass(frozen=True)
class Row:
    """What is checked, and what it promises in every scene."""

    name: str
    check: Check
    promise: tuple[float, float]
    """Least and most; noise of the simulation comes on top."""
    runs: int = RUNS
    stream: str = ""
    """Rows of one stream see the same draws."""


@dataclass(frozen=True)
class Section:
    """One table."""

    name: str
    head: str
    rows: tuple[Row, ...]
    worst: Callable[[Iterable[float]], float] | None = min
    """The share that is shown, with its scene; None: those of all scenes."""


COVERS, LEVEL, ANY = (0.94, 1.0), (0.0, 0.05), (0.0, 1.0)
FEW_UNITS = (0.85, 1.0)
"""A bootstrap over twelve or twenty units."""
MIN_TASKS = (0.88, 1.0)
"""Where twenty tasks, most of them always solved, may show nothing of those that are not."""
SKEWED = (0.0, 0.06)
"""Where a long tail of large values lies to one side."""

CONSISTENCY: Truth = lambda s: 4 * moment(s, 2) - 4 * s.mean + 1  # noqa: E731
MOVED, APART = _sd(LOOPS), _sd(LOOPS) - _sd(MODELS)
SECTIONS = (
    Section(
        "coverage of one arm",
        "95 % interval of …",
        (
            Row("accuracy", accuracy, COVERS),
            Row("graded scores", graded, COVERS),
            Row("pass^2", repeats(lambda r: r.pass_hat[1], lambda s: moment(s, 2)), COVERS, HALF, "repeats"),
            Row("pass@2", repeats(lambda r: r.pass_at[1], lambda s: 2 * s.mean - moment(s, 2)), COVERS, HALF, "repeats"),
            Row("consistency", repeats(lambda r: r.consistency, CONSISTENCY), COVERS, HALF, "repeats"),
            Row("mean steps, tokens, cost", mean_steps, COVERS),
            Row("cost per solved task", per_solved, COVERS, MIN_RUNS),
            Row("Brier", confidence(lambda c: c.brier, brier), MIN_TASKS, MIN_RUNS, "confidence"),
            Row("AUROC", confidence(lambda c: c.auroc, auroc), COVERS, MIN_RUNS, "confidence"),
        ),
    ),
    Section(
        "coverage of pairs",
        "95 % interval or bound of …",
        (
            Row("difference of accuracy, 0.1", difference, COVERS),
            Row("difference of accuracy, none", no_difference, COVERS),
            Row("difference of steps", step_difference, COVERS),
            Row("one-sided bound of a ratio of steps", ratio_bound, COVERS),
        ),
    ),
    Section(
        "coverage of crossed loops and models",
        "95 % interval of what accuracy moves by, of …",
        tuple(
            Row(name, check, promise, MIN_RUNS, stream)
            for name, check, promise, stream in (
                (f"loops, {MOVED:g}", part_of("loop", MOVED), COVERS, "what loops move, 0.1, beside three models"),
                (f"loops minus models, {APART:g}", loops_against_models, COVERS, "the same less what models move, 0.05"),
                ("loops, 0", part_of("loop", 0.0, np.zeros(3)), COVERS, "equal loops"),
                (f"loop × model, {BOTH_MOVE:g}", part_of("loop × model", BOTH_MOVE, both=BOTH), COVERS, ""),
                ("loop × model, 0", part_of("loop × model", 0.0), COVERS, "what loops × models move, nothing"),
                (f"task, {TASKS_DIFFER:.2f}", part_of("task", TASKS_DIFFER), FEW_UNITS, "what tasks differ by, 0.12"),
                (
                    f"loop × task, {LOOPS_DIFFER:.2f}",
                    part_of("loop × task", LOOPS_DIFFER),
                    FEW_UNITS,
                    "what loops × tasks differ by, 0.03",
                ),
            )
        ),
    ),
    Section(
        "false alarms",
        "Rejected at 5 % though …",
        (
            Row("sign-flip: arms are equal", flipped(0.0), LEVEL, RUNS, "equal arms"),
            Row("any verdict of five equal arms (Holm)", any_pair, LEVEL, MIN_RUNS),
            Row("equivalence: accuracy differs by the margin", equivalent(MARGIN), LEVEL),
            Row("equivalence: steps differ by the margin", equal_steps, SKEWED),
            Row("any equivalence of five arms (Holm)", any_equivalent, LEVEL, MIN_RUNS),
            Row("any wrong verdict of three arms, one better by the margin", any_wrong, LEVEL, RUNS),
        ),
        max,
    ),
    Section(
        "power",
        "Rejected at 5 % where …",
        (
            Row("sign-flip: a is better by 0.1", flipped(DIFFERENCE), ANY),
            Row("equivalence: none, margin 0.1", equivalent(0.0), ANY),
        ),
        None,
    ),
)


def share_of(row: Row, scene: Scene, runs: int) -> float | None:
    """Of so many runs; None where the row says nothing of the scene. The same in every process."""
    generator = np.random.default_rng(zlib.crc32(f"{row.stream or row.name}|{scene.name}".encode()))
    found = [row.check(scene, generator) for _ in range(runs)]
    told = [bool(one) for one in found if one is not None]
    return sum(told) / len(told) if told else None


def lines(section: Section, share: float) -> Iterator[str]:
    found = {
        line.name: {scene: one for scene in SCENES if (one := share_of(line, scene, round(share * line.runs))) is not None}
        for line in section.rows
    }
    if section.worst is None:
        yield from head(section.head, *found)
        for scene in SCENES:
            yield row(scene.name, *(f"{shares[scene]:.3f}" for shares in found.values()))
        return
    yield from head(section.head, "least" if section.worst is min else "most", "in")
    for name, shares in found.items():
        worst = section.worst(shares.values())
        yield row(name, f"{worst:.3f}", next(scene.size for scene, one in shares.items() if one == worst))


if __name__ == "__main__":
    make_tables(__doc__, PAGE, {section.name: partial(lines, section) for section in SECTIONS})
