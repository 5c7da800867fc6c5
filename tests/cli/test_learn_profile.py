"""`whichloop learn profile`, end to end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from whichloop.experiments.fit_profile.fit import check_lines
from whichloop.models.profiles import FAULT_KINDS, load_profile

RUN = ["--quiet", "--suite", "arithmetic(size=6)", "--loop", "bare", "--profile", "flaky-format"]


@pytest.fixture
def ran(whichloop: Callable[..., Any], compared_once: Callable[..., Path]) -> Callable[..., Any]:
    """The same, after a run under `flaky-format`."""
    compared_once(*RUN)
    return whichloop


def test_a_profile_is_fitted_written_compared_with_and_shown(ran):
    fitted = ran("learn", "profile", "latest", "-o", "mine.toml", "--name", "mine")
    assert fitted.code == 0
    assert re.search(r"^Next +whichloop compare --profile ./mine.toml$", fitted.out, re.MULTILINE)
    assert "95 % interval" in fitted.out
    assert load_profile("mine.toml").name == "mine"
    again = ran("compare", *RUN[:1], "--suite", "arithmetic(size=2)", "--loop", "bare", "--profile", "./mine.toml", "--json")
    assert again.json["arms"][0]["profile"] == "mine"


def test_without_a_file_nothing_is_written(ran, tmp_path):
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    found = ran("learn", "profile", "latest", "--arm", "bare")
    assert (found.code, found.err) == (0, "")
    assert "95 % interval" in found.out
    assert "Next" not in found.out
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before


def test_json_holds_profile_rates_and_intervals(ran):
    found = json.loads(ran("learn", "profile", "latest", "--json").out)
    assert found["profile"]["name"] == "fitted-flaky-format"
    assert set(found["rates"]) == set(FAULT_KINDS)
    wire = found["rates"]["wire.truncated"]
    assert wire["interval"]["low"] <= wire["interval"]["value"] <= wire["interval"]["high"]
    assert found["rates"]["tool.lies"]["interval"] is None
    assert (found["trials"], found["tasks"], found["arms"]) == (6, 6, ["bare/flaky-format"])


def test_a_file_is_overwritten_only_when_told(ran, tmp_path):
    kept = tmp_path / "kept.toml"
    kept.write_text("mine\n")
    refused = ran("learn", "profile", "latest", "-o", "kept.toml")
    assert (refused.code, refused.out) == (2, "")
    assert "exists; overwrite it with --force" in refused.err
    assert kept.read_text() == "mine\n"
    assert ran("learn", "profile", "latest", "-o", "kept.toml", "--force").code == 0
    assert load_profile(str(kept)).rates


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope"], "no run 'nope'"),
        (["latest", "--arm", "finish"], "'finish' is no arm; this run has bare/flaky-format"),
        (["latest", "--profile", "clean"], "no such arm"),
        (["latest", "--model", "openai/x"], "no such arm"),
        (["latest", "--name", "A B"], "name"),
        (["latest", "-o", "mine.json"], "ends in .toml"),
        (["latest", "-o", "/dev/null/mine.toml"], "--output /dev/null/mine.toml: cannot be written ("),
        (["latest", "--any-order"], "--any-order goes with plans"),
        (["latest", "--again"], "--again goes with --held-out"),
        (["latest", "--held-out", "-o", "x.toml"], "--output goes with what is written, not --held-out"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing_behind(ran, tmp_path, arguments, said):
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    found = ran("learn", "profile", *arguments)
    assert (found.code, found.out) == (2, "")
    assert found.err.count("\n") == 1
    assert said in found.err
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before


def test_the_check_stands_in_table_file_and_json(ran):
    fitted = ran("learn", "profile", "latest", "-o", "mine.toml", "--json").json
    check = fitted["check"]
    assert (check["tasks"], check["problem"], check["off"]) == (6, "", False)
    assert [gap["measure"] for gap in check["gaps"]] == ["calls", "accuracy", "errors"]
    kept = check_lines(Path("mine.toml").read_text())
    assert [line.split(":")[0] for line in kept[1:]] == ["bare, calls", "bare, accuracy", "bare, errors"]
    unchecked = ran("learn", "profile", "latest", "--no-check", "-o", "other.toml", "--json").json
    assert unchecked == fitted | {"check": None, "profile": unchecked["profile"]}
    assert "Checked" not in Path("other.toml").read_text()


def test_verbose_adds_the_kinds_at_0_and_all_values_with_their_counts(ran):
    short, whole = (ran("learn", "profile", "latest", "--no-check", *more).out for more in ([], ["-v"]))
    for kind in FAULT_KINDS:
        assert kind in whole
    assert "tool.lies" not in short
    assert "retried" in whole
    assert "retried" not in short
