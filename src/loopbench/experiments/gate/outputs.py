"""The gate's result for people: whole as plain text and as Markdown. `as_junit` and `github` are for CI servers.

Names and details may come from a model, a tool or a file: each output takes them literally, and no text can end its line, its cell,
its element or its command.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from loopbench.experiments.compare.tables import outlook_in_words
from loopbench.metrics.gate import OPEN, GateLine, agreeing_tasks
from loopbench.metrics.summary import PRIMARY
from loopbench.protocol.counts import counted
from loopbench.text.counts import counts, listed
from loopbench.text.plain_text import plain_line
from loopbench.text.table import Table, markdown_block, markdown_item, markdown_page

from .claims import claims_in_words
from .line_words import effect_in_words, is_shown, margin_in_words, number_in_words, outcome_in_words, value_in_words
from .names import short_arm
from .next_steps import more_steps, next_steps
from .other_changes import unjudged_in_brief
from .outcome import PASSES, GateResult, Side, StopChange, TaskChange
from .stop_words import beside_losses, breaks, breaks_alone, stop_lines, stops_alone

MAX_TASKS = 20
"""Maximum number of changed tasks in the text outputs; `--json` has all."""
MAX_NAMED = 4
"""Maximum number of arms and metrics in a headline."""
MAX_CHARS = 300
"""Maximum length of a detail."""
TYPICAL = "typical task"
COLUMNS = ("arm", "metric", "baseline", "run", "change", TYPICAL, "margin", "tasks", "p (Holm)", "outcome")
STOP_COLUMNS = ("trial", "score", "was", "is", "what it says", "to see it")

_COMMAND_INSIDE = re.compile(r"##(?=\[|vso\[)")
"""Prefixes of `##[…]` and `##vso[…]`, which GitHub and Azure treat as commands anywhere in a line."""


def headline(result: GateResult, named: int = MAX_NAMED) -> str:
    """Return the outcome in one line that starts with its word, and names at most so many arms and metrics."""
    return literal(f"{result.outcome}: {explanation(result, named)}")


def table(result: GateResult) -> Table:
    """Return a table with a row per arm and metric."""
    rows, place = [_row(line) for line in result.lines], COLUMNS.index(TYPICAL)
    known = [at for at in range(len(COLUMNS)) if at != place or any(row[place] for row in rows)]
    columns = tuple(COLUMNS[at] for at in known)
    return Table(f"Run against baseline; {brackets(result)}", columns, tuple(tuple(row[at] for at in known) for row in rows))


def brackets(result: GateResult) -> str:
    """Return what the brackets of the rows are: each end is at the level of the test that it shows."""
    level = f"{100 * (1 - result.alpha):g} %"
    if len(result.lines) == 1:
        return f"brackets: one-sided {level} bounds"
    return f"brackets: one-sided bounds, toward worse at {level}, toward better corrected for {len(result.lines)} rows (Holm)"


def paragraphs(result: GateResult) -> list[str]:
    """Return the lines below the table: what more tasks may decide, the changes, the caveats, and what to do next."""
    outlooks = [
        f"{short_arm(line.arm)} in {line.metric}: {outlook_in_words(line.outlook, 'this gate decides')}."
        for line in result.lines
        if line.outlook is not None
    ]
    steps = (line for step in (*next_steps(result), *more_steps(result)) for line in step.lines)
    return [*_facts(result, sizes=[*outlooks, *remedies(result)]), *map(literal, steps)]


def _facts(result: GateResult, sizes: Sequence[str] = ()) -> list[str]:
    """Return the changes and the caveats; `sizes`: what more tasks may decide, which stands between."""
    said = (
        *breaks_alone(result),
        *stops_alone(result),
        *sizes,
        *filter(None, change_counts(result)),
        *result.notes,
        *result.details,
    )
    return [literal(line) for line in said]


def for_a_server(result: GateResult) -> list[str]:
    """Return the few lines of an annotation or a test report: the changes, the caveats, and the first thing to do next."""
    steps = [step.brief for step in next_steps(result)[:1]]
    return [
        literal(line)
        for line in (*breaks_alone(result), *stops_alone(result), *filter(None, change_counts(result)), *result.notes, *steps)
    ]


def task_lines(result: GateResult, most: int | None = MAX_TASKS) -> list[str]:
    """Return lines of each changed task: the change, and a command that shows it; no text starts with white space or a colon."""
    changes = _spread(result.tasks, most)
    omitted = len(result.tasks) - len(changes)
    return [*task_lines_of(changes), *([f"- and {omitted} more; --json has all"] if omitted else [])]


def _spread(changes: Sequence[TaskChange], most: int | None) -> Sequence[TaskChange]:
    """Return at most so many changed tasks, in their order: as many of each arm as there is room for."""
    if most is None or len(changes) <= most:
        return changes
    turns: Counter[str] = Counter()
    places = []  # the turn at which an arm's change is taken, and its own place
    for place, change in enumerate(changes):
        places.append((turns[change.arm], place))
        turns[change.arm] += 1
    return [changes[place] for place in sorted(place for _, place in sorted(places)[:most])]


def task_lines_of(changes: Sequence[TaskChange]) -> list[str]:
    """Return the lines of these changed tasks, as `task_lines` does; a trial without a trace has no command to show it."""
    return [
        line
        for change in changes
        for line in (f"- {literal(_change_line(change))}", *([f"    {literal(change.command)}"] if change.command else []))
    ]


def other_stops(changes: Sequence[StopChange], most: int = MAX_TASKS, most_trials: int = MAX_TASKS) -> list[str]:
    """Return the lines of each kind of other stop: its trials, and a command that shows the first of them."""
    return [
        line
        for said, command in stop_lines(changes, most, most_trials)
        for line in (f"- {literal(said)}", *([f"    {literal(command)}"] if command else []))
    ]


def to_markdown(result: GateResult) -> str:
    """Return a Markdown page for a step's summary or a pull request: the outcome, what to do next, then what it rests on.

    What more tasks may decide stands there only where something is undecided.
    """
    tables = [table(result)] if result.lines else []
    if result.tasks:
        columns = ("trial", "became", "was", "is", "first difference", "step", "cause", "detail", "to see it")
        rows = tuple(_task_row(change) for change in _spread(result.tasks, MAX_TASKS))
        tables.append(Table(f"{changed_unit(result)} that changed ({len(rows)} of {len(result.tasks)})", columns, rows))
    if stops := beside_losses(result):
        shown = stops[:MAX_TASKS]
        name = f"Trials with another stop ({len(shown)} of {len(stops)})"
        tables.append(Table(name, STOP_COLUMNS, tuple(map(_stop_row, shown))))
    sizes = [*remedies(result)] if result.outcome == "undecided" else []
    head, _, body = markdown_page(f"Gate: {result.outcome}", tables, _facts(result, sizes)).partition("\n\n")
    return "\n\n".join([head, markdown_item(headline(result)), *_step_blocks(result), body])


def _step_blocks(result: GateResult) -> Iterator[str]:
    """Yield what can be done next in Markdown: a sentence, and a block of the commands below it."""
    for step in next_steps(result):
        if step.say:
            yield markdown_item(literal(step.say))
        if step.commands:
            yield markdown_block("\n".join(map(literal, step.commands)))


# --- text ---


def explanation(result: GateResult, named: int = MAX_NAMED) -> str:
    """Return what the outcome rests on; loops that hang or crash now, and did not, stand first whatever it is."""
    hangs = [arm.hangs for arm in result.arms if arm.hangs]
    whole = {arm.arm for arm in result.arms if arm.hangs}
    broke = breaks([change for change in result.stops if change.arm not in whole], sum(arm.trials for arm in result.arms))
    limits = dict.fromkeys(said for arm in result.arms for said in arm.limits)
    bills = unjudged_in_brief(result.arms, named) if result.outcome in PASSES else ()
    reasons = [_both_ways(result), _reason(result, named)]
    found = "; ".join(filter(None, [result.lead, *hangs, *broke, *limits, *reasons, claims_in_words(result), *bills]))
    return found if result.common is None else f"{result.common.left_out()}: {found}"


def _both_ways(result: GateResult) -> str:
    """Return how many tasks got worse and better where trials have their counterparts, and nothing else counts them: where both
    are, and where tasks only got better in a run that passes: what was gained stands before a bill and before what stayed."""
    became = Counter(change.became for change in result.tasks)
    worse, better = became["worse"], became["better"]
    if not result.paired or not better or result.outcome in ("better here", "worse here"):
        return ""
    if not worse and result.outcome not in ("pass", "unchanged"):
        return ""
    if not worse:
        return f"{counted(better, result.unit)} better, none worse"
    return f"{counted(worse, result.unit)} worse, {better} better"


def _reason(result: GateResult, named: int) -> str:
    if result.reasons:
        return "; ".join(result.reasons)
    if result.outcome == "identical":
        unscored = sum(arm.trials - arm.scored for arm in result.arms)
        without = f", {unscored:,} of them without a score on both sides" if unscored else ""
        return f"behaviour unchanged in all {counted(sum(arm.trials for arm in result.arms), 'trial')}{without}"
    if result.outcome in ("pass", "unchanged", "better here"):
        return "; ".join(_passed(result, named))
    if result.outcome == "worse here":
        return losses(result, [line for line in result.lines if line.outcome == "worse here"])
    known = [
        arm for arm in result.arms if not (arm.crash_alone or arm.hang_alone or arm.limit_alone or arm.hangs)
    ]  # what these rest on is said before
    decisive = [line for arm in known for line in arm.lines if line.outcome == result.outcome]
    return _first(
        [f"{short_arm(line.arm)} in {line.metric} {held_to_its_margin(line)}" for line in decisive],
        "; ",
        named,
    )


def held_to_its_margin(line: GateLine) -> str:
    """Return the change beside its margin; of a regression within it also why it is one."""
    within = line.outcome == "regression" and line.is_within
    why = ": the loss is within the margin, but one beyond it is not ruled out" * within
    return f"{effect_in_words(line)}, margin {margin_in_words(line)}{why}"


def _passed(result: GateResult, named: int) -> Iterator[str]:
    """Yield what holds of the lines that pass: what stayed, where the outcome is that, what is better, what the margins bear."""
    stayed = [line for line in result.lines if line.outcome == "unchanged"]
    passed = sorted((line for line in result.lines if line.outcome == "pass"), key=lambda line: line.metric != PRIMARY)
    better = [_with_change(line) for line in passed if is_shown(line) and line.better]
    names = _first([f"{short_arm(line.arm)} in {line.metric}" for line in stayed], ", ", named)
    where = f" ({names})" * (len(stayed) < len(result.lines))
    has_scores = any(line.metric == PRIMARY for line in stayed)
    same = f"every trial has {_stayed(result, stayed)}{where}" if has_scores else f"every trial has the baseline's value of {names}"
    parts = {
        "better here": _first(list(_gained(result)), "; ", named),
        "unchanged": f"{same}, which says nothing of other tasks" * bool(stayed),
        "pass": f"better: {_first(better, ', ', named)}" * bool(better),
    }
    order = sorted(parts, key=lambda outcome: outcome != result.outcome)  # what the headline's word says stands first
    yield from (parts[outcome] for outcome in order if parts[outcome])
    if held := [_with_change(line) for line in result.lines if line.outcome == "within here"]:
        yield f"on these tasks within the margin: {_first(held, ', ', named)}"
    if any(not (is_shown(line) or line.lost) for line in passed):
        yield f"{'all else ' * bool(better or stayed)}within the margin{'s' * (len(result.lines) > 1)}"
    if lost := [line for line in passed if line.lost]:
        yield f"worse here, but within the margin: {losses(result, lost)}"
    if worse := [_with_change(line) for line in passed if is_shown(line) and line.worse and not line.lost]:
        yield f"worse, but within the margin: {_first(worse, ', ', named)}"


def _gained(result: GateResult) -> Iterator[str]:
    """Yield how many tasks of an arm got better where none got worse, and what that leaves open of other tasks."""
    for line in result.lines:
        if line.outcome == "better here":
            better = sum(change.arm == line.arm and change.became == "better" for change in result.tasks)
            low, high = (number_in_words(line, bound, sign=True) for bound in (line.effect.low, line.effect.high))
            arm = f" ({short_arm(line.arm)})" * (len(result.lines) > 1)
            yield (
                f"{better} of {counted(line.tasks, 'task')} better, none worse{arm}; of other tasks this says nothing "
                f"(between {low} and {high})"
            )


def losses(result: GateResult, lines: Iterable[GateLine]) -> str:
    """Return `2 tasks lost, none gained (altered answer 2)` of the arms of these lines; with the arms where others gained."""
    arms = list(dict.fromkeys(line.arm for line in lines))
    lost = [change for change in result.tasks if change.arm in arms and change.became == "worse"]
    causes = Counter(change.cause for change in lost if change.cause is not None)
    others_gained = any(change.became == "better" for change in result.tasks)
    where = f" in {listed([short_arm(arm) for arm in arms])}" * others_gained
    unit = "task" if len(arms) == 1 else result.unit
    return f"{counted(len(lost), unit)} lost, none gained{where}{f' ({counts(causes)})' * bool(causes)}"


def _with_change(line: GateLine) -> str:
    return f"{short_arm(line.arm)} in {line.metric} {effect_in_words(line)}"


def _stayed(result: GateResult, stayed: Sequence[GateLine]) -> str:
    arms = {line.arm for line in stayed if line.metric == PRIMARY}
    other = sum(change.arm in arms for change in result.stops)
    if other:
        return f"the score of the baseline, and {counted(other, 'trial has', 'trials have')} another stop"
    return "the score and stop of the baseline"


def _first(items: Sequence[str], separator: str, most: int) -> str:
    omitted = len(items) - most
    return separator.join([*items[:most], *([f"{omitted} more"] if omitted > 0 else [])])


def _row(line: GateLine) -> tuple[str, ...]:
    return (
        literal(short_arm(line.arm)),
        line.metric,
        value_in_words(line, line.baseline),
        value_in_words(line, line.run),
        effect_in_words(line),
        "" if line.typical is None else f"×{number_in_words(line, line.typical, sign=False)}",
        margin_in_words(line),
        str(line.tasks) if line.units == line.tasks else f"{line.tasks} in {counted(line.units, 'cluster')}",
        "<0.001" if line.p_holm < 0.001 else f"{line.p_holm:.3f}",
        outcome_in_words(line, worse="worse within the margin"),
    )


def remedies(result: GateResult) -> Iterator[str]:
    """Yield what the open lines say and leave open, and how many tasks pass where all agree; the notes tell of larger baselines."""
    open_lines = [line for arm in result.arms if not arm.limit_alone for line in arm.lines if line.outcome in OPEN]
    if any(line.outcome == "worse here" for line in open_lines):
        cause = "A change, and no chance," if result.lead or result.advice.other_cause else "Nothing but the change of the loop"
        lost = "has lost" if cause.startswith("A") else "can have lost"
        yield f"{cause} {lost} these tasks; of other tasks the brackets say what is left open."
    if any(line.outcome == "undecided" for line in open_lines):
        yield "Where it is undecided, this run shows neither harm nor that there is none."
    shares = [line for line in open_lines if not line.is_ratio and 0 < line.margin < 1]
    for margin, units in dict.fromkeys((line.margin, line.units) for line in shares):
        agreeing = agreeing_tasks(margin, result.alpha)
        if units < agreeing:
            borne = max(map(shown_margin, [line for line in shares if (line.margin, line.units) == (margin, units)]))
            these = f"; these {units} pass at one of {borne:g}, which is to be chosen before a run, not after" * (borne < 1)
            at_this = f"At a margin of {margin:g}, {agreeing} tasks pass if all of them agree, and more are needed if some do not"
            yield f"{at_this}{these}."


def shown_margin(line: GateLine) -> float:
    """Return the smallest margin of two digits at which a share's line passes, from its bound toward worse; 1 if none does."""
    bound = line.effect.high if line.may_rise else -line.effect.low
    return min(1.0, (math.floor(bound * 100) + 1) / 100) if math.isfinite(bound) else 1.0


def change_counts(result: GateResult) -> tuple[str, str]:
    """Return how many tasks changed, by which causes, and how many trials differ otherwise; each is empty where none did."""
    became = Counter(change.became for change in result.tasks)
    tasks = same = ""
    if result.tasks:
        causes = f" ({counts(result.causes)})" if result.causes else ""
        stops = f", {became['other']} with another stop only" * bool(became["other"])
        tasks = f"{changed_unit(result)}: {became['worse']} worse{causes}, {became['better']} better{stops}."
    if result.same_result:
        other = listed(result.differs_in) if result.differs_in else "something else"
        more, but = "more " * bool(result.tasks), "the same score and stop, but"
        said = counted(result.same_result, f"{more}trial has {but} differs", f"{more}trials have {but} differ")
        same = f"{said} in {other}."
    return tasks, same


def changed_unit(result: GateResult) -> str:
    """Return `Tasks`, or what else is counted where there are several arms."""
    return f"{result.unit[0].upper()}{result.unit[1:]}s"


def _change_line(change: TaskChange) -> str:
    task = f"{short_arm(change.arm)}/{change.task}"
    return f"{task} {change.became}: {_results(change.was)} -> {_results(change.now)}{_difference(change)}"


def _difference(change: TaskChange) -> str:
    parted = "" if change.parts_at is None else f"; first difference at step {change.parts_at}"
    at = "" if change.step in (None, change.parts_at) else f" at step {change.step}"
    cause = "" if change.cause is None else f"; {change.cause}{at}: {_cut(change.detail)}"
    return parted + cause


def _results(side: Side) -> str:
    """Return `1.00 finished`, or for several repeats `0.67 finished 2, max_steps 1`."""
    mean = "not scored" if side.mean is None else f"{side.mean:.2f}"
    stops = Counter(stop for stop in side.stops if stop is not None)
    if len(stops) == 1 and len(side.stops) == 1:
        return f"{mean} {next(iter(stops))}"
    return f"{mean} {counts(stops)}" if stops else mean


def task_text(change: TaskChange) -> str:
    return "\n".join(map(literal, filter(None, (_change_line(change), change.command))))


def _stop_row(change: StopChange) -> tuple[str, ...]:
    score = "the same" if change.same_score else "another"
    return (_trial(change), score, change.was, change.now, _cut(change.reason), change.command)


def _task_row(change: TaskChange) -> tuple[str, ...]:
    parted, step = ("" if number is None else str(number) for number in (change.parts_at, change.step))
    cause, detail = change.cause or "", _cut(change.detail)
    return (_trial(change), change.became, _results(change.was), _results(change.now), parted, step, cause, detail, change.command)


def _trial(change: TaskChange | StopChange) -> str:
    """Return the trial's name with a short one of its arm; the command beside it has the whole."""
    return f"{short_arm(change.arm)}/{change.task}/{change.repeat}"


def _cut(content: str) -> str:
    return content if len(content) <= MAX_CHARS else f"{content[:MAX_CHARS]}…"


def literal(content: str) -> str:
    """Return one line without control characters or anything that a CI server treats as a command."""
    return _no_command(plain_line(content))


def _no_command(line: str) -> str:
    line = _COMMAND_INSIDE.sub("## ", line)
    return f"\\{line}" if line.lstrip().startswith("::") else line
