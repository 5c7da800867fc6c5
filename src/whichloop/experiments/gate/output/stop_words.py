"""Other stops in words. Reasons and names may come from a model or from code: whoever prints these lines makes them literal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from whichloop.experiments.gate.data.names import short_arm
from whichloop.experiments.gate.data.outcome import GateArm, GateResult, StopChange
from whichloop.metrics.trajectory.trajectory import shortened
from whichloop.protocol.own_code import place_in
from whichloop.protocol.values import counted
from whichloop.text.numbers import counts, first_of, listed_names, trials_of

MAX_TRIALS = 5
"""Trials of a kind that it names."""


CRASH, HANG = ("crashes", "crash"), ("hangs", "hang")
"""What trials do that break, in the singular and in the plural."""


def breaks(changes: Iterable[StopChange], trials: int) -> Iterator[tuple[str, ...]]:
    """Yield how many of so many trials crash, and how many hang, that did not in the baseline, with the most frequent reason: with
    the name of one of them, and in short without."""
    new = list(changes)
    yield from _breaks([change for change in new if change.crashed], trials, CRASH)
    yield from _breaks([change for change in new if change.hangs], trials, HANG)


def _breaks(new: Sequence[StopChange], trials: int, verbs: tuple[str, str]) -> Iterator[tuple[str, ...]]:
    if not new:
        return
    often, kinds = Counter(change.reason for change in new), Counter(map(broken_by, new))
    first = max(new, key=lambda change: (kinds[broken_by(change)], often[change.reason]))
    why = _why(new, first) if verbs is CRASH else shortened(first.reason)  # a hang's reason has its seconds
    because = f" ({why})" if why else ""
    if len(new) == trials:
        yield (f"every trial {verbs[0]} now{because}",)
        return
    in_short = f"{counted(len(new), f'trial {verbs[0]}', f'trials {verbs[1]}')} now{because}"
    yield (f"{in_short}, such as {short_arm(first.arm)}/{first.task}/{first.repeat}", in_short)


def _why(new: Sequence[StopChange], main: StopChange) -> str:
    """Return the exception by which trials crash; of several the main one with the trials of each."""
    like_main = [change for change in new if broken_by(change) == broken_by(main)]
    name = _reason_of(like_main, main)
    others = len(set(map(broken_by, new))) - 1
    if not others:
        return name
    rest, name = len(new) - len(like_main), name or "an exception that no record names"
    return f"{len(like_main):,} by {name}, {rest:,} by {counted(others, 'other exception')}"


def _reason_of(group: Sequence[StopChange], shown: StopChange) -> str:
    """Return the reason of one of several alike trials, and how many other messages the same exception has at its place; the
    reason of a hang has its seconds, so that others say nothing new."""
    other_messages = len({change.reason for change in group}) - 1
    also = f", and {counted(other_messages, 'other message')} at this line" if other_messages and not shown.hangs else ""
    return f"{shortened(shown.reason)}{also}"


def stops_alone(result: GateResult) -> Iterator[str]:
    """Yield why an arm is undecided of which no score changed: trials end more gravely."""
    for arm in result.arms:
        if arm.stop_alone:
            yield f"{short_arm(arm.arm)}: no score changed. It is undecided, and not unchanged, since {_ends(result, arm)}."


def breaks_alone(result: GateResult) -> Iterator[str]:
    """Yield that a new crash or hang is a regression within the margins, too; the first line counts them."""
    for what, arms in (
        ("crash that the baseline does not have", [arm for arm in result.arms if arm.crash_alone]),
        ("trial that hangs, where the baseline has none,", [arm for arm in result.arms if arm.hang_alone and not arm.hangs]),
    ):
        if arms:
            where = f"{listed_names([short_arm(arm.arm) for arm in arms])}: " if len(arms) < len(result.arms) else ""
            one = "A" if not where else "a"
            yield f"{where}{one} {what} is a regression, whatever the margins say."


def _ends(result: GateResult, arm: GateArm) -> str:
    graver = [change for change in result.stops if change.arm == arm.arm and change.graver]
    courses = counts({course: [change.course for change in graver].count(course) for course in {c.course for c in graver}})
    return f"{counted(len(graver), 'trial ends', 'trials end')} more gravely than in the baseline ({courses})"


def beside_losses(result: GateResult) -> list[StopChange]:
    """Return the other stops of tasks that did not get worse: a crash that lost its task is told among the lost ones."""
    lost = {(change.arm, change.task) for change in result.tasks if change.became == "worse"}
    return [change for change in result.stops if (change.arm, change.task) not in lost]


def shown_stops(result: GateResult) -> list[StopChange]:
    """Return all new crashes and hangs, and the other stops of tasks that did not get worse."""
    beside = beside_losses(result)
    return [change for change in result.stops if change.broke or change in beside]


def groups(changes: Iterable[StopChange]) -> list[list[StopChange]]:
    """Return the changes of one arm, course and score together, or of one arm and exception, in the order of their first ones."""
    by_kind: dict[tuple[str, ...], list[StopChange]] = {}
    for change in changes:
        how = (change.course, str(change.same_score), change.reason)
        by_kind.setdefault((change.arm, *(broken_by(change) or how)), []).append(change)
    return list(by_kind.values())


def title(group: Sequence[StopChange]) -> str:
    """Return `finish/clean: 2 trials with the same score, finished → max_steps`, or `…: 2 trials crash now (KeyError: 'x')`."""
    first = group[0]
    if first.broke:
        return break_title(group)
    score = " with the same score" if first.same_score else ""
    raised = f" ({shortened(first.reason)})" if first.reason else ""
    return f"{short_arm(first.arm)}: {counted(len(group), 'trial')}{score}, {first.course}{raised}"


def _ends_of_more(rest: Sequence[StopChange]) -> tuple[str, str]:
    """Return what further trials do, in the singular and in the plural."""
    for verbs, do_so in ((CRASH, [change.crashed for change in rest]), (HANG, [change.hangs for change in rest])):
        if all(do_so):
            return f"more trial {verbs[0]} now", f"more trials {verbs[1]} now"
    return "more trial has another stop", "more trials have another stop"


def broken_by(change: StopChange) -> tuple[str, ...]:
    """Return what makes trials that crash, or hang, alike: the place and, of a crash, the kind of exception, whatever it says of
    the data of its trial; where the place is not known, the whole exception. Nothing of a trial that does neither."""
    place = place_in(change.reason)
    if change.hangs:
        return ("hangs", "" if place is None else f"{place[0]}:{place[1]}")
    if not change.crashed:
        return ()
    return ("crashes", change.reason if place is None else f"{change.reason.partition(':')[0]} at {place[0]}:{place[1]}")


def break_title(group: Sequence[StopChange], trials_of_arm: int | None = None) -> str:
    """Return `finish/clean: 14 of 40 trials crash now (KeyError: 'x')`; without the 40 where it is not known."""
    first = group[0]
    one, many = HANG if first.hangs else CRASH
    why = f" ({_reason_of(group, first)})" if first.reason else ""
    verb = one if len(group) == 1 else many
    return f"{short_arm(first.arm)}: {trials_of(len(group), trials_of_arm)} {verb} now{why}"


def trials(group: Sequence[StopChange], most: int) -> str:
    """Return the names of the first trials, task and repeat, and how many more there are."""
    return first_of([f"{change.task}/{change.repeat}" for change in group], most)


def stop_lines(changes: Sequence[StopChange], most: int, most_trials: int) -> list[tuple[str, str]]:
    """Return a line and the command that shows the first trial, for each kind of other stop; the last line counts what is left."""
    stop_groups = groups(changes)
    lines = [(f"{title(group)}: {trials(group, most_trials)}", group[0].command) for group in stop_groups[:most]]
    rest = [change for group in stop_groups[most:] for change in group]
    rest_in_words = counted(len(rest), *_ends_of_more(rest))
    return [*lines, *([(f"and {rest_in_words}; --json has all", "")] if rest else [])]
