"""Which format reads a file, and several files as one comparison."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.experiments.import_runs import ImportRequest, import_files, known_formats
from whichloop.experiments.import_runs.foreign_file import open_file
from whichloop.experiments.import_runs.importing import FORMATS_PACKAGE
from whichloop.runs.store.trials import read_records

STARS = """
from whichloop.experiments.import_runs.foreign_trials import ForeignArm, ForeignLog, Format
def recognizes(file):
    return file.suffix == ".stars"
def read(file, reading):
    tasks = file.content().decode().split()
    log = ForeignLog("sky")
    for task in tasks:
        log.tell({}, ForeignArm("me"), task, 1)
    return log
FORMAT = Format("stars", recognizes, read)
"""


@pytest.fixture
def with_stars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One more file in the folder of formats."""
    folder = tmp_path / "more"
    folder.mkdir()
    (folder / "stars.py").write_text(STARS)
    package = importlib.import_module(FORMATS_PACKAGE)
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    yield
    sys.modules.pop(f"{FORMATS_PACKAGE}.stars", None)


@pytest.mark.usefixtures("with_stars")
def test_a_new_format_is_one_new_file_which_is_found_or_named_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    for name, format_ in (("night.stars", None), ("night.txt", "stars")):
        (tmp_path / name).write_text("vega deneb")
        folder = import_files([tmp_path / name], ImportRequest(format=format_), tmp_path / f"run {name}").folder
        assert [(record.arm, record.task) for record in read_records(folder)] == [("me", "vega"), ("me", "deneb")]
    with pytest.raises(ValueError, match=r"night\.txt: no format 'moon'; say what it is: --format [a-z|-]*inspect"):
        import_files([tmp_path / "night.txt"], ImportRequest(format="moon"), tmp_path / "run")


MINIMAL = {
    "atif": ("a.json", '{"schema_version": "ATIF-v1.7", "agent": {}, "steps": []}'),
    "inspect": ("a.eval", ""),
    "pydantic-evals": ("a.json", '{"cases": []}'),
    "csv": ("a.csv", ""),
    "tau-bench": ("a.json", '[{"task_id": 1, "reward": 0, "traj": [], "trial": 0}]'),
    "tau2": ("a.json", '{"info": {}, "simulations": []}'),
    "smolagents": ("a.json", '[{"task": "x"}]'),
    "otlp": ("a.jsonl", '{"resourceSpans": []}'),
    "promptfoo": ("a.json", '{"results": {"results": [{"success": true, "provider": {}, "prompt": {}}]}}'),
    "mlflow": ("a.jsonl", '{"info": {}, "data": {}}'),
    "langsmith": ("a.jsonl", '{"id": "1", "run_type": "llm"}'),
    "harbor": ("job/trial/result.json", "{}"),
    "terminal-bench": ("job/trial/results.json", "{}"),
}
"""Format → a file, or a file in a folder, that it recognizes."""


@pytest.mark.parametrize("name", MINIMAL)
def test_each_format_recognizes_its_own_first(tmp_path: Path, name: str) -> None:
    place, text = MINIMAL[name]
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    with open_file(tmp_path / Path(place).parts[0]) as file:
        found = [one.name for one in known_formats().values() if one.recognizes(file)]
        assert [one for one in found if one != "csv" or name == "csv"] == [name]


ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.sampled_from([0, 1])), min_size=1, max_size=12)


def table(rows, head="arm,task,score"):
    return "\n".join([head, *(",".join(map(str, row)) for row in rows)])


def cells(found):
    return {record.key: record.status for record in found.records}


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


def test_the_suite_is_its_tasks_scorer_and_scale(kit):
    def digest(text="task,score\nx,1\ny,0", **reading):
        return kit.imported(kit.put(text, ".csv"), **reading).manifest.suite.digest

    assert digest() == digest("agent,score,task\na,0,y\nb,1,x\n")
    assert digest() != digest("task,score\nx,1\nz,0")
    assert digest() != digest("task,score,question\nx,1,why\ny,0,who")
    log = kit.put(kit.log(kit.sample(1) | {"scores": {"a": {"value": 1}, "b": {"value": 1}}}))
    by = {scorer: kit.imported(log, scorer=scorer).manifest.suite.digest for scorer in "ab"}
    assert by["a"] != by["b"]


def test_every_format_has_such_a_file_and_tables_come_last() -> None:
    assert set(MINIMAL) == set(known_formats())
    ours = ["inspect", "pydantic-evals", "csv"]
    assert [name for name in known_formats() if name in ours] == ours


@given(ROWS)
def test_each_row_is_a_record_and_a_repeat_was_due_where_most_tasks_of_the_arm_have_it(kit, rows):
    found = kit.imported(kit.put(table(rows), ".csv"))
    assert found.is_complete
    assert len(cells(found)) == found.scheduled == len(found.records)
    scored = [record for record in found.records if record.status == "scored"]
    assert sorted((r.arm, r.task, int(r.accuracy)) for r in scored) == sorted(rows)
    counts = Counter((arm, task) for arm, task, _ in rows)
    for record in found.records:
        own = [count for (arm, _), count in counts.items() if arm == record.arm]
        is_due = record.repeat == 0 or 2 * sum(count > record.repeat for count in own) > len(own)
        has_it = counts[record.arm, record.task] > record.repeat
        assert (record.status == "scored") == has_it
        assert has_it or is_due


APART: dict[str, tuple[Callable[[Any], list[Any]], list[str]]] = {
    "--arm: a name is empty": (lambda kit: [kit.log(kit.sample(1))] * 2, ["a", " "]),
    "--arm names one arm per file, and this one holds 2: a, b": (
        lambda kit: [[{"arm": arm, "task": "x", "score": 1} for arm in "ab"]],
        ["c"],
    ),
    "task '1' asks, or expects, something else than in": (
        lambda kit: [kit.log(kit.sample(1)), kit.log(kit.sample(1, input="Another?"), solver="plan")],
        [],
    ),
    "the files are scored by match, judge: one accuracy is not the other": (
        lambda kit: [kit.log(kit.sample(1)), kit.log(kit.sample(1) | {"scores": {"judge": {"value": 1}}}, solver="plan")],
        [],
    ),
    "suite1, suite2 have no task in common": (
        lambda kit: [kit.log(kit.sample(n), solver=f"s{n}", spec={"task": f"suite{n}"}) for n in (1, 2)],
        [],
    ),
}


@pytest.mark.parametrize("said", APART)
def test_files_that_make_no_comparison_are_refused(kit, said):
    made, arms = APART[said]
    with pytest.raises(ValueError, match=said):
        kit.imported(*map(kit.put, made(kit)), arms=arms)


@pytest.mark.parametrize("index", [{}, {"simulation_index": [{"id": "0"}]}])
def test_a_folder_of_tau2_is_its_file(kit, tmp_path, index):
    data = json.loads((kit.files / "tau2.json").read_text("utf-8"))
    whole = kit.imported(kit.files / "tau2.json")
    folder = tmp_path / "run"
    (folder / "simulations").mkdir(parents=True)
    for number, one in enumerate(data.pop("simulations")):
        (folder / "simulations" / f"sim-{number}.json").write_text(json.dumps(one))
    (folder / "results.json").write_text(json.dumps(data | index))
    archive = shutil.make_archive(str(tmp_path / "run"), "zip", tmp_path, "run")
    for path in (folder, folder / "results.json", tmp_path, Path(archive)):
        assert kit.imported(path).digest == whole.digest
    (folder / "simulations" / "sim-0.json").write_text("[]")
    with pytest.raises(ValueError, match=r"simulations/sim-0\.json: the file is not an object"):
        kit.imported(folder)
    shutil.rmtree(folder / "simulations")
    with pytest.raises(ValueError, match="no simulations in it, and none in a folder beside it"):
        kit.imported(folder / "results.json")
