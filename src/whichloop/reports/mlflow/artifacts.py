"""What MLflow shows of an optimization: programs as files, the verdict as a note, the ranking as a table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from whichloop.experiments.optimize.candidates import Candidate
from whichloop.metrics.statistics import Interval
from whichloop.protocol import render_value
from whichloop.protocol.digest import seal_document
from whichloop.protocol.names import without_process
from whichloop.protocol.program import ABOUT
from whichloop.protocol.redact import redact
from whichloop.text.table import markdown_cell

from .board import DesignRow
from .store import interval_metrics


def safe_json(value: Any) -> str:
    """Return a value as JSON, without secrets and without characters that UTF-8 lacks: models may write either."""
    return redact(render_value(json.dumps(value, indent=2, ensure_ascii=False))) + "\n"


def program_file(design: DesignRow, candidate: Candidate) -> str:
    """Return a candidate's program as a file that `--loop NAME@FILE` takes, without secrets."""
    state: dict[str, Any] = {
        name: {"signature": {"instructions": prompt.instructions}, "demos": [dict(demo) for demo in prompt.demos]}
        for name, prompt in candidate.program.items()
    }
    about = {"loop": design.about.loop, "options": design.about.options, "candidate": candidate.number}
    return seal_document(safe_json({**state, ABOUT: about}).encode("utf-8")).decode("utf-8")


def interval(written: Mapping[str, Any] | None) -> Interval | None:
    """Return the interval that `Interval.as_dict` wrote; None if there is none."""
    return None if written is None else Interval.from_dict(written)


def note(result: Mapping[str, Any]) -> str:
    """Return the verdict in a few lines of Markdown."""
    optimizer, state = without_process(result["optimizer"]["spec"]), result["state"]
    lines = [f"Optimized with `{optimizer}`.{f' {state}.' if state else ''}", ""]
    if result["invalid"]:
        lines.append("**Invalid: no verdict of this run holds.**")
    lines += [_gain(item) for item in result["designs"]]
    sentences = [item[name] for name in ("advice", "cut_off") for item in result["designs"] if item[name]]
    if items := [f"- {markdown_cell(sentence)}" for sentence in sentences]:
        lines += ["", *items]
    ranking = result["ranking"]
    if ranking is not None and ranking["highest_before"] is not None:
        before, after = ranking["highest_before"], ranking["highest_after"]
        another = f"`{before}` is the highest before, `{after}` after ({ranking['change']})."
        lines += ["", f"`{before}` is the highest before and after." if before == after else another]
    return "\n".join(lines)


def _gain(item: Mapping[str, Any]) -> str:
    test = item["test"]
    if test is None or test["difference"] is None:
        return f"- `{item['design']}`: {item['status']}, not tested"
    before, after, gain = test["before"]["value"], test["after"]["value"], test["difference"]
    interval = f"{gain['value']:+z.3f} [{gain['low']:+z.3f}, {gain['high']:+z.3f}]"
    return f"- `{item['design']}`: {before:.3f} → {after:.3f}, {interval}, **{test['verdict']}**, p {test['p_holm']:.3g} (Holm)"


_RANKED = ("design", "place_before", "before", "before_low", "before_high", "place_after", "after", "after_low", "after_high")


def ranking_table(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ranking in the form of MLflow's tables: a row per design, the most accurate after optimization first."""
    ranking = result["ranking"] or {"before": [], "after": []}
    before = {item["design"]: item for item in ranking["before"]}
    after = {item["design"]: item for item in ranking["after"]}
    ordered = [*after, *(design for design in before if design not in after)]
    rows = [{"design": design} | _place("before", before.get(design)) | _place("after", after.get(design)) for design in ordered]
    return {"columns": list(_RANKED), "data": [[row.get(name) for name in _RANKED] for row in rows]}


def _place(when: str, item: Mapping[str, Any] | None) -> dict[str, Any]:
    return {} if item is None else {f"place_{when}": item["place"], **interval_metrics(when, interval(item["accuracy"]))}
