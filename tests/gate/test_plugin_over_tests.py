"""What the gates of several tests leave unknown together: a line that one test did not run, another one may have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gate.test_pytest_plugin import run
from whichloop.experiments.gate.data.line_digests import FollowedFile
from whichloop.experiments.gate.ended_run import LeftUnknown, left_by_all

LINES = st.frozensets(st.integers(1, 9), max_size=6)
FAULTS = st.frozensets(st.sampled_from([("no tool failed", "flaky-tools"), ("no provider failed", "provider-trouble")]))


@st.composite
def left(draw: st.DrawFn) -> LeftUnknown:
    """What one gate leaves unknown of one file."""
    ran = draw(LINES)
    file = FollowedFile("a.py", "/a.py", tuple(sorted(draw(LINES) - ran)), tuple(sorted(ran)))
    return LeftUnknown((file,), tuple(sorted(draw(FAULTS))))


@given(each=st.lists(left(), min_size=1, max_size=4))
def test_unknown_is_what_each_test_leaves_unknown(each):
    """The law: what any test has shown is known, in whatever order they ran; and one test alone says all that it said."""
    together = left_by_all(map(LeftUnknown.to_text, each))
    shown = {line for one in each for file in one.files for line in file.ran}
    named = {line for one in each for file in one.files for line in file.unrun}
    (file,) = together.files
    assert ({*file.unrun}, {*file.ran}) == (named - shown, shown)
    assert {*together.unseen} == frozenset.intersection(*(frozenset(one.unseen) for one in each))
    backward = left_by_all(map(LeftUnknown.to_text, reversed(each)))
    assert (backward.files, {*backward.unseen}) == (together.files, {*together.unseen})
    assert left_by_all([each[0].to_text()]) == each[0]


LOOP = """
from dataclasses import dataclass
from whichloop.loops.bare import Bare

@dataclass(frozen=True)
class Mine(Bare):
    kind: int = 0

    async def run(self, *args, **others):
        kind = self.kind{more}
        return await super().run(*args, **others)
"""
MORE = """
        if kind == 1:
            kind = 11
        if kind == 2:
            kind = 12
            kind = 13"""
NEVER = "No trial ran the changed lines 13–14 of own_of_tests.py, so nothing is known of what they do."
TESTS = """
def test_0(loop_gate):
    loop_gate("own_of_tests:Mine", suite="arithmetic(size=2)", profile="clean")

def test_1(loop_gate):
    loop_gate("own_of_tests:Mine(kind=1)", suite="arithmetic(size=2)", profile="clean")
"""


@pytest.mark.thorough
def test_a_line_that_a_test_beside_it_ran_is_no_line_that_nothing_ran(pytester, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(pytester.path))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    pytester.makepyfile(own_of_tests=LOOP.format(more=""), test_mine=TESTS)
    run(pytester, "-o", "pythonpath=.", "--loop-bless").assert_outcomes(passed=2)
    (pytester.path / "own_of_tests.py").write_text(LOOP.strip().format(more=MORE) + "\n", "utf-8")
    (pytester.path / "summary.md").unlink(missing_ok=True)
    ended = run(pytester, "-o", "pythonpath=.")
    ended.assert_outcomes(passed=2)
    assert [line for line in ended.stdout.lines if line.startswith("No trial ran")] == [NEVER]
    warnings = [line for line in ended.stdout.lines if "changed lines that no trial ran" in line]
    assert len(warnings) == 1
    assert warnings[0].startswith(
        "::warning file=own_of_tests.py,line=13,title=whichloop gate%3A changed lines that no trial ran::"
    )
    page = (pytester.path / "summary.md").read_text("utf-8")
    assert page.count("so nothing is known of what") == 1
    assert "## Gates: what no trial showed" in page
    alone = run(pytester, "-o", "pythonpath=.", "-k", "test_0")
    alone.stdout.fnmatch_lines(["No trial ran the changed lines 11 and 13–14 of own_of_tests.py, so *"])
