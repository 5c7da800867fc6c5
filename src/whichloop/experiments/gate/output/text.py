"""The gate's result for people: whole as plain text and as Markdown. `to_junit` and `github_annotations` are for CI servers.

Names and details may come from a model, a tool or a file: each output takes them literally, and no text can end its line, its cell,
its element or its command.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from whichloop.experiments.compare.tables import outlook_in_words
from whichloop.experiments.gate.data.outcome import GateResult, Side, StopChange, TaskChange
from whichloop.experiments.gate.data.troubles import literal, short_arm
from whichloop.metrics.gate import OPEN, GateLine, agreeing_tasks
from whichloop.protocol.values import counted
from whichloop.text.doc import Doc, Lines, Table, markdown_item, markdown_literal
from whichloop.text.doc import to_markdown as doc_to_markdown
from whichloop.text.numbers import counts, listed_names

from .line_words import (
    beside_losses,
    breaks_alone,
    decisive,
    effect_in_words,
    growth_text,
    in_clusters,
    margin_in_words,
    number_in_words,
    outcome_in_words,
    stop_lines,
    stops_alone,
    value_in_words,
    worst_lines,
)
from .next_steps import more_steps, next_steps
from .sentences import AS_IN_THE_BASELINE, further_lines, headline, leading_worst

MAX_TASKS = 20
"""Maximum number of changed tasks in the text outputs; `--json` has all."""
MAX_CHARS = 300
"""Maximum length of a detail."""
TYPICAL = "typical task"
COLUMNS = ("loop/profile", "metric", "baseline", "run", "change", TYPICAL, "margin", "tasks", "p (Holm)", "outcome")
STOP_COLUMNS = ("trial", "score", "was", "is", "what it says", "to see it")


def table(result: GateResult) -> Table:
    """Return a table with a row per arm and metric."""
    rows, place = [_row(result, line) for line in result.lines], COLUMNS.index(TYPICAL)
    places = [at for at in range(len(COLUMNS)) if at != place or any(row[place] for row in rows)]
    columns = tuple(COLUMNS[at] for at in places)
    return Table(f"Run against baseline; {brackets(result)}", columns, tuple(tuple(row[at] for at in places) for row in rows))


def brackets(result: GateResult) -> str:
    """Return what the brackets of the rows are: each end is at the level of the test that it shows."""
    level = f"{100 * (1 - result.alpha):g} %"
    if len(result.lines) == 1:
        return f"brackets: one-sided {level} bounds"
    judged = "metrics" if len({line.arm for line in result.lines}) == 1 else "pairs of arm and metric"
    corrected = f"corrected for the {len(result.lines)} {judged} that are judged (Holm)"
    return f"brackets: one-sided bounds, toward worse at {level}, toward better {corrected}"


def paragraphs(result: GateResult) -> list[str]:
    """Return the lines below the table: growth and worst trials of further metrics, what more tasks may decide, the changes, the
    caveats, and what to do next."""
    leading = leading_worst(result)
    leading_lines = decisive(result)[:1]
    grown = [growth_text(result, line) for line in result.lines if line not in leading_lines]
    others = [worst_lines(worst, paired=result.paired) for worst in result.worst if worst != leading]
    steps = (line for step in (*next_steps(result), *more_steps(result)) for line in step.lines)
    sizes = [*outlooks(result.lines), *remedies(result)]
    return [*filter(None, grown), *(line for lines in others for line in lines), *_facts(result, sizes), *map(literal, steps)]


def outlooks(lines: Iterable[GateLine]) -> Iterator[str]:
    """Yield what more tasks are likely to decide of each line that is open."""
    for line in lines:
        if line.outlook is not None:
            yield f"{short_arm(line.arm)} in {line.metric}: {outlook_in_words(line.outlook, 'this gate decides')}."


def _facts(result: GateResult, sizes: Sequence[str] = ()) -> list[str]:
    """Return the changes and the caveats; `sizes`: what more tasks may decide, which stands between."""
    facts = (
        *breaks_alone(result),
        *stops_alone(result),
        *sizes,
        *filter(None, change_counts(result)),
        *result.notes,
        *result.details,
    )
    return [literal(line) for line in facts]


def for_a_server(result: GateResult) -> list[str]:
    """Return the few lines of an annotation or a test report below what the outcome rests on: the changes, the caveats, and the
    first thing to do next."""
    steps = [step.brief for step in next_steps(result)[:1]]
    changed = (*breaks_alone(result), *stops_alone(result), *filter(None, change_counts(result)))
    return [literal(line) for line in (*changed, *result.notes, *steps)]


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
        for sentence, command in stop_lines(changes, most, most_trials)
        for line in (f"- {literal(sentence)}", *([f"    {literal(command)}"] if command else []))
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
        shown_stops = stops[:MAX_TASKS]
        name = f"Trials with another stop ({len(shown_stops)} of {len(stops)})"
        tables.append(Table(name, STOP_COLUMNS, tuple(map(_stop_row, shown_stops))))
    sizes = [*remedies(result)] if result.outcome == "undecided" else []
    notes = Lines(tuple(("Note", fact) for fact in _facts(result, sizes)))
    head, _, body = doc_to_markdown(Doc(f"Gate: {result.word}", (*tables, notes))).partition("\n\n")
    first_lines = [headline(result), *further_lines(result)]
    return "\n\n".join([head, *map(markdown_item, first_lines), *_step_blocks(result), body])


def _step_blocks(result: GateResult) -> Iterator[str]:
    """Yield what can be done next in Markdown: a sentence, and a block of the commands below it."""
    for step in next_steps(result):
        if step.say:
            yield markdown_item(literal(step.say))
        if step.commands:
            yield markdown_literal("\n".join(map(literal, step.commands)))


# --- text ---


def _row(result: GateResult, line: GateLine) -> tuple[str, ...]:
    return (
        literal(short_arm(line.arm)),
        line.metric,
        value_in_words(line, line.baseline),
        value_in_words(line, line.run),
        effect_in_words(line),
        "" if line.typical is None else f"×{number_in_words(line, line.typical, sign=False)}",
        margin_in_words(line),
        f"{line.tasks}{in_clusters(line)}",
        "<0.001" if line.p_holm < 0.001 else f"{line.p_holm:.3f}",
        outcome_in_words(result, line, worse="worse within the margin"),
    )


def worse_here_in_words(result: GateResult) -> Iterator[str]:
    """Yield what "worse here" means, where a line has this outcome."""
    if any(line.outcome == "worse here" for line in result.lines):
        cause = "a change, and no chance," if result.lead or result.advice.other_cause else "the loop's change"
        yield f"Worse here: {cause} lost these tasks; of other tasks it says nothing."


def remedies(result: GateResult) -> Iterator[str]:
    """Yield what the open lines say and leave open, and how many tasks pass where all agree; the notes tell of larger baselines."""
    open_lines = [line for arm in result.arms if not arm.limit_alone for line in arm.lines if line.outcome in OPEN]
    yield from worse_here_in_words(result)
    if any(line.outcome == "undecided" for line in open_lines):
        yield "Where it is undecided, this run shows neither harm nor that there is none."
    shares = [line for line in open_lines if not line.is_ratio and 0 < line.margin < 1]
    for margin, units in dict.fromkeys((line.margin, line.units) for line in shares):
        agreeing = agreeing_tasks(margin, result.alpha)
        if units < agreeing:
            borne = max(map(shown_margin, [line for line in shares if (line.margin, line.units) == (margin, units)]))
            these = f"; these {units} pass at one of {borne:g}, which is to be chosen before a run, not after" if borne < 1 else ""
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
        stops = f", {counted(became['other'], 'that only ends', 'that only end')} otherwise" if became["other"] else ""
        tasks = f"{changed_unit(result)}: {became['worse']} worse{causes}, {became['better']} better{stops}."
    if result.same_result:
        other = listed_names(result.differs_in) if result.differs_in else "something else"
        more = "more " if result.tasks else ""
        one, many = f"{more}trial {AS_IN_THE_BASELINE}, but differs", f"{more}trials {AS_IN_THE_BASELINE}, but differ"
        same = f"{counted(result.same_result, one, many)} in {other}."
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
