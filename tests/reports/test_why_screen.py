"""`whichloop why RUN` is one screen, however many arms a run has; `-v` has them all."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import run as carry_out
from whichloop.experiments.why.why import losses_explained
from whichloop.reports import why_lines
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.text.doc import Table
from whichloop.text.output import Prose, prose_lines

FIVE = ("bare", "finish", "phased", "guarded(loop=bare)", "finish(parse_retries=0)")
TWELVE = tuple(f"bare(max_consecutive_errors={n})" for n in range(1, 13))
PROFILES = ("flaky-tools", "flaky-format", "forgetful")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[tuple[str, ...], int], Results]:
    """Runs loops over five tasks under some profiles."""

    def make(loops: tuple[str, ...], profiles: int) -> Results:
        runs: Path = tmp_path_factory.mktemp("runs")
        config = CompareConfig(loops=loops, profiles=PROFILES[:profiles], tasks=5, runs=runs, mlflow=False)
        experiment = prepare(config)
        carry_out(experiment, Unwatched())
        return results(experiment.folder)

    return make


def printed(shown: list[why_lines.Shown], width: int) -> list[str]:
    """The lines as a terminal of this width shows them, which breaks what is longer."""
    lines: list[str] = []
    for each in shown:
        assert not isinstance(each, Table)
        if isinstance(each, Prose):
            lines += prose_lines(each, width)
        else:
            lines += [
                line[at * width :][:width] for line in each.text.split("\n") for at in range(max(1, math.ceil(len(line) / width)))
            ]
    return lines


@pytest.mark.parametrize(("loops", "profiles"), [(FIVE[:2], 2), (FIVE, 2), pytest.param(TWELVE, 3, marks=pytest.mark.slow)])
def test_the_sums_are_one_screen_and_tell_every_arm_in_full(made, loops, profiles):
    run = made(loops, profiles)
    reasons = losses_explained(run, pairs=(), arms=None, task=None, most=why_lines.MAX_EXAMPLES)
    ways = why_lines.WaysToSeeMore(Path("runs/20260301-093000-arithmetic-0a1b"))
    shown = printed(list(why_lines.sums(run, reasons, ways)), 80)
    assert len(shown) <= why_lines.SCREEN == 24
    lost = {arm.arm: arm.lost for arm in reasons.arms if arm.lost}
    told = [line.split(" lost ")[0] for line in shown if line.split(" lost ")[0] in lost]
    assert len(told) >= min(len(lost), why_lines.MIN_ARMS)
    rest = sum(many for arm, many in lost.items() if arm not in told)
    hidden = len(lost) - len(told)
    assert any(line.startswith(f"{hidden} more arm") and f" lost {rest} of " in line for line in shown) == bool(hidden)
    whole = printed(list(why_lines.sums(run, reasons, ways, in_full=True)), 80)
    assert {line.split(" lost ")[0] for line in whole} >= lost.keys()
