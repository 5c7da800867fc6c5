"""`whichloop report`: pages beside what is printed, one run or several, and what happens where a page cannot be written."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kept import put, rows

pytestmark = pytest.mark.thorough

QUICK = ["-q", "--loop", "bare", "--loop", "react_extract", "--profile", "flaky-format"]


@pytest.fixture
def compared(compared_once: Callable[..., Path]) -> Callable[..., Path]:
    """Compares two designs on twelve tasks of a suite, and gives the directory of the run."""

    def call(suite: str, *more: str, page: bool = False) -> Path:
        return compared_once(*QUICK, "--suite", f"{suite}(size=12)", *more, page=page)

    return call


def test_a_page_is_written_into_the_run_unless_it_is_not_wanted(whichloop, compared, here):
    run = compared("arithmetic", page=True)
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


def test_a_page_that_cannot_be_written_is_a_mistake(whichloop, compared, here):
    run = compared("arithmetic")
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


def test_several_runs_are_adjusted_together_on_one_page(whichloop, compared, here):
    runs = [compared("arithmetic"), compared("events"), compared("tables")]
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


def test_what_cannot_be_read_together_is_refused(whichloop, compared, here):
    first = compared("arithmetic")
    second, third = compared("events", "-s", "alpha=0.1"), compared("events")
    for arguments, said in (
        ((first.name, first.name), "is a duplicate"),
        ((first.name, second.name), "different levels or margins"),
        ((first.name, third.name, "--format", "csv"), "--format csv: this has html, md alone"),
        ((first.name, second.name, "--why"), "RUN: one run at most, got 2"),
        ((first.name, first.name, first.name, "--size"), "RUN: two runs at most, got 3"),
        ((first.name, "--why", "--size"), "--why and --size exclude each other"),
        ((first.name, "--json", "--format", "md"), "--json and --format exclude each other"),
        ((first.name, "-o", "x.md"), "--output goes with --format"),
        ((first.name, "--why", "--format", "html"), "--format html: this has md alone"),
        ((first.name, "--arm", "bare"), "--arm goes with --why, --size or --card"),
        ((first.name, "--why", "--margin", "0.1"), "--margin goes with --size"),
        ((first.name, "--why", *3 * ("--arm", "bare")), "--arm: once or twice, got 3"),
    ):
        found = whichloop("report", *arguments)
        assert (found.code, found.out, said in found.err) == (2, "", True), found
    assert not (here / "report.html").exists()


def test_an_invalid_run_makes_several_invalid(whichloop, compared, here):
    whole, broken = compared("arithmetic"), compared("events")
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


@pytest.mark.slow
@pytest.mark.thorough
def test_an_optimization_has_a_page_of_its_own(whichloop, compared, here):
    made = whichloop(
        *(
            "optimize",
            "--loop",
            "bare",
            "--budget",
            "40calls",
            "--profile",
            "teachable",
            "--train",
            "4",
            "--dev",
            "4",
            "--tasks",
            "6",
        ),
        *("-q", "--json", "-s", "name=the first try"),
    ).json
    run = Path(made["run"])
    first = (run / "report.html").read_text()
    found = whichloop("report", "latest", "--format", "html")
    assert found.err == f"page: runs/{run.name}/report.html\n"
    text = (run / "report.html").read_text()
    assert text == first
    assert "<h1>the first try</h1>" in text
    assert "bare, optimized with BootstrapFewShot · arithmetic · teachable" in text
    assert "Ranking before and after" in text
    assert "<h2>Test</h2>" in text
    other = compared("arithmetic", "--runs", "elsewhere")
    test = whichloop("report", f"{run.name}/test", "--format", "html")
    assert test.err == f"page: runs/{run.name}/test/report.html\n"
    assert "<h1>Test: bare" in (run / "test" / "report.html").read_text()
    refused = whichloop("report", str(run), str(other))
    assert (refused.code, "is an optimization; compare its test with other runs" in refused.err) == (2, True)


def test_a_path_below_the_last_run_is_taken(whichloop, compared, here):
    run = compared("arithmetic")
    (run / "copy").mkdir()
    for name in ("manifest.json", "trials.sqlite"):
        (run / "copy" / name).write_bytes((run / name).read_bytes())
    assert whichloop("report", "latest/copy", "--format", "html").err == f"page: runs/{run.name}/copy/report.html\n"
    missing = whichloop("report", "latest/test")
    assert (missing.code, missing.err.count("\n")) == (2, 1)
    assert missing.err.startswith("error: no run 'latest/test'")


def test_a_run_is_called_as_it_was_named(whichloop, compared, here):
    run = compared("arithmetic", "-s", "name=before <b>the</b> rewrite", page=True)
    text = (run / "report.html").read_text()
    assert "<h1>before &lt;b&gt;the&lt;/b&gt; rewrite</h1>" in text
    assert re.search(r"(bare vs react_extract|react_extract vs bare) · arithmetic · flaky-format · ", text)
    for name, said in (("", "one line of 1 to 200"), ("a\nb", "one line of 1 to 200"), ("x" * 201, "one line of 1 to 200")):
        refused = whichloop("compare", *QUICK, "-s", f"name={name}")
        assert (refused.code, refused.err.startswith("error: -s name: it must be "), said in refused.err) == (2, True, True)


# --- traces ---


def test_a_trace_that_was_not_kept_is_said_not_to_have_been(whichloop, compared):
    run = compared("arithmetic", "-s", "traces=failures")
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


@pytest.mark.slow
def test_one_trial_is_shown_without_loading_what_is_slow(whichloop, compared, here):
    run = compared("arithmetic")
    code = (
        "import sys; from whichloop.cli.main import app\n"
        f"app(['show', {str(run)!r}, 'bare/flaky-format/arithmetic-0001/0'], standalone_mode=False)\n"
        "assert not {'dspy', 'mlflow', 'pandas'} & set(sys.modules), 'loaded'"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=here, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
