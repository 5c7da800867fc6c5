"""The gate's result as JUnit XML: a suite per arm and a test per metric, so that as many tests fail as metrics got worse."""

from __future__ import annotations

from collections import Counter

from loopbench.metrics.gate import GateLine
from loopbench.metrics.summary import PRIMARY
from loopbench.text import junit

from .losses import cause_text, cause_title, lost, stop_text
from .outcome import GateArm, GateResult
from .outputs import OnUndecided, headline, held_to_its_margin, literal, other_stops, paragraphs, task_text
from .stop_words import beside_losses, crashes, groups, title

MAX_STOPS = 9
"""Kinds of other stops in a failure; the suite's output has all."""


def to_junit(result: GateResult, on_undecided: OnUndecided = "undecided") -> str:
    """Return JUnit XML.

    The failure lists the causes of lost tasks, and the suite's output the changed tasks. An undecided metric is skipped, or a
    failure on request; an invalid one is an error.
    """
    root = junit.suites("loopbench gate")
    if result.reasons:
        case = junit.add_case(junit.add_suite(root, "loopbench gate", 1, {"error": 1}), "loopbench gate", "the run is valid")
        junit.add_result(case, "error", headline(result), "\n".join(result.reasons))
    for arm in result.arms:
        _add_arm(root, result, arm, on_undecided)
    return junit.document(root)


def _add_arm(root: junit.Element, result: GateResult, arm: GateArm, on_undecided: OnUndecided) -> None:
    kinds = [*(["failure"] if arm.hangs else []), *(_kind(line, on_undecided) for line in arm.lines)]
    suite = junit.add_suite(root, arm.arm, len(kinds), Counter(kind for kind in kinds if kind is not None))
    changed = [change for change in result.tasks if change.arm == arm.arm]
    stops = [change for change in beside_losses(result) if change.arm == arm.arm]
    causes = "\n".join(
        [
            *(f"{literal(title(found))}\n{stop_text(found)}" for found in groups(stops)[:MAX_STOPS]),
            *(f"{literal(cause_title(found))}\n{cause_text(found)}" for found in lost(changed)),
        ]
    )
    if arm.hangs:
        junit.add_result(junit.add_case(suite, arm.arm, "trials end"), "failure", literal(arm.hangs), causes)
    for line in arm.lines:
        case, kind = junit.add_case(suite, arm.arm, line.metric), _kind(line, on_undecided)
        if kind is not None:
            crashed = crashes((change for change in result.stops if change.arm == arm.arm), arm.trials)
            new = [f"{literal(said)}; " for said in crashed] if line.metric == PRIMARY else []
            junit.add_result(case, kind, f"{line.outcome}: {''.join(new)}{held_to_its_margin(line)}", causes)
    tasks = "\n".join(map(task_text, changed))
    junit.add_output(suite, "\n".join([headline(result), *paragraphs(result), *other_stops(stops), tasks]))


def _kind(line: GateLine, on_undecided: OnUndecided) -> str | None:
    if line.outcome == "undecided" and on_undecided != "pass":
        return "failure" if on_undecided == "fail" else "skipped"
    return "failure" if line.outcome == "regression" else None
