"""The page of a check of an agent: what it does with each fault, and what its model was told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from whichloop.checks.program import OUTCOMES, ProgramReport, Requirement
from whichloop.checks.program.agent_faults import BY_NAME

from .document import UNKNOWN, Banner, Block, Code, Folded, Grid, Items, Page, PageLink, PageSection, Paragraph
from .page import render

_HOW = (
    "Each row is a run of its own, in which a scripted model makes one mistake, or a tool or the provider fails once. "
    "Outcomes are judged from the agent's requests, its calls of tools and its answer, never by what it says of itself."
)


def program_check_html(report: ProgramReport, demanded: Sequence[Requirement] = ()) -> str:
    """Return the page of a check."""
    counts = Counter(finding.outcome for finding in report.findings)
    subtitle = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome])
    sections = (
        PageSection("faults", "One fault at a time", tuple(_overview(report, demanded))),
        PageSection("requests", "What the model was told", tuple(_requests(report))),
    )
    return render(Page(f"{report.title}: one fault at a time", subtitle, sections))


def _overview(report: ProgramReport, demanded: Sequence[Requirement]) -> Iterator[Block]:
    unmet = report.unmet(demanded)
    if unmet:
        lines = tuple(one.missing(finding) for one, finding in unmet)
        yield Banner("Demanded outcomes are missing", lines)
    yield Paragraph(_HOW, "quiet")
    wants = {one.fault: one.says for one in demanded}
    columns = ("fault", "what happens", "outcome", *(["demanded"] if demanded else []), "how it ended", "requests", "calls")
    rows = []
    for finding in report.findings:
        name = PageLink(finding.fault, f"fault-{finding.fault}") if finding.shown else Code(finding.fault)
        more = [wants.get(finding.fault, UNKNOWN)] if demanded else []
        counts = (str(finding.requests), str(finding.calls))
        rows.append((name, BY_NAME[finding.fault].says, finding.outcome, *more, finding.detail, *counts))
    yield Grid("What the agent did", columns, tuple(rows))
    yield Items(tuple(f"{outcome}: {means}" for outcome, means in OUTCOMES.items()), "quiet")


def _requests(report: ProgramReport) -> Iterator[Block]:
    yield Paragraph("The lines of the first telling request after the fault that no undisturbed run has.", "quiet")
    for finding in report.findings:
        if finding.shown:
            yield Folded(
                f"{finding.fault}: {finding.outcome}, request {finding.request}", (Code(finding.shown),), f"fault-{finding.fault}"
            )
