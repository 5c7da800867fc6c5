"""What a cause of losses came from, in words: which kinds of fault, and how many trials each."""

from __future__ import annotations

from collections.abc import Mapping

from whichloop.metrics.trajectory.causes import Cause

from .why import Kinds

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
