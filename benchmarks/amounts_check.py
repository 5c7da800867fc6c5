"""Whether intervals of costs hold and what the gate makes of bills: simulated amounts, judged by the real functions.

python benchmarks/amounts_check.py [--runs N] [--bills N] [--write]

Two tables, Markdown to stdout; --write renews them in docs/statistics.md and docs/gate.md.
Means: how often the 95 % interval of one arm's mean holds the true one, beside Student's t, and how wide it is.
Bills: what the gate says of tokens where a share of the trials costs many times as much.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pages import write_block
from whichloop.metrics.amounts import mean_interval
from whichloop.metrics.gate import Held, decide
from whichloop.metrics.statistics import standard_error
from whichloop.metrics.summary import TaskValues

DOCS = Path(__file__).parents[1] / "docs"
RUNS, BILLS = 2_000, 400
SIZES = (10, 30, 60, 120, 300, 500)
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Amounts:
    """A law of what one trial costs."""

    name: str
    draw: Callable[[np.random.Generator, int], Floats]
    mean: float


def log_normal(sigma: float) -> Amounts:
    return Amounts(f"log-normal, {sigma:g}", lambda rng, n: rng.lognormal(0, sigma, n), float(np.exp(sigma**2 / 2)))


def tailed(times: float, share: float = 0.01) -> Amounts:
    """A share of the trials costs so many times as much."""

    def draw(rng: np.random.Generator, n: int) -> Floats:
        return np.asarray(rng.lognormal(0, 0.3, n) * np.where(rng.random(n) < share, times, 1.0), dtype=np.float64)

    return Amounts(f"{100 * share:g} % at {times:g} times", draw, float(np.exp(0.3**2 / 2) * (1 + share * (times - 1))))


LAWS = (log_normal(0.5), log_normal(1.0), log_normal(1.5), tailed(5), tailed(30))


def coverage(law: Amounts, n: int, runs: int = RUNS) -> tuple[float, float, float]:
    """Share of the intervals that hold the mean, the same of Student's t, and the median width over that of t."""
    rng = np.random.default_rng([ord(letter) for letter in law.name] + [n])
    held = held_by_t = 0
    widths = []
    for _ in range(runs):
        found = law.draw(rng, n)
        interval = mean_interval(found)
        half = float(stats.t.ppf(0.975, n - 1)) * standard_error(found)
        held += interval.low <= law.mean <= interval.high
        held_by_t += abs(interval.value - law.mean) <= half
        widths.append((interval.high - interval.low) / (2 * half))
    return held / runs, held_by_t / runs, float(np.median(widths))


def means(runs: int) -> Iterator[str]:
    yield from head("amounts are", *(f"{n} tasks" for n in SIZES))
    for law in LAWS:
        cells = (coverage(law, n, runs) for n in SIZES)
        yield row(law.name, *(f"{ours:.3f} (t {by_t:.3f}), ×{width:.2f}" for ours, by_t, width in cells))


@dataclass(frozen=True, slots=True)
class Bill:
    """What became of a loop's tokens between baseline and run."""

    name: str
    times: float = 1.0
    """What a dear trial costs, in the run."""
    in_baseline: bool = False
    """The baseline has as many dear trials."""
    bulk: float = 1.0
    """What every trial of the run costs."""

    @property
    def ratio(self) -> float:
        """Of the run's mean to the baseline's."""
        dear = 1 + DEAR * (self.times - 1)
        return self.bulk * (1.0 if self.in_baseline else dear)


DEAR, MARGIN = 0.01, 0.1
BILLS_SENT = (
    Bill("unchanged"),
    Bill("unchanged, 1 % at 30 times in both", 30, in_baseline=True),
    Bill("every trial 10 % dearer", bulk=1.1),
    Bill("every trial 30 % dearer", bulk=1.3),
    Bill("1 % at 11 times", 11),
    Bill("1 % at 30 times", 30),
)
SHAPES = ((60, 1), (120, 1), (120, 3), (400, 1), (400, 3))


def outcomes(bill: Bill, tasks: int, repeats: int, runs: int = BILLS, spread: float = 0.7) -> Counter[str]:
    """Outcome → how often. `spread`: of the tasks' sizes, as a log-normal's; trials of one task vary by 20 %."""
    rng = np.random.default_rng([ord(letter) for letter in bill.name] + [tasks, repeats])
    names = [str(place) for place in range(tasks)]
    clusters = dict.fromkeys(names, "")

    def side(times: float, bulk: float, size: Floats) -> TaskValues:
        trials = size[:, None] * rng.lognormal(-0.02, 0.2, (tasks, repeats)) * bulk
        trials *= np.where(rng.random(trials.shape) < DEAR, times, 1.0)
        return TaskValues(dict(zip(names, trials.tolist(), strict=True)), clusters)

    found = Counter[str]()
    for _ in range(runs):
        size = rng.lognormal(8, spread, tasks)
        baseline, run = side(bill.times if bill.in_baseline else 1.0, 1.0, size), side(bill.times, bill.bulk, size)
        found[decide([Held("arm", "tokens", baseline, run, MARGIN)])[0].outcome] += 1
    return found


def bills(runs: int) -> Iterator[str]:
    yield from head("the run's tokens", "bill", "tasks × repeats", "pass", "regression", "undecided", "no dear trial seen")
    for bill in BILLS_SENT:
        for tasks, repeats in SHAPES:
            found = outcomes(bill, tasks, repeats, runs)
            shares = (f"{found[outcome] / runs:.3f}" for outcome in ("pass", "regression", "undecided"))
            unseen = f"{(1 - DEAR) ** (tasks * repeats):.3f}" if bill.times > 1 else "–"
            yield row(bill.name, f"×{bill.ratio:.2f}", f"{tasks} × {repeats}", *shares, unseen)


def head(*columns: str) -> list[str]:
    return [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]


def row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--bills", type=int, default=BILLS)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    for page, name, lines in (
        (DOCS / "statistics.md", "coverage of costs", means(given.runs)),
        (DOCS / "gate.md", "bills", bills(given.bills)),
    ):
        table = "\n".join(lines)
        print(f"\n{table}", flush=True)
        if given.write:
            write_block(page, name, table)


if __name__ == "__main__":
    main()
