"""docs/speed.md shows what benchmarks/run.py prints, table by table; the benchmarks run, made small. Times are never looked at."""

from __future__ import annotations

import importlib.util
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "speed.md"
SCRIPT = ROOT / "benchmarks" / "run.py"
WAITS = runpy.run_path(str(ROOT / "benchmarks" / "waits.py"))
STAGES = ROOT / "benchmarks" / "stages.py"


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmarks_run", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["benchmarks_run"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


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
    found = bench.BLOCK.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    shown = tables(found[0])
    assert list(shown) == [section.title for section in bench.SECTIONS]
    for section in bench.SECTIONS:
        head, *rows = shown[section.title]
        assert head == list(section.head)
        assert [row[0] for row in rows] == list(section.labels)
        assert all(len(row) == len(head) for row in rows)
    assert re.search(r"^- medians of \d+ interleaved rounds", found[0], re.MULTILINE)
    for program in bench.ALL:
        assert all(re.search(rf"\b{name} \d", found[0]) for name in program.needs)


def test_the_page_says_how_long_each_command_takes() -> None:
    found = WAITS["BLOCK"].search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    head, *rows = tables(f"\n## commands\n{found[0]}")["commands"]
    assert head == list(WAITS["HEAD"])
    assert [row[0] for row in rows] == list(WAITS["COMMANDS"])
    assert all(re.fullmatch(r"\d+\.\d\d", cell) for row in rows for cell in row[1:])


def test_the_page_says_where_a_trials_time_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(STAGES.parent))
    stages = runpy.run_path(str(STAGES))
    found = stages["BLOCK"].search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    head, *rows = tables(f"\n## stages\n{found[0]}")["stages"]
    assert head == list(stages["HEAD"])
    assert [row[0] for row in rows] == [f"`{loop}`" for loop in stages["LOOPS"]]
    assert len(stages["shares"]("bare", 1)) == len(head) - 2


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
