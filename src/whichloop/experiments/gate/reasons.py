"""The reasons of an outcome, as codes with numbers, and those for which a run can be neither blessed nor judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from whichloop.experiments.compare.results import Results
from whichloop.metrics.caveats import MAX_ERRORED
from whichloop.metrics.caveats import reasons as frequent
from whichloop.metrics.gate import Outcome
from whichloop.metrics.record import Record
from whichloop.protocol import StopReason
from whichloop.runs.trial.watchdog import is_blocked

TEXTS: Mapping[str, str] = {
    "identical": "every trial gave what it gave in the baseline",
    "unchanged": "every trial scored and ended as in the baseline",
    "within_margin": "the change lies within the margin",
    "tasks_gained": "tasks gained, none lost: {better}",
    "worse": "{metric} shown to be worse",
    "tasks_lost": "tasks lost, none gained: {worse}, and not by chance",
    "crash": "new crashes in {trials} of {of} trials: {error}",
    "hang": "hangs in {trials} of {of} trials: {error}",
    "undecided": "{metric}: {tasks} tasks would decide",
    "graver_stop": "trials of the same score end more gravely: {trials}, first {first}",
    "other_answers": "other answers of the same score in {trials} of {of} trials, first {first}: {was} → {now}",
    "tasks_changed": "the suite changed: {same} tasks are the same, {changed} changed, {added} added, {removed} removed: {first}",
    "incomplete": "{missing} of {scheduled} trials are missing",
    "errored": "{share:.1%} of its trials errored, more than {most:.0%}{why}",
    "errored_baseline": "{share:.1%} of its trials errored in the baseline, more than {most:.0%}",
    "never_asked": "in no trial did the loop ask its model",
    "dead": "every trial crashes or hangs",
    "few_faults": "only {landed} of {scheduled} scheduled faults landed",
    "unsound": "{why}",
}
"""Code → what it says, with its numbers."""
INVALID = ("recording lacks requests", "plans do not replay", "plans mislead")
"""Codes of a comparison's warnings that no verdict of the run holds beside."""
NO_BASELINE = ("faults did not land", "no scored trial")
"""Codes beside which no run is blessed, either."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an outcome is what it is."""

    code: str
    outcome: Outcome
    """What it leads to."""
    arm: str = ""
    """The arm's name in the run; empty where it is about all."""
    metric: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    accepted: bool = False
    """Whether it was accepted, so that it leads to a pass."""

    @property
    def text(self) -> str:
        told = TEXTS[self.code].format(metric=self.metric, **self.numbers)
        return f"{self.arm}: {told}" if self.arm else told

    @property
    def leads_to(self) -> Outcome:
        """The outcome that counts."""
        return "pass" if self.accepted else self.outcome

    def to_json(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "outcome": self.outcome,
            "accepted": self.accepted,
            "arm": self.arm,
            "metric": self.metric,
            "numbers": dict(self.numbers),
            "text": self.text,
        }


def hung(record: Record) -> bool:
    """Whether a trial ended at its time limit, and not because infrastructure failed."""
    return record.status == "scored" and record.stop == StopReason.TIMEOUT


def was_interrupted(record: Record) -> bool:
    """Whether a trial was ended since it let nothing else run, and not since time had passed, which a slow machine may need."""
    return hung(record) and is_blocked(record.reason)


def invalid_reasons(run: Results, *, blessing: bool = False) -> Iterator[Reason]:
    """Yield the reasons why a run says nothing of its loops; `blessing`: dead loops are one, too."""
    missing = run.scheduled - len(run.records)
    if missing:
        yield Reason("incomplete", "invalid", numbers={"missing": missing, "scheduled": run.scheduled})
    kinds = (*(INVALID if run.comparison.invalid else ()), *(NO_BASELINE if blessing else ()))
    yield from (
        Reason("unsound", "invalid", numbers={"why": caveat.text}) for caveat in run.comparison.caveats if caveat.code in kinds
    )
    for arm in run.comparison.arms:
        name, summary = arm.info.arm, arm.summary
        if summary.errored_share > MAX_ERRORED:
            why = f" ({frequent(summary.errored_reasons, 1)})" if summary.errored_reasons else ""
            yield Reason("errored", "invalid", name, numbers={"share": summary.errored_share, "most": MAX_ERRORED, "why": why})
        elif summary.dead == "never asked" and not summary.crashes:
            yield Reason("never_asked", "invalid", name)
        elif blessing and summary.scored:
            ends = [record for record in run.records if record.arm == name and record.status == "scored"]
            if all(hung(record) or record.stop == StopReason.CRASHED for record in ends):
                yield Reason("dead", "invalid", name)
