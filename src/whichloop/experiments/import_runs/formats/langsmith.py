"""Runs of LangSmith, as `Client.list_runs` gives them: a list, lines, an object with `runs`, or a folder of such files.

All runs of one `trace_id` are a trial. Feedback of its root is the score; the task is its `reference_example_id` where
every root has one; `--map task=PLACE,score=PLACE` names other places in the root run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from whichloop.experiments.import_runs.foreign_file import ForeignFile, documents, each_item, has, in_document
from whichloop.experiments.import_runs.foreign_trials import ForeignLog, Format, ReadingOptions
from whichloop.experiments.import_runs.places import check_meanings
from whichloop.experiments.import_runs.values import located, mapping, name_of, number_from_zero, object_at, short_value
from whichloop.experiments.trace_formats.gen_ai import as_text
from whichloop.experiments.trace_formats.otlp_in import FAILED, ReadSpan, SpanKind, plain_span
from whichloop.experiments.trace_formats.span_trials import MEANINGS, GatheredSpans, SpanTrials, ToldOfTrace, root_of

COST = "total_cost"
_KINDS: Mapping[str, SpanKind] = {"llm": "request", "tool": "tool"}


def read_run(run: Mapping[str, Any]) -> ReadSpan:
    """Read a run. Raises ValueError."""
    error = run.get("error")
    extra, outputs = object_at(run, "extra"), run.get("outputs")
    metadata = object_at(extra, "metadata")
    beside = {
        **run,
        "spanId": as_text(run.get("id")),
        "parentSpanId": as_text(run.get("parent_run_id")),
        "status": {"code": FAILED if error else 0, "message": as_text(error)},
        "start": _time(run.get("start_time")),
        "end": _time(run.get("end_time")),
    }
    about = {"model": metadata.get("ls_model_name"), "usage": _usage(run, outputs), "tool_call.id": _call_id(run)}
    if error:
        outputs = None
    return plain_span(_KINDS.get(str(run.get("run_type")), ""), run.get("inputs"), outputs, beside, about)


def _time(value: Any) -> int:
    """Return nanoseconds since 1970 of a time in ISO 8601; 0 if there is none. Raises ValueError."""
    if value is None:
        return 0
    try:
        time = datetime.fromisoformat(str(value))
        return max(round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1e9), 0)
    except (ValueError, OverflowError):
        raise ValueError(f"a time is not in ISO 8601: {short_value(value)}") from None


def _usage(run: Mapping[str, Any], outputs: Any) -> Any:
    """Return the tokens by whichever names the run has them; LangChain puts them beside the reply or into metadata."""
    places = (("usage_metadata",), ("usage",), ("llm_output", "token_usage"))
    usages = [_inner(outputs, place) for place in places]
    for usage in (*usages, run, _inner(run, ("extra", "metadata", "usage_metadata"))):
        if isinstance(usage, Mapping):
            counts = [
                usage.get("input_tokens", usage.get("prompt_tokens")),
                usage.get("output_tokens", usage.get("completion_tokens")),
            ]
            if None not in counts:
                return {"input_tokens": counts[0], "output_tokens": counts[1], "total_tokens": usage.get("total_tokens")}
    return None


def _inner(value: Any, keys: Sequence[str]) -> Any:
    """Return what stands under the keys, one in the other; None if nothing does."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _call_id(run: Mapping[str, Any]) -> str:
    """Return the id of the call that a tool's run answers, which its output holds as a tool message."""
    outputs = run.get("outputs")
    output = outputs.get("output") if isinstance(outputs, Mapping) else None
    fields = output.get("kwargs", output) if isinstance(output, Mapping) else {}
    return as_text(mapping(fields, "the output").get("tool_call_id")) if isinstance(fields, Mapping) else ""


def cost_of(root: Mapping[str, Any], spans: Sequence[ReadSpan]) -> float | None:
    """Return what a trace cost in US dollars: what its root says, or the sum over its model runs if each has a cost.

    None if it is not known. Raises ValueError.
    """
    whole = number_from_zero(root.get(COST), COST)
    if whole is not None:
        return whole
    costs = [number_from_zero(span.span.get(COST), COST) for span in spans if span.kind == "request"]
    known_costs = [cost for cost in costs if cost is not None]
    return math.fsum(known_costs) if known_costs and len(known_costs) == len(costs) else None


def feedback_of(run: Mapping[str, Any]) -> dict[str, float]:
    """Return the mean of each feedback on a run, by name."""
    stats = run.get("feedback_stats")
    feedback = {}
    for name, statistics in stats.items() if isinstance(stats, Mapping) else ():
        mean = statistics.get("avg") if isinstance(statistics, Mapping) else None
        if isinstance(mean, int | float) and not isinstance(mean, bool):
            feedback[str(name)] = float(mean)
    return feedback


RUNS = "runs"
EXAMPLE = "reference_example_id"
"""The example of a data set that a root run was evaluated on."""


def is_langsmith(data: object) -> bool:
    """Whether JSON holds runs as LangSmith exports them."""
    first = next(iter(each_item(data, RUNS)), None)
    return isinstance(first, Mapping) and {"run_type", "id"} <= first.keys()


def recognizes(file: ForeignFile) -> bool:
    return has(file, is_langsmith)


def read(file: ForeignFile, reading: ReadingOptions) -> ForeignLog:
    """Read runs. Raises ValueError with a one-line message that names the document, the run, or the trace."""
    check_meanings(reading, MEANINGS)
    delivered = GatheredSpans()
    for name, data in documents(file):
        for number, item in enumerate(each_item(data, RUNS), 1):
            with in_document(file, name, f"run {number}"):
                run = mapping(item, "the run")
                trace_id = name_of(run.get("trace_id") or run.get("id"), "trace_id")
                delivered.add(trace_id, run.get("id"), run, read_run(run), {})
    gathered = SpanTrials(reading)
    gathered.log_builder.notes.extend(delivered.notes())
    traces = [(trace, root_of(trace.spans).span) for trace in delivered.traces]
    is_of_dataset = all(root.get(EXAMPLE) for _, root in traces)
    for trace, root in traces:
        with located(f"trace {trace.trace_id}"):
            task = root[EXAMPLE] if is_of_dataset else None
            facts = ToldOfTrace(root, feedback_of(root), task, cost_of(root, trace.spans))
            gathered.add(trace.trace_id, trace.spans, facts)
    return gathered.log("langsmith")


FORMAT = Format("langsmith", recognizes, read, mapped=True)
