"""Reports of pydantic-evals."""

from __future__ import annotations

import json

import pytest


def result(value):
    return {"name": "x", "value": value, "reason": None, "source": {"name": "X", "arguments": None}}


def case(name, *, scores=None, assertions=None, labels=None, **changed):
    """A case of as few fields as it can have."""
    found = {"scores": scores, "assertions": assertions, "labels": labels}
    made = {kind: {key: result(value) for key, value in (values or {}).items()} for kind, values in found.items()}
    return {"name": name, "inputs": name, "expected_output": None, "output": "?", "metrics": {}, **made, **changed}


def report(*cases, failures=(), **changed):
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


def test_the_only_evaluator_needs_no_choice(kit):
    path = kit.put(report(case("a", assertions={"Exact": True}, labels={"tone": "good"})))
    assert only(kit.imported(path)).accuracy == 1


def test_verdicts_in_words_are_results_and_other_labels_are_none(kit):
    cases = (case("a", labels={"tone": "good", "right": "yes"}), case("b", labels={"tone": "pass", "right": "FAIL"}))
    assert [record.accuracy for record in kit.imported(kit.put(report(*cases))).records] == [1, 0]
    with pytest.raises(ValueError, match="no evaluator gave a number, a truth value or a verdict"):
        kit.imported(kit.put(report(case("a", labels={"tone": "good"}))))


def test_an_evaluator_may_be_called_assertions(kit):
    path = kit.put(report(case("a", assertions={"assertions": False, "other": True})))
    assert only(kit.imported(path, scorer="assertions")).accuracy == 0


def test_scores_beyond_one_need_a_scale(kit):
    path = kit.put(report(case("a", scores={"stars": 4}), case("b", scores={"stars": 5})))
    with pytest.raises(ValueError, match=r"case 'a': the score 4 is not within 0 and 1; another scale: --scale WORST,BEST$"):
        kit.imported(path)


def test_earlier_reports_have_fewer_fields(kit):
    old = json.loads(json.dumps(report(case("a", assertions={"Exact": True}), case("b [1/2]", assertions={"Exact": True}))))
    del old["failures"]
    found = kit.imported(kit.put(old))
    assert [(record.task, record.repeat) for record in found.records] == [("a", 0), ("b [1/2]", 0)]  # a name, not a run
    assert found.manifest.suite.name == "dataset"
    assert found.comparison.arms[0].info.model == "unknown"


def test_failures_alone_are_a_report(kit):
    failure = {"name": "a", "inputs": "?", "expected_output": 1.5, "error_message": "no", "error_stacktrace": ""}
    path = kit.put(report(failures=[failure]))
    record = only(kit.imported(path))
    assert (record.status, record.stop) == ("errored", "crashed")
    assert only(kit.imported(path, errors_as_failures=True)).accuracy == 0


def test_two_cases_of_one_name_are_refused(kit):
    with pytest.raises(ValueError, match="case 'a': task a: it asks something else than in another trial"):
        kit.imported(kit.put(report(case("a", scores={"x": 1}), case("a", scores={"x": 1}, inputs="other"))))
    with pytest.raises(ValueError, match="arm agent, task a, repeat 0 is a duplicate"):
        kit.imported(kit.put(report(case("a", scores={"x": 1}), case("a", scores={"x": 1}))))


def test_metrics_of_the_users_own(kit):
    metrics = {"steps": 3, "confidence": 0.9, "total_tokens": 10, "colour": 4}
    record = only(kit.imported(kit.put(report(case("a", scores={"x": 1}, metrics=metrics)))))
    assert (record.steps, record.confidence, record.tokens) == (3, 0.9, 10)
    assert "lm_calls" in record.unknown
