"""Trials of several agents in one table: the column that names them is told, where no arm is made of it."""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kept import rows as rows_of
from whichloop.experiments.import_runs import ImportRequest, ReadingOptions, import_files, parse_map
from whichloop.experiments.import_runs.importing import read_file
from whichloop.experiments.import_runs.pooled import PooledBy, pooled_by
from whichloop.experiments.import_runs.table_rows import FileRow

COLUMNS = {"task": "task", "score": "score"}


def rows(cells: Sequence[Mapping[str, Any]]) -> list[FileRow]:
    return [FileRow(f"row {number}", row) for number, row in enumerate(cells, 1)]


def crossed(name: str, values: Sequence[str], tasks: int = 6, **more: Any) -> list[dict[str, Any]]:
    """Each task once with each value."""
    return [{"task": f"t{task}", name: value, "score": 1, **more} for task, value in product(range(tasks), values)]


def found(cells: Sequence[Mapping[str, Any]], **more: str) -> str | None:
    pooled = pooled_by(list(cells[0]), rows(cells), COLUMNS | more)
    return None if pooled is None else pooled.column


def notes(kit: Any, cells: Sequence[Mapping[str, Any]], **request: Any) -> Sequence[str]:
    """What is said of a table, besides that columns are left out."""
    return [note for note in read_file(kit.put(list(cells)), ImportRequest(**request)).notes if "columns left out" not in note]


@given(st.permutations(crossed("shade", ["red", "green", "blue"])), st.permutations(["task", "shade", "score"]))
def test_a_column_that_tells_the_rows_of_each_task_apart_is_found_in_any_order(cells, names):
    pooled = pooled_by(names, rows(cells), COLUMNS)
    assert pooled == PooledBy("shade", ("blue", "green", "red"))


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), min_size=1, max_size=12))
def test_a_column_that_is_the_same_for_all_rows_of_a_task_names_no_arms(drawn):
    cells = [{"task": task, "score": int(score), "level": ord(task) % 2, "version": ord(task) % 3} for task, score in drawn]
    told = {task for task, _ in drawn}
    assert found(cells) in ((None,) if len(told) < len(drawn) else (None, "version"))


@pytest.mark.parametrize("name", ["agent_version", "Agent", "model-id", "prompt", "loop.name", "harness", "variant"])
def test_a_column_that_is_named_as_agents_are_need_not_stand_on_every_task(name):
    cells = [{"task": f"t{n}", "score": 1, name: "new" if n % 2 else "old"} for n in range(8)]
    assert found(cells) == name
    assert found([row | {name: "old"} for row in cells]) is None
    assert found([row | {"arm": "new" if n % 2 else "old"} for n, row in enumerate(cells)], arm="arm") is None


@pytest.mark.parametrize("name", ["seed", "attempt", "Run no"])
def test_what_numbers_repeats_names_no_arms(name):
    assert found(crossed(name, ["1", "2"])) is None


def test_nearly_as_many_values_as_rows_are_no_arms():
    cells = [{"task": f"t{n % 4}", "score": 1, "model": f"m{n}"} for n in range(16)]
    assert found(cells) is None


def test_a_lot_that_differs_by_chance_names_no_arms():
    cells = [{"task": f"t{n // 2}", "score": 1, "liked": "yn"[n % 3 == 0]} for n in range(24)]
    assert found(cells) is None


def test_models_that_are_pooled_within_an_arm_are_told(kit):
    cells = [{"arm": "a", **row} for row in crossed("model", ["large", "small"])]
    (note,) = notes(kit, cells)
    told = "column 'model' tells 2 kinds of trials apart (large, small), which are pooled within each arm"
    assert note == f"{told}; to compare them: --map arm=model"
    assert notes(kit, crossed("model", ["large", "small"])) == []


def test_the_note_says_what_to_type_and_typing_it_compares(kit):
    path = kit.put(crossed("Shade of it", ["red", "green"]))
    (_, note) = read_file(path, ImportRequest()).notes
    assert note.startswith(
        f"column 'Shade of it' tells 2 kinds of trials apart (green, red), which are pooled as one arm, {path.stem};"
    )
    flag, typed = shlex.split(note.rpartition(": ")[2])
    assert flag == "--map"
    log = read_file(path, ImportRequest(reading=ReadingOptions(columns=parse_map([typed]))))
    assert (sorted(arm.name for arm in log.arms), log.repeats, log.notes) == (["green", "red"], 1, ())


def test_rows_of_a_task_that_nothing_tells_apart_count_as_repeats_and_it_says_so(kit):
    cells = [{"task": f"t{n % 3}", "score": n % 2} for n in range(7)]
    (note,) = notes(kit, cells)
    assert note.startswith("3 tasks have several rows, which count as repeats of one arm, file")
    assert "--map arm=COLUMN, --map repeat=COLUMN" in note
    for said in ({"arms": ["mine"]}, {"reading": ReadingOptions(columns={"arm": ""})}):
        assert notes(kit, cells, **said) == []
    assert notes(kit, [row | {"repeat": n} for n, row in enumerate(cells)]) == []
    assert notes(kit, cells[:3]) == []


def test_two_rows_of_one_repeat_are_refused_with_the_column_that_tells_them_apart(kit):
    cells = [row | {"repeat": 1} for row in crossed("agent_version", ["v1", "v2"])]
    with pytest.raises(
        ValueError, match=r"row 2: arm, task and repeat '1' are in row 1 already; .*: --map arm=agent_version; otherwise remove"
    ):
        notes(kit, cells)
    with pytest.raises(
        ValueError, match=r"if the rows are of several arms: --map arm=COLUMN; otherwise remove one of the two rows"
    ):
        notes(kit, [{"task": "t", "score": 1, "repeat": 1}] * 2)


# --- names of meanings ---


def test_a_meaning_may_have_the_name_of_its_columns():
    typed = {"error": "failure", "usd": "price", "agent": "who", "Question": "q", "template": "k", "latency": "ms"}
    text = io.StringIO()
    csv.writer(text).writerow([f"{meaning}={column}" for meaning, column in typed.items()])
    meant = {"error": "failure", "cost_usd": "price", "arm": "who", "asked": "q", "cluster": "k", "seconds": "ms"}
    assert parse_map([text.getvalue()]) == meant
    with pytest.raises(ValueError, match="--map usd: it is mapped twice"):
        parse_map(["cost_usd=a,usd=b"])
    with pytest.raises(ValueError, match="--map 'erorr': no such meaning; did you mean 'error'"):
        parse_map(["erorr=a"])


# --- replacing, and nothing in common ---


def test_a_run_is_replaced_whole_or_not_at_all(kit, tmp_path):
    folder = tmp_path / "monday"
    first, second, bad = (kit.put(text, ".csv") for text in ("task,score\nx,1\n", "task,score\nx,0\ny,0\n", "task,score\nx,much\n"))
    import_files([first], ImportRequest(), folder)
    with pytest.raises(
        ValueError, match="monday: exists already; take another --name, or replace the run that is there: --replace"
    ):
        import_files([second], ImportRequest(), folder)
    again = ImportRequest(replace=True)
    with pytest.raises(ValueError, match="line 2: the score"):
        import_files([bad], again, folder)
    assert '"x"' in json.dumps(rows_of(folder))
    made = import_files([second], again, folder)
    assert (made.folder, made.trials) == (folder, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["monday"]


@pytest.mark.parametrize("kind", ["no run", "a run of our own", "a link", "a file"])
def test_nothing_but_an_imported_run_is_replaced(kit, own_run, tmp_path, kind):
    place, path = tmp_path / "there", kit.put("task,score\nx,1\n", ".csv")
    if kind == "no run":
        place.mkdir()
        (place / "thesis.txt").write_text("mine")
    elif kind == "a run of our own":
        place = own_run
    elif kind == "a link":
        place.symlink_to(own_run)
    else:
        place.write_text("mine")
    before = sorted(own_run.iterdir())
    with pytest.raises(ValueError, match="not replaced; take another --name"):
        import_files([path], ImportRequest(replace=True), place)
    assert place.exists()
    assert sorted(own_run.iterdir()) == before


def test_arms_without_a_task_in_common_are_told_with_their_tasks(kit, tmp_path):
    path = kit.put("arm,id,score\na,run-1,1\na,run-2,0\na,run-3,0\nb,run-4,1\n", ".csv")
    made = import_files([path], ImportRequest(), tmp_path / "apart")
    assert made.apart.startswith("nothing is compared: no task was scored in two arms (a: run-1, run-2 and 1 other; b: run-4)")
    assert made.remarks[-1] == made.apart
    one = kit.put("arm,id,score\na,run-1,1\na,run-2,0\nb,run-1,\n", ".csv")
    assert import_files([one], ImportRequest(), tmp_path / "one").apart == ""
    assert import_files([kit.put("id,score\nx,1\n", ".csv")], ImportRequest(), tmp_path / "single").apart == ""
