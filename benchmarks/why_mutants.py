"""Whether `report --why` names a planted defect: loops with one defect each, on tasks that the same loop solves without it.

python benchmarks/why_mutants.py [--share S] [--write]

--write renews the table in docs/why.md. A defect counts where it cost a task: the trial is held against the
sound loop's of the same task, and explained by itself.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))  # loops are named `benchmarks.loop_mutants:…`, wherever this runs

from benchmarks.comparing import folder_of_run  # noqa: E402
from benchmarks.loop_defects import DEFECTS  # noqa: E402
from benchmarks.pages import head, make_tables, row  # noqa: E402
from whichloop.experiments.compare.results import Results, results  # noqa: E402
from whichloop.experiments.why.losses import losses_explained  # noqa: E402

PAGE = ROOT / "docs" / "why.md"
LOOPS = ("bare", "bare(decision_format=native)", "finish", "phased", "react_extract", "stateless")
SUITES = ("arithmetic", "ecommerce", "events", "library")
TASKS = 10


@dataclass(slots=True)
class DefectCount:
    """What `why` said about trials that one kind of defect cost."""

    name: str
    against: Counter[str] = field(default_factory=Counter)
    """Cause → trials, held against the sound loop's."""
    alone: Counter[str] = field(default_factory=Counter)
    """Cause → the same trials, each by itself."""
    details: list[str] = field(default_factory=list)

    @property
    def cause(self) -> str:
        return str(DEFECTS[self.name].cause)

    @property
    def lost(self) -> int:
        return self.against.total()

    @property
    def named(self) -> tuple[float, float]:
        """Shares of trials whose cause was named, against the sound loop's and alone; 0 where nothing was lost."""
        return tuple(counted[self.cause] / max(1, counted.total()) for counted in (self.against, self.alone))  # type: ignore[return-value]


def counted(
    defects: Iterable[str], *, loops: Sequence[str] = LOOPS, suites: Sequence[str] = SUITES, tasks: int = TASKS
) -> dict[str, DefectCount]:
    """Run each defect planted into each loop, and count what `why` says, by defect."""
    made = {defect: DefectCount(defect) for defect in defects}
    profiles = sorted({DEFECTS[defect].profile for defect in made})
    for suite in suites:
        for profile in profiles:
            mine = [defect for defect in made if DEFECTS[defect].profile == profile]
            for loop in loops:
                arms = (loop, *(f'benchmarks.loop_mutants:Mutant(loop="{loop}", defect={defect})' for defect in mine))
                with tempfile.TemporaryDirectory() as runs:
                    _count(made, results(folder_of_run(arms, suite, (profile,), runs, tasks=tasks), paired=False))
    return made


def _count(made: Mapping[str, DefectCount], found: Results) -> None:
    """Add one run's losses; its first arm is the sound loop."""
    sound, *others = [arm.info.arm for arm in found.comparison.arms]
    reasons = losses_explained(found, pairs=[(sound, other) for other in others], arms=others)
    alone = {(arm.arm, lost.task, lost.repeat): lost.cause for arm in reasons.arms for lost in arm.examples}
    for pair in reasons.pairs:
        for parted in pair.divergences:
            if parted.loser != sound:
                its = made[_defect_of(parted.loser)]
                its.against[parted.cause] += 1
                its.alone[alone[parted.loser, parted.task, parted.repeat]] += 1
                its.details.append(f"{parted.loser}/{parted.task} {parted.cause}: {parted.detail}")


def _defect_of(arm: str) -> str:
    found = re.search(r"defect=(\w+)", arm)
    assert found is not None
    return found[1]


def table(counts: Iterable[DefectCount]) -> list[str]:
    """Return the Markdown table: a row per cause that is planted, and the sum in its last row."""
    by_cause: dict[str, list[DefectCount]] = {}
    for each in counts:
        by_cause.setdefault(each.cause, []).append(each)
    listed = [each for group in by_cause.values() for each in group]
    rows = [_row(cause, group) for cause, group in by_cause.items()]
    return [*head("planted cause", "kinds", "lost", "named", "named, alone", "worst kind"), *rows, _row("all", listed)]


def _row(name: str, group: Sequence[DefectCount]) -> str:
    named = (sum(getattr(each, side)[each.cause] for each in group) for side in ("against", "alone"))
    worst: float = min(min(each.named) for each in group)
    return str(row(name, len(group), sum(each.lost for each in group), *named, f"{worst:.3f}"))


if __name__ == "__main__":
    make_tables(__doc__, PAGE, {"mutants": lambda share: table(counted(DEFECTS, tasks=round(share * TASKS)).values())})
