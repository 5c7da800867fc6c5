"""What a CI server shows of a gate: JUnit XML, and on GitHub one annotation and a page in the summary."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from whichloop.protocol.own_code import place_in
from whichloop.text import junit
from whichloop.text.doc import markdown_cell, to_markdown
from whichloop.text.output import terminal_safe

from .doc import change_text, gate_doc, margin_text, title_of
from .judge import GateResult

NAME = "whichloop gate"
KINDS = {"regression": "failure", "undecided": "skipped", "invalid": "error"}
LEVELS = {"regression": "error", "undecided": "warning", "invalid": "error", "pass": "notice"}
_COMMAND_INSIDE = re.compile(r"##(?=\[|vso\[)")
"""Prefixes of `##[…]` and `##vso[…]`, which GitHub and Azure treat as commands anywhere in a line."""


def literal(text: str) -> str:
    """Return lines without control characters or anything that a CI server treats as a command."""
    lines = _COMMAND_INSIDE.sub("## ", terminal_safe(text)).splitlines()
    return "\n".join(f"\\{line}" if line.lstrip().startswith("::") else line for line in lines)


def to_junit(result: GateResult) -> str:
    """Return JUnit XML: a suite per arm with a test per metric, and one for each reason that is about no metric.

    A regression is a failure, an undecided one is skipped, an invalid run is an error.
    """
    root, text = junit.suites(NAME), literal(str(gate_doc(result)))
    rows: dict[str, list[tuple[str, str | None, str]]] = {}
    for reason in result.reasons:
        kind = KINDS.get(reason.leads_to)
        if not reason.metric:
            rows.setdefault(reason.arm or NAME, []).append((reason.code, kind, f"{reason.leads_to}: {reason.text}"))
            continue
        line = next(line for line in result.lines if (line.arm, line.metric) == (reason.arm, reason.metric))
        told = f"{reason.leads_to}: {change_text(line)}, margin {margin_text(line.metric, line.margin)}; {reason.text}"
        rows.setdefault(reason.arm, []).append((reason.metric, kind, told))
    for name, cases in rows.items():
        suite = junit.add_suite(root, name, len(cases), Counter(kind for _, kind, _ in cases if kind))
        for case_name, kind, message in cases:
            case = junit.add_case(suite, name, case_name)
            if kind is not None:
                junit.add_result(case, kind, literal(message), text)
        junit.add_output(suite, text)
    return junit.document(root)


def error_junit(message: str) -> str:
    """Return JUnit XML for an error that keeps the gate from judging."""
    root = junit.suites(NAME)
    case = junit.add_case(junit.add_suite(root, NAME, 1, {"error": 1}), NAME, "the gate can judge")
    junit.add_result(case, "error", literal(message), literal(message))
    return junit.document(root)


def to_summary(result: GateResult) -> str:
    return _beside_repository(to_markdown(gate_doc(result)), markdown_cell)


def error_summary(message: str) -> str:
    """Return the page for an error that keeps the gate from judging."""
    return f"## Gate: not judged\n\n{markdown_cell(_beside_repository(message))}\n"


def append_summary(text: str, path: Path | None = None) -> None:
    """Append a page to a file, and to the summary of this step of GitHub Actions, if it is one. Raises OSError."""
    named = os.environ.get("GITHUB_STEP_SUMMARY")
    for each in filter(None, (path, Path(named) if named else None)):
        each.parent.mkdir(parents=True, exist_ok=True)
        with each.open("a", encoding="utf-8") as file:
            file.write(text)


def annotation(result: GateResult) -> str:
    """Return the workflow command with the outcome, at the line of a crash or hang, or of code that no trial ran."""
    broken = next((str(reason.numbers["error"]) for reason in result.reasons if reason.code in ("crash", "hang")), "")
    place = place_in(broken)
    if place is None and result.unrun:
        file, spans = next(iter(result.unrun.items()))
        place = (file, int(spans[0].partition("–")[0]))
    return workflow_command(LEVELS[result.outcome], title_of(result), str(gate_doc(result)), place)


def workflow_command(level: str, title: str, message: str, place: tuple[str | Path, int] | None = None) -> str:
    """Return `::error title=…::…`, escaped like GitHub's toolkit does (packages/core/src/command.ts), at a place in a file.

    Empty outside GitHub Actions.
    """
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return ""
    properties = {} if place is None else {"file": _beside_repository(str(place[0])), "line": str(place[1])}
    properties["title"] = f"{NAME}: {title}"
    each = (f"{name}={_escaped(value).replace(':', '%3A').replace(',', '%2C')}" for name, value in properties.items())
    return f"::{level} {','.join(each)}::{_escaped(_beside_repository(message))}"


def _beside_repository(content: str, escaped: Callable[[str], str] = str) -> str:
    """Return a text without the repository's folder before the files in it."""
    workspace = os.environ.get("GITHUB_WORKSPACE", "").rstrip("/")
    return content.replace(escaped(f"{workspace}/"), "") if workspace else content


def _escaped(content: str) -> str:
    return terminal_safe(content).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
