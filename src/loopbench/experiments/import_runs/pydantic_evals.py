"""Reports of pydantic-evals, as `EvaluationReportAdapter.dump_json(report)` writes them, or `model_dump_json` of earlier versions.

A case that raised is among the report's failures and in none of its means: here it is errored, and seen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from loopbench.protocol import StopReason
from loopbench.protocol.digest import digest

from .foreign_trials import ForeignLog, ForeignTrial, ReadingOptions, ToldArm
from .values import (
    amount,
    answer_of,
    count,
    label_of,
    listed,
    located,
    mapping,
    name_of,
    names_in_a_line,
    one_line,
    other_scores,
    score,
    share,
    shown,
)

ALL_ASSERTIONS = "assertions"
"""In the place of an evaluator's name: 1 where all assertions of a case hold, else 0."""
_RUN = re.compile(r"(.*) \[(\d{1,6})/\d{1,6}\]", re.DOTALL)
"""A case of a report with `repeat=`: its name, which run it is, of how many."""


def read_report(data: Mapping[str, Any], path: Path, sha256: str, reading: ReadingOptions) -> ForeignLog:
    """Raises ValueError in one line that says where it is no report."""
    arm = ToldArm(name_of(data.get("name"), "the report's name"), "", {}, _model(data))
    cases = [mapping(case, "a case") for case in listed(data.get("cases"), "cases")]
    failures = [mapping(case, "a failure") for case in listed(data.get("failures"), "failures")]
    scorer = _scorer(cases, reading.scorer)
    trials: list[ForeignTrial] = []
    asked: dict[str, str] = {}
    for case in (*cases, *failures):
        task, repeat = _task(case)
        with located(f"case {shown(case.get('name'))}"):
            key = (arm.name, task, repeat)
            trials.append(_failed(case, key, reading) if "error_message" in case else _told(case, key, scorer, reading))
            digested = digest([_plain(case.get("inputs")), _plain(case.get("expected_output"))])
            if asked.setdefault(task, digested) != digested:
                raise ValueError(f"two cases of the name {shown(task)} ask different things")
    suite = data.get("dataset_name") or "dataset"  # reports of earlier versions do not say it
    return ForeignLog(
        path=path,
        format="pydantic-evals",
        sha256=sha256,
        by="",
        suite=name_of(suite, "dataset_name"),
        arms=(arm,),
        trials=tuple(trials),
        asked=asked,
        scorer=scorer,
        repeats=max([1, *(trial.repeat + 1 for trial in trials)]),
    )


def _model(data: Mapping[str, Any]) -> str:
    """Where the experiment's metadata says it: the report has no place for it."""
    model = mapping(data.get("experiment_metadata"), "experiment_metadata").get("model")
    return name_of(model, "model") if isinstance(model, str) and model.strip() else "unknown"


def _task(case: Mapping[str, Any]) -> tuple[str, int]:
    """The case's own name, and which run of it this is, 0-based."""
    name = name_of(case.get("name"), "a case's name")
    run = _RUN.fullmatch(name)
    if case.get("source_case_name") is None or run is None:
        return name, 0
    return name_of(case["source_case_name"], "source_case_name"), max(int(run[2]) - 1, 0)


def _scorer(cases: Sequence[Mapping[str, Any]], wanted: str | None) -> str:
    """Which evaluator's result is the accuracy: the one that was asked for, or the only one that gives numbers or truth values."""
    known = sorted({name for case in cases for kind in ("scores", "assertions") for name in mapping(case.get(kind), kind)})
    labels = sorted({name for case in cases for name in mapping(case.get("labels"), "labels")})
    failed = sorted({str(one.get("name")) for case in cases for one in _evaluator_failures(case)})
    if wanted is not None:
        if cases and wanted not in {*known, *labels, *failed, ALL_ASSERTIONS}:
            raise ValueError(f"no evaluator {shown(wanted)}; there are {names_in_a_line([*known, *labels]) or 'none'}")
        return wanted
    if len(known) > 1:
        hint = f"--scorer {known[0]}, or --scorer {ALL_ASSERTIONS} where all assertions are to hold"
        raise ValueError(f"results of {names_in_a_line(known)}; say which is the accuracy: {hint}")
    if not known and cases:
        raise ValueError("no evaluator gave a number or a truth value, so there is no accuracy")
    return known[0] if known else ""


def _evaluator_failures(case: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [mapping(one, "an evaluator's failure") for one in listed(case.get("evaluator_failures"), "evaluator_failures")]


def _told(case: Mapping[str, Any], key: tuple[str, str, int], scorer: str, reading: ReadingOptions) -> ForeignTrial:
    values = _values(case)
    value = score(_all_hold(case) if scorer == ALL_ASSERTIONS and scorer not in values else values.get(scorer), reading.scale)
    metrics = mapping(case.get("metrics"), "metrics")
    requests = count(metrics.get("requests"), "requests")
    steps = count(metrics.get("steps"), "steps")
    return ForeignTrial(
        *key,
        status="errored" if value is None else "scored",
        reason=_why_not(case, scorer) if value is None else "",
        score=value,
        scores={} if value is None else other_scores({name: one for name, one in values.items() if name != scorer}),
        answer=answer_of(case.get("output")),
        steps=requests if steps is None else steps,
        lm_calls=requests,
        tool_calls=count(metrics.get("tool_calls"), "tool_calls"),
        tokens=count(metrics.get("total_tokens"), "total_tokens"),
        input_tokens=count(metrics.get("input_tokens"), "input_tokens"),
        output_tokens=count(metrics.get("output_tokens"), "output_tokens"),
        cached_tokens=count(metrics.get("cache_read_tokens"), "cache_read_tokens"),
        cost_usd=amount(metrics.get("cost"), "cost"),
        seconds=amount(case.get("task_duration"), "task_duration"),
        confidence=share(metrics.get("confidence"), "confidence"),
        cluster=_cluster(case, reading.cluster),
    )


def _failed(case: Mapping[str, Any], key: tuple[str, str, int], reading: ReadingOptions) -> ForeignTrial:
    reason = one_line(case.get("error_message") or "an error without a message")
    return ForeignTrial(*key, status="errored", reason=reason, stop=StopReason.CRASHED, cluster=_cluster(case, reading.cluster))


def _values(case: Mapping[str, Any]) -> dict[str, Any]:
    """Evaluator → what it gave, numbers, truth values and labels alike."""
    made: dict[str, Any] = {}
    for kind in ("labels", "scores", "assertions"):
        made |= {
            name: mapping(result, f"the result {shown(name)}").get("value")
            for name, result in mapping(case.get(kind), kind).items()
        }
    return made


def _all_hold(case: Mapping[str, Any]) -> bool | None:
    """None where an assertion could not be made, or there is none."""
    held = [mapping(one, "an assertion").get("value") is True for one in mapping(case.get("assertions"), "assertions").values()]
    return all(held) if held and not _evaluator_failures(case) else None


def _why_not(case: Mapping[str, Any], scorer: str) -> str:
    failures = [one for one in _evaluator_failures(case) if scorer in (one.get("name"), ALL_ASSERTIONS)]
    return one_line(f"not scored: {failures[0].get('error_message')}" if failures else f"not scored by {scorer}")


def _cluster(case: Mapping[str, Any], key: str | None) -> str:
    metadata = case.get("metadata")
    return label_of(metadata.get(key), f"metadata {shown(key)}") if key is not None and isinstance(metadata, Mapping) else ""


def _plain(value: Any) -> Any:
    """Without numbers that JSON does not have."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) else value
