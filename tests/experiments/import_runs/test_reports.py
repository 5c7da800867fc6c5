"""Reports of promptfoo and pydantic-evals: which evaluator is the accuracy. What is read of them is golden (`tests/golden`)."""

from __future__ import annotations

from typing import Any

import pytest


def case(name: str, *, scores: Any = None, assertions: Any = None, labels: Any = None, **changed: Any) -> dict[str, Any]:
    """A case of pydantic-evals, of as few fields as it can have."""
    kinds = {"scores": scores, "assertions": assertions, "labels": labels}
    made = {kind: {key: {"name": key, "value": value} for key, value in (values or {}).items()} for kind, values in kinds.items()}
    return {"name": name, "inputs": name, "expected_output": None, "output": "?", "metrics": {}, **made, **changed}


def evals(*cases: Any) -> dict[str, Any]:
    return {"name": "agent", "cases": list(cases), "failures": []}


REFUSED: list[tuple[Any, str | None, str]] = [
    (None, None, "results of Exact, closeness, polite; say which is the accuracy: --scorer Exact, or"),
    (None, "exact", "no evaluator 'exact'; there are Exact, closeness, polite, tone"),
    (None, "tone", r"case 'france \[1/2\]': the score is not a number: 'good'"),
    (evals(case("a", labels={"tone": "good"})), None, "no evaluator gave a number, a truth value or a verdict"),
    (
        evals(case("a", scores={"x": 1}), case("a", scores={"x": 1}, inputs="other")),
        None,
        "case 'a': task a: it asks something else",
    ),
    (evals(case("a", scores={"x": 1}), case("a", scores={"x": 1})), None, "arm agent, task a, repeat 0 is a duplicate"),
    (
        evals(case("a", scores={"stars": 4})),
        None,
        "case 'a': the score 4 is not within 0 and 1; another scale: --scale WORST,BEST$",
    ),
]


@pytest.mark.parametrize(("report", "scorer", "said"), REFUSED)
def test_what_is_no_accuracy_is_told_with_its_case(kit, report, scorer, said):
    path = kit.files / "capitals.json" if report is None else kit.put(report)
    with pytest.raises(ValueError, match=said):
        kit.imported(path, scorer=scorer)


def test_a_score_of_promptfoo_is_chosen_by_name_and_one_evaluator_may_be_called_as_a_kind_of_them(kit):
    with pytest.raises(ValueError, match="row 1: no score 'style'; there are success, score, tone"):
        kit.imported(kit.files / "promptfoo.json", scorer="style")
    path = kit.put(evals(case("a", assertions={"assertions": False, "other": True})))
    assert [record.accuracy for record in kit.imported(path, scorer="assertions").records] == [0]


def test_rows_of_promptfoo_as_lines_and_as_one_object_are_the_same(kit):
    assert kit.imported(kit.files / "promptfoo.jsonl").digest == kit.imported(kit.files / "promptfoo.json").digest
