"""What the checks find on a suite, as a document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from whichloop.metrics.statistics import interval_json
from whichloop.text.doc import Cell, Doc, Table, lines_of
from whichloop.text.numbers import interval

from .check import Checked
from .subject import SuiteFinding

SHOWN = 5
"""Problems of one check that are shown; the data have more of them."""
_RESULTS = {
    "ok": Cell("ok", "good"),
    "warning": Cell("warning", "warn"),
    "failed": Cell("FAILED", "bad"),
    "left out": Cell("left out", "warn"),
}


def suite_doc(name: str, checked: Checked) -> Doc:
    """Return the problems, how many checks pass, the agents that must not, and behind it all checks with their rules."""
    times = Counter(finding.status for finding in checked.findings)
    of_all = f"of {len(checked.findings)} checks"
    set_aside = {task.id: task.quarantined for task in checked.suite.tasks if task.quarantined}
    agents = tuple(
        (
            passed.baseline.name,
            interval(passed.share, 3),
            str(passed.share.n if passed.share is not None else 0),
            Cell("TOO MANY" if passed.is_too_many else "", "bad"),
            passed.baseline.says,
        )
        for passed in checked.baselines
    )
    baselines = [
        {
            "agent": passed.baseline.name,
            "passes": interval_json(passed.share),
            "too_many": passed.is_too_many,
            "not_scored": len(passed.not_scored),
        }
        for passed in checked.baselines
    ]
    problems = tuple(row for finding in checked.findings if finding.status != "ok" for row in _problems(finding))
    rules = tuple((finding.check, _RESULTS[finding.status], finding.says) for finding in checked.findings)
    blocks = (
        Table("", ("check", "result", "problem"), problems),
        lines_of(
            ("Passed", f"{times['ok']} {of_all}"),
            ("Failed", f"{times['failed']} {of_all}" if times["failed"] else ""),
            ("Tasks", f"{len(checked.suite.tasks) - len(set_aside):,}"),
            ("Set aside", f"{len(set_aside):,} tasks" if set_aside else ""),
            ("Called", f"tools of {checked.sample:,} tasks" if checked.ran_tools else "no tool"),
        ),
        Table("Agents, and the share of tasks that they pass", ("agent", "passes", "tasks", "", "what it does"), agents),
        Table("Checks", ("check", "result", "rule"), rules, detail=True),
    )
    data = {
        "suite": name,
        "ok": checked.ok,
        "version": checked.suite.version,
        "tasks": len(checked.suite.tasks),
        "sample": checked.sample,
        "ran_tools": checked.ran_tools,
        "checks": [finding.as_dict() for finding in checked.findings],
        "baselines": baselines,
        "quarantined": set_aside,
    }
    return Doc(f"suite {name}", tuple(block for block in blocks if not isinstance(block, Table) or block.rows), data)


def _problems(finding: SuiteFinding) -> Iterator[tuple[Cell | str, ...]]:
    """Yield a row for each of the first problems, and one for how many more there are."""
    names: tuple[Cell | str, Cell | str] = finding.check, _RESULTS[finding.status]
    for problem in finding.problems[:SHOWN]:
        yield *names, problem
        names = "", ""
    if finding.count > SHOWN:
        yield "", "", Cell(f"and {finding.count - SHOWN} more", "dim")
