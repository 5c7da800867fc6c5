"""What `whichloop gate` writes for CI servers and programs: JUnit, summaries, annotations and JSON."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.conftest import SMALL_RUN
from tests.cli.test_gate import FLAKY, WORSE
from tests.prepared import start_command
from tests.sealing import reseal

pytestmark = pytest.mark.thorough


def test_junit_summary_and_annotations(whichloop, blessed, here, monkeypatch):
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    blessed(*FLAKY)
    ended = whichloop(*WORSE, "--junit", "out/gate.xml", "--summary", "summary.md", "--annotations")
    assert ended.code == 1
    root = ElementTree.parse(here / "out/gate.xml").getroot()
    assert root.find("testsuite/testcase/failure") is not None
    assert (here / "summary.md").read_text().startswith("## Gate: regression\n")
    assert any(line.startswith("::error title=whichloop gate%3A regression::") for line in ended.err.split("\n"))
    assert "::" not in ended.out
    whichloop(*WORSE, "--summary", "summary.md")
    assert (here / "summary.md").read_text().count("## Gate: regression\n") == 2


def test_in_github_actions_annotations_and_the_step_summary_are_written_unasked(whichloop, blessed, here, monkeypatch):
    run = blessed()
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(here / "step.md"))
    ended = whichloop("gate", run, "--baseline", "b.json", "--json")
    assert ended.json["outcome"] == "identical"
    assert "::notice title=whichloop gate%3A identical::behaviour unchanged in all 12 trials\n" in ended.err
    assert (here / "step.md").read_text().startswith("## Gate: identical\n")
    assert "::" not in whichloop("gate", run, "--baseline", "b.json", "--no-annotations").err


@pytest.mark.parametrize("workspace", [True, False])
def test_in_github_actions_an_error_in_a_loop_is_annotated_with_its_file_and_line(whichloop, blessed, here, monkeypatch, workspace):
    """The file is seen from the repository, and where nobody says where that is, from the working directory."""
    blessed("--loop", "bare")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    if workspace:
        monkeypatch.setenv("GITHUB_WORKSPACE", str(here))
    (here / "unreadable.py").write_text("def a():\n    return (\n")
    (here / "unable.py").write_text("import json\n\njson.nothing()\n")
    for module, line, said in (("unreadable", 2, "SyntaxError"), ("unable", 3, "AttributeError")):
        ended = whichloop("gate", "--baseline", "b.json", "--loop", f"{module}:Mine", "--quiet")
        assert ended.code == 2
        annotation, error = ended.err.strip().split("\n")
        assert annotation.startswith(
            f"::error file={module}.py,line={line},title=whichloop gate%3A not judged::loop '{module}:Mine': "
        )
        assert said in annotation
        assert error.startswith("error: loop ")
    other = whichloop("gate", "--baseline", "b.json", "--metric", "speed", "--quiet").err
    assert other.startswith("::error title=whichloop gate%3A not judged::unknown metric 'speed'")
    assert "::" not in whichloop("gate", "--baseline", "b.json", "--metric", "speed", "--no-annotations").err


def test_json_is_one_object(whichloop, blessed):
    run = blessed()
    made = whichloop("gate", run, "--baseline", "b.json", "--json")
    assert json.loads(made.out)["baseline"] == str(Path("b.json").resolve())
    assert made.out.count("\n") == 1


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_run(whichloop, here, monkeypatch):
    assert whichloop("compare", "--loop", "bare", *SMALL_RUN).code == 0
    assert whichloop("bless", "latest", "--output", "b.json").code == 0
    before = sorted((here / "runs").iterdir())
    ended = whichloop("gate", "--baseline", "b.json", "--junit", ".")
    assert (ended.code, ended.err) == (2, "error: --junit .: cannot be written (Is a directory); nothing was judged\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(here))
    ended = whichloop("gate", "--baseline", "b.json")
    assert ended.code == 2
    assert "--summary" in ended.err
    assert sorted((here / "runs").iterdir()) == before


@pytest.mark.parametrize("flags", [[], *(pytest.param([flag], marks=pytest.mark.slow) for flag in ("-v", "--json"))])
def test_a_reader_who_leaves_changes_neither_the_exit_code_nor_the_files(whichloop, here, flags):
    assert whichloop("compare", "--loop", "bare", *SMALL_RUN).code == 0
    assert whichloop("bless", "latest", "--output", "b.json").code == 0
    command = ["gate", "latest", "--baseline", "b.json", "--junit", "g.xml", *flags]
    reading, writing = os.pipe()
    os.close(reading)
    with start_command(command, here, dict(os.environ), stdout=writing) as ended:
        os.close(writing)
        _, said = ended.communicate()
    assert (ended.returncode, said) == (0, "")
    assert (here / "g.xml").is_file()


def test_answers_of_another_type_fail_where_that_is_asked_for(whichloop, blessed, here):
    run = blessed("--loop", "bare")
    text = (here / "b.json").read_text()
    quoted = r'"answer": \["\\"(\d+)\\""\], "outcome": \["\w+"\]'
    typed = re.sub(quoted, r'"answer": ["\1"], "outcome": ["00000000"]', text)
    assert typed != text
    (here / "b.json").write_text(typed)
    reseal(here / "b.json")
    gated = ("gate", run, "--baseline", "b.json", "--junit", "g.xml", "--annotations")
    passed = whichloop(*gated)
    assert (passed.code, passed.out.split(":")[0]) == (0, "unchanged")
    assert "differ in the type of the answer" in passed.out
    assert passed.err.startswith("::warning title=whichloop gate%3A unchanged::")
    failed = whichloop(*gated, "--on-other-answers", "fail")
    assert failed.code == 1
    assert failed.out.startswith("other answers: ")
    assert "Fix the loop, or bless the run if the other answers are meant" in failed.out
    assert failed.err.startswith("::error title=whichloop gate%3A other answers::")
    (failure,) = ElementTree.parse(here / "g.xml").iter("failure")
    assert "the same score with an answer of another type, such as bare/" in failure.attrib["message"]
    assert whichloop(*gated, "--on-other-answers", "maybe").code == 2
