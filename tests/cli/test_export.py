"""`whichloop export`: what it writes is read back, and what is wrong is said in a line."""

from __future__ import annotations

import json
import shlex

import pytest

pytestmark = pytest.mark.thorough


def test_a_run_is_exported_and_read_back(whichloop, here):
    whichloop("compare", "--loop", "bare", "--suite", "arithmetic(size=2)", "--profile", "flaky-tools")
    accuracy = whichloop("report", "latest", "--json").json["arms"][0]["accuracy"]
    for name, out in (("atif", "a"), ("otlp", "b.jsonl"), ("otlp", "c d.log"), ("otlp", "e"), ("otlp", "f.csv")):
        written = whichloop("export", "latest", "--format", name, "--output", out, "--runs", "runs")
        assert (written.code, written.out) == (0, "")
        said, _, command = written.err.strip().partition("; read them back: whichloop ")
        assert said == f"wrote 2 trials to {out}"
        back = whichloop(*shlex.split(command), "--runs", f"back {out}", "--name", "back", "--json").json
        assert back["arms"][0]["accuracy"] == accuracy


def test_errors_are_one_line_and_leave_nothing(whichloop, here):
    whichloop("compare", "--loop", "bare", "--suite", "arithmetic(size=2)", "-s", "traces=none")
    (here / "there").mkdir()
    for arguments, said in (
        (["--format", "xml"], "--format xml: there are atif, otlp"),
        (["--output", "there"], "--output there: exists already; take another name"),
        ([], "keeps no trace of any trial, so there is nothing to export"),
    ):
        ended = whichloop("export", "latest", *arguments)
        assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1), arguments
        assert said in ended.err
    refused = whichloop("compare", "--loop", "bare", "--suite", "arithmetic(size=2)", "-s", "otlp=nowhere")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert sorted(path.name for path in here.iterdir()) == ["runs", "there"]
    assert len(list((here / "runs").iterdir())) == 1


def test_records_and_traces_are_written_as_lines(whichloop, here):
    whichloop("compare", "--loop", "bare", "--tasks", "3", "--profile", "clean", "-s", "traces=sample=2", "-q")
    ended = whichloop("export", "--format", "jsonl", "-o", "out.jsonl")
    assert (ended.code, ended.err) == (0, "wrote 3 trials to out.jsonl\n")
    lines = [json.loads(line) for line in (here / "out.jsonl").read_text().splitlines()]
    assert [line["record"]["status"] for line in lines] == ["scored"] * 3
    assert [line["trace"] is None for line in lines].count(True) == 1
    assert all(line["trace"]["task"] == line["record"]["task"] for line in lines if line["trace"])
