"""`report --why`, `--size`, `--card` and `show`: why trials were lost, from the runs of real loops to what is printed."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.models.real.provider import SECRET, completion, serving
from whichloop.cli.main import main
from whichloop.loops.bare_codecs import CODEC
from whichloop.protocol import Answer
from whichloop.runs.manifest import read_manifest, write_manifest
from whichloop.runs.store.trials import read_records

SIZE = ("--profile", "flaky-format", "--profile", "forgetful", "--tasks", "12", "--seed", "1", "--quiet")
TWO_LOOPS = ("--loop", "bare", "--loop", "react_extract")


@pytest.fixture(scope="module")
def run_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder `runs` with one comparison, for this module's tests to copy."""
    runs: Path = tmp_path_factory.mktemp("why") / "runs"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(runs.parent)
        patch.setattr(sys, "argv", ["whichloop", "compare", *TWO_LOOPS, *SIZE])
        with pytest.raises(SystemExit) as left:
            main()
    assert not left.value.code
    return runs


@pytest.fixture
def compared(whichloop: Callable[..., Any], run_once: Path) -> Callable[..., Any]:
    shutil.copytree(run_once, "runs")
    return whichloop


def test_the_answer_fits_80_columns_and_its_commands_run(compared, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = compared("report", "--why", "latest").out.splitlines()
    assert len(lines) <= 24
    assert all(len(line) <= 80 or " whichloop " in line for line in lines)  # a command is whole
    monkeypatch.setenv("COLUMNS", "200")
    for more, least in (((), 1), (("-v",), 2), (("--arm", "react_extract", "--arm", "bare"), 2)):
        out = compared("report", "--why", "latest", *more).out
        commands = re.findall(r"^show +(whichloop show .*)$", out, re.MULTILINE)
        assert len(commands) >= least
        causes = re.findall(r"^([a-z ]+?)  +step (\d+).*\nshow", out, re.MULTILINE)
        for command, (cause, step) in zip(commands, causes, strict=True):
            shown = compared(*shlex.split(command)[1:]).out
            assert f"step {step}" in shown or re.search(rf"^ *{step}\. .* → ", shown, re.MULTILINE)
            assert len(more) == 4 or f"{cause}, step {step}: " in shown


def test_an_arm_a_loop_and_a_trial(compared):
    arm = compared("report", "--why", "latest", "--arm", "react_extract/flaky-format", "--json").json
    assert (arm["pairs"], [one["arm"] for one in arm["arms"]]) == ([], ["react_extract/flaky-format"])
    loop = compared("report", "--why", "latest", "--arm", "react_extract", "--json").json
    assert [one["arm"] for one in loop["arms"]] == ["react_extract/flaky-format", "react_extract/forgetful"]
    example = arm["arms"][0]["examples"][0]
    trial = f"react_extract/flaky-format/{example['task']}/{example['repeat']}"
    told = compared("show", "latest", trial, "--json").json
    assert {name: told[name] for name in ("cause", "step", "detail", "fault")} == {
        name: example[name] for name in ("cause", "step", "detail", "fault")
    }
    said = " ".join(compared("show", "latest", trial).out.split())
    assert f"{example['cause']}, step {example['step']}: {example['detail']}" in said


def test_a_step_of_a_lost_trial_has_the_same_number_in_every_command(compared):
    assert compared("compare", "--loop", "bare", *SIZE, "-s", "name=old").code == 0
    assert compared("gate", "old", "--bless", "--output", "bare.json").code == 0
    rerun = ("--loop", "react_extract", "--quiet", "--json")
    changed = {
        f"{each['arm']}/{each['task']}/{each['repeat']}": each
        for each in json.loads(compared("gate", "--baseline", "bare.json", *rerun).out)["tasks"]
        if each["cause"]
    }
    both = next(str(path) for path in Path("runs").iterdir() if path.is_dir() and len(read_records(path)) == 48)
    alone = {
        f"{arm['arm']}/{each['task']}/{each['repeat']}": each
        for arm in compared("report", "--why", both, "--arm", "react_extract", "--json").json["arms"]
        for each in arm["examples"]
    }
    pairs = compared("report", "--why", both, "--arm", "bare", "--arm", "react_extract", "--json").json["pairs"]
    parted = [each for pair in pairs for each in pair["divergences"]]
    trials = {f"{each['loser']}/{each['task']}/{each['repeat']}": each for each in parted if each["loser"].startswith("react")}
    assert len(trials) > 3
    assert set(trials) == set(changed)  # the same loop against the same one, in one run and in two
    assert any(each["step"] != each["parts_at"] for each in trials.values())
    for name, each in trials.items():
        assert each["cause"] == alone[name]["cause"] == changed[name]["cause"]
        assert each["step"] == alone[name]["step"] == changed[name]["step"]
    for name, each in list(trials.items())[:3]:
        assert f"{each['cause']}, step {each['step']}: " in compared("show", both, name).out


TINY = ("-q", "--tasks", "12", "--seed", "3")


@pytest.fixture
def lost(whichloop, here) -> list[str]:
    assert whichloop("compare", *TINY, "--loop", "bare", "--profile", "flaky-tools").code == 0
    names = [f"{trial['arm']}/{trial['task']}/{trial['repeat']}" for trial in whichloop("show", "latest", "--json").json["trials"]]
    assert names
    return names


def test_the_smallest_set_loses_the_trial_again_and_no_fault_does_not(whichloop, here, lost):
    for trial in lost[:2]:
        found = whichloop("show", "latest", trial, "--minimal", "--json").json
        assert found["smallest"]
        assert 0 < len(found["faults"]) <= len(found["landed"])
        again = whichloop("show", "latest", trial, "--faults", ",".join(found["faults"]), "--json").json
        assert again["now"]["scores"]["accuracy"] < 1
        assert again["faults"] == found["faults"]
        assert whichloop("show", "latest", trial, "--faults", "none", "--json").json["now"]["scores"] == {"accuracy": 1.0}


def test_what_is_found_names_a_command_and_a_profile_that_lose_it_too(whichloop, here, lost):
    said = whichloop("show", "latest", lost[0], "--minimal", "-o", "fewest.toml")
    assert said.err == "wrote fewest.toml\n"
    told = dict(line.split(None, 1) for line in said.out.splitlines()[1:])
    assert told["Smallest"] == "proven: no smaller set loses it"
    command = shlex.split(told["Next"])
    assert command[-2:] == ["--faults", "fewest.toml"]
    assert whichloop(*command[1:], "--json").json["now"]["scores"]["accuracy"] < 1
    allowed = whichloop("show", "latest", lost[0], "--minimal", "--allow", "own loop:Loop").out  # typed, so that it is needed again
    assert shlex.split(allowed)[-2:] == ["--allow", "own loop:Loop"]
    _, task, repeat = lost[0].rsplit("/", 2)
    compared = whichloop("compare", *TINY, "--loop", "bare", "--profile", "fewest.toml", "--json").json
    assert compared["arms"][0]["profile"] == "flaky-tools-chosen"
    assert whichloop("show", "latest", f"{task}/{repeat}", "--again", "--json").json["now"]["scores"]["accuracy"] < 1


def test_a_replay_is_the_trial_as_it_was(whichloop, here, lost):
    found = whichloop("show", "latest", lost[0], "--again", "--json").json
    assert found["now"]["trace_digest"] == found["before"]["trace_digest"]
    assert whichloop("show", "latest", lost[0], "--again", "-v").out == whichloop("show", "latest", lost[0], "-v").out


def test_a_replay_needs_none_of_the_places_that_a_run_went_to(whichloop, here, monkeypatch):
    """Neither the real model's server and recordings, nor the run's tracking server."""
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    models = ("--model", "scripted", "--model", "openai/agent")
    with serving(lambda heard: completion(CODEC.render(Answer("I do not know.", "?")).text)) as server:
        asked = ("-s", f"base_url={server.url}", "-s", "cassette=recorded", "-s", "cassette_mode=record")
        assert whichloop("compare", "-q", "--tasks", "1", "--loop", "bare", *models, *asked).code == 0
    (path,) = (here / "runs").glob("*/manifest.json")
    manifest = read_manifest(path.parent)
    went_to = {"mlflow": True, "tracking_uri": "http://127.0.0.1:9"}
    write_manifest(path.parent, manifest.model_copy(update={"config": dict(manifest.config) | went_to}))
    assert "type it again: -s base_url=" in whichloop("resume", "latest").err
    solved, asked_for_real = (f"{arm.arm}/arithmetic-0001/0" for arm in manifest.arms)
    assert re.search(r"^again +solved ", whichloop("show", "latest", solved, "--again").out, re.MULTILINE)
    for arguments in (("show", "latest", asked_for_real, "--again"), ("show", "latest", asked_for_real, "--minimal")):
        ended = whichloop(*arguments)
        assert (ended.code, ended.err.count("\n")) == (2, 1)
        assert "its model is openai/agent; only a scripted model says the same again" in ended.err
