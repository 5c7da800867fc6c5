"""docs/size.md: its example is what the commands print, its tables are what the simulation gives. `--write` renews the example."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.pages import block
from tests.benchmarks import load_benchmark
from tests.docs.pages import DOCS, commands, output_of, preformatted, write_output

PAGE = DOCS / "size.md"
DURATION = re.compile(r"\b(\d+ s|\d+ min|\d+\.\d h|under a second)\b")


def text() -> str:
    return PAGE.read_text(encoding="utf-8")


def timeless(output: str) -> list[list[str]]:
    """Words of each line, without how long it takes on this machine, and without how wide that makes a table."""
    return [words for line in output.splitlines() if (words := DURATION.sub("TIME", line).replace("─", "").split())]


@pytest.mark.thorough
def test_the_example_is_what_the_commands_print(tmp_path):
    assert timeless(output_of(commands(PAGE), tmp_path)) == timeless(preformatted(PAGE, "example"))


def test_the_rows_that_the_page_explains_are_in_its_example():
    firsts = [" ".join(line.split()[:3]) for line in block(PAGE, "example").splitlines()]
    assert {"compare ± 0.050", "gate ± 0.050"} <= {*firsts}
    assert "| `difference seen` |" in text()


# --- the simulation ---


@pytest.fixture(scope="module")
def power_check() -> ModuleType:
    return load_benchmark("power_check")


def rows(name: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in block(PAGE, name).strip().splitlines()[2:]]


def test_every_case_has_its_row(power_check):
    found = [tuple(row[:4]) for row in rows("power")]
    assert found == [(power_check.name_of(c), c.decision, str(c.repeats), f"{c.margin:g}") for c in power_check.CASES]
    assert f"judged by the real functions, {power_check.RUNS} each" in PAGE.read_text(encoding="utf-8")
    assert f"each of {power_check.RUNS_OF_PILOTS} runs and plans" in PAGE.read_text(encoding="utf-8")


def test_what_was_promised_came_about():
    """Within what 1,000 runs can tell, and 5 points; pilots of 120 tasks, within 10."""
    """A regression is simulated at the size at which a harmless change passes, which may be more than it takes."""
    for *case, promised, simulated, from_pilots in rows("power"):
        assert float(promised) >= 0.8, case
        assert abs(float(simulated) - float(promised)) <= 0.07, case
        assert 0.7 <= float(from_pilots) <= (1.0 if case[1] == "regression" or "template" in case[0] else 0.95), case


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_tables_are_what_the_simulation_gives(power_check):
    """The rows that take least; `python benchmarks/power_check.py` makes all of them."""
    found = block(PAGE, "power")
    for case in power_check.CASES:
        if case.population.name in ("0.9 each", "steps"):
            assert power_check.power_row(case) in found


if __name__ == "__main__" and "--write" in sys.argv:
    with tempfile.TemporaryDirectory() as made_in:
        write_output(PAGE, "example", output_of(commands(PAGE), Path(made_in)))
