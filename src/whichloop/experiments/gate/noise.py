"""A gate held against itself: the same loop twice, many times, which shows its false alarms and the noise of each metric."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from whichloop.experiments.compare.doc import basis
from whichloop.experiments.compare.run import prepare, run_apart
from whichloop.metrics.gate import Outcome
from whichloop.metrics.statistics import ALPHA, wilson
from whichloop.metrics.summary import SHARES
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.text.doc import Cell, Doc, Table, lines_of
from whichloop.text.numbers import hundredths

from .baseline import Baseline, bless, read_run
from .doc import margin_text
from .judge import judge

NORMAL_95 = 1.96


def self_check(baseline: Baseline, config: CompareConfig, pairs: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Run the configuration of a baseline twice for each of so many pairs, and hold the second run against the first.

    Each run of the scripted model has a seed of its own, beside the baseline's; a real model answers anew, under one seed. Return
    what `--json` prints; `floor`: what 95 % of the pairs differ by less than, points of a share, else a ratio above 1. Raises
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
            say(f"pair {pair + 1} of {pairs}")
            sides = []
            for number in (2 * pair + 1, 2 * pair + 2):
                own = {"runs": Path(scratch)} | ({"seed": baseline.seed + number} if scripted else {})
                experiment = prepare(config.model_copy(update=own), is_compared=False)
                run_apart(experiment, Unwatched())
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
    noise = [
        {"arm": arm, "metric": metric, "alarms": alarms[arm, metric], "floor": _floor(metric, each), "margin": margins[arm, metric]}
        for (arm, metric), each in effects.items()
    ]
    return {"pairs": pairs, "outcomes": dict(outcomes), "noise": noise, "basis": told}


def _floor(metric: str, effects: list[float]) -> float:
    """Return the bound of 95 % of differences whose mean is 0, since both sides are the same loop."""
    spread = NORMAL_95 * math.sqrt(sum(effect**2 for effect in effects) / len(effects))
    return spread if metric in SHARES else math.exp(spread)


def self_doc(check: Mapping[str, Any]) -> Doc:
    """Return a row for each arm and metric, and how often each outcome came. `check`: what `self_check` gave."""
    pairs, rows = check["pairs"], []
    for each in check["noise"]:
        floor, metric, alarms = each["floor"], each["metric"], each["alarms"]
        seen = Cell(f"{alarms} of {pairs}", "bad" if alarms else "", alarms)
        shown = f"±{hundredths(floor)}" if metric in SHARES else f"×{floor:.2f}"
        rows.append((each["arm"], metric, seen, Cell(shown, value=floor), margin_text(metric, each["margin"])))
    shares = []
    for name in ("regression", "undecided", "pass", "invalid"):
        count = check["outcomes"].get(name, 0)
        low, high = wilson(count, pairs)
        told = f"{count} of {pairs}, {hundredths(count / pairs)} [{hundredths(low)}, {hundredths(high)}]"
        shares.append((name.capitalize(), told))
    lines = lines_of(
        *shares, ("Alpha", f"{ALPHA:g}: at most so many regressions, which are false alarms here"), ("Basis", check["basis"])
    )
    columns = ("arm", "metric", "false alarms", "noise (95 %)", "margin")
    return Doc(f"the gate against itself: {pairs} pairs of runs", (Table("", columns, tuple(rows)), lines), dict(check))
