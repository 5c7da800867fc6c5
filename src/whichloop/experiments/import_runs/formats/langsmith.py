"""Runs of LangSmith, as `Client.list_runs` gives them: a list, lines, an object with `runs`, or a folder of such files.

All runs of one `trace_id` are a trial. Feedback of its root is the score; the task is its `reference_example_id` where
every root has one; `--map task=PLACE,score=PLACE` names other places in the root run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from whichloop.protocol.values import shown_short

from ..chats import as_text
from ..foreign_file import ForeignFile, each_item, holds, items_of
from ..foreign_trials import ForeignLog, Format, ReadingOptions
from ..span_trials import GatheredSpans
from ..spans import Span
from ..values import located, name_of, number_from_zero, object_at, value_at

COST = "total_cost"
RUNS = "runs"
EXAMPLE = "reference_example_id"
"""The example of a data set that a root run was evaluated on."""
_USAGES = ("outputs.usage_metadata", "outputs.usage", "outputs.llm_output.token_usage", "", "extra.metadata.usage_metadata")
"""Places of the tokens of a run; empty: the run itself."""


def read_run(run: Mapping[str, Any]) -> Span:
    """Read a run."""
    error = run.get("error")
    usages = (value_at(run, place) if place else run for place in _USAGES)
    more = {
        "langsmith.run_type": as_text(run.get("run_type")),
        "ls_model_name": object_at(object_at(run, "extra"), "metadata").get("ls_model_name"),
        "tool_call.id": value_at(run, "outputs.output.kwargs.tool_call_id") or value_at(run, "outputs.output.tool_call_id"),
        "inputs": run.get("inputs"),
        "outputs": None if error else run.get("outputs"),
        **next((counts for usage in usages if isinstance(usage, Mapping) and (counts := _counts(usage))), {}),
    }
    return Span(
        *(as_text(run.get("id")), as_text(run.get("parent_run_id")), as_text(run.get("name"))),
        start=_time(run.get("start_time")),
        end=_time(run.get("end_time")),
        values={name: value for name, value in more.items() if value is not None},
        failed=bool(error),
        message=as_text(error),
        raw=run,
    )


def _counts(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tokens by whichever names LangChain gives them; empty where those of input or output are not told."""
    counts = [usage.get("input_tokens", usage.get("prompt_tokens")), usage.get("output_tokens", usage.get("completion_tokens"))]
    names = [f"gen_ai.usage.{name}_tokens" for name in ("input", "output", "total")]
    return {} if None in counts else dict(zip(names, [*counts, usage.get("total_tokens")], strict=True))


def _time(value: Any) -> int:
    """Return nanoseconds since 1970 of a time in ISO 8601; 0 if there is none."""
    if value is None:
        return 0
    try:
        time = datetime.fromisoformat(str(value))
        return max(round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1e9), 0)
    except (ValueError, OverflowError):
        raise ValueError(f"a time is not in ISO 8601: {shown_short(value)}") from None


def cost_of(root: Mapping[str, Any], spans: Sequence[Span]) -> float | None:
    """Return what a trace cost in US dollars: what its root says, or the sum over its model runs if each has a cost."""
    whole, *costs = (number_from_zero(run.get(COST), COST) for run in (root, *(one.raw for one in spans if one.kind == "request")))
    known = [cost for cost in costs if cost is not None]
    return math.fsum(known) if whole is None and known and len(known) == len(costs) else whole


def read(file: ForeignFile, reading: ReadingOptions) -> ForeignLog:
    """Read runs."""
    traces = GatheredSpans(reading)
    for where, run in each_item(file, RUNS, "run"):
        with located(where):
            traces.add(name_of(run.get("trace_id") or run.get("id"), "trace_id"), read_run(run), {})
    roots = {name: trace.root.raw for name, trace in traces.by_name.items()}
    is_of_dataset = all(root.get(EXAMPLE) for root in roots.values())
    for name, trace in traces.by_name.items():
        with located(f"trace {name}"):
            means = {one: value_at(stats, "avg") for one, stats in object_at(roots[name], "feedback_stats").items()}
            trace.beside = roots[name]
            trace.scores = {
                one: mean for one, mean in means.items() if isinstance(mean, int | float) and not isinstance(mean, bool)
            }
            trace.task = roots[name][EXAMPLE] if is_of_dataset else None
            trace.cost_usd = cost_of(roots[name], trace.spans)
    return traces.log()


FORMAT = Format("langsmith", lambda file: holds(items_of(file.first, RUNS), {"run_type", "id"}), read)
