"""Runs of LangSmith, as `Client.list_runs` gives them: a list, lines, an object with `runs`, or a folder of such files.

All runs of one `trace_id` are a trial. Feedback of its root is the score; the task is its `reference_example_id` where
every root has one; `--map task=PLACE,score=PLACE` names other places in the root run.
"""

from __future__ import annotations

from collections.abc import Mapping

from whichloop.experiments.trace_formats.gathered_spans import GatheredSpans
from whichloop.experiments.trace_formats.langsmith_runs import cost_of, feedback_of, read_run
from whichloop.experiments.trace_formats.span_trials import MEANINGS, SpanTrials, ToldOfTrace, root_of

from ..documents import documents, each_item, has, in_document
from ..foreign_file import ForeignFile
from ..foreign_trials import ForeignLog, Format, ReadingOptions
from ..places import check_meanings
from ..values import located, mapping, name_of

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
