"""The results of a run directory: records, comparison, views. No code that the run names is imported."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from whichloop.metrics.arm_info import TrialLimits
from whichloop.metrics.caveats import Caveat, in_order
from whichloop.metrics.comparison import ArmResult, Comparison, compare
from whichloop.metrics.gains import with_planned_pairs
from whichloop.metrics.harness import Harness, harness
from whichloop.metrics.record import Record, records_digest
from whichloop.metrics.summary import PRIMARY
from whichloop.metrics.views import AtBudget, Views, at_budgets, views
from whichloop.models.prices import read_tag
from whichloop.protocol import StopReason
from whichloop.protocol.names import SCRIPTED
from whichloop.protocol.values import counted
from whichloop.runs.config import CompareConfig
from whichloop.runs.folders import is_test
from whichloop.runs.manifest import Manifest, read_manifest
from whichloop.runs.store.files import RunError
from whichloop.runs.store.trials import name_meant, read_records
from whichloop.text.numbers import limit_text

from .caveats import caveats
from .measured_forms import are_mixed
from .misleading_plans import misleading_plans
from .verdict import Verdict, verdict

_AT_STEP_LIMIT = (StopReason.MAX_STEPS, StopReason.FORCED)
MAX_PAIRED = 16
"""Maximum number of arms of an ablation that are also compared in pairs; with more, its effects say more."""


PLANNED = (
    "The pairs of a design's old and new prompts were planned: their p values and intervals are adjusted over the designs, "
    "those of other pairs over all pairs."
)
"""What to say of the pairs of an optimization's test."""


@dataclass(frozen=True)  # no slots, so that slow properties are cached
class Results:
    """A run and its results."""

    folder: Path
    manifest: Manifest
    records: Sequence[Record]
    """By task and repeat."""
    comparison: Comparison

    @cached_property
    def digest(self) -> str:
        """The digest of the records, equal for equal input at any concurrency."""
        return records_digest(self.records)

    @property
    def wall_s(self) -> float | None:
        """Seconds from the start of the first trial to the end of the last; None if unknown, as in an imported run."""
        ran = [record for record in self.records if record.status != "excluded"]
        if not ran or self.manifest.imported is not None:
            return None
        return max(record.started_at + record.wall_s for record in ran) - min(record.started_at for record in ran)

    @property
    def scheduled(self) -> int:
        """Number of trials in the schedule of the arms; of an imported run those that were due, each of which has a record."""
        return len(self.records) if self.manifest.imported is not None else self._all_repeats

    @property
    def _all_repeats(self) -> int:
        """Number of trials if each arm runs each task as often as any; the arms may be a part of the manifest's."""
        return len(self.comparison.arms) * self.manifest.suite.tasks * self.manifest.settings.repeats

    @property
    def is_complete(self) -> bool:
        """Whether every trial has ended."""
        return len(self.records) >= self.scheduled

    @property
    def title(self) -> str:
        """A line with suite, size, seed and state."""
        suite, most, imported = self.manifest.suite, self.manifest.settings.repeats, self.manifest.imported is not None
        tasks, repeats, state = counted(suite.tasks, "task"), str(most), ""
        # Where tasks share clusters, those are what the tests count.
        if clustered := [pair.units for pair in self.comparison.pairs_on(PRIMARY) if pair.units < pair.difference.n]:
            tasks += f" in {counted(max(clustered), 'cluster')}"
        if imported and len(self.records) < self._all_repeats:
            often = Counter((record.arm, record.task) for record in self.records)
            repeats = f"{min(often.values(), default=most)} to {most}"
        if not self.is_complete:
            seen = len({record.task for record in self.records})
            state = f", incomplete: {len(self.records):,} of {counted(self.scheduled, 'trial')}"
            state += f", {seen:,} of {counted(suite.tasks, 'task')} seen" if seen < suite.tasks else ""
        limits = f", {self.comparison.limits.words}" if self.comparison.limits.words else ""
        name, seed = (suite.name, "") if imported else (f"{suite.name} (version {suite.version})", f", seed {self.manifest.seed}")
        return f"{name}, {tasks} × {repeats}{seed}{limits}{state}"

    @property
    def arms_to_mend(self) -> tuple[ArmResult, ...]:
        """The arms that crashed in every trial, or never asked their model, a mistake that is to be mended first.

        What ran elsewhere cannot be mended here, so an import is judged as it is.
        """
        return () if self.manifest.imported is not None else self.comparison.dead_arms

    @cached_property
    def views(self) -> Views:
        """The views of accuracy against cost, equal budgets, repeats and confidence; computed on first use."""
        compared = self.comparison
        return views(self.records, compared.infos, self.budgets, alpha=compared.alpha)

    @cached_property
    def budgets(self) -> tuple[AtBudget, ...]:
        """The view of accuracy at equal budgets, which the answer reads too."""
        compared = self.comparison
        return at_budgets(self.records, compared.infos, alpha=compared.alpha, margin=compared.margin)

    @cached_property
    def verdict(self) -> Verdict:
        return verdict(self.comparison)

    @property
    def same_loops(self) -> list[list[str]]:
        """The groups of loops that did the same in every trial."""
        arms: dict[str, dict[tuple[str, str, str], str]] = {}
        for info in self.comparison.infos:
            arms.setdefault(info.variant, {})[info.suite, info.model, info.profile] = info.arm
        groups: list[list[str]] = []
        for loop, own in arms.items():
            for group in groups:
                first = arms[group[0]]
                if first.keys() == own.keys() and all(self.comparison.are_same(first[at], own[at]) for at in own):
                    group.append(loop)
                    break
            else:
                groups.append([loop])
        return [group for group in groups if len(group) > 1]

    @cached_property
    def harness(self) -> tuple[Harness, ...]:
        """How much of accuracy is the loop and how much the model, where loops × models are crossed; nothing of an ablation."""
        compared = self.comparison
        return () if self.manifest.is_ablation else harness(self.records, compared.infos, compared.alpha)

    def to_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints; its names are stable."""
        return self.comparison.to_json(run=str(self.folder.resolve()), digest=self.digest, wall_s=self.wall_s) | {
            "complete": self.is_complete,
            "scheduled": self.scheduled,
            "answer": self.verdict.to_json(),
            "warnings": [caveat.to_json() for caveat in caveats(self.comparison)],
            "views": self.views.to_json(),
            "harness": [harness.to_json() for harness in self.harness],
            "traces": {"kept": sum(record.trace_at > 0 for record in self.records)},
        }


def results(folder: Path, *, paired: bool = True) -> Results:
    """Read a run and compare its arms; no model, loop or suite is loaded. Raises RunError.

    Without `paired` no two arms are compared, which takes a third of the time.
    """
    manifest = read_manifest(folder)
    records = sorted(read_records(folder), key=lambda record: (record.task, record.repeat))  # equal records, equal draws and sums
    settings, arms = manifest.settings, [arm.info(manifest.suite.name) for arm in manifest.arms]
    try:
        paired = paired and (not manifest.is_ablation or len(arms) <= MAX_PAIRED)
        compared = compare(records, arms, alpha=settings.alpha, margin=settings.margin, paired=paired)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RunError(f"{folder}: manifest and records do not fit together: {error!r}") from None
    if are_mixed(arms):
        compared = replace(compared, pooled=())
    planned = before_and_after(manifest) if is_test(folder) else []
    compared = with_planned_pairs(compared, records, planned)
    misled, invalid = misleading_plans(folder, manifest, records) or (None, False)
    compared = replace(
        compared,
        caveats=in_order([*compared.caveats, *([misled] if misled else []), *_warnings(manifest)]),
        invalid=compared.invalid or invalid,
        remarks=(*_remarks(manifest), *([PLANNED] if len(planned) > 1 else [])),
        limits=_trial_limits(manifest, records),
    )
    return Results(folder, manifest, records, compared)


def before_and_after(manifest: Manifest) -> list[tuple[str, str]]:
    """Return the two arms of each design in an optimization's test: first all designs as they were, then with their programs."""
    names = [arm.arm for arm in manifest.arms]
    half = len(names) // 2
    return list(zip(names[:half], names[half:], strict=False))


def _trial_limits(manifest: Manifest, records: Sequence[Record]) -> TrialLimits:
    """Return the limits of a trial that a run set itself, and how many trials of each arm ended at its step limit, and not at
    another of its design; an imported run set none."""
    limits = list(_limits(manifest.config))
    *others, last = [words for words, _ in limits] or [""]  # name all of them, however many there are
    words = f"at most {' and '.join(filter(None, [', '.join(others), last]))} a trial" if last else ""
    most, ended = manifest.step_limits, Counter[str]()
    for record in records:
        at_limit = record.stop in _AT_STEP_LIMIT and max(record.steps, record.tool_calls) >= most.get(record.arm, math.inf)
        ended[record.arm] += at_limit
    return TrialLimits(words, frozenset(stop for _, stops in limits for stop in stops), ended)


def _limits(config: Mapping[str, Any]) -> Iterator[tuple[str, tuple[StopReason, ...]]]:
    """Yield each limit with its unit, and how trials end that reach it."""
    budget = config.get("trial_budget") or {}
    for name, unit in (("tokens", "token"), ("calls", "model call")):
        if (limit := budget.get(name)) is not None:
            yield counted(limit, unit), (StopReason.BUDGET,)
    if (limit := budget.get("dollars")) is not None:
        yield f"${limit_text(limit)} uncached", (StopReason.BUDGET,)
    if (limit := budget.get("seconds")) is not None:
        yield f"{limit:g} s of the budget", (StopReason.BUDGET,)
    if (limit := config.get("max_tool_steps")) is not None:
        yield counted(limit, "tool step"), _AT_STEP_LIMIT
    by_default = CompareConfig.model_fields["trial_timeout_s"].default
    if (limit := config.get("trial_timeout_s", by_default)) != by_default:
        yield f"{limit:g} s", (StopReason.TIMEOUT,)


def _warnings(manifest: Manifest) -> Iterator[Caveat]:
    """Yield the warnings about what distorts a run's results."""
    yield from (Caveat("suite fails a check", (), {"problem": problem}) for problem in manifest.suite_problems)
    yield from (Caveat("broken laws", (loop,), {"laws": ", ".join(laws)}) for loop, laws in manifest.broken_laws.items())
    if repeated := sum(note.trials for note in manifest.retried):
        yield Caveat("run again", (), {"trials": repeated})


def _remarks(manifest: Manifest) -> Iterator[str]:
    if manifest.suite.by_construction and any(arm.model == SCRIPTED for arm in manifest.arms):
        count = f"{manifest.suite.by_construction:,} of {counted(manifest.suite.tasks, 'task')}"
        yield f"{count} are right by construction under the scripted model: it gives the answer, which no planned call yields."
    price = manifest.settings.price
    if price is not None and (tag := read_tag(price)) is not None:
        yield f"Nothing was billed: dollars are those of the scripted model's tokens at {tag}, in US dollars a million."
    for note in manifest.rescored:
        yield f"Judged again on {note.when}: the scores of {counted(note.trials, 'trial')} changed."


def find_record(run: Results, trial: str) -> Record:
    """Return the record of `ARM/TASK/REPEAT`, or of a part as `name_meant` takes it. Raises RunError if none or several match."""
    records = {record.name: record for record in run.records}
    return records[name_meant([*records], trial, run.folder)]
