"""Sections on the course of trials: how they ended, their errors, recovery from faults, and how many steps they took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from whichloop.metrics.arm_info import ArmInfo, are_imported
from whichloop.metrics.comparison import ArmResult
from whichloop.metrics.record import Record
from whichloop.metrics.record_table import alike, records_by_arm, where
from whichloop.metrics.statistics import event_rate
from whichloop.metrics.summary import count_faults
from whichloop.text.numbers import interval, short_name

from .document import UNKNOWN, Amount, Cell, Figure, Grid, PageSection, Subsection, count_bar, section_or_none, under_headings
from .grouping import arms_by_group, by_frequency
from .histograms import steps_chart


def errors_section(arms: Sequence[ArmResult]) -> PageSection | None:
    """Return the section on how trials ended, and on their errors by kind; None if nothing ran."""
    endings = _counts("Trials, by how they ended", arms, lambda arm: arm.summary.stops, of_all=True)
    errors = _counts("Errors in all scored trials, by kind", arms, lambda arm: arm.summary.errors, of_all=False)
    parts = [Subsection(title, (grid,)) for title, grid in (("Endings", endings), ("Errors", errors)) if grid is not None]
    return section_or_none("errors", "How trials ended, and their errors", parts)


def _counts(caption: str, arms: Sequence[ArmResult], of: Callable[[ArmResult], Mapping[str, int]], *, of_all: bool) -> Grid | None:
    """Return a row per arm, a column per kind by frequency; bars are shares of the arm's trials, or of the highest count."""
    kinds = by_frequency(sum((Counter(of(arm)) for arm in arms), Counter[str]()))
    if not kinds:
        return None
    most = max(count for arm in arms for count in of(arm).values())
    rows = []
    for arm in arms:
        whole = max(arm.summary.scored, 1) if of_all else most
        rows.append((arm.info.arm, *(count_bar(of(arm).get(kind, 0), whole) for kind in kinds)))
    return Grid(caption, ("arm", *kinds), tuple(rows))


def recovery_section(records: Sequence[Record], arms: Sequence[ArmResult]) -> PageSection | None:
    """Return the section on how many faults that reached a loop it recovered from, by kind; None if no fault landed."""
    groups = arms_by_group(arms).items()
    blocks = under_headings((name, _recovery(records, [arm.info for arm in members], name)) for name, members in groups)
    return section_or_none("recovery", "Recovery from faults", blocks)


def _recovery(records: Sequence[Record], arms: Sequence[ArmInfo], name: str) -> list[Grid]:
    scored = {arm: where(trials, lambda record: record.status == "scored") for arm, trials in records_by_arm(records, arms).items()}
    landed = Counter(
        fault.kind for trials in scored.values() for record in alike(trials) for fault in record.faults if fault.landed
    )
    if not landed:
        return []
    rows = [("all", *(_all_faults(trials) for trials in scored.values()))]
    rows += [(kind, *(_faults_of_kind(trials, kind) for trials in scored.values())) for kind in by_frequency(landed)]
    if any(fault.landed and fault.implicit for trials in scored.values() for record in alike(trials) for fault in record.faults):
        rows.append(("implicit, in wrong trials", *(_implicit(trials) for trials in scored.values())))
    caption = f"{name}: of the faults that spoiled something, the share after which the loop still got the true result"
    return [Grid(caption, ("fault", *map(short_name, arms)), tuple(rows))]


def _all_faults(records: Sequence[Record]) -> Cell:
    counts = count_faults(records)
    rate = event_rate(counts.recovered, counts.landed - counts.absorbed)
    if rate is None:
        return Amount(UNKNOWN, 0.0, f"{counts.absorbed} absorbed") if counts.absorbed else UNKNOWN
    return Amount(interval(rate, 2), rate.value, _recovered_text(counts.recovered, rate.n, counts.absorbed))


def _implicit(records: Sequence[Record]) -> Cell:
    """Return the share of the landed implicit failures of tools whose trial went wrong, and how many the model believed."""
    counts = count_faults(records)
    rate = event_rate(counts.implicit_wrong, counts.implicit)
    if rate is None:
        return UNKNOWN
    return Amount(interval(rate, 2), rate.value, f"{counts.implicit_wrong} of {counts.implicit}, {counts.believed} believed")


def _faults_of_kind(records: Sequence[Record], kind: str) -> Cell:
    faults = [fault for record in alike(records) for fault in record.faults if fault.kind == kind and fault.landed]
    hurt = [fault for fault in faults if not fault.absorbed]
    absorbed = len(faults) - len(hurt)
    if not hurt:
        return Amount(UNKNOWN, 0.0, f"{absorbed} absorbed") if absorbed else UNKNOWN
    recovered = sum(fault.recovered for fault in hurt)
    return Amount(f"{recovered / len(hurt):.2f}", recovered / len(hurt), _recovered_text(recovered, len(hurt), absorbed))


def _recovered_text(recovered: int, hurt: int, absorbed: int) -> str:
    return f"{recovered} of {hurt}" + (f", {absorbed} absorbed" if absorbed else "")


def steps_section(records: Sequence[Record], arms: Sequence[ArmResult]) -> PageSection | None:
    """Return the section on how many steps trials took, solved or not; None if none was scored."""
    known_records = where(records, lambda record: record.status == "scored" and "steps" not in record.unknown)
    rows = [row for arm in arms if (row := _steps(arm.info.arm, known_records)) is not None]
    if not rows:
        return None
    is_ours = not are_imported(arm.info for arm in arms)
    a_step = "a reply of the model to a request that asks what to do next" if is_ours else "what the imported files count as one"
    read = f"How many trials took how many steps. A step is {a_step}."
    columns = ("arm", "solved", "median steps", "not solved", "median steps", "90 % within", "most")
    infos = [arm.info for arm in arms]
    grid = Grid("Steps of the scored trials", columns, tuple(rows))
    return PageSection("steps", "Steps per trial", (Figure(steps_chart(known_records, infos), read), grid))


def _steps(arm: str, records: Sequence[Record]) -> tuple[str, ...] | None:
    scored = [record for record in alike(records) if record.arm == arm]
    if not scored:
        return None
    solved = [record.steps for record in scored if record.is_solved]
    missed = [record.steps for record in scored if not record.is_solved]
    every = sorted(record.steps for record in scored)
    most = every[-1]
    within = every[min(len(every) - 1, -(-9 * len(every) // 10) - 1)]
    return (arm, str(len(solved)), _median(solved), str(len(missed)), _median(missed), str(within), str(most))


def _median(values: Sequence[int]) -> str:
    return f"{median(values):g}" if values else UNKNOWN
