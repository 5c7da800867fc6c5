"""Sections on what happened: how trials ended, which errors they met, what became of faults, how many steps they took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from loopbench.metrics.comparison import ArmInfo, ArmResult
from loopbench.metrics.record import Record
from loopbench.metrics.statistics import event_rate
from loopbench.metrics.summary import count_faults
from loopbench.text.numbers import interval, short_name

from .charts import grouped, steps
from .document import UNKNOWN, Amount, Cell, Figure, Grid, PageSection, Subsection


def errors_section(arms: Sequence[ArmResult]) -> PageSection | None:
    """How trials ended, and the errors within them by kind. None where nothing ran."""
    ended = _counts("Trials by how they ended", arms, lambda arm: arm.summary.stops, of_all=True)
    met = _counts("Errors by kind, over all scored trials", arms, lambda arm: arm.summary.errors, of_all=False)
    parts = [
        Subsection(title, (grid,)) for title, grid in (("How trials ended", ended), ("Errors by kind", met)) if grid is not None
    ]
    return PageSection("errors", "Endings and errors", tuple(parts)) if parts else None


def _counts(caption: str, arms: Sequence[ArmResult], of: Callable[[ArmResult], Mapping[str, int]], *, of_all: bool) -> Grid | None:
    """A row per arm, a column per kind, the most frequent first; bars are shares of the arm's trials, or of the greatest count."""
    total = sum((Counter(of(arm)) for arm in arms), Counter[str]())
    kinds = sorted(total, key=lambda kind: (-total[kind], kind))
    if not kinds:
        return None
    most = max(count for arm in arms for count in of(arm).values())
    rows = []
    for arm in arms:
        whole = max(arm.summary.scored, 1) if of_all else most
        found = of(arm)
        rows.append((arm.info.arm, *(_bar(found.get(kind, 0), whole) for kind in kinds)))
    return Grid(caption, ("arm", *kinds), tuple(rows))


def _bar(count: int, whole: int) -> Cell:
    return Amount(str(count), count / whole) if count else "0"


def recovery_section(records: Sequence[Record], arms: Sequence[ArmResult]) -> PageSection | None:
    """Of the faults that reached a loop, how many it got over, kind by kind. None where no fault landed."""
    grids = []
    groups = grouped(arms)
    for name, members in groups.items():
        grid = _recovery(records, [arm.info for arm in members], name)
        if grid is not None:
            grids.append(Subsection(name, (grid,)) if len(groups) > 1 else grid)
    return PageSection("recovery", "Recovery by fault", tuple(grids)) if grids else None


def _recovery(records: Sequence[Record], arms: Sequence[ArmInfo], name: str) -> Grid | None:
    scored = {info.arm: [record for record in records if record.arm == info.arm and record.status == "scored"] for info in arms}
    landed = Counter(fault.kind for found in scored.values() for record in found for fault in record.faults if fault.landed)
    if not landed:
        return None
    kinds = sorted(landed, key=lambda kind: (-landed[kind], kind))
    rows = [("all", *(_all(found) for found in scored.values()))]
    rows += [(kind, *(_of_kind(found, kind) for found in scored.values())) for kind in kinds]
    caption = f"{name}: share recovered of the faults that landed and were not absorbed"
    return Grid(caption, ("fault", *map(short_name, arms)), tuple(rows))


def _all(records: Sequence[Record]) -> Cell:
    counts = count_faults(records)
    rate = event_rate(counts.recovered, counts.landed - counts.absorbed)
    if rate is None:
        return Amount(UNKNOWN, 0.0, f"{counts.absorbed} absorbed") if counts.absorbed else UNKNOWN
    return Amount(interval(rate, 2), rate.value, _of(counts.recovered, rate.n, counts.absorbed))


def _of_kind(records: Sequence[Record], kind: str) -> Cell:
    faults = [fault for record in records for fault in record.faults if fault.kind == kind and fault.landed]
    hurt = [fault for fault in faults if not fault.absorbed]
    absorbed = len(faults) - len(hurt)
    if not hurt:
        return Amount(UNKNOWN, 0.0, f"{absorbed} absorbed") if absorbed else UNKNOWN
    recovered = sum(fault.recovered for fault in hurt)
    return Amount(f"{recovered / len(hurt):.2f}", recovered / len(hurt), _of(recovered, len(hurt), absorbed))


def _of(recovered: int, hurt: int, absorbed: int) -> str:
    return f"{recovered} of {hurt}" + (f", {absorbed} absorbed" if absorbed else "")


def steps_section(records: Sequence[Record], arms: Sequence[ArmResult]) -> PageSection | None:
    """How many steps trials took, solved or not. None where none was scored."""
    known = [record for record in records if record.status == "scored" and "steps" not in record.unknown]
    rows = [row for arm in arms if (row := _steps(arm.info.arm, known)) is not None]
    if not rows:
        return None
    read = "One histogram per arm, on one scale; a step is one reply to a deciding request."
    columns = ("arm", "solved", "their median", "not solved", "their median", "90 % within", "most")
    infos = [arm.info for arm in arms]
    grid = Grid("Steps of scored trials", columns, tuple(rows))
    return PageSection("steps", "Steps", (Figure(steps(known, infos), read), grid))


def _steps(arm: str, records: Sequence[Record]) -> tuple[str, ...] | None:
    scored = [record for record in records if record.arm == arm]
    if not scored:
        return None
    solved = [record.steps for record in scored if record.accuracy >= 1]
    missed = [record.steps for record in scored if record.accuracy < 1]
    every = sorted(record.steps for record in scored)
    most = every[-1]
    within = every[min(len(every) - 1, -(-9 * len(every) // 10) - 1)]
    return (arm, str(len(solved)), _median(solved), str(len(missed)), _median(missed), str(within), str(most))


def _median(values: Iterable[int]) -> str:
    found = sorted(values)
    if not found:
        return UNKNOWN
    half = len(found) // 2
    return f"{found[half] if len(found) % 2 else (found[half - 1] + found[half]) / 2:g}"
