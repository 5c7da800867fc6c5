"""Spans of every convention and tool; what is read of one and the same trial of each is a golden value of `tests/golden`."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.experiments.import_runs.spans_files import FORMS, IDS, OTLP, otlp_span, spans_of, value, written
from tests.golden.cases import kept
from whichloop.experiments.compare.results import results
from whichloop.experiments.fit_profile.fit import fit_run
from whichloop.experiments.import_runs import ImportRequest, ReadingOptions, import_files
from whichloop.experiments.import_runs.importing import read_file
from whichloop.metrics.trace import NO_CONTENT
from whichloop.reports.dataframes import Loaded


def read(kit, form, spans):
    content, columns = written(form, spans)
    return read_file(kit.put(content, ".jsonl"), ImportRequest(reading=ReadingOptions(columns=columns)))


def imported(kit, form, spans):
    content, columns = written(form, spans)
    found = kit.imported(kit.put(content, ".jsonl"), columns=columns)
    (record,) = found.records
    return found, record


def test_the_same_trial_is_read_of_every_convention():
    """What the golden values say of the first holds of all of them."""
    first, *others = (differing(kept("imports", f"spans/{form}.jsonl")) for form in FORMS)
    assert all(other == first for other in others)


def differing(told):
    """What is read of a trial but what one convention tells and another does not."""
    (record,) = (part for name, part in told.items() if name.startswith("finder/m/"))
    kept = {
        name: record[name]
        for name in ("answer", "stop", "scores", "calls", "tool_calls", "errors", "input_tokens", "output_tokens")
    }
    told_of = ("event", "move", "same", "messages", "tool", "arguments", "data", "status")
    events = [{name: event[name] for name in told_of if name in event} for event in record["trace"]["events"]]
    return kept | {"events": events, "query": record["trace"]["query"]}


def wrapped(form, spans, depth):
    """Each request and run of a tool inside of spans that tell of the same, as where two instrumentations trace one client."""
    own, above = IDS.get(form, ("spanId", "parentSpanId"))
    made = [spans[0]]
    for one in spans[1:]:
        for level in range(depth):
            made.append(one | {own: f"{one[own]} {level}", above: one[above] if level == 0 else f"{one[own]} {level - 1}"})
        made.append(one | {above: f"{one[own]} {depth - 1}"})
    return made


@pytest.mark.parametrize("form", FORMS)
@given(depth=st.integers(1, 3), data=st.data())
@settings(max_examples=cases(6))
def test_spans_within_spans_and_spans_that_come_again_count_once(kit, form, depth, data):
    spans = spans_of(form)
    (plain,) = read(kit, form, spans).trials
    (nested,) = read(kit, form, data.draw(st.permutations(wrapped(form, spans, depth)))).trials
    assert nested.trace.events == plain.trace.events
    again = data.draw(st.lists(st.sampled_from(spans), min_size=1, max_size=4))
    assert read(kit, form, [*spans, *again]).trials == [plain]


@pytest.mark.parametrize("form", OTLP)
@pytest.mark.parametrize("told", [True, False])
def test_what_no_convention_knows_is_unknown_and_never_nothing(kit, form, told):
    spans = spans_of(form)
    for span in spans[1:]:
        kept = [one for one in span["attributes"] if "model" in one["key"] or (told and "usage" in one["key"])]
        span["attributes"] = [*kept, {"key": "gen_ai.operation.name", "value": {"stringValue": "frobnicate"}}]
    content, columns = written(form, spans)
    log = read(kit, form, spans)
    assert (
        (kit.imported(kit.put(content), columns=columns).records[0].steps == 3)
        if told and form in ("gen_ai", "traceloop", "vercel")
        else any("not understood" in note for note in log.notes)
    )
    (trial,) = log.trials
    assert trial.trace is None or trial.trace.events
    silent = read(kit, form, spans[:1])
    assert silent.trials[0].trace is None
    assert any("of steps, calls and tokens is unknown" in note for note in silent.notes)


def test_a_failed_request_and_arguments_cut_short_are_read(kit):
    spans = spans_of("openinference")
    for one in spans[1]["attributes"]:
        if one["key"].endswith("function.arguments"):
            one["value"] = {"stringValue": '{"name": "An'}
    spans.append(otlp_span(8, {"openinference.span.kind": "LLM", "error.type": "timeout"}, failed="late"))
    found, record = imported(kit, "openinference", spans)
    assert dict(record.errors) == {"tool.Error": 1, "wire": 1, "timeout": 1}
    assert (record.steps, record.lm_calls) == (3, 4)
    rates = fit_run(found.folder).rates
    assert (rates["wire.truncated"].count, rates["provider.timeout"].count) == (1, 1)


def judged(form, verdicts, **more):
    """A trace that has been judged: name → verdict."""
    spans = spans_of(form)
    if form == "langsmith":
        stats = {name: {"avg": None if isinstance(word, str) else word} for name, word in verdicts.items()}
        spans[0] |= {"feedback_stats": stats, **more}
        return "\n".join(map(json.dumps, spans))
    if form == "mlflow":
        told = [{"assessment_name": name, "feedback": {"value": word}} for name, word in verdicts.items()]
        return json.dumps({"info": {"trace_id": "t1", "assessments": told, **more}, "data": {"spans": spans}})
    spans[0]["attributes"] = spans[0]["attributes"][:2]
    spans[0]["events"] = [
        {
            "name": "gen_ai.evaluation.result",
            "attributes": [
                {"key": "gen_ai.evaluation.name", "value": value(name)},
                {"key": f"gen_ai.evaluation.score.{'label' if isinstance(word, str) else 'value'}", "value": value(word)},
            ],
        }
        for name, word in verdicts.items()
    ]
    return written(form, spans)[0]


@pytest.mark.parametrize(
    ("form", "word", "score"),
    [("langsmith", 0.25, 0.25), *((form, *told) for form in ("gen_ai", "mlflow") for told in (("yes", 1), ("incorrect", 0)))],
)
def test_verdicts_are_scores_as_numbers_and_in_words(kit, form, word, score):
    path = kit.put(judged(form, {"right": word, "tone": "friendly"}), ".jsonl")
    assert [(one.status, one.accuracy) for one in kit.imported(path).records] == [("scored", score)]
    assert kit.imported(path, scorer="right").records[0].accuracy == score
    with pytest.raises(ValueError, match="--scorer: no result of 'wrong'; there are right"):
        kit.imported(path, scorer="wrong")
    several = kit.put(judged(form, {"right": word, "sure": 0.5}), ".jsonl")
    with pytest.raises(ValueError, match="results of right, sure; say which is the accuracy: --scorer right"):
        kit.imported(several)


def test_feedback_on_a_span_or_withdrawn_does_not_judge_the_trial(kit):
    told = json.loads(judged("mlflow", {"right": False}))
    beside = {"assessment_name": "right", "feedback": {"value": True}}
    told["info"]["assessments"] += [beside | {"span_id": "2"}, beside | {"valid": False}]
    (record,) = kit.imported(kit.put(told)).records
    assert (record.status, record.accuracy) == ("scored", 0.0)


def test_traces_that_nobody_judged_are_left_out_and_the_task_is_told(kit, tmp_path):
    spans = [
        otlp_span(1, {"gen_ai.operation.name": "invoke_agent", "my.task": "a"}, parent="", failed=why.strip("x"), trace=why)
        for why in ("x", "y")
    ]
    path = kit.put(written("gen_ai", spans)[0])
    made = import_files([path], ImportRequest(), tmp_path / "run")
    assert {record.status for record in results(made.folder).records} == {"excluded"}
    assert any("each is a task of its own without --map task=PLACE" in note and "my.task" in note for note in made.notes)
    with pytest.raises(ValueError, match=r"trace x: --map task: nothing stands at 'my.tas'; there are .*my.task"):
        kit.imported(path, columns={"task": "my.tas"})
    spans[0]["attributes"].append({"key": "grade", "value": value(1)})
    found = kit.imported(kit.put(written("gen_ai", spans)[0]), columns={"score": "grade"}).records
    assert sorted((record.status, record.stop or "", record.reason) for record in found if record.status != "excluded") == [
        ("errored", "crashed", "the root span failed: y"),
        ("scored", "", ""),
    ]


def test_of_two_different_spans_of_one_id_the_later_one_counts_and_traces_without_root_are_left_out(kit):
    spans = spans_of("gen_ai")
    later = json.loads(json.dumps(spans[1]).replace('"10"', '"7"'))
    assert read(kit, "gen_ai", [*spans, later]).trials == read(kit, "gen_ai", [spans[0], later, *spans[2:]]).trials
    lost = [span | {"traceId": "t2"} for span in spans[1:]]
    log = read(kit, "gen_ai", [*lost, *spans])
    assert [trial.task for trial in log.trials] == ["ann"]
    assert log.notes == ["1 of 2 traces without a root span, which says task, score and answer; left out: t2"]
    found = kit.imported(kit.put(written("gen_ai", lost)[0]))
    assert [record.task for record in found.records] == ["t2"]
    elsewhere = [
        span | {"traceId": "t3", "parentSpanId": span["parentSpanId"] or "elsewhere"} for span in spans_of("gen_ai", "two")
    ]
    assert [trial.task for trial in read(kit, "gen_ai", [*spans, *elsewhere]).trials] == ["ann", "two"]


def test_files_lines_and_endings_make_no_difference(kit):
    lines = "\n".join(written("gen_ai", spans_of("gen_ai", task))[0].replace('"t1"', f'"{task}"') for task in ("a", "b"))
    found = kit.imported(kit.put(lines, ".jsonl"), columns={"task": "task", "score": "grade"})
    assert [record.task for record in found.records] == ["a", "b"]
    for ending in (".log", ".json", ""):
        again = kit.imported(kit.put(f"{lines}\n", ending), columns={"task": "task", "score": "grade"})
        assert again.digest == found.digest
    trace = json.loads(written("mlflow", spans_of("mlflow"))[0])
    for data in (trace, [trace], {"traces": [trace]}):
        assert kit.imported(kit.put(data), columns={"task": "tags.task"}).records[0].task == "ann"


def test_without_recorded_content_requests_are_counted_nothing_is_read_from_replies_and_why_says_so(kit):
    spans = [
        span | {"attributes": [one for one in span["attributes"] if "messages" not in one["key"]]} for span in spans_of("gen_ai")
    ]
    _, record = imported(kit, "gen_ai", spans)
    assert (record.lm_calls, record.tool_calls, record.answer, record.stop, record.input_tokens) == (3, 2, None, None, 30)
    assert "wire" not in record.errors
    chat = otlp_span(2, {"gen_ai.operation.name": "chat"})
    lost, _ = imported(kit, "gen_ai", [otlp_span(1, {"task": "lost", "grade": 0}, parent=""), chat])
    said = repr(Loaded(lost).why())
    assert f"step 1: {NO_CONTENT}" in said
    assert "None" not in said
