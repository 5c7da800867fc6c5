"""What a CI server is given, where names, answers and errors are whatever a model or a file gave: no text leaves its place."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tests.experiments.gate.conftest import ALL, changed, failing, hanging, of, of_other_code
from whichloop.experiments.gate import GateResult, Reason, gate_doc, judge
from whichloop.experiments.gate.ci import LEVELS, annotation, error_junit, error_summary, literal, to_junit, to_summary
from whichloop.text.doc import to_terminal

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202e\ud800-\udfff]")

HOSTILE = [
    "::error title=forged::all is well",
    " ::set-output name=x::y",
    "a\n::warning::b",
    "x\r\n::add-mask::y",
    "##[error]forged",
    "x ##vso[task.complete]y",
    "100%, 50: %0A%0D",
    "]]></failure><failure/>&lt;",
    "\x00\x1b[31m\x08\ufffe\ud800\x85\u2028",
    "| a | b |\n|---|\n# head <img src=x onerror=alert(1)> `code` [a](javascript:b)",
]

WORDS = st.sampled_from(HOSTILE) | st.text(max_size=20)


@pytest.fixture(scope="module")
def judgement(wind, baseline) -> Callable[[list[str]], GateResult]:
    """Gives one with a crash, a lost and a dear task, and other answers, in which others wrote these texts."""
    found = changed(wind, of(ALL[:1], stop="crashed", reason="KeyError", scores={"accuracy": 0.0}))
    found = changed(changed(found, of(ALL[1:2], answer="so")), of(ALL[2:4], arm="finish/clean", input_tokens=99_000))
    judged = judge(found, of_other_code(baseline), path=Path("b.json"))
    return lambda words: told_by(judged, words)


def told_by(judged: GateResult, words: list[str]) -> GateResult:
    draw = iter(words * 99)
    arms = {line.arm: next(draw) for line in judged.lines}

    def numbers(reason: Reason) -> dict[str, Any]:
        return {name: next(draw) if isinstance(value, str) else value for name, value in reason.numbers.items()}

    return replace(
        judged,
        reasons=tuple(replace(each, arm=arms.get(each.arm, ""), numbers=numbers(each)) for each in judged.reasons),
        lines=tuple(replace(each, arm=arms[each.arm]) for each in judged.lines),
        tasks=tuple(
            replace(task, task=next(draw), now_stop=next(draw), detail=next(draw), command=next(draw)) for task in judged.tasks
        ),
        worst=tuple({**each, "trial": next(draw)} for each in judged.worst),
        changed={"loop": [next(draw)], "files": [next(draw)]},
        not_judged=(next(draw),),
        unrun={next(draw): ["3"]},
        commit=next(draw),
    )


def no_command(text: str) -> None:
    """GitHub's runner strips white space before it looks for `::`, and finds `##[` anywhere."""
    assert not CONTROL.search(text)
    for line in text.split("\n"):
        assert not line.strip().startswith("::")
        assert "##[" not in line
        assert "##vso[" not in line


@given(st.lists(WORDS, min_size=3, max_size=8))
def test_no_text_acts_wherever_it_is_shown(judgement, words):
    judged = judgement(words)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GITHUB_ACTIONS", "true")
        patch.delenv("GITHUB_WORKSPACE", raising=False)
        commands = annotation(judged)
    terminal = io.StringIO()
    to_terminal(gate_doc(judged), Console(file=terminal, color_system=None), detail=True)
    assert not CONTROL.search(terminal.getvalue())
    no_command(literal(str(gate_doc(judged))))
    command = re.fullmatch(r"::error (?:file=[^:,\n]*,line=3,)?title=([^:,\n\r]*)::([^\n\r]*)", commands)
    assert command is not None
    assert not CONTROL.search(commands)
    assert not re.search(r"%(?!25|0A|0D|3A|2C)", command[1] + command[2])
    junit = to_junit(judged)
    root = ElementTree.fromstring(junit)
    no_command("\n".join(root.itertext()))
    for node in root.iter("testcase"):
        no_command("\n".join(result.attrib["message"] for result in node))
    no_command("\n".join(ElementTree.fromstring(error_junit(words[0])).itertext()))
    assert not re.search(r"(?<!\\)[<>]", error_summary(words[0]))
    page = to_summary(judged)
    assert not CONTROL.search(page)
    assert not re.search(r"(?<!\\)[<>]", page)
    assert not re.search(r"(?<!\\)\]\(", page)
    for rows in ([row for row in block.split("\n") if row.startswith("|")] for block in page.split("\n\n| ")[1:]):
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1, "a table keeps its columns"
    assert sum(line.startswith("#") for line in page.split("\n")) == 2, "titles of the page and of its detail"


CASES = {
    "pass": (lambda record: record, {}),
    "regression": (failing(*ALL[:10]), {"failure": 1}),
    "undecided": (failing(ALL[0]), {"skipped": 1}),
    "invalid": (of(ALL[:1], status="errored"), {"error": 1}),
}


@pytest.mark.parametrize("outcome", CASES)
def test_junit_has_a_case_for_each_metric_and_counts_that_fit_and_github_one_annotation(wind, baseline, outcome, monkeypatch):
    change, kinds = CASES[outcome]
    judged = judge(changed(wind, change), baseline)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    assert (judged.outcome, annotation(judged)) == (outcome, "")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert annotation(judged).startswith(f"::{LEVELS[outcome]} title=whichloop gate%3A {outcome}")
    root = ElementTree.fromstring(to_junit(judged))
    found = {kind: len(root.findall(f".//{kind}")) for kind in ("failure", "skipped", "error")}
    assert found == {"failure": 0, "skipped": 0, "error": 0} | kinds
    for suite in root.findall("testsuite"):
        cases = suite.findall("testcase")
        assert int(suite.attrib["tests"]) == len(cases)
        for kind, counted in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert int(suite.attrib[counted]) == sum(case.find(kind) is not None for case in cases)
    named = {(case.attrib["classname"], case.attrib["name"]) for case in root.iter("testcase")}
    assert {(line.arm, line.metric) for line in judged.lines} <= named
    for result in (node for case in root.iter("testcase") for node in case):
        assert result.attrib["message"].startswith(f"{outcome}: ")
        assert judged.reasons[0].text in str(result.text)


def test_a_crash_or_hang_is_annotated_at_its_line_as_seen_from_the_repository_else_lines_that_no_trial_ran(
    wind, baseline, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    Path("my_loop.py").touch()
    crashes = (of(ALL[:1], stop="crashed", reason=f"KeyError: '{more}' at my_loop.py:14") for more in ("", "x" * 400))
    for change in (*crashes, hanging(ALL[0])):
        told = annotation(judge(changed(wind, change), baseline))
        assert told.startswith("::error file=my_loop.py,line=14,title=whichloop gate%3A regression")
    told = annotation(replace(judge(wind, baseline), unrun={"my_loop.py": ["41–43", "50"]}))
    assert told.startswith("::notice file=my_loop.py,line=41,title=")
    was = baseline.model_copy(update={"commit": "c0ffee" * 6})
    page = to_summary(judge(changed(wind, failing(*ALL[:10])), was, path=tmp_path / "gates" / "b.json"))
    assert page.startswith("## regression: ")
    assert "- **Baseline** gates/b.json, 0 days old, commit c0ffeec0ffee" in page
