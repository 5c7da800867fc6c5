"""Sections on why trials were lost: causes pair by pair, tasks worth a look, and chosen trials side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from whichloop.experiments.compare.results import Results
from whichloop.experiments.why.arms import errored_in_words, grades_in_words, how_they_ended, numbers_in_words, untraced_in_words
from whichloop.experiments.why.base_rates import LOST_ONLY, MAX_SOLVED, doubts_in_words
from whichloop.experiments.why.why import ArmLosses, PairLosses, Why, losses_explained
from whichloop.metrics.arm_info import IMPORTED, ArmInfo
from whichloop.metrics.record_table import of_tasks
from whichloop.metrics.tasks import ArmFinding, GroupFindings, TaskFinding
from whichloop.metrics.trajectory.causes import Cause, Divergence, meaning_of
from whichloop.protocol.values import counted
from whichloop.runs.folders import run_name
from whichloop.runs.store.traces import Traces
from whichloop.text.numbers import interval, p_value, short_name

from .document import (
    UNKNOWN,
    Block,
    Cell,
    Code,
    Folded,
    Grid,
    Items,
    PageLink,
    PageSection,
    Paragraph,
    Subsection,
    count_bar,
    section_or_none,
    under_headings,
)
from .grouping import arms_by_group, by_frequency, group_by, group_name, in_order
from .side_by_side import show_command, side_by_side

MAX_TRACES = 8
"""Most pairs of trials that are shown side by side."""
MAX_TASKS = 40
"""Most tasks of a group in the table."""
MAX_IDS = 12

Trial = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class LossFindings:
    """A run's losses, and which of them the page shows side by side."""

    results: Results
    why: Why
    chosen: Mapping[Trial, tuple[str, Divergence]]
    """Lost trial → its id on the page, and where it diverges from another."""


def find_losses(results: Results, prefix: str) -> LossFindings:
    """Return a run's losses. `prefix`: begins the ids that links lead to.

    Raises RunError for a missing or damaged trace.
    """
    explained = losses_explained(results, most=1)
    examples = choose_examples(explained.pairs, MAX_TRACES)
    before = f"{prefix}-" if prefix else ""
    ids = {(one.loser, one.task, one.repeat): (f"{before}trace-{number}", one) for number, one in enumerate(examples, 1)}
    return LossFindings(results, explained, ids)


def choose_examples(pairs: Sequence[PairLosses], most: int) -> list[Divergence]:
    """Return one example of each loser and cause, the costliest causes first; no trial is a duplicate."""
    weighed = [(pair.causes[divergence.loser][divergence.cause], divergence) for pair in pairs for divergence in pair.divergences]
    examples: list[Divergence] = []
    seen: set[tuple[str, str]] = set()
    for _, divergence in sorted(weighed, key=lambda item: -item[0]):
        is_new = (divergence.loser, divergence.cause) not in seen
        if (
            is_new
            and len(examples) < most
            and all((divergence.loser, divergence.task) != (chosen.loser, chosen.task) for chosen in examples)
        ):
            seen.add((divergence.loser, divergence.cause))
            examples.append(divergence)
    return examples


# --- causes ---


def why_section(losses: LossFindings) -> PageSection | None:
    """Return the section on what trials were lost to: sums per arm, then pair by pair, folded; None if no loss is explained."""
    compared = losses.results.comparison.arms
    infos = {arm.info.arm: arm.info for arm in compared}
    names = {arm: short_name(info) for arm, info in infos.items()}
    pairs = group_by(losses.why.pairs, lambda pair: group_name(infos[pair.a]))
    lost = {arm.arm: arm for arm in losses.why.arms}
    blocks = under_headings(
        (
            name,
            [
                *_sums([lost[arm.info.arm] for arm in arms if arm.info.arm in lost], names, arms[0].info.subject),
                *_causes(pairs.get(name, ()), names, arms[0].info.subject),
            ],
        )
        for name, arms in arms_by_group(compared).items()
    )
    examples = _examples(losses)
    if examples is not None:
        blocks.append(Folded(f"An example of each ({len(examples.rows)})", (examples,)))
    if losses.why.untraced:
        blocks.append(Paragraph(untraced_in_words(losses.results, losses.why), "quiet"))
        endings = [f"{names[arm.arm]}: {how}" for arm in losses.why.arms if (how := how_they_ended(arm))]
        if notes := tuple(filter(None, [grades_in_words(losses.why.arms), *endings, errored_in_words(losses.why.arms)])):
            blocks.append(Items(notes, "quiet"))
    return section_or_none("why", "Why trials were lost", blocks)


def _causes(pairs: Sequence[PairLosses], names: Mapping[str, str], subject: str) -> list[Block]:
    """Return the trials that one arm of a pair lost to the other, folded."""
    sides = [(pair, loser, winner, lost) for pair in pairs for loser, winner, lost in _sides(pair) if lost]
    total = sum((Counter(pair.causes[loser]) for pair, loser, _, _ in sides), Counter[Cause]())
    if not total:
        return []
    kinds = by_frequency(total)
    rows = tuple(
        (names[loser], names[winner], str(lost), *(count_bar(pair.causes[loser].get(kind, 0), lost) for kind in kinds))
        for pair, loser, winner, lost in sorted(sides, key=lambda side: -side[3])
    )
    caption = f"Trials that one {subject} lost while another solved the same task, by the cause of the loss"
    return [Folded(f"Pair by pair ({len(rows)})", (Grid(caption, ("lost by", "solved by", "trials", *kinds), rows),))]


def _sides(pair: PairLosses) -> tuple[tuple[str, str, int], tuple[str, str, int]]:
    """Return loser, winner, and how many trials the one lost to the other, both ways."""
    return (pair.b, pair.a, pair.only_a), (pair.a, pair.b, pair.only_b)


def _sums(arms: Sequence[ArmLosses], names: Mapping[str, str], subject: str) -> list[Block]:
    """Return a table of all losses of each arm, by cause."""
    total = sum((Counter(arm.causes) for arm in arms), Counter[Cause]())
    if not total:
        return []
    kinds = by_frequency(total)
    rows = tuple(
        (names[arm.arm], f"{arm.lost} of {arm.trials}", *(count_bar(arm.causes.get(kind, 0), arm.lost) for kind in kinds))
        for arm in arms
    )
    split = [f"{names[arm.arm]}: {numbers}" for arm in arms if (numbers := numbers_in_words(arm.kinds.get("parse", {})))]
    unread = [Paragraph(f"Trials lost to replies that could not be read, by kind: {'; '.join(split)}.")] if split else []
    meanings = Items(tuple(f"{kind}: {meaning_of(kind, subject)}" for kind in kinds), "quiet")
    grid = Grid("Trials that were not solved, by cause", (subject, "lost", *kinds), rows)
    return [grid, *unread, meanings, *_base_rates(arms, names, subject)]


def _base_rates(arms: Sequence[ArmLosses], names: Mapping[str, str], subject: str) -> list[Block]:
    """Return how many solved trials show each cause, folded, and before it those that are not shown to be one."""
    rows = tuple(
        (
            *(names[arm.arm], cause, f"{rate.lost} of {rate.of_lost}", f"{rate.solved} of {rate.of_solved}", p_value(rate.p)),
            "not shown" if rate.is_doubtful else "stands",
        )
        for arm in arms
        for cause, rate in arm.base_rates.items()
    )
    if not rows:
        return []
    doubts = [f"{names[arm.arm]}: {doubt}" for arm in arms for doubt in doubts_in_words(arm.causes, arm.base_rates)]
    only = "; ".join(f"{cause}, since {reason}" for cause, reason in LOST_ONLY.items())
    caption = (
        f"Trials that show each cause; of solved ones at most {MAX_SOLVED} a run, evenly spread. "
        f"p: Fisher's exact test, one-sided. Without a base rate: {only}"
    )
    columns = (subject, "cause", "lost trials", "solved trials", "p", "as a cause")
    return [
        *([Items(tuple(doubts))] if doubts else []),
        Folded(f"Solved trials that show the same ({len(rows)})", (Grid(caption, columns, rows),)),
    ]


def _examples(losses: LossFindings) -> Grid | None:
    """Return a row for each lost trial that is an example of a cause: where, why, and how to read the whole trace."""
    examples: dict[Trial, tuple[str, Cause, str]] = {}
    for pair in losses.why.pairs:
        for one in pair.divergences:
            examples.setdefault((one.loser, one.task, one.repeat), (one.winner, one.cause, one.detail))
    for arm in () if examples else losses.why.arms:
        for lost in arm.examples:
            examples.setdefault((arm.arm, lost.task, lost.repeat), (UNKNOWN, lost.loss.cause, lost.loss.detail))
    run = run_name(losses.results.folder)
    rows = tuple(
        (
            f"{loser}/{task}/{repeat}",
            winner,
            cause,
            f"{detail}.",
            PageLink("side by side", losses.chosen[loser, task, repeat][0]) if (loser, task, repeat) in losses.chosen else UNKNOWN,
            Code(show_command(run, f"{loser}/{task}/{repeat}")),
        )
        for (loser, task, repeat), (winner, cause, detail) in examples.items()
    )
    columns = ("lost trial", "solved by", "cause", "what happened", "trace", "all of it")
    return Grid("Lost trials", columns, rows) if rows else None


# --- tasks ---


def tasks_section(why: Why, arms: Sequence[ArmInfo]) -> PageSection | None:
    """Return the section on tasks that are flaky, that one arm or none solves or that are falsely claimed, and on wasted steps."""
    groups = [(f"{group.suite}, {group.profile}", list(_tasks(group, arms))) for group in why.findings.groups if group.tasks]
    return section_or_none("tasks", "Tasks, one by one", under_headings(groups))


def _tasks(group: GroupFindings, infos: Sequence[ArmInfo]) -> Iterator[Block]:
    lines = tuple(line for line in (_unsolved(group), _flaky(group)) if line)
    if lines:
        yield Items(lines)
    ordered = in_order(group.arms, infos)
    rows = tuple(_arm(arm) for arm in ordered)
    columns = ("arm", "solved by it alone", "solved in some repeats", "false success", "wasted steps", "repeated calls")
    means = any(arm.wasted_steps is not None for arm in ordered)
    wasted = "; wasted steps are those beyond the shortest trial that solved the task" if means else ""
    caption = f"Counts of tasks, then means per trial{wasted}"
    yield _without_unknown(caption, columns, rows)
    if group.notable:
        arms = [arm.arm for arm in ordered]
        names = tuple(arm.removesuffix(f"/{group.profile}") for arm in arms)
        listed = sorted(group.notable, key=lambda task: (*(kind not in task.kinds for kind in _KINDS), task.task))[:MAX_TASKS]
        heads = ("task", "is", *names, "false success", "wasted steps", "repeated calls")
        caption = f"Tasks worth a look, {len(listed)} of {len(group.notable)}; solved trials of each arm"
        grid = _without_unknown(caption, heads, tuple(_task(task, arms) for task in listed))
        yield Folded(f"Tasks worth a look ({len(group.notable)})", (grid,))


def _without_unknown(caption: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Grid:
    """Return a table without the columns in which nothing is known of any row."""
    places = [place for place in range(len(columns)) if any(row[place] != UNKNOWN for row in rows)]
    return Grid(caption, tuple(columns[place] for place in places), tuple(tuple(row[place] for place in places) for row in rows))


_KINDS = ("unsolved", "solved by one arm", "flaky", "false success")


def _unsolved(group: GroupFindings) -> str:
    ids = group.of_kind("unsolved")
    under = "" if group.profile == IMPORTED else " under this profile"
    return f"No arm solved {_ids(ids)}: too hard for all arms{under}, or their expected answers are wrong." if ids else ""


def _flaky(group: GroupFindings) -> str:
    ids = group.of_kind("flaky")
    return f"Solved in some repeats and not in others: {_ids(ids)}." if ids else ""


def _ids(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - MAX_IDS} others" if len(ids) > MAX_IDS else ""
    return f"{counted(len(ids), 'task')}, {', '.join(ids[:MAX_IDS])}{more}"


def _arm(arm: ArmFinding) -> tuple[Cell, ...]:
    numbers = (interval(arm.false_success, 3), interval(arm.wasted_steps, 2), interval(arm.repeated_calls, 2))
    return arm.arm, str(len(arm.alone)), str(len(arm.flaky)), *numbers


def _task(task: TaskFinding, arms: Sequence[str]) -> tuple[Cell, ...]:
    solved = ("{} of {}".format(*task.solved[arm]) if arm in task.solved else UNKNOWN for arm in arms)
    wasted = UNKNOWN if task.wasted_steps is None else f"{task.wasted_steps:.1f}"
    repeated = UNKNOWN if task.repeated_calls is None else str(task.repeated_calls)
    claimed = UNKNOWN if task.false_success is None else str(task.false_success)
    return task.task, ", ".join(task.kinds), *solved, claimed, wasted, repeated


# --- side by side ---


def traces_section(losses: LossFindings) -> PageSection | None:
    """Return the chosen lost trials, each beside a solved one; None if none was chosen. Raises RunError if a trace is missing."""
    infos = {arm.info.arm: arm.info for arm in losses.results.comparison.arms}
    task_records = of_tasks(losses.results.records, {one.task for _, one in losses.chosen.values()})
    records = {record.key: record for record in task_records}
    parts, called, traces = [], run_name(losses.results.folder), Traces(losses.results.folder)
    for anchor, one in losses.chosen.values():
        winner, loser = (traces.read(records[arm, one.task, one.repeat]) for arm in (one.winner, one.loser))
        both = side_by_side((winner, loser), called)
        names = f"{short_name(infos[one.winner])} and {short_name(infos[one.loser])}, {infos[one.loser].profile}"
        lost = f"{short_name(infos[one.loser])}, which lost it, at step {one.step}: {one.cause}, {one.detail}"
        summary = f"They part at step {one.parts_at} of {lost}."
        folded = Folded("Both trials, step by step", (Paragraph(loser.head.query, "quote"), both), anchor)
        parts.append(Subsection(f"{one.task}: {names}", (Paragraph(summary), folded)))
    return section_or_none("traces", "Lost trials beside solved ones", parts)
