"""What an agent does with each fault, as a document and as JUnit XML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from whichloop.text import junit
from whichloop.text.doc import UNKNOWN, Cell, Doc, Style, Table, TraceLines, lines_of
from whichloop.text.output import plain_line

from .agent_faults import BY_NAME, OUTCOMES, RECOVERED, FaultFinding, Requirement
from .check import ProgramReport

MAX_TOLD_CHARS = 160
"""Characters of what the model was told in the rows; details and data have all."""
_TITLE = "whichloop check program"


def program_doc(report: ProgramReport, demanded: Sequence[Requirement] = ()) -> Doc:
    """Return a row for each fault, what the outcomes mean, and what was demanded; as details all that the model was told."""
    unmet = report.unmet(demanded)
    counts = Counter(finding.outcome for finding in report.findings)
    rows = (row for finding in report.findings for row in _rows(finding))
    meanings = tuple((outcome, str(counts[outcome]), means) for outcome, means in OUTCOMES.items() if counts[outcome])
    wants = {one.fault: one.says for one in demanded}
    faults = tuple(
        (each.fault, BY_NAME[each.fault].says, wants.get(each.fault, UNKNOWN), str(each.requests), str(each.calls))
        for each in report.findings
    )
    told = [
        TraceLines(f"{each.fault}, {each.outcome}: request {each.request}", tuple(each.shown.split("\n")), detail=True)
        for each in report.findings
        if each.shown
    ]
    missing = [{"fault": one.fault, "demanded": one.says, "outcome": finding.outcome} for one, finding in unmet]
    return Doc(
        f"program {report.title}",
        (
            Table("", ("fault", "outcome", "how it ended"), tuple(rows)),
            Table("Outcomes", ("outcome", "faults", "means"), meanings),
            lines_of(
                ("Demanded", f"{len(demanded) - len(unmet)} of {len(demanded)} outcomes are there" if demanded else ""),
                ("Missing", [one.missing(finding) for one, finding in unmet]),
            ),
            Table("Faults", ("fault", "what happens", "demanded", "requests", "calls"), faults, detail=True),
            *told,
        ),
        {**report.as_dict(), "ok": not unmet, "unmet": missing},
    )


def _rows(finding: FaultFinding) -> Iterator[tuple[Cell | str, ...]]:
    sound = finding.outcome in ("told", "handled") or finding.outcome in BY_NAME[finding.fault].sound - RECOVERED
    style: Style = "dim" if finding.outcome == "not applicable" else "good" if sound else "warn" if finding.recovered else "bad"
    yield finding.fault, Cell(finding.outcome, style), finding.detail
    if finding.shown and finding.outcome in ("told", "untold", "unaware"):
        text = plain_line(finding.shown)
        cut = text if len(text) <= MAX_TOLD_CHARS else f"{text[:MAX_TOLD_CHARS]}…"
        yield "", "", Cell(f"request {finding.request} says: {cut}", "dim")


def trouble_doc(name: str, trouble: str) -> Doc:
    """Return why an agent was not judged."""
    return Doc(f"program {name}", (lines_of(("Trouble", trouble)),), {"agent": name, "ok": False, "trouble": trouble})


def program_junit(report: ProgramReport, demanded: Sequence[Requirement]) -> str:
    """Return a test for each fault, which fails where a demanded outcome is missing."""
    unmet = {one.fault: one for one, _ in report.unmet(demanded)}
    kinds = Counter(
        "failure" if finding.fault in unmet else "skipped" if finding.outcome == "not applicable" else ""
        for finding in report.findings
    )
    root = junit.suites(_TITLE)
    suite = junit.add_suite(root, report.title, len(report.findings), kinds)
    for finding in report.findings:
        case = junit.add_case(suite, report.title, finding.fault)
        says = f"{finding.outcome}: {finding.detail}"
        if finding.fault in unmet:
            junit.add_result(case, "failure", f"demanded {unmet[finding.fault].says}, found {says}", finding.shown)
        elif finding.outcome == "not applicable":
            junit.add_result(case, "skipped", says)
        junit.add_output(case, f"{BY_NAME[finding.fault].says}\n{says}\n{finding.shown}")
    return junit.document(root)


def trouble_junit(name: str, trouble: str) -> str:
    """Return one test with an error: why an agent was not judged."""
    root = junit.suites(_TITLE)
    case = junit.add_case(junit.add_suite(root, name, 1, {"error": 1}), name, "without any fault")
    junit.add_result(case, "error", trouble)
    return junit.document(root)
