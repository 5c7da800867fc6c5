"""What `make compare` recommends with other seeds, which draw other tasks and other faults: one row each.

python benchmarks/seeds.py [--share S] [--write]

--write renews the table in docs/results.md.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from pages import head, make_tables, row
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
SEEDS = 5
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


def said_of(found: Results) -> tuple[str, ...]:
    """Return what one run says of the two loops."""
    decision = found.verdict.decision
    assert decision is not None
    verdict = f"{decision.outcome} {', '.join(decision.loops)}"
    pair = next(
        turned for pair in found.comparison.pooled for turned in (pair, pair.turned) if (turned.a, turned.b) == (FIRST, SECOND)
    )
    costs = {each.loop: each.mean("tokens") for each in found.verdict.rows}
    arms = {loop: [arm.summary for arm in found.comparison.arms if arm.info.loop == loop] for loop in (FIRST, SECOND)}
    wrong = [f"{sum(arm.false_success or 0 for arm in arms[loop])} of {sum(arm.scored for arm in arms[loop]):,}" for loop in arms]
    return verdict, interval(pair.difference, 3), f"{costs[FIRST]:,.0f}, {costs[SECOND]:,.0f}", ", ".join(wrong)


def measured(seeds: Sequence[int]) -> Iterator[str]:
    """Yield the table, one run for each seed."""
    yield from head(*HEAD)
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            config = CompareConfig.model_validate({**settings(), "seed": seed, "runs": Path(folder), "mlflow": False})
            made = prepare(config)
            run(made, Unwatched())
            yield row(str(seed), *said_of(results(made.folder)))


if __name__ == "__main__":
    make_tables(__doc__, PAGE, {"seeds": lambda share: measured(range(round(share * SEEDS)))})
