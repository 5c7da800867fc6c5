"""The five designs on all suites under all fault profiles: the page of that comparison, and what docs/results.md concludes from it.

python benchmarks/example_report.py [--tasks N] [--runs DIR] [--write]

--write renews docs/example-report.html and the sentences in docs/results.md; without it the matrix goes to stdout, as Markdown.
--runs keeps the run directories, and goes on from those that are there.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from pages import write_block
from whichloop.cli.process import quiet_loops
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.reopen import reopen
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import run
from whichloop.experiments.compare.several_runs import SeveralRuns, collect, to_markdown
from whichloop.reports.html.page import collection_html
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.registry import generated_suites

ROOT = Path(__file__).parents[1]
PAGE, RESULTS = ROOT / "docs" / "example-report.html", ROOT / "docs" / "results.md"
LOOPS = ("bare", "finish", "phased", "react_extract", "stateless")
PROFILES = ("clean", "flaky-format", "flaky-tools", "forgetful", "stubborn", "bad-network", "provider-trouble")
"""All built-in ones but those that are made to be taught: without an optimizer these show what clean air does, less a share."""
TASKS = 40


def compared(suite: str, tasks: int, runs: Path) -> Results:
    """The five designs under each profile on one suite, in a directory named after it: equal runs give an equal page."""
    config = CompareConfig(loops=LOOPS, profiles=PROFILES, suite=suite, tasks=tasks, runs=runs, mlflow=False)
    folder = runs / suite
    experiment = reopen(folder) if folder.exists() else prepare(config, folder)
    with quiet_loops():
        run(experiment, Unwatched())
    return results(experiment.folder)


def everything(tasks: int, runs: Path) -> SeveralRuns:
    """All suites."""
    found = []
    for suite in generated_suites():
        print(suite, file=sys.stderr)
        found.append(compared(suite, tasks, runs))
    return collect(found)


def conclusions(found: SeveralRuns) -> str:
    """Three sentences: the best design, those behind it, and where designs part."""
    places = {loop: Counter(column.places[loop].place for column in found.columns) for loop in found.loops}
    lower = {loop: count["lower"] for loop, count in places.items()}
    best, *others = sorted(found.loops, key=lambda loop: (lower[loop], -places[loop]["highest"]))
    total, pairs = len(found.columns), sum(len(column.pairs) for column in found.columns)
    where = Counter(column.profile for column in found.columns for place in column.places.values() if place.place == "lower")
    profiles = dict.fromkeys(column.profile for column in found.columns)
    most, least = max(profiles, key=where.__getitem__), min(profiles, key=where.__getitem__)
    behind = ", ".join(f"`{loop}` in {lower[loop]}" for loop in others)
    return (
        f"`{best}` is the most accurate, alone or with others, in {places[best]['highest']} of {total} comparisons of a suite "
        f"under a profile, and shown to be worse than the most accurate in {lower[best]}. "
        f"The others are shown to be worse than it: {behind}; elsewhere they are it, or too close to tell with "
        f"{found.runs[0].manifest.suite.tasks} tasks each and p adjusted over {pairs} pairs. "
        f"Most of these losses are under {most} ({where[most]} of {sum(where.values())}), fewest under {least} ({where[least]})."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=TASKS, help="of each suite")
    parser.add_argument("--runs", type=Path, help="keep the run directories there")
    parser.add_argument("--write", action="store_true", help="renew the page and the sentences")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = everything(asked.tasks, asked.runs or Path(folder))
        if not asked.write:
            print(to_markdown(found))
            return
        PAGE.write_text(collection_html(found), encoding="utf-8")
    write_block(RESULTS, "everything", conclusions(found))


if __name__ == "__main__":
    main()
