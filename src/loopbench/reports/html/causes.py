"""Sections on why trials were lost: causes pair by pair, tasks worth a look, and chosen trials side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from loopbench.experiments.compare.results import Results
from loopbench.experiments.why.why import ArmLosses, Parted, Why, comparable, why
from loopbench.metrics.tasks import ArmFinding, GroupFindings, TaskFinding
from loopbench.metrics.trajectory.divergence import Cause, Divergence
from loopbench.runs.folders import run_name
from loopbench.runs.store.files import RunError
from loopbench.runs.store.traces import Traces
from loopbench.text.numbers import interval, short_name

from .charts import grouped
from .document import UNKNOWN, Amount, Block, Cell, Code, Folded, Grid, Items, PageLink, PageSection, Paragraph, Subsection
from .names import group_name
from .side_by_side import show_command, side_by_side

MAX_TRACES = 8
"""Pairs of trials side by side."""
MAX_TASKS = 40
"""Of a group, in the table of tasks."""
MAX_IDS = 12

Trial = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class LossFindings:
    """What is known of a run's losses, and which of them are shown side by side."""

    found: Results
    why: Why
    chosen: Mapping[Trial, tuple[str, Divergence]]
    """Lost trial → id on the page, and where it parts from another."""


def told(found: Results, prefix: str) -> LossFindings:
    """`prefix`: of the ids that links lead to. Raises RunError for a trace that is missing, or none."""
    explained = why(found, arms=() if comparable(found) else None, most=1)
    if explained.is_unparted:
        explained = why(found, most=1)
    picked = pick(explained.pairs, MAX_TRACES)
    before = f"{prefix}-" if prefix else ""
    ids = {(one.loser, one.task, one.repeat): (f"{before}trace-{number}", one) for number, one in enumerate(picked, 1)}
    return LossFindings(found, explained, ids)


def pick(pairs: Sequence[Parted], most: int) -> list[Divergence]:
    """Of each loser and cause one example, of what cost most trials first; no trial twice."""
    weighed = [(pair.causes[one.loser][one.cause], one) for pair in pairs for one in pair.divergences]
    picked: list[Divergence] = []
    seen: set[tuple[str, str]] = set()
    for _, one in sorted(weighed, key=lambda item: -item[0]):
        new = (one.loser, one.cause) not in seen
        if new and len(picked) < most and all((one.loser, one.task) != (other.loser, other.task) for other in picked):
            seen.add((one.loser, one.cause))
            picked.append(one)
    return picked


# --- causes ---


def why_section(told: LossFindings) -> PageSection | None:
    """Per pair, the trials that one lost to the other, by cause. None where nothing was lost, or nothing is known of it."""
    infos = {arm.info.arm: arm.info for arm in told.found.comparison.arms}
    groups = grouped(told.found.comparison.arms)
    blocks: list[Block] = []
    for name in groups:
        pairs = [pair for pair in told.why.pairs if group_name(infos[pair.a]) == name]
        names = {arm.info.arm: short_name(arm.info) for arm in groups[name]}
        grid = _causes(pairs, names)
        if grid is not None:
            blocks.append(Subsection(name, (grid,)) if len(groups) > 1 else grid)
    alone = _alone(told.why.arms)
    if alone is not None:
        blocks.append(alone)
    examples = _examples(told)
    if examples is not None:
        blocks.append(Folded(f"An example of each ({len(examples.rows)})", (examples,)))
    if told.why.untraced:
        blocks.append(Paragraph(f"{told.why.untraced} lost trials have no trace to say why.", "quiet"))
    return PageSection("why", "Why trials were lost", tuple(blocks)) if blocks else None


def _causes(pairs: Sequence[Parted], names: Mapping[str, str]) -> Grid | None:
    sides = [(pair, loser, winner, lost) for pair in pairs for loser, winner, lost in _sides(pair) if lost]
    total = sum((Counter(pair.causes[loser]) for pair, loser, _, _ in sides), Counter[Cause]())
    if not total:
        return None
    kinds = sorted(total, key=lambda kind: (-total[kind], kind))
    rows = tuple(
        (f"{names[loser]} to {names[winner]}", str(lost), *(_share(pair.causes[loser].get(kind, 0), lost) for kind in kinds))
        for pair, loser, winner, lost in sorted(sides, key=lambda side: -side[3])
    )
    return Grid(
        "Trials that an arm lost while the other solved the same task and repeat, by cause", ("lost", "trials", *kinds), rows
    )


def _sides(pair: Parted) -> tuple[tuple[str, str, int], tuple[str, str, int]]:
    """Loser, winner, and how many trials it lost to it."""
    return (pair.b, pair.a, pair.only_a), (pair.a, pair.b, pair.only_b)


def _share(count: int, whole: int) -> Cell:
    return Amount(str(count), count / whole) if count else "0"


def _alone(arms: Sequence[ArmLosses]) -> Grid | None:
    """The losses of arms that are compared with none."""
    total = sum((Counter(arm.causes) for arm in arms), Counter[Cause]())
    if not total:
        return None
    kinds = sorted(total, key=lambda kind: (-total[kind], kind))
    rows = tuple((arm.arm, str(arm.lost), *(_share(arm.causes.get(kind, 0), arm.lost) for kind in kinds)) for arm in arms)
    return Grid("Trials that were not solved, by cause", ("arm", "lost", *kinds), rows)


def _examples(told: LossFindings) -> Grid | None:
    """A row for each lost trial that stands for a cause: where, why, and how to read all of it."""
    found: dict[Trial, tuple[str, Cause, str]] = {}
    for pair in told.why.pairs:
        for one in pair.divergences:
            found.setdefault((one.loser, one.task, one.repeat), (one.winner, one.cause, one.detail))
    for arm in told.why.arms:
        for lost in arm.examples:
            found.setdefault((arm.arm, lost.task, lost.repeat), (UNKNOWN, lost.loss.cause, lost.loss.detail))
    run = run_name(told.found.folder)
    rows = tuple(
        (
            f"{loser}/{task}/{repeat}",
            winner,
            cause,
            f"{detail}.",
            PageLink("side by side", told.chosen[loser, task, repeat][0]) if (loser, task, repeat) in told.chosen else UNKNOWN,
            Code(show_command(run, f"{loser}/{task}/{repeat}")),
        )
        for (loser, task, repeat), (winner, cause, detail) in found.items()
    )
    columns = ("lost trial", "solved by", "cause", "what happened", "trace", "all of it")
    return Grid("Lost trials", columns, rows) if rows else None


# --- tasks ---


def tasks_section(found: Why) -> PageSection | None:
    """Tasks that are flaky, that no arm or only one solves, that are claimed and wrong; and steps that were wasted."""
    groups = [group for group in found.findings.groups if group.tasks]
    if not groups:
        return None
    blocks: list[Block] = []
    for group in groups:
        own = tuple(_tasks(group))
        blocks += [Subsection(f"{group.suite}, {group.profile}", own)] if len(groups) > 1 else own
    return PageSection("tasks", "Tasks", tuple(blocks))


def _tasks(group: GroupFindings) -> Iterator[Block]:
    said = tuple(line for line in (_unsolved(group), _flaky(group)) if line)
    if said:
        yield Items(said)
    rows = tuple(_arm(arm) for arm in group.arms)
    columns = ("arm", "solved alone", "flaky tasks", "false success", "wasted steps", "repeated calls")
    yield Grid("Per arm; steps beyond the cheapest trial that solved the task, and calls made again, per trial", columns, rows)
    if group.notable:
        arms = [arm.arm for arm in group.arms]
        names = tuple(arm.removesuffix(f"/{group.profile}") for arm in arms)
        shown = sorted(group.notable, key=lambda task: (*(kind not in task.kinds for kind in _KINDS), task.task))[:MAX_TASKS]
        heads = ("task", "is", *names, "false success", "wasted steps", "repeated calls")
        caption = f"Tasks worth a look, {len(shown)} of {len(group.notable)}; solved trials of each arm"
        yield Folded(
            f"Tasks worth a look ({len(group.notable)})", (Grid(caption, heads, tuple(_task(task, arms) for task in shown)),)
        )


_KINDS = ("unsolved", "solved by one arm", "flaky", "false success")


def _unsolved(group: GroupFindings) -> str:
    ids = group.of_kind("unsolved")
    return f"No arm solved {_ids(ids)}: too hard for all under this profile, or what they expect is wrong." if ids else ""


def _flaky(group: GroupFindings) -> str:
    ids = group.of_kind("flaky")
    return f"Solved in some repeats and not in others: {_ids(ids)}." if ids else ""


def _ids(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - MAX_IDS} others" if len(ids) > MAX_IDS else ""
    return f"{len(ids)} tasks, {', '.join(ids[:MAX_IDS])}{more}"


def _arm(arm: ArmFinding) -> tuple[Cell, ...]:
    numbers = (interval(arm.false_success, 3), interval(arm.wasted_steps, 2), interval(arm.repeated_calls, 2))
    return arm.arm, str(len(arm.alone)), str(len(arm.flaky)), *numbers


def _task(task: TaskFinding, arms: Sequence[str]) -> tuple[Cell, ...]:
    solved = ("{} of {}".format(*task.solved[arm]) if arm in task.solved else UNKNOWN for arm in arms)
    wasted = UNKNOWN if task.wasted_steps is None else f"{task.wasted_steps:.1f}"
    repeated = UNKNOWN if task.repeated_calls is None else str(task.repeated_calls)
    return task.task, ", ".join(task.kinds), *solved, str(task.false_success), wasted, repeated


# --- side by side ---


def traces_section(told: LossFindings) -> PageSection | None:
    """The chosen trials, each beside one that solved the task. None where there is none. Raises RunError for a missing trace."""
    infos = {arm.info.arm: arm.info for arm in told.found.comparison.arms}
    records = {record.key: record for record in told.found.records}
    parts, called, traces = [], run_name(told.found.folder), Traces(told.found.folder)
    for anchor, one in told.chosen.values():
        winner, loser = (traces.read(records[arm, one.task, one.repeat]) for arm in (one.winner, one.loser))
        try:
            both = side_by_side((winner, loser), called)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RunError(f"{told.found.folder}: trace of task {one.task!r}: {error}") from None
        names = f"{short_name(infos[one.winner])} and {short_name(infos[one.loser])}, {infos[one.loser].profile}"
        said = f"They part at step {one.step} of {short_name(infos[one.loser])}, which lost it; {one.cause}: {one.detail}."
        folded = Folded("Both trials, step by step", (Paragraph(str(loser["query"]), "quote"), both), anchor)
        parts.append(Subsection(f"{one.task}: {names}", (Paragraph(said), folded)))
    return PageSection("traces", "Trials side by side", tuple(parts)) if parts else None
