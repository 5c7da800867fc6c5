"""Several files as one comparison."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases

ROWS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.sampled_from([0, 1])), min_size=1, max_size=10)


def table(rows, head="arm,task,score"):
    return "\n".join([head, *(",".join(map(str, row)) for row in rows)])


def cells(found):
    return {record.key: record.status for record in found.records}


@settings(max_examples=cases(12))
@given(ROWS)
def test_every_cell_is_accounted_for(kit, rows):
    found = kit.imported(kit.put(table(rows), ".csv"))
    assert found.is_complete
    assert len(cells(found)) == found.scheduled == len(found.records)
    scored = [record for record in found.records if record.status == "scored"]
    assert sorted((r.arm, r.task, int(r.accuracy)) for r in scored) == sorted(rows)


@settings(max_examples=cases(12))
@given(ROWS, st.data())
def test_a_table_in_pieces_is_the_table(kit, rows, data):
    counted = [
        (arm, task, rows[:at].count((arm, task, 0)) + rows[:at].count((arm, task, 1)), s) for at, (arm, task, s) in enumerate(rows)
    ]
    by_task = {task: data.draw(st.booleans()) for _, task, _ in rows}
    head = "arm,task,repeat,score"
    pieces = [piece for first in (True, False) if (piece := [row for row in counted if by_task[row[1]] is first])]
    whole = kit.imported(kit.put(table(counted, head), ".csv"))
    joined = kit.imported(*(kit.put(table(piece, head), ".csv") for piece in pieces))
    assert {record.key: record.scores for record in joined.records if record.status == "scored"} == {
        record.key: record.scores for record in whole.records if record.status == "scored"
    }
    assert {record.suite_digest for record in joined.records} == {record.suite_digest for record in whole.records}


def test_two_logs_are_two_arms(kit):
    found = kit.imported(
        *(kit.put(kit.log(*(kit.sample(n, value=v) for n in range(5)), solver=s)) for s, v in (("react", "C"), ("plan", "I")))
    )
    assert [arm.info.arm for arm in found.comparison.arms] == ["react/openai/gpt-4o-mini", "plan/openai/gpt-4o-mini"]
    assert [arm.summary.accuracy.value for arm in found.comparison.arms] == [1, 0]


def test_the_same_arm_twice_needs_names(kit):
    paths = [kit.put(kit.log(kit.sample(1), kit.sample(2, value="I"))), kit.put(kit.log(kit.sample(1)))]
    with pytest.raises(ValueError, match=r"is there and in .*; say whether they are two arms, --arm A --arm B, or repeats of one"):
        kit.imported(*paths)
    two = kit.imported(*paths, arms=["old", "new"])
    assert cells(two) == {
        ("old", "1", 0): "scored",
        ("old", "2", 0): "scored",
        ("new", "1", 0): "scored",
        ("new", "2", 0): "excluded",
    }
    assert two.records[-1].reason == f"not in {paths[1].name}"
    one = kit.imported(*paths, arms=["agent", "agent"])
    assert cells(one) == {
        ("agent", "1", 0): "scored",
        ("agent", "1", 1): "scored",
        ("agent", "2", 0): "scored",
        ("agent", "2", 1): "excluded",
    }


def test_shards_of_one_arm_are_joined(kit):
    found = kit.imported(kit.put(kit.log(kit.sample(1))), kit.put(kit.log(kit.sample(2))))
    assert set(cells(found).values()) == {"scored"}
    named = kit.imported(kit.put(kit.log(kit.sample(1))), kit.put(kit.log(kit.sample(2))), arms=["a", "a"])
    assert cells(named) == {("a", "1", 0): "scored", ("a", "2", 0): "scored"}


@pytest.mark.parametrize(
    ("arms", "said"),
    [(["a"], "2 files, 1 name$"), (["a", " "], "--arm: a name is empty"), (["a", "x" * 301], "--arm: a name has 301 characters")],
)
def test_names_fit_the_files(kit, arms, said):
    with pytest.raises(ValueError, match=said):
        kit.imported(kit.put(kit.log(kit.sample(1))), kit.put(kit.log(kit.sample(1))), arms=arms)


def test_a_file_of_several_arms_cannot_be_named(kit):
    with pytest.raises(ValueError, match="--arm names one arm per file, and this one holds 2: a, b"):
        kit.imported(kit.put("arm,task,score\na,x,1\nb,x,1", ".csv"), arms=["c"])


def test_other_questions_under_one_name_are_refused(kit):
    first, second = kit.log(kit.sample(1)), kit.log(kit.sample(1, input="Another?"), solver="plan")
    with pytest.raises(ValueError, match="task '1' asks, or expects, something else than in"):
        kit.imported(kit.put(first), kit.put(second))


def test_another_scorer_is_another_accuracy(kit):
    other = kit.log(kit.sample(1) | {"scores": {"judge": {"value": 1}}}, solver="plan")
    with pytest.raises(ValueError, match="the files are scored by match, judge: one accuracy is not the other"):
        kit.imported(kit.put(kit.log(kit.sample(1))), kit.put(other))


def test_files_without_a_common_task_are_no_comparison(kit):
    logs = [kit.log(kit.sample(n), solver=f"s{n}", spec={"task": f"suite{n}"}) for n in (1, 2)]
    with pytest.raises(ValueError, match="suite1, suite2 have no task in common"):
        kit.imported(*map(kit.put, logs))


def test_one_list_of_tasks_may_have_two_names(kit):
    paths = [kit.put(kit.log(kit.sample(1), solver=name, spec={"task": name})) for name in ("b", "a")]
    assert kit.imported(*paths).manifest.suite.name == "a + b"
    assert kit.imported(*paths, suite="mine").manifest.suite.name == "mine"


def test_the_suite_is_its_tasks_scorer_and_scale(kit):
    def digest(text="task,score\nx,1\ny,0", **reading):
        return kit.imported(kit.put(text, ".csv"), **reading).manifest.suite.digest

    assert digest() == digest("agent,score,task\na,0,y\nb,1,x\n")
    assert digest() != digest("task,score\nx,1\nz,0")
    assert digest() != digest("task,score,question\nx,1,why\ny,0,who")
    log = kit.put(kit.log(kit.sample(1) | {"scores": {"a": {"value": 1}, "b": {"value": 1}}}))
    by = {scorer: kit.imported(log, scorer=scorer).manifest.suite.digest for scorer in "ab"}
    assert by["a"] != by["b"]
