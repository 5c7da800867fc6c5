"""CONTRIBUTING.md: whoever follows it adds a loop, a suite, a scorer and a measure that work. Its own code is carried out."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.prepared import said_by
from whichloop.checks.loop import LAWS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
WHOLE_FILES = dict(re.findall(r"This is the whole of `([\w/]+\.py)`:\n\n```python\n(.*?)```", PAGE, re.DOTALL))
"""Path → code of the files that the page has from their first line to their last."""
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
ROW, SCORER = (re.findall(rf"is a {what} [^\n]*:\n\n```python\n(.*?)```", PAGE, re.DOTALL)[0] for what in ("row", "scorer"))
MEASURE = ROW.removeprefix("MEASURES = {\n").removesuffix("}\n")
ADDED = frozenset(Path(path) for path in WHOLE_FILES if "/" in path) | {
    Path("src/whichloop/loops/yours.py"),
    Path("tests/loops/test_yours.py"),
}
"""Paths of the files that the page has its reader add."""
AT_HOME = {"PATH": os.environ["PATH"]}


def copy_without_added(checkout: Path, folder: str, target: Path) -> None:
    """Copy a folder without what a reader of the page has added to it already: the tests here add it themselves.

    What Python has compiled is copied, too, and stays valid with the times of its sources: to compile it all again takes seconds.
    """

    def left_out(place: str, names: list[str]) -> list[str]:
        within = Path(place).relative_to(checkout)
        return [name for name in names if within / name in ADDED]

    shutil.copytree(checkout / folder, target / folder, ignore=left_out, dirs_exist_ok=True)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A checkout in which files are added: the package, and the settings of ruff."""
    copy_without_added(ROOT, "src/whichloop", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "tests/loops").mkdir(parents=True)
    return tmp_path


def said_in(checkout: Path, *command: str) -> str:
    """Return what a command prints that imports the checkout's package."""
    environment = {**AT_HOME, "PYTHONPATH": str(checkout / "src"), "HOME": str(checkout / "home")}
    words = [sys.executable, "-m", *command]
    done = subprocess.run(words, cwd=checkout, env=environment, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pytest_says(checkout: Path, *words: str) -> str:
    """Return what pytest prints about tests in a checkout, without a plugin that no test of it needs and that imports much."""
    return said_in(checkout, "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:anyio", *words)


def passes_ruff(checkout: Path, *paths: str) -> None:
    said_in(checkout, "ruff", "check", "--no-cache", *paths)
    said_in(checkout, "ruff", "format", "--no-cache", "--check", *paths)


def test_every_block_of_code_is_a_whole_file_that_a_test_here_adds() -> None:
    assert WHOLE_FILES.keys() == {"canal.py", "examples/adopt_yours.py"}
    assert sorted([*WHOLE_FILES.values(), ROW, SCORER]) == sorted(BLOCKS)


def test_the_smallest_suite_passes_every_check_from_outside(tmp_path: Path) -> None:
    (tmp_path / "canal.py").write_text(WHOLE_FILES["canal.py"], "utf-8")
    said = said_by(tmp_path, AT_HOME, "-m", "whichloop", "check", "suite", "canal:load", "--run-tools")
    assert said.splitlines()[1] == "Hold       19 of 19 laws"


def test_files_that_a_reader_has_added_already_are_left_out_of_the_copy(tmp_path: Path) -> None:
    kept = {Path("src/whichloop/loops/bare.py"), Path("src/whichloop/experiments/gate/brief.py"), Path("examples/adopt_bare.py")}
    for path in ADDED | kept:
        (tmp_path / "here" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "here" / path).write_text("", "utf-8")
    for folder in ("src/whichloop", "tests", "examples"):
        copy_without_added(tmp_path / "here", folder, tmp_path / "there")
    copied = {path.relative_to(tmp_path / "there") for path in (tmp_path / "there").rglob("*.py")}
    assert copied == kept


def _task(text: str, scorer: str) -> dict[str, object]:
    """Return a task whose right answer is the text, which its plan gives."""
    plan = {"calls": [], "answer": text}
    return {"id": text, "question": f"Say {text}.", "answer": text, "plan": plan, "scorer": scorer}


ADDED_METRICS = ("repeated_calls", "brief")


def _write_metrics(checkout: Path) -> None:
    """Carry out what the page says of a measure and of a scorer, unless a reader of it has done so."""
    measures, scorers = (checkout / f"src/whichloop/metrics/{name}.py" for name in ("measures", "scorers"))
    text = measures.read_text("utf-8")
    if MEASURE not in text:
        measures.write_text(f"{text.rstrip().removesuffix('}')}{MEASURE}}}\n", "utf-8")
    text, head = scorers.read_text("utf-8"), "SCORERS: Final[Mapping[str, Callable[..., Scorer]]] = {\n"
    assert head in text
    if SCORER not in text:
        scorers.write_text(text.replace(head, f'{SCORER}\n\n{head}    "brief": brief,\n'), "utf-8")


@pytest.mark.thorough
def test_a_scorer_a_measure_and_a_loop_are_added_and_pass_ruff(copy: Path) -> None:
    """`test_whoever_follows_the_page_ends_with_green_tests` has the tests of all three, and the check of the loop."""
    _write_metrics(copy)
    _write_loop(copy)
    added = ["src/whichloop/loops/yours.py", "tests/loops/test_yours.py", "src/whichloop/metrics"]
    passes_ruff(copy, *added)
    cases = [("one", 1), ("two words", 1), ("three", 3)]
    tasks = [_task(text, f"brief(words={most})") for text, most in cases]
    (copy / "tasks.jsonl").write_text("".join(f"{json.dumps(task)}\n" for task in tasks), "utf-8")
    run = ["--suite", "jsonl", "--data", "tasks.jsonl", "--loop", "yours", "--profile", "clean"]
    (arm,) = json.loads(said_in(copy, "whichloop", "compare", *run, "--quiet", "--json"))["arms"]
    assert arm["accuracy"]["value"] == pytest.approx(2 / 3)
    assert arm["repeated_calls"]["value"] == 0


def _write_loop(checkout: Path) -> None:
    """Carry out the first step of adding a loop."""
    (command,) = re.findall(r"`whichloop (init [^`]* --loop yours)`", PAGE)
    said_by(checkout, AT_HOME, "-m", "whichloop", *command.split())
    table = checkout / "src/whichloop/runs/built_in.toml"
    table.write_text(table.read_text("utf-8").replace("\n[framework]", 'yours = "Mine."\n\n[framework]'), "utf-8")


TESTS_OF_WHAT_IS_ADDED = (
    "tests/docs/test_examples.py::test_every_design_has_an_example",
    "tests/docs/test_examples.py::test_an_example_is_short_and_needs_loops_and_a_model_only",
    "tests/docs/test_examples.py::test_an_example_runs_offline[adopt_yours]",
    "tests/docs/test_optimize_page.py::test_every_design_has_its_predictors",
    "tests/experiments/compare/test_doc.py::test_details_are_all_tables_and_none_is_empty",
    "tests/loops/test_yours.py",
    "tests/metrics/test_comparison.py::test_the_object_for_scripts",
    "tests/metrics/test_scorers.py::test_a_wrong_spec_says_what_is_known",
)
"""Those that look at all loops, measures or scorers that there are."""


@pytest.mark.slow
def test_whoever_follows_the_page_ends_with_green_tests(copy: Path) -> None:
    for folder in ("tests", "examples"):
        copy_without_added(ROOT, folder, copy)
    (copy / "docs").mkdir()
    shutil.copy(ROOT / "CONTRIBUTING.md", copy)
    _write_metrics(copy)
    listed = said_in(copy, "whichloop", "list", "metrics")
    for name in ADDED_METRICS:
        assert re.search(rf"^{name} ", listed, re.MULTILINE)
    for path in [path for path in WHOLE_FILES if path.startswith("examples/")]:
        (copy / path).write_text(WHOLE_FILES[path], "utf-8")
    passes_ruff(copy, "examples/adopt_yours.py")
    _write_loop(copy)
    head = "| loop | predictors |\n|---|---|\n"
    (row,) = re.findall(r"the row ``(\|.*\|)``", PAGE)
    page = (ROOT / "docs/optimize.md").read_text("utf-8").replace(f"{row}\n", "")
    assert head in page
    (copy / "docs/optimize.md").write_text(page.replace(head, f"{head}{row}\n"), "utf-8")
    pytest_says(copy, *TESTS_OF_WHAT_IS_ADDED)
    assert " passed" in pytest_says(copy, "tests/metrics/test_scorers.py", "-k", "brief")
    checked = said_in(copy, "whichloop", "check", "loop", "yours")
    number = len(LAWS)
    assert checked.splitlines() == ["loop yours", f"Hold       {number} of {number} laws"]
