"""The result of an optimization, read from its run directory without loading any model, loop, suite or optimizer."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whichloop.experiments.compare.results import Results, before_and_after, results
from whichloop.metrics.gains import Amortised, Arms, Cost, DevGain, Gain, Gains, Use, amortised, dev_gain, gains, use_of
from whichloop.metrics.statistics import ALPHA, Interval, interval_json
from whichloop.protocol.digest import digest
from whichloop.protocol.values import counted
from whichloop.runs.config import BudgetConfig
from whichloop.runs.folders import TEST
from whichloop.runs.store.files import MANIFEST, RunError, read_document

from .candidates import NO_COST, SearchCost, SearchEnd
from .manifest import (
    CANDIDATES,
    ENDED,
    PROGRAM,
    ROLLOUTS,
    OptimizationManifest,
    SplitOpening,
    log_digest,
    read_log,
    read_optimization_manifest,
    saved_digest,
)
from .tried import TriedProgram, advice, cut_off, other_rollouts, rolled_out, tasks_of, tried_programs

EVERYTHING_RAN = "all trials are there, what MLflow lacks may be added"
"""What to say of a run that was cut off after its last trial."""


@dataclass(frozen=True, slots=True)
class DesignCost:
    """The cost of using a design before and after, with its share of the optimization's cost."""

    before: Use | None
    """None if no trial was scored, here and in `after`."""
    after: Use | None
    amortised: Amortised | None
    """None if either is None."""


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
    dev: DevGain | None
    gain: Gain | None
    """The gain on the test split; None if that was not opened."""
    cost: DesignCost | None
    warnings: tuple[str, ...]
    advice: str = ""
    """Whether to adopt its new prompts, in a sentence; empty without a whole and valid test."""
    tried: tuple[TriedProgram, ...] = ()
    """The programs that its search tried, its own first; empty while it is not done."""
    other_rollouts: SearchCost = NO_COST
    """Those of programs that do not count as tried."""
    cut_off: str = ""
    """That the budget ended its search before a program that was ahead had run all dev tasks, in a sentence; else empty."""

    @property
    def status(self) -> str:
        """The status: finished, budget, failed, or not ended."""
        return "not ended" if self.ended is None else self.ended.status

    @property
    def program(self) -> Path | None:
        """The file of the optimized program."""
        return None if self.ended is None else self.folder / PROGRAM

    @property
    def is_unchanged(self) -> bool:
        """Whether the final program is the initial one."""
        return self.ended is not None and self.ended.digest == self.initial_digest

    @property
    def optimism(self) -> Interval | None:
        """The gain on dev minus the gain on test."""
        return None if self.dev is None or self.gain is None else self.dev.optimism(self.gain)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, with None for unknown values."""
        end, cost = self.ended, self.cost
        before, after = (None, None) if cost is None else (cost.before, cost.after)
        spent = {name: None if end is None else getattr(end, name).to_json() for name in ("search", "proposals", "evaluation")}
        return {
            "design": self.design,
            "status": self.status,
            "reason": "" if end is None else end.reason,
            "program": None if self.program is None else str(self.program),
            "digest": None if end is None else end.digest,
            "unchanged": self.is_unchanged,
            "candidates": None if end is None else end.candidates,
            "chosen": None if end is None else end.chosen,
            "dev": None if self.dev is None else self.dev.to_json(),
            "test": None if self.gain is None else self.gain.to_json(),
            "optimism": None if self.optimism is None else self.optimism.value,
            "optimism_interval": interval_json(self.optimism),
            "advice": self.advice,
            "cut_off": self.cut_off,
            "programs": [program.to_json() for program in self.tried],
            "cost": {
                **spent,
                "per_task_before": None if before is None else before.per_task.to_json(),
                "per_task_after": None if after is None else after.per_task.to_json(),
                "per_solved_before": None if before is None else before.per_solved.to_json(),
                "per_solved_after": None if after is None else after.per_solved.to_json(),
                "amortised": None if cost is None or cost.amortised is None else cost.amortised.to_json(),
            },
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, slots=True)
class OptimizationResult:
    """The result of an optimization, which may be incomplete."""

    folder: Path
    manifest: OptimizationManifest
    designs: tuple[DesignResult, ...]
    gains: Gains | None
    """None if the test split was not opened."""
    test: Results | None

    @property
    def is_complete(self) -> bool:
        return self.test is not None and self.test.is_complete

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
        if self.test is None:
            return "incomplete: no trial of the test split was run yet"
        if not self.test.is_complete:
            return f"incomplete: {len(self.test.records):,} of {counted(self.test.scheduled, 'trial')} of the test split"
        return ""

    @property
    def budget(self) -> BudgetConfig:
        """The budget for each design's rollouts."""
        return self.manifest.settings.search.budget

    @property
    def amortize(self) -> int:
        """Number of tasks over which the cost of the optimization is spread."""
        return self.manifest.settings.search.amortize

    @property
    def title(self) -> str:
        """A line with suite, splits, optimizer, seed and state."""
        suite, splits = self.manifest.suite, self.manifest.splits
        sizes = f"{splits['train'].tasks} train, {splits['dev'].tasks} dev, {splits['test'].tasks} test"
        repeats = self.manifest.settings.compare.repeats
        state = f"; {self.state}" if self.state else ""
        how = f"{self.manifest.optimizer.title}, seed {self.manifest.seed}"
        return f"{suite.name} {suite.version}: {sizes} tasks × {repeats}; {how}{state}"

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
    manifest = read_optimization_manifest(folder)
    designs = [_DesignFiles(item.design, folder / item.folder, item.program) for item in manifest.designs]
    opened = manifest.splits["test"].opened
    try:
        test = results(folder / TEST) if (folder / TEST / MANIFEST).is_file() else None
        _check_lock(folder, opened, designs, set() if test is None else {record.task for record in test.records})
        arms = None if test is None else _arms(test, designs)
        if test is not None and arms is not None:
            _check_arms(test, arms, {} if opened is None else opened.programs, designs)
        gained = None if test is None or arms is None else gains(test.comparison, test.records, arms)
        tested = _Tested(test, arms, gained)
        design_results = tuple(_design(design, place, tested, manifest) for place, design in enumerate(designs))
    except RunError:
        raise
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise RunError(f"{folder}: manifest and results do not fit together: {error!r}") from None
    return OptimizationResult(folder, manifest, design_results, gained, test)


class _DesignFiles:
    """The files of a design."""

    def __init__(self, design: str, folder: Path, initial_digest: str) -> None:
        """Read the files. Raises RunError for unreadable ones."""
        self.design = design
        self.folder = folder
        self.initial_digest = initial_digest
        self.ended = _ended(folder / ENDED)
        self.rollouts = folder / ROLLOUTS
        self.candidates = folder / CANDIDATES


def _ended(path: Path) -> SearchEnd | None:
    try:
        return SearchEnd.from_json(read_document(path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RunError(f"{path}: {type(error).__name__}: {error}") from None


def _arms(test: Results, designs: Sequence[_DesignFiles]) -> list[Arms]:
    """Return the arms of the test by design."""
    arms = len(test.manifest.arms)
    if arms != 2 * len(designs):
        raise RunError(f"{test.folder}: {counted(arms, 'arm')} for {len(designs)} designs, which have two each")
    return [Arms(design.design, *arms) for design, arms in zip(designs, before_and_after(test.manifest), strict=True)]


@dataclass(frozen=True, slots=True)
class _Tested:
    """The test so far; each part is None where there is none."""

    test: Results | None
    arms: Sequence[Arms] | None
    gains: Gains | None


def _design(files: _DesignFiles, place: int, tested: _Tested, manifest: OptimizationManifest) -> DesignResult:
    end, gained, test, arms = files.ended, tested.gains, tested.test, tested.arms
    if end is None:
        return DesignResult(
            design=files.design,
            folder=files.folder,
            initial_digest=files.initial_digest,
            ended=None,
            dev=None,
            gain=None if gained is None else gained.gains[place],
            cost=None,
            warnings=(),
        )
    alpha = ALPHA if gained is None else gained.alpha
    clusters = {} if gained is None else _clusters(files.rollouts)
    gain, advice_text = None if gained is None else gained.gains[place], ""
    if gain is not None and test is not None and test.is_complete and not test.comparison.invalid:
        unchanged = end.digest == files.initial_digest
        advice_text = advice(gain, end, is_unchanged=unchanged, alpha=alpha)
    search, rollouts = manifest.settings.search, rolled_out(files.rollouts)
    tried = tried_programs(files.candidates, rollouts, end, tasks_of(manifest))
    return DesignResult(
        design=files.design,
        folder=files.folder,
        initial_digest=files.initial_digest,
        ended=end,
        dev=dev_gain(end.before, end.after, clusters, alpha),
        gain=gain,
        cost=None if test is None or arms is None else _cost(end, arms[place], test, search.amortize),
        warnings=end.warnings,
        advice=advice_text,
        tried=tried,
        other_rollouts=other_rollouts(rollouts, tried),
        cut_off=cut_off(end, tried, rollouts.last, search.budget),
    )


def _clusters(rollouts: Path) -> dict[str, str]:
    """Return task → cluster of a design's rollouts."""
    lines = read_log(rollouts)
    return {str(line["key"][1]): str(line["record"].get("cluster", "")) for line in lines}


def _cost(end: SearchEnd, arms: Arms, test: Results, tasks: int) -> DesignCost:
    summaries = {arm.info.arm: arm.summary for arm in test.comparison.arms}
    before, after = use_of(summaries[arms.before]), use_of(summaries[arms.after])
    once = total_cost([end.search, end.proposals, end.evaluation])
    spread = None if before is None or after is None else amortised(once, before, after, tasks)
    return DesignCost(before, after, spread)


def total_cost(parts: Sequence[SearchCost]) -> Cost:
    """Return the total cost; its dollars are known if they are known for each part with calls."""
    used = [part for part in parts if part.calls]
    dollars = None if not used or any(part.dollars is None for part in used) else sum(part.dollars or 0.0 for part in used)
    return Cost(sum(part.calls for part in parts), sum(part.tokens for part in parts), dollars)


# --- the lock of the test split ---


def _check_lock(folder: Path, opened: SplitOpening | None, designs: Sequence[_DesignFiles], tested: Collection[str]) -> None:
    """Raise RunError if test trials ran before the opening, or anything was requested or changed after it."""
    if opened is None:
        if tested:
            raise RunError(f"{folder}: trials of the test split were run, and {MANIFEST} does not say that it was opened")
        return
    programs = {design.design: None if design.ended is None else design.ended.digest for design in designs}
    if opened.programs != programs:
        raise RunError(f"{folder}: the test split was opened for other programs than those that the designs ended with")
    for design in designs:
        if opened.rollouts.get(design.design) != log_digest(design.rollouts):
            raise RunError(f"{design.rollouts}: changed since the test split was opened")
        leaked = next((task for line in read_log(design.rollouts) if (task := str(line["key"][1])) in tested), None)
        if leaked is not None:
            raise RunError(f"{design.rollouts}: the optimizer was shown task {leaked!r} of the test split")
        if saved_digest(design.folder / PROGRAM) != programs[design.design]:
            raise RunError(f"{design.folder / PROGRAM}: not the program that was tested")


def _check_arms(test: Results, arms: Sequence[Arms], programs: Mapping[str, str], designs: Sequence[_DesignFiles]) -> None:
    """Raise RunError for an arm whose design or program is not the one that the test split was opened for."""
    program_of = {arm.arm: arm.program for arm in test.manifest.arms}
    for arm, design in zip(arms, designs, strict=True):
        if program_of[arm.before] not in (None, design.initial_digest):
            raise RunError(f"{test.folder}: arm {arm.before} ran another program than the design's own")
        if program_of[arm.after] != programs[arm.design]:
            raise RunError(f"{test.folder}: arm {arm.after} ran another program than the test split was opened for")
