"""Spans that are delivered more than once count once, and traces without their root span are told and left out."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.experiments.import_runs import ImportRequest, ReadingOptions
from whichloop.experiments.import_runs.importing import read_file

AGAIN = "spans were delivered again, such as span"


def otlp_spans(number=0, task="one", score=1):
    """A root, a request and the run of a tool."""
    named = {
        "01": {"gen_ai.operation.name": "invoke_agent", "case": task, "grade": score},
        "02": {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 10},
        "03": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"},
    }
    return [
        {
            "traceId": f"trace-{number}",
            "spanId": name,
            "parentSpanId": "" if name == "01" else "01",
            "name": "span",
            "startTimeUnixNano": f"{at}000000000",
            "endTimeUnixNano": f"{at + 1}000000000",
            "attributes": [
                {"key": key, "value": {"intValue": str(item)} if isinstance(item, int) else {"stringValue": item}}
                for key, item in attributes.items()
            ],
        }
        for at, (name, attributes) in enumerate(named.items(), 1)
    ]


def otlp(spans):
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})


def mlflow(spans):
    info = {"trace_id": "tr-1", "tags": {"task": "ann"}, "assessments": [{"assessment_name": "ok", "feedback": {"value": True}}]}
    return json.dumps({"info": info, "data": {"spans": spans}})


def mlflow_spans():
    used = {"mlflow.chat.tokenUsage": json.dumps({"input_tokens": 10, "output_tokens": 2})}
    kinds = {"1": ("AGENT", None, {}), "2": ("CHAT_MODEL", "1", used), "3": ("TOOL", "1", {})}
    return [
        {"span_id": name, "parent_span_id": parent, "name": "find", "attributes": {"mlflow.spanType": json.dumps(kind), **more}}
        for name, (kind, parent, more) in kinds.items()
    ]


def langsmith(runs):
    return "\n".join(map(json.dumps, runs))


def langsmith_runs():
    kinds = {"1": ("chain", None), "2": ("llm", "1"), "3": ("tool", "1")}
    return [
        {
            "id": name,
            "trace_id": "t1",
            "run_type": kind,
            "parent_run_id": parent,
            "prompt_tokens": 10,
            "completion_tokens": 2,
            "feedback_stats": {"ok": {"avg": 1}},
        }
        for name, (kind, parent) in kinds.items()
    ]


FORMATS = [
    pytest.param(otlp, otlp_spans, {"task": "case", "score": "grade"}, id="otlp"),
    pytest.param(mlflow, mlflow_spans, {"task": "tags.task"}, id="mlflow"),
    pytest.param(langsmith, langsmith_runs, {}, id="langsmith"),
]


def read(kit, content, columns):
    return read_file(kit.put(content, ".jsonl"), ImportRequest(reading=ReadingOptions(columns=columns)))


@pytest.mark.parametrize(("written", "spans", "columns"), FORMATS)
@given(data=st.data())
@settings(max_examples=cases(8))
def test_spans_that_are_delivered_again_change_nothing_but_what_is_told(kit, written, spans, columns, data):
    """In whatever file and order the same ones come again."""
    made = spans()
    again = data.draw(st.lists(st.sampled_from(made), min_size=2, max_size=6))
    plain = read(kit, written(made), columns)
    for content in (written([*made, *again]), "\n".join([written(made), written(again)])):
        found = read(kit, content, columns)
        assert found.trials == plain.trials
        assert [note for note in found.notes if note not in plain.notes] == [
            f"{len(again)} {AGAIN} {_place(again[0])}: each counts once"
        ]
    assert not any(AGAIN in note for note in plain.notes)


def _place(span):
    trace = span.get("traceId") or ("tr-1" if "span_id" in span else span["trace_id"])
    return f"{(span.get('spanId') or span.get('span_id') or span['id'])!r} of trace {trace!r}"


def test_of_two_different_spans_of_one_id_the_later_one_counts_and_it_is_told(kit):
    made = otlp_spans()
    later = json.loads(json.dumps(made[1]).replace('"100"', '"70"'))
    log = read(kit, otlp([*made, later]), {"task": "case", "score": "grade"})
    assert log.trials == read(kit, otlp([made[0], later, made[2]]), {"task": "case", "score": "grade"}).trials
    (note,) = log.notes
    assert (
        note
        == "1 span has the id of an earlier one and another content, such as span '02' of trace 'trace-0': the later one counts"
    )


def test_traces_that_lost_their_root_are_told_and_left_out(kit):
    whole = [span for number in range(6) for span in otlp_spans(number, f"task-{number}")]
    lost = [span for number in range(6, 8) for span in otlp_spans(number)[1:]]
    log = read(kit, otlp([*lost, *whole]), {"task": "case", "score": "grade"})
    assert [trial.task for trial in log.trials] == [f"task-{number}" for number in range(6)]
    (note,) = log.notes
    assert note == (
        "2 of 8 traces have lost their root spans, which say what the task, the score and the answer were; "
        "left out: trace-6, trace-7"
    )


def test_where_no_trace_has_a_root_all_are_read_as_they_are(kit):
    alone = otlp_spans()[1:]
    assert len(read(kit, otlp(alone), {}).trials) == 1
    with pytest.raises(ValueError, match=r"trace trace-0: --map task: nothing stands at 'case'"):
        read(kit, otlp(alone), {"task": "case"})


def test_an_agent_that_another_service_called_is_read_beside_others(kit):
    """Its parent is not in the file, and its own span says all that is asked."""
    called = [span | {"parentSpanId": span["parentSpanId"] or "elsewhere"} for span in otlp_spans(1, "two")]
    log = read(kit, otlp([*otlp_spans(), *called]), {"task": "case", "score": "grade"})
    assert [trial.task for trial in log.trials] == ["one", "two"]
    assert log.notes == ()
