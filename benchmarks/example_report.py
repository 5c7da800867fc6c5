"""The five designs on all suites under all fault profiles: the page of that comparison, and what README concludes from it.

python benchmarks/example_report.py [--tasks N] [--write]

--write renews docs/example-report.html and the lines in README.md; without it the matrix goes to stdout, as Markdown.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

from loopbench.experiments.collection import Collection, collect, to_markdown, verdicts
from loopbench.experiments.compare import Results, prepare, results, run
from loopbench.experiments.config import CompareConfig
from loopbench.experiments.html.page import collection_html
from loopbench.experiments.registry import generated_suites
from loopbench.metrics.record import Record

ROOT = Path(__file__).parents[1]
PAGE, README = ROOT / "docs" / "example-report.html", ROOT / "README.md"
BLOCK = re.compile(r"(<!-- everything: .*? -->\n).*?(<!-- /everything -->)", re.DOTALL)
LOOPS = ("bare", "finish", "phased", "react_extract", "stateless")
PROFILES = ("clean", "flaky-format", "flaky-tools", "forgetful", "stubborn", "bad-network", "provider-trouble")
"""All built-in ones but those that are made to be taught: without an optimizer these show what clean air does, less a share."""
TASKS = 40


class Quiet:
    def finished(self, record: Record) -> None:
        pass


def compared(suite: str, tasks: int, runs: Path) -> Results:
    """The five designs under each profile on one suite, in a directory named after it: equal runs give an equal page."""
    config = CompareConfig(loops=LOOPS, profiles=PROFILES, suite=suite, tasks=tasks, runs=runs, mlflow=False)
    experiment = prepare(config, runs / suite)
    run(experiment, Quiet())
    return results(experiment.folder)


def everything(tasks: int, runs: Path) -> Collection:
    """All suites."""
    found = []
    for suite in generated_suites():
        print(suite, file=sys.stderr)
        found.append(compared(suite, tasks, runs))
    return collect(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=TASKS, help="of each suite")
    parser.add_argument("--write", action="store_true", help="renew the page and README")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = everything(asked.tasks, Path(folder))
        if not asked.write:
            print(to_markdown(found))
            return
        PAGE.write_text(collection_html(found), encoding="utf-8")
    lines = "\n".join(f"- {line}" for line in verdicts(found))
    said = BLOCK.sub(lambda block: f"{block[1]}\n{lines}\n\n{block[2]}", README.read_text(encoding="utf-8"))
    README.write_text(said, encoding="utf-8")


if __name__ == "__main__":
    main()
