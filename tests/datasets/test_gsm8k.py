"""The importer of GSM8K: annotations become plans, and what does not add up is said."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from math import isclose
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.checks.suite import task_problems
from whichloop.datasets import gsm8k
from whichloop.datasets.gsm8k import AnnotationError, plan_of
from whichloop.datasets.task import Suite, Task, is_by_construction
from whichloop.datasets.validity import replay
from whichloop.protocol import Plan, Query, Ref, run_sync

PUBLISHED = Path(__file__).parents[2] / "../shared/data/gsm8k/test_first200.jsonl"

FERRY = {
    "question": "A ferry makes 3 trips with 40 cars each and one with 25. A quarter of the cars are red. How many are not?",
    "answer": "3*40 = <<3*40=120>>120 cars.\nAll in all 120+25 = <<120+25=145>>145.\n"
    "A quarter is 145/4 = <<145/4=36.25>>36.25.\nThe rest: <<145-36.25=108.75>>108.75.\n#### 108.75",
}


def steps(answer: str) -> list[str]:
    """Tool and arguments of each call, a reference by the call's id."""
    calls = plan_of(answer, 0)[0].calls
    shown = [[value.call if isinstance(value, Ref) else str(value) for value in call.arguments.values()] for call in calls]
    return [" ".join((call.tool, *values)) for call, values in zip(calls, shown, strict=True)]


def suite_of(plan: Plan) -> Suite:
    return Suite("s", "1", (Task("t", Query("q"), 1, plan=Plan(plan.calls, 1)),), gsm8k._open)


def write(path: Path, *rows: Any, encoding: str = "utf-8", newline: str = "\n") -> Path:
    path.write_bytes(newline.join(row if isinstance(row, str) else json.dumps(row) for row in rows).encode(encoding))
    return path


EXPRESSIONS = st.recursive(
    st.integers(-80, 80).map(lambda quarters: f"{quarters / 4:g}"),
    lambda inner: st.builds(str.format, st.sampled_from(["({}{}{})", "{}{}{}"]), inner, st.sampled_from("+-*/"), inner),
    max_leaves=4,
).filter(lambda text: re.search(r"\d\)?[-+*/]", text))


@given(EXPRESSIONS)
def test_an_expression_is_read_as_fractions_are_reckoned(text: str) -> None:
    try:
        value = float(eval(re.sub(r"[\d.]+", r"Fraction('\g<0>')", text), {"Fraction": Fraction}))
    except ZeroDivisionError:
        return
    plan, _ = plan_of(f"<<{text}={value:.10f}>>", 1)
    suite = suite_of(plan)
    assert task_problems(suite) == []
    assert any(abs(one.value - value) < 1e-6 * max(1, abs(value)) for one in run_sync(replay(suite.tasks[0], suite)))
    with pytest.raises(AnnotationError, match=re.escape("annotation 1")):
        plan_of(f"<<{text}={value + 1:.10f}>>", 1)


@settings(max_examples=cases(150))
@given(
    st.text()
    | st.text("0123456789.,+-*/()%$x^= ½<>", max_size=30)
    | st.lists(st.sampled_from(["<<", ">>", "1/3", "=", "2*", "0.33", "(", ")", "-", "9**"])).map("".join)
)
@example("(" * 100 + "1" + ")" * 99 + "=1")
@example("-" * 200 + "1=1")
@example("9**9**9=1")
@example("1/(2-2)=0")
@example("\x00=1")
@example("٣*2=6")
def test_any_annotation_gives_a_valid_plan_or_the_documented_error(text: str) -> None:
    for answer in (text, f"<<{text}>>", f"<<{text}=6>> <<6*{text}=6>>"):
        try:
            plan, _ = plan_of(answer, 1)
        except AnnotationError as error:
            assert "\n" not in str(error)  # noqa: PT017
            continue
        assert task_problems(suite_of(plan)) == []


@pytest.mark.parametrize(
    ("answer", "planned"),
    [
        (FERRY["answer"], ["multiply 3 40", "add c1 25", "divide c2 4", "subtract c2 c3"]),  # results are referred to
        ("<<2*3=6>> <<2.0*3=6>> <<6+1=7>>", ["multiply 2 3", "add c1 1"]),  # a call is not planned twice
        ("<<(10-4)/(1+2)*-3=-6>>", ["subtract 10 4", "add 1 2", "divide c1 c2", "multiply c3 -3"]),  # from the inside
        ("<<10/3=3.33>> <<3.33*3=9.99>>", ["divide 10 3", "round_to c1 2", "multiply c2 3"]),
    ],
)
def test_annotations_become_calls(answer: str, planned: list[str]) -> None:
    assert steps(answer) == planned


@pytest.mark.parametrize(
    "annotation",
    [
        "3\N{MULTIPLICATION SIGN}4=12", "3 x 4 = 12", "24÷2=12", "$1,000.00-988=$12", "50%*24=12", "100/25%-388=12", "½*24=12",
        "-(3-15)=12", "+12*1=12.", "5 + 7=12", "20\N{MINUS SIGN}8=12", ".5*24=12", "12^1=12", "24*1/2=12.00", "24/2=24/2",
        "36/3=24 / 2",
    ],
)  # fmt: skip
def test_notations_of_twelve(annotation: str) -> None:
    plan, _ = plan_of(f"<<{annotation}>>", 12)
    results = run_sync(replay(suite_of(plan).tasks[0], suite_of(plan)))
    assert results[-1].value == 12


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("<<2*3=7>>", "annotation 1, '2*3=7': the result is 6, not 7"),
        ("<<2*3=6>><<20/3=6.66>>", "annotation 2, '20/3=6.66': the result is 6.66666666667, not 6.66"),
        ("<<2y=6>>", "the expression is no plain arithmetic"),
        (f"<<1/3=1/{'9' * 250}>>", "longer than 200 characters"),
        (f"<<{'1+' * 120}1=121>>", "longer than 200 characters"),
        ("<<9**99=1>>", "exponent 99 is beyond"),
    ],
)
def test_what_does_not_add_up_is_said(answer: str, reason: str) -> None:
    with pytest.raises(AnnotationError, match=re.escape(reason)):
        plan_of(answer, 6)


def test_a_row_becomes_a_task(tmp_path: Path) -> None:
    suite = gsm8k.load(data=write(tmp_path / "rows.jsonl", FERRY))
    (task,) = suite.tasks
    assert (task.id, task.expected, task.scorer) == ("gsm8k-0001", 108.75, "numeric")
    assert task.query.text == f"{FERRY['question']}\n\n{gsm8k.ANSWER_FORMAT}"
    assert "####" not in task.query.text
    assert task.plan is not None
    assert task.plan.answer == 108.75
    assert [tool.name for tool in suite.open(task).tools] == ["add", "subtract", "multiply", "divide", "power", "round_to"]
    assert task_problems(suite) == []


@given(st.integers(1, 99), st.integers(1, 99), st.integers(-200, 200))
def test_a_task_says_if_no_planned_call_yields_its_answer(one: int, other: int, gold: int) -> None:
    row = {"question": "q?", "answer": f"<<{one}+{other}={one + other}>> <<{one}*{other}={one * other}>>\n#### {gold}"}
    task = gsm8k._task(1, *gsm8k._row(row, "here"))
    assert is_by_construction(task) == (gold not in (one + other, one * other))


@pytest.mark.parametrize(
    ("gold", "value"),
    [("18", 18), ("2,125", 2125), ("-3", -3), ("$1,000.50", 1000.5), ("-$4", -4), ("0.0", 0), (" 7. ", 7), (".5", 0.5)],
)
def test_gold_answers(tmp_path: Path, gold: str, value: float) -> None:
    (task,) = gsm8k.load(data=write(tmp_path / "rows.jsonl", {"question": "q?", "answer": f"#### 1 #### {gold}"})).tasks
    assert task.expected == value
    assert isinstance(task.expected, int) == float(value).is_integer()


@pytest.mark.skipif(not PUBLISHED.exists(), reason="the published file is not here")
def test_the_published_rows() -> None:
    suite = gsm8k.load(data=PUBLISHED)
    assert task_problems(suite) == []
    reasons = [task.no_plan for task in suite.tasks if task.plan is None]
    assert len(suite.tasks) == 200
    planned = [task for task in suite.tasks if task.plan]
    yielding = [any(isclose(result.value, task.expected) for result in run_sync(replay(task, suite))) for task in planned]
    assert [is_by_construction(task) for task in planned] == [not one for one in yielding]
    assert not all(yielding)
    assert sorted(reasons) == ["no annotation"] * 4 + ["no annotation computes anything"]
    needing = sum(any(task.plan.dependencies.values()) for task in suite.tasks if task.plan)
    assert needing > 150
