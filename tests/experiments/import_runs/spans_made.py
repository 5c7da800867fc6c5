"""One trial of an agent as spans of every convention and tool: two calls, the first of which fails, and an answer."""

from __future__ import annotations

import json
from typing import Any

ASKED = {"role": "user", "content": "Where is Ann?"}
CALLS = [("c1", "An", ""), ("c2", "Ann", "room 7")]
"""Id, argument and result of each call; empty: it failed with `nobody`."""
SAID = {"role": "assistant", "content": "room 7"}


def called(number):
    call_id, name, _ = CALLS[number]
    return {"id": call_id, "type": "function", "function": {"name": "find", "arguments": json.dumps({"name": name})}}


def shown(number):
    """The prompt of a request."""
    told: list[dict[str, Any]] = [ASKED]
    for place, (call_id, _, result) in enumerate(CALLS[:number]):
        told.append({"role": "assistant", "content": None, "tool_calls": [called(place)]})
        told.append({"role": "tool", "tool_call_id": call_id, "content": result or "nobody"})
    return told


def reply(number):
    return {"role": "assistant", "content": None, "tool_calls": [called(number)]} if number < len(CALLS) else SAID


def parts(message):
    """A message of the GenAI conventions."""
    if message["role"] == "tool":
        given = {"type": "tool_call_response", "id": message["tool_call_id"], "response": message["content"]}
        return {"role": "tool", "parts": [given]}
    made = [{"type": "text", "content": message["content"]}] if message["content"] else []
    for call in message.get("tool_calls", ()):
        function = call["function"]
        made.append({"type": "tool_call", "id": call["id"], "name": "find", "arguments": json.loads(function["arguments"])})
    return {"role": message["role"], "parts": made}


def flat(value, before):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    return (
        {before: value}
        if items is None
        else {key: leaf for name, item in items for key, leaf in flat(item, f"{before}.{name}").items()}
    )


def inference(messages):
    for message in messages:
        calls = [{"tool_call": {"id": call["id"], "function": call["function"]}} for call in message.get("tool_calls", ())]
        yield {"message": {key: value for key, value in message.items() if key != "tool_calls" and value} | {"tool_calls": calls}}


def gen_ai(number):
    used = {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 2}
    told = {"gen_ai.input.messages": list(map(parts, shown(number))), "gen_ai.output.messages": [parts(reply(number))]}
    return (
        {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"} | used | {key: json.dumps(one) for key, one in told.items()}
    )


def open_inference(number):
    messages = flat(list(inference(shown(number))), "llm.input_messages") | flat(
        list(inference([reply(number)])), "llm.output_messages"
    )
    return {
        "openinference.span.kind": "LLM",
        "llm.model_name": "m",
        "llm.token_count.prompt": 10,
        "llm.token_count.completion": 2,
    } | messages


def traceloop(number):
    def plain(messages):
        for one in messages:
            calls = [{"id": call["id"], **call["function"]} for call in one.get("tool_calls", ())]
            yield {key: value for key, value in one.items() if key != "tool_calls" and value} | {"tool_calls": calls}

    used = {"gen_ai.usage.prompt_tokens": 10, "gen_ai.usage.completion_tokens": 2}
    messages = flat(list(plain(shown(number))), "gen_ai.prompt") | flat(list(plain([reply(number)])), "gen_ai.completion")
    return {"llm.request.type": "chat", "gen_ai.request.model": "m"} | used | messages


def vercel(number):
    prompt = []
    for one in shown(number):
        calls = [
            {"type": "tool-call", "toolCallId": c["id"], "toolName": "find", "input": json.loads(c["function"]["arguments"])}
            for c in one.get("tool_calls", ())
        ]
        result = (
            [{"type": "tool-result", "toolCallId": one["tool_call_id"], "output": {"type": "text", "value": one["content"]}}]
            if one["role"] == "tool"
            else []
        )
        prompt.append({"role": one["role"], "content": calls or result or [{"type": "text", "text": one["content"]}]})
    said = reply(number)
    calls = [{"toolCallId": c["id"], "toolName": "find", "input": c["function"]["arguments"]} for c in said.get("tool_calls", ())]
    replied = {"ai.response.toolCalls": json.dumps(calls)} if calls else {"ai.response.text": said["content"]}
    used = {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 2}
    return (
        {"ai.operationId": "ai.generateText.doGenerate", "ai.model.id": "m", "ai.prompt.messages": json.dumps(prompt)}
        | replied
        | used
    )


def arguments(number):
    return json.dumps({"name": CALLS[number][1]})


OTLP: dict[str, Any] = {
    "gen_ai": (
        gen_ai,
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "finder"},
        lambda n: (
            {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "gen_ai.tool.call.id": CALLS[n][0]}
            | {"gen_ai.tool.call.arguments": arguments(n), "gen_ai.tool.call.result": CALLS[n][2]}
        ),
    ),
    "openinference": (
        open_inference,
        {"openinference.span.kind": "AGENT", "agent.name": "finder", "input.value": "Where is Ann?", "output.value": "room 7"},
        lambda n: {
            "openinference.span.kind": "TOOL",
            "tool.name": "find",
            "input.value": arguments(n),
            "output.value": CALLS[n][2],
        },
    ),
    "traceloop": (
        traceloop,
        {"traceloop.span.kind": "workflow", "traceloop.workflow.name": "finder", "traceloop.entity.output": "room 7"},
        lambda n: (
            {"traceloop.span.kind": "tool", "traceloop.entity.name": "find", "traceloop.entity.output": CALLS[n][2]}
            | {"traceloop.entity.input": json.dumps({"args": [], "kwargs": {"name": CALLS[n][1]}})}
        ),
    ),
    "vercel": (
        vercel,
        {"ai.operationId": "ai.generateText", "ai.telemetry.functionId": "finder", "ai.prompt": '{"prompt": "Where is Ann?"}'}
        | {"ai.model.id": "m", "ai.usage.promptTokens": 30, "ai.usage.completionTokens": 6},
        lambda n: (
            {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "find", "ai.toolCall.id": CALLS[n][0]}
            | {"ai.toolCall.args": arguments(n), "ai.toolCall.result": CALLS[n][2]}
        ),
    ),
}


def value(item):
    if isinstance(item, bool):
        return {"boolValue": item}
    return {"intValue": str(item)} if isinstance(item, int) else {"doubleValue" if isinstance(item, float) else "stringValue": item}


def otlp_span(number, attributes, parent="1", failed="", trace="t1"):
    return {
        **{"traceId": trace, "spanId": str(number), "parentSpanId": parent, "name": f"span {number}"},
        **{"startTimeUnixNano": f"{number}000000000", "endTimeUnixNano": f"{number + 1}000000000"},
        "attributes": [{"key": key, "value": value(item)} for key, item in attributes.items() if item != ""],
        "status": {"code": 2, "message": failed} if failed else {},
    }


def otlp(convention, task="ann", grade=1):
    request, root, tool = OTLP[convention]
    spans = [otlp_span(1, root | {"task": task, "grade": grade}, parent="")]
    for number in range(3):
        spans.append(otlp_span(2 + 2 * number, request(number)))
        spans += [otlp_span(3 + 2 * number, tool(number), failed="" if CALLS[number][2] else "nobody")] if number < 2 else []
    return spans


def mlflow_span(number, kind, inputs, outputs, parent="1", failed="", **more):
    attributes = {"mlflow.spanType": kind, "mlflow.spanInputs": inputs, "mlflow.spanOutputs": outputs, **more}
    return {
        **{"span_id": str(number), "parent_span_id": parent, "name": "find" if kind == "TOOL" else "finder"},
        **{"start_time_unix_nano": number * 10**9, "end_time_unix_nano": (number + 1) * 10**9},
        "status": {"code": "STATUS_CODE_ERROR" if failed else "STATUS_CODE_OK", "message": failed},
        "attributes": {name: json.dumps(item) for name, item in attributes.items() if item is not None},
    }


def mlflow():
    used = {"mlflow.chat.tokenUsage": {"input_tokens": 10, "output_tokens": 2}, "mlflow.llm.model": "m"}
    spans = [mlflow_span(1, "AGENT", {"question": "Where is Ann?"}, "room 7", parent=None)]
    for number in range(3):
        choice = {"choices": [{"message": reply(number)}]}
        spans.append(mlflow_span(2 + 2 * number, "CHAT_MODEL", {"messages": shown(number)}, choice, **used))
        if number < 2:
            _, name, result = CALLS[number]
            spans.append(mlflow_span(3 + 2 * number, "TOOL", {"name": name}, result or None, failed="" if result else "nobody"))
    return spans


def run(number, kind, inputs, outputs, parent="1", **more):
    times = {"start_time": f"2026-03-01T10:00:0{number}", "end_time": f"2026-03-01T10:00:0{number + 1}+00:00"}
    named = {"id": str(number), "trace_id": "t1", "run_type": kind, "name": "find" if kind == "tool" else "finder"}
    return named | times | {"parent_run_id": parent, "inputs": inputs, "outputs": outputs, **more}


def langsmith():
    model = {"extra": {"metadata": {"ls_model_name": "m"}}, "prompt_tokens": 10, "completion_tokens": 2}
    runs = [run(1, "chain", {"input": "Where is Ann?"}, {"output": "room 7"}, None, feedback_stats={"right": {"n": 1, "avg": 1.0}})]
    for number in range(3):
        outputs = {
            "generations": [[{"type": "ChatGeneration", "message": {"lc": 1, "id": ["AIMessage"], "kwargs": reply(number)}}]]
        }
        runs.append(run(2 + 2 * number, "llm", {"messages": [shown(number)]}, outputs, **model))
        if number < 2:
            call_id, name, result = CALLS[number]
            told = {"output": {"content": result, "type": "tool", "tool_call_id": call_id}} if result else None
            runs.append(run(3 + 2 * number, "tool", {"name": name}, told, error=None if result else "nobody"))
    return runs


def written(form, spans):
    """The file of a trace, its suffix and what is mapped."""
    if form == "langsmith":
        return "\n".join(map(json.dumps, spans)), {}
    if form == "mlflow":
        told = {"assessments": [{"assessment_name": "right", "feedback": {"value": "yes"}}], "tags": {"task": "ann"}}
        return json.dumps({"info": {"trace_id": "t1", **told}, "data": {"spans": spans}}), {"task": "tags.task"}
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}), {"task": "task", "score": "grade"}


def spans_of(form):
    return mlflow() if form == "mlflow" else langsmith() if form == "langsmith" else otlp(form)


FORMS = [*OTLP, "mlflow", "langsmith"]
IDS = {"langsmith": ("id", "parent_run_id"), "mlflow": ("span_id", "parent_span_id")}
"""Where spans have their ids and those of the spans above them, if not as in OTLP."""
