"""`compare`, `--vary` and `report`, end to end: results on stdout and all else on stderr, in every form."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import pty
import re
import shlex
from collections import Counter
from pathlib import Path

import pytest

from tests.kept import put, rows
from tests.models.real.provider import SECRET, completion, serving
from tests.prepared import start_command
from whichloop.cli import running
from whichloop.cli.process import _OutlastingOutput

QUICK = ["--loop", "bare", "--suite", "arithmetic(size=6)", "--profile", "clean"]


def test_compare_prints_results_to_stdout_and_all_else_to_stderr(machine, here):
    found = machine.run("compare", *QUICK, "--json")
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
    command = ["compare", *QUICK, "--json"]
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
    compared = whichloop("compare", *QUICK, "--profile", "flaky-tools", "--json")
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
    whichloop("compare", "--loop", "bare", "--profile", "stubborn", "--suite", "arithmetic(size=30)", "-q")
    failed = next(row for row in rows(machine.only_run()) if row["stop"] == "error_valve" and "wire" in row["errors"])
    brief = whichloop("show", "latest", failed["task"])
    assert brief.code == 0
    for needed in (failed["faults"][0]["kind"], " → ", "Stop       error_valve", "Expected   ", "parse, step "):
        assert needed in brief.out
    found = whichloop("show", "latest", failed["task"], "-v")
    assert found.code == 0
    for needed in (failed["faults"][0]["kind"], "── fault", "── unreadable", "Stop       error_valve", "Expected   "):
        assert needed in found.out
    assert "\x1b" not in found.out
    whole = json.loads(whichloop("show", "latest", f"bare/stubborn/{failed['task']}/0", "--json").out)
    assert whole["stop"] == "error_valve"
    refused = whichloop("show", "latest", "bare/stub")
    assert (refused.code, "matches 30 trials" in refused.err) == (2, True)
    for command in (("show",), ("report", "--why")):
        refused = whichloop(*command, "bare")
        assert (refused.code, refused.err.partition(";")[0]) == (2, "error: no run 'bare'")


def test_a_run_whose_faults_did_not_land_is_invalid(machine, whichloop):
    from whichloop.metrics.record import FaultRecord

    whichloop("compare", *QUICK, "-q")
    run = machine.only_run()
    put(run, [row | {"faults": [FaultRecord("wire.empty", "decide:c1").to_json()]} for row in rows(run)])
    found = whichloop("report", "latest")
    assert (found.code, "\nInvalid " in found.out) == (4, True)


def test_show_without_a_trial_lists_those_that_were_not_solved(here, whichloop):
    designs = ("--loop", "bare", "--loop", "react_extract")
    whichloop("compare", *designs, "--profile", "flaky-format", "--tasks", "12", "-q")
    missed = whichloop("show", "latest", "--json").json["trials"]
    assert len(missed) > 0
    assert all(record["scores"]["accuracy"] < 1 for record in missed)
    head, _, *sums, command = whichloop("show", "latest").out.splitlines()
    assert head == f"{len(missed)} not solved"
    assert {line.split()[0]: int(line.split()[1]) for line in sums} == Counter(each["arm"] for each in missed)
    assert whichloop(*shlex.split(command)[2:]).code == 0
    listed = re.findall(r"^(arithmetic-\d+/0) ", whichloop("show", "latest", "-v").out, re.MULTILINE)
    assert listed == [f"{record['task']}/{record['repeat']}" for record in missed]
    of_arm = [record for record in missed if record["arm"] == "react_extract/flaky-format"]
    assert len({tokens_of(record) for record in of_arm}) > 1
    for typed in ("react_extract/flaky-format", "react_extract"):
        told = whichloop("show", "latest", typed, "--json").json["trials"]
        assert told == sorted(of_arm, key=lambda each: -tokens_of(each))


def tokens_of(record):
    """Return the tokens of a trial, from its record as JSON."""
    return record["input_tokens"] + record["output_tokens"]


@pytest.mark.parametrize("columns", [80, 140])
def test_the_answer_fits_a_terminal_and_a_narrow_one_shows_the_same_facts(whichloop, here, monkeypatch, columns):
    whichloop("compare", "--loop", "bare", "--loop", "finish", "--profile", "flaky-tools", "--tasks", "6", "-q")

    def facts(printed: str) -> Counter[str]:
        return Counter(re.findall(r"\d*\.\d+ \[[^\]]*\]", printed))

    in_a_pipe = whichloop("report", "latest").out
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = whichloop("report", "latest").out.splitlines()
    assert max(map(len, lines[1:])) <= columns
    assert len(lines) <= 12
    assert facts(" ".join(lines)) == facts(in_a_pipe)
    assert sum(facts(in_a_pipe).values()) == 2


def test_the_results_are_out_before_their_page_is_made_and_logged(here, whichloop, monkeypatch):
    """Page and log take as long as the trials: whoever reads the results, through a pipe or not, need not wait for them."""
    done: list[str] = []

    def made(*_: object, **__: object) -> str:
        done.append("page")
        return ""

    def told(_: object, text: str) -> int:
        done.append("text")
        return len(text)

    monkeypatch.setattr(_OutlastingOutput, "write", told)
    monkeypatch.setattr(_OutlastingOutput, "flush", lambda _: done.append("flushed"))
    monkeypatch.setattr(running, "write_report", made)
    monkeypatch.setattr(running, "log_results", lambda *_: done.append("logged"))
    whichloop("compare", *QUICK)
    assert "flushed" in done[done.index("text") : done.index("page")]
    assert done.index("page") < done.index("logged")


@pytest.mark.parametrize("behind", ["show", "write_report"])
def test_ctrl_c_behind_the_trials_leaves_what_resume_writes(here, whichloop, monkeypatch, behind):
    def pressed(*_: object, **__: object) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(running, behind, pressed)
        ended = whichloop("compare", *QUICK, "--quiet")
    assert ended.code == 130
    assert ended.out.startswith("arithmetic (version 2), 6 tasks") is (behind == "write_report")
    (line,) = ended.err.splitlines()
    said, _, command = line.partition("; go on with: whichloop ")
    assert said == "interrupted before everything was written"
    assert whichloop(*shlex.split(command)).code == 0
    assert (here / shlex.split(command)[1] / "report.html").is_file()


BRIEF = ["--suite", "arithmetic(size=12)", "--profile", "flaky-format", "--quiet"]
RETRIES = ["finish", "--vary", "parse_retries=0,2", "--vary", "forced_finish=both,off"]


def test_settings_effects_and_the_one_to_use_then_details_on_demand(whichloop):
    short = whichloop("compare", "--loop", *RETRIES, *BRIEF)
    assert short.code == 0
    assert "run directory: " not in short.err  # it is asked to be quiet
    labels = [line.split("  ")[0] for line in short.out.splitlines()]
    assert labels.index("setting") < labels.index("effect") < labels.index("Use") < labels.index("Basis")
    assert whichloop("report", "latest").out == short.out
    whole = whichloop("report", "latest", "-v").out
    assert short.out in whole
    assert "\nAll effects\n" in whole
    assert "### All effects" in whichloop("report", "latest", "--format", "md").out


def test_json_is_one_object_and_report_gives_it_again(whichloop, here: Path):
    said = whichloop("compare", "--loop", *RETRIES, *BRIEF, "--json").json
    assert said["ablation"]["loop"] == "finish"
    assert said["ablation"]["design"] == "full"
    assert next(iter(said["ablation"]["cells"].values())) == {"parse_retries": 0, "forced_finish": "both"}
    assert {"run", "digest", "effects", "arms", "pairs"} <= said.keys()
    assert whichloop("report", "latest", "--json").json == said
    page = next(here.glob("runs/*/report.html")).read_text("utf-8")
    assert "What each factor does" in page
