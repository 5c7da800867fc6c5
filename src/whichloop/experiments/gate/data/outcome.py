"""The result of the gate as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from whichloop.metrics.gate import GateLine
from whichloop.metrics.summary import PRIMARY
from whichloop.metrics.trajectory.causes import Cause
from whichloop.protocol import StopReason

from .advice import Advice
from .findings import Growth, OtherAnswers, SharedRepeats, TaskSets, WorstTrial
from .line_digests import FollowedFile

Outcome = Literal["identical", "pass", "unchanged", "better here", "worse here", "regression", "undecided", "invalid", "blessed"]
"""`blessed`: not judged, in a test under `--loop-bless`, since the run is the new baseline."""
UNTESTED_LIMIT, OTHER_ANSWERS = "untested limit", "other answers"
"""What an undecided outcome is called that rests on a default limit which no trial tests: it fails, and no more tasks decide it."""
PASSES: tuple[Outcome, ...] = ("identical", "pass", "unchanged", "better here")
"""Outcomes of a run that nothing is held against."""
Became = Literal["worse", "better", "other"]
OnWorseHere = Literal["fail", "pass"]
OnOtherAnswers = Literal["fail", "pass"]
OnUndecided = Literal["pass", "fail", "undecided"]
AlteredCause = Literal["added call", "altered call", "altered answer"]


@dataclass(frozen=True, slots=True)
class Side:
    """One side's results on a task, a value per repeat; None for a trial that was not scored."""

    stops: tuple[str | None, ...]
    accuracy: tuple[float | None, ...]

    @property
    def mean(self) -> float | None:
        """The mean accuracy; None if no trial was scored."""
        values = [value for value in self.accuracy if value is not None]
        return sum(values) / len(values) if values else None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {"stops": list(self.stops), "accuracy": list(self.accuracy)}


@dataclass(frozen=True, slots=True)
class TaskChange:
    """A task whose score or stop differs from the baseline."""

    arm: str
    """The arm's name in the run."""
    task: str
    was: Side
    now: Side
    repeat: int
    """The 0-based repeat of the trial that represents the task."""
    step: int | None
    """The 1-based step of the cause of a loss, as `whichloop show` numbers it; None for other tasks, or without a trace."""
    parts_at: int | None
    """The 1-based step where that trial first differs from the baseline; None if either has no steps."""
    cause: Cause | None
    """The cause of a loss; None for other tasks, or without a trace."""
    detail: str
    """The cause as a sentence."""
    command: str
    """The command that shows the trial; empty if it has no trace to show."""

    @property
    def trial(self) -> tuple[str, str, int]:
        """Arm, task and repeat."""
        return self.arm, self.task, self.repeat

    @property
    def became(self) -> Became:
        """The direction of its mean accuracy; other: another stop with the same accuracy."""
        was, now = self.was.mean, self.now.mean
        if was is None or now is None or was == now:
            return "other"
        return "worse" if now < was else "better"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "arm": self.arm,
            "task": self.task,
            "became": self.became,
            "was": self.was.to_json(),
            "now": self.now.to_json(),
            "repeat": self.repeat,
            "step": self.step,
            "parts_at": self.parts_at,
            "cause": self.cause,
            "detail": self.detail,
            "command": self.command,
        }


def causes_of(tasks: Iterable[TaskChange]) -> dict[Cause, int]:
    """Return cause → tasks that got worse by it, the most frequent first."""
    return dict(Counter(task.cause for task in tasks if task.cause is not None).most_common())


@dataclass(frozen=True, slots=True)
class StopChange:
    """A trial that ends otherwise than in the baseline: with the same score, or by a crash."""

    arm: str
    """The arm's name in the run."""
    task: str
    repeat: int
    was: str
    """Its stop in the baseline, `errored` for a trial without one; where trials have no counterparts, the most frequent one."""
    now: str
    same_score: bool
    """Whether the score is that of the baseline."""
    graver: bool
    """Whether this end is graver: a limit in place of an answer, a failure in place of these, or a crash in place of anything."""
    reason: str
    """What the record says of the end, such as the exception of a crash; empty if it says nothing."""
    command: str
    """The command that shows the trial; empty if it has no trace to show."""
    hangs: bool = False
    """Whether it hangs now, for sure, where no trial of its arm did in the baseline."""

    @property
    def crashed(self) -> bool:
        """Whether it crashes now."""
        return self.now == StopReason.CRASHED

    @property
    def broke(self) -> bool:
        """Whether it crashes or hangs now."""
        return self.crashed or self.hangs

    @property
    def course(self) -> str:
        """`finished → crashed`."""
        return f"{self.was} → {self.now}"

    @property
    def trial(self) -> str:
        """`ARM/TASK/REPEAT`, as `whichloop show` takes it."""
        return f"{self.arm}/{self.task}/{self.repeat}"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "arm": self.arm,
            "task": self.task,
            "repeat": self.repeat,
            "was": self.was,
            "now": self.now,
            "same_score": self.same_score,
            "graver": self.graver,
            "hangs": self.hangs,
            "reason": self.reason,
            "command": self.command,
        }


@dataclass(frozen=True, slots=True)
class MoreClaims:
    """More trials of an arm give a wrong answer as done than in the baseline, and no margin judges that."""

    was: int
    """Trials that did so in the baseline, of those with a counterpart where trials have one."""
    now: int
    baseline: float
    """The share, as the metric has it: a mean over tasks."""
    run: float
    new: int
    """Trials that did not do so in the baseline; where trials have no counterparts, by how many they are more."""
    example: str
    """One that does so now, `ARM/TASK/REPEAT`."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "was": self.was,
            "now": self.now,
            "baseline": self.baseline,
            "run": self.run,
            "new": self.new,
            "example": self.example,
        }


@dataclass(frozen=True, slots=True)
class AlteredTrials:
    """Trials of an arm in which the loop altered a call or the answer, or made a call of its own, and the blessed loop did not."""

    arm: str
    """The arm's name in the run."""
    cause: AlteredCause
    trials: int
    of: int
    """Trials of the arm in all."""
    trial: str
    """The first of them, `ARM/TASK/REPEAT`."""
    step: int
    """Its 1-based step, as `whichloop show` numbers it."""
    detail: str
    """What the model wrote there and what the loop made of it, as a sentence."""
    command: str
    """The command that shows the trial."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class GateArm:
    """One arm of the baseline, with its outcome."""

    arm: str
    """The arm's name in the run."""
    baseline_arm: str
    identical: bool
    """Whether every trial had the same result as in the baseline."""
    trials: int
    scored: int
    lines: tuple[GateLine, ...]
    """The lines, one per metric."""
    stop_alone: bool = False
    """Whether accuracy is undecided only because trials end more gravely: no score changed, and nothing is left to chance."""
    crash_alone: bool = False
    """Whether it is a regression only because trials crash that did not in the baseline, and nothing is left to chance."""
    hang_alone: bool = False
    """The same of trials that hang, where none of the arm did."""
    limits: tuple[tuple[str, str], ...] = ()
    """What is said of each limit whose default is another than the blessed one, which no trial tests, and how to test it."""
    limit_alone: bool = False
    """Whether accuracy is undecided only because of such a limit."""
    hangs: str = ""
    """That it hangs, and did not in the baseline, in words; then it is a regression, without lines if the run ended for it."""
    short_of_faults: str = ""
    """That too few of the scheduled faults landed, in words; then it is judged for what it lost alone."""
    unjudged: Mapping[str, float] = field(default_factory=dict)
    """Bill that changed by 10 % or more in sum, and that no margin judges → run / baseline."""
    claims: MoreClaims | None = None
    """That more trials give a wrong answer as done, where no margin judges it; else None."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "arm": self.arm,
            "baseline_arm": self.baseline_arm,
            "identical": self.identical,
            "trials": self.trials,
            "scored": self.scored,
            "stop_alone": self.stop_alone,
            "crash_alone": self.crash_alone,
            "hang_alone": self.hang_alone,
            "limits": ["; ".join(limit) for limit in self.limits],
            "limit_alone": self.limit_alone,
            "hangs": self.hangs,
            "short_of_faults": self.short_of_faults,
            "unjudged": dict(self.unjudged),
            "claims": None if self.claims is None else self.claims.to_json(),
            "metrics": [line.to_json() for line in self.lines],
        }


@dataclass(frozen=True, slots=True)
class GateResult:
    """The result of the gate."""

    outcome: Outcome
    reasons: tuple[str, ...]
    """The reasons why it is invalid; empty otherwise."""
    arms: tuple[GateArm, ...]
    """The arms; empty if the result is invalid."""
    tasks: tuple[TaskChange, ...]
    """The tasks whose score or stop changed: worse ones first, then better ones, then the rest; none if the result is invalid."""
    same_result: int
    """Number of paired trials with the same score and stop that differ otherwise."""
    notes: tuple[str, ...]
    """The caveats, a sentence each."""
    run: Path
    baseline: Path | None
    alpha: float
    paired: bool
    """Whether every judged trial has its counterpart: the seed is the baseline's, and so is the number of repeats, or those that
    both have are judged."""
    differs_in: tuple[str, ...] = ()
    """What the trials of the same result differ in, such as `tokens`."""
    other_answers: OtherAnswers | None = None
    fails_for_answers: bool = False
    """Whether these answers make it fail, whatever the outcome is, since whoever asked wants that."""
    stops: tuple[StopChange, ...] = ()
    """Trials of the same score with another stop, and trials that crash or hang now and did not: these first, then graver ends.
    None if the result is invalid."""

    altered: tuple[AlteredTrials, ...] = ()
    """Trials in which the loop altered a call or the answer, or made a call of its own, and the blessed one did not, whatever their
    score."""

    worst: tuple[WorstTrial, ...] = ()
    """The worst trial of each metric beside accuracy that an arm is held to, or that is open."""

    growths: tuple[Growth, ...] = ()
    """Of each amount that an arm is held to have grown by, or may have, how much is of trials that are solved now and were not."""

    ended: str = ""
    """That no trial of the baseline hung, and after how many of its trials the run ended, in words; empty where no loop hangs."""

    common: TaskSets | None = None
    """The tasks of run and baseline, where only those are judged that are the same in both."""
    shared: SharedRepeats | None = None
    """The repeats of run and baseline, where only those are judged that both have."""
    bless: str = ""
    """The command that makes the run the new baseline, where the run differs so that somebody may mean it; else empty."""

    advice: Advice = field(default_factory=Advice)
    """What next steps follow from."""

    details: tuple[str, ...] = ()
    """Caveats that the long form alone tells, since the short form says so in other words."""

    unit: str = "task"
    """What is counted where tasks are: of several arms a task counts once in each of them."""

    changed_files: tuple[str, ...] = ()
    """The files of the loops, what these import included, that changed since the baseline."""

    followed: Sequence[FollowedFile] = ()
    """The changed files of the loops, with the lines that no trial came to, as whoever made the run knows; `judge` does not."""

    lead: str = ""
    """What the first line begins with: that a cause beside the loop is likely; empty otherwise."""

    @property
    def lines(self) -> tuple[GateLine, ...]:
        return tuple(line for arm in self.arms for line in arm.lines)

    def held_as(self, on_worse_here: OnWorseHere) -> Outcome:
        """Return the outcome that counts: where losses here are accepted, that of all other lines."""
        if self.outcome != "worse here" or on_worse_here == "fail":
            return self.outcome
        return "undecided" if any(line.outcome == "undecided" for line in self.lines) else "pass"

    def with_answers_held(self, on_other_answers: OnOtherAnswers) -> GateResult:
        """Return the same, held to the baseline's answers where that is asked for: other ones of the same score make it fail."""
        if self.other_answers is None or on_other_answers == "pass":
            return self
        sentence = self.other_answers.sentence  # the first lines have it then
        return replace(self, fails_for_answers=True, notes=tuple(note for note in self.notes if note != sentence))

    def undecided_as(self, on_undecided: OnUndecided) -> OnUndecided:
        """Return how it counts where it is undecided: as a failure where a default limit is another, unless it was asked to pass.

        The change is known and no trial tests it, so a recipe that lets undecided gates through would let it through unseen.
        """
        return "fail" if on_undecided == "undecided" and any(arm.limit_alone for arm in self.arms) else on_undecided

    @property
    def word(self) -> str:
        """What people call the outcome: the same, `untested limit`, or `other answers` where these alone fail a run."""
        if self.fails_for_answers and self.outcome in PASSES:
            return OTHER_ANSWERS
        limited = self.outcome == "undecided" and any(arm.limit_alone for arm in self.arms)
        return UNTESTED_LIMIT if limited else self.outcome

    def word_of(self, line: GateLine) -> str:
        """Return what people call a line's outcome: the same, or `untested limit`."""
        limited = {arm.arm for arm in self.arms if arm.limit_alone}
        return UNTESTED_LIMIT if line.metric == PRIMARY and line.arm in limited else line.outcome

    @property
    def arms_behind(self) -> frozenset[str]:
        """The arms that the outcome rests on: those with a line of it, and those that hang; all where none is known."""
        behind = {line.arm for line in self.lines if line.outcome == self.outcome} | {arm.arm for arm in self.arms if arm.hangs}
        return frozenset(behind or {*(change.arm for change in self.tasks), *(change.arm for change in self.stops)})

    def only_gained(self, arm: str) -> bool:
        """Whether tasks of an arm got better and none got worse, where each trial has its counterpart."""
        became = {change.became for change in self.tasks if change.arm == arm}
        return self.paired and "better" in became and "worse" not in became

    @property
    def causes(self) -> dict[Cause, int]:
        """Cause → tasks that got worse by it, the most frequent first."""
        return causes_of(self.tasks)

    def to_json(self) -> dict[str, Any]:
        """Return the object that `gate --json` prints; its names are stable."""
        return {
            "outcome": self.outcome,
            "word": self.word,
            "reasons": list(self.reasons),
            "run": str(self.run.resolve()),
            "baseline": None if self.baseline is None else str(self.baseline.resolve()),
            "alpha": self.alpha,
            "paired": self.paired,
            "common_tasks": None if self.common is None else self.common.to_json(),
            "shared_repeats": None if self.shared is None else self.shared.to_json(),
            "arms": [arm.to_json() for arm in self.arms],
            "tasks": [task.to_json() for task in self.tasks],
            "causes": self.causes,
            "stops": [change.to_json() for change in self.stops],
            "altered": [altered.to_json() for altered in self.altered],
            "worst_trials": [worst.to_json() for worst in self.worst],
            "growths": [growth.to_json() for growth in self.growths],
            "same_result": self.same_result,
            "differs_in": list(self.differs_in),
            "other_answers": "" if self.other_answers is None else self.other_answers.sentence,
            "fails_for_answers": self.fails_for_answers,
            "unrun_lines": {file.name: list(file.unrun) for file in self.followed if file.unrun},
            "notes": [*self.notes, *self.details],
            "counted": self.unit,
            "bless": self.bless,
        }
