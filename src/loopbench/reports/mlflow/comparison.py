"""A finished comparison in MLflow: one parent run, a nested run per arm, their numbers and trials, and a sample of traces.

The run directory is the result, and only read; MLflow shows a view of it that can be made again. Numbers go in one
batch per run, trials in one Parquet file per arm, traces as a sample: all of them would take longer than the trials did.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from mlflow.entities import Dataset, DatasetInput, InputTag

from loopbench.experiments.compare.results import Results
from loopbench.metrics.comparison import ArmResult
from loopbench.metrics.record import Record
from loopbench.metrics.summary import METRICS, ArmSummary
from loopbench.protocol.digest import digest
from loopbench.runs.config import CompareConfig
from loopbench.runs.store.files import MANIFEST

from .addresses import default_uri, reason
from .notes import arm_note, files, note
from .store import (
    MAX_DATASET_DIGEST,
    MAX_NAME,
    About,
    RunEntry,
    Store,
    Tracked,
    clean,
    interval_metrics,
    metric_key,
    numbers,
    open_store,
    params,
    run_name,
)
from .traces import TraceOwner, log_traces
from .trials import write_trials
from .versions import Version, configuration, find_versions, log_version

MODEL_METRICS = (*METRICS, "accuracy_low", "accuracy_high", "recovery", "false_success_rate")
"""The numbers of an arm by which versions of a loop are compared."""


def track(found: Results, uri: str, experiment: str, page: str = "") -> Tracked | str:
    """Log a run; if that fails, return the reason in one line without secrets. The run directory is only read.

    `page`: its report, where that is made already: what it says of traces takes longer than all else.
    """
    try:
        return log_run(found, uri, experiment, page)
    except Exception as error:  # the boundary to MLflow, its database and the network: none of them may cost a result
        return reason(error, uri)


def track_as_configured(found: Results, config: CompareConfig, page: str) -> Tracked | str:
    """Log a run to the store that its configuration names, by default the one beside its run directory; see `track`."""
    return track(found, config.tracking_uri or default_uri(found.folder.parent), config.experiment, page)


def log_run(found: Results, uri: str, experiment: str, page: str = "") -> Tracked:
    """Log a run, or bring its earlier entry up to date, which is found by the run directory's name.

    Raises what `open_store` does.
    """
    store = open_store(uri, experiment, found.folder.resolve().parent)
    return store.tracked(log_comparison(store, found, page=page))


def log_comparison(store: Store, found: Results, above: str = "", page: str = "") -> str:
    """Make a run or bring it up to date, and return its id. `above`: the id of its parent run."""
    tags = _tags(found)
    entry = _parent_entry(found, tags | ({PARENT: above} if above else {}))
    parent_id = store.put(store.parent(run_name(found.folder)), entry)
    runs, models = store.children(parent_id, ARM), _models(store, found, parent_id)
    own: dict[str, list[Record]] = {arm.info.arm: [] for arm in found.comparison.arms}
    for record in found.records:
        own[record.arm].append(record)
    for arm in found.comparison.arms:
        records = own[arm.info.arm]
        about = About(models[arm.info.arm], _dataset(found, arm.info.profile), _MODEL_KEYS)
        entry = _arm_entry(found, arm, tags | {PARENT: parent_id}, _started_ms(records))
        run_id = store.put(runs.get(arm.info.arm), replace(entry, about=about))
        _log_trials(store, run_id, records)
        log_traces(store, found.folder, records, TraceOwner(run_id, about.model_id))
        _finish(store, run_id, found, records)
    store.client.log_artifact(parent_id, str(found.folder / MANIFEST))
    for path, text in files(found, page):
        store.client.log_text(parent_id, text, path)
    _finish(store, parent_id, found, found.records)
    return parent_id


PARENT, ARM = "mlflow.parentRunId", "loopbench.arm"
_MODEL_KEYS = frozenset(map(metric_key, MODEL_METRICS))


def _models(store: Store, found: Results, parent_id: str) -> dict[str, str]:
    """Return for each arm the id of the model of its loop's version."""
    versions = {arm.arm: Version.of(arm) for arm in found.manifest.arms}
    known = find_versions(store, {version.digest for version in versions.values()})
    ids: dict[str, str] = {}
    for version in versions.values():
        if version.digest not in ids:
            ids[version.digest] = log_version(store, version, known.get(version.digest), parent_id)
    return {arm: ids[version.digest] for arm, version in versions.items()}


def _log_trials(store: Store, run_id: str, records: Sequence[Record]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "trials.parquet"
        write_trials(records, path)
        store.client.log_artifact(run_id, str(path))


def _finish(store: Store, run_id: str, found: Results, records: Sequence[Record]) -> None:
    """End a run at the end of its last trial; an unfinished schedule counts as killed."""
    end = max((record.started_at + record.wall_s for record in records), default=time.time())
    store.client.set_terminated(run_id, "FINISHED" if found.is_complete else "KILLED", int(end * 1000))


# --- what runs hold ---


def _tags(found: Results) -> dict[str, str]:
    """Return the tags that a run shares with its arms."""
    return {
        "loopbench.run": run_name(found.folder),
        "loopbench.digest": found.digest,
        "loopbench.complete": str(found.is_complete).lower(),
        "loopbench.suite_digest": found.manifest.suite.digest,
        "mlflow.source.name": "loopbench",
        "mlflow.source.type": "LOCAL",
    }


def _setting(found: Results) -> dict[str, Any]:
    """Return the settings that a run shares with its arms, as parameters."""
    manifest = found.manifest
    suite, settings = manifest.suite, manifest.settings
    made = {
        "suite": settings.suite,
        "suite_version": suite.version,
        "tasks": suite.tasks,
        "max_tool_steps": "not known" if suite.max_tool_steps is None else suite.max_tool_steps,
        "repeats": settings.repeats,
        "seed": manifest.seed,
        "alpha": settings.alpha,
        "margin": settings.margin,
        "python": manifest.python,
    }
    return made | {f"version.{name}": version for name, version in manifest.packages.items()}


def _parent_entry(found: Results, tags: Mapping[str, str]) -> RunEntry:
    """Return the entry of the parent run. The note and the files hold the pairs, since MLflow would chart each of their numbers."""
    arms, settings = found.comparison.arms, found.manifest.settings
    counts = {status: sum(getattr(arm.summary, status) for arm in arms) for status in ("scored", "errored", "excluded")}
    metrics = {"trials": len(found.records), "scheduled": found.scheduled, **counts, "wall_s": found.wall_s}
    design = {name: ", ".join(typed) for name in ("loops", "models", "profiles") if (typed := getattr(settings, name))}
    return RunEntry(
        clean(run_name(found.folder), MAX_NAME),
        {**tags, "loopbench.kind": "run", NOTE: note(found)},
        params(design | _setting(found)),
        numbers(metrics),
        _started_ms(found.records),
    )


def _arm_entry(found: Results, arm: ArmResult, tags: Mapping[str, str], started_ms: int) -> RunEntry:
    """Return the entry of an arm, with all metrics at step 0: MLflow then draws bars instead of lines of one point."""
    info = arm.info
    entry = next(entry for entry in found.manifest.arms if entry.arm == info.arm)
    factors = {"loop": info.loop, "model": info.model, "profile": info.profile, "loop_code": entry.code}
    factors |= {} if entry.program is None else {"program": entry.program}
    factors |= {f"option.{name}": value for name, value in info.options.items()}
    return RunEntry(
        clean(info.arm, MAX_NAME),
        {**tags, "loopbench.kind": "arm", ARM: info.arm, NOTE: arm_note(arm, found.comparison.pairs)},
        params(factors | configuration(entry.configuration) | _setting(found)),
        numbers(arm_metrics(arm.summary)),
        started_ms,
    )


NOTE = "mlflow.note.content"


def arm_metrics(summary: ArmSummary) -> dict[str, float | None]:
    """Return an arm's numbers, each mean with the ends of its interval."""
    made: dict[str, float | None] = {name: getattr(summary, name) for name in ("trials", "scored", "errored", "excluded")}
    for name, mean in summary.means.items():
        made |= interval_metrics(name, mean)
    made["n"] = summary.accuracy.n if summary.accuracy else 0
    made |= interval_metrics("over_templates", summary.over_templates)
    if summary.over_templates is not None:
        made["templates"] = summary.over_templates.n
    made |= interval_metrics("recovery", summary.recovery) | interval_metrics("false_success_rate", summary.false_success_rate)
    made["false_success"] = summary.false_success
    made |= {f"faults.{name}": count for name, count in asdict(summary.faults).items()}
    made |= {f"errors.{kind}": count for kind, count in summary.errors.items()}
    made |= {f"retries.{kind}": count for kind, count in summary.retries.items()}
    return made | {f"stops.{reason}": count for reason, count in summary.stops.items()}


def _started_ms(records: Sequence[Record]) -> int:
    return int(1000 * min((record.started_at for record in records), default=time.time()))


def _dataset(found: Results, profile: str) -> DatasetInput:
    """Return the suite under a fault profile, with our own digest: MLflow's would cover only the first 10,000 rows.

    MLflow shows a model's metrics by dataset: what a loop does in clean air is not what it does under faults.
    """
    manifest = found.manifest
    suite, name, whole = manifest.suite, manifest.suite.name, manifest.suite.digest
    source = {"suite": manifest.settings.suite, "version": suite.version, "sha256": whole}
    if profile != "clean" and manifest.imported is None:
        faults = manifest.profiles[profile]
        source |= {"profile": profile, "profile_sha256": faults}
        name, whole = f"{name}, {profile}", digest([whole, faults])
    columns = [{"name": name, "type": "string"} for name in ("task", "query", "expected")]
    dataset = Dataset(
        name=clean(name, MAX_NAME),
        digest=whole[:MAX_DATASET_DIGEST],
        source_type="loopbench",
        source=json.dumps(source),
        schema=json.dumps({"mlflow_colspec": columns}),
        profile=json.dumps({"num_rows": suite.tasks, "max_tool_steps": suite.max_tool_steps}),
    )
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "evaluation")])
