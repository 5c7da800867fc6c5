"""Totals of tokens that are not the sum of input and output: what a model wrote by reasoning may stand in the total only."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.experiments.import_runs import ImportRequest, ReadingOptions, import_files
from whichloop.experiments.import_runs.values import usage_in, with_total
from whichloop.metrics.summary import METRICS

counts = st.integers(0, 10**9)


def notes_of(path, folder, **reading):
    return import_files([path], ImportRequest(reading=ReadingOptions(**reading)), folder).notes


@given(counts, counts, st.one_of(st.none(), counts))
def test_the_larger_one_of_total_and_sum_is_counted(asked, wrote, total):
    found = with_total(asked, wrote, total)
    assert found.input == asked
    assert found.input + found.output == max(asked + wrote, total or 0)
    assert found.beyond_parts == (total - asked - wrote if total else 0)
    assert usage_in({"prompt_tokens": asked, "completion_tokens": wrote, "total_tokens": total}) == found
    assert usage_in({"input_tokens": asked, "total_tokens": total}) is None


@given(st.lists(st.tuples(counts, counts, counts), min_size=1, max_size=4))
@settings(max_examples=cases(8))
def test_a_table_counts_its_total_and_tells_where_it_is_more(kit, rows):
    """The law: no row has fewer tokens than its total; one line tells how many have more than their parts, and the first."""
    told = [(asked, wrote, asked + wrote + more) for asked, wrote, more in rows]
    lines = [f"t{number},1,{asked},{wrote},{total}" for number, (asked, wrote, total) in enumerate(told)]
    path = kit.put("\n".join(["task,score,prompt_tokens,completion_tokens,total_tokens", *lines]), ".csv")
    records = kit.imported(path).records
    assert [METRICS["tokens"](record) for record in records] == [total for _, _, total in told]
    assert [record.input_tokens for record in records] == [asked for asked, _, _ in told]
    more = [number for number, (asked, wrote, total) in enumerate(told, 2) if total > asked + wrote]
    noted = [note for note in notes_of(path, kit.folder / f"told{next(kit.numbers)}") if "is more than" in note]
    assert len(noted) == bool(more)
    assert not more or f"in {len(more)} of {len(rows)} row" in noted[0]
    assert not more or f"first in line {more[0]}): the total is counted, and what it has more as output" in noted[0]


def test_a_total_with_less_is_left_out_or_counted_alone_as_the_user_says(kit):
    path = kit.put("task,score,input_tokens,output_tokens,total_tokens\nx,1,700,600,1100\n", ".csv")
    (summed,) = kit.imported(path, columns={"tokens": ""}).records
    (whole,) = kit.imported(path, columns={"input_tokens": "", "output_tokens": ""}).records
    assert [METRICS["tokens"](record) for record in (summed, whole)] == [1300, 1100]


USAGE = {"input_tokens": 1000, "output_tokens": 200, "total_tokens": 9000}
CHAT = [{"role": "user", "content": "How many?"}]


def inspect_sample(kit):
    event = {"event": "model", "output": {"usage": USAGE | {"reasoning_tokens": 7800}, "choices": [{"message": {"content": "3"}}]}}
    return kit.log(kit.sample("x", events=[event]))


def otlp(names):
    spans = [
        {"traceId": "t", "spanId": "1", "name": "invoke_agent", "attributes": [value("gen_ai.operation.name", "invoke_agent")]},
        {
            "traceId": "t",
            "spanId": "2",
            "parentSpanId": "1",
            "attributes": [value("gen_ai.operation.name", "chat"), *(value(name, told) for name, told in names.items())],
        },
    ]
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"spans": spans}]}]}


def value(name, told):
    return {"key": name, "value": {"intValue": str(told)} if isinstance(told, int) else {"stringValue": told}}


def mlflow():
    span = {"trace_id": "dA==", "span_id": "1", "parent_span_id": None, "name": "chat", "status": {"code": "STATUS_CODE_OK"}}
    told = {"mlflow.spanType": "CHAT_MODEL", "mlflow.spanInputs": {"messages": CHAT}, "mlflow.chat.tokenUsage": USAGE}
    times = {"start_time_unix_nano": 1, "end_time_unix_nano": 2}
    attributes = {name: json.dumps(part) for name, part in told.items()}
    return {"info": {"trace_id": "t"}, "data": {"spans": [{**span, **times, "attributes": attributes}]}}


def langsmith():
    return {
        "id": "1",
        "trace_id": "1",
        "run_type": "llm",
        "name": "chat",
        "inputs": {"messages": CHAT},
        "outputs": {"usage": USAGE},
    }


LOGS = {
    "inspect": inspect_sample,
    "conventions": lambda kit: otlp({f"gen_ai.usage.{name}": told for name, told in USAGE.items()}),
    "openinference": lambda kit: otlp(
        {f"llm.token_count.{part}": told for part, told in zip(("prompt", "completion", "total"), USAGE.values(), strict=True)}
    ),
    "mlflow": lambda kit: mlflow(),
    "langsmith": lambda kit: langsmith(),
    "smolagents": lambda kit: [{"task": "How many?"}, {"step_number": 1, "model_output": "3", "token_usage": USAGE}],
    "pydantic-evals": lambda kit: {
        "name": "agent",
        "cases": [{"name": "x", "metrics": USAGE, "scores": {"right": {"value": 1}}, "task_duration": 1}],
    },
}


@pytest.mark.parametrize("of", LOGS)
def test_every_format_counts_what_stands_in_the_total_only(kit, tmp_path, of):
    path = kit.put(LOGS[of](kit))
    (record,) = kit.imported(path).records
    assert (record.input_tokens, record.output_tokens) == (1000, 8000)
    (note,) = [note for note in notes_of(path, tmp_path / "run") if "total of tokens" in note]
    assert "the total of tokens is more than input + output in 1 of 1 trial (9,000 against 1,200, first in " in note


def test_a_total_with_less_is_told_where_no_column_can_be_left_out(kit, tmp_path):
    report = LOGS["pydantic-evals"](kit)
    report["cases"][0]["metrics"] = USAGE | {"total_tokens": 900}
    path = kit.put(report)
    (record,) = kit.imported(path).records
    assert (record.input_tokens, record.output_tokens) == (1000, 200)
    (note,) = notes_of(path, tmp_path / "run")
    assert note.endswith(
        "less than input + output in 1 of 1 trial (900 against 1,200, first in agent/x/0): input + output is counted"
    )
