"""A finished comparison in MLflow: one parent run, a nested run per arm, their numbers and trials, and a sample of traces.

A reader only: the run directory is the result, what stands in MLflow is a view of it that can be made again. Numbers go in one
batch per run, trials in one Parquet file per arm, traces as a sample: all of them would take longer than the trials did.
"""

from __future__ import annotations

import ast
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from mlflow.entities import Dataset, DatasetInput, InputTag, Run

from loopbench.experiments.compare import Results
from loopbench.experiments.journal import MANIFEST
from loopbench.metrics.comparison import Arm, Pair
from loopbench.metrics.record import Record
from loopbench.metrics.summary import METRICS, PRIMARY, ArmSummary
from loopbench.protocol import render_value
from loopbench.protocol.digest import canonical_json

from .addresses import reason
from .store import (
    MOST_DATASET_DIGEST,
    MOST_NAME,
    MOST_PARAM,
    MOST_TAG,
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
from .traces import log_traces

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
    name = run_name(found.folder)
    entry = _parent_entry(found)
    tags = {**entry.tags, "mlflow.parentRunId": above} if above else entry.tags
    parent_id = store.put(store.parent(name), replace(entry, tags=tags))
    arms = store.children(parent_id, "loopbench.arm")
    for arm in found.comparison.arms:
        _log_arm(store, found, arm, parent_id, arms.get(arm.info.arm))
    store.client.log_artifact(parent_id, str(found.folder / MANIFEST))
    store.client.log_text(parent_id, json.dumps(found.to_json(), indent=2) + "\n", "comparison.json")
    _finish(store, parent_id, found, found.records)
    return parent_id


def _log_arm(store: Store, found: Results, arm: Arm, parent_id: str, run: Run | None) -> None:
    records = [record for record in found.records if record.arm == arm.info.arm]
    run_id = store.put(run, _arm_entry(found, arm, records, parent_id))
    store.client.log_inputs(run_id, [_dataset(found)])
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "trials.parquet"
        pq.write_table(trials_table(records), path)
        store.client.log_artifact(run_id, str(path))
    log_traces(store, found.folder, records, run_id)
    _finish(store, run_id, found, records)


def _finish(store: Store, run_id: str, found: Results, records: Sequence[Record]) -> None:
    """End a run at its last trial's end; a schedule that is not through counts as killed."""
    end = max((record.started_at + record.wall_s for record in records), default=time.time())
    store.client.set_terminated(run_id, "FINISHED" if found.is_complete else "KILLED", int(end * 1000))


# --- what runs hold ---


def _parent_entry(found: Results) -> Entry:
    comparison = found.comparison
    config = found.manifest["config"]
    metrics = {
        "trials": len(found.records),
        "scheduled": found.scheduled,
        "scored": sum(arm.summary.scored for arm in comparison.arms),
        "errored": sum(arm.summary.errored for arm in comparison.arms),
        "excluded": sum(arm.summary.excluded for arm in comparison.arms),
        "wall_s": found.wall_s,
    }
    design = {name: ", ".join(config[name]) for name in ("loops", "models", "profiles")}
    return Entry(
        clean(run_name(found.folder), MOST_NAME),
        _tags(found) | {"loopbench.kind": "run", "mlflow.note.content": clean(verdicts(found), MOST_TAG)},
        params(design | _setting(found)),
        numbers(metrics | _pair_metrics(comparison.pairs)),
        _started_ms(found.records),
        len(found.records),
    )


def _arm_entry(found: Results, arm: Arm, records: Sequence[Record], parent_id: str) -> Entry:
    info = arm.info
    made = next(made for made in found.manifest["arms"] if made["arm"] == info.arm)
    factors = {"loop": info.loop, "model": info.model, "profile": info.profile, "loop_code": made.get("code", "")}
    factors |= {"program": made["program"]} if "program" in made else {}
    factors |= {f"option.{name}": value for name, value in info.options.items()}
    tags = {"loopbench.kind": "arm", "loopbench.arm": info.arm, "mlflow.parentRunId": parent_id}
    return Entry(
        clean(info.arm, MOST_NAME),
        _tags(found) | tags,
        params(factors | configuration(made.get("configuration", "")) | _setting(found)),
        numbers(arm_metrics(arm.summary)),
        _started_ms(records),
        arm.summary.trials,
    )


def _tags(found: Results) -> dict[str, str]:
    return {
        "loopbench.run": run_name(found.folder),
        "loopbench.digest": found.digest,
        "loopbench.complete": str(found.is_complete).lower(),
        "loopbench.suite_digest": found.manifest["suite"]["digest"],
        "mlflow.source.name": "loopbench",
        "mlflow.source.type": "LOCAL",
    }


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


def configuration(text: str) -> dict[str, Any]:
    """The fields of a loop's `repr`, as `config.<field>`; a text that is no call with named values stays whole."""
    try:
        call = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return {"configuration": text}
    if not isinstance(call, ast.Call) or call.args or any(item.arg is None for item in call.keywords):
        return {"configuration": text}
    return {f"config.{item.arg}": _literal(item.value) for item in call.keywords}


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return ast.unparse(node)


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


def verdicts(found: Results) -> str:
    """What the run says, in a few lines of Markdown."""
    comparison = found.comparison
    lines = [f"{len(found.records)} of {found.scheduled} trials, suite `{found.manifest['config']['suite']}`.", ""]
    if comparison.invalid:
        lines.append("**Invalid: no verdict of this run holds.**")
    for pair in comparison.pairs:
        if pair.metric == PRIMARY:
            word = {"better": "better than", "worse": "worse than", "equivalent": "equivalent to"}.get(pair.verdict.word)
            said = f"`{pair.a}` is **{word}** `{pair.b}`" if word else f"**undecided** between `{pair.a}` and `{pair.b}`"
            d = pair.difference
            small = ", within the margin" if pair.verdict.within_margin else ""
            interval = f"{d.value:+.3f} [{d.low:+.3f}, {d.high:+.3f}]"
            lines.append(f"- {said}{small}: {pair.metric} {interval}, p {pair.p_holm:.3g} (Holm)")
    return "\n".join([*lines, *(f"- warning: {warning}" for warning in comparison.warnings)])


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
