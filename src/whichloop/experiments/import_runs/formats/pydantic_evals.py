"""Reports of pydantic-evals, as `EvaluationReportAdapter.dump_json(report)` writes them, or `model_dump_json` of earlier versions.

The report lists a case that raised as a failure and excludes it from its means: here it is a visible errored trial.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from whichloop.protocol import StopReason
from whichloop.protocol.digest import digest

from ..foreign_file import ForeignFile
from ..foreign_trials import ForeignArm, ForeignLog, ForeignTrial, Format, ReadingOptions, TrialKey
from ..values import (
    SeveralScoresError,
    answer_of,
    count,
    located,
    mapping,
    metadata_label,
    name_of,
    names_in_a_line,
    number_from_zero,
    object_at,
    objects_at,
    off_scale,
    other_scores,
    reason_line,
    score,
    share,
    short_value,
    without_floats,
)

ALL_ASSERTIONS = "assertions"
"""A pseudo-evaluator: 1 if all assertions of a case hold, else 0."""
COUNTS = {
    "lm_calls": "requests",
    "tool_calls": "tool_calls",
    "tokens": "total_tokens",
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cached_tokens": "cache_read_tokens",
}
"""Count of a trial → metric of a case that holds it."""
_RUN = re.compile(r"(.*) \[(\d{1,6})/\d{1,6}\]", re.DOTALL)
"""A case name of a report with `repeat=`: name, number of the run, number of runs."""


def recognizes(file: ForeignFile) -> bool:
    return isinstance(file.top_level.get("cases"), list)


def read_report(file: ForeignFile, reading: ReadingOptions) -> ForeignLog:
    """Read a report. Raises ValueError with a one-line message that names the invalid place."""
    data = file.json_object
    arm = name_of(data.get("name"), "the report's name")
    cases, failures = objects_at(data, "cases", "a case"), objects_at(data, "failures", "a failure")
    scorer = _scorer(cases, reading.scorer)
    values_in_cases = ((f"case {short_value(case.get('name'))}", _values(case).get(scorer)) for case in cases)
    if reading.scale is None and (off := off_scale(values_in_cases, f"evaluator {short_value(scorer)}")):
        raise ValueError(off)
    trials: list[ForeignTrial] = []
    questions: dict[str, str] = {}
    for case in (*cases, *failures):
        task, repeat = _task(case)
        with located(f"case {short_value(case.get('name'))}"):
            key = (arm, task, repeat)
            trials.append(_failed(case, key, reading) if "error_message" in case else _completed(case, key, scorer, reading))
            digested = digest([without_floats(case.get("inputs")), without_floats(case.get("expected_output"))])
            if questions.setdefault(task, digested) != digested:
                raise ValueError(f"two cases of the name {short_value(task)} ask different things")
    suite = name_of(data.get("dataset_name") or "dataset", "dataset_name")  # reports of earlier versions lack it
    return ForeignLog(suite, (ForeignArm(arm, model=_model(data)),), tuple(trials), questions, scorer=scorer)


FORMAT = Format("pydantic-evals", recognizes, read_report)


def _model(data: Mapping[str, Any]) -> str:
    """Return the model named in the experiment's metadata, its only place in a report."""
    model = object_at(data, "experiment_metadata").get("model")
    return name_of(model, "model") if isinstance(model, str) and model.strip() else "unknown"


def _task(case: Mapping[str, Any]) -> tuple[str, int]:
    """Return the case's own name and the 0-based number of its run."""
    name = name_of(case.get("name"), "a case's name")
    run = _RUN.fullmatch(name)
    if case.get("source_case_name") is None or run is None:
        return name, 0
    return name_of(case["source_case_name"], "source_case_name"), max(int(run[2]) - 1, 0)


def _scorer(cases: Sequence[Mapping[str, Any]], wanted: str | None) -> str:
    """Return the evaluator whose result is the accuracy: `wanted`, or the only one that gives numbers or truth values."""
    evaluators = sorted({name for case in cases for kind in ("scores", "assertions") for name in object_at(case, kind)})
    labels = sorted({name for case in cases for name in object_at(case, "labels")})
    failed = sorted({str(failure.get("name")) for case in cases for failure in _evaluator_failures(case)})
    if wanted is not None:
        if cases and wanted not in {*evaluators, *labels, *failed, ALL_ASSERTIONS}:
            raise ValueError(f"no evaluator {short_value(wanted)}; there are {names_in_a_line([*evaluators, *labels]) or 'none'}")
        return wanted
    if len(evaluators) > 1:
        hint = f"--scorer {evaluators[0]}, or --scorer {ALL_ASSERTIONS} where all assertions are to hold"
        raise SeveralScoresError(f"results of {names_in_a_line(evaluators)}; say which is the accuracy: {hint}", evaluators[0])
    if not evaluators and cases:
        raise ValueError("no evaluator gave a number or a truth value, so there is no accuracy")
    return evaluators[0] if evaluators else ""


def _evaluator_failures(case: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return objects_at(case, "evaluator_failures", "an evaluator's failure")


def _completed(case: Mapping[str, Any], key: TrialKey, scorer: str, reading: ReadingOptions) -> ForeignTrial:
    values = _values(case)
    value = score(_all_hold(case) if scorer == ALL_ASSERTIONS and scorer not in values else values.get(scorer), reading.scale)
    metrics = object_at(case, "metrics")
    counts: dict[str, Any] = {field: count(metrics.get(metric), metric) for field, metric in COUNTS.items()}
    steps = count(metrics.get("steps"), "steps")
    return ForeignTrial(
        *key,
        status="errored" if value is None else "scored",
        reason=_reason(case, scorer) if value is None else "",
        score=value,
        scores={} if value is None else other_scores({name: one for name, one in values.items() if name != scorer}),
        answer=answer_of(case.get("output")),
        steps=counts["lm_calls"] if steps is None else steps,
        **counts,
        cost_usd=number_from_zero(metrics.get("cost"), "cost"),
        seconds=number_from_zero(case.get("task_duration"), "task_duration"),
        confidence=share(metrics.get("confidence"), "confidence"),
        cluster=metadata_label(case.get("metadata"), reading.cluster),
    )


def _failed(case: Mapping[str, Any], key: TrialKey, reading: ReadingOptions) -> ForeignTrial:
    reason = reason_line(case.get("error_message") or "an error without a message")
    cluster = metadata_label(case.get("metadata"), reading.cluster)
    return ForeignTrial(*key, status="errored", reason=reason, stop=StopReason.CRASHED, cluster=cluster)


def _values(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results of all evaluators: numbers, truth values and labels."""
    return {
        name: mapping(result, f"the result {short_value(name)}").get("value")
        for kind in ("labels", "scores", "assertions")
        for name, result in object_at(case, kind).items()
    }


def _all_hold(case: Mapping[str, Any]) -> bool | None:
    """Tell whether all assertions hold; None if an evaluator failed, or there are no assertions."""
    results = [mapping(item, "an assertion").get("value") is True for item in object_at(case, "assertions").values()]
    return all(results) if results and not _evaluator_failures(case) else None


def _reason(case: Mapping[str, Any], scorer: str) -> str:
    failures = [item for item in _evaluator_failures(case) if scorer in (item.get("name"), ALL_ASSERTIONS)]
    return reason_line(f"not scored: {failures[0].get('error_message')}" if failures else f"not scored by {scorer}")
