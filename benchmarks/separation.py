"""Which suite tells which designs apart: every built-in suite, the five designs, several fault profiles; Markdown to stdout.

python benchmarks/separation.py [--suite NAME …] [--write]

--write renews the rows of these suites, by default of all, in the table of docs/suites.md: a minute or two a suite.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from comparing import DESIGNS, compared
from pages import arguments_of, block, head, row, write_block
from whichloop.metrics.comparison import Comparison
from whichloop.runs.registry import generated_suites

PROFILES = ("clean", "flaky-format", "flaky-tools", "forgetful", "stubborn")
PAGE = Path(__file__).parents[1] / "docs" / "suites.md"


def suite_row(suite: str) -> str:
    """Per profile, the range of the designs' accuracies and the pairs told apart; Holm over all pairs of the suite."""
    with tempfile.TemporaryDirectory() as folder:
        found = compared(DESIGNS, suite, PROFILES, folder).comparison
    return row(f"`{suite}`", *(_cell(found, profile) for profile in PROFILES))


def _cell(found: Comparison, profile: str) -> str:
    arms = [arm for arm in found.arms if arm.info.profile == profile]
    names, values = {arm.info.arm for arm in arms}, [arm.summary.accuracy.value for arm in arms if arm.summary.accuracy is not None]
    apart = [pair for pair in found.pairs_on("accuracy") if pair.a in names and pair.verdict.word in ("better", "worse")]
    return f"{min(values):.2f} – {max(values):.2f} ({len(apart)})"


def with_rows(table: str, rows: Sequence[str]) -> str:
    """Return a table with these rows, by suite; the rows of other suites stay."""
    heads, kept = table.strip().splitlines()[:2], table.strip().splitlines()[2:]
    by_suite = {each.split(" | ")[0]: each for each in (*kept, *rows)}
    return "\n".join([*heads, *(by_suite[suite] for suite in sorted(by_suite))])


def main() -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("--suite", action="append")
    given = parser.parse_args()
    print(*head("suite", *PROFILES), sep="\n")
    rows = []
    for suite in given.suite or sorted(generated_suites()):
        rows.append(suite_row(suite))
        print(rows[-1], flush=True)
    if given.write:
        write_block(PAGE, "separation", with_rows(block(PAGE, "separation"), rows))


if __name__ == "__main__":
    main()
