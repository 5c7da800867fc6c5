"""Warnings of a comparison whose arms lack tasks: which are left out, by what, and over how many two arms were compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from textwrap import shorten

from whichloop.protocol.values import counted

from .record import UNREPLAYABLE, Record
from .record_table import alike

MAX_LEFT_OUT = 0.1
"""Share of tasks that an arm left out (quarantined, without a plan, not in a file), beyond which a warning says so."""
MAX_REASON_CHARS = 240
"""Characters of the reason that a warning shows."""
BLANK_SCORE = "the score is blank"
"""Reason of an errored trial of an imported table, of which nothing says that an error ended it."""
_WORD_FOR_BLANK = "the score is '"
"""How such a reason begins where the cell spells it: the score is 'N/A'."""
AS_FAILURES = "--errors-as-failures"


def blank_score(text: str) -> str:
    """Return the reason of a trial whose score is blank, or spells that there is none: `N/A`."""
    return f"{_WORD_FOR_BLANK}{text}'" if text else BLANK_SCORE


def excluded_warnings(records: Sequence[Record]) -> tuple[list[str], list[str]]:
    """Tell how many tasks a broken tool or plan has excluded, unasked, which makes a run invalid, and how many arms leave out."""
    excluded = [record for record in alike(records) if record.status == "excluded"]
    broken = [record for record in excluded if record.reason.startswith(UNREPLAYABLE)]
    asked_for = [record for record in excluded if not record.reason.startswith(UNREPLAYABLE)]
    tasks, unreplayable = counted(_tasks(records), "task"), []
    if broken:
        why = most_frequent(Counter(record.reason.removeprefix(UNREPLAYABLE) for record in broken))
        out = counted(_tasks(broken), f"of {tasks} is left out because its plan", f"of {tasks} are left out because their plans")
        does = "does" if _tasks(broken) == 1 else "do"
        mend = "mend the tools or the plans, or name the tasks in a --quarantine file"
        unreplayable.append(f"{out} {does} not replay{why}. The run is invalid: {mend}.")
    return unreplayable, _left_out_by_arm(records, asked_for) if asked_for else []


def _left_out_by_arm(records: Sequence[Record], excluded: Sequence[Record]) -> list[str]:
    """Tell how many tasks arms leave out: those that leave out the same ones in one sentence, which names no arm if all do."""
    # a task whose other repeats are scored is not left out: arms may have unequal repeats
    scored = {(record.arm, record.task) for record in alike(records) if record.status == "scored"}
    lost: dict[str, list[Record]] = {}
    for record in excluded:
        if (record.arm, record.task) not in scored:
            lost.setdefault(record.arm, []).append(record)
    arms_of: dict[frozenset[str], list[str]] = {}
    for arm, own in sorted(lost.items()):
        arms_of.setdefault(frozenset(record.task for record in own), []).append(arm)
    every, tasks = len({record.arm for record in alike(records)}), _tasks(records)
    warnings = []
    for gone, arms in arms_of.items():
        if len(gone) > MAX_LEFT_OUT * tasks:
            why = most_frequent(Counter(record.reason for arm in arms for record in lost[arm]))
            who = "" if len(arms) == every else f"{', '.join(arms)}: "
            of = counted(tasks, "task")
            warnings.append(f"{who}{counted(len(gone), f'of {of} is', f'of {of} are')} left out{why}.")
    return warnings


def overlap_warnings(scored: Mapping[str, int], common: Mapping[tuple[str, str], int]) -> tuple[list[str], list[str]]:
    """Tell of pairs that have no task in common, and of those that were compared on fewer tasks than an arm's accuracy is over.

    `scored`: arm → its scored tasks. `common`: pair of arms → the tasks that are scored in both.
    """
    none = [pair for pair, n in common.items() if n == 0]
    named = "" if not none else f"{none[0][0]} and {none[0][1]}"
    several = f"{counted(len(none), 'pair')}, such as {named}" if len(none) > 1 else named
    apart = [f"{several}: no task was scored in both."] if none else []
    partial = {(a, b): n for (a, b), n in common.items() if 0 < n < (1 - MAX_LEFT_OUT) * max(scored[a], scored[b])}
    if not partial:
        return apart, []
    (a, b), n = min(partial.items(), key=lambda item: item[1])
    both = f"{counted(n, 'task')} that both were scored on, of {scored[a]:,} and {scored[b]:,}"
    if len(partial) == 1:
        return apart, [f"{a} and {b} are compared on the {both}: their accuracies are not over the same tasks."]
    many = f"{len(partial)} pairs are compared on fewer tasks than their accuracies are over"
    return apart, [f"{many}: {a} and {b} on the {both}."]


def made_failures(errored: Sequence[Record], *, imported_so: bool) -> str:
    """Return what makes errored trials of an imported run failures of the agent's own, where that is what they are.

    `imported_so`: the run was imported with that flag, so that it does not apply to what is still errored.
    """
    if all(record.reason == BLANK_SCORE or record.reason.startswith(_WORD_FOR_BLANK) for record in errored):
        return f"write 0 as their score, or name the column that says which error ended them: --map error=COLUMN {AS_FAILURES}"
    if imported_so:
        return f"{AS_FAILURES} does not apply to trials that no error ended, that could not be scored, or never ran: score them 0"
    return f"import with {AS_FAILURES}"


def most_frequent(reasons: Mapping[str, int]) -> str:
    """Return the most frequent reason as the end of a sentence; empty if no trial has one."""
    reason, are_several = _most_frequent(reasons)
    return f", {'most often' if are_several else 'all of them'} because of: {reason}" if reason else ""


def most_told(told: Mapping[str, int]) -> str:
    """Return what is told of most trials as the end of a sentence, where it says what happened; empty if nothing is told of any."""
    what, are_several = _most_frequent(told)
    return f"{', most often' if are_several else ''}: {what}" if what else ""


def _most_frequent(texts: Mapping[str, int]) -> tuple[str, bool]:
    """Return the text of most trials, shortened, and whether there are others; empty where no trial has any."""
    counts = {text: count for text, count in texts.items() if text}
    most = max(counts, key=lambda text: counts[text], default="")
    return shorten(most, MAX_REASON_CHARS, placeholder=" …").rstrip("."), len(counts) > 1


def _tasks(records: Sequence[Record]) -> int:
    return len({record.task for record in alike(records)})
