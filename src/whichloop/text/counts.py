"""Counts as text. It imports nothing heavy, so that one trial is shown at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from whichloop.protocol.values import counted, joined

if TYPE_CHECKING:
    from whichloop.metrics.outlook import Chance, Outlook

Name = TypeVar("Name", bound=str)
MAX_REASONS = 3
MAX_REASON_CHARS = 160


def counts(numbers: Mapping[Name, int]) -> str:
    """Return numbers by name as `finished 109, error_valve 8`, the largest first."""
    return ", ".join(f"{name} {n}" for name, n in sorted(numbers.items(), key=lambda item: (-item[1], item[0]))) or "–"


def reasons(numbers: Mapping[str, int], most: int = MAX_REASONS) -> str:
    """Return the most frequent reasons, as they were given, with their counts: `12 × no reply; 3 × TypeError: x; and 2 others`."""
    ordered = sorted(numbers.items(), key=lambda item: (-item[1], item[0]))
    text = "; ".join(f"{n} × {_beginning(reason)}" for reason, n in ordered[:most])
    return text + (f"; and {counted(len(ordered) - most, 'other')}" if len(ordered) > most else "")


def _beginning(reason: str) -> str:
    """Return a reason, or of a long one as many of its first words as there is room for; a word that is longer is cut."""
    if len(reason) <= MAX_REASON_CHARS:
        return reason
    head = reason[:MAX_REASON_CHARS]
    return f"{head if reason[MAX_REASON_CHARS].isspace() else head.rpartition(' ')[0] or head} …"


MAX_NAMES = 4
"""Names that a sentence lists; of more it says how many."""


def tasks_in_words(size: Chance, outlook: Outlook) -> str:
    """Return `480 tasks`, `480 tasks × 20` where each has several trials, or `480 tasks × 2 (the median)` of unequal numbers."""
    repeats, of = outlook.repeats, " (the median)" if outlook.is_median else ""
    return f"{counted(size.tasks, 'task')}{f' × {repeats:,}{of}' if repeats > 1 or of else ''}"


def trials_of(number: int, of: int | None) -> str:
    """Return `14 of 40 trials`, or `14 trials` where it is not known of how many."""
    return counted(number, "trial") if of is None else f"{number:,} of {counted(of, 'trial')}"


def first_of(items: Sequence[str], most: int, separator: str = ", ", rest: str = "and {} more") -> str:
    """Return so many of the items, and how many more there are: `a, b, and 3 more`."""
    further = len(items) - most
    return separator.join([*items[:most], *([rest.format(further)] if further > 0 else [])])


def listed_names(names: Sequence[str]) -> str:
    """Return `a`, `a and b`, `a, b and c`; of more than four names the first ones and how many others."""
    if len(names) > MAX_NAMES:
        return f"{', '.join(names[: MAX_NAMES - 1])} and {len(names) - MAX_NAMES + 1} others"
    return joined(names)
