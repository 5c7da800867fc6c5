"""Trajectories in ATIF become trials with traces. The files in `files/atif/` were written for these tests; their counts by hand."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.compare.results import results
from whichloop.experiments.export_runs.export import export_run
from whichloop.experiments.fit_profile.fit import fit_run
from whichloop.experiments.import_runs import ImportRequest, ReadingOptions, import_files
from whichloop.experiments.import_runs.foreign_file import open_file
from whichloop.experiments.import_runs.foreign_trials import NEITHER, ONLY_OURS
from whichloop.experiments.import_runs.formats import atif
from whichloop.experiments.why.losses import losses_explained
from whichloop.metrics.trace import ModelExchange, ToolRun
from whichloop.runs.store.trials import read_trace

FILES = Path(__file__).with_name("files") / "atif"
WHERE = {"task": "extra.task", "score": "extra.reward"}


@pytest.fixture(scope="module")
def scored(kit):
    return kit.imported(FILES, columns=WHERE)


def of(found, arm, task):
    return next(record for record in found.records if record.arm.startswith(arm) and record.task == task)


def test_counts_are_those_of_the_files(scored):
    """steps, model calls, tool calls, input and output tokens, errors, seconds: counted in the files by hand."""
    counted = {
        (record.arm, record.task): (
            *(record.steps, record.lm_calls, record.tool_calls, record.input_tokens, record.output_tokens),
            *(dict(record.errors), record.repeated_calls, record.seconds, record.accuracy),
        )
        for record in scored.records
    }
    assert counted == {
        ("careful/small-1", "count-lines"): (3, 3, 2, 725, 47, {}, 0, 8.0, 1.0),
        ("careful/small-1", "more-rows"): (2, 2, 2, 465, 34, {}, 0, 4.0, 1.0),
        ("hasty/small-1", "count-lines"): (3, 3, 2, 690, 27, {"tool.Error": 2}, 0, 4.0, 0.0),
        ("hasty/small-1", "more-rows"): (1, 1, 0, 175, 4, {}, 0, 1.0, 0.0),
    }
    assert {name for record in scored.records for name in record.unknown} == {"cached_tokens", *ONLY_OURS}


def test_the_trace_has_every_call_and_result(scored):
    trace = read_trace(scored.folder, of(scored, "careful", "more-rows"))
    assert trace.head.query == "Which of a.csv and b.csv has more rows? Reply with its name."
    assert [(run.call.tool, run.call.arguments, run.data, run.status) for run in trace.events if isinstance(run, ToolRun)] == [
        ("bash", {"command": "wc -l a.csv"}, "12 a.csv\n", "success"),
        ("bash", {"command": "wc -l b.csv"}, "9 b.csv\n", "success"),
    ]
    asked = [event for event in trace.events if isinstance(event, ModelExchange)]
    assert [(event.role, event.move_kind, event.tokens) for event in asked] == [
        ("decide", "act", (205, 30)),
        ("decide", "answer", (260, 4)),
    ]
    assert [message.role for message in asked[1].messages] == ["assistant", "tool", "tool"]


def test_without_a_word_on_scores_trials_are_left_out(kit):
    found = kit.imported(FILES)
    assert {record.status for record in found.records} == {"excluded"}
    assert {record.reason for record in found.records if record.trace_at} == {NEITHER}
    tasks = {f"{arm}/{task}" for arm in ("careful", "hasty") for task in ("count-lines", "more-rows")}
    assert {record.task for record in found.records} == tasks
    assert fit_run(found.folder).trials == 4


def test_a_zip_is_read_like_the_folder(kit, tmp_path, scored):
    archive = shutil.make_archive(str(tmp_path / "runs"), "zip", FILES)
    assert kit.imported(Path(archive), columns=WHERE).digest == scored.digest


def test_an_export_of_what_was_imported_has_the_same_list_of_tasks(kit, scored, tmp_path):
    """So that a gate can hold either against the other."""
    export_run(scored.folder, "atif", tmp_path / "out")
    again = kit.imported(tmp_path / "out")
    assert again.manifest.suite.digest == scored.manifest.suite.digest


def test_two_files_of_one_agent_and_task_are_repeats(kit, tmp_path):
    text = (FILES / "hasty" / "more-rows" / "trajectory.json").read_text()
    for name in ("first", "second"):
        (tmp_path / f"{name}.json").write_text(text)
    assert [record.repeat for record in kit.imported(tmp_path, columns=WHERE).records] == [0, 1]


def test_links_out_of_the_folder_are_not_followed(kit, tmp_path):
    folder = tmp_path / "in"
    shutil.copytree(FILES / "careful", folder)
    (folder / "secret.json").symlink_to(FILES / "hasty" / "more-rows" / "trajectory.json")
    (folder / "away").symlink_to(FILES / "hasty")
    assert {record.arm for record in kit.imported(folder, columns=WHERE).records} == {"careful/small-1"}


def test_the_digest_of_a_folder_is_of_what_was_read(tmp_path):
    shutil.copytree(FILES, tmp_path / "in")
    digests = []
    for change in (None, "other.txt", "careful/more-rows/trajectory.json"):
        if change:
            with (tmp_path / "in" / change).open("a") as file:
                file.write(" ")
        with open_file(tmp_path / "in") as file:
            assert file.tree is not None
            for name in file.tree.names:
                if name.endswith(".json"):
                    file.tree.read(name)
            digests.append(file.sha256)
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"score": "extra.points"}, "--map score: nothing stands at 'extra.points'"),
        ({"score": "agent.nam"}, "--map score: nothing stands at 'agent.nam'; there are agent.name"),
        ({"score": "zzz"}, "--map score: nothing stands at 'zzz'; there are schema_version, "),
        ({"score": "extra.task"}, "the score is not a number: 'count-lines'"),
        ({"steps": "extra.task"}, "--map steps: this format takes arm, model, task, score, cluster, suite"),
        ({"task": "steps.0"}, "--map task is not a name"),
    ],
)
def test_a_wrong_place_is_named(kit, columns, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        kit.imported(FILES / "careful", columns=columns)


def test_a_run_of_ours_comes_back_with_equal_rates(tmp_path, own_run):
    written_trials, _ = export_run(own_run, "atif", tmp_path / "out")
    back = results(import_files([tmp_path / "out"], ImportRequest(), tmp_path / "back").folder)
    ours = results(own_run)
    assert written_trials == len(ours.records) == len(back.records)
    strip = {"suite_digest": "", "trace_at": 0}
    there, here = ({record.name: record.to_json() | strip for record in run.records} for run in (back, ours))
    assert there == here
    for arm in ours.manifest.arms:
        before, after = fit_run(own_run, arms=[arm.arm]), fit_run(back.folder, arms=[arm.arm])
        assert {kind: rate.as_dict() for kind, rate in after.rates.items()} == {
            kind: rate.as_dict() for kind, rate in before.rates.items()
        }
        assert after.profile.model_dump(exclude={"description"}) == before.profile.model_dump(exclude={"description"})
    there, here = ({arm.arm: arm.to_json() for arm in losses_explained(run, pairs=[]).arms} for run in (back, ours))
    assert there == here


# --- harm ---

HARMFUL: list[Any] = [None, True, -1, 10**400, 1e308, float("nan"), "", "\x00", "\ud800", "../../etc/passwd", [], {}, [[{}]]]
leaves: st.SearchStrategy[Any] = st.sampled_from(HARMFUL)
DOCUMENT = json.loads((FILES / "careful" / "more-rows" / "trajectory.json").read_text())


def places_in(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places_in(item, (*path, key))


@given(st.sampled_from(sorted(filter(None, places_in(DOCUMENT)), key=str)), leaves)
def test_a_trajectory_with_anything_anywhere(kit, place, leaf):
    """It is read, or refused in one line that names the file."""
    data = json.loads(json.dumps(DOCUMENT))
    inside = data
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = leaf
    path = kit.put(data)
    try:
        found = kit.imported(path, columns=WHERE)
    except ValueError as error:
        said = str(error)
    else:
        for record in found.records:
            read_trace(found.folder, record)
        losses_explained(found)
        fit_run(found.folder)
        return
    assert str(path) in said
    assert "\n" not in said


@pytest.fixture
def continued(tmp_path):
    """One trial whose trajectory goes on in a second and a third file, each of which begins with a copy of the last step."""
    whole = json.loads((FILES / "careful" / "count-lines" / "trajectory.json").read_text())
    steps, folder = whole["steps"], tmp_path / "parts"
    folder.mkdir()
    names = ["trajectory.json", "trajectory.cont-1.json", "trajectory.cont-2.json"]
    cuts = [steps[:2], steps[2:4], steps[4:]]
    for place, (name, own) in enumerate(zip(names, cuts, strict=True)):
        copied = [step | {"is_copied_context": True} for step in cuts[place - 1][-1:]] if place else []
        totals = {"total_prompt_tokens": [80, 400, 725][place], "total_completion_tokens": [5, 30, 47][place]}
        part = whole | {"steps": [*copied, *own], "final_metrics": totals}
        follows = {"continued_trajectory_ref": names[place + 1]} if place < 2 else {}
        (folder / name).write_text(json.dumps(part | follows))
    return folder


def test_a_trajectory_that_goes_on_in_other_files_is_one_trial(kit, scored, continued):
    (record,) = kit.imported(continued, columns=WHERE).records
    expected = of(scored, "careful", "count-lines")
    measured = ("steps", "tool_calls", "input_tokens", "output_tokens", "answer", "stop", "seconds", "accuracy")
    assert [getattr(record, name) for name in measured] == [getattr(expected, name) for name in measured]


def test_a_part_that_is_missing_is_told(kit, continued):
    (continued / "trajectory.cont-2.json").unlink()
    wanted = ImportRequest(reading=ReadingOptions(columns=WHERE))
    made = import_files((continued,), wanted, kit.folder / "runs" / "without-a-part")
    assert made.notes == (f"{continued}: trajectory.json: it goes on in trajectory.cont-2.json, which is not there",)
    assert made.trials == 1


def goes_on_in(file: Path, name: str | None) -> None:
    """Write into a trajectory in which file it goes on."""
    file.write_text(json.dumps(json.loads(file.read_text()) | {"continued_trajectory_ref": name}))


FOLLOWS = st.lists(st.integers(-1, 7), min_size=1, max_size=8)


def test_parts_are_bounded_in_number_and_in_size(kit, continued, monkeypatch):
    for bound in ("MAX_PARTS", "MAX_MEMBER_BYTES"):
        monkeypatch.setattr(atif, bound, 1)
        with pytest.raises(ValueError, match=r"trajectory\.json: it goes on in more than"):
            kit.imported(continued, columns=WHERE)
        monkeypatch.undo()
