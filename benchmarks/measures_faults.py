"""What a run's loops recover from, one fault at a time, and the smallest sets of faults that still lose its lost trials.

`benchmarks/measures.py` shows both: outcomes as `whichloop report --card` has them, sets as `whichloop show --minimal` does.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from whichloop.checks.program import RECOVERED, Outcome, check_program
from whichloop.checks.program.naming import TOLD_STEPS, agent_name
from whichloop.experiments.compare.results import Results
from whichloop.experiments.why.minimal import MinimalFaults, SolvedAgainError, minimal_among
from whichloop.experiments.why.replay import Replays, replayable_run
from whichloop.metrics.record import Record
from whichloop.metrics.statistics import accuracy_interval
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_loop
from whichloop.text.doc import Table
from whichloop.text.numbers import interval

MAX_SEARCHED, MAX_RUNS = 12, 60
"""Lost trials of an arm that are searched at most, the first ones, and runs of each."""


class Searched(NamedTuple):
    """What was found in a loop's lost trials."""

    lost: int
    """Lost trials of the run."""
    found: Sequence[tuple[str, MinimalFaults]]
    """Task and smallest set of each trial that was searched and lost again when its faults struck again."""
    searched: int


def disclosed(found: Results) -> dict[str, Counter[Outcome]]:
    """Loop → outcome → number of faults, one at a time."""
    outcomes = {}
    for name in dict.fromkeys(arm.info.arm.rpartition("/")[0] for arm in found.comparison.arms):
        spec = parse_spec(name.partition("@")[0])  # a framework's version stands behind it
        check = check_program(make_loop(spec, TOLD_STEPS), agent_name(spec))
        outcomes[name] = Counter(finding.outcome for finding in check.findings)
    return outcomes


def searched(found: Results) -> dict[str, Searched]:
    """Loop → the smallest sets of its lost trials, all in one event loop, so that a framework's process starts once."""
    by_loop: dict[str, list[Record]] = {arm.info.arm.rpartition("/")[0]: [] for arm in found.comparison.arms}
    for record in found.records:
        if record.status == "scored" and record.accuracy < 1:
            by_loop[record.arm.rpartition("/")[0]].append(record)
    run = replayable_run(found.folder)
    made = {}
    with asyncio.Runner() as runner:
        for loop, lost in by_loop.items():
            sets, chosen = [], list[Record]()
            for record in sorted(lost, key=lambda record: (record.arm, record.task, record.repeat)):
                if sum(each.arm == record.arm for each in chosen) >= MAX_SEARCHED:
                    continue
                chosen.append(record)
                try:
                    sets.append((record.task, minimal_among(Replays(run.trial(record), runner), record, MAX_RUNS)))
                except SolvedAgainError:
                    continue
            made[loop] = Searched(len(lost), sets, len(chosen))
    return made


def faults_table(outcomes: Mapping[str, Counter[Outcome]], searches: Mapping[str, Searched]) -> Table:
    """A fault that cannot happen to a loop counts for nothing."""
    columns = (
        *("loop", "recovers from, one at a time", "ends as if all were well", "ends, and says so", "has no limit"),
        *("lost trials", "searched", "lost without any fault", "with one alone", "share with one alone"),
    )
    rows = []
    for loop, found in outcomes.items():
        one, recovered = searches[loop], sum(found[outcome] for outcome in RECOVERED)
        sizes = Counter(len(smallest.faults) for _, smallest in one.found)
        by_task: dict[str, list[float]] = {}
        for task, smallest in one.found:
            by_task.setdefault(task, []).append(float(len(smallest.faults) == 1))
        alone = accuracy_interval(list(by_task.values())) if by_task else None
        counts = (*(found[outcome] for outcome in ("silent", "error", "unlimited")), one.lost, one.searched)
        cells = (f"{recovered} of {found.total() - found['not applicable']}", *counts, sizes[0], sizes[1])
        rows.append((f"`{loop}`", *map(str, cells), interval(alone, 3)))
    return Table("", columns, tuple(rows))
