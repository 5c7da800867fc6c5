"""The result of an optimization, read from its run directory without loading any model, loop, suite or optimizer."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from whichloop.experiments.compare.results import Results, before_and_after, results
from whichloop.metrics.gains import Arms, Cost, DevGain, Gain, Gains, dev_gain, difference, gains, use_of
from whichloop.metrics.statistics import Interval, interval_json
from whichloop.protocol import program_digest
from whichloop.protocol.json_text import digest
from whichloop.protocol.names import without_process
from whichloop.protocol.values import counted
from whichloop.runs.folders import TEST
from whichloop.runs.store.files import MANIFEST, RunError

from .candidates import PROGRAM, ROLLOUTS, Candidate, SearchCost, SearchEnd, log_digest, plain, read_end, read_log, tried_programs
from .config import AGAIN, OptimizationManifest, read_optimization_manifest
from .program_text import program_named

Reason = Literal["better", "cheaper", "equivalent", "worse", "undecided", "unchanged", "failed"]
"""Why to adopt new prompts, better or cheaper, or to keep the old ones."""


@dataclass(frozen=True, slots=True)
class DesignResult:
    """The result of one design."""

    design: str
    folder: Path
    initial_digest: str
    ended: SearchEnd | None
    tasks: Mapping[str, int] = field(default_factory=dict)
    """Split → number of its tasks."""
    tried: tuple[tuple[Candidate, SearchCost], ...] = ()
    """The programs that its search tried, its own first, each with its cost; empty while it is not done."""
    dev: DevGain | None = None
    gain: Gain | None = None
    """The gain on the locked tasks; None if these were not opened."""
    again: Interval | None = None
    """The accuracy of its own program on the locked tasks, run again with another seed; None if it was not."""
    noise: Interval | None = None
    """What the second run of its own program solved more than the first: what is no gain of any prompt."""
    uses: tuple[Cost | None, Cost | None] = (None, None)
    reason: Reason | None = None
    """Why to adopt the new prompts or not; None without a whole and valid test."""

    @property
    def status(self) -> str:
        return "not ended" if self.ended is None else self.ended.status

    @property
    def program(self) -> Path | None:
        return None if self.ended is None else self.folder / PROGRAM

    @property
    def is_unchanged(self) -> bool:
        """Whether the final program is the initial one."""
        return self.ended is not None and self.ended.digest == self.initial_digest

    @property
    def adopts(self) -> bool:
        """Whether its new prompts are to be adopted."""
        return self.reason in ("better", "cheaper")

    @property
    def advice(self) -> str:
        """What to do, and why: `adopt: better`, `keep: undecided`; empty where it is not known."""
        return f"{'adopt' if self.adopts else 'keep'}: {self.reason}" if self.reason else ""

    @property
    def optimism(self) -> Interval | None:
        """The gain on dev minus the gain on test."""
        return None if self.dev is None or self.gain is None else self.dev.optimism(self.gain)

    @property
    def programs(self) -> list[dict[str, Any]]:
        """The programs tried, as JSON. Of each split: the sum of scores, and the tasks that they are of, of how many in all."""
        rows = []
        for candidate, cost in self.tried:
            kept = self.ended is not None and candidate.number == self.ended.chosen
            row: dict[str, Any] = {"program": candidate.number, "digest": candidate.digest, "kept": kept}
            for split, scores in (("dev", candidate.dev), ("train", candidate.train)):
                solved = round(sum(scores.values()), 6)
                row |= {f"{split}_solved": solved, f"{split}_scored": len(scores), f"{split}_tasks": self.tasks[split]}
            spent = plain(cost)
            rows.append({**row, "rollouts": spent.pop("trials"), **spent})
        return rows

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, with None for unknown values."""
        end: dict[str, Any] = {"reason": "", "warnings": []} if self.ended is None else plain(self.ended)
        intervals = {"again": self.again, "noise": self.noise, "optimism_interval": self.optimism}
        used = {f"per_task_{when}": use and use.to_json() for when, use in zip(("before", "after"), self.uses, strict=True)}
        return {
            "design": self.design,
            "status": self.status,
            **{name: end.get(name) for name in ("reason", "digest", "chosen", "warnings")},
            "program": self.program and str(self.program),
            "candidates": len(self.tried) or None,
            "unchanged": self.is_unchanged,
            "advice": self.advice,
            "dev": self.dev and self.dev.to_json(),
            "test": self.gain and self.gain.to_json(),
            "optimism": self.optimism and self.optimism.value,
            **{name: interval_json(value) for name, value in intervals.items()},
            "programs": self.programs,
            "cost": {name: end.get(name) for name in ("search", "proposals", "evaluation")} | used,
        }


@dataclass(frozen=True, slots=True)
class OptimizationResult:
    """The result of an optimization, which may be incomplete."""

    folder: Path
    manifest: OptimizationManifest
    designs: tuple[DesignResult, ...]
    gains: Gains | None
    test: Results | None
    again: Results | None

    @property
    def is_complete(self) -> bool:
        return self.test is not None and not self.state

    @property
    def invalid(self) -> bool:
        """Whether the test is invalid, so that no verdict holds."""
        return self.test is not None and self.test.comparison.invalid

    @property
    def state(self) -> str:
        """The missing parts in words; empty if complete."""
        open_ones = sum(design.ended is None for design in self.designs)
        if open_ones:
            return f"incomplete: {open_ones} of {len(self.designs)} designs are not optimized yet, the test split is locked"
        for run, which in ((self.test, "the test split"), (self.again, "the second run of the old prompts")):
            if run is not None and not run.is_complete:
                return f"incomplete: {len(run.records):,} of {counted(run.scheduled, 'trial')} of {which}"
        return "incomplete: no trial of the test split was run yet" if self.test is None else ""

    @property
    def title(self) -> str:
        """A line with suite, splits, optimizer, seed and state."""
        suite, splits = self.manifest.suite, self.manifest.splits
        sizes = f"{splits['train'].tasks} train, {splits['dev'].tasks} dev, {splits['test'].tasks} locked tasks"
        how = (
            f"{self.manifest.settings.compare.repeats}; {without_process(self.manifest.optimizer.spec)}, seed {self.manifest.seed}"
        )
        return f"{suite.name} {suite.version}: {sizes} × {how}{f'; {self.state}' if self.state else ''}"

    @property
    def digest(self) -> str:
        """The sha256 of the programs and the test's records, equal for equal input."""
        programs = {design.design: None if design.ended is None else design.ended.digest for design in self.designs}
        return digest({"programs": programs, "test": None if self.test is None else self.test.digest})

    def to_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints; its names are stable."""
        return {
            "run": str(self.folder.resolve()),
            "digest": self.digest,
            "complete": self.is_complete,
            "state": self.state,
            "invalid": self.invalid,
            "optimizer": self.manifest.optimizer.to_json(),
            "budget": self.manifest.settings.search.budget.model_dump(mode="json"),
            "splits": {name: split.to_json() for name, split in self.manifest.splits.items()},
            "designs": [design.to_json() for design in self.designs],
            "ranking": self.gains and self.gains.to_json(),
            "test": self.test and self.test.to_json(),
        }


def optimization_result(folder: Path) -> OptimizationResult:
    """Read an optimization, complete or not.

    Raises RunError for anything else, or if the test split was not locked until the programs were final.
    """
    manifest = read_optimization_manifest(folder)
    designs = [
        DesignResult(item.design, folder / item.folder, item.program, read_end(folder / item.folder)) for item in manifest.designs
    ]
    try:
        test, again = (results(folder / name) if (folder / name / MANIFEST).is_file() else None for name in (TEST, AGAIN))
        _check_lock(manifest, folder, designs, {record.task for run in (test, again) if run for record in run.records})
        tasks: dict[str, int] = {name: split.tasks for name, split in manifest.splits.items()}
        designs = [_searched(design, tasks, manifest.settings.compare.alpha) for design in designs]
        gained = None
        if test is not None:
            arms = _arms(test, designs)
            _check_again(test, again, {each.before for each in arms})
            gained = gains(test.comparison, test.records, arms)
            designs = [_tested(*each, test, again) for each in zip(designs, arms, gained.gains, strict=True)]
    except RunError:
        raise
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise RunError(f"{folder}: manifest and results do not fit together: {error!r}") from None
    return OptimizationResult(folder, manifest, tuple(designs), gained, test, again)


def _check_again(test: Results, again: Results | None, names: Collection[str]) -> None:
    """Raise RunError where the second run of the old prompts is not that."""
    then, now = ({arm.arm: (arm.code, arm.program) for arm in run.manifest.arms} if run else {} for run in (test, again))
    if again and (now != {name: then[name] for name in names} or again.manifest.suite != test.manifest.suite):
        raise RunError(f"{again.folder}: not the old prompts once more, on the locked tasks")
    if again and again.manifest.seed == test.manifest.seed:
        raise RunError(f"{again.folder}: it has the seed of the first run")


def _searched(design: DesignResult, tasks: Mapping[str, int], alpha: float) -> DesignResult:
    """Return a design with the result of its search, if that has ended. `tasks`: their number in each split."""
    if design.ended is None:
        return design
    log = read_log(design.folder / ROLLOUTS)
    clusters = {line["key"][1]: str(line["record"].get("cluster", "")) for _, line in log}
    dev = dev_gain(design.ended.before, design.ended.after, clusters, alpha)
    tried = tuple(tried_programs(design.folder, design.ended, tasks["train"]))
    return replace(design, tasks=tasks, tried=tried, dev=dev)


def _tested(design: DesignResult, arms: Arms, gain: Gain, test: Results, again: Results | None) -> DesignResult:
    """Return a design with the results of the test so far."""
    use = {arm.info.arm: use_of(arm.summary) for arm in test.comparison.arms}
    design = replace(design, gain=gain, uses=(use[arms.before], use[arms.after]))
    if again is not None:
        accuracy = next(arm.summary.accuracy for arm in again.comparison.arms if arm.info.arm == arms.before)
        noise = difference(again.records, test.records, arms.before, test.comparison.alpha)
        design = replace(design, again=accuracy, noise=noise)
    judged = test.is_complete and not test.comparison.invalid
    return replace(design, reason=_reason(design, gain) if judged else None)


def _reason(design: DesignResult, gain: Gain) -> Reason | None:
    """Return why to adopt a design's new prompts or not: only a gain that is shown, or the same for less."""
    if design.status == "failed":
        return "failed"
    if design.is_unchanged or gain.test is None:
        return "unchanged" if design.is_unchanged else None
    word = gain.test.verdict.word
    dollars = [ratio for ratio in (gain.nominal_usd_ratio, gain.cost_usd_ratio) if ratio is not None]
    ratios = dollars or [ratio for ratio in (gain.token_ratio,) if ratio is not None]
    return "cheaper" if word == "equivalent" and ratios and all(ratio.high < 1 for ratio in ratios) else word


# --- the lock of the test split ---


def check_program(folder: Path, tested: str) -> None:
    """Raise RunError unless the file of a design holds the program that is tested. `tested`: its digest."""
    path = folder / PROGRAM
    try:
        program, _ = program_named(str(path))
    except ValueError as error:  # which names the file
        raise RunError(str(error)) from None
    if program_digest(program) != tested:
        raise RunError(f"{path}: not the program that the test split was opened for")


def _check_lock(manifest: OptimizationManifest, folder: Path, designs: Sequence[DesignResult], tested: Collection[str]) -> None:
    """Raise RunError if test trials ran before the opening, anything changed after it, or a search was shown a locked task."""
    opened = manifest.splits["test"].opened
    if opened is None:
        if tested:
            raise RunError(f"{folder}: trials of the test split were run, and {MANIFEST} does not say that it was opened")
        return
    if opened.programs != {design.design: design.ended and design.ended.digest for design in designs}:
        raise RunError(f"{folder}: the test split was opened for other programs than those that the designs ended with")
    for design in designs:
        log = design.folder / ROLLOUTS
        if opened.rollouts.get(design.design) != log_digest(log):
            raise RunError(f"{log}: changed since the test split was opened")
        if seen := [line["key"][1] for _, line in read_log(log) if line["key"][1] in tested]:
            raise RunError(f"{log}: the optimizer was shown task {seen[0]!r} of the test split")
        check_program(design.folder, opened.programs[design.design])


def _arms(test: Results, designs: Sequence[DesignResult]) -> list[Arms]:
    """Return the two arms of each design. Raises RunError for a program that is not the design's own, or not its final one."""
    if len(test.manifest.arms) != 2 * len(designs):
        raise RunError(f"{test.folder}: {counted(len(test.manifest.arms), 'arm')} for {len(designs)} designs, which have two each")
    ran = {arm.arm: arm.program for arm in test.manifest.arms}
    arms = []
    for design, (before, after) in zip(designs, before_and_after(test.manifest), strict=True):
        for arm, allowed in ((before, (None, design.initial_digest)), (after, (design.ended and design.ended.digest,))):
            if ran[arm] not in allowed:
                raise RunError(f"{test.folder}: arm {arm} ran another program than the test split was opened for")
        arms.append(Arms(design.design, before, after))
    return arms
