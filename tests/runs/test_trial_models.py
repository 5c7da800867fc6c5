"""One experiment by the scripted model in process and over HTTP with equal digests, and by a real model or its recording."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.prepared import Prepared, start_command
from whichloop.experiments.compare.doc import basis
from whichloop.experiments.compare.reopen import reopen
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import prepare, run
from whichloop.experiments.gate import bless, config_again, prepare_again, run_and_judge
from whichloop.experiments.why.losses import losses_explained
from whichloop.models.profiles import FAULT_KINDS, built_in_profiles, load_profile
from whichloop.models.tunnel import SAME_IDS
from whichloop.runs.config import CompareConfig, ProviderConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.permissions import Permissions
from whichloop.runs.store.files import RunError
from whichloop.runs.store.trials import read_trace

OWN = ('bare(decision_format="native")', 'bare(on_provider_error="observe")')
LOOPS = ("bare", *OWN, "finish", "phased", "react_extract", "stateless")
"""The five designs, one that makes native calls, and one that shows the provider's words to the model."""
LESS = "arithmetic(size=3)"
MORE = {"budget": {"calls": 100_000}}
OverHttp = Callable[[], AbstractContextManager[None]]
ON_THE_WIRE = tuple(kind for kind in FAULT_KINDS if kind.startswith(("provider.", "wire.")))


def made(folder: Path, **config: Any) -> Results:
    values: dict[str, Any] = {"loops": LOOPS, "suite": LESS, "mlflow": False, "concurrency": 64} | config
    experiment = prepare(CompareConfig(runs=folder / "runs", **values))
    assert run(experiment, Unwatched()) == ""
    return results(experiment.folder)


def told(found: Results, without: Collection[tuple[str, str]] = ()) -> list[tuple[Any, ...]]:
    """What differs first, where digests do; `without` some arms' tasks."""
    names = [
        "arm",
        "task",
        "status",
        "reason",
        "stop",
        "steps",
        "input_tokens",
        "output_tokens",
        "errors",
        "faults",
        "trace_digest",
    ]
    records = [record for record in found.records if (record.arm, record.task) not in without]
    return sorted(tuple(str(getattr(record, name)) for name in names) for record in records)


FAST = "flaky-tools"
PROFILES = [name if name == FAST else pytest.param(name, marks=pytest.mark.slow) for name in built_in_profiles()]


@pytest.mark.thorough
@pytest.mark.parametrize("profile", PROFILES)
def test_a_run_over_http_has_the_digest_of_the_run_in_process(over_http: OverHttp, tmp_path: Path, profile: str) -> None:
    """But for trials whose calls have one id: a server refuses two results for it, as vendors do, and nothing does in process."""
    loops = [loop for loop in LOOPS if loop != "phased"] if load_profile(profile).by_form else LOOPS  # it has calls in both forms
    blown: dict[str, Any] = {"profiles": (profile,), "loops": loops}
    inside = made(tmp_path, **blown)
    with over_http():
        outside = made(tmp_path, **blown)
    assert {record.status for record in inside.records} == {"scored"}
    of_one_id = {(record.arm, record.task) for record in inside.records if any(fault.kind == SAME_IDS for fault in record.faults)}
    assert bool(of_one_id) <= (profile == "crossed-calls")
    assert told(outside, of_one_id) == told(inside, of_one_id)
    assert of_one_id or outside.digest == inside.digest


def test_each_fault_on_the_wire_lands_on_every_design(over_http: OverHttp, tmp_path: Path) -> None:
    """What strikes the wire for real is what strikes in process."""
    profile = tmp_path / "windy.toml"
    rates = "".join(f'"{kind}" = {0.6 / len(ON_THE_WIRE):.3f}\n' for kind in ON_THE_WIRE)
    profile.write_text(
        f'name = "windy"\n[rates]\n{rates}[clears]\nnever = 0.0\nattempts = 1\nnothing = 1.0\nfailed = 1.0\nwords = 1.0\n'
    )
    windy: dict[str, Any] = {"profiles": (str(profile),), "suite": "arithmetic(size=10)"}
    inside = made(tmp_path, **windy)
    with over_http():
        outside = made(tmp_path, **windy)
    assert told(outside) == told(inside)
    landed = Counter(fault.kind for record in outside.records for fault in record.faults if fault.landed)
    assert set(landed) == set(ON_THE_WIRE)
    for arm in outside.comparison.arms:
        assert arm.summary.errored == 0
        assert arm.summary.faults.scheduled > 0
        assert arm.summary.faults.landed == arm.summary.faults.scheduled


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`whichloop serve` in a process of its own; its base URL."""
    asked = ["serve", "--port", "0", "--tasks", "8"]
    with start_command(asked, tmp_path_factory.mktemp("served"), {"PATH": os.defpath}, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def of(served: str, tasks: int) -> dict[str, Any]:
    """Settings of a run with the served model as a real one."""
    return {"models": ("openai/scripted",), "base_url": served, "suite": "arithmetic", "tasks": tasks}


def test_an_interrupted_recording_goes_on_and_is_whole_in_the_end(tmp_path: Path, served: str) -> None:
    config = CompareConfig(
        runs=tmp_path / "runs", loops=("bare", "react_extract"), tasks=8, mlflow=False, cassette=tmp_path / "tape",
        cassette_mode="record", budget={"calls": 20}, concurrency=4, models=("openai/scripted",), base_url=served,
    )  # fmt: skip
    experiment = prepare(config)
    assert run(experiment, Unwatched()) != ""
    folder = experiment.folder
    with pytest.raises(RunError, match="type it again: -s cassette"):
        reopen(folder, Permissions(base_url=served))
    allowed = Permissions(cassette=tmp_path / "tape", base_url=served)
    assert run(reopen(folder, allowed, MORE), Unwatched()) == ""
    found = results(folder)
    assert found.is_complete
    again = made(tmp_path, loops=("bare", "react_extract"), cassette=tmp_path / "tape", **of(served, 8))
    assert again.digest == found.digest


WATCHED = '''
import sys
from whichloop.cli.main import main

def hook(event, arguments):
    """No network at all."""
    if event == "socket.getaddrinfo" or (event == "socket.connect" and isinstance(arguments[1], tuple)):
        sys.stderr.write(f"{event} {arguments!r}\\n")
        sys.stderr.flush()
        __import__("os")._exit(9)

sys.addaudithook(hook)
main()
'''


def test_a_replay_connects_to_nothing(tmp_path: Path, served: str) -> None:
    recorded = made(tmp_path, loops=("finish",), cassette=tmp_path / "tape", cassette_mode="record", **of(served, 3))
    (tmp_path / "watched.py").write_text(WATCHED)
    asked = "compare --loop finish --model openai/scripted --suite arithmetic --tasks 3 -s cassette=tape --json --quiet"
    command, pipe = [sys.executable, "-m", "watched", *asked.split()], subprocess.PIPE
    with Prepared(command, cwd=tmp_path, env=dict(os.environ), stdout=pipe, stderr=pipe, text=True) as process:
        out, errors = process.communicate()
    assert process.returncode == 0, errors
    assert json.loads(out)["digest"] == recorded.digest


def test_what_was_not_recorded_is_errored_and_never_scored(tmp_path: Path, served: str) -> None:
    made(tmp_path, loops=("bare",), cassette=tmp_path / "tape", cassette_mode="record", **of(served, 3))
    found = made(tmp_path, loops=("bare",), cassette=tmp_path / "tape", **of(served, 5))
    by_task = {record.task: record for record in found.records}
    assert sorted(record.status for record in by_task.values()) == ["errored"] * 2 + ["scored"] * 3
    missed = [record for record in by_task.values() if record.status == "errored"]
    assert found.comparison.invalid
    assert found.to_json()["invalid"] is True
    assert all("not recorded" in record.reason for record in missed), missed[0].reason


KEY = "sk-test-1f9b7c2e4d6a8b0c"
SPOKEN = {"openai/scripted": "v1", "openai/responses/scripted": "v1", "anthropic/scripted": "v1", "gemini/scripted": "v1beta"}
"""Model → the end of the address at which its API is served."""


@pytest.mark.parametrize("model", SPOKEN)
def test_a_real_arm_is_billed_once_and_replayed_without_key_and_network(
    tmp_path: Path, served: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key_name = f"{model.partition('/')[0].upper()}_API_KEY"
    monkeypatch.setenv(key_name, KEY)
    prices = tmp_path / "prices.toml"
    prices.write_text(f'["{model}"]\ninput = 1.0\noutput = 4.0\n')
    address = served.replace("/v1", f"/{SPOKEN[model]}")
    asked: dict[str, Any] = {
        "loops": ('bare(decision_format="native")', "finish"), "suite": "arithmetic", "tasks": 2, "models": (model,),
        "cassette": tmp_path / "tape", "provider": {"prices": prices, "requests_per_minute": 5000},
    }  # fmt: skip
    paid = made(tmp_path, **asked, base_url=address, cassette_mode="record")
    monkeypatch.delenv(key_name)
    again = made(tmp_path, **asked, base_url="http://127.0.0.1:9")  # where nobody answers
    assert again.digest == paid.digest
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and KEY.encode() in file.read_bytes()]
    for now, then in zip(again.comparison.arms, paid.comparison.arms, strict=True):
        assert then.summary.accuracy is not None
        assert then.summary.means["cost_usd"] is not None
        assert then.summary.means["cost_usd"].value > 0
        assert then.summary.means["nominal_usd"] == then.summary.means["cost_usd"]
        assert now.summary.means["cost_usd"] is not None
        assert now.summary.means["cost_usd"].value == 0
        assert now.summary.means["nominal_usd"] == then.summary.means["nominal_usd"]


def test_tools_fail_a_real_model_too_alike_in_each_run_and_a_gate_runs_it_again(tmp_path: Path, served: str) -> None:
    asked: dict[str, Any] = {"loops": (OWN[0], "finish"), "profiles": ("flaky-tools",), **of(served, 8)}
    found = made(tmp_path, **asked)
    assert [arm.info.arm for arm in found.comparison.arms] == [
        f"{loop}/openai/scripted/flaky-tools" for loop in ("bare(decision_format=native)", "finish")
    ]
    assert basis(found) == "openai/scripted, 8 tasks; faults of tools and providers alone: flaky-tools"
    faults = [fault for record in found.records for fault in record.faults]
    assert faults
    assert all(fault.landed and fault.point.startswith("tool:") for fault in faults)
    lost = [one.detail for arm in losses_explained(found).arms for one in arm.examples]
    assert any("tool." in detail for detail in lost)
    experiment = prepare(CompareConfig(runs=tmp_path / "runs", mlflow=False, budget={"calls": 20}, concurrency=2, **asked))
    assert run(experiment, Unwatched()) != ""
    assert run(reopen(experiment.folder, Permissions(base_url=served), MORE), Unwatched()) == ""
    assert results(experiment.folder).digest == found.digest
    was, file = bless(found), tmp_path / "b.json"
    allowed = Permissions(["openai/scripted"], base_url=served)
    again = config_again(was, file, {"runs": tmp_path / "runs"}, allowed)
    _, judged = run_and_judge(prepare_again(was, file, again), Unwatched(), was, was.gate, file)
    assert (judged.outcome, {reason.code for reason in judged.reasons}) == ("pass", {"identical"})


def test_a_run_on_a_server_that_is_down_stops_early_and_can_be_gone_on_with(tmp_path: Path) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        config = CompareConfig(
            runs=tmp_path / "runs", loops=("bare",), mlflow=False, models=("openai/x",), concurrency=10,
            base_url=f"http://127.0.0.1:{deaf.getsockname()[1]}/v1", provider=ProviderConfig(attempts=1),
        )  # fmt: skip
        experiment = prepare(config)
        assert "the first 50 trials all failed, the last because of provider: " in run(experiment, Unwatched())
    found = results(experiment.folder)
    assert not found.is_complete
    assert {record.status for record in found.records} == {"errored"}
    assert found.comparison.invalid


def test_a_secret_in_an_option_is_refused_and_names_of_trials_stay_what_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APP_SECRET", "repeat_guard")  # the name of a loop
    found = made(tmp_path, loops=("repeat_guard(loop=bare)",), suite="arithmetic(size=2)")
    for record in found.records:
        assert read_trace(found.folder, record).head.arm == "repeat_guard(loop=bare)/clean"
    monkeypatch.setenv("MY_TOKEN", "correct-horse-battery-9")
    runs = len(list((tmp_path / "runs").iterdir()))
    with pytest.raises(ValueError, match="option instructions holds what looks like a secret") as told:
        made(tmp_path, loops=('bare(instructions="Use correct-horse-battery-9.")',))
    assert "horse" not in str(told.value)
    assert len(list((tmp_path / "runs").iterdir())) == runs
