"""A run and a baseline that can be compared: what the judgement rests on, and which trials may differ by chance alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from whichloop.experiments.compare.results import Results
from whichloop.metrics.record import Record
from whichloop.protocol.names import SCRIPTED
from whichloop.protocol.values import counted
from whichloop.runs.manifest import Manifest
from whichloop.text.numbers import listed_names

from .changes.changed_code import CodeChange
from .changes.unseen import is_changed
from .commands import GateCommands, Rules
from .comparable import refuse_other, refuse_other_tasks
from .data.baseline import Baseline, outcome_of
from .data.findings import SharedRepeats, TaskSets
from .data.sides import Sides
from .data.troubles import HANG_TRIALS, has_all, hung, interrupted, short_arm, troubles, was_interrupted

OTHER_CAUSE = "Something else than the loop's code changed: another module, a file, an environment variable"
Key = tuple[str, str, int]
"""Arm, task and repeat of a trial."""


@dataclass(frozen=True, slots=True)
class CameAgain:
    """What came of an arm's trials that were run once more, since nothing that the gate knows of can have changed them."""

    trials: int
    same: int
    """How many of them came out as in the run."""

    @property
    def is_no_chance(self) -> bool:
        """Whether all of them did, so that something has changed."""
        return self.trials == self.same > 0


@dataclass(frozen=True)
class GateCase:
    """A run and a baseline that can be compared, and the rules to judge by."""

    run: Results
    baseline: Baseline
    code: CodeChange | None
    """How the code of the suite changed; None if it did not."""
    only: TaskSets | None
    """The tasks of run and baseline, where only those are judged that are the same in both."""
    sides: Sequence[Sides]
    rules: Rules
    path: Path | None
    """The baseline's file."""
    again: Mapping[Key, Record]
    """What trials of the run gave that were run once more."""
    shared: SharedRepeats | None = None
    """The repeats that both sides have, where only these are judged; None where all are."""

    @property
    def commands(self) -> GateCommands:
        """The commands about this gate."""
        return GateCommands(self.manifest, self.baseline, self.path, self.run.folder, self.rules)

    @property
    def manifest(self) -> Manifest:
        return self.run.manifest

    def troubles(self, *, short_allowed: bool = False) -> tuple[str, ...]:
        """Return the reasons why the run or the baseline is invalid; `short_allowed`: too few faults that landed are none."""
        dead = [side.arm for side in self.sides if side.dead]
        return (
            *(trouble.reason for trouble in troubles(self.run, dead, short_allowed=short_allowed)),
            *(reason for side in self.sides for reason in side.troubles()),
        )

    @property
    def paired(self) -> bool:
        """Whether every trial has its counterpart."""
        same_repeats = self.manifest.settings.repeats == self.baseline.repeats
        return self.manifest.seed == self.baseline.seed and (same_repeats or self.shared is not None)

    @cached_property
    def fixed(self) -> bool:
        """Whether a trial can come out otherwise only if something was changed.

        Every trial has its counterpart, and the models' replies follow from seed and prompt: those of the scripted model, or of a
        recording that is replayed.
        """
        return self.paired and _replies_are_fixed(self.manifest, self.baseline, {s.baseline_arm: s.arm for s in self.sides})

    @cached_property
    def blessed_loops(self) -> frozenset[str]:
        """The arms in which nothing was changed that a digest covers: the loop's code and options, the tools, the scorers.

        What differs in them does so by chance, or by something that no digest covers. Empty where trials have no counterparts.
        """
        if not self.fixed or self.code is not None:
            return frozenset()
        in_run, blessed = {arm.arm: arm for arm in self.manifest.arms}, self.baseline.arms
        return frozenset(
            side.arm
            for side in self.sides
            if blessed[side.baseline_arm].code and not is_changed(blessed[side.baseline_arm], in_run[side.arm])
        )

    @cached_property
    def run_again(self) -> Mapping[str, CameAgain]:
        """Arm with a blessed loop → what came of its trials that were run once more; without those of which none was."""
        came_again = {}
        for side in self.sides:
            pairs = [
                (pair.record, self.again[pair.record.key]) for pair in side.pairs if pair.record.key in self.again and not pair.same
            ]
            if side.arm in self.blessed_loops and pairs:
                came_again[side.arm] = CameAgain(
                    len(pairs), sum(outcome_of(first) == outcome_of(second) for first, second in pairs)
                )
        return came_again

    @property
    def other_cause(self) -> frozenset[str]:
        """The arms in which nothing was changed that a digest covers, and whose trials still differ, again when they ran again."""
        return frozenset(arm for arm, again in self.run_again.items() if again.is_no_chance)

    @cached_property
    def causal(self) -> frozenset[str]:
        """The arms in which a change of the loop, and not chance, made trials come out otherwise.

        These are the arms whose loop was changed. An arm whose loop is the blessed one is among them only if trials that differ
        came out the same way when they ran again: otherwise the loop itself draws at random. None where tools or scorers were
        changed.
        """
        if not self.fixed or self.code is not None:
            return frozenset()
        entries = {arm.arm: arm for arm in self.manifest.arms}
        changed = {side.arm for side in self.sides if is_changed(self.baseline.arms[side.baseline_arm], entries[side.arm])}
        return frozenset(changed | self.other_cause)

    @property
    def no_chance(self) -> frozenset[str]:
        """The arms in which a change, and not chance, made trials come out otherwise.

        Besides the `causal` ones these are all arms where a file was changed that a loop shares with tools or scorers.
        """
        shared = self.fixed and self.code is not None and self.code.files
        return frozenset(side.arm for side in self.sides) if shared else self.causal

    @cached_property
    def hung(self) -> Sequence[Sides]:
        """The arms that hang for sure, and of which no blessed trial did.

        An arm hangs if all of its first trials do. Of a run that was ended early, those arms hang that had trials interrupted, or,
        where all trials that it has hang, all arms that had any.
        """
        able = [side for side in self.sides if not side.hung_before]
        if not has_all(self.run) and sum(interrupted(side.records) for side in able) >= HANG_TRIALS:
            return [side for side in able if interrupted(side.records) or side.hung]
        if not has_all(self.run) and len(self.run.records) >= HANG_TRIALS and all(map(hung, self.run.records)):
            return [side for side in able if side.records]
        return [side for side in able if side.hung]

    @cached_property
    def _hung_again(self) -> frozenset[str]:
        """The arms of which a trial ended at its time limit, and again when it was run once more: no slow machine did that."""
        return frozenset(record.arm for record in self.again.values() if hung(record))

    def hangs(self, record: Record) -> bool:
        """Whether a trial hangs, for sure: it was interrupted, or one of its arm hung again. A slow one ends by itself in time."""
        return hung(record) and (was_interrupted(record) or record.arm in self._hung_again)


def case_of(run: Results, baseline: Baseline, rules: Rules, path: Path | None, again: Sequence[Record] = ()) -> GateCase:
    """Return the case of a run. Raises Incomparable if the two cannot be compared."""
    comparable = refuse_other(run.folder, run.manifest, baseline, common=rules.common)
    refuse_other_tasks(run, baseline, comparable)
    only = None if comparable.common is None else comparable.common.same
    shared = _shared_repeats(run.manifest, baseline, comparable.arms)
    repeats = None if shared is None else shared.both
    sides = [Sides.of(run, arm, baseline, old, only, repeats) for old, arm in comparable.arms.items()]
    by_key = {record.key: record for record in again}
    return GateCase(run, baseline, comparable.code, comparable.common, sides, rules, path, by_key, shared)


def _shared_repeats(manifest: Manifest, baseline: Baseline, arms: Mapping[str, str]) -> SharedRepeats | None:
    """Return the repeats that both sides have, where their numbers differ and the first ones are the same trials; else None.

    Where a real model answers anew no trial is the same, and each one more is worth something. `arms`: arm of the baseline → arm of
    the run.
    """
    shared = SharedRepeats(manifest.settings.repeats, baseline.repeats)
    if shared.run == shared.baseline or manifest.seed != baseline.seed:
        return None
    return shared if _replies_are_fixed(manifest, baseline, arms) else None


def _replies_are_fixed(manifest: Manifest, baseline: Baseline, arms: Mapping[str, str]) -> bool:
    """Whether the models' replies follow from seed and prompt, as those of the scripted model, or of a recording that is replayed.

    `arms`: arm of the baseline → arm of the run.
    """
    settings = manifest.settings
    if settings.cassette is not None and settings.cassette_mode in (None, "replay"):
        return True
    now, then = {arm.arm: arm for arm in manifest.arms}, baseline.arms
    return all(now[arm].model == then[old].model == SCRIPTED and now[arm].met == then[old].met for old, arm in arms.items())


def same_code(case: GateCase) -> Iterator[str]:
    """Yield that loops are the blessed ones, by code, options and settings, and that trials differ all the same; and whether by
    chance, where some of them were run again. Arms of which the same holds are told together."""
    differ = [side for side in case.sides if side.arm in case.blessed_loops and not all(pair.same for pair in side.pairs)]
    again = {side.arm: case.run_again.get(side.arm) for side in differ}
    cure = "more repeats, in the baseline too, average chance out"
    not_again = [side for side in differ if again[side.arm] is None]
    if not_again:
        yield f"{_differ(not_again)}: that rests on chance, another module, a file or the clock; {cure}."
    by_change = [side for side in differ if side.arm in case.other_cause]
    if by_change:
        trials = counted(sum(case.run_again[side.arm].trials for side in by_change), "trial was", "trials were")
        yield f"{_differ(by_change)}. It is not chance: {trials} run again and came out the same. {OTHER_CAUSE}."
    by_chance = [side for side in differ if side not in not_again and side not in by_change]
    if by_chance:
        again_by_chance = [case.run_again[side.arm] for side in by_chance]
        trials = counted(sum(each.trials for each in again_by_chance), "trial")
        others = (
            f"{sum(each.trials - each.same for each in again_by_chance)} of {trials} that ran again came out otherwise once more"
        )
        yield f"{_differ(by_chance)}: that rests on chance, or on what ran before, since {others}; {cure}."


def _differ(sides: Sequence[Sides]) -> str:
    """Return `finish/clean is the loop of the baseline (code, options and settings), and yet 3 of 72 trials differ`."""
    pairs = [pair for side in sides for pair in side.pairs]
    loops = "is the loop of the baseline" if len(sides) == 1 else "are the loops of the baseline"
    others, trials = sum(not pair.same for pair in pairs), counted(len(pairs), "trial")
    blessed = f"{listed_names([short_arm(side.arm) for side in sides])} {loops} (code, options and settings)"
    return f"{blessed}, and yet {others:,} of {trials} differ"
