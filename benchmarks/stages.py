"""Where the CPU time of a trial goes, by stage, and how many function calls it takes; Markdown.

python benchmarks/stages.py [--trials N] [--write]

The trials of docs/speed.md's task run one after the other in this process, without latency. Each stage is a function that does not
wait, timed from its call to its return; what is left is the loop itself, its tools and the event loop.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any

from sums import load

from pages import write_block
from whichloop.models.profiles import load_profile
from whichloop.models.scripted import Scripted
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_loop
from whichloop.runs.schedule import Arm, Trial
from whichloop.runs.trial import trial as trial_module
from whichloop.runs.trial.loop_run import LoopRun
from whichloop.runs.trial.recorder import Recorder
from whichloop.runs.trial.setting import TrialContext
from whichloop.runs.trial.trial import run_trial
from whichloop.runs.trial.trial_parts import TrialParts

PAGE = Path(__file__).parents[1] / "docs" / "speed.md"
LOOPS = ("bare", "finish", "phased", "react_extract", "stateless")
STAGES: dict[str, tuple[tuple[Any, str], ...]] = {
    "set-up": ((TrialParts, "__init__"), (LoopRun, "__init__")),
    "model's replies": ((Scripted, "_reply"),),
    "recording": ((Recorder, "exchange"), (Recorder, "tool_call")),
    "score, record, trace": ((LoopRun, "end"), (trial_module, "finished_trial")),
}
"""Stage → its functions, none of which calls another one."""
REST = "loop, tools, event loop"
HEAD = ("loop", "function calls", *STAGES, REST)
BATCH = 20


def trials_of(loop: str) -> tuple[list[Trial], TrialContext]:
    """Return a batch of trials of a design in clean air."""
    suite, spec = load(BATCH), parse_spec(loop)
    arm = Arm(loop, spec, make_loop(spec, suite.max_tool_steps), "scripted", load_profile("clean"))
    return [Trial(arm, task, 0, 0) for task in suite.tasks], TrialContext(suite)


async def run_all(trials: list[Trial], context: TrialContext) -> None:
    for trial in trials:
        await run_trial(trial, context)


def shares(loop: str, batches: int) -> list[float]:
    """Return the share of each stage in the CPU time of a batch, and of the rest: medians over batches."""
    trials, context = trials_of(loop)
    asyncio.run(run_all(trials, context))  # what is made once is made
    spent = dict.fromkeys(STAGES, 0.0)
    found: list[list[float]] = []
    undo = [_timed(owner, name, stage, spent) for stage, functions in STAGES.items() for owner, name in functions]
    try:
        for _ in range(batches):
            spent.update(dict.fromkeys(STAGES, 0.0))
            gc.collect()
            start = time.process_time()
            asyncio.run(run_all(trials, context))
            whole = time.process_time() - start
            found.append([seconds / whole for seconds in spent.values()])
    finally:
        for restore in undo:
            restore()
    middle = [median(column) for column in zip(*found, strict=True)]
    return [*middle, 1 - sum(middle)]


def _timed(owner: Any, name: str, stage: str, spent: dict[str, float]) -> Callable[[], None]:
    """Let a function add its CPU time to its stage's; return what undoes it."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def timing(*args: Any, **named: Any) -> Any:
        start = time.process_time()
        try:
            return original(*args, **named)
        finally:
            spent[stage] += time.process_time() - start

    setattr(owner, name, timing)
    return lambda: setattr(owner, name, original)


def calls_of(loop: str) -> int:
    """Return how many functions one trial calls that are written in Python."""
    trials, context = trials_of(loop)
    called = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal called
        called += event == "call"

    async def counted() -> None:
        await run_trial(trials[0], context)
        sys.setprofile(count)
        try:
            await run_trial(trials[0], context)
        finally:
            sys.setprofile(None)

    asyncio.run(counted())
    return called


def table(trials: int) -> str:
    lines = [f"| {' | '.join(HEAD)} |", f"| {' | '.join(['---'] * len(HEAD))} |"]
    for loop in LOOPS:
        cells = [f"`{loop}`", f"{calls_of(loop):,}", *(f"{share:.0%}" for share in shares(loop, max(1, trials // BATCH)))]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"- medians over batches of {BATCH} trials, {trials} in all of each loop"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1_000)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    made = table(given.trials)
    print(made)
    if given.write:
        write_block(PAGE, "stages", made)


if __name__ == "__main__":
    main()
