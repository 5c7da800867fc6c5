"""A gate held against itself: the same loop twice, many times, which shows its false alarms and the noise of each metric."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from whichloop.experiments.compare.doc import basis
from whichloop.experiments.compare.run import prepare, run_apart
from whichloop.metrics.gate import Outcome
from whichloop.metrics.statistics import ALPHA, wilson
from whichloop.metrics.summary import SHARES
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Progress
from whichloop.text.doc import Cell, Doc, Table, lines_of
from whichloop.text.numbers import hundredths

from .baseline import Baseline, bless, read_run
from .doc import margin_text
from .judge import judge
from .rerun import Run

NORMAL_95 = 1.96


@dataclass(frozen=True, slots=True)
class MetricNoise:
    """By how much one metric of an unchanged arm differs between two runs."""

    arm: str
    metric: str
    alarms: int
    """Pairs of runs in which it was called a regression."""
    floor: float
    """What 95 % of the pairs differ by less than: points of a share, else a ratio above 1."""
    margin: float


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """What the gate said of an arm that did not change."""

    pairs: int
    outcomes: Mapping[Outcome, int]
    noise: tuple[MetricNoise, ...]
    basis: str


def self_check(baseline: Baseline, config: CompareConfig, pairs: int, progress: Progress, run: Run = run_apart) -> SelfCheck:
    """Run the configuration of a baseline twice for each of so many pairs, and hold the second run against the first.

    Each run of the scripted model has a seed of its own, beside the baseline's; a real model answers anew, under one seed. Raises
    ValueError for a run that cannot be blessed or judged.
    """
    if config.cassette is not None:
        raise ValueError("--self needs replies that are drawn anew, and a recording has the same ones each time")
    effects: dict[tuple[str, str], list[float]] = {}
    outcomes, alarms = Counter[Outcome](), Counter[tuple[str, str]]()
    margins, told = {}, ""
    with tempfile.TemporaryDirectory() as scratch:
        scripted = not config.opened_models
        for pair in range(pairs):
            progress.noted(f"pair {pair + 1} of {pairs}")
            sides = []
            for number in (2 * pair + 1, 2 * pair + 2):
                own = {"runs": Path(scratch)} | ({"seed": baseline.seed + number} if scripted else {})
                experiment = prepare(config.model_copy(update=own), is_compared=False)
                run(experiment, progress)
                sides.append(read_run(experiment.folder))
            before = bless(sides[0], baseline.gate.metrics, baseline.gate.accept)
            result = judge(sides[1], before)
            outcomes[result.outcome] += 1
            told = basis(sides[1])
            for line in result.lines:
                key = (line.arm, line.metric)
                effects.setdefault(key, []).append(math.log(line.effect.value) if line.is_ratio else line.effect.value)
                alarms[key] += line.result == "regression"
                margins[key] = line.margin
    noise = tuple(MetricNoise(*key, alarms[key], _floor(key[1], found), margins[key]) for key, found in effects.items())
    return SelfCheck(pairs, dict(outcomes), noise, told)


def _floor(metric: str, effects: list[float]) -> float:
    """Return the bound of 95 % of differences whose mean is 0, since both sides are the same loop."""
    spread = NORMAL_95 * math.sqrt(sum(effect**2 for effect in effects) / len(effects))
    return spread if metric in SHARES else math.exp(spread)


def self_doc(check: SelfCheck) -> Doc:
    """Return a row for each arm and metric, and how often each outcome came."""
    names: tuple[Outcome, ...] = ("regression", "undecided", "pass", "invalid")
    lines = lines_of(
        *((name.capitalize(), _share(check.outcomes.get(name, 0), check.pairs)) for name in names),
        ("Alpha", f"{ALPHA:g}: at most so many regressions, which are false alarms here"),
        ("Basis", check.basis),
    )
    columns = ("arm", "metric", "false alarms", "noise (95 %)", "margin")
    table = Table("", columns, tuple(_rows(check)))
    return Doc(f"the gate against itself: {check.pairs} pairs of runs", (table, lines), asdict(check))


def _rows(check: SelfCheck) -> Iterator[tuple[Cell | str, ...]]:
    for each in check.noise:
        is_share = each.metric in SHARES
        floor = f"±{hundredths(each.floor)}" if is_share else f"×{each.floor:.2f}"
        alarms = Cell(f"{each.alarms} of {check.pairs}", "bad" if each.alarms else "", each.alarms)
        yield each.arm, each.metric, alarms, Cell(floor, value=each.floor), margin_text(each.metric, each.margin)


def _share(count: int, of: int) -> str:
    low, high = wilson(count, of)
    return f"{count} of {of}, {hundredths(count / of)} [{hundredths(low)}, {hundredths(high)}]"
