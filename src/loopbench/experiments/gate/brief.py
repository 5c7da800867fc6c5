"""The gate's result on one screen: a row per arm with the metric that decides it, and an example of each cause of lost tasks."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from loopbench.metrics.gate import GRAVEST_FIRST, GateLine
from loopbench.protocol.counts import counted

from .line_words import effect_in_words, margin_in_words, outcome_in_words, value_in_words
from .names import short_arm
from .outcome import GateArm, GateResult, Outcome, TaskChange
from .outputs import (
    ACCEPTED,
    accepting,
    brackets,
    change_counts,
    headline,
    literal,
    other_stops,
    remedies,
    task_lines_of,
    to_bless,
)
from .stop_words import MAX_GROUPS, MAX_TRIALS, stops_alone

MAX_EXAMPLES = 3
"""Maximum number of changed tasks, each with another cause."""
MAX_ARMS = 12
HEADING = ("arm", "metric", "was → is", "change", "outcome")

NEEDS_A_LOOK = ("regression", "worse here", "undecided")


def deciding(arm: GateArm) -> GateLine:
    """Return the line with an arm's gravest outcome; accuracy comes first among equals."""
    return min(arm.lines, key=lambda line: GRAVEST_FIRST.index(line.outcome))


def rows(result: GateResult, *, short: bool) -> list[tuple[str, ...]]:
    """Return a heading and a row per arm, the gravest outcomes first; `short`: shares with two digits."""
    ordered = sorted((deciding(arm) for arm in result.arms if arm.lines), key=lambda line: GRAVEST_FIRST.index(line.outcome))
    return [HEADING, *(_row(line, short=short) for line in ordered[:MAX_ARMS])]


def _row(line: GateLine, *, short: bool) -> tuple[str, ...]:
    course = " → ".join(value_in_words(line, value, short=short) for value in (line.baseline, line.run))
    return (literal(short_arm(line.arm)), line.metric, course, effect_in_words(line, short=short), outcome_in_words(line))


def margins(result: GateResult) -> str:
    """Return what each metric may lose, and what the brackets of the rows are."""
    each = dict.fromkeys(f"{line.metric} {margin_in_words(line)}" for line in result.lines)
    estimated = any(line.outcome != "identical" for line in result.lines)
    return f"margins: {', '.join(each)}{f'; {brackets(result)}' * estimated}"


def sentences(result: GateResult, accepted: Mapping[Outcome, str] = ACCEPTED) -> list[str]:
    """Return what can be done and the caveats; among these the notes say what more tasks are likely to decide.

    `accepted`: outcome → what lets it through.
    """
    return [
        literal(line)
        for line in (
            *stops_alone(result),
            *_hidden_arms(result),
            *_likewise(result),
            *remedies(result),
            *result.notes,
            *accepting(result, accepted),
            *to_bless(result),
        )
    ]


def changed(result: GateResult) -> list[str]:
    """Return how many tasks and trials changed, and by which causes."""
    return [literal(line) for line in change_counts(result)]


def examples(result: GateResult, more: str = "-v, or --json for all") -> list[str]:
    """Return the lines of new crashes, of one more task for each cause of a loss, of other stops, and how many others changed."""
    shown, named = _per_cause(result), {(change.arm, change.task) for change in result.stops}
    others = sum((change.arm, change.task) not in named for change in result.tasks) - len(shown)
    crashed, other = ([change for change in result.stops if change.crashed == is_crash] for is_crash in (True, False))
    said = [
        *other_stops(crashed, MAX_GROUPS, MAX_TRIALS),
        *task_lines_of(shown),
        *other_stops(other, MAX_GROUPS, MAX_TRIALS),
    ]
    left = f"and {counted(others, 'other changed task')}" if said else counted(others, "changed task")
    return [*said, *([f"{left}: {more}"] if others else [])]


def text(result: GateResult) -> str:
    """Return the same as plain text, for a failed test."""
    columns = ["  ".join(row) for row in rows(result, short=False)] if result.lines else []
    held = [margins(result)] if result.lines else []
    more = literal(shlex.join(["loopbench", "gate", str(result.run), "--baseline", str(result.baseline or "FILE"), "-v"]))
    return "\n".join([headline(result), *columns, *changed(result), *examples(result, more), *held, *sentences(result)])


def _per_cause(result: GateResult) -> Sequence[TaskChange]:
    named = {(change.arm, change.task) for change in result.stops}
    worse = [change for change in result.tasks if change.became == "worse" and (change.arm, change.task) not in named]
    causes = [*result.causes, *([None] if any(change.cause is None for change in worse) else [])]
    firsts = (next((change for change in worse if change.cause == cause), None) for cause in causes)
    return [change for change in firsts if change is not None][:MAX_EXAMPLES]


def _hidden_arms(result: GateResult) -> Iterator[str]:
    hidden = len(result.arms) - MAX_ARMS
    if hidden > 0:
        yield f"And {counted(hidden, 'more arm')}, none of them with a graver outcome (-v)."


def _likewise(result: GateResult) -> Iterator[str]:
    """Yield the other lines whose outcome is the one of their arm, where it needs attention."""
    found = [
        line
        for arm in result.arms
        for line in arm.lines
        if line is not deciding(arm) and line.outcome == deciding(arm).outcome and line.outcome in NEEDS_A_LOOK
    ]
    for outcome in GRAVEST_FIRST:
        lines = [line for line in found if line.outcome == outcome]
        arms = [
            f"{short_arm(arm)} in {', '.join(line.metric for line in each)}" for arm, each in groupby(lines, lambda line: line.arm)
        ]
        if arms:
            yield f"Likewise {outcome}: {'; '.join(arms)}."
