"""README's table is the output of the command that it names. `python tests/test_readme.py --write` renews it."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

import pytest

from loopbench.experiments.compare import prepare, results, run
from loopbench.experiments.config import CompareConfig
from loopbench.experiments.report import to_markdown
from loopbench.metrics.record import Record

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
BLOCK = re.compile(r"(<!-- result: .*? -->\n).*?(<!-- /result -->)", re.DOTALL)
LOOPS = ("bare", "finish", "phased", "react_extract", "stateless")
PROFILES = ("flaky-format", "flaky-tools")
SHOWN = ("### Arms", "### Accuracy, a minus b")


class Quiet:
    def finished(self, record: Record) -> None:
        pass


def measured(runs: Path) -> str:
    """What README shows of `make compare`: the arms, and the pairs in which `bare` stands first."""
    experiment = prepare(CompareConfig(loops=LOOPS, profiles=PROFILES, runs=runs, mlflow=False))
    run(experiment, Quiet())
    sections = to_markdown("run", results(experiment.folder).comparison).split("\n\n### ")
    tables = [f"### {section}" for section in sections]
    arms, pairs = (table.split("\n", 2)[2] for table in tables if table.startswith(SHOWN))
    lines = pairs.splitlines()
    return "\n".join([arms, "", *lines[:2], *(line for line in lines[2:] if line.startswith("| bare"))])


@pytest.mark.thorough
def test_the_table_is_what_the_command_gives(tmp_path):
    shown = BLOCK.search(README.read_text(encoding="utf-8"))
    assert shown is not None
    assert measured(tmp_path) in shown.group(0)


def test_make_compare_is_that_command():
    compare = re.search(r"^compare:.*\n\t(.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert compare is not None
    flags = [f"--loop {loop}" for loop in LOOPS] + [f"--profile {profile}" for profile in PROFILES]
    assert compare.group(1).endswith(f"compare {' '.join(flags)}")


def test_every_link_leads_somewhere():
    for page in [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]:
        prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


if __name__ == "__main__" and "--write" in sys.argv:
    with tempfile.TemporaryDirectory() as folder:
        table = measured(Path(folder))
    text = README.read_text(encoding="utf-8")
    README.write_text(BLOCK.sub(lambda found: f"{found[1]}\n{table}\n\n{found[2]}", text), encoding="utf-8")
