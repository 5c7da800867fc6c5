"""`compare` and `report`, end to end: results on stdout and all else on stderr, pages, several runs, sizes and cards."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import pty
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kept import put, rows
from tests.models.real.provider import SECRET, completion, serving
from tests.prepared import start_command
from whichloop.cli import running
from whichloop.experiments.card.card import IN_TEXT, NATIVELY, NOT_SHOWN, wire_uses
from whichloop.experiments.compare.results import results
from whichloop.models.scripted_calls import NATIVE
from whichloop.protocol import Message, Request, Role, ToolSpec
from whichloop.runs.manifest import read_manifest, write_manifest

SIX = ["--loop", "bare", "--suite", "arithmetic(size=6)", "--profile", "clean"]


def test_compare_prints_results_to_stdout_and_all_else_to_stderr(machine, here):
    found = machine.run("compare", *SIX, "--json")
    assert found.code == 0
    assert found.out.count("\n") == 1
    made = json.loads(found.out)
    run = machine.only_run()
    assert made["run"] == str(run.resolve())
    assert made["arms"][0]["accuracy"]["value"] == 1.0
    assert re.search(r"^progress: \d+ s \| trials 6/6, .* \| bare/clean 6/6, accuracy 1.000$", found.err, re.MULTILINE)
    assert f"run directory: runs/{run.name}" in found.err
    assert sorted(path.name for path in here.iterdir()) == ["runs"]  # no cache, no MLflow store
    assert sorted(path.name for path in run.iterdir()) == ["manifest.json", "report.html", "run.lock", "trials.sqlite"]


def test_on_a_terminal_progress_is_a_live_view_that_leaves_nothing_behind(machine, here):
    shown, terminal = pty.openpty()
    command = ["compare", *SIX, "--json"]
    with start_command(command, here, machine.environment(TERM="xterm"), stderr=terminal, text=False) as child:
        os.close(terminal)
        seen = b""
        with contextlib.suppress(OSError):  # Linux: the other end was closed
            while piece := os.read(shown, 65_536):
                seen += piece
        os.close(shown)
        assert child.stdout is not None
        assert json.loads(child.stdout.read())["complete"] is True
    assert child.returncode == 0, seen
    assert b"6/6" in seen
    assert re.search(rb"bare/clean .*6/6.*accuracy 1\.000", seen)
    left = seen.rpartition(b"\x1b[2K")[2].splitlines()
    assert [line.partition(b": ")[0] for line in left] == [b"run directory", b"page, once this command has ended"]


def test_report_says_the_same_as_compare_in_every_form(machine, whichloop):
    compared = whichloop("compare", *SIX, "--profile", "flaky-tools", "--json")
    assert compared.code == 0
    assert json.loads(whichloop("report", "latest", "--json").out) == json.loads(compared.out)
    run = machine.only_run()
    assert whichloop("report", str(run), "--json").out == whichloop("report", run.name, "--json").out == compared.out
    rows = list(csv.DictReader(io.StringIO(whichloop("report", "latest", "--format", "csv").out)))
    assert [row["arm"] for row in rows] == ["bare/clean", "bare/flaky-tools"]
    report, tables = whichloop("report", "latest"), whichloop("report", "latest", "-v")
    title, *answer = report.out.splitlines()
    assert whichloop("report", "latest", "--format", "md").out.startswith(f"## {title}\n\n| loop | clean | flaky-tools | steps |")
    assert whichloop("resume", "latest", "-q").out == report.out
    assert "\n".join(answer) in tables.out
    assert "\nArms\n" in tables.out
    assert "Arms" not in report.out
    assert (report.err, report.code) == ("", 0)


def test_a_plain_comparison_meets_both_stress_profiles_and_ends_in_a_verdict(whichloop, here):
    found = whichloop("compare", "-q", "--tasks", "3")
    assert found.code == 0
    labels = [line.split()[0] for line in found.out.splitlines()]
    assert {"Adopt", "Tie", "Depends", "Undecided"} & set(labels)
    assert re.search(r"^Basis +scripted model, stress rates$", found.out, re.MULTILINE)
    made = whichloop("report", "latest", "--json").json
    assert made["answer"]["columns"] == ["flaky-format", "flaky-tools"]
    assert len(made["answer"]["rows"]) == 5


def test_a_real_model_is_asked_without_faults_where_no_profile_is_named(whichloop, here, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with serving(lambda asked: completion(json.dumps({"final_answer": "42"}))) as server:
        model = ("--model", "openai/some", "-s", f"base_url={server.url}")
        asked = (*model, "--loop", "bare", "--loop", "react_extract", "--tasks", "2")
        found = whichloop("compare", *asked, "-q")
    assert (found.code, len(server.seen) >= 4) == (0, True), found.err
    made = whichloop("report", "latest", "--json").json
    assert {(arm["model"], arm["profile"]) for arm in made["arms"]} == {("openai/some", "clean")}
    assert re.search(r"^Basis +openai/some, 2 tasks$", found.out, re.MULTILINE)
    assert "seconds" in found.out.splitlines()[1]


def test_quiet_is_quiet_and_flags_win_over_a_file(whichloop, here):
    (here / "run.toml").write_text(
        'loops = ["bare", "bare(check_types=true)"]\nprofiles = ["clean"]\n'
        'suite = "arithmetic(size=9)"\nmlflow = false\nruns = "elsewhere"\nseed = 4\n'
    )
    found = whichloop("compare", "--config", "run.toml", "--tasks", "2", "--seed", "5", "-q", "--json")
    made = json.loads(found.out)
    assert [arm["arm"] for arm in made["arms"]] == ["bare/clean", "bare(check_types=true)/clean"]
    assert [arm["options"] for arm in made["arms"]] == [{}, {"check_types": True}]
    assert {arm["trials"] for arm in made["arms"]} == {2}
    run = f"elsewhere/{Path(made['run']).name}"
    assert found.err == ""
    assert (here / run / "report.html").is_file()
    shown = whichloop("report", "latest", "--runs", "elsewhere")
    assert "2 tasks × 1, seed 5" in shown.out


def test_show_explains_a_trial_that_failed(machine, whichloop):
    whichloop("compare", "--loop", "bare", "--profile", "stubborn", "--suite", "arithmetic(size=12)", "-q")
    failed = next(row for row in rows(machine.only_run()) if row["stop"] == "error_valve" and "wire" in row["errors"])
    brief = whichloop("show", "latest", failed["task"])
    assert brief.code == 0
    assert all(each in brief.out for each in (failed["faults"][0]["kind"], " → ", "Stop       error_valve", "parse, step "))
    found = whichloop("show", "latest", failed["task"], "-v")
    assert found.code == 0
    assert all(each in found.out for each in ("── fault", "── unreadable", "Stop       error_valve", "Expected   "))
    assert "\x1b" not in found.out
    whole = json.loads(whichloop("show", "latest", f"bare/stubborn/{failed['task']}/0", "--json").out)
    assert whole["stop"] == "error_valve"
    refused = whichloop("show", "latest", "bare/stub")
    assert (refused.code, "matches 12 trials" in refused.err) == (2, True)


def test_a_run_whose_faults_did_not_land_is_invalid(machine, whichloop):
    from whichloop.metrics.record import FaultRecord

    whichloop("compare", *SIX, "-q")
    run = machine.only_run()
    put(run, [row | {"faults": [FaultRecord("wire.empty", "decide:c1").to_json()]} for row in rows(run)])
    found = whichloop("report", "latest")
    assert (found.code, "\nInvalid " in found.out) == (4, True)


@pytest.mark.parametrize("behind", ["show", "write_report"])
def test_ctrl_c_behind_the_trials_leaves_what_resume_writes(here, whichloop, monkeypatch, behind):
    def pressed(*_: object, **__: object) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(running, behind, pressed)
        ended = whichloop("compare", *SIX, "--quiet")
    assert ended.code == 130
    assert ended.out.startswith("arithmetic (version 2), 6 tasks") is (behind == "write_report")
    (line,) = ended.err.splitlines()
    said, _, command = line.partition("; go on with: whichloop ")
    assert said == "interrupted before everything was written"
    assert whichloop(*shlex.split(command)).code == 0
    assert (here / shlex.split(command)[1] / "report.html").is_file()


TWO_LOOPS = ["-q", "--loop", "bare", "--loop", "react_extract", "--profile", "flaky-format"]


@pytest.fixture
def compared_suite(compared_once: Callable[..., Path]) -> Callable[..., Path]:
    """Compares two designs on twelve tasks of a suite, and gives the directory of the run."""

    def call(suite: str, *more: str, page: bool = False) -> Path:
        return compared_once(*TWO_LOOPS, "--suite", f"{suite}(size=12)", *more, page=page)

    return call


def test_a_page_is_written_into_the_run_unless_it_is_not_wanted(whichloop, compared_suite, here):
    run = compared_suite("arithmetic", page=True)
    page = run / "report.html"
    first = page.read_bytes()
    assert first.startswith(b"<!doctype html>")
    page.unlink()
    assert whichloop("report", "latest").err == ""
    assert not page.exists()
    assert whichloop("report", "latest", "--format", "html").err == f"page: runs/{run.name}/report.html\n"
    assert page.read_bytes() == first
    page.unlink()
    assert whichloop("report", "latest", "--format", "html", "-o", "other.html").err == "page: other.html\n"
    assert (here / "other.html").read_bytes() == first
    assert sorted(path.name for path in run.iterdir()) == ["manifest.json", "run.lock", "trials.sqlite"]


def test_several_runs_are_adjusted_together_on_one_page(whichloop, compared_suite, here):
    runs = [compared_suite("arithmetic"), compared_suite("events"), compared_suite("tables")]
    names = [run.name for run in runs]
    found = whichloop("report", *names, "--json").json
    assert [run["run"] for run in found["runs"]] == [str(run) for run in runs]
    assert [pair["column"] for pair in found["pairs"]] == [f"{suite}, flaky-format" for suite in ("arithmetic", "events", "tables")]
    assert all(pair["p"] <= pair["p_holm"] <= 3 * pair["p"] + 1e-12 for pair in found["pairs"])
    assert whichloop("report", *names, "--format", "html").err == "page: report.html\n"
    text = (here / "report.html").read_text()
    assert all(name in text for name in names)
    assert f"\n{found['answer']['outcome'].capitalize()}" in whichloop("report", *names).out
    assert whichloop("report", *names, "--format", "html", "-o", "all.html").err == "page: all.html\n"
    assert (here / "all.html").read_text() == text
    markdown = whichloop("report", *names, "--format", "md").out
    assert markdown.startswith("## 3 runs, 2 loops ")
    assert "| arithmetic, flaky-format |" in markdown


def test_an_invalid_run_makes_several_invalid(whichloop, compared_suite, here):
    whole, broken = compared_suite("arithmetic"), compared_suite("events")
    lines = rows(broken)
    for line in lines:
        for fault in line["faults"]:
            fault["landed"] = False
    put(broken, lines)
    found = whichloop("report", whole.name, broken.name)
    assert found.code == 4
    assert re.search(rf"^Invalid +{broken.name}$", found.out, re.MULTILINE)
    answer = json.loads(whichloop("report", whole.name, broken.name, "--json").out)["answer"]
    assert list(answer["best"]) == ["arithmetic, flaky-format"]


def test_a_run_is_planned_for_the_arms_that_are_named(whichloop, compared_suite):
    compared_suite("arithmetic", "--repeats", "2")
    made = whichloop("report", "--size", "--arm", "bare", "--json").json
    assert (made["loops"], made["profiles"]) == (["bare"], ["flaky-format"])
    (plan,) = made["plans"]
    assert (plan["for"], [reach["names"] for reach in plan["reach"]]) == ("gate", [["bare/flaky-format"]])
    assert "--loop bare --profile flaky-format" in whichloop("report", "--size", "--arm", "bare").out


TINY = ("-q", "--tasks", "3", "--profile", "clean", "--profile", "flaky-tools")


def test_the_values_are_those_of_the_run_and_the_check(whichloop, compared_once):
    run = results(compared_once("--loop", "finish(parse_retries=1)", "--loop", "bare", *TINY))
    card = whichloop("report", "--card", "--arm", "finish(parse_retries=1)", "--json").json
    assert card["measured_with"]["digest"] != run.digest  # of its own trials alone
    arms = [arm.to_json() for arm in run.comparison.arms if arm.info.loop == "finish"]
    assert [figures["accuracy"] for figures in card["figures"]] == [arm["accuracy"] for arm in arms]
    assert [figures["recovery"] for figures in card["figures"]] == [arm["recovery"] for arm in arms]
    assert card["agent"]["options"]["parse_retries"]["value"] == 1
    assert card["agent"]["code"] == run.manifest.arms[0].code
    assert card["limits"]["tool_steps"] == run.manifest.suite.max_tool_steps
    some = ("cut_json", "never_finishes")
    checked = whichloop("check", "program", "finish(parse_retries=1)", "--json", "--fault", some[0], "--fault", some[1]).json
    assert [one for one in card["faults"] if one["name"] in some] == checked["findings"]
    assert card["undisturbed_requests"] == checked["requests"]
    (wire,) = card["wire"]
    assert (wire["role"], wire["tools"], wire["requests"]) == ("decide", NATIVELY, checked["requests"])
    refused = whichloop("report", "--card")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "a card is of one loop: --arm finish(parse_retries=1) or bare" in refused.err


def test_a_loop_that_has_changed_since_has_no_card(whichloop, compared_once):
    run = compared_once("--loop", "bare", *TINY)
    manifest = read_manifest(run)
    arms = tuple(arm.model_copy(update={"code": "0" * 64}) for arm in manifest.arms)
    write_manifest(run, manifest.model_copy(update={"arms": arms}))
    ended = whichloop("report", "--card")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "its code has changed since this run" in ended.err


def test_how_tools_are_shown_is_read_from_the_requests():
    tool = ToolSpec("add", "Adds.", {"type": "object"})
    natively = Request((Message("user", "Add."),), (tool,), tool_choice="required", codec=NATIVE)
    text = Request((Message("system", "You work."), Message("user", "Tools: add(a, b): Adds.\n?")), role=Role.PLAN)
    named = Request((Message("system", "You work."), Message("user", "Please add 1 and 2.")), role=Role.REFLECT)
    hidden = Request((Message("user", "What is the address?"),), role=Role.ANSWER, response_schema={"type": "object"})
    uses = wire_uses((natively, natively, text, named, hidden), {"add": "Adds."})
    assert [(use["role"], use["requests"], use["tools"]) for use in uses] == [
        ("decide", 2, NATIVELY), ("plan", 1, IN_TEXT), ("reflect", 1, NOT_SHOWN), ("answer", 1, NOT_SHOWN)
    ]  # fmt: skip
    assert [(use["tool_choice"], use["response_schema"], use["messages"]) for use in uses] == [
        ("required", False, (1, 1)), ("", False, (2, 2)), ("", False, (2, 2)), ("", True, (1, 1))
    ]  # fmt: skip
    assert uses[0]["format"] == NATIVE.name
