"""What the pages say of costs keeps its promises."""

from __future__ import annotations

from benchmarks.pages import block
from tests.docs.pages import DOCS


def rows(page: str, name: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in block(DOCS / page, name).strip().splitlines()[2:]]


def test_intervals_of_skewed_costs_cover_from_thirty_tasks_on():
    for law, _, *cells in rows("statistics.md", "coverage of costs"):
        if law.startswith("log-normal"):
            assert all(float(cell.split()[0]) >= 0.94 for cell in cells), law


def test_bills_that_grow_hardly_pass_where_their_tail_can_be_seen():
    found = rows("gate.md", "bills")
    assert len(found) == 30
    for what, bill, size, passed, regression, _, unseen in found:
        if what.startswith("unchanged"):
            assert float(regression) <= 0.08, (what, size)
        elif bill == "×1.29":
            assert float(passed) <= float(unseen) + 0.04, size
