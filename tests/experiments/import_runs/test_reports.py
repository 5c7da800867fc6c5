"""Reports of promptfoo and pydantic-evals: failed assertions are wrong answers, failed requests are none."""

from __future__ import annotations

import json

import pytest

from whichloop.experiments.import_runs import ImportRequest
from whichloop.experiments.import_runs.importing import read_file


def row(provider, test, reason=0, *, prompt="p", **more):
    """A row of version 3. `reason`: 0 none, 1 an assertion failed, 2 the request did; both stand in `error`."""
    case = {"description": f"case {test}", "vars": {"n": test}, "assert": [{"type": "contains", "value": "x"}]}
    failed = reason == 2
    return {
        **{"promptIdx": 0, "testIdx": test, "provider": {"id": provider, "label": ""}, "prompt": {"raw": "{{n}}", "label": prompt}},
        **{"success": reason == 0, "score": [1, 0.5, 0][reason], "failureReason": reason, "vars": case["vars"], "testCase": case},
        **{"namedScores": {"tone": 0.25}, "gradingResult": None if failed else {"pass": reason == 0}, "latencyMs": 800},
        "cost": 0.001,
        "response": {"error": "429"} if failed else {"output": "x"},
        "tokenUsage": {"total": 0, "prompt": 0, "completion": 0} if failed else {"total": 30, "prompt": 20, "completion": 10},
        **({"error": "429 Too Many Requests" if failed else "Expected x"} if reason else {}),
        **more,
    }


def results(*rows):
    return {"evalId": "e", "results": {"version": 3, "results": list(rows), "stats": {"successes": 1}}, "config": {}}


ROWS = [
    row(provider, test, reason) for provider in ("one", "two") for test, reason in enumerate((0, 1, 2 if provider == "two" else 0))
]


@pytest.mark.parametrize("form", ["json", "lines"])
def test_what_promptfoo_writes_is_taken_as_it_is(kit, form):
    path = kit.put("\n".join(map(json.dumps, ROWS)), ".jsonl") if form == "lines" else kit.put(results(*ROWS))
    records = kit.imported(path).records
    told = {(record.arm, record.task): (record.status, record.scores.get("accuracy"), record.input_tokens) for record in records}
    assert told == {
        ("one", "case 0"): ("scored", 1, 20),
        ("one", "case 1"): ("scored", 0, 20),
        ("one", "case 2"): ("scored", 1, 20),
        ("two", "case 0"): ("scored", 1, 20),
        ("two", "case 1"): ("scored", 0, 20),
        ("two", "case 2"): ("errored", None, 0),
    }
    failed = records[-1]
    assert (failed.reason, failed.stop, "input_tokens" in failed.unknown) == ("429 Too Many Requests", "crashed", True)
    assert (records[0].seconds, records[0].cost_usd, records[0].answer, records[0].scores["tone"]) == (0.8, 0.001, "x", 0.25)


def test_rows_of_earlier_versions_tell_a_failed_request_by_its_response(kit):
    old = [{key: item for key, item in one.items() if key not in ("failureReason", "testCase", "testIdx")} for one in ROWS]
    for one in old:
        one["provider"] = one["provider"]["id"]
    records = kit.imported(kit.put(results(*old))).records
    told = {(record.arm, record.task): record.status for record in records}
    assert {key for key, status in told.items() if status == "errored"} == {("two", "2")}
    assert {task for _, task in told} == {"0", "1", "2"}


def test_scorers_places_prompts_and_repeats(kit):
    path = kit.put(results(*ROWS))
    assert {record.accuracy for record in kit.imported(path, scorer="score").records if record.task == "case 1"} == {0.5}
    named = {"arm": "provider.id", "tokens": "tokenUsage.total", "task": "testIdx"}
    record = kit.imported(path, scorer="success", columns=named).records[0]
    assert (record.arm, record.task, record.input_tokens + record.output_tokens) == ("one", "0", 30)
    with pytest.raises(ValueError, match="row 1: no score 'style'; there are success, score, tone"):
        kit.imported(path, scorer="style")
    twice = [row("one", test, prompt=prompt) for prompt in ("short", "long") for test in (0, 0, 1)]
    log = read_file(kit.put(results(*twice)), ImportRequest())
    assert {(trial.arm, trial.task, trial.repeat) for trial in log.trials} == {
        (f"one {prompt}", f"case {test}", repeat) for prompt in ("short", "long") for test, repeat in ((0, 0), (0, 1), (1, 0))
    }
    same = [row("one", test, testCase={"description": "same", "vars": {"n": test}}) for test in (0, 1)]
    assert [record.task for record in kit.imported(kit.put(results(*same))).records] == ["0", "1"]


def evaluated(value):
    return {"name": "x", "value": value, "reason": None, "source": {"name": "X", "arguments": None}}


def case(name, *, scores=None, assertions=None, labels=None, **changed):
    """A case of as few fields as it can have."""
    found = {"scores": scores, "assertions": assertions, "labels": labels}
    made = {kind: {key: evaluated(value) for key, value in (values or {}).items()} for kind, values in found.items()}
    return {"name": name, "inputs": name, "expected_output": None, "output": "?", "metrics": {}, **made, **changed}


def evals(*cases, failures=(), **changed):
    return {"name": "agent", "cases": list(cases), "failures": list(failures), **changed}


def only(found):
    (record,) = found.records
    return record


def test_a_real_report_is_read_case_by_case(kit):
    found = kit.imported(kit.files / "capitals.json", scorer="assertions", columns={"cluster": "metadata.continent"})
    records = {(record.task, record.repeat): record for record in found.records}
    assert len(records) == 6
    (arm,) = found.comparison.arms
    assert (arm.info.arm, arm.info.model) == ("capital", "gpt-4o-mini")
    first = records["france", 0]
    assert (first.status, first.accuracy, first.answer, first.cluster) == ("scored", 1.0, "Paris", "europe")
    assert (first.steps, first.lm_calls, first.tokens, first.cost_usd, first.seconds) == (2, 2, 16, 0.001, 0.5)
    assert dict(first.scores) == {"accuracy": 1.0, "Exact": 1.0, "polite": 1.0, "closeness": 0.75}
    assert records["peru", 0].accuracy == 0.0
    assert (records["mali", 1].status, records["mali", 1].reason) == ("errored", "RuntimeError: connection reset by peer")
    unscored = records["france", 1]
    assert (unscored.status, unscored.reason) == ("errored", "not scored: ValueError: the judge gave no verdict")
    assert records["mali", 1].cluster == "africa"


@pytest.mark.parametrize(
    ("scorer", "accuracy"), [("Exact", [1, 1, 1, 0, 0]), ("polite", [1, 1, 1, 1]), ("closeness", [0.75, 0.75, 0.75, 0.75])]
)
def test_a_real_report_by_each_evaluator(kit, scorer, accuracy):
    found = kit.imported(kit.files / "capitals.json", scorer=scorer)
    assert [record.accuracy for record in found.records if record.status == "scored"] == accuracy  # by task: france, mali, peru


def test_several_evaluators_need_a_choice(kit):
    with pytest.raises(ValueError, match="results of Exact, closeness, polite; say which is the accuracy: --scorer Exact, or"):
        kit.imported(kit.files / "capitals.json")
    with pytest.raises(ValueError, match="no evaluator 'exact'; there are Exact, closeness, polite, tone"):
        kit.imported(kit.files / "capitals.json", scorer="exact")
    with pytest.raises(ValueError, match=r"case 'france \[1/2\]': the score is not a number: 'good'"):
        kit.imported(kit.files / "capitals.json", scorer="tone")


def test_verdicts_in_words_are_results_and_other_labels_are_none(kit):
    cases = (case("a", labels={"tone": "good", "right": "yes"}), case("b", labels={"tone": "pass", "right": "FAIL"}))
    assert [record.accuracy for record in kit.imported(kit.put(evals(*cases))).records] == [1, 0]
    with pytest.raises(ValueError, match="no evaluator gave a number, a truth value or a verdict"):
        kit.imported(kit.put(evals(case("a", labels={"tone": "good"}))))


def test_earlier_reports_have_fewer_fields(kit):
    old = json.loads(json.dumps(evals(case("a", assertions={"Exact": True}), case("b [1/2]", assertions={"Exact": True}))))
    del old["failures"]
    found = kit.imported(kit.put(old))
    assert [(record.task, record.repeat) for record in found.records] == [("a", 0), ("b [1/2]", 0)]  # a name, not a run
    assert found.manifest.suite.name == "dataset"
    assert found.comparison.arms[0].info.model == "unknown"


def test_two_cases_of_one_name_are_refused(kit):
    with pytest.raises(ValueError, match="case 'a': task a: it asks something else than in another trial"):
        kit.imported(kit.put(evals(case("a", scores={"x": 1}), case("a", scores={"x": 1}, inputs="other"))))
    with pytest.raises(ValueError, match="arm agent, task a, repeat 0 is a duplicate"):
        kit.imported(kit.put(evals(case("a", scores={"x": 1}), case("a", scores={"x": 1}))))


def test_metrics_of_the_users_own(kit):
    metrics = {"steps": 3, "confidence": 0.9, "total_tokens": 10, "colour": 4}
    record = only(kit.imported(kit.put(evals(case("a", scores={"x": 1}, metrics=metrics)))))
    assert (record.steps, record.confidence, record.tokens) == (3, 0.9, 10)
    assert "lm_calls" in record.unknown


def test_an_only_evaluator_needs_no_choice_one_may_be_called_assertions_and_scores_beyond_one_need_a_scale(kit):
    assert only(kit.imported(kit.put(evals(case("a", assertions={"Exact": True}, labels={"tone": "good"}))))).accuracy == 1
    path = kit.put(evals(case("a", assertions={"assertions": False, "other": True})))
    assert only(kit.imported(path, scorer="assertions")).accuracy == 0
    path = kit.put(evals(case("a", scores={"stars": 4}), case("b", scores={"stars": 5})))
    with pytest.raises(ValueError, match=r"case 'a': the score 4 is not within 0 and 1; another scale: --scale WORST,BEST$"):
        kit.imported(path)


def test_failures_alone_are_a_report(kit):
    failure = {"name": "a", "inputs": "?", "expected_output": 1.5, "error_message": "no", "error_stacktrace": ""}
    path = kit.put(evals(failures=[failure]))
    seen, counted = (only(kit.imported(path, errors_as_failures=counts)) for counts in (False, True))
    assert (seen.status, seen.stop, counted.accuracy) == ("errored", "crashed", 0)
