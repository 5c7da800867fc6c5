"""`whichloop show --again` and `--minimal`: a lost trial again, with the faults that lose it and with others."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.kept import rows
from tests.models.real.provider import SECRET, completion, serving
from whichloop.loops.bare_codecs import CODEC
from whichloop.protocol import Answer
from whichloop.runs.manifest import read_manifest, write_manifest

TINY = ("-q", "--tasks", "12", "--seed", "3")


@pytest.fixture
def lost(whichloop, here) -> list[str]:
    assert whichloop("compare", *TINY, "--loop", "bare", "--profile", "flaky-tools").code == 0
    names = [f"{trial['arm']}/{trial['task']}/{trial['repeat']}" for trial in whichloop("show", "latest", "--json").json["trials"]]
    assert names
    return names


def test_the_smallest_set_loses_the_trial_again_and_no_fault_does_not(whichloop, here, lost):
    for trial in lost:
        found = whichloop("show", "latest", trial, "--minimal", "--json").json
        assert found["smallest"]
        assert 0 < len(found["faults"]) <= len(found["landed"])
        again = whichloop("show", "latest", trial, "--faults", ",".join(found["faults"]), "--json").json
        assert again["now"]["scores"]["accuracy"] < 1
        assert again["faults"] == found["faults"]
        assert whichloop("show", "latest", trial, "--faults", "none", "--json").json["now"]["scores"] == {"accuracy": 1.0}


def test_where_the_runs_are_used_up_all_faults_remain_and_are_not_called_the_smallest(whichloop, here, lost):
    found = [whichloop("show", "latest", trial, "--minimal", "--max-runs", "2", "--json").json for trial in lost]
    several = [each for each in found if len(each["landed"]) > 1]
    assert several
    assert all((each["faults"], each["runs"], each["smallest"]) == (each["landed"], 2, False) for each in several)


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


BAD = {
    ("TRIAL", "--faults", "tool.raise@decide:c1"): "did you mean 'tool.raises'?",
    ("TRIAL", "--faults", "tool.raises"): "error: --faults: 'tool.raises' is not written KIND@ROLE:CALL, such as",
    ("TRIAL", "--faults", "tool.raises@decide:c1,tool.slow@decide:c1"): "at most 1 fits a point",
    ("TRIAL", "--faults", "no.toml"): "no.toml: no such file",
    ("TRIAL", "--faults", "none", "--minimal"): "--minimal and --faults exclude each other",
    ("--minimal",): "--minimal goes with TRIAL",
    ("--again",): "--again goes with TRIAL",
    ("TRIAL", "--minimal", "--max-runs", "1"): "--max-runs 1: at least 2 are needed",
    ("TRIAL", "--minimal", "-o", "a.txt"): "a profile's file ends in .toml",
    ("TRIAL", "-o", "a.toml"): "--output goes with --minimal",
    ("TRIAL", "--allow", "own:Loop"): "--allow goes with --again, --faults or --minimal",
}


def test_bad_input_is_one_line(whichloop, here, lost):
    for arguments, message in BAD.items():
        ended = whichloop("show", "latest", *(lost[0] if argument == "TRIAL" else argument for argument in arguments))
        assert (ended.code, ended.err.count("\n")) == (2, 1), arguments
        assert message in ended.err


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


def test_a_fault_that_the_trial_does_not_come_to_is_told(whichloop, here, lost):
    ended = whichloop("show", "latest", lost[0], "--faults", "tool.raises@decide:c77")
    assert ended.err == "tool.raises@decide:c77: the trial did not come to where it strikes\n"
    assert re.search(r"^again +solved ", ended.out, re.MULTILINE)


def test_what_was_solved_has_no_set_to_look_for(whichloop, here, lost):
    solved = next(row for row in rows(next(here.glob("runs/2*"))) if row["scores"]["accuracy"] == 1)
    ended = whichloop("show", "latest", f"{solved['arm']}/{solved['task']}/{solved['repeat']}", "--minimal")
    assert (ended.code, ended.out) == (2, "")
    assert "was solved; --minimal is about a lost trial" in ended.err
