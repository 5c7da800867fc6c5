"""Tables whose tasks have unequal numbers of rows: which repeats were due, what is told of the rest, and of copies."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.import_runs import ImportRequest, import_files

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


@pytest.mark.parametrize("lost", range(3))
def test_a_repeat_that_one_of_many_tasks_lacks_is_told(kit, tmp_path, lost):
    rows = [("a", task, 1, repeat) for task in "xyz" for repeat in (1, 2)]
    path = kit.put(table(rows[: 2 * lost] + rows[2 * lost + 1 :], "agent,task,score,epoch"), ".csv")
    made = import_files([path], ImportRequest(), tmp_path / "run")
    assert list(made.left_out.values()) == [1]
