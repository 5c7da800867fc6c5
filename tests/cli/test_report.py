"""`report`: pages beside what is printed, one run or several, the size of a run, and the card of a loop."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kept import put, rows
from whichloop.checks.program import FAULTS
from whichloop.experiments.card.card import IN_TEXT, NATIVELY, NOT_SHOWN, wire_uses
from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.run import prepare, run
from whichloop.models.scripted_calls import NATIVE
from whichloop.protocol import Message, Request, Role, ToolSpec
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.manifest import read_manifest, write_manifest

QUICK = ["-q", "--loop", "bare", "--loop", "react_extract", "--profile", "flaky-format"]


@pytest.fixture
def compared_suite(compared_once: Callable[..., Path]) -> Callable[..., Path]:
    """Compares two designs on twelve tasks of a suite, and gives the directory of the run."""

    def call(suite: str, *more: str, page: bool = False) -> Path:
        return compared_once(*QUICK, "--suite", f"{suite}(size=12)", *more, page=page)

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


def test_a_page_that_cannot_be_written_is_a_mistake(whichloop, compared_suite, here):
    run = compared_suite("arithmetic")
    (run / "report.html").unlink()
    (run / "report.html.part").mkdir()  # where the page is written first: no permission stops root
    found = whichloop("report", "latest", "--format", "html")
    assert (found.code, found.out, found.err.count("\n")) == (2, "", 1)
    assert f"runs/{run.name}/report.html.part" in found.err
    typed = whichloop("report", "latest", "--format", "html", "-o", "nowhere/page.html")
    assert (typed.code, typed.err) == (0, "page: nowhere/page.html\n")
    refused = whichloop("report", "latest", "--format", "html", "-o", "/dev/null/page.html")
    said = "error: --output /dev/null/page.html: cannot be written (File exists); nothing was read\n"
    assert (refused.code, refused.err) == (2, said)


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


def test_a_run_is_called_as_it_was_named(whichloop, compared_suite, here):
    run = compared_suite("arithmetic", "-s", "name=before <b>the</b> rewrite", page=True)
    text = (run / "report.html").read_text()
    assert "<h1>before &lt;b&gt;the&lt;/b&gt; rewrite</h1>" in text
    assert re.search(r"(bare vs react_extract|react_extract vs bare) · arithmetic · flaky-format · ", text)
    for name, said in (("", "one line of 1 to 200"), ("a\nb", "one line of 1 to 200"), ("x" * 201, "one line of 1 to 200")):
        refused = whichloop("compare", *QUICK, "-s", f"name={name}")
        assert (refused.code, refused.err.startswith("error: -s name: it must be "), said in refused.err) == (2, True, True)


def test_a_trace_that_was_not_kept_is_said_not_to_have_been(whichloop, compared_suite):
    run = compared_suite("arithmetic", "-s", "traces=failures")
    trials = [f"{arm}/flaky-format/arithmetic-{number:04d}/0" for arm in ("bare", "react_extract") for number in range(1, 13)]
    missed = ["{arm}/{task}/{repeat}".format_map(each) for each in whichloop("show", "latest", "--json").json["trials"]]
    assert 0 < len(missed) < 24
    for trial in trials:
        shown = whichloop("show", "latest", trial)
        if trial in missed:
            assert (shown.code, shown.err) == (0, "")
        else:
            said = "(traces=failures; scored 1; finished)"
            assert (shown.code, shown.err) == (2, f"error: runs/{run.name}: trial {trial} has no trace {said}\n")
    assert re.search(r"^lost +\d+ of 12 ", whichloop("report", "--why", "latest", "-v").out, re.MULTILINE)


QUIET = ("--quiet",)


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a comparison of two designs under faults, each task twice; made once."""
    folder: Path = tmp_path_factory.mktemp("pilot") / "runs"
    asked: dict[str, Any] = {"loops": ("bare", "react_extract"), "profiles": ("flaky-format",), "suite": "arithmetic(size=20)"}
    made = prepare(CompareConfig(**asked, repeats=2, mlflow=False, runs=folder))
    assert run(made, Unwatched()) == ""
    return made.folder


@pytest.fixture
def pilot(whichloop: Any, here: Path, compared: Path) -> Path:
    """A copy of that comparison, which is the latest run here."""
    shutil.copytree(compared, here / "runs" / compared.name)
    return here / "runs" / compared.name


def test_the_answer_comes_alone_or_above_its_details(whichloop, pilot):
    short = whichloop("report", "--size", "latest", "--margin", "0.1")
    ended = whichloop("report", "--size", "latest", "--margin", "0.1", "-v")
    assert (ended.code, ended.err, short.code) == (0, "", 0)
    assert ended.out.startswith(short.out.rstrip("\n"))
    assert "How much two runs of one loop" in ended.out[len(short.out) :]
    lines = [line.split() for line in short.out.splitlines()]
    assert ["Compare", "--repeats", "--suite"] in [[line[0], *(word for word in line if word.startswith("--"))] for line in lines]
    assert {("compare", "±", "0.100"), ("gate", "±", "0.100")} <= {tuple(line[:3]) for line in lines}


def test_a_run_is_planned_for_the_arms_that_are_named(whichloop, pilot):
    made = whichloop("report", "--size", "--arm", "bare", "--json").json
    assert (made["loops"], made["profiles"]) == (["bare"], ["flaky-format"])
    assert [noise["arm"] for noise in made["noise"]] == ["bare/flaky-format"]
    assert "--loop bare --profile flaky-format" in whichloop("report", "--size", "--arm", "bare").out


def test_a_run_on_one_split_is_planned_on_that_split(whichloop):
    made = whichloop(
        "compare", "--loop", "bare", "--loop", "react_extract", "--profile", "flaky-format", "--suite", "arithmetic(size=60)",
        "-s", "split=test", "--repeats", "2", "--json", *QUIET,
    )  # fmt: skip
    ended = whichloop("report", "--size", made.json["run"], "--margin", "0.2")
    assert " -s split=test " in next(line for line in ended.out.splitlines() if line.startswith("Compare"))
    assert whichloop("report", "--size", made.json["run"], "--json").json["suite"]["split"] == "test"


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


def test_the_page_has_all_and_the_terminal_what_is_lost(whichloop, compared_once, here):
    compared_once("--loop", "bare", *TINY)
    ended = whichloop("report", "--card", "--format", "md", "-o", "bare.md")
    assert (ended.out, ended.err) == ("", "wrote bare.md\n")
    page = (here / "bare.md").read_text()
    shown = whichloop("report", "--card").out
    for fault in FAULTS:
        assert page.count(f"| {fault.name.replace('_', chr(92) + '_')} |") == 1
    assert page.startswith("## Harness card: bare\n")
    for part in (IN_TEXT, "| max\\_consecutive\\_errors | 3 |", "| retention | 1.000 ", "| seed | 0 |"):
        assert part in page
        assert part not in shown
    assert "accuracy" in shown
    assert "tool_hangs" in shown


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
    assert [(use.role, use.requests, use.tools) for use in uses] == [
        ("decide", 2, NATIVELY), ("plan", 1, IN_TEXT), ("reflect", 1, NOT_SHOWN), ("answer", 1, NOT_SHOWN)
    ]  # fmt: skip
    assert [(use.tool_choice, use.response_schema, use.messages) for use in uses] == [
        ("required", False, (1, 1)), ("", False, (2, 2)), ("", False, (2, 2)), ("", True, (1, 1))
    ]  # fmt: skip
    assert uses[0].format == NATIVE.name
