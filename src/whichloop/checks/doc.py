"""What checks find on a loop, a suite or a program, as a document: one form of data; and of a program as JUnit XML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from whichloop.metrics.statistics import interval_json
from whichloop.text import junit
from whichloop.text.doc import UNKNOWN, Block, Cell, Doc, Style, Table, TraceLines, lines_of
from whichloop.text.numbers import interval
from whichloop.text.output import plain_line

from .loop.check import LAWS
from .program.agent_faults import BY_NAME, OUTCOMES, RECOVERED, FaultFinding, Requirement
from .program.check import ProgramReport
from .shared.law import Finding, Law
from .suite.check import CHECKS, Checked

SHOWN = 5
"""Problems of one law that are shown; the data have more of them."""
MAX_TOLD_CHARS = 160
"""Characters of what the model was told in the rows; details and data have all."""
_STYLES: Mapping[str, Style] = {"ok": "good", "failed": "bad"}


def data_of(kind: str, name: str, ok: bool, findings: Sequence[Mapping[str, Any]] = (), **more: Any) -> dict[str, Any]:
    """Return the one form of what `check --json` prints; each finding has `name`, `status` and `detail`."""
    return {"kind": kind, "name": name, "ok": ok, "findings": list(findings), **more}


def loop_doc(name: str, findings: Sequence[Finding]) -> Doc:
    """Return the laws that do not hold or were not run, how many hold, and behind it all laws."""
    return _laws_doc("loop", name, LAWS, findings)


def suite_doc(name: str, checked: Checked) -> Doc:
    """Return the problems, how many laws hold, the agents that must not pass, and behind it all laws."""
    set_aside = {task.id: task.quarantined for task in checked.suite.tasks if task.quarantined}
    count = len(checked.suite.tasks) - len(set_aside)
    rows, baselines = [], []
    for each in checked.baselines:
        share, too_many = each.share, each.is_too_many
        scored, mark = str(0 if share is None else share.n), Cell("TOO MANY" if too_many else "", "bad")
        rows.append((each.baseline.name, interval(share, 3), scored, mark, each.baseline.text))
        data = {"passes": interval_json(share), "too_many": too_many, "not_scored": len(each.not_scored)}
        baselines.append({"agent": each.baseline.name, **data})
    agents = Table("Agents, and the share of tasks that they pass", ("agent", "passes", "tasks", "", "what it does"), tuple(rows))
    lines = (
        ("Tasks", f"{count:,}"),
        ("Set aside", f"{len(set_aside):,} tasks" if set_aside else ""),
        ("Called", f"tools of {checked.sample:,} tasks" if checked.ran_tools else "no tool"),
    )
    more = {"version": checked.suite.version, "tasks": count, "sample": checked.sample, "ran_tools": checked.ran_tools}
    more |= {"baselines": baselines, "quarantined": set_aside}
    return _laws_doc("suite", name, CHECKS, checked.findings, lines, [agents], **more)


def _laws_doc(
    kind: str,
    name: str,
    laws: Sequence[Law],
    findings: Sequence[Finding],
    lines: Sequence[tuple[str, str]] = (),
    tables: Sequence[Table] = (),
    **more: Any,
) -> Doc:
    results = {
        one.law: Cell("FAILED" if one.status == "failed" else one.status, _STYLES.get(one.status, "warn")) for one in findings
    }
    counts, ends = Counter(one.status for one in findings), any(one.ends for one in findings)
    rows: list[tuple[Cell | str, ...]] = []
    for one in findings:
        if one.status == "ok" or (ends and one.status == "not run"):
            continue
        rows += [(one.law, results[one.law], one.detail), *(("", "", text) for text in one.others[: SHOWN - 1])]
        if one.count > SHOWN:
            rows.append(("", "", Cell(f"and {one.count - SHOWN} more", "dim")))
    of_all = f"of {len(findings)} laws"
    blocks: list[Block] = [
        Table("", ("law", "result", "why"), tuple(rows)),
        lines_of(
            ("Hold", f"{counts['ok']} {of_all}"),
            ("Broken", f"{counts['failed']} {of_all}" if counts["failed"] else ""),
            ("Not run", f"{counts['not run']} {of_all}" if counts["not run"] else ""),
            *lines,
        ),
        *tables,
        Table("Laws", ("law", "result", "it says"), tuple((law.name, results[law.name], law.text) for law in laws), detail=True),
    ]
    data = data_of(kind, name, not counts["failed"], [one.as_dict() for one in findings], **more)
    return Doc(f"{kind} {name}", tuple(block for block in blocks if not isinstance(block, Table) or block.rows), data)


def program_doc(report: ProgramReport, demanded: Sequence[Requirement] = ()) -> Doc:
    """Return a row for each fault, what the outcomes mean, and what was demanded; as details all that the model was told."""
    unmet = report.unmet(demanded)
    missing = {one.fault: one.missing(finding) for one, finding in unmet}
    counts = Counter(finding.outcome for finding in report.findings)
    meanings = tuple((outcome, str(counts[outcome]), means) for outcome, means in OUTCOMES.items() if counts[outcome])
    wants = {one.fault: one.text for one in demanded}
    faults, told = [], []
    for each in report.findings:
        text, wanted = BY_NAME[each.fault].text, wants.get(each.fault, UNKNOWN)
        faults.append((each.fault, text, wanted, str(each.requests), str(each.calls)))
        if each.shown:
            title = f"{each.fault}, {each.outcome}: request {each.request}"
            told.append(TraceLines(title, tuple(each.shown.split("\n")), detail=True))
    lines = lines_of(
        ("Demanded", f"{len(demanded) - len(unmet)} of {len(demanded)} outcomes are there" if demanded else ""),
        ("Missing", list(missing.values())),
    )
    blocks: tuple[Block, ...] = (
        Table("", ("fault", "outcome", "how it ended"), tuple(row for finding in report.findings for row in _rows(finding))),
        Table("Outcomes", ("outcome", "faults", "means"), meanings),
        lines,
        Table("Faults", ("fault", "what happens", "demanded", "requests", "calls"), tuple(faults), detail=True),
        *told,
    )
    findings = [each.as_dict() | ({"status": "failed"} if each.fault in missing else {}) for each in report.findings]
    data = data_of("program", report.agent, not unmet, findings, version=report.version, requests=len(report.asked))
    return Doc(f"program {report.title}", blocks, data)


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
    return Doc(f"program {name}", (lines_of(("Trouble", trouble)),), data_of("program", name, False, trouble=trouble))


def program_junit(name: str, report: ProgramReport | None, demanded: Sequence[Requirement], trouble: str = "") -> str:
    """Return a test for each fault, which fails where a demanded outcome is missing; without a report one test with an error."""
    root = junit.suites("whichloop check program")
    if report is None:
        case = junit.add_case(junit.add_suite(root, name, 1, {"error": 1}), name, "without any fault")
        junit.add_result(case, "error", trouble)
        return junit.document(root)
    missing = {one.fault: one.missing(finding) for one, finding in report.unmet(demanded)}
    kinds = [
        "failure" if each.fault in missing else "skipped" if each.outcome == "not applicable" else "" for each in report.findings
    ]
    suite = junit.add_suite(root, report.title, len(kinds), Counter(kinds))
    for finding, kind in zip(report.findings, kinds, strict=True):
        case, said = junit.add_case(suite, report.title, finding.fault), f"{finding.outcome}: {finding.detail}"
        if kind:
            junit.add_result(case, kind, missing.get(finding.fault, said), finding.shown)
        junit.add_output(case, f"{BY_NAME[finding.fault].text}\n{said}\n{finding.shown}")
    return junit.document(root)
