"""Tables whose tasks have unequal numbers of rows: which repeats were due, what is told of the rest, and of copies."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop import load
from whichloop.experiments.compare.results import results
from whichloop.experiments.gate import bless, judge
from whichloop.experiments.import_runs import ImportRequest, import_files
from whichloop.experiments.size.pilot import SizeRequest
from whichloop.experiments.size.sizes import size
from whichloop.text.numbers import interval

ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("uvwxyz"), st.sampled_from([0, 1])), min_size=1, max_size=16)


def table(rows, head="agent,task,score"):
    return "\n".join([head, *(",".join(map(str, row)) for row in rows)])


@given(ROWS)
def test_a_repeat_was_due_where_most_tasks_of_the_arm_have_it(kit, rows):
    """The law: each row is a record; each other record is excluded, of a repeat that is the first or that most tasks have."""
    records = kit.imported(kit.put(table(rows), ".csv")).records
    counts = Counter((arm, task) for arm, task, _ in rows)
    assert sum(record.status == "scored" for record in records) == len(rows)
    assert {(r.arm, r.task) for r in records} == {
        (arm, task) for arm in {row[0] for row in rows} for task in {row[1] for row in rows}
    }
    for record in records:
        own = [count for (arm, _), count in counts.items() if arm == record.arm]
        is_due = record.repeat == 0 or 2 * sum(count > record.repeat for count in own) > len(own)
        has_it = counts[record.arm, record.task] > record.repeat
        assert (record.status == "scored") == has_it
        assert has_it or is_due
    due = [
        (arm, task, repeat)
        for arm in {row[0] for row in rows}
        for task in {row[1] for row in rows}
        for repeat in range(1, max(counts.values()))
        if 2 * sum(count > repeat for (of, _), count in counts.items() if of == arm) > sum(of == arm for of, _ in counts)
    ]
    assert set(due) <= {record.key for record in records}


PASTED = [(agent, f"q{task}", (task + (agent == "a")) % 2, f"0.0{task}1") for agent in "ab" for task in range(20)]
PASTED += PASTED[:4]


@pytest.fixture
def pasted(kit, tmp_path):
    """Forty rows, with the first four once more at the end."""
    return import_files([kit.put(table(PASTED, "agent,task,score,cost"), ".csv")], ImportRequest(), tmp_path / "pasted")


def test_rows_that_stand_twice_are_told_with_their_lines(pasted):
    (note,) = pasted.notes
    assert "4 rows are equal to an earlier one in every column (line 42 to line 2, line 43 to line 3, line 44 to " in note
    assert note.endswith("and count as repeats: remove them if they are copies")
    (counting,) = [line for line in pasted.readings if "repeats" in line]
    assert counting.endswith("so that the rows of an arm and task are counted: 4 of 40 have several, at most 2")


def test_a_task_that_has_no_second_row_lacks_none(pasted):
    assert (pasted.trials, dict(pasted.left_out)) == (44, {})
    assert list(load(pasted.folder).arms["trials"]) == [24, 20]
    found = results(pasted.folder)
    assert found.title.endswith(", 20 tasks × 1 to 2")
    assert not [warning for warning in found.comparison.warnings if "shares" in warning.lower()]


def test_unequal_repeats_are_blessed_and_judged(kit):
    found = kit.imported(kit.put(table(PASTED, "agent,task,score,cost"), ".csv"))
    assert judge(found, bless(found)).outcome == "pass"


def test_size_names_the_arm_whose_tasks_ran_once(kit):
    rows = [("a", f"q{task}", (task + repeat) % 2) for task in range(8) for repeat in range(3)]
    found = kit.imported(kit.put(table([*rows, *(("b", f"q{task}", task % 2) for task in range(8))]), ".csv"))
    said = [each.text for each in size(found, SizeRequest()).warnings if each.kind == "ran once"]
    assert [text.partition(":")[0] for text in said] == ["each task ran once in b"]


def test_repeats_without_amounts_are_often_equal_and_no_copies(kit, tmp_path):
    path = kit.put(table([("a", f"q{task}", 1) for task in range(3)] * 2), ".csv")
    made = import_files([path], ImportRequest(), tmp_path / "run")
    assert made.notes == ()
    assert any(line.endswith("are counted: each task has 2") for line in made.readings)


@pytest.mark.parametrize("lost", range(3))
def test_a_repeat_that_one_of_many_tasks_lacks_is_told(kit, tmp_path, lost):
    rows = [("a", task, 1, repeat) for task in "xyz" for repeat in (1, 2)]
    path = kit.put(table(rows[: 2 * lost] + rows[2 * lost + 1 :], "agent,task,score,epoch"), ".csv")
    made = import_files([path], ImportRequest(), tmp_path / "run")
    assert list(made.left_out.values()) == [1]


def test_clusters_too_few_for_an_interval_are_told_wherever_a_cost_is(kit):
    rows = [("a", f"q{task}", task % 2, f"0.{task + 10}", f"c{task % 5}") for task in range(20)]
    found = kit.imported(kit.put(table(rows, "agent,task,score,cost,cluster"), ".csv"))
    (solved,) = [one.value for one in found.views.per_solved if one.unit == "cost_usd"]
    for cost in (found.comparison.arms[0].summary.means["cost_usd"], solved):
        assert interval(cost, 2).endswith(" (n = 20 in 5 clusters, no interval)")
