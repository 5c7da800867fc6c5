"""Templates as strata or as clusters: design effects of the built-in suites, and what each interval covers; Markdown to stdout.

python benchmarks/templates.py [--draws N] [--write]

--write renews both tables in docs/statistics.md. All draws depend on fixed seeds: the same tables come out on every machine.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from pages import write_block
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.run import run
from whichloop.metrics.paired import PairedFlip
from whichloop.metrics.statistics import NO_SPREAD, Floats, accuracy_interval, clustered_error, standard_error
from whichloop.metrics.summary import METRICS, PRIMARY, task_values
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.registry import generated_suites

PAGE = Path(__file__).parents[1] / "docs" / "statistics.md"
LOOPS = ("bare", "finish", "phased", "react_extract", "stateless")
PROFILES = ("flaky-format", "forgetful")
TASKS = 120
TEMPLATES = (16, 40)
EFFECTS = (1.0, 1.5, 2.0, 2.8, 4.2)
"""Design effects at `TEMPLATES[0]` templates: the square of the clustered error over that of the plain one."""
DRAWS = 1_000


def design_effect(values: Floats, templates: Sequence[str]) -> float | None:
    """Return the square of the clustered over the plain error; None where nothing varies."""
    plain = standard_error(values)
    return None if plain < NO_SPREAD else (clustered_error(values, templates) / plain) ** 2


def effects_of(suite: str, folder: Path) -> tuple[int, list[float], list[float]]:
    """Return a suite's number of templates, and the design effects of its arms and of its pairs."""
    experiment = prepare(CompareConfig(loops=LOOPS, profiles=PROFILES, suite=suite, tasks=TASKS, runs=folder, mlflow=False))
    run(experiment, Unwatched())
    found = results(experiment.folder)
    arms: list[float | None] = []
    pairs: list[float | None] = []
    templates: set[str] = set()
    for profile in PROFILES:
        names = [arm.info.arm for arm in found.comparison.arms if arm.info.profile == profile]
        scores = [task_values([r for r in found.records if r.arm == name], METRICS[PRIMARY]) for name in names]
        for score in scores:
            templates.update(score.templates.values())
            arms.append(design_effect(np.array(list(score.means.values())), [score.templates[task] for task in score.means]))
        for a, b in combinations(scores, 2):
            tasks = [task for task in a.means if task in b.means]
            d = np.array([a.means[task] - b.means[task] for task in tasks])
            pairs.append(design_effect(d, [a.templates[task] for task in tasks]))
    return len(templates), [x for x in arms if x is not None], [x for x in pairs if x is not None]


def measured() -> Iterator[str]:
    yield "| suite | templates in 120 tasks | design effect of arms: lowest, median, highest | of pairs |"
    yield "|---|---|---|---|"
    with tempfile.TemporaryDirectory() as folder:
        for suite in sorted(generated_suites()):
            count, arms, pairs = effects_of(suite, Path(folder))
            cells = [f"{min(found):.1f}, {np.median(found):.1f}, {max(found):.1f}" for found in (arms, pairs)]
            print(suite, count, *cells, file=sys.stderr)
            yield f"| `{suite}` | {count} | {' | '.join(cells)} |"


def spread_of(effect: float) -> float:
    """Return the correlation of tasks of one template that gives this design effect at the fewest templates; at most 1."""
    return (effect - 1) / (TASKS / TEMPLATES[0] - 1)


def chances(draw: np.random.Generator, count: int, effect: float) -> Floats:
    """Draw each template's chance of success around 0.7 (beta law); all alike at a design effect of 1."""
    within = spread_of(effect)
    if within <= 0:
        return np.full(count, 0.7)
    size = 1 / within - 1
    return draw.beta(0.7 * size, 0.3 * size, count)


def covered(count: int, effect: float, draws: int) -> list[float]:
    """Return how often each interval holds what each question asks, of an arm and of a pair of arms.

    A pair is two arms whose templates' chances are drawn apart, so its tasks share the templates' luck as an arm's do.
    """
    draw = np.random.default_rng([count, round(10 * effect)])
    names = [str(place) for place in np.arange(TASKS) % count]
    of = np.arange(TASKS) % count
    hits: Floats = np.zeros(8)
    for _ in range(draws):
        p, q = chances(draw, count, effect), chances(draw, count, effect)
        a, b = (draw.random(TASKS) < p[of]).astype(float), (draw.random(TASKS) < q[of]).astype(float)
        arm = [accuracy_interval(a[:, None].tolist(), clusters) for clusters in (None, names)]
        pair = [PairedFlip(a - b, clusters).interval() for clusters in (None, names)]
        truths = (float(p[of].mean()), 0.7), (float((p - q)[of].mean()), 0.0)
        hits += [found.low <= true <= found.high for kind, both in zip((arm, pair), truths, strict=True)
                 for true in both for found in kind]  # fmt: skip
    return list(hits / draws)


def simulated(draws: int) -> Iterator[str]:
    heads = [
        f"{what}, {whose}: {units}" for what in ("arm", "pair") for whose in ("these", "others") for units in ("plain", "clustered")
    ]
    yield f"| templates | design effect at {TEMPLATES[0]} templates | {' | '.join(heads)} |"
    yield "|---" * (2 + len(heads)) + "|"
    for count in TEMPLATES:
        for effect in EFFECTS:
            shares = covered(count, effect, draws)
            print(count, effect, *shares, file=sys.stderr)
            yield f"| {count} | {effect:g} | {' | '.join(f'{share:.3f}' for share in shares)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    made = {"design effects": "\n".join(measured()), "templates": "\n".join(simulated(given.draws))}
    for name, table in made.items():
        if given.write:
            write_block(PAGE, name, table)
        else:
            print(table, end="\n\n")


if __name__ == "__main__":
    main()
