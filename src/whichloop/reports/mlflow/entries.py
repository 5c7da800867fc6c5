"""What MLflow shows of a comparison and of a search: a run for the whole, and below it one for each arm or design.

The run directory is the result, and only read. MLflow sorts its charts and columns by name, so that the means stand before
everything else: accuracy, cost_usd, errors, steps, tokens; then `trials…`, then the intervals, `within.…`.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from whichloop.experiments.compare.results import Results
from whichloop.experiments.optimize.manifest import PROGRAM
from whichloop.experiments.optimize.result import DesignResult, OptimizationResult
from whichloop.experiments.optimize.tables import optimization_doc
from whichloop.experiments.run_doc import run_doc
from whichloop.metrics.comparison import ArmResult
from whichloop.metrics.statistics import Interval
from whichloop.reports.dataframes import Loaded
from whichloop.reports.html.page import optimization_title, run_title
from whichloop.runs.folders import run_name
from whichloop.runs.manifest import ArmEntry
from whichloop.runs.store.files import MANIFEST
from whichloop.text.doc import Doc, to_markdown

from .store import Entry, Period, Store

MEANS = ("accuracy", "cost_usd", "steps", "tokens")
PAGE, ARMS, TRIALS = "report.html", "arms.json", "trials.parquet"


def log(found: Results | OptimizationResult, uri: str, experiment: str, page: str) -> None:
    """Log a run directory, or bring its runs in MLflow up to date. `page`: its report.

    Raises what `Store` raises.
    """
    store = Store(uri, experiment, found.folder.resolve().parent)
    with tempfile.TemporaryDirectory() as scratch:
        if isinstance(found, Results):
            entries, records = _of_comparison(found, Path(scratch)), found.records
        else:
            entries, records = _of_search(found), () if found.test is None else found.test.records
        common: dict[str, str | Path] = {PAGE: page, MANIFEST: found.folder / MANIFEST}
        whole = replace(entries[0], files={**entries[0].files, **common})
        began = min((record.started_at for record in records), default=0) or time.time()
        ended = max((record.started_at + record.wall_s for record in records), default=0) or time.time()
        store.put(run_name(found.folder), (whole, *entries[1:]), Period(began, ended, found.is_complete))


def _note(doc: Doc) -> Mapping[str, str]:
    """Return the answer as the tag that MLflow shows as the description of a run."""
    return {"mlflow.note.content": to_markdown(replace(doc, blocks=tuple(block for block in doc.blocks if not block.detail)))}


def _table(rows: list[dict[str, Any]], name: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the tag and the file of a table as MLflow's `log_table` writes it, which would append to an earlier one."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = json.dumps({"columns": names, "data": [[row.get(name) for name in names] for row in rows]})
    return {"mlflow.loggedArtifacts": json.dumps([{"path": name, "type": "table"}])}, {name: text}


# --- a comparison ---


def _of_comparison(run: Results, scratch: Path) -> tuple[Entry, ...]:
    manifest, arms = run.manifest, run.comparison.arms
    made = {entry.arm: entry for entry in manifest.arms}
    shared = {"suite": manifest.settings.suite, "seed": manifest.seed}
    tags = {
        "whichloop.digest": run.digest,
        "whichloop.suite_digest": manifest.suite.digest,
        "whichloop.version": manifest.packages.get("whichloop") or "",
    }
    sizes = {"tasks": manifest.suite.tasks, "repeats": manifest.settings.repeats}
    children = tuple(_of_arm(arm, made[arm.info.arm], {**shared, **sizes}, tags) for arm in arms)
    rows = [{**_made_of(made[child.arm]), **child.metrics} for child in children]
    tag, table = _table(rows, ARMS)
    trials = scratch / TRIALS
    Loaded(run).trials.to_parquet(trials)
    whole = Entry(
        run_title(run),
        params=shared,
        metrics={"trials": len(run.records), "trials.scheduled": run.scheduled},
        tags={**tags, **tag, **_note(run_doc(run))},
        files={**table, TRIALS: trials},
    )
    return (whole, *children)


def _made_of(entry: ArmEntry) -> dict[str, Any]:
    return {"arm": entry.arm, "loop": entry.loop, "profile": entry.profile, "model": entry.model}


def _of_arm(arm: ArmResult, entry: ArmEntry, shared: Mapping[str, object], tags: Mapping[str, str]) -> Entry:
    summary, options = arm.summary, {f"option.{name}": value for name, value in arm.info.options.items()}
    params = {**_made_of(entry), **options, **({"program": entry.program} if entry.program else {}), **shared}
    means = {name: summary.means[name] for name in MEANS}
    metrics = {
        **{name: None if mean is None else mean.value for name, mean in means.items()},
        "errors": sum(summary.errors.values()) / summary.scored if summary.scored and summary.tells_faults else None,
        "trials": summary.trials,
        "trials.errored": summary.errored,
        "trials.scored": summary.scored,
        **{key: value for name, mean in means.items() for key, value in _within(name, mean)},
    }
    return Entry(entry.arm, entry.arm, params, metrics, {**tags, "whichloop.loop_code": entry.code})


def _within(name: str, mean: Interval | None) -> Iterator[tuple[str, float]]:
    if mean is not None:
        yield from ((f"within.{name}_low", mean.low), (f"within.{name}_high", mean.high))


# --- a search ---


def _of_search(result: OptimizationResult) -> tuple[Entry, ...]:
    manifest = result.manifest
    settings = manifest.settings.compare
    shared = {
        "suite": settings.suite,
        "seed": manifest.seed,
        "optimizer": manifest.optimizer.spec,
        "model": ", ".join(settings.models),
        "profile": ", ".join(settings.profiles),
        **{f"tasks.{name}": split.tasks for name, split in manifest.splits.items()},
    }
    children = tuple(_of_design(design, shared) for design in result.designs)
    tag, table = _table([{"design": child.name, **child.metrics} for child in children], "designs.json")
    locked = ("test_before", "test_after", "gain")
    whole = Entry(
        optimization_title(manifest),
        params=shared,
        metrics={f"{name}.{child.name}": child.metrics.get(name) for child in children for name in locked},
        tags={**tag, "whichloop.digest": result.digest, **_note(optimization_doc(result))},
        files=table,
    )
    return (whole, *children)


def _of_design(design: DesignResult, shared: Mapping[str, object]) -> Entry:
    end, gain, program = design.ended, design.gain, design.program
    means = {} if gain is None else {"test_before": gain.before, "test_after": gain.after}
    if gain is not None and gain.test is not None:
        means["gain"] = gain.test.difference
    metrics: dict[str, float | None] = {name: None if mean is None else mean.value for name, mean in means.items()}
    metrics |= {key: value for name, mean in means.items() for key, value in _within(name, mean)}
    if design.dev is not None:
        metrics |= {"dev_before": design.dev.before, "dev_after": design.dev.after}
    if end is not None:
        spent = end.search + end.proposals + end.evaluation
        metrics |= {
            "programs": end.candidates,
            "search.calls": spent.calls,
            "search.tokens": spent.tokens,
            "search.usd": spent.dollars,
        }
    files = {} if program is None else {PROGRAM: program.read_text(encoding="utf-8")}
    tags = {"whichloop.status": design.status}
    return Entry(design.design, design.design, {"loop": design.design, **shared}, metrics, tags, files)
