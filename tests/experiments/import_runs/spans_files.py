"""One trial of an agent as spans of every convention and tool, in `files/spans/`: two calls, of which the first fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

OTLP = ("gen_ai", "openinference", "traceloop", "vercel")
FORMS = (*OTLP, "mlflow", "langsmith")
IDS = {"langsmith": ("id", "parent_run_id"), "mlflow": ("span_id", "parent_span_id")}
"""Where spans have their ids and those of the spans above them, if not as in OTLP."""


def spans_of(form: str, task: str = "ann") -> Any:
    text = (Path(__file__).with_name("files") / "spans" / f"{form}.jsonl").read_text("utf-8").replace('"ann"', f'"{task}"')
    if form == "langsmith":
        return list(map(json.loads, text.splitlines()))
    data = json.loads(text)
    return data["data"]["spans"] if form == "mlflow" else data["resourceSpans"][0]["scopeSpans"][0]["spans"]


def written(form: str, spans: Any) -> tuple[str, dict[str, str]]:
    """The file of a trace, and what is mapped."""
    if form == "langsmith":
        return "\n".join(map(json.dumps, spans)), {}
    if form == "mlflow":
        told = {"assessments": [{"assessment_name": "right", "feedback": {"value": "yes"}}], "tags": {"task": "ann"}}
        return json.dumps({"info": {"trace_id": "t1", **told}, "data": {"spans": spans}}), {"task": "tags.task"}
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}), {"task": "task", "score": "grade"}


def value(item: Any) -> dict[str, Any]:
    kinds = {bool: "boolValue", int: "intValue", float: "doubleValue"}
    return {kinds.get(type(item), "stringValue"): str(item) if type(item) is int else item}


def otlp_span(number: int, attributes: dict[str, Any], parent: str = "1", failed: str = "", trace: str = "t1") -> dict[str, Any]:
    return {
        **{"traceId": trace, "spanId": str(number), "parentSpanId": parent, "name": f"span {number}"},
        **{"startTimeUnixNano": f"{number}000000000", "endTimeUnixNano": f"{number + 1}000000000"},
        "attributes": [{"key": key, "value": value(item)} for key, item in attributes.items()],
        "status": {"code": 2, "message": failed} if failed else {},
    }
