"""A line of the gate in words: its outcome, its means, its change between the bounds, and its margin."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from whichloop.experiments.gate.data.findings import Growth, WorstTrial
from whichloop.experiments.gate.data.outcome import PASSES, Became, GateArm, GateResult, StopChange, causes_of
from whichloop.experiments.gate.data.troubles import literal, short_arm
from whichloop.metrics.gate import GateLine
from whichloop.metrics.measures import meaning_of
from whichloop.metrics.summary import METRICS, PRIMARY
from whichloop.metrics.trajectory.trajectory import shortened
from whichloop.protocol.own_code import place_in
from whichloop.protocol.values import counted
from whichloop.text.numbers import Name, beside_zero, counts, first_of, hundredths, listed_names, trials_of

DIGITS = 3
"""Of a change of a share."""
SLIGHT = 0.01
"""A change of an amount by a smaller share is shown, at times, and of no interest to anybody."""


def outcome_in_words(result: GateResult, line: GateLine, worse: str = "worse") -> str:
    """Return the outcome, of a line that passes with what is shown besides: `pass, better`, or `pass, ` and the words for worse."""
    direction = "worse here" if line.lost else "" if not is_shown(line) else worse if line.worse else "better"
    return f"{line.outcome}, {direction}" if line.outcome == "pass" and direction else result.word_of(line)


def is_shown(line: GateLine) -> bool:
    """Whether the line is shown to be better or worse, by more than 1 % of what is no share: less is nothing to tell."""
    return (line.better or line.worse) and not (line.is_ratio and abs(line.effect.value - 1) < SLIGHT)


def is_gain(line: GateLine) -> bool:
    """Whether the line is a gain: trials score higher here and none lower, or it passes and is shown to be better."""
    return line.outcome == "better here" or (line.outcome == "pass" and line.better and is_shown(line))


def value_in_words(line: GateLine, value: float, *, short: bool = False) -> str:
    """Return a mean of the line's metric with as many digits as the metric has; `short`: a share with two, as `.88`."""
    return hundredths(value) if short and not line.is_ratio else f"{value:.{METRICS[line.metric].digits}f}"


def amount_in_words(metric: str, value: float) -> str:
    """Return a value of a metric as `1,930`, or with the metric's digits where it is no whole number."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.{METRICS[metric].digits}f}"


def effect_in_words(line: GateLine, *, short: bool = False) -> str:
    """Return `-0.150 [-0.212, -0.088]`, or as a ratio `×1.25 [1.10, 1.42]`; – for a bound unknown because of too few tasks.
    Of an identical line it is the change alone.

    `short`: a share with two digits, as `-.15 [-.21, -.09]`.
    """
    effect = line.effect
    if line.outcome == "identical":  # nothing differs, so there is nothing to estimate
        return f"{'×' if line.is_ratio else ''}{number_in_words(line, effect.value, sign=not line.is_ratio, short=short)}"
    value, low, high = (_in_effect(line, number, short=short) for number in (effect.value, effect.low, effect.high))
    return f"{'×' if line.is_ratio else ''}{value} [{low}, {high}]"


def _in_effect(line: GateLine, number: float, *, short: bool) -> str:
    """Return the change or one of its bounds: where all of them lie on one side of 0, one that would round to 0 is told from it."""
    written = number_in_words(line, number, sign=not line.is_ratio, short=short)
    is_one_sided = line.effect.low > 0 or line.effect.high < 0
    if line.is_ratio or not is_one_sided or any(digit in written for digit in "123456789–"):
        return written
    amount = beside_zero(number, DIGITS + 1)
    return f"+{amount}" if number > 0 and amount[0].isdigit() else amount


def number_in_words(line: GateLine, value: float, *, sign: bool, short: bool = False) -> str:
    """Return a change or one of its bounds; – for a bound that is not known."""
    if not math.isfinite(value) or (line.is_ratio and value == 0):
        return "–"
    if short and not line.is_ratio:
        return hundredths(value, sign=sign)
    return f"{value:{'+' if sign else ''}z.{2 if line.is_ratio else DIGITS}f}"


def tasks_of(line: GateLine) -> str:
    """Return over how many tasks a line is judged: `24 tasks`, with their clusters where templates are shared."""
    return f"{counted(line.tasks, 'task')}{in_clusters(line)}"


def in_clusters(line: GateLine) -> str:
    """Return ` in 5 clusters`, to stand behind a number of tasks; empty where each task is a cluster of its own."""
    return "" if line.units == line.tasks else f" in {counted(line.units, 'cluster')}"


def margin_in_words(line: GateLine) -> str:
    """Return `-0.02`, `+0.02` of what may rise, or as a ratio `×1.1`."""
    if line.is_ratio:
        return f"×{1 + line.margin:g}"
    return f"{'+' if line.may_rise else '-'}{line.margin:g}" if line.margin else "0"


def worst_of(result: GateResult, line: GateLine) -> WorstTrial | None:
    """Return the worst trial of a line; None where none is told."""
    return next((worst for worst in result.worst if (worst.arm, worst.metric) == (line.arm, line.metric)), None)


def worst_in_words(worst: WorstTrial, *, paired: bool) -> str:
    """Return the trial with its values and why, and what the metric means; without a full stop.

    `paired`: whether the trial has a counterpart; else the values are means of its task.
    """
    place = f"{short_arm(worst.arm)}/{worst.task}"
    course = f"{amount_in_words(worst.metric, worst.was)} → {amount_in_words(worst.metric, worst.now)}"
    trial = f"the trial {place}/{worst.repeat}{', which was not solved in the baseline' if worst.newly_solved else ''}"
    where = f"{trial}, {course}" if paired else f"the task {place}, {course} on average"
    because = f"; {worst.cause}" if worst.cause else ""
    return f"worst in {worst.metric} ({meaning_of(worst.metric)}): {where}{because}"


def worst_lines(worst: WorstTrial, *, paired: bool) -> list[str]:
    """Return the trial as a sentence, and its commands, a line each."""
    sentence = worst_in_words(worst, paired=paired)
    return [literal(line) for line in (f"{sentence[:1].upper()}{sentence[1:]}.", *worst.commands)]


def worst_text(result: GateResult, line: GateLine) -> str:
    """Return the worst trial of a line and its commands as a text; empty where none is told."""
    worst = worst_of(result, line)
    return "" if worst is None else "\n".join(worst_lines(worst, paired=result.paired))


def growth_of(result: GateResult, line: GateLine) -> Growth | None:
    """Return the growth of a line's amount; None where no trial is solved now that was not, or the amount did not grow."""
    return next((growth for growth in result.growths if (growth.arm, growth.metric) == (line.arm, line.metric)), None)


def growth_in_words(growth: Growth) -> str:
    """Return how much of the growth is of trials that are solved now and were not, and what a solved trial takes; without a full
    stop."""
    metric, before = growth.metric, growth.per_solved_before
    digits = METRICS[metric].digits
    was = "–" if before is None else f"{before:,.{digits}f}"
    solved = f"{growth.solved_before:,} → {counted(growth.solved_now, 'solved trial')}"
    course = f"{was} → {growth.per_solved_now:,.{digits}f} ({solved})"
    return f"{short_arm(growth.arm)}: {_of_newly_solved(growth)}; {metric} per solved trial {course}"


def growth_text(result: GateResult, line: GateLine) -> str:
    """Return the growth of a line's amount as a sentence; empty where there is none to tell of."""
    growth = growth_of(result, line)
    return "" if growth is None else literal(f"{growth_in_words(growth)}.")


def _of_newly_solved(growth: Growth) -> str:
    trials = counted(growth.newly_solved, "trial that is solved now and was not", "trials that are solved now and were not")
    part, whole = (amount_in_words(growth.metric, value) for value in (growth.of_newly_solved, growth.of_all))
    if growth.of_newly_solved > growth.of_all:
        return f"the {trials} took {part} more in {growth.metric}, all trials together {whole} more"
    of_whole = "none" if growth.of_newly_solved <= 0 else "all" if growth.of_newly_solved == growth.of_all else part
    return f"the {trials} took {of_whole} of the {whole} more in {growth.metric}"


def decisive(result: GateResult) -> list[GateLine]:
    """Return the lines that the outcome rests on, the weightiest first; what other arms rest on is said before.

    Beside the lines of a regression these are those of accuracy that fail as worse here, by more than their margin: the first thing
    to know of a loop that answers wrongly is what it lost, whatever another metric shows better.
    """
    told_before = {arm.arm for arm in result.arms if arm.crash_alone or arm.hang_alone or arm.limit_alone or arm.hangs}
    lines = [line for line in result.lines if line.arm not in told_before and (_has_it(result, line) or _lost_too(result, line))]
    return sorted(lines, key=lambda line: (*line.weight[:2], not _has_it(result, line), line.weight))


def _has_it(result: GateResult, line: GateLine) -> bool:
    return line.outcome == result.outcome


def _lost_too(result: GateResult, line: GateLine) -> bool:
    is_loss = line.metric == PRIMARY and line.outcome == "worse here" and not line.is_within
    return is_loss and result.outcome == "regression"


SIDES: tuple[Became, Became] = ("worse", "better")
"""What became of tasks whose score changed."""


def tasks_in_words(result: GateResult) -> tuple[str, ...]:
    """Return how many tasks got worse, with all causes and with the main one, and how many better, where trials have counterparts
    and nothing else counts them: where accuracy decides, where both are, and where tasks only got better in a run that passes. Of
    one that is called unchanged, the arms that pass beside others have theirs, each beside its name.

    Of several arms the causes stand here where they are those of the arm whose estimate leads, or of one arm, which is named then.
    """
    became = Counter(change.became for change in result.tasks)
    worse, better = became["worse"], became["better"]
    if not result.paired or result.outcome in ("better here", "worse here", "unchanged"):
        return ()
    if not worse:
        return (f"{counted(better, result.unit)} better, none worse",) if better and result.outcome == "pass" else ()
    decides = result.outcome in ("regression", "undecided") and PRIMARY in {line.metric for line in decisive(result)}
    if not decides and (not better or any(accuracy_not_held(result))):
        return ()
    lost = counted(worse, f"{result.unit} worse", f"{result.unit}s worse")
    gained = f", {better} better" if better else ""
    return tuple(dict.fromkeys(f"{lost}{causes}{gained}" for causes in _causes_of_all(result)))


def _causes_of_all(result: GateResult) -> tuple[str, ...]:
    """Return the causes of all tasks that got worse, and the main one alone; the arm with them where no estimate of it leads.

    Where tasks of several arms got worse there are none: a cause of one arm would be taken for one of the arm that is named.
    """
    lost_arms = {change.arm for change in result.tasks if change.became == "worse"}
    if len(lost_arms) > 1:
        return ("",)
    leading = {line.arm for line in decisive(result)[:1] if line.metric == PRIMARY and result.outcome not in PASSES}
    where = "" if len(result.arms) == 1 or lost_arms == leading else f" in {listed_names([*map(short_arm, lost_arms)])}"
    return tuple(f"{where}{causes}" for causes in all_and_main(result.causes))


def all_and_main(causes: Mapping[Name, int]) -> tuple[str, str]:
    """Return all causes in words, and the main one alone; each is empty where none is known."""
    return _by(causes), _by(dict([*causes.items()][:1]))


def accuracy_not_held(result: GateResult) -> Iterator[GateLine]:
    """Yield the lines of accuracy that pass or are less than what a run is held to, in arms in which accuracy moved to one side
    only, or is shown to have risen; nothing of a run that passes."""
    if result.outcome not in ("regression", "undecided") or PRIMARY in {line.metric for line in decisive(result)}:
        return
    for line in result.lines:
        change = line.effect.value if line.metric == PRIMARY and line.outcome != result.outcome else 0.0
        if change < 0 or (change > 0 and (is_gain(line) or result.only_gained(line.arm))):
            yield line


def tasks_both_ways(result: GateResult, line: GateLine) -> str:
    """Return how many tasks of an arm got better and how many worse: that first which its accuracy did."""
    became = Counter(change.became for change in result.tasks if change.arm == line.arm)
    first, second = SIDES if line.effect.value < 0 else SIDES[::-1]
    return f"{counted(became[first], 'task')} {first}, {became[second] or 'none'} {second}"


def losses(result: GateResult, lines: Iterable[GateLine]) -> str:
    """Return `2 tasks lost, none gained (altered answer 2)` of the arms of these lines; with the arms where there are others."""
    arms = list(dict.fromkeys(line.arm for line in lines))
    lost = [change for change in result.tasks if change.arm in arms and change.became == "worse"]
    where = f" in {listed_names([short_arm(arm) for arm in arms])}" if len(arms) < len(result.arms) else ""
    unit = "task" if len(arms) == 1 else result.unit
    return f"{counted(len(lost), unit)} lost, none gained{where}{_by(causes_of(lost))}"


def _by(causes: Mapping[Name, int]) -> str:
    return f" ({counts(causes)})" if causes else ""


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
