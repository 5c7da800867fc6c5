"""What the laws find on a loop, as a document."""

from __future__ import annotations

from collections.abc import Sequence

from whichloop.text.doc import Cell, Doc, Table, lines_of

from .check import LAWS, NOT_CHECKED
from .law import Finding


def loop_doc(name: str, findings: Sequence[Finding]) -> Doc:
    """Return the laws that do not hold or do not apply, how many hold, and behind it all laws."""
    says = {law.name: law.says for law in LAWS}
    results = {"ok": Cell("ok", "good"), "failed": Cell("FAILED", "bad"), "not applicable": Cell("not applicable", "warn")}
    told = [finding for finding in findings if finding.status != "ok" and finding.detail != NOT_CHECKED]
    unchecked = sum(finding.detail == NOT_CHECKED for finding in findings)
    holding, failed = (sum(finding.status == status for finding in findings) for status in ("ok", "failed"))
    blocks = (
        Table("", ("law", "result", "why"), tuple((finding.law, results[finding.status], finding.detail) for finding in told)),
        lines_of(
            ("Hold", f"{holding} of {len(findings)} laws"),
            ("Broken", f"{failed} of {len(findings)} laws" if failed else ""),
            ("Unchecked", f"{unchecked} laws{NOT_CHECKED.removeprefix('not checked')}" if unchecked else ""),
        ),
        Table("Laws", ("law", "result", "it says"), tuple((f.law, results[f.status], says[f.law]) for f in findings), detail=True),
    )
    data = {"loop": name, "ok": not failed, "laws": [finding.as_dict() for finding in findings]}
    return Doc(f"loop {name}", blocks if told else blocks[1:], data)
