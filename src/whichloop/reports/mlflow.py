"""Finished comparisons and searches in MLflow: a run for the whole, and below it one for each arm or design.

The run directory is the result, and only read. MLflow sorts its charts and columns by name, so that the means stand before
everything else: accuracy, cost_usd, errors, steps, tokens; then `trials…`, then the intervals, `within.…`. Every call names its
store and run: MLflow's global address and active run are the user's. The one module that imports MLflow.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from whichloop._extras import needed_by
from whichloop.experiments.ablate.doc import run_doc
from whichloop.experiments.compare.results import Results
from whichloop.experiments.optimize.candidates import PROGRAM
from whichloop.experiments.optimize.doc import optimize_doc
from whichloop.experiments.optimize.result import DesignResult, OptimizationResult
from whichloop.metrics.comparison import ArmResult
from whichloop.metrics.statistics import Interval
from whichloop.protocol import render_value
from whichloop.protocol.json_text import sha256
from whichloop.protocol.redact import public_address, redact
from whichloop.runs.config import DATABASES, SERVERS, scheme_of
from whichloop.runs.folders import run_name
from whichloop.runs.manifest import ArmEntry
from whichloop.runs.store.files import MANIFEST
from whichloop.text.doc import Doc, Table, to_markdown

from .dataframes import Loaded
from .html.page import optimization_title, run_title

for _name, _value in {  # MLflow reads them when it is imported; what the user has set stays
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",  # MLflow ignores the customary 1
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
}.items():
    os.environ.setdefault(_name, _value)

with needed_by(__name__, is_module=True):
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param, Run, RunTag
    from mlflow.exceptions import MlflowException
    from mlflow.utils.credentials import get_default_host_creds
    from mlflow.utils.rest_utils import http_request

MEANS = ("accuracy", "cost_usd", "steps", "tokens")
PAGE, ARMS, TRIALS = "report.html", "arms.json", "trials.parquet"
VIEW = "whichloop"
"""The view of an experiment's runs, with these columns: without one, MLflow shows no metric until it is chosen."""
COLUMNS = ("accuracy", "cost_usd", "errors", "gain", "steps", "tokens")


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
        store.put(run_name(found.folder), (whole, *entries[1:]), began, ended, is_complete=found.is_complete)


def page_of(uri: str) -> str:
    """Return where MLflow shows the experiment that was last logged to, behind its own address; nothing if there is none."""
    with contextlib.suppress(Exception):  # what is wrong with a store MLflow's server says
        tagged = f"tags.`mlflow.sharedViewState.{VIEW}` LIKE '%'"
        (found,) = MlflowClient(uri, uri).search_experiments(1, 1, tagged, ["last_update_time DESC"])
        return f"/#/experiments/{found.experiment_id}/runs?viewStateShareKey={VIEW}"
    return ""


def _note(doc: Doc) -> Mapping[str, str]:
    """Return the tag that MLflow shows as the description of a run: the answer, tables last, of which the end may be cut off."""
    blocks = sorted(doc.shown(detail=False), key=lambda block: isinstance(block, Table))
    return {"mlflow.note.content": to_markdown(replace(doc, blocks=tuple(blocks)))}


def _table(rows: list[dict[str, Any]], name: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the tag and the file of a table as MLflow shows it; MLflow's own call would append to an earlier one."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = json.dumps({"columns": names, "data": [[row.get(name) for name in names] for row in rows]})
    return {"mlflow.loggedArtifacts": json.dumps([{"path": name, "type": "table"}])}, {name: text}


# --- a comparison ---


def _of_comparison(run: Results, scratch: Path) -> tuple[RunEntry, ...]:
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
    whole = RunEntry(
        run_title(run),
        params=shared,
        metrics={"trials": len(run.records), "trials.scheduled": run.scheduled},
        tags={**tags, **tag, **_note(run_doc(run))},
        files={**table, TRIALS: trials},
    )
    return (whole, *children)


def _made_of(entry: ArmEntry) -> dict[str, Any]:
    return {"arm": entry.arm, "loop": entry.loop, "profile": entry.profile, "model": entry.model}


def _of_arm(arm: ArmResult, entry: ArmEntry, shared: Mapping[str, object], tags: Mapping[str, str]) -> RunEntry:
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
    return RunEntry(entry.arm, entry.arm, params, metrics, {**tags, "whichloop.loop_code": entry.code})


def _within(name: str, mean: Interval | None) -> Iterator[tuple[str, float]]:
    if mean is not None:
        yield from ((f"within.{name}_low", mean.low), (f"within.{name}_high", mean.high))


# --- a search ---


def _of_search(result: OptimizationResult) -> tuple[RunEntry, ...]:
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
    whole = RunEntry(
        optimization_title(manifest),
        params=shared,
        metrics={f"{name}.{child.name}": child.metrics.get(name) for child in children for name in locked},
        tags={**tag, "whichloop.digest": result.digest, **_note(optimize_doc(result))},
        files=table,
    )
    return (whole, *children)


def _of_design(design: DesignResult, shared: Mapping[str, object]) -> RunEntry:
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
            "programs": len(design.tried),
            "search.calls": spent.calls,
            "search.tokens": spent.tokens,
            "search.usd": spent.dollars,
        }
    files = {} if program is None else {PROGRAM: program.read_text(encoding="utf-8")}
    tags = {"whichloop.status": design.status}
    return RunEntry(design.design, design.design, {"loop": design.design, **shared}, metrics, tags, files)


# --- the store ---

KNOCK_S = 5.0
"""Seconds within which a server has to answer."""
MAX_PARAM, MAX_TAG, MAX_KEY, MAX_NAME = 6000, 8000, 250, 250
"""MLflow's own limits (mlflow/utils/validation.py)."""
RUN, ARM = "whichloop.run", "whichloop.arm"
"""The tags by which a run is found again: the name of its directory, and the arm or design that it is about."""


@dataclass(frozen=True, slots=True)
class RunEntry:
    """What one MLflow run holds."""

    name: str
    arm: str = ""
    """The arm or design; empty for the run above them."""
    params: Mapping[str, object] = field(default_factory=dict)
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str | Path] = field(default_factory=dict)
    """Name of an artifact → its text, or the file itself."""


class Store:
    """One experiment of one MLflow store."""

    def __init__(self, uri: str, experiment: str, runs: Path) -> None:
        """Open the store, and make the experiment if it is missing. `runs`: the folder that holds the run directories.

        Raises ValueError for an address that MLflow cannot log to, ConnectionError for a server that does not answer, and
        whatever MLflow, its database and the network raise.
        """
        scheme = scheme_of(uri)
        if scheme not in (*SERVERS, *DATABASES):
            schemes = ", ".join(f"{name}://" for name in (*SERVERS, *DATABASES))
            raise ValueError(f"tracking address {public_address(uri)!r}: it must begin with one of {schemes}")
        if scheme in SERVERS:
            _knock(uri)
        with _alone(uri):
            self.client = MlflowClient(tracking_uri=uri, registry_uri=uri)
            known = self.client.get_experiment_by_name(experiment)
            place = None if scheme in SERVERS else (runs / "mlartifacts").as_uri()
            self.experiment_id = self.client.create_experiment(experiment, place) if known is None else known.experiment_id
        view = json.dumps({"selectedColumns": [f"metrics.`{name}`" for name in COLUMNS]})
        self.client.set_experiment_tag(self.experiment_id, f"mlflow.sharedViewState.{VIEW}", view)

    def put(self, name: str, entries: tuple[RunEntry, ...], began: float, ended: float, *, is_complete: bool) -> None:
        """Make the runs of a run directory, the first above the others, or bring them up to date.

        `name`: the directory's. `began`, `ended`: Unix seconds.
        """
        quote = '"' if "'" in name else "'"
        found = self.client.search_runs([self.experiment_id], f"tags.`{RUN}` = {quote}{name}{quote}")
        known = {run.data.tags.get(ARM, ""): run for run in found}
        ids: list[str] = []
        for entry in entries:
            above = {"mlflow.parentRunId": ids[0]} if ids else {}
            ids.append(self._put(known.get(clean(entry.arm, MAX_TAG)), entry, {RUN: name, **above, **_SOURCE}, began))
        for run_id in ids:
            self.client.set_terminated(run_id, "FINISHED" if is_complete else "KILLED", int(ended * 1000))

    def _put(self, run: Run | None, entry: RunEntry, tags: Mapping[str, str], began: float) -> str:
        """Write what is new of a run, and return its id. A run of an arm is made anew where a parameter is another."""
        params = {metric_key(redact(key)): clean(value, MAX_PARAM) or '""' for key, value in entry.params.items()}
        if run is not None and entry.arm and any(run.data.params.get(key, value) != value for key, value in params.items()):
            self.client.delete_run(run.info.run_id)
            run = None
        if run is None:
            run = self.client.create_run(self.experiment_id, int(began * 1000), dict(tags))
        run_id = str(run.info.run_id)
        self.client.update_run(run_id, status="RUNNING", name=clean(entry.name, MAX_NAME))
        texts = {**tags, **entry.tags, **({ARM: entry.arm} if entry.arm else {})}
        now, held = int(time.time() * 1000), run.data.metrics
        numbers = {key: value for key, value in entry.metrics.items() if value is not None and math.isfinite(value)}
        metrics = {metric_key(redact(key)): value for key, value in numbers.items()}
        self.client.log_batch(
            run_id,
            [Metric(key, float(value), now, 0) for key, value in metrics.items() if held.get(key) != value],
            [Param(key, value) for key, value in params.items() if key not in run.data.params],
            [RunTag(key, clean(text, MAX_TAG)) for key, text in texts.items()],
        )
        for path, content in entry.files.items():
            if isinstance(content, Path):
                self.client.log_artifact(run_id, str(content))
            else:
                self.client.log_text(run_id, redact(render_value(content)), path)
        return run_id


_SOURCE = {"mlflow.source.name": "whichloop", "mlflow.source.type": "LOCAL"}


def _knock(uri: str) -> None:
    """Ask a server once, without MLflow's retries, so that an absent server costs seconds, not minutes."""
    try:
        http_request(get_default_host_creds(uri), "/health", "GET", timeout=KNOCK_S, max_retries=0, raise_on_status=False)
    except MlflowException as error:
        raise ConnectionError(f"no server answers at {public_address(uri)}") from error


@contextlib.contextmanager
def _alone(uri: str) -> Iterator[None]:
    """Keep other processes out while MLflow makes the tables of a new SQLite file: of two that make them at once one fails."""
    path = uri.partition(":///")[2].partition("?")[0]
    if scheme_of(uri) != "sqlite" or not path or path == ":memory:":
        yield
        return
    with Path(f"{path}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def metric_key(text: str) -> str:
    """Return a key that MLflow takes for a metric or parameter: the text itself, or what is left of it and a hash.

    MLflow takes word characters, `.-: /` and relative paths in their shortest form.
    """
    if re.fullmatch(r"[/\w.\- :]{1,250}", text) and not text.startswith("..") and not {"", ".", ".."} & set(text.split("/")):
        return text
    readable = re.sub(r"[^\w.\-]+", "_", text).lstrip(".")[: MAX_KEY - 9]
    return f"{readable}-{sha256(text)[:8]}"


def clean(value: Any, limit: int) -> str:
    """Return any value as a text without secrets that every database takes."""
    text = redact(render_value(value)).replace("\x00", "\ufffd")
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
