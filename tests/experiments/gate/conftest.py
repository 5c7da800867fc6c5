"""What the tests of the gate share: runs that are made once, and what is made up from them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.experiments import running
from whichloop.experiments.compare.results import Results
from whichloop.experiments.gate import Baseline, GateResult, bless
from whichloop.experiments.gate.reasons import Reason
from whichloop.metrics.comparison import compare
from whichloop.metrics.gate import GateLine
from whichloop.metrics.record import Record

TASKS = 12
ALL = [f"arithmetic-{number:04d}" for number in range(1, TASKS + 1)]
ARM = "bare/clean"
STUCK = "the loop let nothing else run for 11 s; its process was killed, and its trace lost; it was at my_loop.py:14"
SLOW = "no end, and no request or call for 10 s"
Change = Callable[[Record], Record | None]


def made(folder: Path, **config: Any) -> Results:
    """A run of its own."""
    settings = {"loops": ("bare", "finish"), "profiles": ("clean", "flaky-tools"), "suite": f"arithmetic(size={TASKS})"}
    return running.ran(folder / "runs", is_compared=False, **(settings | config))


@pytest.fixture(scope="session")
def ran(tmp_path_factory) -> Callable[..., Results]:
    """Gives the run of built-in loops with these settings, which is made once: tests only read it."""
    known: dict[str, Results] = {}

    def run_once(**config: Any) -> Results:
        key = repr(sorted(config.items()))
        if key not in known:
            known[key] = made(tmp_path_factory.mktemp("ran"), **config)
        return known[key]

    return run_once


@pytest.fixture(scope="session")
def wind(ran: Callable[..., Results]) -> Results:
    """Two loops over a few tasks, twice each, in clean air and under faults."""
    return ran(repeats=2)


@pytest.fixture(scope="session")
def baseline(wind) -> Baseline:
    """The run, blessed."""
    return bless(wind)


@pytest.fixture(scope="session")
def alone(wind) -> Callable[[Change], Results]:
    """Gives its first arm alone with other records, without traces, to read which takes most of a judgement: for laws."""
    manifest = wind.manifest.model_copy(update={"arms": wind.manifest.arms[:1]})
    records = tuple(replace(record, trace_at=0) for record in wind.records if record.arm == ARM)
    return lambda change: changed(replace(wind, manifest=manifest, records=records), change)


def changed(found: Results, change: Change = lambda record: record, **manifest: Any) -> Results:
    """A run with other records, or another manifest."""
    told = found.manifest.model_copy(update=manifest)
    records = tuple(new for record in found.records if (new := change(record)) is not None)
    arms = [arm.info(told.suite.name) for arm in told.arms]
    compared = compare(records, arms, alpha=told.settings.alpha, margin=told.settings.margin, paired=False)
    return Results(found.folder, told, records, compared)


def of(tasks: Collection[str] = ALL, arm: str = ARM, repeats: Collection[int] = (0, 1), **fields: Any) -> Change:
    """These trials gave something else."""

    def change(record: Record) -> Record:
        is_meant = record.arm.startswith(arm) and record.task in tasks and record.repeat in repeats
        return replace(record, **fields) if is_meant else record

    return change


def failing(*tasks: str, arm: str = ARM) -> Change:
    return of(tasks, arm, scores={"accuracy": 0.0})


def hanging(*tasks: str, reason: str = STUCK, **more: Any) -> Change:
    return of(tasks, stop="timeout", reason=reason, scores={"accuracy": 0.0}, **more)


def of_arms(found: Baseline, **fields: Any) -> Baseline:
    """The baseline, of arms that were otherwise."""
    return found.model_copy(update={"arms": {name: arm.model_copy(update=fields) for name, arm in found.arms.items()}})


def of_other_code(found: Baseline) -> Baseline:
    return of_arms(found, code="0" * 64)


def of_suite(found: Baseline, **fields: Any) -> Baseline:
    return found.model_copy(update={"suite": found.suite.model_copy(update=fields)})


def asked(found: Baseline, metrics: Mapping[str, float] | None = None, *accept: str) -> Any:
    """The baseline's settings with others."""
    return found.gate.changed(metrics or {}, accept)


def reason(judged: GateResult, code: str) -> Reason:
    """The first reason of this code."""
    return next(each for each in judged.reasons if each.code == code)


def line(judged: GateResult, metric: str = "accuracy", arm: str = ARM) -> GateLine:
    return next(each for each in judged.lines if (each.arm, each.metric) == (arm, metric))
