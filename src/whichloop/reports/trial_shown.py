"""One trial, as `run.show()` gives it: its steps and its end, printed as `whichloop show` prints them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from whichloop.experiments.compare.results import Results, find_record
from whichloop.metrics.record import Record
from whichloop.runs.store.traces import read_trace
from whichloop.text.output import OutputLine, Prose
from whichloop.text.trace_text import JudgedTrace, as_judged

from . import trial_lines
from .notebook import block
from .why_shown import text_lines


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
