"""What each optimizer gains on each design, and how often a gain is seen where there is none; Markdown to stdout.

python benchmarks/optimizers.py [--only NAME …] [--write]

--write renews the tables in docs/optimize.md. All of it is simulated: the scripted model, with weaknesses that prompts teach away.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from comparing import DESIGNS, folder_of_run
from pages import head, make_tables, row
from whichloop.experiments.optimize.candidates import PROGRAM
from whichloop.experiments.optimize.config import load_optimize_config
from whichloop.experiments.optimize.prepare import prepare
from whichloop.experiments.optimize.result import DesignResult, OptimizationResult, optimization_result
from whichloop.experiments.optimize.run import run
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import ArmResult, Comparison
from whichloop.metrics.gains import Arms, Gains, gains
from whichloop.metrics.record import Record
from whichloop.metrics.summary import summarize
from whichloop.protocol.names import parse_spec
from whichloop.runs.lookup import tasks_of_split
from whichloop.runs.registry import make_suite
from whichloop.runs.store.trials import read_records

PAGE = Path(__file__).parents[1] / "docs" / "optimize.md"
SUITE = "arithmetic(size=100)"
ALPHA = 0.05


def profile(folder: Path, weakness: str, rate: float) -> str:
    """The file of a profile without faults and with one weakness."""
    path = folder / f"{weakness}-{rate:g}.toml"
    weak = f'[[weaknesses]]\nkind = "{weakness}"\nrate = {rate:g}\n'
    path.write_text(f'name = "{path.stem}"\nbluff = 0.0\n{weak}', encoding="utf-8")
    return str(path)


def optimized(loops: Sequence[str], optimizer: str, profile: str, runs: Path, **more: Any) -> OptimizationResult:
    """A whole optimization. `more`: of its configuration."""
    given = {"suite": SUITE, "repeats": 1, "mlflow": False, "budget": {"calls": 100_000}, "runs": runs}
    chosen = {"loops": tuple(loops), "optimizer": optimizer, "profiles": (profile,)}
    made = prepare(load_optimize_config(None, given | chosen | more))
    if stopped := run(made):
        raise RuntimeError(stopped)
    return optimization_result(made.folder)


RATE = 0.6
"""Share of trials in which the weakness shows until it is taught away."""
SEED = 1


class Taught(NamedTuple):
    """An optimizer, and a weakness that what it changes can teach away."""

    optimizer: str
    weakness: str
    train: int


TAUGHT = (
    Taught("LabeledFewShot(k=4)", "answer", 16),
    Taught("BootstrapFewShot(max_bootstrapped_demos=8)", "unit", 16),
    Taught("BootstrapFewShotWithRandomSearch(num_candidate_programs=2, max_bootstrapped_demos=8)", "unit", 16),
    Taught("MIPROv2(num_candidates=4, num_trials=6, max_bootstrapped_demos=6, max_labeled_demos=6)", "unit", 16),
    Taught("COPRO(breadth=8, depth=1)", "unit", 4),
    Taught("SIMBA(bsize=4, num_candidates=3, max_steps=2)", "unit", 16),
    Taught("GEPA(max_full_evals=3)", "unit", 16),
)


def cell(taught: Taught, loop: str, folder: Path) -> DesignResult:
    """One design by one optimizer, on its own."""
    weak = profile(folder, taught.weakness, RATE)
    found = optimized([loop], taught.optimizer, weak, folder / "runs", train=taught.train, dev=6, tasks=40, seed=SEED)
    return found.designs[0]


def cell_text(found: DesignResult) -> str:
    """What the table says of a cell."""
    gain, ended = found.gain, found.ended
    assert gain is not None and gain.test is not None and ended is not None  # noqa: PT018  a finished one has all
    difference = gain.test.difference
    said = f"{difference.value:+.2f} [{difference.low:.2f}, {difference.high:.2f}]"
    return f"{said}, {ended.search.calls}+{ended.proposals.calls}"


def matrix(folder: Path) -> Iterator[str]:
    """The lines of the first table."""
    yield from (
        f"Gain in accuracy on 35 tasks of `{SUITE}`, its 95 % interval, and LM calls: rollouts+proposals. The weakness",
        f"that an optimizer is named with shows in {100 * RATE:.0f} % of trials until it is taught away; seed {SEED}.",
        "",
    )
    yield from head("optimizer", *DESIGNS)
    for taught in TAUGHT:
        yield row(f"`{taught.optimizer}`, {taught.weakness}", *(cell_text(cell(taught, loop, folder)) for loop in DESIGNS))


# --- what is seen where nothing, or so much, is to be seen ---

TASKS, REPEATS = 24, 2
FAULTS = "bad-network"
"""A profile without weaknesses, and one whose trials are over soon."""


class Situation(NamedTuple):
    """What is simulated over and over, with fresh draws of faults for all trials, before and after."""

    says: str
    weakness: str
    """Empty: none, and faults instead."""
    rate: float
    """Share of trials in which the weakness shows where it can."""
    loops: tuple[str, ...]
    """The family of designs."""
    replicates: int
    margins: tuple[float, ...]


def true_gain(situation: Situation) -> float:
    """Of every design, as demonstrations teach the weakness away: it shows in answers that are numbers."""
    tasks = tasks_of_split(make_suite(parse_spec(SUITE)), "test")[:TASKS]
    return situation.rate * sum(isinstance(task.expected, int | float) for task in tasks) / len(tasks)


QUICK = ("bare", "finish", "react_extract")
SITUATIONS = (
    Situation(f"none, under faults (`{FAULTS}`)", "", 0.0, DESIGNS, 80, (0.02,)),
    Situation("a rare one", "answer", 0.06, QUICK, 40, (0.05, 0.25)),
    Situation("a common one", "answer", 0.4, QUICK, 40, (0.02,)),
)


class Counted(NamedTuple):
    """Of the replicates of a situation, at one margin."""

    situation: Situation
    margin: float
    means: tuple[float, float]
    """Of all differences of a design: the lowest and the highest of the designs'."""
    moved: int
    """Replicates in which any design was called better or worse."""
    better: int
    """Designs that were called better, over all replicates."""
    equivalent: int
    """Replicates in which any design was called equivalent."""
    unadjusted: int
    """Tests of single designs with p ≤ alpha, before Holm."""


def counted_row(counted: Counted) -> str:
    """A line of the table."""
    of, true = f" of {counted.situation.replicates}", f"{true_gain(counted.situation):.3f}"
    return row(counted.situation.says, true, f"{counted.margin:g}", f"{counted.moved}{of}", f"{counted.equivalent}{of}")


def simulated(situation: Situation, folder: Path) -> list[Counted]:
    """What a situation's replicates say, for each of its margins."""
    weak = profile(folder, situation.weakness, situation.rate) if situation.weakness else FAULTS
    found = optimized(situation.loops, "BootstrapFewShot", weak, folder / "runs", train=8, dev=1, tasks=1)
    after = [f"{design.design}@{design.program}" for design in found.designs]
    drawn = (_drawn(loops, weak, situation.replicates, seed, folder) for loops, seed in ((situation.loops, 1), (after, 2)))
    replicates = [[*before, *later] for before, later in zip(*drawn, strict=True)]
    return [_counted(situation, margin, [_gains(records, margin) for records in replicates]) for margin in situation.margins]


def _drawn(loops: Sequence[str], profile: str, replicates: int, seed: int, folder: Path) -> list[list[Record]]:
    """The test tasks' records, by replicate: each repeat draws its faults afresh, and so does each seed."""
    settings = {"split": "test", "tasks": TASKS, "repeats": replicates * REPEATS, "seed": seed}
    run_folder = folder_of_run(loops, SUITE, (profile,), folder / "runs", **settings)
    records = sorted(read_records(run_folder), key=lambda record: record.repeat)
    return [[*found] for _, found in groupby(records, key=lambda record: record.repeat // REPEATS)]


def _gains(records: Sequence[Record], margin: float) -> Gains:
    """What `whichloop optimize` would say of these records of the test."""
    by_arm = {name: [*of_arm] for name, of_arm in groupby(sorted(records, key=attrgetter("arm")), key=attrgetter("arm"))}
    arms = tuple(ArmResult(ArmInfo(name, name, {}, "scripted", "", ""), summarize(of_arm)) for name, of_arm in by_arm.items())
    designs = [Arms(name, name, name.replace("/", f"@{PROGRAM}/", 1)) for name in by_arm if "@" not in name]
    return gains(Comparison(arms, (), (), False, ALPHA, margin), records, designs)


def _counted(situation: Situation, margin: float, found: Sequence[Gains]) -> Counted:
    tests = [[gain.test for gain in one.gains if gain.test is not None] for one in found]
    words = [[test.verdict.word for test in one] for one in tests]
    means = [math.fsum(test.difference.value for test in of_one) / len(found) for of_one in zip(*tests, strict=True)]
    return Counted(
        situation,
        margin,
        (min(means), max(means)),
        sum("better" in one or "worse" in one for one in words),
        sum(one.count("better") for one in words),
        sum("equivalent" in one for one in words),
        sum(test.p <= ALPHA for one in tests for test in one),
    )


def null(folder: Path) -> Iterator[str]:
    """The lines of the second table."""
    yield from (
        f"BootstrapFewShot, once; then before and after on {TASKS} test tasks × {REPEATS}, again and again, with fresh draws.",
        f"Level {ALPHA:g}, Holm over the designs.",
        "",
    )
    yield from head("weakness", "true gain", "margin", "any design called better or worse", "any design called equivalent")
    for situation in SITUATIONS:
        yield from map(counted_row, simulated(situation, folder))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made_in:
        make_tables(__doc__, PAGE, {"optimizers": lambda _: matrix(Path(made_in)), "null": lambda _: null(Path(made_in))})
