"""The baseline's configuration run again: what its file decides, what only the user does, when a run ends early, and its noise."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.gate.conftest import ALL, ARM, SLOW, STUCK, changed, hanging, made, of_suite
from tests.experiments.running import Told
from whichloop.experiments.compare.run import run
from whichloop.experiments.gate import (
    Baseline,
    Incomparable,
    bless,
    config_again,
    prepare_again,
    read_baseline,
    rerun,
    run_and_judge,
)
from whichloop.experiments.gate import write_baseline as write
from whichloop.experiments.gate.baseline import hung_before
from whichloop.experiments.gate.noise import self_check, self_doc
from whichloop.experiments.gate.rerun import _Hangs, _Watching, project_permissions
from whichloop.experiments.gate.sides import HANG_TRIALS
from whichloop.metrics.record import Record
from whichloop.runs.manifest import read_manifest
from whichloop.runs.permissions import Permissions
from whichloop.runs.store.files import RunError

FILE = Path("b.json")
OWN = "whichloop.checks.suite.reference_agents:Blind"
"""Named as code of one's own is."""


def configured(baseline: Baseline, **config: Any) -> Baseline:
    return baseline.model_copy(update={"config": {**baseline.config, **config}})


def test_the_same_again_is_identical_with_seed_tasks_and_profiles_of_the_baseline(ran, tmp_path):
    was, path, told = bless(ran(loops=("bare",), tasks=6, seed=3)), tmp_path / "b.json", Told()
    write(path, was)
    config = config_again(read_baseline(path), path, {"runs": tmp_path / "runs"})
    assert (config.seed, config.tasks, config.profiles, config.suite) == (3, 6, ("clean", "flaky-tools"), "arithmetic(size=12)")
    experiment = prepare_again(was, path, config)
    assert (experiment.config.trial_timeout_s, read_manifest(experiment.folder).config["trial_timeout_s"]) == (10.0, 60.0)
    found, judged = run_and_judge(experiment, told, was, was.gate, path)
    assert (judged.outcome, {reason.code for reason in judged.reasons}, judged.again) == ("pass", {"identical"}, (0, 0))
    assert (len(told.records), found.manifest.seed, judged.run.parent, judged.baseline) == (12, 3, tmp_path / "runs", path)


def test_what_was_typed_wins_and_the_file_neither_tracks_nor_says_where_runs_go(baseline):
    theirs = configured(baseline, mlflow=True, tracking_uri="http://theirs", runs="/theirs")
    config = config_again(theirs, FILE, {"loops": ("react_extract",), "seed": 7, "repeats": 5, "profiles": ("clean",)})
    assert (config.loops, config.seed, config.repeats, config.profiles) == (("react_extract",), 7, 5, ("clean",))
    assert (config.mlflow, config.tracking_uri, config.runs) == (False, None, Path("runs"))


@pytest.fixture
def server() -> Iterator[tuple[str, list[bytes]]]:
    """An address of this machine, and what was sent to it."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def listen() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                asked.append(connection.recv(100))
                connection.close()

        threading.Thread(target=listen, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1", asked
        listening.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    "named",
    [
        {"loops": ["evil:Loop"]},
        {"suite": "jsonl", "tools": "evil", "data": "evil.jsonl"},
        {"tools": "mcp:python evil.py"},
        {"models": ["openai/m"], "profiles": ["clean"], "base_url": "{server}"},
        {"models": ["openai/m"], "profiles": ["clean"], "cassette": "tape"},
        {"mlflow": True, "tracking_uri": "{server}", "loops": ["evil:Loop"]},
        {"suite": "huggingface(path='evil/ds')"},
        {"suite": "csv", "data": "/etc/passwd"},
        {"quarantine": "/etc/passwd"},
    ],
    ids=str,
)
def test_a_hostile_baseline_imports_nothing_and_asks_no_server(baseline, named, server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("evil.py").write_text("open('imported', 'w').close()\n")
    Path("evil.jsonl").write_text("{}\n")
    address, asked = server
    theirs = {name: value.format(server=address) if isinstance(value, str) else value for name, value in named.items()}
    with pytest.raises(ValueError, match=r"^b\.json: ") as said:
        prepare_again(baseline, FILE, config_again(configured(baseline, **theirs), FILE))
    assert "\n" not in str(said.value)
    assert (asked, "evil" in sys.modules, Path("imported").exists(), Path("runs").exists()) == ([], False, False, False)


def test_code_server_and_recording_are_used_where_they_are_typed(baseline):
    own, typed = configured(baseline, loops=["bare", OWN]), Permissions([OWN], "http://ours/v1", Path("elsewhere"))
    assert config_again(own, FILE, allowed=typed).loops == ("bare", OWN)
    for named in ((OWN,), OWN):
        assert config_again(baseline, FILE, {"loops": named}).loops == (OWN,), "naming a loop allows it"
    with pytest.raises(RunError, match="code of your own"):
        config_again(configured(baseline, suite="mine:SUITE"), FILE, {"loops": (OWN,)})
    served = configured(baseline, models=["openai/m"], profiles=["clean"], base_url="http://theirs/v1")
    with pytest.raises(ValueError, match=r"b\.json: it asks openai/m; allow that by its name: --allow openai/m"):
        config_again(served, FILE, allowed=typed)
    paid = replace(typed, code=["openai/m"])
    assert config_again(served, FILE, allowed=paid).base_url == "http://ours/v1"
    for mode, again in (("record", "replay"), ("refresh", "replay"), (None, None), ("replay", "replay")):
        config = config_again(configured(served, cassette="tape", cassette_mode=mode), FILE, allowed=typed)
        assert (config.cassette, config.cassette_mode) == (Path("elsewhere"), again)


def watched(records: Iterable[Record | None], was: Baseline) -> tuple[list[Record], bool]:
    """The records that are passed on of these, one after the other, and whether the run then ends."""
    told = Told()
    watching = _Watching(told, [name for name, arm in was.arms.items() if not hung_before(arm)])
    try:
        for record in filter(None, records):
            watching.finished(record)
    except _Hangs:
        return told.records, True
    return told.records, False


@pytest.mark.parametrize("why", [STUCK, SLOW])
def test_the_run_ends_at_the_third_trial_of_a_loop_that_has_only_hung(wind, baseline, why):
    hung = list(map(hanging(*ALL, reason=why), wind.records))
    told, ended = watched(hung, baseline)
    assert ([record.arm for record in told].count(ARM), told[-1].arm, ended) == (HANG_TRIALS, ARM, True)
    assert not watched(hung, bless(changed(wind, hanging(ALL[0]))))[1]
    assert not watched((replace(record, status="errored") for record in hung if record), baseline)[1]


PAIRS = 3


def checked(found: Any, loop: str, runs: Path) -> dict[str, Any]:
    baseline = bless(found)
    return self_check(baseline, config_again(baseline, Path("b.json"), {"loops": (loop,), "runs": runs}), PAIRS, print)


def test_an_arm_against_itself_has_as_many_outcomes_as_pairs_and_a_row_for_each_metric(ran, tmp_path):
    found = ran(loops=("bare",))
    check = checked(found, "bare", tmp_path)
    assert sum(check["outcomes"].values()) == check["pairs"] == PAIRS
    arms = ("bare/clean", "bare/flaky-tools")
    noise = {(each["arm"], each["metric"]): each["floor"] for each in check["noise"]}
    assert [*noise] == [(arm, name) for arm in arms for name in bless(found).gate.metrics]
    assert noise["bare/clean", "accuracy"] == 0 < noise["bare/flaky-tools", "accuracy"]
    assert noise["bare/clean", "tokens"] == 1 < noise["bare/flaky-tools", "tokens"]
    told = self_doc(check)
    assert len(told.tables[0].rows) == len(check["noise"])
    assert json.loads(json.dumps(told.data))["pairs"] == told.data["pairs"]
    assert list(tmp_path.iterdir()) == [], "its runs are nobody's"


def test_what_cannot_be_compared_or_run_is_refused_before_anything_runs_and_leaves_no_folder(baseline, tmp_path):
    was = of_suite(baseline, max_tool_steps=3)
    with pytest.raises(Incomparable, match=r"^b\.json: another step limit"):
        prepare_again(was, FILE, config_again(was, FILE, {"runs": tmp_path}))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match=r"^b\.json: repeats: Input should be greater than or equal to 1, got 0$"):
        config_again(configured(baseline, repeats=0), FILE)
    with pytest.raises(ValueError, match=r"^b\.json: blessed from another tool's files, so there is nothing to run"):
        config_again(baseline.model_copy(update={"config": {}}), FILE)


def test_a_trial_has_the_baseline_s_limit_unless_another_was_chosen(baseline, tmp_path):
    chosen: list[tuple[float | None, dict[str, Any], float]] = [
        *((21.0, {}, 21.0), (99.0, {}, 60.0), (None, {}, 60.0)),
        *((10.0, {"trial_timeout_s": 45.0}, 45.0), (10.0, {"real_time": True}, 60.0)),
    ]
    for limit, config, used in chosen:
        gate = baseline.gate.model_copy(update={"trial_timeout_s": limit})
        was = configured(baseline, **config).model_copy(update={"gate": gate})
        experiment = prepare_again(was, FILE, config_again(was, FILE, {"runs": tmp_path}))
        assert experiment.config.trial_timeout_s == used, (limit, config)


def test_the_user_s_project_names_loops_code_server_and_recording_once_and_bad_keys_are_named(tmp_path):
    assert project_permissions(root=tmp_path) == Permissions()
    project = tmp_path / "pyproject.toml"
    project.write_text('[project]\nname = "a"\n')
    assert project_permissions(root=tmp_path) == Permissions([])
    code = 'loop = ["my:Loop(max_steps=3)"]\nallow = ["my_tools", "mcp:python server.py"]'
    project.write_text(f'[tool.whichloop]\n{code}\nbase_url = "http://ours"\ncassette = "tape"\n')
    found = project_permissions(root=tmp_path)
    assert {"my:Loop", "my_tools", "mcp:python server.py"} <= set(found.code)
    assert (found.base_url, found.cassette) == ("http://ours", Path("tape"))
    bad = {table: table for table in ("loop = 3", "loops = []")}
    for table, named in (bad | {"loop = ['a(']": "a(", "loop = [": "Invalid value"}).items():
        project.write_text(f"[tool.whichloop]\n{table}\n")
        with pytest.raises(ValueError, match=r"pyproject\.toml: ") as said:
            project_permissions(root=tmp_path)
        assert named in str(said.value)
        assert "\n" not in str(said.value)


DICE = """
from dataclasses import dataclass, replace
from whichloop.loops.bare import Bare
ASKED = []
@dataclass(frozen=True)
class Dice(Bare):
    async def run(self, query, *others):
        ended = await super().run(query, *others)
        ASKED.append(query.text)
        is_unlucky = ASKED.count(query.text) == 2 and ASKED.index(query.text) in (2, 4)
        return replace(ended, answer=-1) if is_unlucky else ended
"""


def test_of_a_loop_that_draws_at_random_only_the_doubtful_trials_run_again(tmp_path, monkeypatch):
    """Its answers differ from run to run, and so do those of the trials that run once more: that is left open."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("own_dice.py").write_text(DICE)
    monkeypatch.setattr(rerun, "run_apart", run)  # a worker would count its own calls
    was = bless(made(tmp_path, loops=("own_dice:Dice",), profiles=("clean",)))
    told = Told()
    experiment = prepare_again(was, FILE, config_again(was, FILE, {"loops": ("own_dice:Dice",), "runs": tmp_path / "runs"}))
    _, judged = run_and_judge(experiment, told, was, was.gate, FILE)
    assert (len(told.records), judged.outcome, judged.again) == (12, "undecided", (2, 0))
    assert len(list((tmp_path / "runs").iterdir())) == 2, "trials that run once more are no run of their own"
