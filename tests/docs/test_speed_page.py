"""docs/speed.md shows what benchmarks/run.py prints, table by table; the benchmarks run, made small. Times are never looked at."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.pages import block
from tests.benchmarks import load_benchmark

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "speed.md"
SCRIPT = ROOT / "benchmarks" / "run.py"


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    return load_benchmark("run")


Shown = dict[str, list[list[str]]]
"""Title → the rows of its table, heads first."""


def tables(text: str) -> Shown:
    shown: Shown = {}
    for part in text.split("\n## ")[1:]:
        title, _, rest = part.partition("\n")
        lines = [line for line in rest.splitlines() if line.startswith("|") and not re.fullmatch(r"[|\s-]+", line)]
        shown[title] = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return shown


def test_the_page_has_the_tables_that_the_script_prints(bench):
    found = block(PAGE, "speed")
    shown = tables(found)
    assert list(shown) == [section.title for section in bench.SECTIONS]
    for section in bench.SECTIONS:
        head, *rows = shown[section.title]
        assert head == list(section.head)
        assert [row[0] for row in rows] == list(section.labels)
        assert all(len(row) == len(head) for row in rows)
    assert re.search(r"^- medians of \d+ interleaved rounds", found, re.MULTILINE)
    for program in bench.ALL:
        assert all(re.search(rf"\b{name} \d", found) for name in program.needs)


def test_the_page_says_how_long_each_command_takes() -> None:
    waits = load_benchmark("waits")
    head, *rows = tables(f"\n## commands\n{block(PAGE, 'waits')}")["commands"]
    assert head == list(waits.HEAD)
    assert [row[0] for row in rows] == list(waits.COMMANDS)
    assert all(re.fullmatch(r"\d+\.\d\d", cell) for row in rows for cell in row[1:])


def test_the_page_says_where_a_trials_time_goes() -> None:
    stages = load_benchmark("stages")
    head, *rows = tables(f"\n## stages\n{block(PAGE, 'stages')}")["stages"]
    assert head == list(stages.HEAD)
    assert [row[0] for row in rows] == [f"`{loop}`" for loop in stages.LOOPS]
    assert len(stages.shares("bare", 1)) == len(head) - 2


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_benchmarks_run(bench):
    """Peers are left out where they are not installed."""
    done = subprocess.run([sys.executable, str(SCRIPT), "--quick"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shown = tables(done.stdout)
    assert list(shown) == [section.title for section in bench.SECTIONS]
    skipped = {
        line.split(": ")[1].split(" is not installed")[0] for line in done.stderr.splitlines() if line.startswith("skipped: ")
    }
    assert skipped <= {program.name for program in bench.RIVALS}
    ours = {program.name for program in bench.OURS} - {program.name for program in bench.QUICK.ours}
    for section in bench.SECTIONS:
        head, *rows = shown[section.title]
        assert head == list(section.head)
        assert [row[0] for row in rows] == [label for label in section.labels if label not in skipped | ours]
        assert all(len(row) == len(head) and all(row[1:]) for row in rows)
