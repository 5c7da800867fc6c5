"""What is known of lost trials without a trace, as of an imported table: how they ended, their grades, and never the step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from whichloop.experiments.compare.results import Results
from whichloop.protocol.values import counted
from whichloop.text.numbers import reasons

from .why import ArmLosses, Why

TABLE = "csv"
"""Format of an imported table, whatever file it stands in."""


MAX_ENDS = 5
"""Ends of lost trials that are told of an arm, the most frequent first."""


def untraced_in_words(run: Results, why: Why) -> str:
    """Return of how many lost trials the step that lost them is not known, and how many of them say nothing of their end."""
    one, several = "lost trial has no trace: the step that lost it is", "lost trials have no trace: the steps that lost them are"
    text = f"{counted(why.untraced, one, several)} not known"
    silent = sum(arm.ended.get("", 0) for arm in why.arms)
    if silent:
        who = f"{silent} of them" if silent < why.untraced else "it" if silent == 1 else "they"
        text = f"{text}, nor how {who} ended"
    imported = run.manifest.imported
    if imported is not None and imported.format == TABLE:
        text = f"{text}. A table may tell how a trial ended, in columns error and stop; for the step, import traces"
    return f"{text}."


def errored_in_words(arms: Sequence[ArmLosses]) -> str:
    """Return how many trials of each arm are errored, and for which reasons; empty where none is."""
    errored: Counter[str] = Counter()
    for arm in arms:
        errored.update(arm.errored)
    if not errored:
        return ""
    by_arm = ", ".join(f"{arm.arm} {sum(arm.errored.values())}" for arm in arms if arm.errored)
    return f"Errored and left out, neither lost nor solved: {by_arm} ({reasons(errored)})."


def grades_in_words(arms: Sequence[ArmLosses]) -> str:
    """Return that a trial is lost below the full score, where most lost ones have a part of it; empty where they do not."""
    lost, partly = sum(arm.lost for arm in arms), sum(arm.partly for arm in arms)
    if 2 * partly <= lost:
        return ""
    return f"Lost is any trial below the full score; scores are grades here, and {partly} of the {lost} have a part of it."


def how_they_ended(arm: ArmLosses) -> str:
    """Return how lost trials without a trace ended, as far as their records say; empty where none does."""
    known_ends = {how: many for how, many in arm.ended.items() if how}
    silent = arm.ended.get("", 0)
    return f"{reasons(known_ends, MAX_ENDS)}{f'; of {silent} nothing says how they ended' if silent else ''}" if known_ends else ""
