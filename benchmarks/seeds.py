"""What `make compare` recommends with other seeds, which draw other tasks and other faults: one row each.

python benchmarks/seeds.py [--seeds N] [--write]

A Markdown table to stdout; --write renews it in docs/results.md.
"""

from __future__ import annotations

import argparse
import re
import shlex
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from pages import write_block
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import run
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.text.numbers import interval

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results.md"
FIRST, SECOND = "finish", "bare"
"""The two loops that the answer is about."""
HEAD = (
    "seed",
    "the answer",
    f"{FIRST} minus {SECOND}, both profiles together",
    f"tokens a trial, {FIRST} and {SECOND}",
    f"wrong answers given as done, {FIRST} and {SECOND}",
)


def settings() -> dict[str, str | tuple[str, ...]]:
    """Return the loops, profiles and suite of `make compare`."""
    line = next(
        line for line in (ROOT / "Makefile").read_text(encoding="utf-8").splitlines() if "whichloop compare --loop bare" in line
    )
    words = shlex.split(line)
    given: dict[str, tuple[str, ...]] = {}
    for flag, value in pairwise(words):
        if flag.startswith("--"):
            given[flag] = (*given.get(flag, ()), value)
    return {"loops": given["--loop"], "profiles": given["--profile"], "suite": given["--suite"][0]}


def row(found: Results) -> tuple[str, ...]:
    """Return what one run says of the two loops."""
    said = next(each for each in found.answer.answer_sentences if not each.is_basis)
    verdict = re.findall(r"^(?:[^:(]|\([^)]*\))*", said.brief)[0]  # what is in brackets may have a colon
    pair = next(
        turned for pair in found.comparison.pooled for turned in (pair, pair.turned) if (turned.a, turned.b) == (FIRST, SECOND)
    )
    costs = {each.loop: each.cost.value for each in found.answer.rows if each.cost is not None}
    arms = {loop: [arm.summary for arm in found.comparison.arms if arm.info.loop == loop] for loop in (FIRST, SECOND)}
    wrong = [f"{sum(arm.false_success or 0 for arm in arms[loop])} of {sum(arm.scored for arm in arms[loop]):,}" for loop in arms]
    return verdict, interval(pair.difference, 3), f"{costs[FIRST]:,.0f}, {costs[SECOND]:,.0f}", ", ".join(wrong)


def measured(seeds: Sequence[int], folder: Path) -> str:
    """Return the table, one run for each seed."""
    lines = [f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}"]
    for seed in seeds:
        config = CompareConfig.model_validate({**settings(), "seed": seed, "runs": folder / str(seed), "mlflow": False})
        made = prepare(config)
        run(made, Unwatched())
        lines.append(f"| {' | '.join((str(seed), *row(results(made.folder))))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table = measured(range(options.seeds), Path(folder))
    print(table)
    if options.write:
        write_block(PAGE, "seeds", table)
