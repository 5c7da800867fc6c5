"""Reports of pydantic-evals, as `EvaluationReportAdapter.dump_json(report)` writes them, or `model_dump_json` of earlier versions.

The report lists a case that raised as a failure and excludes it from its means: here it is a visible errored trial.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from whichloop.protocol import StopReason
from whichloop.protocol.json_text import digest
from whichloop.protocol.values import shown_short

from .. import values
from ..foreign_file import ForeignFile
from ..foreign_trials import ForeignArm, ForeignLog, Format, ReadingOptions
from ..values import located, mapping, name_of, names_in_a_line, object_at, objects_at

ALL_ASSERTIONS = "assertions"
"""A pseudo-evaluator: 1 if all assertions of a case hold, else 0."""
COUNTS = {name: name for name in ("steps", "tool_calls", "input_tokens", "output_tokens", "confidence")}
COUNTS |= {"lm_calls": "requests", "tokens": "total_tokens", "cached_tokens": "cache_read_tokens", "cost_usd": "cost"}
"""Measurement of a trial → metric of a case that holds it."""
_RUN = re.compile(r"(.*) \[(\d{1,6})/\d{1,6}\]", re.DOTALL)
"""A case name of a report with `repeat=`: name, number of the run, number of runs."""


def read(file: ForeignFile, reading: ReadingOptions) -> ForeignLog:
    """Read a report."""
    data = file.json_object
    cases, failures = objects_at(data, "cases", "a case"), objects_at(data, "failures", "a failure")
    log, scorer = ForeignLog(name_of(data.get("dataset_name") or "dataset", "dataset_name"), reading), _scorer(cases, reading)
    model = object_at(data, "experiment_metadata").get("model")  # its only place in a report
    told = name_of(model, "model") if isinstance(model, str) and model.strip() else "unknown"
    arm = ForeignArm(name_of(data.get("name"), "the report's name"), model=told)
    for case in (*cases, *failures):
        with located(f"case {shown_short(case.get('name'))}"):
            _add(log, arm, case, scorer)
    log.scorers.add(scorer)
    return log


FORMAT = Format("pydantic-evals", lambda file: isinstance(file.top_level.get("cases"), list), read)


def _scorer(cases: Sequence[Mapping[str, Any]], reading: ReadingOptions) -> str:
    """Return the evaluator whose result is the accuracy: the wanted one, or the only one that gives verdicts."""
    wanted, results = reading.scorer, [(name, value) for case in cases for name, value in _values(case).items()]
    if wanted is not None:
        failed = {str(failure.get("name")) for case in cases for failure in objects_at(case, "evaluator_failures", "a failure")}
        if cases and wanted not in {*dict(results), *failed, ALL_ASSERTIONS}:
            raise ValueError(f"no evaluator {shown_short(wanted)}; there are {names_in_a_line(sorted(dict(results))) or 'none'}")
        return wanted
    words = {name for name, value in results if isinstance(value, str) and not values.other_scores({name: value})}
    judges = sorted(dict(results).keys() - words)
    if len(judges) > 1:
        hint = f"--scorer {judges[0]}, or --scorer {ALL_ASSERTIONS} where all assertions are to hold"
        raise ValueError(f"results of {names_in_a_line(judges)}; say which is the accuracy: {hint}")
    if not judges and cases and "score" not in reading.columns:
        raise ValueError("no evaluator gave a number, a truth value or a verdict, so there is no accuracy")
    return judges[0] if judges else ""


def _add(log: ForeignLog, arm: ForeignArm, case: Mapping[str, Any], scorer: str) -> None:
    name = name_of(case.get("name"), "a case's name")
    run = _RUN.fullmatch(name) if case.get("source_case_name") is not None else None
    task, repeat = (name, 0) if run is None else (name_of(case["source_case_name"], "source_case_name"), max(int(run[2]) - 1, 0))
    question = digest([values.without_floats(case.get("inputs")), values.without_floats(case.get("expected_output"))])
    if "error_message" in case:
        reason = case.get("error_message") or "an error without a message"
        log.tell(case, arm, task, repeat=repeat, question=question, reason=reason, stop=StopReason.CRASHED)
        return
    told, metrics, failures = _values(case), object_at(case, "metrics"), objects_at(case, "evaluator_failures", "a failure")
    asserted = [mapping(item, "an assertion").get("value") is True for item in object_at(case, "assertions").values()]
    all_hold = all(asserted) if asserted and not failures else None
    value = all_hold if scorer == ALL_ASSERTIONS and scorer not in told else told.get(scorer)
    why = next((item.get("error_message") for item in failures if scorer in (item.get("name"), ALL_ASSERTIONS)), None)
    measures = values.measures_in(metrics, **COUNTS) | values.measures_in(case, seconds="task_duration")
    steps = measures.pop("steps")
    log.tell(
        case,
        arm,
        task,
        value,
        repeat=repeat,
        question=question,
        reason=f"not scored by {scorer}" if why is None else f"not scored: {why}",
        scores={} if value is None else values.other_scores({name: one for name, one in told.items() if name != scorer}),
        answer=values.answer_of(case.get("output")),
        steps=measures["lm_calls"] if steps is None else steps,
        **measures,
    )


def _values(case: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: mapping(result, f"the result {shown_short(name)}").get("value")
        for kind in ("labels", "scores", "assertions")
        for name, result in object_at(case, kind).items()
    }
