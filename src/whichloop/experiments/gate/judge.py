"""Judging a run against a baseline: the outcome, its reasons, and what the trials show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from whichloop.experiments.compare.doc import basis
from whichloop.experiments.compare.results import Results
from whichloop.metrics.caveats import MAX_ERRORED
from whichloop.metrics.gate import WORST_FIRST, GateLine, Held, Outcome, judge_lines, worst
from whichloop.metrics.record import Record
from whichloop.metrics.summary import METRICS, PRIMARY, SHARES
from whichloop.metrics.trajectory.trajectory import shortened
from whichloop.protocol.receipts import strip_receipts

from .baseline import Baseline, GateSettings, outcome_of
from .match import Incomparable, Matched, differences, is_changed, match, replies_are_fixed
from .reasons import Reason, hung, invalid_reasons, was_interrupted
from .sides import Sides
from .tasks import TaskChange, causes_of, changed_tasks

Key = tuple[str, str, int]
"""Arm, task and repeat of a trial."""
MAX_AGAIN = 5
"""Trials of an arm that are run once more, since they differ from the blessed ones."""


@dataclass(frozen=True, slots=True, repr=False)
class GateResult:
    """The result of the gate."""

    outcome: Outcome
    reasons: tuple[Reason, ...]
    """The reasons, those of the outcome first."""
    lines: tuple[GateLine, ...]
    """One per arm and metric; empty if the run is invalid."""
    tasks: tuple[TaskChange, ...]
    """The tasks whose score or stop changed: worse ones first, then better ones, then the rest."""
    worst: tuple[Mapping[str, Any], ...]
    """The `trial`, ARM/TASK/REPEAT, in which a `metric` beside accuracy that does not pass got most worse: `was` and `now`."""
    settings: GateSettings
    run: Path
    baseline: Path | None
    """The baseline's file."""
    blessed: datetime
    """When the baseline was made."""
    commit: str
    """The commit at which it was; empty where nobody knows."""
    paired: bool
    """Whether every trial has its counterpart: seed and number of repeats are the baseline's."""
    judged_tasks: int
    changed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What else than the trials differs: `loop`, `files`, `versions`."""
    not_judged: tuple[str, ...] = ()
    """Arms that the baseline lacks, and metrics that no task has on both sides."""
    again: tuple[int, int] = (0, 0)
    """How many trials that differ were run once more, and how many came out as in the run."""
    unrun: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """File of a loop → changed lines that no trial ran, as whoever made the run knows; `judge` does not."""
    basis: str = ""
    """What the verdict rests on: the model, and where the rates of its faults come from."""
    record: tuple[str, ...] = ()
    """The commands that record what a recording lacks, and gate again; empty where it lacks nothing."""

    def __repr__(self) -> str:
        return f"<GateResult {self.outcome}>"

    def to_json(self) -> dict[str, Any]:
        """Return the object that `gate --json` prints; its names are stable."""
        return {
            "outcome": self.outcome,
            "reasons": [reason.to_json() for reason in self.reasons],
            "lines": [line.to_json() for line in self.lines],
            "tasks": [*map(asdict, self.tasks)],
            "causes": causes_of(self.tasks),
            "worst": [*map(dict, self.worst)],
            "accept": list(self.settings.accept),
            "run": str(self.run.resolve()),
            "baseline": None if self.baseline is None else str(self.baseline.resolve()),
            "blessed": self.blessed.isoformat(),
            "commit": self.commit,
            "paired": self.paired,
            "judged_tasks": self.judged_tasks,
            "changed": {kind: list(texts) for kind, texts in self.changed.items()},
            "not_judged": list(self.not_judged),
            "again": {"trials": self.again[0], "same": self.again[1]},
            "unrun_lines": {file: list(spans) for file, spans in self.unrun.items()},
            "basis": self.basis,
        }


def judge(
    run: Results,
    baseline: Baseline,
    *,
    settings: GateSettings | None = None,
    path: Path | None = None,
    again: Sequence[Record] = (),
) -> GateResult:
    """Judge a run against a baseline. `settings`: None takes the baseline's. `path`: the baseline's file.

    `again`: what trials of the run gave that were run once more, see `run_doubtful_again`. Raises Incomparable (a ValueError) if
    the two cannot be compared: another suite, profile, policy or step limit, no task in common, an arm that is missing, or a
    metric that is unknown on either side.
    """
    case = _Case(run, baseline, settings or baseline.gate, {record.key: record for record in again})
    reasons, lines = case.judged()
    outcome = worst(reason.leads_to for reason in reasons)
    return GateResult(
        outcome=outcome,
        reasons=tuple(sorted(reasons, key=lambda reason: (WORST_FIRST.index(reason.leads_to), reason.metric not in ("", PRIMARY)))),
        lines=tuple(lines),
        tasks=() if outcome == "invalid" else changed_tasks(run.folder, run.manifest.step_limits, case.sides, paired=case.paired),
        worst=tuple(case.worst(lines)) if case.paired else (),
        settings=case.settings,
        run=run.folder,
        baseline=path,
        blessed=baseline.created,
        commit=baseline.commit,
        paired=case.paired,
        judged_tasks=len(case.sides[0].old),
        changed=differences(run.manifest, baseline, case.matched.arms),
        not_judged=tuple(case.not_judged(lines)) if lines else (),
        again=(len(case.came_again), sum(case.came_again.values())),
        basis=basis(run),
    )


@dataclass(frozen=True)
class _Case:
    """A run and a baseline that can be compared. Raises Incomparable as `match` does."""

    run: Results
    baseline: Baseline
    settings: GateSettings
    again: Mapping[Key, Record]

    @cached_property
    def matched(self) -> Matched:
        return match(self.run.folder, self.run.manifest, self.baseline)

    @cached_property
    def sides(self) -> Sequence[Sides]:
        return [Sides.of(self.run, arm, self.baseline, old, self.matched.same) for old, arm in self.matched.arms.items()]

    @property
    def paired(self) -> bool:
        manifest, baseline = self.run.manifest, self.baseline
        return manifest.seed == baseline.seed and manifest.settings.repeats == baseline.repeats

    @cached_property
    def fixed(self) -> bool:
        """Whether a trial can come out otherwise only if something was changed, or the loop itself draws at random."""
        return self.paired and replies_are_fixed(self.run.manifest, self.baseline, self.matched.arms)

    @cached_property
    def came_again(self) -> Mapping[Key, bool]:
        """Trial that differs and was run once more → whether it came out as in the run."""
        pairs = [pair.record for side in self.sides for pair in side.pairs if not pair.same and pair.record.key in self.again]
        return {record.key: outcome_of(self.again[record.key]) == outcome_of(record) for record in pairs}

    def is_no_chance(self, side: Sides) -> bool:
        """Whether a change, and not chance, made an arm's trials come out otherwise.

        If its trials that differ came out the same again, something has changed, be it nothing that a digest covers; if one did
        not, the loop draws at random. Where nothing ran again, it is the changed code that tells.
        """
        ran = [same for key, same in self.came_again.items() if key[0] == side.arm]
        entry = self.run.manifest.arm(side.arm)
        other_code = self.run.manifest.suite.files != self.baseline.suite.files
        return self.fixed and (all(ran) if ran else entry is not None and (other_code or is_changed(side.blessed, entry)))

    def hanging(self, side: Sides) -> list[Record]:
        """Return the trials that hang for sure, in an arm of which no blessed trial did: a slow one ends by itself in time."""
        stuck = [record for record in side.records if hung(record)]
        if side.hung_before or side.hangs:
            return [] if side.hung_before else stuck
        again = {key for key, record in self.again.items() if hung(record)}
        sure = [record for record in stuck if was_interrupted(record) or record.key in again]
        return sure if self.fixed else []

    def judged(self) -> tuple[list[Reason], Sequence[GateLine]]:
        """Return the reasons, and the lines where the run can be judged. Raises Incomparable for a metric that a side lacks."""
        ended = [*self._ends()]
        was_cut_short = any(reason.code == "hang" for reason in ended) and len(self.run.records) < self.run.scheduled
        invalid = [reason for reason in invalid_reasons(self.run) if not (was_cut_short and reason.code == "incomplete")]
        for side in self.sides:
            if (share := side.errored_before) > MAX_ERRORED:
                invalid.append(Reason("errored_baseline", "invalid", side.arm, numbers={"share": share, "most": MAX_ERRORED}))
        if invalid or was_cut_short:
            return invalid or ended, ()
        self._refuse_unknown()
        lines = judge_lines([*self._held()])
        reasons = [*ended, *map(self._reason, lines), *self._graver(lines)]
        lost = {reason.arm for reason in reasons if reason.leads_to == "regression" and reason.metric in ("", PRIMARY)}
        for arm in self.run.comparison.arms:
            faults = arm.summary.faults
            if faults.short and arm.info.arm not in lost and arm.info.arm in self.matched.arms.values():
                numbers = {"landed": faults.landed, "scheduled": faults.scheduled}
                reasons.append(Reason("few_faults", "undecided" if lost else "invalid", arm.info.arm, numbers=numbers))
        if self.matched.same is not None:
            reasons.append(self._undecided("tasks_changed", "", self.matched.others))
        return reasons, lines

    def _ends(self) -> Iterator[Reason]:
        """Yield new hangs and crashes, and other answers of the same score. Only a change can have caused them where `fixed`."""
        for side in self.sides:
            of = len(side.records)
            if stuck := self.hanging(side):
                yield Reason("hang", "regression", side.arm, numbers=_trials(stuck, of))
            if self.fixed and side.crashes:
                yield Reason("crash", "regression", side.arm, numbers=_trials(side.crashes, of))
            if self.fixed and (others := side.other_answers):
                was, now = others[0].answers
                numbers = {"trials": len(others), "of": of, "first": others[0].record.name, "was": was, "now": now}
                yield self._undecided("other_answers", side.arm, numbers)

    def _graver(self, lines: Sequence[GateLine]) -> Iterator[Reason]:
        """Yield that trials of the same score end more gravely, unless accuracy is shown to lie within its margin."""
        shown = {line.arm for line in lines if line.metric == PRIMARY and line.reason == "within_margin"}
        for side in self.sides if self.fixed else ():
            if side.graver and side.arm not in shown:
                numbers = {"trials": len(side.graver), "first": side.graver[0].record.name}
                yield self._undecided("graver_stop", side.arm, numbers)

    def _undecided(self, code: str, arm: str, numbers: Mapping[str, Any]) -> Reason:
        return Reason(code, "undecided", arm, numbers=numbers, accepted=code in self.settings.accept)

    def _refuse_unknown(self) -> None:
        for metric in self.settings.metrics:
            for side in self.sides:
                sizes = [[sum(map(len, values.values.values())) for values in side.values(name)] for name in (metric, PRIMARY)]
                few = [known < (1 - MAX_ERRORED) * scored for known, scored in zip(*sizes, strict=True)]
                if any(few) and not METRICS[metric].of_some:
                    where = "the baseline" if few[0] else "the run"
                    raise Incomparable(f"{self.run.folder}: metric {metric}: not known for all trials of {side.arm} in {where}")

    def _held(self) -> Iterator[Held]:
        for side in self.sides:
            identical = self.paired and side.identical(self.settings.metrics)
            no_chance = self.is_no_chance(side)
            gained = no_chance and side.gained
            for metric, margin in self.settings.metrics.items():
                old, new = side.values(metric, paired=self.paired)
                if METRICS[metric].of_some and not old.values.keys() & new.values.keys():
                    continue
                yield Held(
                    side.arm,
                    metric,
                    old,
                    new,
                    margin,
                    identical=identical,
                    unchanged=self.fixed and side.unchanged(metric),
                    gained=gained and (metric not in SHARES or side.none_worse(metric)),
                    lost=no_chance and side.lost,
                    grows=self.fixed,
                )

    def _reason(self, line: GateLine) -> Reason:
        """Return the reason of a line. A loss whose estimate exceeds the margin is never accepted.

        Who accepts lost tasks, and none gained, accepts them beside some gained.
        """
        side = next(side for side in self.sides if side.arm == line.arm)
        code, numbers = str(line.reason), {}
        if code == "undecided":
            numbers = {"tasks": line.tasks_to_decide or "no known number of"}
        elif code in ("tasks_lost", "tasks_gained"):
            sign = -1 if code == "tasks_lost" else 1
            changed = {pair.record.task for pair in side.pairs if sign * (pair.gain() or 0) > 0}
            numbers = {"worse" if sign < 0 else "better": len(changed)}
        accepts = {code, "tasks_lost"} if code == "undecided" and line.metric == PRIMARY else {code}
        accepted = line.result != "pass" and line.is_within and not accepts.isdisjoint(self.settings.accept)
        return Reason(code, line.result, line.arm, line.metric, numbers, accepted)

    def worst(self, lines: Sequence[GateLine]) -> Iterator[Mapping[str, Any]]:
        """Yield the trial that got most worse, by the difference, of each metric beside accuracy that does not pass.

        Of an amount it is one that both sides solved, if any of these took more: one that failed early took little.
        """
        for line in (line for line in lines if line.metric != PRIMARY and line.result != "pass"):
            side = next(side for side in self.sides if side.arm == line.arm)
            losses = [(-gain, pair) for pair in side.pairs if (gain := pair.gain(line.metric)) is not None and gain < 0]
            solved = [each for each in losses if line.is_ratio and min(value or 0 for value in each[1].values(PRIMARY)) >= 1]
            if losses:
                pair = max(solved or losses, key=lambda each: each[0])[1]
                was, now = pair.values(line.metric)
                yield {"trial": pair.record.name, "metric": line.metric, "was": was, "now": now}

    def not_judged(self, lines: Sequence[GateLine]) -> Iterator[str]:
        """Yield the arms that the baseline lacks, and the metrics that no task has on both sides."""
        arms = self.matched.arms.values()
        yield from (arm.info.arm for arm in self.run.comparison.arms if arm.info.arm not in arms)
        judged = {(line.arm, line.metric) for line in lines}
        yield from (f"{metric} of {arm}" for arm in arms for metric in self.settings.metrics if (arm, metric) not in judged)

    def doubtful(self) -> Iterator[Key]:
        """Yield trials that chance, or a slow machine, may have made what they are: of each arm the gravest."""
        for side in self.sides if self.fixed else ():
            stuck = [record.key for record in side.records if hung(record)]
            differing = sorted(
                (pair for pair in side.pairs if not pair.same and not hung(pair.record)),
                key=lambda pair: (pair.gain() or 0.0, pair.record.key),
            )
            yield from (() if any(map(was_interrupted, side.records)) else stuck[:1])
            yield from (pair.record.key for pair in differing[:MAX_AGAIN])


def doubtful_trials(run: Results, baseline: Baseline) -> frozenset[Key]:
    """Return the trials that are run once more before a run is judged; none of a run that is invalid. Raises as `judge`."""
    return frozenset() if any(invalid_reasons(run)) else frozenset(_Case(run, baseline, baseline.gate, {}).doubtful())


def _trials(records: Sequence[Record], of: int) -> dict[str, Any]:
    return {"trials": len(records), "of": of, "first": records[0].name, "error": shortened(strip_receipts(records[0].reason))}
