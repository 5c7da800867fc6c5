"""README's tables are the output of the commands that it names. `python tests/test_readme.py --write` renews them."""

from __future__ import annotations

import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from loopbench.cli.main import app
from loopbench.experiments.compare import run as compare
from loopbench.experiments.compare.prepare import prepare
from loopbench.experiments.compare.results import results
from loopbench.experiments.compare.tables import to_markdown
from loopbench.experiments.optimize import run as optimization
from loopbench.experiments.optimize.config import load_optimize_config
from loopbench.experiments.optimize.result import OptimizationResult, optimization_result
from loopbench.experiments.optimize.tables import tables, verdicts
from loopbench.experiments.optimize.watchers import Watchers
from loopbench.runs.config import CompareConfig
from loopbench.runs.engine.runner import Unwatched
from loopbench.text.table import Table, markdown_cell, markdown_page

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = (README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
LOOPS = ("bare", "finish", "phased", "react_extract", "stateless")
PROFILES = ("flaky-format", "flaky-tools")
SHOWN = ("### Arms", "### Accuracy, a minus b")
OPTIMIZER, TEACHABLE, SUITE, REPEATS = "GEPA", "teachable-flaky", "arithmetic(size=200)", 2
COLUMNS = ("design", "dev", "test before", "test after", "gain", "verdict", "optimism")


def block(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- {name}: .*? -->\n).*?(<!-- /{name} -->)", re.DOTALL)


def shown(name: str) -> str:
    found = block(name).search(README.read_text(encoding="utf-8"))
    assert found is not None
    return found[0]


def measured(runs: Path) -> str:
    """What README shows of `make compare`: the arms, and the first half of the pairs in which `bare` stands first."""
    experiment = prepare(CompareConfig(loops=LOOPS, profiles=PROFILES, runs=runs, mlflow=False))
    compare.run(experiment, Unwatched())
    sections = to_markdown("run", results(experiment.folder).comparison).split("\n\n### ")
    found = [f"### {section}" for section in sections]
    arms, pairs = (table.split("\n", 2)[2] for table in found if table.startswith(SHOWN))
    lines = pairs.splitlines()
    return "\n".join([arms, "", *lines[:2], *(line for line in lines[2:] if line.startswith("| bare/flaky-format"))])


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
    made = optimization.prepare(load_optimize_config(None, settings))
    optimization.run(made, Watchers(), Unwatched())
    return optimization_result(made.folder)


def gained(found: OptimizationResult) -> str:
    """What README shows of it: some columns of the gains."""
    whole = tables(found)[0]
    places = [whole.columns.index(name) for name in COLUMNS]
    table = Table("Gains", COLUMNS, tuple(tuple(row[place] for place in places) for row in whole.rows))
    return markdown_page("run", [table], []).split("### Gains\n\n")[1].strip()


def ranked(found: OptimizationResult) -> str:
    """And the ranking, in a line."""
    return f"{markdown_cell(verdicts(found)[0])}."


@pytest.mark.thorough
def test_the_table_is_what_the_command_gives(tmp_path):
    assert measured(tmp_path) in shown("result")


@pytest.mark.thorough
def test_rows_of_the_optimized_designs_are_what_the_command_gives(tmp_path):
    """Designs do not depend on each other; `test_all_of_the_optimized_designs` has the others, and the ranking."""
    rows = gained(optimized(tmp_path, ["bare", "finish"])).splitlines()
    assert [row.split(" | ")[0] for row in rows[2:]] == ["| bare", "| finish"]
    assert set(rows) <= set(shown("optimized").splitlines())


@pytest.mark.slow
def test_all_of_the_optimized_designs(tmp_path):
    found = optimized(tmp_path)
    assert f"\n{gained(found)}\n\n{ranked(found)}\n" in shown("optimized")


def made_by(target: str) -> str:
    """The command of one of make's targets."""
    found = re.search(rf"^{target}:.*\n\t(.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    return found[1]


def test_the_commands_of_make_are_those():
    flags = [f"--loop {loop}" for loop in LOOPS] + [f"--profile {profile}" for profile in PROFILES]
    assert made_by("compare").endswith(f"compare {' '.join(flags)}")
    how = f"--optimizer {OPTIMIZER} --profile {TEACHABLE} --suite '{SUITE}' --repeats {REPEATS}"
    assert made_by("optimize").endswith(f"optimize {how}")


def test_every_link_leads_somewhere():
    for page in PAGES:
        prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def commands(page: Path) -> Iterator[list[str]]:
    """The words of each `loopbench …` in a page's blocks of commands."""
    for text in re.findall(r"^```(?:sh)?\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL):
        for line in text.replace("\\\n", " ").splitlines():
            if line.startswith("loopbench ") and "[" not in line:  # those with brackets are synopses
                words = shlex.split(line, comments=True)
                yield words[1 : words.index(">") if ">" in words else None]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_flag_is_there(page: Path):
    """Parsed, not run."""
    for words in commands(page):
        command: Any = app
        while hasattr(command, "commands"):
            name, *words = words
            assert name in command.commands, f"{page.name}: {name}"
            command = command.commands[name]
        command.make_context(name, words)


def renew() -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = measured(Path(folder))
        found = optimized(Path(folder))
    text = README.read_text(encoding="utf-8")
    text = renewed(text, "result", table)
    text = renewed(text, "optimized", f"{gained(found)}\n\n{ranked(found)}")
    README.write_text(text, encoding="utf-8")


def renewed(text: str, name: str, said: str) -> str:
    return block(name).sub(lambda old: f"{old[1]}\n{said}\n\n{old[2]}", text)


if __name__ == "__main__" and "--write" in sys.argv:
    renew()
