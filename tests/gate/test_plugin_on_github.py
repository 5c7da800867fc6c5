"""The fixture `loop_gate` as a step of GitHub Actions: annotations, the summary's file and the log."""

from __future__ import annotations

import pytest

from tests.gate.test_pytest_plugin import LOOP, baselines, blessed, run, write
from whichloop.experiments.gate.output.github import append_error

__all__ = ["baselines", "blessed"]
pytestmark = pytest.mark.thorough


def test_a_step_of_github_gets_annotations_and_a_summary(pytester, blessed, monkeypatch):
    """As by the command, so that the recipe that `init` writes shows them."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    write(pytester, more=", seed=1, on_undecided='skip'")
    ended = run(pytester, "-rs")
    ended.assert_outcomes(skipped=1)
    ended.stdout.fnmatch_lines(["::warning title=whichloop gate%3A undecided::*", "SKIPPED [[]1[]] test_mine.py:1: undecided: *"])
    assert (pytester.path / "summary.md").read_text("utf-8").startswith("## Gate: undecided\n")
    monkeypatch.delenv("GITHUB_ACTIONS")
    run(pytester).stdout.no_fnmatch_line("::*")


def test_the_log_of_a_step_says_once_why_a_test_failed(pytester, blessed, monkeypatch):
    """The annotation has it in GitHub's own form, pytest's last lines the beginning, and the summary of the session other tests."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    write(pytester, LOOP + "(parse_retries=0)")
    ended = run(pytester)
    ended.assert_outcomes(failed=1)
    shown = [line for line in ended.stdout.lines if "task lost" in line]
    assert [line.split(" ")[0] for line in shown] == ["worse", "::error", "FAILED"]
    ended.stdout.no_fnmatch_line("*loop gates*")


def test_advice_on_other_profiles_comes_once_a_session(pytester, monkeypatch):
    """The next gate of the session may have the very profile that it names."""
    call = "def test_{name}(loop_gate):\n    loop_gate({loop!r}, suite='arithmetic(size=2)', profile='clean')\n"

    def write_both(loop: str) -> None:
        pytester.makepyfile(test_mine="\n".join(call.format(name=name, loop=loop) for name in ("one", "two")))

    write_both("finish")
    run(pytester, "--loop-bless").assert_outcomes(passed=2)
    write_both("finish(parse_retries=1)")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    ended = run(pytester)
    ended.assert_outcomes(passed=2)
    assert ended.stdout.str().count("In this run no reply was made unreadable") == 1


def test_a_mistake_is_annotated_within_github_actions(pytester, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(pytester.path))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    pytester.makepyfile(own_broken="def a():\n    return (\n")
    pytester.makepyfile("def test_agent(loop_gate):\n    loop_gate('own_broken:Own', suite='arithmetic(size=2)')\n")
    ended = run(pytester, "-o", "pythonpath=.")
    ended.assert_outcomes(failed=1)
    ended.stdout.fnmatch_lines(["::error file=own_broken.py,line=2,title=whichloop gate%3A not judged::loop 'own_broken:Own': *"])
    assert (pytester.path / "summary.md").read_text("utf-8").startswith("## Gate: not judged\n\nloop 'own")


def test_no_key_and_no_control_character_of_own_code_reaches_the_log_or_the_summary(pytester, monkeypatch):
    key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    pytester.makepyfile(own_broken=f"raise RuntimeError('refused: {key} \\x1b[31m')\n")
    pytester.makepyfile(
        """
        def test_loop(loop_gate):
            loop_gate("own_broken:Own", suite="arithmetic(size=2)")

        def test_program(loop_gate):
            loop_gate(program="own_broken.py:solve", suite="arithmetic(size=2)")

        def test_agent(agent_checks):
            agent_checks("own_broken.py:solve")
        """
    )
    ended = run(pytester, "-o", "pythonpath=.")
    ended.assert_outcomes(failed=3)
    log, summary = ended.stdout.str(), (pytester.path / "summary.md").read_text("utf-8")
    assert log.count("refused: [redacted]") >= 3
    assert "refused" in summary
    assert key not in log + summary
    assert "\x1b[31m" not in log + summary


def test_a_refusal_in_the_summary_has_its_cures_in_lines_of_their_own(tmp_path):
    append_error(tmp_path / "summary.md", "4 tasks removed\n  judge by the 20 that are the same\n  to bless: pytest --loop-bless")
    assert (tmp_path / "summary.md").read_text("utf-8") == (
        "## Gate: not judged\n\n4 tasks removed\n\n- judge by the 20 that are the same\n- to bless: pytest --loop-bless\n"
    )


def test_a_baseline_that_is_not_there_is_shown_wherever_a_server_looks(pytester, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    write(pytester)
    ended = run(pytester)
    ended.assert_outcomes(failed=1)
    said = "no baseline baselines/test_mine.test_agent.json; write it with: pytest --loop-bless test_mine.py::test_agent"
    ended.stdout.fnmatch_lines([said, f"::error title=whichloop gate%3A not judged::{said}"])
    assert "write it with: pytest" in (pytester.path / "summary.md").read_text("utf-8")


def test_a_summary_that_cannot_be_written_hides_no_mistake(pytester, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path))
    write(pytester)
    ended = run(pytester)
    ended.assert_outcomes(failed=1)
    ended.stdout.fnmatch_lines(["no baseline *"])
