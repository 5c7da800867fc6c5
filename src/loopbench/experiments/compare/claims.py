"""Wrong answers that loops gave as if they were done: how many of each, in words, where loops differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loopbench.text.counts import MAX_NAMES

from .matrix import NOT_APPLICABLE, AnswerRow

MAX_COLUMNS = 2
"""Columns that are told one by one; more are added up."""


@dataclass(frozen=True, slots=True)
class FalseClaims:
    """How many trials of a loop ended with a wrong answer given as done, of those that were scored."""

    loop: str
    wrong: int
    scored: int


def claims_in_words(rows: Sequence[AnswerRow], headings: Sequence[str]) -> tuple[str, str]:
    """Return which loops gave wrong answers as done, without a full stop, and the same in fewer words.

    Both are empty where it is not known of every loop, or where all loops gave equally many of equally many trials. `headings`: the
    column's, of which one alone is not named.
    """
    differing = [(heading, found) for number, heading in enumerate(headings) if _differ(found := list(_in_column(rows, number)))]
    if not differing:
        return "", ""
    together = [_added_up(row, len(headings)) for row in rows]
    all_of_them = [each for each in together if each is not None]
    brief = f"Wrong answers given as done{_range(all_of_them)}"
    if len(headings) == 1 or len(differing) > MAX_COLUMNS:
        return f"Wrong answers given as done{_counts(all_of_them)}", brief
    parts = "; ".join(f"under {heading}{_counts(found)}" for heading, found in differing)
    return f"Wrong answers given as done {parts}", brief


def _in_column(rows: Sequence[AnswerRow], number: int) -> Iterator[FalseClaims]:
    for row in rows:
        cell = row.cells[number]
        if cell is not None and cell.place != NOT_APPLICABLE and cell.arm.summary.false_success is not None:
            yield FalseClaims(row.loop, cell.arm.summary.false_success, cell.arm.summary.scored)


def _added_up(row: AnswerRow, columns: int) -> FalseClaims | None:
    """Return a loop's claims over all columns; None where it did not run in each of them."""
    found = [each for number in range(columns) for each in _in_column([row], number)]
    if len(found) < columns:
        return None
    return FalseClaims(row.loop, sum(each.wrong for each in found), sum(each.scored for each in found))


def _differ(found: Sequence[FalseClaims]) -> bool:
    return len({each.wrong for each in found}) > 1


def _counts(found: Sequence[FalseClaims]) -> str:
    """Return `, of 120 trials: finish 6, bare none`; of many loops those with the most and with the fewest."""
    ordered = sorted(found, key=lambda each: -each.wrong)
    shown = ordered if len(ordered) <= MAX_NAMES else [ordered[0], ordered[-1]]
    scored = {each.scored for each in ordered}
    of = [f" of {each.scored:,}" if len(scored) > 1 else "" for each in shown]
    told = [f"{each.loop} {each.wrong or 'none'}{trials}" for each, trials in zip(shown, of, strict=True)]
    listed = ", ".join(told) if len(shown) == len(ordered) else f"from {told[-1]} to {told[0]}"
    return f", of {ordered[0].scored:,} trials: {listed}" if len(scored) == 1 else f": {listed}"


def _range(found: Sequence[FalseClaims]) -> str:
    """Return `, of 120: bare none to finish 6`, in fewer words; as `_counts` where trials differ in number or loops are two."""
    ordered = sorted(found, key=lambda each: each.wrong)
    if len(ordered) < 3 or len({each.scored for each in ordered}) > 1:
        return _counts(found)
    least, most = (f"{each.loop} {each.wrong or 'none'}" for each in (ordered[0], ordered[-1]))
    return f", of {ordered[0].scored:,}: {least} to {most}"
