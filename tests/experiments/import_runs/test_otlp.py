"""Spans of OpenTelemetry, made here by two conventions, become trials with traces; their counts by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.compare.results import results
from whichloop.experiments.export_runs.export import export_run
from whichloop.experiments.fit_profile.fit import fit_run
from whichloop.experiments.import_runs import ImportRequest, ReadingOptions, import_files
from whichloop.experiments.learn_plans.learn import learn_run
from whichloop.experiments.why.losses import losses_explained
from whichloop.metrics.trace import ModelExchange, ToolRun
from whichloop.runs.store.trials import read_trace


def value(item):
    if isinstance(item, list):
        return {"arrayValue": {"values": [value(one) for one in item]}}
    if isinstance(item, dict):
        return {"kvlistValue": {"values": [{"key": key, "value": value(one)} for key, one in item.items()]}}
    if isinstance(item, bool):
        return {"boolValue": item}
    return {"intValue": str(item)} if isinstance(item, int) else {"doubleValue" if isinstance(item, float) else "stringValue": item}


def span(number, attributes, trace="aa", parent="01", seconds=1, **more):
    start = 1_700_000_000_000_000_000 + number * 10**9
    return {
        "traceId": trace * 16,
        "spanId": f"{number:016x}",
        "parentSpanId": parent * 8 if parent else "",
        "name": "span",
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + seconds * 10**9),
        "attributes": [{"key": key, "value": value(item)} for key, item in attributes.items()],
        **more,
    }


def request(*spans):
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": list(spans)}]}]}


def text(role, content):
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def asks(number, name):
    part = {"type": "tool_call", "id": f"c{number}", "name": "find", "arguments": {"name": name}}
    return {"role": "assistant", "parts": [part], "finish_reason": "tool_call"}


def gave(number, result):
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": f"c{number}", "response": result}]}


def gen_ai(trace="aa", score=1.0, as_json=True):
    """An agent that calls a tool twice, the first time in vain, and whose third request fails."""

    def told(messages):
        return json.dumps(messages) if as_json else messages

    def chat(prompt, *reply):
        used = {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 10}
        return kind | used | {"gen_ai.input.messages": told(prompt), "gen_ai.output.messages": told(list(reply))}

    asked = [text("user", "Where is Ann?")]
    kind = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "small-1"}
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"}
    first = [*asked, asks(1, "An"), gave(1, "nobody")]
    said = {**text("assistant", "room 7"), "finish_reason": "stop"}
    named = {"gen_ai.evaluation.name": "right", "gen_ai.evaluation.score.value": score}
    event = {"name": "gen_ai.evaluation.result", "attributes": [{"key": key, "value": value(item)} for key, item in named.items()]}
    root = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "finder",
        "gen_ai.input.messages": told(asked),
        "gen_ai.output.messages": told([said]),
        "my.task": "ann",
    }
    once = {"gen_ai.tool.call.id": "c1", "gen_ai.tool.call.arguments": '{"name": "An"}', "error.type": "LookupError"}
    again = {"gen_ai.tool.call.id": "c2", "gen_ai.tool.call.arguments": '{"name": "Ann"}', "gen_ai.tool.call.result": "room 7"}
    return request(
        span(1, root, trace, parent="", seconds=9, spanId="01" * 8, events=[event]),
        span(2, chat(asked, asks(1, "An")), trace),
        span(3, tool | once, trace, status={"code": 2, "message": "nobody"}),
        span(4, chat(first, asks(2, "Ann")), trace, seconds=2),
        span(5, tool | again, trace),
        span(6, kind | {"error.type": "timeout"}, trace, status={"code": 2, "message": "late"}),
        span(7, chat([*first, asks(2, "Ann"), gave(2, "room 7")], said), trace),
    )


@pytest.mark.parametrize("as_json", [True, False])
def test_spans_of_the_gen_ai_conventions(kit, as_json):
    found = kit.imported(kit.put(gen_ai(as_json=as_json)), columns={"task": "my.task"})
    (record,) = found.records
    assert (record.arm, record.task, record.accuracy, record.stop, record.answer) == (
        "finder/small-1",
        "ann",
        1.0,
        "finished",
        "room 7",
    )
    assert (record.steps, record.lm_calls, record.tool_calls, record.seconds) == (3, 4, 2, 9.0)
    assert (record.input_tokens, record.output_tokens) == (300, 30)
    assert dict(record.errors) == {"tool.LookupError": 1, "timeout": 1}
    trace = read_trace(found.folder, record)
    assert trace.head.query == "Where is Ann?"
    asked = [event for event in trace.events if isinstance(event, ModelExchange)]
    assert [(event.move_kind, event.seconds, event.same, len(event.messages)) for event in asked] == [
        ("act", 1.0, 0, 1),
        ("act", 2.0, 1, 2),
        ("", 1.0, 3, 2),
        ("answer", 1.0, 5, 0),
    ]
    assert [(run.call.arguments, run.data, run.status) for run in trace.events if isinstance(run, ToolRun)] == [
        ({"name": "An"}, "nobody", "error"),
        ({"name": "Ann"}, "room 7", "success"),
    ]
    rates = fit_run(found.folder).rates
    assert rates["provider.timeout"].interval is not None
    assert rates["wire.malformed"].interval is None


RAW = '{"name": "An'


def open_inference(trace="bb"):
    reply, before = "llm.output_messages.0.message.", "llm.input_messages.1.message."
    call = {"tool_calls.0.tool_call.id": "c1", "tool_calls.0.tool_call.function.name": "find"}
    call |= {"role": "assistant", "tool_calls.0.tool_call.function.arguments": RAW}
    asked = {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": "Where is Ann?"}
    more = {before + key: item for key, item in call.items()} | {
        "llm.input_messages.2.message.role": "tool",
        "llm.input_messages.2.message.content": "bad JSON",
        "llm.input_messages.2.message.tool_call_id": "c1",
    }
    said = {reply + "role": "assistant", reply + "contents.0.message_content.text": "I cannot"}
    kind: dict[str, Any] = {"openinference.span.kind": "LLM", "llm.model_name": "small-1"}
    kind |= {"llm.token_count.prompt": 50, "llm.token_count.completion": 5}
    root = {"openinference.span.kind": "AGENT", "input.value": "Where is Ann?", "output.value": "I cannot", "grade": 0}
    return request(
        span(1, root, trace, parent="", spanId="01" * 8),
        span(2, kind | asked | {reply + key: item for key, item in call.items()}, trace),
        span(3, kind | asked | more | said, trace),
    )


def test_spans_of_open_inference(kit):
    found = kit.imported(kit.put(open_inference()), columns={"score": "grade"})
    (record,) = found.records
    assert (record.arm, record.accuracy, record.answer, record.steps) == ("shop/small-1", 0.0, "I cannot", 2)
    assert (record.input_tokens, record.output_tokens, dict(record.errors)) == (100, 10, {"wire": 1})
    trace = read_trace(found.folder, record)
    assert trace.head.query == "Where is Ann?"
    rates = fit_run(found.folder).rates
    assert rates["wire.truncated"].count == 1
    assert rates["tool.raises"].interval is None


def test_lines_of_requests_and_several_traces(kit):
    lines = "\n".join(json.dumps(one) for one in (gen_ai("aa"), gen_ai("cc", score=0.0)))
    found = kit.imported(kit.put(lines, ".jsonl"), columns={"task": "my.task"})
    assert [(record.repeat, record.accuracy) for record in found.records] == [(0, 1.0), (1, 0.0)]
    for ending in (".log", ".json", ""):
        assert kit.imported(kit.put(f"{lines}\n", ending), columns={"task": "my.task"}).digest == found.digest
    alone = kit.imported(kit.put(lines, ".jsonl"))
    assert {record.task for record in alone.records} == {"aa" * 16, "cc" * 16}


def test_without_recorded_content_nothing_is_read_from_replies(kit):
    data = gen_ai()
    for item in data["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        item["attributes"] = [one for one in item["attributes"] if not one["key"].endswith("messages")]
    found = kit.imported(kit.put(data))
    (record,) = found.records
    assert (record.lm_calls, record.tool_calls, record.answer, record.stop) == (4, 2, None, None)
    assert "wire" not in record.errors


ASKED = "How many rows has a.csv?"
TRIALS = {
    "careful": (1.0, [({"name": "a.csv"}, "12 rows")], "12"),
    "other": (0.0, [({"name": "b.csv"}, "9 rows")], "9"),
    "wrong": (0.0, [({"name": "a.csv"}, "12 rows")], "13"),
    "hasty": (0.0, [], "7"),
    "silent": (0.0, [({"name": "a.csv"}, "12 rows")], ""),
}
"""Agent → score, calls with their results, and the last reply; empty: the trace ends behind the last result."""


def as_atif(agent, score, calls, last):
    steps: list[dict[str, Any]] = [{"source": "user", "message": ASKED}]
    for number, (arguments, result) in enumerate(calls):
        made = {"tool_call_id": f"c{number}", "function_name": "find", "arguments": arguments}
        given = {"source_call_id": f"c{number}", "content": result, "extra": {"is_error": False}}
        steps.append({"source": "agent", "message": "", "tool_calls": [made], "observation": {"results": [given]}})
    steps += [{"source": "agent", "message": last}] if last else []
    told = {"agent": {"name": agent, "version": "1", "model_name": "small-1"}, "extra": {"task": "rows", "reward": score}}
    return {"schema_version": "ATIF-v1.7", "session_id": agent, "steps": steps, **told}


def as_gen_ai(messages):
    return [asks(*one["asks"]) if "asks" in one else gave(*one["gave"]) if "gave" in one else text(**one) for one in messages]


def chat_gen_ai(prompt, reply):
    kind = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "small-1"}
    told = {"gen_ai.input.messages": as_gen_ai(prompt), "gen_ai.output.messages": as_gen_ai([reply])}
    return kind | {name: json.dumps(messages) for name, messages in told.items()}


def flat(prefix, messages):
    for place, one in enumerate(messages):
        before = f"{prefix}{place}.message."
        if "asks" in one:
            number, name = one["asks"]
            call = {"id": f"c{number}", "function.name": "find", "function.arguments": json.dumps({"name": name})}
            yield before + "role", "assistant"
            yield from ((f"{before}tool_calls.0.tool_call.{key}", item) for key, item in call.items())
        elif "gave" in one:
            yield from zip((before + "role", before + "tool_call_id"), ("tool", f"c{one['gave'][0]}"), strict=True)
            yield before + "content", one["gave"][1]
        else:
            yield from ((before + key, item) for key, item in one.items())


def chat_open_inference(prompt, reply):
    kind = {"openinference.span.kind": "LLM", "llm.model_name": "small-1"}
    return kind | dict(flat("llm.input_messages.", prompt)) | dict(flat("llm.output_messages.", [reply]))


def as_spans(place, agent, score, calls, last, chat):
    """The trial with a root that has no messages: content stands on the requests and the tools' runs."""
    trace = f"{place:02x}"
    prompt: list[dict[str, Any]] = [{"role": "user", "content": ASKED}]
    made = [span(1, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent, "task": "rows", "grade": score}, trace)]
    made[0] |= {"parentSpanId": "", "spanId": "01" * 8}
    for number, (arguments, result) in enumerate(calls):
        asked = {"asks": (number, arguments["name"])}
        made.append(span(2 + 2 * number, chat(prompt, asked), trace))
        ran = {"gen_ai.tool.name": "find", "gen_ai.tool.call.id": f"c{number}", "gen_ai.tool.call.result": result}
        ran |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.arguments": json.dumps(arguments)}
        made.append(span(3 + 2 * number, ran, trace))
        prompt = [*prompt, asked, {"gave": (number, result)}]
    said = {"role": "assistant", "content": last}
    return request(*made, *([span(40, chat(prompt, said), trace)] if last else []))


@pytest.mark.parametrize("chat", [chat_gen_ai, chat_open_inference])
def test_a_root_without_messages_takes_question_and_answer_from_the_requests_as_atif_does(kit, chat):
    lines = "\n".join(json.dumps(as_spans(place, agent, *told, chat)) for place, (agent, told) in enumerate(TRIALS.items(), 0xA0))
    found = kit.imported(kit.put(lines, ".jsonl"), columns={"task": "task", "score": "grade"})
    files = [kit.put(as_atif(agent, *told)) for agent, told in TRIALS.items()]
    same = kit.imported(*files, columns={"task": "extra.task", "score": "extra.reward"})
    for run in (found, same):
        ends = {record.arm.partition("/")[0]: (record.answer, record.stop) for record in run.records}
        assert ends == {agent: (last or None, "finished" if last else None) for agent, (*_, last) in TRIALS.items()}
        assert {read_trace(run.folder, record).head.query for record in run.records} == {ASKED}
    there, here = ({arm.arm: arm.causes for arm in losses_explained(run, pairs=[]).arms} for run in (found, same))
    assert there == here
    assert here["silent/small-1"] == {"other": 1}, "a stop that is not told is no cause"
    assert learn_run(found.folder).tasks


def test_a_run_of_ours_comes_back_by_otlp(tmp_path, own_run):
    exported = export_run(own_run, "otlp", tmp_path / "out.jsonl")
    back = results(import_files([exported.out], ImportRequest(), tmp_path / "back").folder)
    ours = results(own_run)
    strip = {"suite_digest": "", "trace_at": 0}
    there, here = ({record.name: record.to_json() | strip for record in run.records} for run in (back, ours))
    assert there == here
    there, here = ({arm.arm: arm.to_json() for arm in losses_explained(run, pairs=[]).arms} for run in (back, ours))
    assert there == here


HARMFUL: list[Any] = [None, True, -1, 10**30, "", "\x00", "\ud800", "9" * 30, [], {}, [[{}]], {"arrayValue": {"values": [3]}}]


def places_in(data, path=()):
    yield path
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, item in items:
        yield from places_in(item, (*path, key))


PLACES = sorted(filter(None, places_in(gen_ai())), key=str)


@given(st.sampled_from(PLACES), st.sampled_from(HARMFUL))
def test_spans_with_anything_anywhere(kit, place, leaf):
    """They are read, or refused in one line that names the file."""
    data = gen_ai()
    inside: Any = data
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = leaf
    path = kit.put(data)
    try:
        found = kit.imported(path)
    except ValueError as error:
        said = str(error)
    else:
        for record in found.records:
            read_trace(found.folder, record)
        return
    assert str(path) in said
    assert "\n" not in said


def test_traces_whose_task_nobody_names_are_told_of_with_the_names_that_there_are(kit, tmp_path):
    path = kit.put(gen_ai())
    (said,) = import_files([path], ImportRequest(), tmp_path / "unnamed").notes
    assert "each trace is a task of its own without --map task=my.task, so" in said
    assert "'my.task'" in said
    assert "gen_ai." not in said
    named = ImportRequest(reading=ReadingOptions(columns={"task": "my.task"}))
    assert import_files([path], named, tmp_path / "named").notes == ()


def test_traces_that_name_neither_task_nor_score_are_told_one_map(kit):
    """And the other agent's trace is not said to be missing in the file."""
    roots = [
        span(1, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent}, trace, parent="", **more)
        for agent, trace, more in (("one", "aa", {}), ("two", "bb", {"status": {"code": 2, "message": "late"}}))
    ]
    reasons = {(record.arm, record.task[:2]): record.reason for record in kit.imported(kit.put(request(*roots))).records}
    own = "no result of an evaluation, and each trace is a task of its own; say where both stand: --map task=KEY,score=KEY"
    others = "the trace is of another arm, and a task of its own"
    assert reasons == {("one", "aa"): own, ("two", "bb"): own, ("one", "bb"): others, ("two", "aa"): others}


def test_a_failed_root_span_without_a_score_is_errored(kit):
    attributes = {"gen_ai.operation.name": "invoke_agent", "case": "one"}
    good = span(1, attributes | {"score": 1}, trace="aa", parent="")
    failed = span(1, attributes | {"case": "two", "error.type": "Boom"}, trace="bb", parent="", status={"code": 2, "message": "no"})
    found = kit.imported(kit.put(request(failed, good)), columns={"task": "case", "score": "score"}).records
    found = sorted(found, key=lambda record: record.task)
    assert [(record.task, record.status, record.stop, record.reason) for record in found] == [
        ("one", "scored", None, ""),
        ("two", "errored", "crashed", "the root span failed: Boom: no"),
    ]


@pytest.mark.parametrize(
    ("names", "typed"),
    [
        (("task.id", "eval.correct"), "task=task.id,score=eval.correct"),
        (("sample_id", "reward"), "task=sample_id,score=reward"),
        (("my task", "eval.correct"), "task=KEY,score=eval.correct"),
        (("user.id", "eval.kind"), "task=KEY,score=KEY"),
    ],
)
def test_the_map_is_ready_where_attributes_are_called_as_task_and_score(kit, tmp_path, names, typed):
    """The law: what is printed without KEY scores every trial."""
    said = [dict(zip(names, values, strict=True)) for values in (("one", 1), ("two", 0), ("three", True))]
    roots = [
        span(1, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"} | attributes, f"a{number}", parent="")
        for number, attributes in enumerate(said)
    ]
    path = kit.put(request(*roots))
    made = import_files([path], ImportRequest(), tmp_path / "unmapped")
    assert any(remark.endswith(f"say where both stand: --map {typed}") for remark in made.remarks)
    if "KEY" not in typed:
        named = dict(part.split("=") for part in typed.split(","))
        assert {record.status for record in kit.imported(path, columns=named).records} == {"scored"}


def test_two_places_that_may_be_the_score_are_left_to_the_user(kit):
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "task.id": "t",
        "eval.correct": 1,
        "eval.passed": 0,
        "eval.score": "high",
    }
    (record,) = kit.imported(kit.put(request(span(1, attributes, parent="")))).records
    assert record.reason.endswith("--map task=task.id,score=KEY")
