"""A finished comparison in MLflow: one parent run, a nested run per arm, their numbers and trials, and a sample of traces.

The run directory is the result, and only read; MLflow shows a view of it that can be made again. Numbers go in one
batch per run, trials in one Parquet file per arm, traces as a sample: all of them would take longer than the trials did.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from mlflow.entities import Dataset, DatasetInput, InputTag

from whichloop.experiments.compare.results import Results
from whichloop.metrics.comparison import ArmResult
from whichloop.metrics.record import Record
from whichloop.metrics.summary import METRICS, PRIMARY, ArmSummary
from whichloop.protocol.digest import digest
from whichloop.reports.html.page import report_html, run_title
from whichloop.runs.config import CompareConfig
from whichloop.runs.store.files import MANIFEST
from whichloop.runs.store_addresses import uri_of

from .addresses import reason
from .notes import arm_note, files, note
from .store import (
    MAX_DATASET_DIGEST,
    MAX_NAME,
    About,
    RunEntry,
    Store,
    Tracked,
    clean,
    metric_key,
    numbers,
    open_store,
    params,
    run_name,
)
from .traces import TraceOwner, log_traces, write_trials
from .versions import CODE, Version, find_versions, log_version

FIRST = ("accuracy", "steps", "tokens", "cost_usd")
"""Means that stand first: MLflow sorts its charts and tables by name."""
DETAILS = "trials"
"""Begins the keys of all other numbers, which so come after `tokens`; slashes would give them sections above the means."""


def track(run: Results, uri: str, experiment: str, report: Callable[[Results], str] = report_html) -> Tracked | str:
    """Log a run; if that fails, return the reason in one line without secrets. The run directory is only read.

    `report`: returns its page, where that is made already.
    """
    try:
        return log_run(run, uri, experiment, report)
    except Exception as error:  # the boundary to MLflow, its database and the network: none of them may cost a result
        return reason(error, uri)


def track_as_configured(run: Results, config: CompareConfig, report: Callable[[Results], str]) -> Tracked | str:
    """Log a run to the store that its configuration names, by default the one beside its run directory; see `track`."""
    return track(run, uri_of(config, run.folder.parent), config.experiment, report)


def log_run(run: Results, uri: str, experiment: str, report: Callable[[Results], str] = report_html) -> Tracked:
    """Log a run, or bring its earlier entry up to date, which is found by the run directory's name.

    Raises what `open_store` does.
    """
    store = open_store(uri, experiment, run.folder.resolve().parent)
    return store.tracked(log_comparison(store, run, report=report))


def log_comparison(store: Store, run: Results, above: str = "", report: Callable[[Results], str] = report_html) -> str:
    """Make a run or bring it up to date, and return its id. `above`: the id of its parent run."""
    tags = {
        "whichloop.run": run_name(run.folder),
        "whichloop.digest": run.digest,
        "whichloop.complete": str(run.is_complete).lower(),
        "whichloop.suite_digest": run.manifest.suite.digest,
        "mlflow.source.name": "whichloop",
        "mlflow.source.type": "LOCAL",
    }
    entry = _parent_entry(run, tags | ({PARENT: above} if above else {}))
    parent_id = store.put(store.parent(run_name(run.folder)), entry)
    runs, models = store.children(parent_id, ARM), _models(store, run, parent_id)
    own: dict[str, list[Record]] = {arm.info.arm: [] for arm in run.comparison.arms}
    for record in run.records:
        own[record.arm].append(record)
    for arm in run.comparison.arms:
        records = own[arm.info.arm]
        about = About(models[arm.info.arm], _dataset(run, arm.info.profile), model_keys())
        entry = _arm_entry(run, arm, tags | {PARENT: parent_id}, _started_ms(records))
        run_id = store.put(runs.get(arm.info.arm), replace(entry, about=about))
        _log_trials(store, run_id, records)
        log_traces(store, run.folder, records, TraceOwner(run_id, about.model_id))
        _finish(store, run_id, run, records)
    store.client.log_artifact(parent_id, str(run.folder / MANIFEST))
    for path, text in files(run, report):
        store.client.log_text(parent_id, text, path)
    _finish(store, parent_id, run, run.records)
    return parent_id


PARENT, ARM = "mlflow.parentRunId", "whichloop.arm"


def model_keys() -> frozenset[str]:
    """Return the keys of the numbers of an arm by which versions of a loop are compared."""
    ends = (f"{DETAILS}.intervals.{PRIMARY}_{end}" for end in ("low", "high"))
    rates = (f"{DETAILS}.rates.recovery", f"{DETAILS}.rates.false_success")
    return frozenset(map(metric_key, (*map(mean_key, METRICS), "errors_per_trial", *ends, *rates)))


def mean_key(metric: str) -> str:
    """Return the key of an arm's mean."""
    return metric if metric in FIRST else f"{DETAILS}.means.{metric}"


def _models(store: Store, run: Results, parent_id: str) -> dict[str, str]:
    """Return for each arm the id of the model of its loop's version."""
    versions = {arm.arm: Version.of(arm) for arm in run.manifest.arms}
    existing = find_versions(store, {version.digest for version in versions.values()})
    ids: dict[str, str] = {}
    for version in versions.values():
        if version.digest not in ids:
            ids[version.digest] = log_version(store, version, existing.get(version.digest), parent_id)
    return {arm: ids[version.digest] for arm, version in versions.items()}


def _log_trials(store: Store, run_id: str, records: Sequence[Record]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "trials.parquet"
        write_trials(records, path)
        store.client.log_artifact(run_id, str(path))


def _finish(store: Store, run_id: str, run: Results, records: Sequence[Record]) -> None:
    """End a run at the end of its last trial; an unfinished schedule counts as killed."""
    end = max((record.started_at + record.wall_s for record in records), default=time.time())
    store.client.set_terminated(run_id, "FINISHED" if run.is_complete else "KILLED", int(end * 1000))


# --- what runs hold ---


def _setting(run: Results) -> dict[str, Any]:
    """Return the settings that are the same for all arms, which are parameters of the parent run alone."""
    manifest = run.manifest
    suite, settings = manifest.suite, manifest.settings
    setting = {
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
    return setting | {f"version.{name}": version for name, version in manifest.packages.items()}


def _parent_entry(run: Results, tags: Mapping[str, str]) -> RunEntry:
    """Return the entry of the parent run. The note and the files hold the pairs, since MLflow would chart each of their numbers."""
    arms, settings = run.comparison.arms, run.manifest.settings
    counts = {status: sum(getattr(arm.summary, status) for arm in arms) for status in ("scored", "errored", "excluded")}
    metrics = {"trials": len(run.records), "scheduled": run.scheduled, **counts, "wall_s": run.wall_s}
    metrics = {f"{DETAILS}.of_run.{name}": value for name, value in metrics.items()}
    design = {name: ", ".join(typed) for name in ("loops", "models", "profiles") if (typed := getattr(settings, name))}
    return RunEntry(
        clean(run_title(run), MAX_NAME),
        {**tags, "whichloop.kind": "run", NOTE: note(run)},
        params(design | _setting(run)),
        numbers(metrics),
        _started_ms(run.records),
    )


def _arm_entry(run: Results, arm: ArmResult, tags: Mapping[str, str], started_ms: int) -> RunEntry:
    """Return the entry of an arm, with all metrics at step 0: MLflow then draws bars instead of lines of one point.

    Its parameters are what tells it from other arms, of this run or another.
    """
    info = arm.info
    entry = next(entry for entry in run.manifest.arms if entry.arm == info.arm)
    factors = {"loop": info.loop, "model": info.model, "profile": info.profile}
    factors |= {} if entry.program is None else {"program": entry.program}
    factors |= {f"option.{name}": value for name, value in info.options.items()}
    return RunEntry(
        clean(info.arm, MAX_NAME),
        {**tags, "whichloop.kind": "arm", ARM: info.arm, CODE: entry.code, NOTE: arm_note(arm, run.comparison.pairs)},
        params(factors),
        numbers(arm_metrics(arm.summary)),
        started_ms,
    )


NOTE = "mlflow.note.content"


def arm_metrics(summary: ArmSummary) -> dict[str, float | None]:
    """Return an arm's numbers, accuracy, steps and errors first: MLflow opens its comparison on the first metric of a run."""
    first = {name: summary.means[name] for name in FIRST}
    means = {mean_key(name): None if mean is None else mean.value for name, mean in (first | dict(summary.means)).items()}
    errors = {"errors_per_trial": sum(summary.errors.values()) / summary.scored if summary.scored else None}
    rates = {"recovery": summary.recovery, "false_success": summary.false_success_rate, "over_templates": summary.over_templates}
    metrics: dict[str, float | None] = {name: means.pop(name) for name in FIRST[:2]} | errors | means
    for name, estimate in rates.items():
        metrics[f"{DETAILS}.rates.{name}"] = None if estimate is None else estimate.value
    for name, estimate in (dict(summary.means) | rates).items():
        if estimate is not None:
            metrics |= {f"{DETAILS}.intervals.{name}_low": estimate.low, f"{DETAILS}.intervals.{name}_high": estimate.high}
    return metrics | _counts(summary)


def _counts(summary: ArmSummary) -> dict[str, float | None]:
    counts: dict[str, float | None] = {
        f"{DETAILS}.counts.{name}": getattr(summary, name)
        for name in ("trials", "scored", "errored", "excluded", "tasks", "false_success")
    }
    if summary.over_templates is not None:
        counts[f"{DETAILS}.counts.templates"] = summary.over_templates.n
    faults = asdict(summary.faults) if summary.tells_faults else {}
    kinds = {"faults": faults, "errors": summary.errors, "retries": summary.retries, "stops": summary.stops}
    return counts | {f"{DETAILS}.{kind}.{name}": count for kind, by_name in kinds.items() for name, count in by_name.items()}


def _started_ms(records: Sequence[Record]) -> int:
    return int(1000 * min((record.started_at for record in records), default=time.time()))


def _dataset(run: Results, profile: str) -> DatasetInput:
    """Return the suite under a fault profile, with our own digest: MLflow's would cover only the first 10,000 rows.

    MLflow shows a model's metrics by dataset: what a loop does in clean air is not what it does under faults.
    """
    manifest = run.manifest
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
        source_type="whichloop",
        source=json.dumps(source),
        schema=json.dumps({"mlflow_colspec": columns}),
        profile=json.dumps({"num_rows": suite.tasks, "max_tool_steps": suite.max_tool_steps}),
    )
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "evaluation")])
