"""README and docs/compare.md show what their commands print. `python -m tests.docs.test_readme --write` renews it."""

from __future__ import annotations

import re
import runpy
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks.pages import block, write_block
from tests.benchmarks import load_benchmark
from whichloop.experiments.compare.doc import compare_doc
from whichloop.experiments.compare.results import Results
from whichloop.experiments.optimize import prepare as optimizations
from whichloop.experiments.optimize.config import load_optimize_config
from whichloop.experiments.optimize.doc import gains_table, optimize_doc
from whichloop.experiments.optimize.result import OptimizationResult, optimization_result
from whichloop.experiments.optimize.run import run as search_and_test
from whichloop.metrics.comparison import Comparison
from whichloop.reports.html.charts import accuracy
from whichloop.reports.html.page import TEMPLATES
from whichloop.text.doc import Doc, Table, markdown_cell, to_markdown, to_terminal

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
RESULTS = ROOT / "docs" / "compare.md"
PICTURE = ROOT / "docs" / "accuracy.svg"
PAGES = (README, *(ROOT / name for name in ("AGENTS.md", "CONTRIBUTING.md", "llms.txt")), *sorted((ROOT / "docs").glob("*.md")))
LOOPS = ("bare", "finish", "phased", "react_extract", "stateless")
PROFILES = ("flaky-format", "flaky-tools")
TASKS = "arithmetic(size=300)"
SHOWN = ("### Arms", "### Accuracy, a minus b")
OPTIMIZER, TEACHABLE, SUITE, REPEATS = "GEPA", "teachable-flaky", "arithmetic(size=200)", 2
COLUMNS = ("design", "prompts", "locked", "change", "verdict")
OF_ARMS = ("arm", "accuracy", "steps", "tokens")
OF_PAIRS = ("a", "b", "difference", "p (Holm)", "verdict", "would decide")


def compared(runs: Path, loops: Sequence[str] = LOOPS, profiles: Sequence[str] = PROFILES) -> Results:
    """What `make compare` finds, of some designs and profiles or all."""
    found: Results = load_benchmark("comparing").compared(loops, TASKS, profiles, runs)
    return found


def tables(found: Results) -> list[str]:
    """The tables of docs/compare.md, some columns of each: the arms, and the pairs if there are any."""
    sections = [f"### {section}" for section in to_markdown(compare_doc(found)).split("\n\n### ")]
    whole = [table.split("\n", 2)[2] for table in sections if table.startswith(SHOWN)]
    return [columns_of(table, names) for table, names in zip(whole, (OF_ARMS, OF_PAIRS), strict=False)]


def columns_of(table: str, names: Sequence[str]) -> str:
    """Some columns of a Markdown table."""
    rows = [line[2:-2].split(" | ") for line in table.strip().splitlines()]
    places = [rows[0].index(name) for name in names]
    return "\n".join(f"| {' | '.join(row[place] for place in places)} |" for row in rows)


def measured(found: Results) -> str:
    """What docs/compare.md shows of it: the arms, and the pairs under the first profile in which `bare` stands first."""
    arms, pairs = tables(found)
    lines = pairs.splitlines()
    return "\n".join([arms, "", *lines[:2], *(line for line in lines[2:] if line.startswith(f"| bare/{PROFILES[0]} |"))])


def verdict(found: Results) -> str:
    """What README shows of it: the answer, at 80 columns."""
    console = Console(width=80, color_system=None)
    with console.capture() as captured:
        to_terminal(compare_doc(found), console)
    return f"```text\n{captured.get().rstrip()}\n```"


def picture(found: Comparison) -> str:
    """README's picture: every arm's accuracy with its interval."""
    drawn = str(accuracy(found.arms)).replace(' width="100%"', ' width="720"', 1)
    return drawn.replace("<title>", f"<style>{TEMPLATES.joinpath('chart.css').read_text('utf-8')}</style><title>", 1) + "\n"


def optimized(runs: Path, loops: Sequence[str] = LOOPS) -> OptimizationResult:
    """What `make optimize` does, of some designs or all."""
    settings: dict[str, Any] = {
        "loops": tuple(loops),
        "optimizer": OPTIMIZER,
        "profiles": (TEACHABLE,),
        "suite": SUITE,
        "repeats": REPEATS,
        "mlflow": False,
        "runs": runs,
    }
    made = optimizations.prepare(load_optimize_config(None, settings))
    search_and_test(made)
    return optimization_result(made.folder)


def gained(found: OptimizationResult) -> str:
    """What docs/compare.md shows of it: some columns of the gains."""
    whole = gains_table(found)
    places = [whole.columns.index(name) for name in COLUMNS]
    table = Table("Gains", COLUMNS, tuple(tuple(row[place] for place in places) for row in whole.rows))
    return to_markdown(Doc("run", (table,))).split("### Gains\n\n")[1].strip()


def ranked(found: OptimizationResult) -> str:
    """And which loop is the highest, in a line."""
    return f"Highest: {markdown_cell(optimize_doc(found).facts['Highest'][0])}."


def cells(row: str) -> list[str]:
    """The cells of a row of a Markdown table."""
    return row.replace("\\", "").strip("| ").split(" | ")


def numbers(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in re.findall(r"\d*\.\d+|\d[\d,]*", text)]


@pytest.mark.thorough
def test_the_row_of_a_compared_design_is_what_the_command_gives(tmp_path):
    """Arms do not depend on each other; `test_all_of_the_compared_designs` has the others, the pairs, verdict and picture."""
    (arms,) = tables(compared(tmp_path, LOOPS[:1], PROFILES[:1]))
    _, _, row = arms.splitlines()
    assert row in block(RESULTS, "result").splitlines()


def test_the_verdict_and_the_picture_have_the_numbers_of_the_tables():
    table = {
        cells(row)[0]: cells(row)[1:]
        for row in block(RESULTS, "result").partition("| a | b |")[0].splitlines()
        if row.startswith("|")
    }
    picture_text, lines = PICTURE.read_text(encoding="utf-8"), block(README, "verdict").splitlines()
    for loop in LOOPS:
        rows = [table[f"{loop}/{profile}"] for profile in PROFILES]
        (line,) = (line for line in lines if line.startswith(f"{loop} ") and line.count("[") == len(PROFILES))
        assert all(f"<title>{loop}: {accuracy}</title>" in picture_text for accuracy in re.findall(r"[.\d]+ \[.*?\]", line))
        *accuracies, _steps, _errors, tokens, _wrong, _limit = numbers(line)
        assert accuracies == pytest.approx(numbers(f"{rows[0][0]} {rows[1][0]}"), abs=0.0056)
        assert tokens == pytest.approx(sum(numbers(row[2])[0] for row in rows) / len(rows), abs=1)


@pytest.mark.slow
def test_all_of_the_compared_designs(tmp_path):
    found = compared(tmp_path)
    assert measured(found) in block(RESULTS, "result")
    assert verdict(found) in block(README, "verdict")
    assert picture(found.comparison) == PICTURE.read_text(encoding="utf-8")


@pytest.mark.thorough
def test_the_python_of_readme_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    script = next(text for text in blocks if "whichloop.compare(" in text)
    (tmp_path / "script.py").write_text(script, encoding="utf-8")
    runpy.run_path(str(tmp_path / "script.py"))
    assert "\nBasis " in capsys.readouterr().out


@pytest.mark.slow
def test_all_of_the_optimized_designs(tmp_path):
    found = optimized(tmp_path)
    assert f"\n{gained(found)}\n\n{ranked(found)}\n" in block(RESULTS, "optimized")


def test_every_link_leads_somewhere():
    for page in PAGES:
        prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def renew() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run, found = compared(Path(folder)), optimized(Path(folder))
    write_block(RESULTS, "result", measured(run))
    write_block(RESULTS, "optimized", f"{gained(found)}\n\n{ranked(found)}")
    write_block(README, "verdict", verdict(run))
    PICTURE.write_text(picture(run.comparison), encoding="utf-8")


if __name__ == "__main__" and "--write" in sys.argv:
    renew()
