"""Gathers the trials of a file: every format that reads them one by one adds them here."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from .foreign_trials import ForeignArm, ForeignLog, ForeignTrial


@dataclass(slots=True)
class LogBuilder:
    """The trials read so far."""

    suite: str
    """Name of the list of tasks where the trials name none."""
    notes: list[str] = field(default_factory=list)
    """Remarks for the user."""
    scorers: set[str] = field(default_factory=set)
    """Names of the scores that were taken as accuracy."""
    questions: dict[str, str] = field(default_factory=dict)
    """Task → digest of what it asks."""
    own_tasks: set[str] = field(default_factory=set)
    """Tasks that are a trace's own, since nobody names its task."""
    _arms: dict[str, ForeignArm] = field(default_factory=dict)
    _trials: list[ForeignTrial] = field(default_factory=list)
    _suites: set[str] = field(default_factory=set)
    _repeats: Counter[tuple[str, str]] = field(default_factory=Counter)

    def __len__(self) -> int:
        """Return the number of trials."""
        return len(self._trials)

    def next_repeat(self, arm: str, task: str) -> int:
        """Number the trials of one arm and task, from 0 on."""
        self._repeats[arm, task] += 1
        return self._repeats[arm, task] - 1

    def add(self, arm: ForeignArm, trial: ForeignTrial, question: str, suite: str = "") -> None:
        """Add a trial. `question`: digest of what its task asks; empty if unknown.

        Raises ValueError if another trial of the task asks something else.
        """
        question_before = self.questions.get(trial.task, "")
        if question_before and question and question_before != question:
            raise ValueError(f"task {trial.task}: it asks something else than in another trial")
        self.questions[trial.task] = question_before or question
        self._arms.setdefault(arm.name, arm)
        self._trials.append(trial)
        self._suites.add(suite or self.suite)

    def log(self, by: str = "") -> ForeignLog:
        """Return all of it. `by`: the tool that wrote the file."""
        return ForeignLog(
            suite=" + ".join(sorted(self._suites)) or self.suite,
            arms=tuple(self._arms.values()),
            trials=tuple(self._trials),
            questions=self.questions,
            by=by,
            scorer=next(iter(self.scorers)) if len(self.scorers) == 1 else "",
            notes=tuple(self.notes),
            own_tasks=frozenset(self.own_tasks),
        )
