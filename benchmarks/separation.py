"""Which suite tells which designs apart: every built-in suite, the five designs, several fault profiles; Markdown to stdout.

python benchmarks/separation.py [--tasks N] [--suite NAME …] [--write]

--write renews the rows of these suites, by default of all, in the table of docs/suites.md; it takes all tasks of each, a
minute or two a suite.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import whichloop
from pages import block, head, write_block
from whichloop.metrics.comparison import Comparison
from whichloop.runs.registry import generated_suites

ROOT = Path(__file__).parents[1]
LOOPS = ("bare", "finish", "phased", "react_extract", "stateless")
PROFILES = ("clean", "flaky-format", "flaky-tools", "forgetful", "stubborn")
PAGE = ROOT / "docs" / "suites.md"


def compared(suite: str, tasks: int | None, runs: Path) -> Comparison:
    """The five designs under each profile on one suite; Holm over all pairs of it."""
    return whichloop.compare(LOOPS, suite, PROFILES, tasks=tasks, runs=runs, mlflow=False, progress=False).results.comparison


def told_apart(found: Comparison, profile: str) -> int:
    """Pairs of designs of which one is better, by the verdict."""
    names = {arm.info.arm for arm in found.arms if arm.info.profile == profile}
    pairs = [pair for pair in found.pairs if pair.family == "primary" and pair.a in names]
    return sum(pair.verdict.word in ("better", "worse") for pair in pairs)


def row_of(suite: str, found: Comparison) -> str:
    """The row of one suite: per profile, the range of the designs' accuracies and the pairs told apart."""
    cells = []
    for profile in PROFILES:
        values = sorted(
            arm.summary.accuracy.value for arm in found.arms if arm.info.profile == profile and arm.summary.accuracy is not None
        )
        cells.append(f"{values[0]:.2f} – {values[-1]:.2f} ({told_apart(found, profile)})")
    return f"| `{suite}` | {' | '.join(cells)} |"


def table(suites: Sequence[str], tasks: int | None) -> str:
    rows = head("suite", *PROFILES)
    with tempfile.TemporaryDirectory() as folder:
        for suite in suites:
            rows.append(row_of(suite, compared(suite, tasks, Path(folder))))
            print(rows[-1], file=sys.stderr)
    return "\n".join(rows)


def with_rows(page: str, table: str) -> str:
    """Return the table on a page with the rows of the suites that another one has in the place of its own, by suite."""
    heading, rows = table.splitlines()[:2], table.splitlines()[2:]
    renewed = {suite_of(row) for row in rows}
    kept = [row for row in page.strip().splitlines()[2:] if suite_of(row) not in renewed]
    return "\n".join([*heading, *sorted([*kept, *rows], key=suite_of)])


def suite_of(row: str) -> str:
    return row.split(" | ")[0].strip("| `")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int)
    parser.add_argument("--suite", action="append")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    if given.write and given.tasks is not None:
        parser.error("--write takes all tasks of a suite: leave --tasks out")
    made = table(given.suite or sorted(generated_suites()), given.tasks)
    if given.write:
        write_block(PAGE, "separation", with_rows(block(PAGE, "separation"), made))
    else:
        print(f"\n{made}")


if __name__ == "__main__":
    main()
