"""Why a run can be neither blessed nor judged: trials are missing, or say nothing of the loop."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from whichloop.experiments.compare.results import Results
from whichloop.metrics.arm_warnings import MAX_ERRORED, made_failures, most_frequent, short_warning
from whichloop.metrics.comparison import dead_arm_warning
from whichloop.metrics.record import Record
from whichloop.metrics.trajectory.trajectory import shortened
from whichloop.protocol import StopReason
from whichloop.protocol.values import counted
from whichloop.runs.silent_end import is_blocked
from whichloop.text.numbers import listed_names
from whichloop.text.output import plain_line

MAX_ARM = 60
"""Characters of an arm's name in a sentence or a row."""


def short_arm(name: str) -> str:
    """Return an arm's name, the middle of a long one left out: commands, `--json` and one note have it whole."""
    return shortened(name, MAX_ARM)


_COMMAND_INSIDE = re.compile(r"##(?=\[|vso\[)")
"""Prefixes of `##[…]` and `##vso[…]`, which GitHub and Azure treat as commands anywhere in a line."""


def literal(content: str) -> str:
    """Return one line without control characters or anything that a CI server treats as a command."""
    return _no_command(plain_line(content))


def _no_command(line: str) -> str:
    line = _COMMAND_INSIDE.sub("## ", line)
    return f"\\{line}" if line.lstrip().startswith("::") else line


HANG_TRIALS = 3
"""Trials that tell that a loop hangs: the first of an arm, if all of them end at their time limit, or so many of all, wherever they
stand, if they were interrupted, since each of these hangs for sure."""

MIN_LIMIT_S = 10.0
"""Seconds that a trial may stall at least, however quick the blessed ones were."""
TIMES_SLOWEST = 20
"""Multiple of the slowest blessed trial's time that a trial may stall: another machine may be as much slower."""


def slowest_s(records: Iterable[Record]) -> float:
    """Return the wall time of the slowest scored trial, in seconds with three decimals; 0 where none is scored."""
    return round(max((record.wall_s for record in records if record.status == "scored"), default=0.0), 3)


def stall_limit_s(slowest: float) -> float:
    """Return after how many seconds without a request or a call a trial counts as hanging, by the slowest blessed one's seconds."""
    return max(MIN_LIMIT_S, float(math.ceil(TIMES_SLOWEST * slowest)))


def hung(record: Record) -> bool:
    """Whether a trial ended at its time limit, and not because infrastructure failed."""
    return record.status == "scored" and record.stop == StopReason.TIMEOUT


def was_interrupted(record: Record) -> bool:
    """Whether a trial was ended since it let nothing else run, and not since time had passed, which a slow machine may need."""
    return hung(record) and is_blocked(record.reason)


def all_hung(records: Sequence[Record], trials: int) -> bool:
    """Whether an arm's records, of so many scheduled trials, are enough to tell that it hangs, and all of them say so."""
    return len(records) >= min(HANG_TRIALS, trials) > 0 and all(map(hung, records))


def interrupted(records: Iterable[Record]) -> int:
    """Return how many trials were interrupted since they hung."""
    return sum(map(was_interrupted, records))


def hang_words(arm: str, records: Sequence[Record]) -> str:
    """Return `finish/clean hangs in each of its 3 trials (no end within 60 s)`, or `in 2 of its 14 trials`."""
    stuck = [record for record in records if hung(record)]
    reason = f" ({shortened(stuck[0].reason)})" if stuck[0].reason else ""
    each = "its one trial" if len(records) == 1 else f"each of its {counted(len(records), 'trial')}"
    if len(stuck) < len(records):
        each = f"{len(stuck)} of its {counted(len(records), 'trial')}"
    return f"{short_arm(arm)} hangs in {each}{reason}"


MEND_ONE = "mend the loop, or run without that arm, and bless the new run"
MEND_SEVERAL = "mend the loops, or run without those arms, and bless the new run"


@dataclass(frozen=True, slots=True)
class RunTrouble:
    """A reason why a run cannot be compared, and what to do about it."""

    reason: str
    """A sentence without its full stop."""
    cure: str = ""
    """What has to be done before a run can be blessed, in the imperative; empty where the reason says or suggests it itself."""


def troubles(run: Results, died: Collection[str] = (), *, short_allowed: bool = False) -> list[RunTrouble]:
    """Return the reasons why a run cannot be compared, each with its cure; empty if it can.

    `died`: arms that crash or hang in every trial; that is no such reason, since they answered in the baseline. `short_allowed`:
    neither is it one that too few of the scheduled faults landed.
    """
    found = [
        RunTrouble(hang_words(arm, records), MEND_ONE)
        for arm, records in by_arm_of(run).items()
        if arm not in died and all_hung(records, HANG_TRIALS)
    ]
    unasked: list[str] = []
    if run.looked is not None and run.looked.stopped:
        progress = f"{run.looked.tasks:,} of {counted(run.manifest.suite.tasks, 'task')}"
        found.append(RunTrouble(f"--looks ended it after {progress}, and a gate needs all of them: run it without --looks"))
    elif not has_all(run):
        trials = counted(run.scheduled, "trial")
        found.append(RunTrouble(f"{counted(run.scheduled - len(run.records), f'of {trials} is', f'of {trials} are')} missing"))
    if run.comparison.invalid:
        allowed = {short_warning(arm.info.arm, arm.summary) for arm in run.comparison.arms} if short_allowed else ()
        invalid = [warning for warning in run.comparison.warnings if "invalid" in warning and warning not in allowed]
        found += [RunTrouble(warning.removesuffix(".")) for warning in invalid]
    for arm in run.comparison.arms:
        name, summary = short_arm(arm.info.arm), arm.summary
        if summary.errored_share > MAX_ERRORED:
            why = most_frequent(summary.errored_reasons)
            share = f"{name}: {summary.errored_share:.1%} of its trials are errored, more than {MAX_ERRORED:.0%}{why}"
            found.append(RunTrouble(f"{share}{_own_failures(run, arm.info.arm)}"))
        elif not summary.scored:
            found.append(RunTrouble(f"{name}: no trial was scored"))
        elif arm.info.arm not in died and summary.dead == "never asked" and not summary.crashes:
            unasked.append(name)
        elif arm.info.arm not in died and (dead := dead_arm_warning(arm)):
            found.append(RunTrouble(dead.removesuffix("."), MEND_ONE))
    if unasked:
        so = "so its answers are not the model's, and say nothing of the loop"
        cure = MEND_ONE if len(unasked) == 1 else MEND_SEVERAL
        found.append(RunTrouble(f"{listed_names(unasked)}: in no trial did the loop ask its model, {so}", cure))
    return found


def _own_failures(run: Results, arm: str) -> str:
    """Return what to do about an imported arm's errored trials, as the end of a sentence; empty where the run was made here."""
    origin = run.manifest.imported
    if origin is None:
        return ""
    errored = [record for record in run.records if record.arm == arm and record.status == "errored"]
    cure = made_failures(errored, imported_so=origin.errors_as_failures)
    elsewhere = "where they are not, run those trials again, or import without them, which excludes them"
    return f"; where they are the agent's own failures, {cure}; {elsewhere}"


def by_arm_of(run: Results) -> dict[str, list[Record]]:
    return {arm.arm: [record for record in run.records if record.arm == arm.arm] for arm in run.manifest.arms}


def has_all(run: Results) -> bool:
    """Whether no scheduled trial is missing, not even because an interim look ended the run."""
    return len(run.records) >= run.scheduled
