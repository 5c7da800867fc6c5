"""The fixture `whichloop_gate` in a team's own tests, each run by a pytest of its own."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from whichloop.experiments.gate import read_baseline

# pytester forgets what an inner pytest imports, and numpy cannot be imported twice: so all of it is there before
for each in (
    "checks.shared.pytest_items",
    "checks.suite.check",
    "datasets.arithmetic",
    "experiments.compare.run",
    "experiments.gate.in_tests",
    "frameworks",
    "loops.bare",
    "loops.finish",
    "metrics.scorers",
    "programs.program",
):
    importlib.import_module(f"whichloop.{each}")

pytestmark = pytest.mark.thorough
ALONE = ("-p", "whichloop.pytest_plugin", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
"""No plugin but ours: the others take longer to load than most tests here. It is imported before a pytest could rewrite it."""
CALL = "'finish', suite='arithmetic', profile='flaky-format', tasks=12"
BLESS = "python -m pytest --loop-bless test_mine.py::test_0"
FILE = "baselines/test_mine.test_0.json"


def write(pytester: pytest.Pytester, *calls: str, head: str = "") -> None:
    """Write a test for each call of the gate."""
    tests = [f"def test_{n}(whichloop_gate):\n    whichloop_gate({call})\n" for n, call in enumerate(calls or [CALL])]
    pytester.makepyfile(test_mine="\n".join([head, *tests]))


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        return pytester.runpytest_inprocess(*ALONE, *arguments)


@pytest.fixture(scope="module")
def kept() -> list[bytes]:
    """The baseline of `test_mine`, once a test has blessed it."""
    return []


@pytest.fixture
def blessed(pytester: pytest.Pytester, kept: list[bytes]) -> Path:
    """The baseline of `test_mine`, made once for all tests that read it."""
    write(pytester)
    path = pytester.path / FILE
    if kept:
        path.parent.mkdir()
        path.write_bytes(kept[0])
    else:
        ended = run(pytester, "--loop-bless")
        ended.assert_outcomes(passed=1)
        ended.stdout.fnmatch_lines([f"test_mine.py::test_0: blessed *{FILE}"])
        kept.append(path.read_bytes())
    return path


# --- judging ---


def test_equal_behaviour_passes_and_a_changed_loop_fails_with_the_document_and_the_command_that_blesses(pytester, blessed):
    ended = run(pytester)
    ended.assert_outcomes(passed=1)
    ended.stdout.fnmatch_lines(["*loop gates*", "test_mine.py::test_0: pass: identical"])
    write(pytester, CALL.replace("finish", "finish(parse_retries=0)"))
    ended = run(pytester, "--loop-runs", "kept")
    ended.assert_outcomes(failed=1)
    ended.stdout.fnmatch_lines(["regression: * tasks lost, none gained: *", "Example *", "Show *whichloop show *kept*"])
    assert "Traceback" not in ended.stdout.str()
    assert len(list((pytester.path / "kept").iterdir())) == 1


def test_without_a_baseline_the_test_fails_and_says_how_to_write_one(pytester):
    write(pytester)
    ended = run(pytester)
    ended.assert_outcomes(failed=1)
    ended.stdout.fnmatch_lines([f"whichloop_gate: *{FILE}: no such file; {BLESS} writes one"])
    assert not (pytester.path / "baselines").exists()


def test_margins_and_accepted_reasons_of_a_call_stand_beside_those_of_the_baseline(pytester, blessed):
    """A dozen tasks show no difference between fault draws of two seeds."""
    other = f"{CALL}, seed=8, baseline={str(blessed)!r}"
    wide = "metrics={'accuracy': 0.9, 'tokens': 9}"
    write(pytester, other, f"{other}, accept=['undecided']", f"{other}, accept=['undecided'], {wide}", f"{other}, accept=['worse']")
    ended = run(pytester, "-v")
    ended.assert_outcomes(failed=3, passed=1)
    ended.stdout.fnmatch_lines(["*::test_0 FAILED*", "*::test_1 FAILED*", "*::test_2 PASSED*", "*::test_3 FAILED*"])
    ended.stdout.fnmatch_lines(["*_ test_3 _*", "whichloop_gate: accept.0: Input should be 'undecided', *"])


def test_a_call_that_names_a_baseline_alone_takes_all_from_it_and_the_project(pytester):
    """Code of one's own runs where pyproject.toml names it, and data, tools and baseline are found from pytest's root folder."""
    pytester.makepyfile(
        my_loop="from whichloop.loops.bare import Bare as Mine\n",
        my_tools='def price(item: str) -> float:\n    """The price."""\n    return 2.0\n\nTOOLS = [price]\n',
    )
    plan = {"calls": [{"id": "p", "tool": "price", "arguments": {"item": "tea"}, "goal": "g"}], "answer": {"$ref": "p"}}
    rows = [{"id": f"t{n}", "question": f"What is it, {n}?", "answer": 2.0, "plan": plan} for n in range(3)]
    (pytester.path / "data").mkdir()
    (pytester.path / "data" / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    named = "'my_loop:Mine', suite='jsonl', data='data/rows.jsonl', tools='my_tools', profile='clean', baseline='kept/b.json'"
    write(pytester, named)
    (pytester.path / "elsewhere").mkdir()
    (pytester.path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    rooted = ("--rootdir", str(pytester.path), "-c", str(pytester.path / "pytest.ini"), str(pytester.path / "test_mine.py"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(pytester.path / "elsewhere")
        run(pytester, *rooted, "--loop-bless").assert_outcomes(passed=1)
        write(pytester, "baseline='kept/b.json'")
        refused = run(pytester, *rooted)
        refused.assert_outcomes(failed=1)
        refused.stdout.fnmatch_lines(["whichloop_gate: kept/b.json: this run uses my_loop:Mine, my_tools, code of your own; *"])
        (pytester.path / "pyproject.toml").write_text('[tool.whichloop]\nloop = ["my_loop:Mine"]\nallow = ["my_tools"]\n')
        run(pytester, *rooted).stdout.fnmatch_lines(["*: pass: identical"])
        path = pytester.path / "kept" / "b.json"
        path.write_text(path.read_text().replace('"accuracy": 0.02', '"accuracy": 0.5'))
        run(pytester, *rooted, "--loop-bless").assert_outcomes(passed=1)
    assert read_baseline(path).gate.metrics["accuracy"] == 0.5, "to bless anew keeps the settings"
    assert not list((pytester.path / "elsewhere").iterdir())


# --- calls ---

MISTAKES = {
    "'finish', suite='arithmetic', profil='clean'": "*profil: there is no such setting; did you mean*profile*",
    f"{CALL}, metrics={{'grace': 0.1}}": "unknown metric 'grace'*",
    f"{CALL}, baseline='b.txt'": "b.txt: a baseline is a file NAME.json",
}


def test_a_mistake_in_a_call_is_one_line(pytester):
    write(pytester, *MISTAKES)
    ended = run(pytester, "--loop-bless")
    ended.assert_outcomes(failed=len(MISTAKES))
    for n, said in enumerate(MISTAKES.values()):
        ended.stdout.fnmatch_lines([f"*_ test_{n} _*", f"whichloop_gate: {said}"])
    assert "Traceback" not in ended.stdout.str()
    assert not (pytester.path / "baselines").exists()


def test_two_calls_never_share_a_baseline(pytester):
    """The first would be held against what the second gave."""
    write(pytester, "'bare', suite='arithmetic', tasks=2)\n    whichloop_gate('finish', suite='arithmetic', tasks=2")
    ended = run(pytester, "--loop-bless")
    ended.assert_outcomes(failed=1)
    ended.stdout.fnmatch_lines(["whichloop_gate: *was written by another call just now*baseline=*"])


def test_an_async_test_is_told_that_it_must_not_be_one(pytester, blessed):
    inside = f"async def inside():\n        whichloop_gate({CALL})\n\n    asyncio.run(inside())"
    pytester.makepyfile(test_mine=f"import asyncio\n\ndef test_0(whichloop_gate):\n    {inside}\n")
    ended = run(pytester)
    ended.assert_outcomes(failed=1)
    ended.stdout.fnmatch_lines(["*call it from a test that is not async*"])


# --- GitHub, and processes ---


def test_a_step_of_github_gets_an_annotation_and_a_summary_of_outcomes_and_mistakes(pytester, blessed, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(pytester.path))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"
    pytester.makepyfile(own_broken=f"raise RuntimeError('refused: {key} \\x1b[31m')\n")
    write(pytester, CALL.replace("finish", "finish(parse_retries=0)"), f"'own_broken:Own', baseline={str(blessed)!r}")
    ended = run(pytester, "-o", "pythonpath=.")
    ended.assert_outcomes(failed=2)
    ended.stdout.fnmatch_lines(["::error title=*regression*", "::error file=own_broken.py,line=1,title=*not judged::*"])
    log, page = ended.stdout.str(), (pytester.path / "summary.md").read_text("utf-8")
    assert page.startswith("## regression: ")
    assert "\n## Gate: not judged\n" in page
    assert (key in log + page, "\x1b[31m" in log + page) == (False, False)
    monkeypatch.delenv("GITHUB_ACTIONS")
    run(pytester).stdout.no_fnmatch_line("::*")


def test_importing_the_plugin_imports_nothing_heavy():
    """It is loaded by every pytest beside which whichloop is installed."""
    heavy = "{'dspy', 'mlflow', 'numpy', 'pandas', 'pydantic', 'scipy'}"
    code = f"import sys, whichloop.pytest_plugin; print(sorted({heavy} & sys.modules.keys()))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
