"""`loopbench why --minimal` and `loopbench replay`: a lost trial again, with the faults that lose it and with others."""

from __future__ import annotations

import re
import shlex

import pytest

TINY = ("--no-mlflow", "-q", "--tasks", "12", "--seed", "5")


@pytest.fixture
def lost(loopbench, here) -> list[str]:
    assert loopbench("compare", *TINY, "--loop", "bare", "--profile", "flaky-tools").code == 0
    names = [f"{trial['arm']}/{trial['task']}/{trial['repeat']}" for trial in loopbench("show", "latest", "--json").json]
    assert names
    return names


def test_the_smallest_set_loses_the_trial_again_and_no_fault_does_not(loopbench, here, lost):
    for trial in lost:
        found = loopbench("why", "latest", trial, "--minimal", "--json").json
        assert found["smallest"]
        assert 0 < len(found["faults"]) <= len(found["landed"])
        again = loopbench("replay", "latest", trial, "--faults", ",".join(found["faults"]), "--json").json
        assert again["now"]["scores"]["accuracy"] < 1
        assert again["faults"] == found["faults"]
        assert loopbench("replay", "latest", trial, "--faults", "none", "--json").json["now"]["scores"] == {"accuracy": 1.0}


def test_the_sentence_names_a_command_and_a_profile_that_lose_it_too(loopbench, here, lost):
    said = loopbench("why", "latest", lost[0], "--minimal", "--out", "fewest.toml")
    assert said.err == "wrote fewest.toml\n"
    first, second = said.out.splitlines()
    assert re.fullmatch(
        re.escape(lost[0]) + r" is still lost with .*\. No smaller set of them loses it \(\d+ runs? of the trial\)\.", first
    )
    command = shlex.split(second.removeprefix("run it so again: "))
    assert command[-2:] == ["--faults", "fewest.toml"]
    assert f"{lost[0]} was lost" in loopbench(*command[1:]).out
    _, task, repeat = lost[0].rsplit("/", 2)
    compared = loopbench("compare", *TINY, "--loop", "bare", "--profile", "fewest.toml", "--json").json
    assert compared["arms"][0]["profile"] == "flaky-tools-chosen"
    assert loopbench("replay", "latest", f"{task}/{repeat}", "--json").json["now"]["scores"]["accuracy"] < 1


def test_a_replay_is_the_trial_as_it_was(loopbench, here, lost):
    found = loopbench("replay", "latest", lost[0], "--json").json
    assert found["now"]["trace_digest"] == found["before"]["trace_digest"]
    assert loopbench("replay", "latest", lost[0], "--trace").out == loopbench("show", "latest", lost[0], "-v").out


BAD = {
    ("replay", "latest", "TRIAL", "--faults", "tool.raise@decide:c1"): "did you mean 'tool.raises'?",
    ("replay", "latest", "TRIAL", "--faults", "tool.raises"): "'tool.raises' is not written KIND@ROLE:CALL, such as",
    ("replay", "latest", "TRIAL", "--faults", "tool.raises@decide:c1,tool.slow@decide:c1"): "at most 1 fits a point",
    ("replay", "latest", "TRIAL", "--faults", "no.toml"): "no.toml: no such file",
    ("why", "latest", "--minimal"): "--minimal is about one trial",
    ("why", "latest", "TRIAL", "--minimal", "--max-runs", "1"): "--max-runs 1: at least 2 are needed",
    ("why", "latest", "TRIAL", "--minimal", "--out", "a.txt"): "a profile's file ends in .toml",
    ("why", "latest", "TRIAL", "--out", "a.toml"): "--out goes with --minimal",
}


def test_bad_input_is_one_line(loopbench, here, lost):
    for arguments, message in BAD.items():
        ended = loopbench(*(lost[0] if argument == "TRIAL" else argument for argument in arguments))
        assert (ended.code, ended.err.count("\n")) == (2, 1), arguments
        assert message in ended.err


def test_a_fault_that_the_trial_does_not_come_to_is_told(loopbench, here, lost):
    ended = loopbench("replay", "latest", lost[0], "--faults", "tool.raises@decide:c77")
    assert ended.err == "tool.raises@decide:c77: the trial did not come to where it strikes\n"
    assert "was solved" in ended.out
