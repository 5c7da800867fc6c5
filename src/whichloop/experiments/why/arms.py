"""Looking up arms and pairs by the name of an arm, or of a loop, which means all of its arms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from whichloop.experiments.compare.results import Results
from whichloop.metrics.trajectory.causes import Cause
from whichloop.protocol.names import SCRIPTED, meant, near, several
from whichloop.protocol.values import counted
from whichloop.runs.store.files import RunError
from whichloop.text.numbers import reasons, short_name

from .why import ArmLosses, Kinds, Why, comparable


def arms_named(run: Results, name: str) -> list[str]:
    """Return the arm of that name, or the arms of that loop, with or without its version; empty if there are none.

    A part of a name will do if only one loop, or only one arm, has it. Raises RunError, with their names, if several have it.
    """
    infos = [arm.info for arm in run.comparison.arms]
    arms = [info.arm for info in infos]
    matching = [name] if name in arms else [arm for arm in arms if arm.startswith(f"{name}/") or _unversioned(run, arm) == name]
    if matching:
        return matching
    loops = meant(name, list(dict.fromkeys(map(short_name, infos))))
    if len(loops) == 1:
        return [info.arm for info in infos if short_name(info) == loops[0]]
    matching = meant(name, arms)
    if len(matching) > 1:
        raise RunError(f"{run.folder}: {name!r} matches {len(matching)} arms: {several(matching)}")
    return matching


def _unversioned(run: Results, arm: str) -> str | None:
    """Return the loop of an arm without its version; None for an arm without one."""
    entry = run.manifest.arm(arm)
    if entry is None or not entry.version:
        return None
    condition = entry.profile if entry.model == SCRIPTED else entry.model
    return arm.removesuffix(f"/{condition}").replace(f"@{entry.version}", "", 1)


def pairs_named(run: Results, a: str, b: str) -> Sequence[tuple[str, str]]:
    """Return the comparable pairs between two arms or loops.

    Raises RunError for an unknown name, and for arms without the same tasks and profile.
    """
    comparable_pairs = set(comparable(run))
    pairs = [
        (one, two) for one in required_arms(run, a) for two in required_arms(run, b) if {(one, two), (two, one)} & comparable_pairs
    ]
    if not pairs:
        raise RunError(f"{run.folder}: {a} and {b} are not two arms with the same tasks and profile")
    return pairs


def required_arms(run: Results, name: str) -> list[str]:
    """Return what `arms_named` returns. Raises RunError, with the names of the arms, if that is nothing."""
    arms = arms_named(run, name)
    if not arms:
        arm_names = [arm.info.arm for arm in run.comparison.arms]
        suggestion = near(name, [*map(short_name, (arm.info for arm in run.comparison.arms)), *arm_names])
        raise RunError(f"{run.folder}: no arm {name!r}; {f'{suggestion} ' if suggestion else ''}there are {', '.join(arm_names)}")
    return arms


WIRE = "wire."
"""Family of the faults of replies, which are called by their kind alone: `fenced`."""
NO_FAULT = "no known fault"


def kind_name(fault: str) -> str:
    """Return `fenced` for `wire.fenced`; other kinds by their whole names."""
    return fault.removeprefix(WIRE) or NO_FAULT


def counts_in_words(causes: Mapping[Cause, int], kinds: Kinds) -> list[str]:
    """Return `parse 23 (fenced 18, malformed 5)`, `termination 1`: trials by cause, and those of unreadable replies by kind."""
    return [f"{cause} {many}{_split(kinds.get(cause, {})) if cause == 'parse' else ''}" for cause, many in causes.items()]


def _split(kinds: Mapping[str, int]) -> str:
    if not any(kinds):
        return ""
    return f" ({', '.join(f'{kind_name(fault)} {many}' if len(kinds) > 1 else kind_name(fault) for fault, many in kinds.items())})"


def shares_in_words(kinds: Mapping[str, int]) -> str:
    """Return `75 % fenced, 25 % malformed`: the kinds of fault of one cause; empty where none is known."""
    total = sum(kinds.values())
    return ", ".join(f"{100 * many / total:.0f} % {kind_name(fault)}" for fault, many in kinds.items()) if any(kinds) else ""


def numbers_in_words(kinds: Mapping[str, int]) -> str:
    """Return `fenced 18 (75 %), malformed 6 (25 %)`: the same with the number of trials."""
    total = sum(kinds.values())
    each = (f"{kind_name(fault)} {many} ({100 * many / total:.0f} %)" for fault, many in kinds.items())
    return ", ".join(each) if any(kinds) else ""


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
