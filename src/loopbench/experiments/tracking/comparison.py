"""A finished comparison in MLflow: one parent run, a nested run per arm, their numbers and trials, and a sample of traces.

A reader only: the run directory is the result, what stands in MLflow is a view of it that can be made again. Numbers go in one
batch per run, trials in one Parquet file per arm, traces as a sample: all of them would take longer than the trials did.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from mlflow.entities import Dataset, DatasetInput, InputTag, Run

from loopbench.experiments.compare import Results
from loopbench.experiments.journal import MANIFEST
from loopbench.metrics.comparison import Arm, Pair
from loopbench.metrics.record import Record
from loopbench.metrics.summary import METRICS, ArmSummary
from loopbench.protocol import render_value
from loopbench.protocol.digest import canonical_json

from .addresses import reason
from .note import files, note
from .store import (
    MOST_DATASET_DIGEST,
    MOST_NAME,
    MOST_PARAM,
    About,
    Entry,
    Store,
    Tracked,
    clean,
    interval_metrics,
    numbers,
    open_store,
    params,
    run_name,
)
from .traces import TracesOf, log_traces
from .versions import Version, configuration, find_versions, log_version

MODEL_METRICS = (*METRICS, "accuracy_low", "accuracy_high", "recovery", "false_success_rate")
"""Of an arm's numbers those that a loop's version is compared by."""
MOST_PAIR_METRICS = 400
"""Numbers about pairs of arms; the primary metric's come first."""


def track(found: Results, uri: str, experiment: str) -> Tracked | str:
    """Log a run; gives the reason, one line without secrets, where that fails. The run directory is only read."""
    try:
        return log_run(found, uri, experiment)
    except Exception as error:  # the boundary to MLflow, its database and the network: none of them may cost a result
        return reason(error, uri)


def log_run(found: Results, uri: str, experiment: str) -> Tracked:
    """Log a run, or bring an earlier logging of it up to date: it is found again by the run directory's name.

    Raises what `open_store` does.
    """
    store = open_store(uri, experiment, found.folder.resolve().parent)
    return store.tracked(log_comparison(store, found))


def log_comparison(store: Store, found: Results, above: str = "") -> str:
    """The id of the run that was made or brought up to date. `above`: the id of the run that it stands below."""
    shared = _shared(found)
    entry = _parent_entry(found, shared)
    tags = {**entry.tags, "mlflow.parentRunId": above} if above else entry.tags
    parent_id = store.put(store.parent(run_name(found.folder)), replace(entry, tags=tags))
    models = _models(store, found, parent_id)
    arms = store.children(parent_id, "loopbench.arm")
    for arm in found.comparison.arms:
        place = _Place(parent_id, models[arm.info.arm], arms.get(arm.info.arm))
        _log_arm(store, found, arm, place, shared)
    store.client.log_artifact(parent_id, str(found.folder / MANIFEST))
    for path, text in files(found):
        store.client.log_text(parent_id, text, path)
    _finish(store, parent_id, found, found.records)
    return parent_id


@dataclass(frozen=True, slots=True)
class _Shared:
    """What a run has in common with its arms."""

    tags: Mapping[str, str]
    setting: Mapping[str, Any]
    dataset: DatasetInput


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an arm stands in MLflow."""

    parent_id: str
    model_id: str
    run: Run | None
    """Its own, where it was logged before."""


def _models(store: Store, found: Results, parent_id: str) -> dict[str, str]:
    """Arm → id of the model that stands for its loop's version."""
    versions = {made["arm"]: Version.of(made) for made in found.manifest["arms"]}
    known = find_versions(store, {version.digest for version in versions.values()})
    ids: dict[str, str] = {}
    for version in versions.values():
        if version.digest not in ids:
            ids[version.digest] = log_version(store, version, known.get(version.digest), parent_id)
    return {arm: ids[version.digest] for arm, version in versions.items()}


def _log_arm(store: Store, found: Results, arm: Arm, place: _Place, shared: _Shared) -> None:
    records = [record for record in found.records if record.arm == arm.info.arm]
    made = next(made for made in found.manifest["arms"] if made["arm"] == arm.info.arm)
    run_id = store.put(place.run, _arm_entry(arm, made, place, shared, _started_ms(records)))
    store.client.log_inputs(run_id, [shared.dataset])
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "trials.parquet"
        pq.write_table(trials_table(records), path)
        store.client.log_artifact(run_id, str(path))
    log_traces(store, found.folder, records, TracesOf(run_id, place.model_id))
    _finish(store, run_id, found, records)


def _finish(store: Store, run_id: str, found: Results, records: Sequence[Record]) -> None:
    """End a run at its last trial's end; a schedule that is not through counts as killed."""
    end = max((record.started_at + record.wall_s for record in records), default=time.time())
    store.client.set_terminated(run_id, "FINISHED" if found.is_complete else "KILLED", int(end * 1000))


# --- what runs hold ---


def _shared(found: Results) -> _Shared:
    tags = {
        "loopbench.run": run_name(found.folder),
        "loopbench.digest": found.digest,
        "loopbench.complete": str(found.is_complete).lower(),
        "loopbench.suite_digest": found.manifest["suite"]["digest"],
        "mlflow.source.name": "loopbench",
        "mlflow.source.type": "LOCAL",
    }
    return _Shared(tags, _setting(found), _dataset(found))


def _setting(found: Results) -> dict[str, Any]:
    """What all arms share."""
    manifest = found.manifest
    suite, config = manifest["suite"], manifest["config"]
    made = {
        "suite": config["suite"],
        "suite_version": suite["version"],
        "tasks": suite["tasks"],
        "max_tool_steps": suite["max_tool_steps"],
        "repeats": config["repeats"],
        "seed": manifest["seed"],
        "alpha": config["alpha"],
        "margin": config["margin"],
        "python": manifest["python"],
    }
    return made | {f"version.{name}": version for name, version in manifest["packages"].items()}


def _parent_entry(found: Results, shared: _Shared) -> Entry:
    arms = found.comparison.arms
    counts = {status: sum(getattr(arm.summary, status) for arm in arms) for status in ("scored", "errored", "excluded")}
    metrics = {"trials": len(found.records), "scheduled": found.scheduled, **counts, "wall_s": found.wall_s}
    design = {name: ", ".join(found.manifest["config"][name]) for name in ("loops", "models", "profiles")}
    return Entry(
        clean(run_name(found.folder), MOST_NAME),
        {**shared.tags, "loopbench.kind": "run", "mlflow.note.content": note(found)},
        params({**design, **shared.setting}),
        numbers(metrics | _pair_metrics(found.comparison.pairs)),
        _started_ms(found.records),
        len(found.records),
    )


def _arm_entry(arm: Arm, made: Mapping[str, Any], place: _Place, shared: _Shared, started_ms: int) -> Entry:
    """`made`: the arm's part of the manifest."""
    info, dataset = arm.info, shared.dataset.dataset
    factors = {"loop": info.loop, "model": info.model, "profile": info.profile, "loop_code": made.get("code", "")}
    factors |= {"program": made["program"]} if "program" in made else {}
    factors |= {f"option.{name}": value for name, value in info.options.items()}
    return Entry(
        clean(info.arm, MOST_NAME),
        {**shared.tags, "loopbench.kind": "arm", "loopbench.arm": info.arm, "mlflow.parentRunId": place.parent_id},
        params({**factors, **configuration(made.get("configuration", "")), **shared.setting}),
        numbers(arm_metrics(arm.summary)),
        started_ms,
        arm.summary.trials,
        About(place.model_id, dataset.name, dataset.digest, frozenset(MODEL_METRICS)),
    )


def arm_metrics(summary: ArmSummary) -> dict[str, float | None]:
    """An arm's numbers; a mean stands with the ends of its interval."""
    made: dict[str, float | None] = {name: getattr(summary, name) for name in ("trials", "scored", "errored", "excluded")}
    for name in METRICS:
        made |= interval_metrics(name, getattr(summary, name))
    made["n"] = summary.accuracy.n if summary.accuracy else 0
    made |= interval_metrics("recovery", summary.recovery) | interval_metrics("false_success_rate", summary.false_success_rate)
    made["false_success"] = summary.false_success
    made |= {f"faults.{name}": count for name, count in asdict(summary.faults).items()}
    made |= {f"errors.{kind}": count for kind, count in summary.errors.items()}
    made |= {f"retries.{kind}": count for kind, count in summary.retries.items()}
    return made | {f"stops.{reason}": count for reason, count in summary.stops.items()}


def _pair_metrics(pairs: Sequence[Pair]) -> dict[str, float | None]:
    made: dict[str, float | None] = {}
    for pair in pairs:  # the primary metric's come first
        made |= interval_metrics(f"pair.{pair.a}.vs.{pair.b}.{pair.metric}", pair.difference)
        made[f"pair.{pair.a}.vs.{pair.b}.{pair.metric}_p_holm"] = pair.p_holm
    return dict(list(made.items())[:MOST_PAIR_METRICS])


def _started_ms(records: Sequence[Record]) -> int:
    return int(1000 * min((record.started_at for record in records), default=time.time()))


def _dataset(found: Results) -> DatasetInput:
    """The suite, under its own digest: MLflow's would only cover the first 10,000 rows, and has room for 36 digits."""
    suite = found.manifest["suite"]
    columns = [{"name": name, "type": "string"} for name in ("task", "query", "expected")]
    dataset = Dataset(
        name=clean(suite["name"], MOST_NAME),
        digest=suite["digest"][:MOST_DATASET_DIGEST],
        source_type="loopbench",
        source=json.dumps({"suite": found.manifest["config"]["suite"], "version": suite["version"], "sha256": suite["digest"]}),
        schema=json.dumps({"mlflow_colspec": columns}),
        profile=json.dumps({"num_rows": suite["tasks"], "max_tool_steps": suite["max_tool_steps"]}),
    )
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "evaluation")])


# --- trials ---

_COLUMNS = pa.schema(
    {
        "task": pa.string(), "repeat": pa.int64(), "seed": pa.int64(), "attempt": pa.int64(), "status": pa.string(),
        "reason": pa.string(), "stop": pa.string(), "accuracy": pa.float64(), "steps": pa.int64(), "lm_calls": pa.int64(),
        "tool_calls": pa.int64(), "input_tokens": pa.int64(), "output_tokens": pa.int64(), "tokens": pa.int64(),
        "cost_usd": pa.float64(), "nominal_usd": pa.float64(), "seconds": pa.float64(), "retries": pa.string(),
        "errors": pa.string(), "faults": pa.string(),
        "faults_landed": pa.int64(), "faults_absorbed": pa.int64(), "faults_recovered": pa.int64(), "false_success": pa.bool_(),
        "abstained": pa.bool_(), "confidence": pa.float64(), "cluster": pa.string(), "answer": pa.string(),
    }
)  # fmt: skip


def trials_table(records: Sequence[Record]) -> pa.Table:
    """One row per trial, sorted by task and repeat; mappings as JSON, the answer as text, accuracy only where scored."""
    return pa.Table.from_pylist([_row(record) for record in sorted(records, key=lambda r: r.key)], _COLUMNS)


def _row(record: Record) -> dict[str, Any]:
    row = {name: getattr(record, name, None) for name in _COLUMNS.names}
    landed = [fault for fault in record.faults if fault.landed]
    return row | {
        "reason": clean(record.reason, MOST_PARAM),
        "accuracy": record.accuracy if record.status == "scored" else None,
        "retries": canonical_json(record.retries),
        "errors": canonical_json(record.errors),
        "faults": canonical_json([asdict(fault) for fault in record.faults]),
        "faults_landed": len(landed),
        "faults_absorbed": sum(fault.absorbed for fault in landed),
        "faults_recovered": sum(fault.recovered and not fault.absorbed for fault in landed),
        "answer": None if record.answer is None else render_value(record.answer),
    }
