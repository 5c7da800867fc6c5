"""The result of an optimization, read from its run directory without loading any model, loop, suite or optimizer."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from whichloop.experiments.compare.results import Results, before_and_after, results
from whichloop.metrics.gains import Arms, Cost, DevGain, Gain, Gains, dev_gain, difference, gains, use_of
from whichloop.metrics.statistics import Interval, interval_json
from whichloop.protocol.digest import digest
from whichloop.protocol.values import counted
from whichloop.runs.config import BudgetConfig
from whichloop.runs.folders import TEST
from whichloop.runs.store.files import MANIFEST, RunError

from . import manifest as files
from .candidates import COSTS, SearchEnd
from .tried import TriedProgram, tasks_of, tried_programs

EVERYTHING_RAN = "all trials are there, what MLflow lacks may be added"
"""What to say of a run that was cut off after its last trial."""
Reason = Literal["better", "cheaper", "equivalent", "worse", "undecided", "unchanged", "failed"]
"""Why to adopt new prompts, better or cheaper, or to keep the old ones."""


@dataclass(frozen=True, slots=True)
class DesignResult:
    """The result of one design."""

    design: str
    """The loop as typed, canonical."""
    folder: Path
    initial_digest: str
    """The digest of its initial program."""
    ended: SearchEnd | None
    """None if it has not been optimized yet."""
    tried: tuple[TriedProgram, ...] = ()
    """The programs that its search tried, its own first; empty while it is not done."""
    dev: DevGain | None = None
    """The gain on the tasks that the search chose by."""
    gain: Gain | None = None
    """The gain on the locked tasks; None if these were not opened."""
    again: Interval | None = None
    """The accuracy of its own program on the locked tasks, run again with another seed; None if it was not."""
    noise: Interval | None = None
    """What the second run of its own program solved more than the first: what is no gain of any prompt."""
    uses: tuple[Cost | None, Cost | None] = (None, None)
    """What a locked task takes before and after."""
    reason: Reason | None = None
    """Why to adopt the new prompts or not; None without a whole and valid test."""

    @property
    def status(self) -> str:
        """The status: finished, budget, failed, or not ended."""
        return "not ended" if self.ended is None else self.ended.status

    @property
    def warnings(self) -> tuple[str, ...]:
        return () if self.ended is None else self.ended.warnings

    @property
    def program(self) -> Path | None:
        """The file of the optimized program."""
        return None if self.ended is None else self.folder / files.PROGRAM

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

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, with None for unknown values."""
        end = {} if self.ended is None else self.ended.to_json()
        used = {f"per_task_{when}": use and use.to_json() for when, use in zip(("before", "after"), self.uses, strict=True)}
        return {
            "design": self.design,
            "status": self.status,
            "reason": end.get("reason", ""),
            "program": None if self.program is None else str(self.program),
            "unchanged": self.is_unchanged,
            **{name: end.get(name) for name in ("digest", "candidates", "chosen")},
            "dev": None if self.dev is None else self.dev.to_json(),
            "test": None if self.gain is None else self.gain.to_json(),
            "again": interval_json(self.again),
            "noise": interval_json(self.noise),
            "optimism": None if self.optimism is None else self.optimism.value,
            "optimism_interval": interval_json(self.optimism),
            "advice": self.advice,
            "programs": [program.to_json() for program in self.tried],
            "cost": {**{name: end.get(name) for name in COSTS}, **used},
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, slots=True)
class OptimizationResult:
    """The result of an optimization, which may be incomplete."""

    folder: Path
    manifest: files.OptimizationManifest
    designs: tuple[DesignResult, ...]
    gains: Gains | None
    """None if the test split was not opened."""
    test: Results | None
    again: Results | None
    """The old prompts on the locked tasks, run a second time with another seed."""

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
    def budget(self) -> BudgetConfig:
        """The budget for each design's rollouts."""
        return self.manifest.settings.search.budget

    @property
    def title(self) -> str:
        """A line with suite, splits, optimizer, seed and state."""
        suite, splits = self.manifest.suite, self.manifest.splits
        sizes = f"{splits['train'].tasks} train, {splits['dev'].tasks} dev, {splits['test'].tasks} locked tasks"
        how = f"× {self.manifest.settings.compare.repeats}; {self.manifest.optimizer.title}, seed {self.manifest.seed}"
        return f"{suite.name} {suite.version}: {sizes} {how}{f'; {self.state}' if self.state else ''}"

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
            "budget": self.budget.model_dump(mode="json"),
            "splits": {name: split.to_json() for name, split in self.manifest.splits.items()},
            "designs": [design.to_json() for design in self.designs],
            "ranking": None if self.gains is None else self.gains.to_json(),
            "test": None if self.test is None else self.test.to_json(),
        }


def optimization_result(folder: Path) -> OptimizationResult:
    """Read an optimization, complete or not.

    Raises RunError for anything else, or if the test split was not locked until the programs were final.
    """
    manifest = files.read_optimization_manifest(folder)
    folders = [folder / item.folder for item in manifest.designs]
    designs = [
        DesignResult(item.design, path, item.program, files.read_end(path))
        for item, path in zip(manifest.designs, folders, strict=True)
    ]
    opened = manifest.splits["test"].opened
    try:
        test, again = (results(folder / name) if (folder / name / MANIFEST).is_file() else None for name in (TEST, files.AGAIN))
        seen = {record.task for run in (test, again) if run is not None for record in run.records}
        _check_lock(folder, opened, designs, seen)
        gained, arms = None, list[Arms]()
        if test is not None:
            if len(test.manifest.arms) != 2 * len(designs):
                found = counted(len(test.manifest.arms), "arm")
                raise RunError(f"{test.folder}: {found} for {len(designs)} designs, which have two each")
            pairs = zip(designs, before_and_after(test.manifest), strict=True)
            arms = [Arms(design.design, before, after) for design, (before, after) in pairs]
            _check_arms(test, arms, {} if opened is None else opened.programs, designs)
            gained = gains(test.comparison, test.records, arms)
        tested = _Tested(manifest, test, again, arms, gained)
        design_results = tuple(tested.design(place, design) for place, design in enumerate(designs))
    except RunError:
        raise
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise RunError(f"{folder}: manifest and results do not fit together: {error!r}") from None
    return OptimizationResult(folder, manifest, design_results, gained, test, again)


@dataclass(frozen=True, slots=True)
class _Tested:
    """The test so far; a part is None, or empty, where there is none."""

    manifest: files.OptimizationManifest
    test: Results | None
    again: Results | None
    arms: Sequence[Arms]
    gains: Gains | None

    def design(self, place: int, plain: DesignResult) -> DesignResult:
        """Return a design with its results."""
        end, log = plain.ended, plain.folder / files.ROLLOUTS
        gain = None if self.gains is None else self.gains.gains[place]
        about = (plain.design, plain.folder, plain.initial_digest, end)
        if end is None:
            return DesignResult(*about, gain=gain)
        tried = tried_programs(plain.folder / files.CANDIDATES, log, end, tasks_of(self.manifest))
        if self.test is None or self.gains is None or gain is None:
            return DesignResult(*about, tried, dev_gain(end.before, end.after))
        clusters = {str(line["key"][1]): str(line["record"].get("cluster", "")) for line in files.read_log(log)}
        dev, arms, again, noise = dev_gain(end.before, end.after, clusters, self.gains.alpha), self.arms[place], None, None
        if self.again is not None:
            again = next(arm.summary.accuracy for arm in self.again.comparison.arms if arm.info.arm == arms.before)
            noise = difference(self.again.records, self.test.records, arms.before, self.gains.alpha)
        summaries = {arm.info.arm: arm.summary for arm in self.test.comparison.arms}
        uses = (use_of(summaries[arms.before]), use_of(summaries[arms.after]))
        is_judged = self.test.is_complete and not self.test.comparison.invalid
        return DesignResult(*about, tried, dev, gain, again, noise, uses, _reason(plain, end, gain) if is_judged else None)


def _reason(design: DesignResult, end: SearchEnd, gain: Gain) -> Reason | None:
    """Return why to adopt a design's new prompts or not: only a gain that is shown, or the same for less."""
    if end.status == "failed":
        return "failed"
    if design.is_unchanged or gain.test is None:
        return "unchanged" if design.is_unchanged else None
    word = gain.test.verdict.word
    dollars = [ratio for ratio in (gain.nominal_usd_ratio, gain.cost_usd_ratio) if ratio is not None]
    ratios = dollars or [ratio for ratio in (gain.token_ratio,) if ratio is not None]
    return "cheaper" if word == "equivalent" and ratios and all(ratio.high < 1 for ratio in ratios) else word


# --- the lock of the test split ---


def _check_lock(folder: Path, opened: files.SplitOpening | None, designs: Sequence[DesignResult], tested: Collection[str]) -> None:
    """Raise RunError if test trials ran before the opening, or anything was requested or changed after it."""
    if opened is None:
        if tested:
            raise RunError(f"{folder}: trials of the test split were run, and {MANIFEST} does not say that it was opened")
        return
    programs = {design.design: None if design.ended is None else design.ended.digest for design in designs}
    if opened.programs != programs:
        raise RunError(f"{folder}: the test split was opened for other programs than those that the designs ended with")
    for design in designs:
        log = design.folder / files.ROLLOUTS
        if opened.rollouts.get(design.design) != files.log_digest(log):
            raise RunError(f"{log}: changed since the test split was opened")
        leaked = next((task for line in files.read_log(log) if (task := str(line["key"][1])) in tested), None)
        if leaked is not None:
            raise RunError(f"{log}: the optimizer was shown task {leaked!r} of the test split")
        if files.saved_digest(design.folder / files.PROGRAM) != programs[design.design]:
            raise RunError(f"{design.folder / files.PROGRAM}: not the program that was tested")


def _check_arms(test: Results, arms: Sequence[Arms], programs: Mapping[str, str], designs: Sequence[DesignResult]) -> None:
    """Raise RunError for an arm whose design or program is not the one that the test split was opened for."""
    program_of = {arm.arm: arm.program for arm in test.manifest.arms}
    for arm, design in zip(arms, designs, strict=True):
        if program_of[arm.before] not in (None, design.initial_digest):
            raise RunError(f"{test.folder}: arm {arm.before} ran another program than the design's own")
        if program_of[arm.after] != programs[arm.design]:
            raise RunError(f"{test.folder}: arm {arm.after} ran another program than the test split was opened for")
