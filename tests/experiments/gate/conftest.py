"""What the tests of the gate share: a run made once, and runs made up."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tests.sealing import reseal
from whichloop.cli.console import WIDE
from whichloop.cli.gate_targets import print_gate
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import run
from whichloop.experiments.gate import Baseline, GateResult, bless
from whichloop.metrics.record import Record
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.store.files import TRIALS, write_manifest_json

TASKS = 12


def made(folder: Path, **config: Any) -> Results:
    """A run of its own."""
    settings = {"loops": ("bare", "finish"), "profiles": ("clean", "flaky-tools"), "suite": f"arithmetic(size={TASKS})"}
    experiment = prepare(CompareConfig(runs=folder / "runs", mlflow=False, **(settings | config)))
    assert run(experiment, Unwatched()) == ""
    return results(experiment.folder, paired=False)


@pytest.fixture(scope="session")
def wind(tmp_path_factory) -> Results:
    """Two loops over a few tasks, twice each, in clean air and under faults."""
    return made(tmp_path_factory.mktemp("wind"), repeats=2)


@pytest.fixture(scope="session")
def fresh(tmp_path_factory) -> Callable[..., Results]:
    """Makes a run; keywords are settings of its comparison."""
    return lambda **config: made(tmp_path_factory.mktemp("fresh"), **config)


@pytest.fixture(scope="session")
def ran(fresh) -> Callable[..., Results]:
    """Gives the run of built-in loops with these settings, which is made once: tests only read it."""
    known: dict[str, Results] = {}

    def run_once(**config: Any) -> Results:
        key = repr(sorted(config.items()))
        if key not in known:
            known[key] = fresh(**config)
        return known[key]

    return run_once


@pytest.fixture
def altered(wind, tmp_path) -> Callable[..., Results]:
    """The run with other records, or another manifest; it has its traces still, unless it is made as one of which none is known."""

    def make(change: Callable[[Record], Record | None] = lambda record: record, *, traced: bool = True, **manifest: Any) -> Results:
        folder = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
        shutil.copytree(wind.folder, folder)
        write_manifest_json(folder, {**wind.manifest.to_json(), **manifest})
        kept = [record for old in wind.records if (record := change(old)) is not None]
        write_records(folder, kept if traced else [replace(record, trace_at=None) for record in kept])
        return results(folder, paired=False)

    return make


@pytest.fixture(scope="session")
def untraced(wind) -> Results:
    """The run as if no trace of it had been kept: for laws in which traces have no part. To read them takes most of a judgement."""
    without: Results = replace(wind, records=tuple(replace(record, trace_at=None) for record in wind.records))
    return without


@pytest.fixture(scope="session")
def baseline(wind) -> Baseline:
    """The run, blessed."""
    return bless(wind)


def failing(*names: str, arm: str = "bare/clean") -> Callable[[Record], Record]:
    """These tasks of an arm are no longer solved."""

    def change(record: Record) -> Record:
        return replace(record, scores={"accuracy": 0.0}) if record.arm == arm and record.task in names else record

    return change


def task(number: int) -> str:
    return f"arithmetic-{number:04d}"


ALL = [task(number) for number in range(1, TASKS + 1)]


def changed_suite(baseline: Baseline, **changes: Any) -> Baseline:
    return baseline.model_copy(update={"suite": baseline.suite.model_copy(update=changes)})


def arm_of(judged: GateResult, name: str) -> Any:
    return next(arm for arm in judged.arms if arm.arm == name)


def write_records(folder: Path, records: Sequence[Record]) -> None:
    lines = (json.dumps(record.to_json()) + "\n" for record in records)
    (folder / TRIALS).write_text("".join(lines), encoding="ascii")
    reseal(folder / TRIALS)


def printed(judged: GateResult, width: int) -> list[str]:
    """The lines that a terminal of so many columns shows; `WIDE`: those in a pipe."""
    columns = {"COLUMNS": str(width)} if width < WIDE else {}
    with patch.dict("os.environ", columns), contextlib.redirect_stdout(io.StringIO()) as out:
        if not columns:
            os.environ.pop("COLUMNS", None)
        print_gate(judged, verbose=False)
    return out.getvalue().splitlines()
