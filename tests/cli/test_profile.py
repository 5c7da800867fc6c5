"""`whichloop profile fit` and `whichloop profile show`, end to end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from whichloop.models.profiles import FAULT_KINDS, load_profile

RUN = ["--no-mlflow", "--quiet", "--suite", "arithmetic(size=6)", "--loop", "bare", "--profile", "flaky-format"]


@pytest.fixture
def ran(whichloop: Callable[..., Any], compared_once: Callable[..., Path]) -> Callable[..., Any]:
    """The same, after a run under `flaky-format`."""
    compared_once(*RUN)
    return whichloop


def test_a_profile_is_fitted_written_compared_with_and_shown(ran):
    fitted = ran("profile", "fit", "latest", "--out", "mine.toml", "--name", "mine")
    assert fitted.code == 0
    assert "whichloop compare --profile ./mine.toml" in fitted.err
    assert "95 % interval" in fitted.out
    assert load_profile("mine.toml").name == "mine"
    again = ran("compare", *RUN[:2], "--suite", "arithmetic(size=2)", "--loop", "bare", "--profile", "./mine.toml", "--json")
    assert again.json["arms"][0]["profile"] == "mine"
    shown = ran("profile", "show", "mine.toml")
    assert shown.code == 0
    assert all(FAULT_KINDS[kind] in shown.out for kind in load_profile("mine.toml").rates)
    assert " points" in shown.out
    assert "tool.lies" in shown.out


def test_without_a_file_nothing_is_written(ran, tmp_path):
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    found = ran("profile", "fit", "latest", "--alpha", "0.1", "--arm", "bare")
    assert (found.code, found.err) == (0, "")
    assert "90 % interval" in found.out
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before


def test_json_holds_profile_rates_and_intervals(ran):
    found = json.loads(ran("profile", "fit", "latest", "--json").out)
    assert found["profile"]["name"] == "fitted-flaky-format"
    assert set(found["rates"]) == set(FAULT_KINDS)
    wire = found["rates"]["wire.truncated"]
    assert wire["interval"]["low"] <= wire["interval"]["value"] <= wire["interval"]["high"]
    assert found["rates"]["tool.lies"]["interval"] is None
    assert (found["trials"], found["tasks"], found["arms"]) == (6, 6, ["bare/flaky-format"])


def test_a_file_is_overwritten_only_when_told(ran, tmp_path):
    kept = tmp_path / "kept.toml"
    kept.write_text("mine\n")
    refused = ran("profile", "fit", "latest", "--out", "kept.toml")
    assert (refused.code, refused.out) == (2, "")
    assert "exists; overwrite it with --force" in refused.err
    assert kept.read_text() == "mine\n"
    assert ran("profile", "fit", "latest", "--out", "kept.toml", "--force").code == 0
    assert load_profile(str(kept)).rates


def test_weaknesses_are_shown_in_words(whichloop):
    found = whichloop("profile", "show", "teachable")
    assert found.code == 0
    assert "a hundredth of what was meant" in " ".join(found.out.split())
    assert "unit" in found.out
    assert "wire.malformed" not in found.out
    assert "kind=" not in found.out


def test_a_built_in_profile_is_shown(whichloop):
    found = whichloop("profile", "show", "flaky-tools")
    assert found.code == 0
    assert "tool.raises" in found.out
    assert "0.06" in found.out
    as_json = json.loads(whichloop("profile", "show", "flaky-tools", "--json").out)
    assert as_json["rates"] == load_profile("flaky-tools").rates
    assert as_json["digest"] == load_profile("flaky-tools").digest


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fit", "nope"], "no run 'nope'"),
        (["fit", "latest", "--arm", "finish"], "'finish' is no arm; this run has bare/flaky-format"),
        (["fit", "latest", "--profile", "clean"], "no such arm"),
        (["fit", "latest", "--model", "openai/x"], "no such arm"),
        (["fit", "latest", "--alpha", "2"], "alpha: must lie between 0 and 1"),
        (["fit", "latest", "--name", "A B"], "name"),
        (["fit", "latest", "--out", "mine.json"], "ends in .toml"),
        (
            ["fit", "latest", "--out", "/dev/null/mine.toml"],
            "--out /dev/null/mine.toml: cannot be written (",
        ),
        (["show", "nope"], "unknown profile 'nope'"),
        (["show", "nope.toml"], "nope.toml"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing_behind(ran, tmp_path, arguments, said):
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    found = ran("profile", *arguments)
    assert (found.code, found.out) == (2, "")
    assert found.err.count("\n") == 1
    assert said in found.err
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before


def test_help_says_what_is_printed_and_what_is_written(whichloop):
    said = " ".join(whichloop("profile", "fit", "--help").out.split())
    assert "print the table only" in said


def test_the_check_stands_in_table_file_json_and_show(ran):
    fitted = ran("profile", "fit", "latest", "--out", "mine.toml", "--json").json
    check = fitted["check"]
    assert (check["tasks"], check["problem"], check["off"]) == (6, "", False)
    assert [gap["measure"] for gap in check["gaps"]] == ["calls", "accuracy", "errors"]
    shown = ran("profile", "show", "mine.toml", "--json").json["checked"]
    assert [line.split(":")[0] for line in shown[1:]] == ["bare, calls", "bare, accuracy", "bare, errors"]
    assert shown[1] in ran("profile", "show", "mine.toml").out
    unchecked = ran("profile", "fit", "latest", "--no-check", "--out", "other.toml", "--json").json
    assert unchecked == fitted | {"check": None, "profile": unchecked["profile"]}
    assert "Checked" not in Path("other.toml").read_text()


def test_verbose_adds_the_kinds_at_0_and_all_values_with_their_counts(ran):
    short, whole = (ran("profile", "fit", "latest", "--no-check", *more).out for more in ([], ["-v"]))
    for kind in FAULT_KINDS:
        assert kind in whole
    assert "tool.lies" not in short
    assert "retried" in whole
    assert "retried" not in short
