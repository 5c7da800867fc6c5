"""Which interval of a mean of skewed amounts holds it over few clusters: simulated, ours judged by the real function.

python benchmarks/cluster_amounts.py [--runs N] [--write]

A table, Markdown to stdout; --write renews it in docs/statistics.md. Amounts are log-normal, half of the variance of their
logarithms is the clusters', and a cluster has 1 to 12 tasks. Each interval is of the mean over
tasks, its units those of `unit_values`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from amounts_check import DOCS, Floats, head, row
from scipy import stats

from pages import write_block
from whichloop.metrics.amounts import mean_interval
from whichloop.metrics.statistics import unit_values

RUNS, DRAWS = 2_000, 399
CLUSTERS, SPREADS, MOST_TASKS = (5, 8, 12, 20), (0.5, 1.0), 12
LEVEL = 0.975


@dataclass(frozen=True, slots=True)
class Sample:
    """What one run saw."""

    amounts: Floats
    clusters: list[str]
    units: Floats
    """The values of the clusters, whose mean is that of the tasks."""
    means: Floats
    """The mean of each cluster."""

    @property
    def half(self) -> float:
        """Half of the width of Student's interval."""
        return float(stats.t.ppf(LEVEL, len(self.units) - 1) * stats.sem(self.units))


def draw(rng: np.random.Generator, clusters: int, spread: float) -> Sample:
    """Return a run's amounts."""
    sizes, half = rng.integers(1, MOST_TASKS + 1, clusters), spread / np.sqrt(2)
    of = np.repeat(np.arange(clusters), sizes)
    amounts = np.exp(rng.normal(0, half, clusters)[of] + rng.normal(0, half, len(of)))
    names = [f"k{number}" for number in of]
    return Sample(amounts, names, unit_values(amounts, names), np.bincount(of, weights=amounts) / sizes)


Ends = tuple[float, float]


def ours(sample: Sample, _: np.random.Generator) -> Ends:
    found = mean_interval(sample.amounts, sample.clusters)
    return found.low, found.high


def student(sample: Sample, _: np.random.Generator) -> Ends:
    mean = float(sample.units.mean())
    return mean - sample.half, mean + sample.half


def hall(sample: Sample, _: np.random.Generator) -> Ends:
    """Hall's transformation (1992) alone, of the skewness that the sample shows."""
    n, mean = len(sample.units), float(sample.units.mean())
    skew = float(stats.skew(sample.units)) / np.sqrt(n)
    quantile = float(stats.t.ppf(LEVEL, n - 1))

    def turned(value: float) -> float:
        return float(3 / skew * (np.cbrt(1 + skew * (value - skew / 6)) - 1))

    error = sample.half / quantile
    return mean - turned(quantile) * error, mean - turned(-quantile) * error


def johnson(sample: Sample, _: np.random.Generator) -> Ends:
    """Johnson's t (1978, J. Am. Stat. Assoc. 73:536): the values of the mean that his transformed t does not reject."""
    n, mean, variance = len(sample.units), float(sample.units.mean()), float(sample.units.var(ddof=1))
    third = float(stats.kstat(sample.units, 3))
    shift, bend = third / (6 * variance * n), third / (3 * variance**2)

    def apart(reach: float) -> float:
        return float((np.sqrt(max(1 - 4 * bend * (shift - reach), 0.0)) - 1) / (2 * bend))

    return mean - apart(sample.half), mean - apart(-sample.half)


def log_t(sample: Sample, _: np.random.Generator) -> Ends:
    """Cox's interval of a log-normal mean, of the clusters' means, with Student's quantile (Zhou and Gao 1997)."""
    logs, n = np.log(sample.means), len(sample.means)
    variance = float(logs.var(ddof=1))
    half = float(stats.t.ppf(LEVEL, n - 1) * np.sqrt(variance / n + variance**2 / (2 * (n - 1))))
    middle = float(logs.mean()) + variance / 2
    return float(np.exp(middle - half)), float(np.exp(middle + half))


def bootstrap_t(sample: Sample, rng: np.random.Generator) -> Ends:
    n, mean = len(sample.units), float(sample.units.mean())
    drawn = sample.units[rng.integers(0, n, (DRAWS, n))]
    errors = np.maximum(stats.sem(drawn, axis=1), 1e-12 * mean)
    low, high = np.quantile((drawn.mean(axis=1) - mean) / errors, [1 - LEVEL, LEVEL])
    error = float(stats.sem(sample.units))
    return mean - float(high) * error, mean - float(low) * error


METHODS: Mapping[str, Callable[[Sample, np.random.Generator], Ends]] = {
    "ours": ours,
    "Student's t": student,
    "Hall": hall,
    "Johnson": johnson,
    "log-t": log_t,
    "bootstrap-t": bootstrap_t,
}


def cells(clusters: int, spread: float, runs: int) -> Iterator[str]:
    """Yield of each method how often it holds the mean, and how wide it is beside Student's: in the median, and in one of ten."""
    rng, true = np.random.default_rng([clusters, round(10 * spread)]), float(np.exp(spread**2 / 2))
    samples = [draw(rng, clusters, spread) for _ in range(runs)]
    for method in METHODS.values():
        ends = np.array([method(sample, rng) for sample in samples])
        if np.isinf(ends).all():
            yield "none"
            continue
        beside = np.array([student(sample, rng) for sample in samples])
        widths = np.diff(np.maximum(ends, 0.0), axis=1) / np.diff(np.maximum(beside, 0.0), axis=1)
        held = float(((ends[:, 0] <= true) & (true <= ends[:, 1])).mean())
        yield f"{held:.3f}, ×{np.median(widths):.2f}, ×{np.quantile(widths, 0.9):.2f}"


def lines(runs: int) -> Iterator[str]:
    yield from head("log-normal", "clusters", *METHODS)
    for spread in SPREADS:
        for clusters in CLUSTERS:
            yield row(f"{spread:g}", clusters, *cells(clusters, spread, runs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    table = "\n".join(lines(given.runs))
    print(table, flush=True)
    if given.write:
        write_block(DOCS / "statistics.md", "few clusters", table)


if __name__ == "__main__":
    main()
