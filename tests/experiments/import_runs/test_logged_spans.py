"""Memories of smolagents, traces of MLflow and runs of LangSmith, made here as those tools write them; counted by hand."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.metrics.trace import ModelExchange, ToolRun
from whichloop.runs.store.trials import read_trace


def events_of(found, record):
    events = read_trace(found.folder, record).events
    asked = [(event.role, event.move_kind, event.tokens) for event in events if isinstance(event, ModelExchange)]
    ran = [(event.call.tool, event.call.arguments, event.data, event.status) for event in events if isinstance(event, ToolRun)]
    return asked, ran


# --- smolagents ---


def step(number, calls=(), **more):
    made = [{"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": given}} for name, given in calls]
    return {
        "step_number": number,
        "timing": {"start_time": 1.0, "end_time": 3.0, "duration": 2.0},
        "model_input_messages": None,
        "tool_calls": made,
        "error": None,
        "model_output": "",
        "observations": None,
        "action_output": None,
        "token_usage": {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12},
        "is_final_answer": False,
        **more,
    }


MEMORY = [
    {"task": "Where is Ann?", "task_images": None},
    {"plan": "1. find her", "model_input_messages": [], "timing": {"duration": 1.0}, "token_usage": None},
    step(1, [("find", {"name": "An"})], error={"type": "AgentToolExecutionError", "message": "nobody"}),
    step(2, error={"type": "AgentParsingError", "message": "no call in it"}, model_output="find Ann"),
    step(3, [("find", {"name": "Ann"})], observations="room 7"),
    step(4, [("final_answer", {"answer": "room 7"})], action_output="room 7", is_final_answer=True, model_output="I know"),
]


def test_a_memory_of_smolagents(kit):
    found = kit.imported(kit.put({"steps": MEMORY, "state": "success", "grade": 1}), columns={"score": "grade"})
    (record,) = found.records
    assert (record.accuracy, record.stop, record.answer, record.steps, record.tool_calls) == (1.0, "finished", "room 7", 5, 2)
    assert dict(record.errors) == {"wire": 1, "tool.AgentToolExecutionError": 1}
    asked, ran = events_of(found, record)
    assert asked == [
        ("reason", "text", None),
        ("decide", "act", (10, 2)),
        ("reason", "", (10, 2)),
        ("decide", "act", (10, 2)),
        ("decide", "answer", (10, 2)),
    ]
    assert ran == [("find", {"name": "An"}, "nobody", "error"), ("find", {"name": "Ann"}, "room 7", "success")]


def spoken(*calls):
    """What the model wrote, as the step of a failed call has it, whose own list of calls is empty."""
    made = [{"id": f"c{place}", "type": "function", "function": each} for place, each in enumerate(calls)]
    return {"role": "assistant", "content": "", "tool_calls": made}


def test_a_step_whose_call_failed_has_the_call_in_the_models_message_only(kit):
    failed, unknown = {"name": "find", "arguments": {"name": "An"}}, {"name": "seek", "arguments": "{}"}
    errors = [
        {"type": "AgentToolExecutionError", "message": text} for text in ("nobody", "Unknown tool seek, should be one of: find")
    ]
    steps = [
        {"task": "Where is Ann?"},
        step(1, error=errors[0], model_output_message=spoken(failed)),
        step(2, error=errors[1], model_output_message=spoken(unknown)),
        step(3, error=errors[0], model_output_message=spoken(failed, failed)),
        step(4, [("final_answer", {"answer": "room 7"})], observations="room 7", is_final_answer=True),
    ]
    (record,) = kit.imported(kit.put({"steps": steps, "state": "success", "grade": 1}), columns={"score": "grade"}).records
    assert (record.answer, record.stop, record.steps, record.tool_calls) == ("room 7", "finished", 4, 3)
    assert dict(record.errors) == {"tool.AgentToolExecutionError": 1}  # of two calls in a step nobody knows which failed


def test_the_answer_that_an_agent_gives_when_its_steps_are_used_up_is_no_unreadable_reply(kit):
    ending = step(
        2, error={"type": "AgentMaxStepsError", "message": "Reached max steps."}, model_output=None, action_output="room 7?"
    )
    steps = [{"task": "Where is Ann?"}, step(1, [("find", {"name": "Ann"})], observations="room 7"), ending]
    (record,) = kit.imported(kit.put({"steps": steps, "state": "max_steps_error", "grade": 0}), columns={"score": "grade"}).records
    assert (record.answer, record.stop, dict(record.errors)) == ("room 7?", "max_steps", {})


def test_the_answer_of_an_agent_that_writes_python_is_what_the_run_returned(kit):
    steps = [{"task": "2 + 5?"}, step(1, [("python_interpreter", "final_answer(2 + 5)")], action_output=7, is_final_answer=True)]
    (record,) = kit.imported(
        kit.put({"steps": steps, "output": 7, "state": "success", "grade": 1}), columns={"score": "grade"}
    ).records
    assert (record.answer, record.stop, record.tool_calls) == (7, "finished", 1)


def test_a_list_of_steps_and_code_as_a_call(kit):
    steps = [MEMORY[0], step(1, [("python_interpreter", "print(1)")], observations="1"), step(2, model_output="1")]
    found = kit.imported(kit.put(steps))
    assert events_of(found, found.records[0])[1] == [("python_interpreter", {"code": "print(1)"}, "1", "success")]
    assert found.records[0].status == "excluded"


# --- MLflow ---


def mlflow_span(number, kind, inputs, outputs, parent="1", failed="", **more):
    attributes = {"mlflow.spanType": kind, "mlflow.spanInputs": inputs, "mlflow.spanOutputs": outputs, **more}
    return {
        "trace_id": "dA==",
        "span_id": str(number),
        "parent_span_id": parent,
        "name": "find" if kind == "TOOL" else kind.lower(),
        "start_time_unix_nano": number * 10**9,
        "end_time_unix_nano": (number + 1) * 10**9,
        "status": {"code": "STATUS_CODE_ERROR" if failed else "STATUS_CODE_OK", "message": failed},
        "attributes": {name: json.dumps(value) for name, value in attributes.items() if value is not None},
    }


ASKED = [{"role": "user", "content": "Where is Ann?"}]
CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"name": "An"}'}}
SAID = {"role": "assistant", "content": None, "tool_calls": [CALL]}
SHOWN = [*ASKED, SAID, {"role": "tool", "tool_call_id": "c1", "content": "nobody"}]
USED = {"mlflow.chat.tokenUsage": {"input_tokens": 10, "output_tokens": 2}}


def mlflow_trace():
    spans = [
        mlflow_span(1, "AGENT", {"question": "Where is Ann?"}, "I do not know", parent=None),
        mlflow_span(2, "CHAT_MODEL", {"messages": ASKED}, {"choices": [{"message": SAID}]}, **USED),
        mlflow_span(3, "TOOL", {"name": "An"}, None, failed="nobody"),
        mlflow_span(4, "LLM", {"messages": SHOWN}, None, failed="late"),
        mlflow_span(5, "CHAT_MODEL", {"messages": SHOWN}, {"choices": [{"message": {"content": "I do not know"}}]}, **USED),
    ]
    assessments = [{"assessment_name": "right", "feedback": {"value": False}}, {"assessment_name": "why", "rationale": "x"}]
    return {"info": {"trace_id": "tr-1", "tags": {"task": "ann"}, "assessments": assessments}, "data": {"spans": spans}}


@pytest.mark.parametrize("form", ["one", "list", "object", "lines"])
def test_traces_of_mlflow(kit, form):
    trace = mlflow_trace()
    data = {"one": trace, "list": [trace], "object": {"traces": [trace]}, "lines": json.dumps(trace)}[form]
    found = kit.imported(kit.put(data, ".jsonl" if form == "lines" else ".json"), columns={"task": "tags.task"})
    (record,) = found.records
    assert (record.arm, record.task, record.accuracy, record.answer) == ("agent", "ann", 0.0, "I do not know")
    assert (record.steps, record.lm_calls, record.tool_calls, record.input_tokens) == (2, 3, 1, 20)
    assert dict(record.errors) == {"error": 1, "tool.Error": 1}
    assert read_trace(found.folder, record).head.query == "Where is Ann?"
    asked, ran = events_of(found, record)
    assert asked == [("decide", "act", (10, 2)), ("decide", "", None), ("decide", "answer", (10, 2))]
    assert ran == [("find", {"name": "An"}, "nobody", "error")]


# --- LangSmith ---


def run(number, kind, inputs, outputs, parent="1", **more):
    return {
        "id": str(number),
        "trace_id": "t1",
        "run_type": kind,
        "name": "find" if kind == "tool" else kind,
        "parent_run_id": parent,
        "inputs": inputs,
        "outputs": outputs,
        "error": None,
        "start_time": f"2026-03-01T10:00:0{number}",
        "end_time": f"2026-03-01T10:00:0{number + 1}.500000+00:00",
        **more,
    }


def lang(kind, content, **more):
    return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", kind], "kwargs": {"content": content, **more}}


def langsmith_runs():
    question = lang("HumanMessage", "Where is Ann?")
    called = lang("AIMessage", "", tool_calls=[{"id": "c1", "name": "find", "args": {"name": "Ann"}}], type="ai")
    gave = lang("ToolMessage", "room 7", tool_call_id="c1")
    used = {"prompt_tokens": 10, "completion_tokens": 2}
    model = {"extra": {"metadata": {"ls_model_name": "small-1"}}}
    return [
        run(1, "chain", {"input": "Where is Ann?"}, {"output": "room 7"}, None, feedback_stats={"right": {"n": 1, "avg": 1.0}}),
        run(2, "llm", {"messages": [[question]]}, {"generations": [[{"message": called}]]}, **used, **model),
        run(3, "tool", {"input": "{'name': 'Ann'}"}, {"output": {"content": "room 7", "type": "tool", "tool_call_id": "c1"}}),
        run(
            4,
            "llm",
            {"messages": [[question, called, gave]]},
            {"generations": [[{"message": lang("AIMessage", "room 7")}]]},
            **used,
        ),
    ]


@pytest.mark.parametrize("lines", [True, False])
def test_runs_of_langsmith(kit, lines):
    runs = langsmith_runs()
    found = kit.imported(kit.put("\n".join(map(json.dumps, runs)) if lines else runs, ".jsonl" if lines else ".json"))
    (record,) = found.records
    assert (record.arm, record.task, record.accuracy, record.answer) == ("chain/small-1", "t1", 1.0, "room 7")
    assert (record.steps, record.tool_calls, record.input_tokens, record.seconds) == (2, 1, 20, 1.5)
    asked, ran = events_of(found, record)
    assert asked == [("decide", "act", (10, 2)), ("decide", "answer", (10, 2))]
    assert ran == [("find", {"name": "Ann"}, "room 7", "success")]


@pytest.mark.parametrize("where", ["metadata", "llm_output", "usage_metadata"])
def test_tokens_of_langsmith_stand_in_several_places(kit, where):
    runs = langsmith_runs()
    for model in (run for run in runs if run["run_type"] == "llm"):
        del model["prompt_tokens"], model["completion_tokens"]
        if where == "metadata":
            model["extra"] = {"metadata": {"usage_metadata": {"input_tokens": 30, "output_tokens": 4}}}
        elif where == "llm_output":
            model["outputs"]["llm_output"] = {"token_usage": {"prompt_tokens": 30, "completion_tokens": 4}}
        else:
            model["outputs"]["usage_metadata"] = {"input_tokens": 30, "output_tokens": 4}
    (record,) = kit.imported(kit.put(runs)).records
    assert (record.input_tokens, record.output_tokens) == (60, 8)


def graded(number, score=None, failed=None, **more):
    """A root run on an example of a data set, with its feedback."""
    told = {} if score is None else {"feedback_stats": {"right": {"n": 1, "avg": score}}}
    end = {"output": "room 7"} if failed is None else None
    root = {"trace_id": f"t{number}", "reference_example_id": f"e{number}", "error": failed, **told}
    return run(number, "chain", {"input": "Where?"}, end, None, **root, **more)


@pytest.mark.parametrize("as_failures", [False, True])
def test_a_failed_root_without_a_score_is_errored_beside_traces_that_have_one(kit, as_failures):
    path = kit.put([graded(1, 1.0), graded(2, failed="ValueError('boom')"), graded(3, 0.0, failed="late"), graded(4)])
    records = kit.imported(path, errors_as_failures=as_failures).records
    found = [(record.task, record.status, record.stop, record.scores.get("accuracy")) for record in records]
    crashed = ("scored", "crashed", 0.0) if as_failures else ("errored", "crashed", None)
    assert found == [
        ("e1", "scored", "finished", 1.0),
        ("e2", *crashed),
        ("e3", "scored", "crashed", 0.0),
        ("e4", "excluded", "finished", None),
    ]
    assert records[1].reason == "the root span failed: ValueError('boom')"


def test_where_nobody_judged_the_traces_the_failed_ones_are_left_out_like_the_others(kit):
    records = kit.imported(kit.put([graded(1), graded(2, failed="boom")]), errors_as_failures=True).records
    assert [record.status for record in records] == ["excluded", "excluded"]


def test_a_score_that_the_user_named_has_to_stand_in_some_trace(kit):
    runs = [graded(1, failed="boom"), graded(2, grade=1), graded(3)]
    records = kit.imported(kit.put(runs), columns={"score": "grade"}).records
    assert [(record.status, record.reason) for record in records] == [
        ("errored", "the root span failed: boom"),
        ("scored", ""),
        ("excluded", "nothing stands at 'grade'"),
    ]
    with pytest.raises(ValueError, match=r"trace t2: --map score: nothing stands at 'grad'; did you mean 'grade'\?"):
        kit.imported(kit.put(runs), columns={"score": "grad"})


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (1.0, "--scorer: no result of 'wrong'; there are right"),
        (None, "--scorer: no trace has a result of an evaluation, so none of"),
    ],
)
def test_a_wrong_scorer_of_traces_is_refused(kit, told, said):
    with pytest.raises(ValueError, match=said):
        kit.imported(kit.put([graded(1, told)]), scorer="wrong")


def test_the_example_is_the_task_only_where_every_root_has_one_and_the_user_names_no_other(kit):
    runs = [graded(1, 1.0, other="a"), graded(2, 1.0, other="b")]
    assert [record.task for record in kit.imported(kit.put(runs)).records] == ["e1", "e2"]
    assert [record.task for record in kit.imported(kit.put(runs), columns={"task": "other"}).records] == ["a", "b"]
    assert [record.task for record in kit.imported(kit.put(runs), columns={"task": ""}).records] == ["t1", "t2"]
    del runs[1]["reference_example_id"]
    assert [record.task for record in kit.imported(kit.put(runs)).records] == ["t1", "t2"]


@pytest.mark.parametrize(
    ("root", "models", "cost"),
    [("0.25", (0.5, 0.5), 0.25), (None, (0.5, "0.25"), 0.75), (None, (0.5, None), None), (None, (None, None), None)],
)
def test_the_cost_of_langsmith_is_the_roots_or_the_sum_of_its_model_runs(kit, root, models, cost):
    runs = langsmith_runs()
    for each, told in zip((runs[0], runs[1], runs[3]), (root, *models), strict=True):
        each["total_cost"] = told
    (record,) = kit.imported(kit.put(runs)).records
    assert record.cost_usd == cost


# --- harm ---

WHOLE = {"memory": {"steps": MEMORY}, "mlflow": mlflow_trace(), "langsmith": langsmith_runs()}


def places_in(data, path=()):
    yield path
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, item in items:
        yield from places_in(item, (*path, key))


@given(
    st.sampled_from(sorted(WHOLE)), st.data(), st.sampled_from([None, True, -1, 10**400, "", "\ud800", "x", [], {}, [[{}]], [3]])
)
def test_anything_anywhere_is_read_or_refused_in_a_line(kit, name, data, leaf):
    whole = json.loads(json.dumps(WHOLE[name]))
    place = data.draw(st.sampled_from(sorted(filter(None, places_in(whole)), key=str)))
    inside = whole
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = leaf
    path = kit.put(whole)
    try:
        found = kit.imported(path)
    except ValueError as error:
        said = str(error)
    else:
        for record in found.records:
            if record.trace_at:
                read_trace(found.folder, record)
        return
    assert str(path) in said
    assert "\n" not in said
