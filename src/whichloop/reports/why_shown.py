"""Why trials were lost, as `run.why()` and `whichloop.why` give it: the findings, printed as the command prints them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from whichloop.experiments.compare.results import Results, find_record
from whichloop.experiments.why.arms import pairs_named, required_arms
from whichloop.experiments.why.base_rates import BaseRate
from whichloop.experiments.why.why import Why, losses_explained
from whichloop.metrics.record import Record
from whichloop.metrics.trajectory.causes import Cause
from whichloop.reports import trial_lines, why_lines
from whichloop.runs.store.files import RunError
from whichloop.runs.store.traces import read_trace
from whichloop.text.doc import Table
from whichloop.text.output import UNBROKEN, OutputLine, Prose, plain_line, terminal_safe
from whichloop.text.trace_text import JudgedTrace, as_judged

from .notebook import block
from .row_frames import flat, interval_columns, rows_frame

if TYPE_CHECKING:
    import pandas as pd


CAUSES = {
    **dict.fromkeys(("arm", "against", "cause"), "string"),
    **dict.fromkeys(("trials", "lost"), "int64"),
    **dict.fromkeys(("solved_with", "solved"), "Int64"),
    "p": "Float64",
    "doubtful": "boolean",
}
DIVERGENCES = {
    **dict.fromkeys(("winner", "loser", "task"), "string"),
    **dict.fromkeys(("repeat", "step"), "int64"),
    "parts_at": "Int64",
    **dict.fromkeys(("cause", "detail", "stop"), "string"),
}
TASKS = {
    **dict.fromkeys(("suite", "profile", "task", "kinds", "arm"), "string"),
    **dict.fromkeys(("solved", "trials", "false_success", "cheapest"), "int64"),
    "wasted_steps": "float64",
    "repeated_calls": "int64",
}
HABITS = {
    **dict.fromkeys(("suite", "profile", "arm"), "string"),
    **dict.fromkeys(("flaky", "alone"), "int64"),
    **interval_columns("false_success", "wasted_steps", "repeated_calls"),
}
"""Columns of the tables and their types."""


@dataclass(frozen=True, slots=True, repr=False)
class ShownWhy(Why):
    """The losses of a run and their causes, printed as `whichloop why` prints them."""

    run: Results
    is_sum: bool
    """Whether no arm was named, so that the sums are shown."""

    def __repr__(self) -> str:
        """Return the lines that the command prints, with calls in the place of commands."""
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        """Return the same for a notebook; every text is escaped."""
        lines = [line for each in self._shown() if not isinstance(each, Table) for line in text_lines(each) if line]
        return block(lines[0], lines[1:], [each for each in self._shown() if isinstance(each, Table)])

    @property
    def lines(self) -> list[str]:
        """The lines that the command prints into a file, with calls in the place of commands."""
        return [line for each in self._shown() for line in text_lines(each)]

    @property
    def title(self) -> str:
        """The run that it is about, as other conclusions have it."""
        return self.lines[0]

    @property
    def verdicts(self) -> list[str]:
        """The lines below the title."""
        return [line for line in self.lines[1:] if line]

    @property
    def finding(self) -> Why:
        """The counts and examples, which are attributes of this object, too."""
        return self

    @property
    def causes(self) -> pd.DataFrame:
        """A row per arm and cause of lost trials: `arm`, `cause`, `trials`; of pairs also `against`, the arm that solved them.

        `lost`: trials lost in all of which a trace tells the cause. Of an arm's own rows `solved_with` of `solved` trials show the
        same; `p` is of Fisher's exact test; `doubtful`: not shown to be a cause. They are NA where only a lost trial can have it.
        """
        rows = [
            _cause_row(arm.arm, None, arm.causes, cause) | _rate_row(arm.base_rates.get(cause))
            for arm in self.arms
            for cause in arm.causes
        ]
        for pair in self.pairs:
            for arm, against in ((pair.a, pair.b), (pair.b, pair.a)):
                causes = pair.causes[arm]
                rows += [_cause_row(arm, against, causes, cause) | _rate_row(None) for cause in causes]
        return rows_frame(rows, CAUSES)

    @property
    def divergences(self) -> pd.DataFrame:
        """A row per trial that one arm of a pair lost and the other solved: who won, which step parted them, and by which cause."""
        rows = [each.to_json() for pair in self.pairs for each in pair.divergences]
        return rows_frame([{name: row[name] for name in DIVERGENCES} for row in rows], DIVERGENCES)

    @property
    def tasks(self) -> pd.DataFrame:
        """A row per arm and task that is notable: no arm solved it, one arm alone, not in every repeat, or by a false success."""
        rows = []
        for group in self.findings.groups:
            for task in group.notable:
                of_task = {"kinds": ", ".join(task.kinds)} | {
                    name: getattr(task, name) for name in ("task", "false_success", "cheapest", "wasted_steps", "repeated_calls")
                }
                for arm, (solved, trials) in task.solved.items():
                    own = {"suite": group.suite, "profile": group.profile, "arm": arm, "solved": solved, "trials": trials}
                    rows.append(of_task | own)
        return rows_frame(rows, TASKS)

    @property
    def habits(self) -> pd.DataFrame:
        """A row per arm: tasks that are flaky or that it alone solved, rates of false success, wasted steps and repeated calls."""
        rows = [
            {"suite": group.suite, "profile": group.profile}
            | flat(arm.to_json() | {"flaky": len(arm.flaky), "alone": len(arm.alone)})
            for group in self.findings.groups
            for arm in group.arms
        ]
        return rows_frame(rows, HABITS)

    def _shown(self) -> Iterator[why_lines.Shown]:
        ways = why_lines.WaysToSeeMore(self.run.folder)
        if self.is_sum:
            return why_lines.sums(self.run, self, ways)
        return why_lines.why_lines_of(self.run, self, ways, show_all=False, with_tasks=bool(self.untraced))


def _cause_row(arm: str, against: str | None, causes: Mapping[Cause, int], cause: Cause) -> dict[str, Any]:
    return {"arm": arm, "against": against, "cause": str(cause), "trials": causes[cause], "lost": sum(causes.values())}


def _rate_row(rate: BaseRate | None) -> dict[str, Any]:
    if rate is None:
        return dict.fromkeys(("solved_with", "solved", "p", "doubtful"))
    return {"solved_with": rate.solved, "solved": rate.of_solved, "p": rate.p, "doubtful": rate.is_doubtful}


def text_lines(item: why_lines.Shown) -> list[str]:
    """Return the lines of one thing that is shown; the columns of a table are as wide as their widest cells."""
    if isinstance(item, Table):
        rows = [[plain_line(cell) for cell in row] for row in (item.columns, *item.texts)]
        widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
        return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    indent = item.indent if isinstance(item, Prose) else ""
    return terminal_safe(f"{indent}{item.text}".replace(UNBROKEN, " ")).split("\n")


def shown_why(run: Results, a: str | None = None, b: str | None = None, *, task: str | None = None) -> ShownWhy:
    """Say why trials were lost: in sum, of one arm or loop by name, or between two. `task`: only its trials.

    Raises RunError for a second name without the first, a name that no arm or task has, and for traces that cannot be read.
    """
    if a is None and b is not None:
        raise RunError("why: name an arm or loop a to compare b with")
    pairs = None if a is None else () if b is None else pairs_named(run, a, b)
    arms = None if a is None or b is not None else required_arms(run, a)
    losses = losses_explained(run, pairs=pairs, arms=arms, task=task)
    return ShownWhy(**{item.name: getattr(losses, item.name) for item in fields(losses)}, run=run, is_sum=a is None)


@dataclass(frozen=True, slots=True, repr=False)
class ShownTrial:
    """One trial of a run."""

    record: Record
    judged: JudgedTrace

    def __repr__(self) -> str:
        """Return the lines that the command prints, and how to see all that was asked."""
        return "\n".join([*self.lines, self._more])

    def _repr_html_(self) -> str:
        """Return the same for a notebook; every text is escaped."""
        return block(self.record.name, self.lines, [], self._more)

    @property
    def lines(self) -> list[str]:
        """The lines of the trial that the command prints into a file."""
        return [line for each in self._shown() for line in text_lines(each)]

    def _shown(self) -> Iterator[OutputLine | Prose]:
        return trial_lines.step_lines(self.judged, self.record)

    @property
    def _more(self) -> str:
        return f"prompts and replies: .trace({self.record.name!r})"


def shown_trial(run: Results, trial: str) -> ShownTrial:
    """Return one trial, by its name or a unique part of it. Raises RunError if none or several match, or it has no trace."""
    record = find_record(run, trial)
    return ShownTrial(record, as_judged(read_trace(run.folder, record), record, run.manifest.step_limits.get(record.arm)))
