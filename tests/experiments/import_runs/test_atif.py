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

from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.run import run
from whichloop.experiments.export_runs.export import export_run
from whichloop.experiments.fit_profile.fit import fit_run
from whichloop.experiments.gate.baseline import bless
from whichloop.experiments.gate.judge import judge
from whichloop.experiments.import_runs import ImportRequest, ReadingOptions, import_files
from whichloop.experiments.import_runs.foreign_file import open_file, unscored
from whichloop.experiments.import_runs.foreign_trials import ONLY_OURS
from whichloop.experiments.import_runs.formats import atif
from whichloop.experiments.import_runs.formats.atif import NO_SCORE, later_parts, whole_trajectory
from whichloop.experiments.learn_plans.learn import learn_run, write_suite
from whichloop.experiments.why.losses import losses_explained
from whichloop.metrics.trace import ModelExchange, ToolRun
from whichloop.reports.dataframes import load
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
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


def test_why_says_where_arms_part_and_what_lost(scored):
    (pair,) = losses_explained(scored).pairs
    assert (pair.both, pair.only_a + pair.only_b, pair.neither) == (0, 2, 0)
    (lost,) = [dict(causes) for arm, causes in pair.causes.items() if arm.startswith("hasty")]
    assert sum(lost.values()) == 2
    details = {item.task: item.detail for item in pair.divergences}
    assert "nots.txt" in details["count-lines"]
    assert "made no call; the other course called bash(command='wc -l a.csv')" in details["more-rows"]


def test_a_profile_has_no_rate_that_the_format_cannot_tell(scored):
    rates = fit_run(scored.folder).rates
    told = {kind for kind, rate in rates.items() if rate.interval is not None}
    assert not {kind for kind in told if kind.startswith(("wire.", "provider."))}
    assert {"tool.hangs", "decision.repeated_call"} <= told
    assert "tool.raises" not in told  # its only failures are of calls that were never seen to work
    assert rates["wire.malformed"].note == "the traces were imported, and their format does not tell"


def test_without_a_word_on_scores_trials_are_left_out(kit):
    found = kit.imported(FILES)
    assert {record.status for record in found.records} == {"excluded"}
    assert {record.reason for record in found.records if record.trace_at} == {unscored(NO_SCORE, None)}
    assert unscored(NO_SCORE, "t") == NO_SCORE
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


def test_a_file_that_is_called_like_all_others_is_named_by_its_folder(kit, tmp_path):
    trajectory = (FILES / "careful" / "count-lines" / "trajectory.json").read_text()
    for task in ("small", "large"):
        (tmp_path / "jobs" / task).mkdir(parents=True)
        (tmp_path / "jobs" / task / "trajectory.json").write_text(trajectory)
    whole = kit.imported(tmp_path / "jobs")
    each = kit.imported(*(tmp_path / "jobs" / task / "trajectory.json" for task in ("small", "large")))
    assert {record.task for record in each.records} == {record.task for record in whole.records} == {"small", "large"}


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
        ({"score": "agent.nam"}, "--map score: nothing stands at 'agent.nam'; did you mean 'agent.name'?"),
        ({"score": "zzz"}, "--map score: nothing stands at 'zzz'; there are schema_version, "),
        ({"score": "extra.task"}, "the score is not a number: 'count-lines'"),
        ({"steps": "extra.task"}, "--map steps: this format takes arm, task, score, cluster, suite"),
        ({"task": "steps.0"}, "--map task is not a name"),
    ],
)
def test_a_wrong_place_is_named(kit, columns, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        kit.imported(FILES / "careful", columns=columns)


def test_a_run_of_ours_comes_back_with_equal_rates(tmp_path, own_run):
    exported = export_run(own_run, "atif", tmp_path / "out")
    back = results(import_files([exported.out], ImportRequest(), tmp_path / "back").folder)
    ours = results(own_run)
    assert exported.trials == len(ours.records) == len(back.records)
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


def test_what_anybody_reads_in_it_gives_equal_rates_of_what_it_tells(tmp_path, own_run):
    """Without what only whichloop reads in the files: native calls, whose arguments and errors ATIF can hold."""
    out = export_run(own_run, "atif", tmp_path / "out").out
    for path in out.iterdir():
        data = json.loads(path.read_text())
        record = data["extra"]["whichloop"]["record"]
        data["extra"] = {"task": record["task"], "reward": record["scores"]["accuracy"]}
        path.write_text(json.dumps(data))
    native = next(arm.arm for arm in results(own_run).manifest.arms if "native" in arm.arm)
    for path in out.iterdir():
        if not path.name.startswith("bare_decision"):
            path.unlink()
    back = import_files([out], ImportRequest(reading=ReadingOptions(columns=WHERE)), tmp_path / "back").folder
    before, after = fit_run(own_run, arms=[native]).rates, fit_run(back).rates
    told = [kind for kind, rate in after.items() if rate.interval is not None]
    assert {kind.partition(".")[0] for kind in told} == {"decision", "tool"}
    assert {kind: (after[kind].count, after[kind].points) for kind in told} == {
        kind: (before[kind].count, before[kind].points) for kind in told
    }


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


def test_plans_are_learned_and_run_on_what_was_recorded(kit, scored, tmp_path):
    learned = learn_run(scored.folder)
    assert (learned.checked, len(learned.lessons), dict(learned.not_learned)) == (True, 2, {})
    plans = {lesson.task: [(call.tool, call.arguments) for call in lesson.plan.calls] for lesson in learned.lessons}
    assert plans["more-rows"] == [("bash", {"command": "wc -l a.csv"}), ("bash", {"command": "wc -l b.csv"})]
    write_suite(learned, tmp_path / "learned.jsonl")
    config = CompareConfig(
        suite="jsonl",
        data=str(tmp_path / "learned.jsonl"),
        tools=learned.tools,
        loops=("bare", "finish"),
        profiles=("clean", "flaky-format"),
        mlflow=False,
    )
    experiment = prepare(config, tmp_path / "run")
    assert not run(experiment, Unwatched())
    found = results(experiment.folder).records
    assert {record.accuracy for record in found if "clean" in record.arm} == {1.0}


def test_an_imported_run_is_blessed_gated_and_loaded(scored):
    outcome = judge(scored, bless(scored))
    assert outcome.outcome == "pass"
    trials = load(scored.folder).trials
    assert trials["tool_calls"].tolist() == [2, 2, 2, 0]
    assert "false_success" not in trials


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


def test_a_trajectory_whose_end_names_itself_is_read_once(kit, scored, continued):
    goes_on_in(continued / "trajectory.cont-2.json", "trajectory.cont-2.json")
    made = import_files((continued,), ImportRequest(reading=ReadingOptions(columns=WHERE)), kit.folder / "runs" / "around")
    assert made.notes == (f"{continued}: trajectory.json: it goes on in trajectory.cont-2.json again, which is read once",)
    (record,) = results(made.folder).records
    assert (record.steps, record.answer) == (
        of(scored, "careful", "count-lines").steps,
        of(scored, "careful", "count-lines").answer,
    )


def test_files_that_name_each_other_begin_at_the_one_with_the_shortest_name(kit, scored, continued):
    goes_on_in(continued / "trajectory.cont-2.json", "trajectory.json")
    other = continued / "other.json"
    other.write_text((FILES / "careful" / "more-rows" / "trajectory.json").read_text())
    found = {record.task: record for record in kit.imported(continued, columns=WHERE).records}
    assert found.keys() == {"count-lines", "more-rows"}
    assert found["count-lines"].steps == of(scored, "careful", "count-lines").steps


def test_a_first_part_that_cannot_be_read_is_named(kit, continued):
    file = continued / "trajectory.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"steps": 5}))
    with pytest.raises(ValueError, match=r": trajectory\.json: steps is"):
        kit.imported(continued, columns=WHERE)


class Files:
    """Files by name, in memory."""

    def __init__(self, follows: dict[str, str | None]) -> None:
        whole = json.loads((FILES / "careful" / "count-lines" / "trajectory.json").read_text())
        ends = {name: whole if part is None else whole | {"continued_trajectory_ref": part} for name, part in follows.items()}
        self.documents = {name: json.dumps(end).encode() for name, end in ends.items()}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.documents)

    def __contains__(self, name: object) -> bool:
        return name in self.documents

    def read(self, name: str) -> bytes:
        return self.documents[name]


@given(
    st.lists(st.integers(-1, 7), min_size=1, max_size=8).map(
        lambda ends: {f"{place}.json": None if end < 0 else f"{end}.json" for place, end in enumerate(ends)}
    )
)
def test_every_file_is_in_a_trajectory_whatever_names_what(follows):
    files = Files(follows)
    begun = set(files.names) - later_parts(files)
    read = set[str]()
    for name in begun:
        while name in follows and name not in read:
            read.add(name)
            name = follows[name] or ""
    assert read == set(files.names)
    others = {part for name, part in follows.items() if part != name}
    assert begun >= set(files.names) - others


def test_parts_are_bounded_in_number_and_in_size(monkeypatch):
    files = Files({"0.json": "1.json", "1.json": "2.json", "2.json": None})
    first = json.loads(files.read("0.json"))
    whole, remark = whole_trajectory("0.json", first, files)
    assert (len(whole["steps"]), remark) == (3 * len(first["steps"]), "")
    monkeypatch.setattr(atif, "MAX_PARTS", 1)
    with pytest.raises(ValueError, match=r"0\.json: it goes on in more than 1 files"):
        whole_trajectory("0.json", first, files)
    monkeypatch.undo()
    size = len(files.read("1.json")) + len(files.read("2.json"))
    monkeypatch.setattr(atif, "MAX_BYTES", size)
    whole_trajectory("0.json", first, files)
    monkeypatch.setattr(atif, "MAX_BYTES", size - 1)
    with pytest.raises(ValueError, match=rf"0\.json: .* {size - 1} bytes"):
        whole_trajectory("0.json", first, files)
