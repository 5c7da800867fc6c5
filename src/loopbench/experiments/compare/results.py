"""A run directory and what it says: records, comparison, views. Nothing of a run is imported for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from loopbench.metrics.comparison import ArmInfo, Comparison, compare, undecided
from loopbench.metrics.record import Record, records_digest
from loopbench.metrics.sequential import Looked, Looks, all_decided, looked
from loopbench.metrics.views import Views, views
from loopbench.runs.gc_tuning import relaxed_gc
from loopbench.runs.manifest import ABLATION, looks_of, remarks_of, warnings_of
from loopbench.runs.store.files import RunError, read_manifest
from loopbench.runs.store.records import one_of, read_records
from loopbench.runs.store.traces import TracesSize, traces_size

MAX_PAIRED = 16
"""Arms of an ablation up to which they are compared in pairs too; beyond that its effects say more, and sooner."""


@dataclass(frozen=True)  # no slots: what takes long is computed once
class Results:
    """A run and what it says."""

    folder: Path
    manifest: Mapping[str, Any]
    records: tuple[Record, ...]
    comparison: Comparison
    looked: Looked | None = None
    """Of a run that is looked at on its way, how far it has come."""

    @cached_property
    def digest(self) -> str:
        """Of the records: equal for equal input, at any concurrency."""
        return records_digest(self.records)

    @property
    def wall_s(self) -> float | None:
        """First trial started to last finished, in seconds; None where that is not known, as of an imported run."""
        ran = [record for record in self.records if record.status != "excluded"]
        if not ran or "imported" in self.manifest:
            return None
        return max(record.started_at + record.wall_s for record in ran) - min(record.started_at for record in ran)

    @property
    def scheduled(self) -> int:
        """Trials in the whole schedule."""
        return len(self.manifest["arms"]) * int(self.manifest["suite"]["tasks"]) * int(self.manifest["config"]["repeats"])

    @property
    def is_complete(self) -> bool:
        """Every trial has come to its end, or every pair was decided at a look on the way."""
        return len(self.records) >= self.scheduled or (self.looked is not None and self.looked.stopped)

    @property
    def title(self) -> str:
        """Suite, size, seed, and how much of the run is there, in one line."""
        suite, repeats = self.manifest["suite"], self.manifest["config"]["repeats"]
        state = "" if self.is_complete else f", incomplete: {len(self.records)} of {self.scheduled} trials"
        if self.looked is not None and self.looked.stopped:
            state = f", stopped after {self.looked.tasks} of them"
        seed = "" if "imported" in self.manifest else f", seed {self.manifest['seed']}"
        return f"{suite['name']} {suite['version']}: {suite['tasks']} tasks × {repeats}{seed}{state}"

    @cached_property
    def views(self) -> Views:
        """Accuracy against cost, equal budgets, repeats, confidence; computed when first asked for."""
        compared = self.comparison
        return views(self.records, [arm.info for arm in compared.arms], alpha=compared.alpha, margin=compared.margin)

    @cached_property
    def traces(self) -> TracesSize:
        """What the traces take."""
        return traces_size(self.folder, self.records)

    def to_json(self) -> dict[str, Any]:
        """The object of `--json`: names stay stable."""
        return self.comparison.to_json(run=str(self.folder.resolve()), digest=self.digest, wall_s=self.wall_s) | {
            "complete": self.is_complete,
            "scheduled": self.scheduled,
            "views": self.views.to_json(),
            "looks": None if self.looked is None else self.looked.to_json(),
            "traces": self.traces.to_json(),
        }


@relaxed_gc()
def results(folder: Path) -> Results:
    """Read a run and compare its arms; no model, loop or suite is loaded. Raises RunError."""
    manifest = read_manifest(folder)
    records = read_records(folder)
    records.sort(key=lambda record: (record.task, record.repeat))  # draws and sums of equal records are then equal
    try:
        arms = [
            ArmInfo(arm["arm"], arm["loop"], dict(arm["options"]), arm["model"], arm["profile"], manifest["suite"]["name"])
            for arm in manifest["arms"]
        ]
        if not all(isinstance(name, str) for arm in arms for name in (arm.arm, arm.loop, arm.model, arm.profile, arm.suite)):
            raise TypeError("what an arm consists of has names that are not text")
        config = manifest["config"]
        looks = looks_of(manifest)
        at = None if looks is None else looked_at(looks, records, manifest)
        alpha, paired = config["alpha"] if at is None else at.level, ABLATION not in manifest or len(arms) <= MAX_PAIRED
        compared = compare(records, arms, alpha=alpha, margin=config["margin"], paired=paired)
        problems = tuple(f"the suite fails a check, {problem}" for problem in manifest.get("suite_problems", ()))
        compared = replace(
            compared, warnings=(*compared.warnings, *problems, *warnings_of(manifest)), remarks=tuple(remarks_of(manifest))
        )
        if at is not None:
            at = replace(at, stopped=at.reached < at.planned and not at.between and all_decided(compared))
            pairs = tuple(map(undecided, compared.pairs)) if at.between else compared.pairs
            compared = replace(compared, remarks=(at.remark, *compared.remarks), pairs=pairs)
        found = Results(folder, manifest, tuple(records), compared, at)
        found.title  # noqa: B018  a manifest without what the title says is none
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RunError(f"{folder}: manifest and records do not fit together: {error!r}") from None
    return found


def find_record(found: Results, trial: str) -> Record:
    """The record of `ARM/TASK/REPEAT`, or of a part of that as `one_of` takes it. Raises RunError where none or several match."""
    records = {record.name: record for record in found.records}
    return records[one_of(records, trial, found.folder)]


def looked_at(looks: Looks, records: Sequence[Record], manifest: Mapping[str, Any]) -> Looked:
    per_task = len(manifest["arms"]) * int(manifest["config"]["repeats"])
    return looked(looks, Counter(record.task for record in records), per_task)
