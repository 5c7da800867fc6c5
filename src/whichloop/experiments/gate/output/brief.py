"""The gate's result on one screen: a row per arm with the metric that decides it, a trial that was lost, and what to do next."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from whichloop.experiments.gate.data.outcome import PASSES, GateArm, GateResult, StopChange, TaskChange
from whichloop.experiments.gate.data.troubles import literal, short_arm
from whichloop.metrics.gate import GRAVEST_FIRST, GateLine
from whichloop.metrics.summary import PRIMARY
from whichloop.protocol.values import counted
from whichloop.text.numbers import first_of

from .line_words import (
    MAX_TRIALS,
    breaks_alone,
    broken_by,
    decisive,
    effect_in_words,
    is_gain,
    margin_in_words,
    outcome_in_words,
    stops_alone,
    value_in_words,
)
from .next_steps import next_steps
from .sentences import further_lines, headline, likewise
from .text import brackets, change_counts, other_stops, task_lines_of, worse_here_in_words

MAX_ARMS = 12
HEADING = ("loop/profile", "metric", "was → is", "change", "outcome")

ALL = "-v, or --json for all"
COMMANDS = ("whichloop ", "pytest ", "python -m pytest ")
"""How a line begins that is a command, which is copied whole."""
NEEDS_A_LOOK = ("regression", "worse here", "undecided")


def deciding(result: GateResult, arm: GateArm) -> GateLine:
    """Return the line that an arm is shown by: what needs a look, the gravest first and of these what lost most, else what
    improved; accuracy first among equals."""
    return min(arm.lines, key=lambda line: (*_rank(result, line), line.weight))


def _rank(result: GateResult, line: GateLine) -> tuple[int, bool]:
    """Return what orders lines: those that need a look by their gravity, then those that improved, then the others."""
    gravity = NEEDS_A_LOOK.index(line.outcome) if line.outcome in NEEDS_A_LOOK else len(NEEDS_A_LOOK)
    improved = is_gain(line) or (line.metric == PRIMARY and line.outcome in PASSES and result.only_gained(line.arm))
    return gravity, not improved


def rows(result: GateResult, *, short: bool) -> list[tuple[str, ...]]:
    """Return a heading and a row per arm: what needs a look first, then what improved; `short`: shares with two digits.

    Where another metric decides, and accuracy changed, a row of accuracy stands beside it: it is what people ask about first. It
    stands above where the first line has it.
    """
    lines = (deciding(result, arm) for arm in result.arms if arm.lines)
    ordered = sorted(lines, key=lambda line: (*_rank(result, line), GRAVEST_FIRST.index(line.outcome), line.weight))
    of_arms = ([line, *_accuracy_beside(result, line)] for line in ordered[:MAX_ARMS])
    rests_on = [] if result.outcome in PASSES else decisive(result)
    shown_lines = [each for of_arm in of_arms for each in sorted(of_arm, key=[*rests_on, *of_arm].index)]
    return [HEADING, *(_row(result, line, short=short) for line in shown_lines)]


def _accuracy_beside(result: GateResult, deciding_line: GateLine) -> Iterator[GateLine]:
    """Yield the arm's line of accuracy, where another one decides and accuracy is another than it was."""
    for line in result.lines:
        if line.arm == deciding_line.arm and line.metric == PRIMARY != deciding_line.metric and line.run != line.baseline:
            yield line


def _row(result: GateResult, line: GateLine, *, short: bool) -> tuple[str, ...]:
    course = " → ".join(value_in_words(line, value, short=short) for value in (line.baseline, line.run))
    return (literal(short_arm(line.arm)), line.metric, course, effect_in_words(line, short=short), outcome_in_words(result, line))


def margins(result: GateResult) -> str:
    """Return what each metric may lose, and what the brackets of the rows are."""
    each = dict.fromkeys(f"{line.metric} {margin_in_words(line)}" for line in result.lines)
    estimated = any(line.outcome != "identical" for line in result.lines)
    return f"margins: {', '.join(each)}{f'; {brackets(result)}' if estimated else ''}"


def brief_sentences(result: GateResult) -> list[str]:
    """Return the caveats and what to do next; of a run that passes the first thing alone."""
    steps = next_steps(result)
    return [
        literal(line)
        for line in (
            *breaks_alone(result),
            *stops_alone(result),
            *_hidden_arms(result),
            *_likewise(result),
            *worse_here_in_words(result),
            *result.notes,
            *(line for step in (steps[:1] if result.outcome in PASSES else steps) for line in step.lines),
        )
    ]


def changed(result: GateResult, more: str = "-v has all") -> list[str]:
    """Return how many tasks and trials changed, and by which causes; nothing of a loss that the first line counts.

    `more`: what has all of them; empty where that is said elsewhere.
    """
    if result.outcome == "worse here":
        return []
    tasks, same = change_counts(result)
    if tasks and more:
        tasks = f"{tasks.removesuffix('.')}: {more}"
    counts = [tasks, same if result.outcome in PASSES else ""]
    return [literal(line) for line in counts if line]


def examples(result: GateResult, more: str = ALL) -> list[str]:
    """Return the lines of one trial, or of one kind of other stop, that shows the gravest change.

    `more`: where all of them are, which `changed` says of all but a loss that the first line counts.
    """
    stops = [change for change in result.stops if change.arm in result.arms_behind] or result.stops
    broke = _most_frequent_first([change for change in stops if change.broke])
    lost = _lost(result)
    if lost and not broke and result.outcome not in PASSES:
        trial_lines = task_lines_of([_shown(lost)])
    else:
        trial_lines = other_stops(broke or stops, 1, MAX_TRIALS)
    if result.outcome != "worse here":
        return trial_lines
    changed_tasks = {(c.arm, c.task) for c in result.tasks} | {(c.arm, c.task) for c in result.stops}
    others = len(changed_tasks) - 1
    return [
        *trial_lines,
        *([f"and {counted(others, f'other changed {result.unit}')}{f': {more}' if more else ''}"] if others > 0 else []),
    ]


def _most_frequent_first(broke: Sequence[StopChange]) -> list[StopChange]:
    """Return trials that crash or hang, those first whose exception or place most of them have: the first line names that one."""
    often = Counter((change.arm, broken_by(change)) for change in broke)
    return sorted(broke, key=lambda change: (not change.crashed, -often[change.arm, broken_by(change)]))


def _lost(result: GateResult) -> list[TaskChange]:
    """Return the tasks that got worse, of the arms that the outcome rests on; of all, where none of these lost any."""
    worse = [change for change in result.tasks if change.became == "worse"]
    return [change for change in worse if change.arm in result.arms_behind] or worse


def _shown(lost: Sequence[TaskChange]) -> TaskChange:
    """Return the first task that was lost to the most frequent cause; where its cause stands, no other step is told."""
    causes = Counter(change.cause for change in lost if change.cause is not None)
    cause = max(causes, key=lambda each: causes[each], default=None)
    example = next(change for change in lost if change.cause == cause)
    return example if example.cause is None else replace(example, parts_at=None)


def text(result: GateResult) -> str:
    """Return the same as plain text, for a failed test."""
    columns = ["  ".join(row) for row in rows(result, short=False)] if result.lines else []
    bounds = [margins(result)] if result.lines else []
    whole = [f"    {literal(shlex.join(result.advice.review))} # all that changed"] if result.tasks and result.advice.review else []
    caveats = list(map(_indented, brief_sentences(result)))
    trial_lines = [*examples(result, ""), *_left_open(result)]
    first_lines = [headline(result, 1), *map(_indented, further_lines(result, 1))]
    return "\n".join([*first_lines, *columns, *changed(result, ""), *trial_lines, *whole, *bounds, *caveats])


def _indented(line: str) -> str:
    """Return a line of the text, a command behind four spaces."""
    return f"    {line}" if line.startswith(COMMANDS) else line


def _left_open(result: GateResult) -> list[str]:
    """Return the names of the tasks that got worse where the outcome is open, beside the one that is shown."""
    if result.outcome != "undecided" or not (lost := _lost(result)):
        return []
    first = _shown(lost)
    others = [f"{short_arm(change.arm)}/{change.task}" for change in lost if change.trial != first.trial]
    return [f"- likewise worse: {literal(first_of(others, MAX_TRIALS))}"] if others else []


def _hidden_arms(result: GateResult) -> Iterator[str]:
    hidden = len(result.arms) - MAX_ARMS
    if hidden > 0:
        yield f"And {counted(hidden, 'more arm')}, none of them with a graver outcome (-v)."


def _likewise(result: GateResult) -> Iterator[str]:
    """Yield the other lines whose outcome is the one of their arm, where it needs attention."""
    in_rows = [deciding(result, arm) for arm in result.arms if arm.lines]
    outcomes = {line.arm: line.outcome for line in in_rows}
    others = [line for line in result.lines if line not in in_rows and line.outcome == outcomes[line.arm]]
    for outcome in NEEDS_A_LOOK:
        lines = sorted((line for line in others if line.outcome == outcome), key=lambda line: line.weight)
        if lines:
            yield f"Likewise {outcome}: {'; '.join(likewise(lines))}."
