"""docs/speed.md shows what benchmarks/run.py prints, table by table; the benchmarks run, made small. Times are never looked at."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

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
        shown[title] = [re.split(r" {2,}", line) for line in rest.split("```")[1].splitlines()[1:]]
    return shown


def sections(bench: ModuleType, sizes: Any) -> dict[str, tuple[str, ...]]:
    """Title → the head of its table."""
    titles = [f"{flight} in flight, {sizes.latency_ms} ms per model call" for flight in sizes.flights]
    return {"What a trial costs": bench.COST, **dict.fromkeys(titles, bench.WAITING)}


def test_the_page_has_the_tables_that_the_script_prints(bench):
    found = block(PAGE, "speed")
    shown = tables(found)
    assert {title: tuple(rows[0]) for title, rows in shown.items()} == sections(bench, bench.Sizes())
    cost, *others = shown.values()
    assert [row[0] for row in cost[1:]] == [program.name for program in bench.ALL]
    assert all([row[0] for row in rows[1:]] == [each.name for each in bench.ALL if not each.is_peer] for rows in others)
    for program in bench.ALL:
        assert all(re.search(rf"\b{name} \d", found) for name in program.needs)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_benchmarks_run(bench):
    """Peers are left out where they are not installed."""
    done = subprocess.run([sys.executable, str(SCRIPT), "--quick"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shown = tables(done.stdout)
    assert {title: tuple(rows[0]) for title, rows in shown.items()} == sections(bench, bench.QUICK)
    assert all(len(rows) > 8 and all(map(all, rows)) for rows in shown.values())
