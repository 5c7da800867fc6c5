"""Why trials were lost, as `run.why()` and `whichloop.why` give it: the findings, printed as the command prints them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from whichloop.experiments.compare.results import Results
from whichloop.experiments.why.doc import why_doc
from whichloop.experiments.why.losses import ArmLosses, BaseRate, PairLosses, Why, losses_explained, pairs_named, required_arms
from whichloop.metrics.trajectory.causes import Cause
from whichloop.runs.store.files import RunError
from whichloop.text.doc import Doc

from .frames import to_frame
from .html.page import doc_html

if TYPE_CHECKING:
    import pandas as pd


CAUSES = ("arm", "against", "cause", "trials", "lost", "solved_with", "solved", "p", "doubtful")
DIVERGENCES = ("winner", "loser", "task", "repeat", "step", "parts_at", "cause", "detail", "stop")
TASKS = ("suite", "profile", "task", "kinds", "arm", "solved", "trials", "false_success", "cheapest")
HABITS = ("suite", "profile", "arm", "flaky", "alone", "false_success", "wasted_steps", "repeated_calls")
"""Columns of the tables."""


@dataclass(frozen=True, slots=True, repr=False)
class ShownDoc:
    """What prints as a command prints it, and shows itself in a notebook."""

    doc: Doc

    def __repr__(self) -> str:
        """Return the document as text."""
        return str(self.doc)

    def _repr_html_(self) -> str:
        """Return it for a notebook, details folded."""
        return doc_html(self.doc)


@dataclass(frozen=True, slots=True, repr=False)
class ShownWhy(ShownDoc):
    """The losses of a run and their causes, as `whichloop report --why` prints them, and as tables."""

    finding: Why

    @property
    def arms(self) -> tuple[ArmLosses, ...]:
        """The losses of each arm."""
        return self.finding.arms

    @property
    def pairs(self) -> tuple[PairLosses, ...]:
        """What two arms lost to each other."""
        return self.finding.pairs

    @property
    def causes(self) -> pd.DataFrame:
        """A row per arm and cause of lost trials: `arm`, `cause`, `trials`; of pairs also `against`, the arm that solved them.

        `lost`: trials lost in all of which a trace tells the cause. Of an arm's own rows `solved_with` of `solved` trials show the
        same; `p` is of Fisher's exact test; `doubtful`: not shown to be a cause. They are NA where only a lost trial can have it.
        """
        rows = [
            _cause_row(arm.arm, None, arm.causes, cause, arm.base_rates.get(cause)) for arm in self.arms for cause in arm.causes
        ]
        for pair in self.pairs:
            for arm, against in ((pair.a, pair.b), (pair.b, pair.a)):
                rows += [_cause_row(arm, against, pair.causes[arm], cause) for cause in pair.causes[arm]]
        return to_frame(rows, CAUSES)

    @property
    def divergences(self) -> pd.DataFrame:
        """A row per trial that one arm of a pair lost and the other solved: who won, which step parted them, and by which cause."""
        rows = [asdict(each) for pair in self.pairs for each in pair.divergences]
        return to_frame([{name: row[name] for name in DIVERGENCES} for row in rows], DIVERGENCES)

    @property
    def tasks(self) -> pd.DataFrame:
        """A row per arm and task that is notable: no arm solved it, one arm alone, not in every repeat, or by a false success."""
        rows = []
        for group in self.finding.findings:
            for task in group.notable:
                of_task = task.to_json() | {"suite": group.suite, "profile": group.profile, "kinds": ", ".join(task.kinds)}
                for arm, (solved, trials) in task.solved.items():
                    rows.append(of_task | {"arm": arm, "solved": solved, "trials": trials})
        return to_frame(rows, TASKS)

    @property
    def habits(self) -> pd.DataFrame:
        """A row per arm: tasks that are flaky or that it alone solved, rates of false success, wasted steps and repeated calls."""
        rows = [
            {"suite": group.suite, "profile": group.profile} | arm.to_json() | {"flaky": len(arm.flaky), "alone": len(arm.alone)}
            for group in self.finding.findings
            for arm in group.arms
        ]
        return to_frame(rows, HABITS)


def _cause_row(
    arm: str, against: str | None, causes: Mapping[Cause, int], cause: Cause, rate: BaseRate | None = None
) -> dict[str, Any]:
    row = {"arm": arm, "against": against, "cause": str(cause), "trials": causes[cause], "lost": sum(causes.values())}
    told = (None,) * 4 if rate is None else (rate.solved, rate.of_solved, rate.p, rate.is_doubtful)
    return row | dict(zip(("solved_with", "solved", "p", "doubtful"), told, strict=True))


def shown_why(run: Results, a: str | None = None, b: str | None = None, *, task: str | None = None) -> ShownWhy:
    """Say why trials were lost: in sum, of one arm or loop by name, or between two. `task`: only its trials.

    Raises RunError for a second name without the first, a name that no arm or task has, and for traces that cannot be read.
    """
    if a is None and b is not None:
        raise RunError("why: name an arm or loop a to compare b with")
    pairs = None if a is None else () if b is None else pairs_named(run, a, b)
    arms = None if a is None or b is not None else required_arms(run, a)
    losses = losses_explained(run, pairs=pairs, arms=arms, task=task)
    return ShownWhy(why_doc(run, losses, named=b is not None), losses)
