"""How often the test that `whichloop init` writes passes, fails and stays undecided; Markdown to stdout.

python benchmarks/gate_of_init.py [--seeds N] [--write]

The settings are read from the test itself: 24 tasks, its repeats, metrics and profiles. Each baseline has a seed of its own, and is
held against a run of the same loop, of one with other words in its prompt, of one that takes twice the tokens, and of the same loop
under another seed. --write renews the table in docs/gate.md.
"""

from __future__ import annotations

import argparse
import runpy
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gate_rates import head, row, share

from pages import write_block
from whichloop.cli.init import write_project
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import run
from whichloop.experiments.gate import bless, judge
from whichloop.experiments.gate.data.outcome import PASSES
from whichloop.loops.bare import INSTRUCTIONS
from whichloop.protocol.names import Spec
from whichloop.runs.config import config_from
from whichloop.runs.engine.runner import Unwatched

PAGE = Path(__file__).parents[1] / "docs" / "gate.md"
SEEDS = 50
OTHER = 10_000
"""What is added to a baseline's seed for another one."""
WORDS = "Go on step by step, and read each result before you decide what to do next. "
"""Other words in a prompt: 20 tokens a request."""
DOUBLING = 22
"""Times that the words have to stand in it for a bill about twice as high."""


@dataclass(frozen=True, slots=True)
class Change:
    """What became of the loop, or of the seed, between baseline and run."""

    name: str
    words: int = 0
    seed: int = 0


OTHER_ANSWERS = "other answers"
OUTCOMES = ("pass", "regression", "worse here", "undecided", OTHER_ANSWERS)
CHANGES = (
    Change("nothing"),
    Change("other words in the prompt", words=1),
    Change("twice the tokens", words=DOUBLING),
    Change("only the seed", seed=OTHER),
)


def settings(folder: Path) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the settings and the profiles of the test that is written into a folder."""
    test = runpy.run_path(str(folder / "tests" / "test_loops.py"))
    by_name = {mark.name: mark for mark in [test["pytestmark"], *test["test_the_loop_is_no_worse_than_its_baseline"].pytestmark]}
    return dict(by_name["loop_gate"].kwargs), tuple(by_name["parametrize"].args[1])


def made(asked: Mapping[str, Any], profile: str, seed: int, words: int = 0) -> Results:
    """Run the loop, with so many more words in its prompt."""
    loop = str(Spec("bare", {"instructions": INSTRUCTIONS + WORDS * words} if words else {}))
    own = {"loops": (loop,), "profiles": (profile,), "seed": seed, "mlflow": False, "traces": "none"}
    experiment = prepare(config_from({**asked, **own}, "the test of init"))
    run(experiment, Unwatched())
    return results(experiment.folder)


def rows(seeds: int) -> Iterator[str]:
    """Yield the table's lines."""
    yield from head("profile", "what changed", "runs", "tokens", *OUTCOMES)
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        write_project(Path(), "bare")
        asked, profiles = settings(Path())
        metrics, on_other_answers = asked.pop("metrics"), asked.pop("on_other_answers")
        for profile in profiles:
            baselines = {seed: bless(made(asked, profile, seed)) for seed in range(seeds)}
            for change in CHANGES:
                found, bills = Counter[str](), []
                for seed, baseline in baselines.items():
                    judged = judge(made(asked, profile, seed + change.seed, change.words), baseline, metrics=metrics)
                    fails_for_answers = judged.with_answers_held(on_other_answers).fails_for_answers
                    passed = OTHER_ANSWERS if fails_for_answers else "pass"
                    found[passed if judged.outcome in PASSES else judged.outcome] += 1
                    bills += [line.effect.value for line in judged.lines if line.metric == "tokens"]
                bill = f"×{sum(bills) / seeds:.2f}"
                yield row(profile, change.name, seeds, bill, *(share(found[outcome], seeds) for outcome in OUTCOMES))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    table = "\n".join(rows(given.seeds))
    print(table, flush=True)
    if given.write:
        write_block(PAGE, "a first project", table)


if __name__ == "__main__":
    main()
