"""The gate's result as JUnit XML: a suite per arm and a test per metric, so that as many tests fail as metrics got worse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from whichloop.experiments.gate.changes.traced_trials import DOUBLED, altered_text, altered_title
from whichloop.experiments.gate.data.troubles import literal
from whichloop.metrics.gate import GateLine
from whichloop.metrics.summary import PRIMARY
from whichloop.text import junit

from ..data.outcome import GateArm, GateResult, OnUndecided, OnWorseHere
from .github import break_groups, cause_text, cause_title, lost_otherwise, other_ends, stop_text
from .line_words import break_title, breaks, growth_text, losses, shown_stops, tasks_in_words, title, value_in_words, worst_text
from .next_steps import next_steps
from .sentences import further_lines, headline, held_to_its_margin
from .text import for_a_server, other_stops, outlooks, task_text

_UNDECIDED: Mapping[OnUndecided, str | None] = {"undecided": "skipped", "fail": "failure", "pass": None}
_WORSE_HERE: Mapping[OnWorseHere, str | None] = {"fail": "failure", "pass": None}
MAX_STOPS = 9
"""Kinds of other stops in a failure; the suite's output has all."""


def to_junit(result: GateResult, on_undecided: OnUndecided = "undecided", on_worse_here: OnWorseHere = "fail") -> str:
    """Return JUnit XML.

    Each failed or skipped metric has its own numbers, that of accuracy the causes of lost tasks, too, and the suite's output the
    changed tasks. An undecided metric is skipped, or a
    failure on request, and one that is worse here a failure, or none on request; an invalid one is an error.
    """
    kinds = {
        "regression": "failure",
        "undecided": _UNDECIDED[result.undecided_as(on_undecided)],
        "worse here": _WORSE_HERE[on_worse_here],
    }
    root = junit.suites("whichloop gate")
    if result.reasons:
        case = junit.add_case(junit.add_suite(root, "whichloop gate", 1, {"error": 1}), "whichloop gate", "the run is valid")
        junit.add_result(case, "error", headline(result), "\n".join(result.reasons))
    if result.fails_for_answers and result.other_answers is not None:
        suite = junit.add_suite(root, "whichloop gate", 1, {"failure": 1})
        case = junit.add_case(suite, "whichloop gate", "the answers are those of the baseline")
        sentence = literal(result.other_answers.sentence)
        steps = [step.brief for step in next_steps(result)[:1]]
        body = "\n".join([sentence, *(literal(line) for line in (result.other_answers.command, *steps) if line)])
        junit.add_result(case, "failure", sentence, body)
    for arm in result.arms:
        _add_arm(root, result, arm, kinds)
    return junit.document(root)


def error_junit(message: str) -> str:
    """Return JUnit XML for an error that keeps the gate from judging."""
    root = junit.suites("whichloop gate")
    case = junit.add_case(junit.add_suite(root, "whichloop gate", 1, {"error": 1}), "whichloop gate", "the gate can judge")
    junit.add_result(case, "error", f"not judged: {literal(message)}", literal(message))
    return junit.document(root)


def _add_arm(root: junit.Element, result: GateResult, arm: GateArm, kind_of: Mapping[str, str | None]) -> None:
    """Add an arm's suite. `kind_of`: outcome of a line → the kind of its result; a test of another outcome passes."""
    kinds = [*(["failure"] if arm.hangs else []), *(kind_of.get(line.outcome) for line in arm.lines)]
    suite = junit.add_suite(root, arm.arm, len(kinds), Counter(kind for kind in kinds if kind is not None))
    of_arm = replace(
        result,
        tasks=tuple(change for change in result.tasks if change.arm == arm.arm),
        stops=tuple(change for change in result.stops if change.arm == arm.arm),
        altered=tuple(group for group in result.altered if group.arm == arm.arm),
        unit="task",
    )
    causes = "\n".join(
        [
            *(f"{literal(break_title(group, arm.trials))}\n{stop_text(group)}" for group in break_groups(of_arm)[:MAX_STOPS]),
            *(f"{literal(altered_title(group))}\n{altered_text(group)}" for group in of_arm.altered),
            *(f"{literal(cause_title(group))}\n{cause_text(group)}" for group in lost_otherwise(of_arm)),
            *(f"{literal(title(group))}\n{stop_text(group)}" for group in other_ends(of_arm)[:MAX_STOPS]),
        ]
    )
    if arm.hangs:
        junit.add_result(junit.add_case(suite, arm.arm, "trials end"), "failure", literal(arm.hangs), causes)
    for line in arm.lines:
        case, kind = junit.add_case(suite, arm.arm, line.metric), kind_of.get(line.outcome)
        if kind is not None:
            junit.add_result(case, kind, f"{of_arm.word_of(line)}: {_message(of_arm, arm, line)}", _evidence(of_arm, line, causes))
    tasks = "\n".join(map(task_text, of_arm.tasks))
    junit.add_output(
        suite,
        "\n".join([headline(result), *further_lines(result), *for_a_server(of_arm), *other_stops(shown_stops(of_arm)), tasks]),
    )


def _evidence(of_arm: GateResult, line: GateLine, causes: str) -> str:
    """Return what the outcome of one line rests on: its own numbers, what more tasks may decide, and the trials that show it.

    `of_arm`: the result of its arm alone. `causes`: what accuracy was lost to.
    """
    course = " → ".join(value_in_words(line, value) for value in (line.baseline, line.run))
    evidence = [causes] if line.metric == PRIMARY else []
    if line.metric != PRIMARY:
        evidence = [growth_text(of_arm, line), worst_text(of_arm, line)]
    if line.metric == DOUBLED:
        evidence += [altered_text(altered) for altered in of_arm.altered if altered.cause == "added call"]
    return "\n".join(filter(None, [f"{line.metric} {course}: {held_to_its_margin(line)}", *outlooks([line]), *evidence]))


def _message(of_arm: GateResult, arm: GateArm, line: GateLine) -> str:
    """Return why a line has its outcome; `of_arm`: the result of its arm alone.

    The numbers of one that is undecided since no trial tests a new default limit say nothing of that.
    """
    if line.metric == PRIMARY and arm.limit_alone:
        return literal("; ".join(sentence for limit in arm.limits for sentence in limit))
    broke = breaks(of_arm.stops, arm.trials) if line.metric == PRIMARY and not arm.hangs else ()
    alone = replace(of_arm, arms=(arm,))
    lost_here = [losses(alone, [line])] if line.outcome == "worse here" else []
    lost = tasks_in_words(alone)[:1] if line.metric == PRIMARY and line.outcome == "regression" else ()
    return "; ".join([*(literal(stop_line[0]) for stop_line in broke), *lost_here, *lost, held_to_its_margin(line)])
