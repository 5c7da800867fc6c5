"""Wrong answers that loops gave as if they were done: how many of each, in words, where loops differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from whichloop.metrics.pairs import Pair
from whichloop.metrics.statistics import ALPHA, Interval, are_too_few_to_plan
from whichloop.protocol.values import counted, joined
from whichloop.text.numbers import MAX_NAMES, interval, p_value

from .matrix import NOT_APPLICABLE, AnswerCell, AnswerRow

RATE = "false_success_rate"
MAX_TESTED = 2
"""Pairs that a paired test tells apart and that are named; of more it is said how many."""
MAX_COLUMNS = 2
"""Columns that are told one by one; more are added up."""


@dataclass(frozen=True, slots=True)
class FalseClaims:
    """How many trials of a loop ended with a wrong answer given as done, of those that were scored."""

    loop: str
    wrong: int
    scored: int
    rate: Interval | None = None
    """The share of its trials, of one column."""


def claims_in_words(
    rows: Sequence[AnswerRow], headings: Sequence[str], adopted: Sequence[str] = (), pairs: Sequence[Pair] = ()
) -> tuple[str, str, str]:
    """Return which loops gave wrong answers as done, without a full stop, the same in fewer words, and in the fewest.

    The last is empty where there is no pair to leave out. All are empty where it is not known of every loop, or where all loops
    gave equally many of equally many trials. Dead arms are left out, since what they gave says nothing of an agent.
    `headings`: the column's, of which one alone is not named. `adopted`: the loops of which one is to be adopted, which are always
    among the named ones; where the first of them gave more than the most accurate other one, both counts have their intervals.
    `pairs`: of arms on `RATE`, by which loops are told apart where a paired test shows it.
    """
    differing = [
        (heading, by_column) for number, heading in enumerate(headings) if _differ(by_column := list(_in_column(rows, number)))
    ]
    if not differing:
        return "", "", ""
    told = list(_told_apart(rows, headings, adopted, pairs))
    tested, tested_brief = _tested(told, headings), _tested_in_few_words(told, headings, MAX_TESTED)
    together = [_added_up(row, len(headings)) for row in rows]
    all_of_them = [each for each in together if each is not None]
    counts_brief = f"Wrong answers given as done{_range(all_of_them, adopted)}"
    brief = f"{counts_brief}{tested_brief}"
    briefest = f"{counts_brief}{_tested_in_few_words(told, headings, 1)}" if len(told) > 1 else ""
    if len(headings) == 1 or len(differing) > MAX_COLUMNS:
        few = _without_intervals([all_of_them], adopted)
        return f"Wrong answers given as done{_counts(all_of_them, adopted)}{few}{tested}", brief, briefest
    few = _without_intervals([by_column for _, by_column in differing], adopted)
    parts = "; ".join(f"under {heading}{_counts(by_column, adopted)}" for heading, by_column in differing)
    return f"Wrong answers given as done {parts}{few}{tested}", brief, briefest


@dataclass(frozen=True, slots=True)
class ToldApart:
    """Two loops of which one gave more wrong answers as done in a column, by a paired test."""

    more: str
    fewer: str
    heading: str
    """The column's."""
    pair: Pair
    """The first minus the second."""


def _told_apart(
    rows: Sequence[AnswerRow], headings: Sequence[str], adopted: Sequence[str], pairs: Sequence[Pair]
) -> Iterator[ToldApart]:
    """Yield which loops gave more wrong answers as done by a paired test, column by column, the largest differences first.

    It compares the adopted loop with the others, or, where none is adopted, the loops with the fewest such answers.
    """
    for number, heading in enumerate(headings):
        loops = {cell.arm.info.arm: row.loop for row, cell in _counted_cells(rows, number)}
        wrong_by_loop = {each.loop: each.wrong for each in _in_column(rows, number)}
        least = min(wrong_by_loop.values(), default=0)
        about = {*adopted[:1]} & {*wrong_by_loop} or {loop for loop, wrong in wrong_by_loop.items() if wrong == least}
        own = [pair if pair.verdict.word == "worse" else pair.turned for pair in pairs if pair.verdict.word in ("better", "worse")]
        shown_pairs = [(loops[p.a], loops[p.b], p) for p in own if p.metric == RATE and {p.a, p.b} <= {*loops}]
        for more, fewer, pair in sorted(shown_pairs, key=lambda each: -each[2].difference.value):
            if more in about or fewer in about:
                yield ToldApart(more, fewer, heading, pair)


def _tested(told: Sequence[ToldApart], headings: Sequence[str]) -> str:
    """Return which pairs a paired test tells apart, as a sentence's end; of many the first ones, and how many more there are."""
    texts = []
    for each in _named(told, MAX_TESTED):
        p = p_value(each.pair.p_holm)
        under = f" under {each.heading}" if len(headings) > 1 else ""
        gap = f"{interval(each.pair.difference, 3)}, p {p if p.startswith('<') else f'= {p}'}"
        texts.append(f"{each.more} gave more than {each.fewer}{under} ({gap})")
    return _with_rest(texts, told, MAX_TESTED)


def _tested_in_few_words(told: Sequence[ToldApart], headings: Sequence[str], most: int) -> str:
    """Return the same without numbers: `; paired: phased more than finish under calm and rough, and 2 more pairs`.

    What holds of the same two loops under several profiles, or of several loops and the same one, is said once. `most`: pairs that
    are named where there are more.
    """
    unders: dict[tuple[str, str], tuple[str, ...]] = {}
    for each in _named(told, most):
        unders[each.more, each.fewer] = (*unders.get((each.more, each.fewer), ()), each.heading)
    loops: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (more, fewer), under in unders.items():
        loops.setdefault((fewer, under), []).append(more)
    where = [f" under {joined(under, 'and')}" if len(headings) > 1 else "" for _, under in loops]
    names = [f"{joined(more, 'and')} more than {fewer}" for (fewer, _), more in loops.items()]
    texts = [f"{these}{under}" for these, under in zip(names, where, strict=True)]
    return _with_rest(texts, told, most)


def _named(told: Sequence[ToldApart], most: int) -> Sequence[ToldApart]:
    """Return the pairs that are named: all of them, or so many where the others are several, of which it is said how many."""
    return told if most > 1 and len(told) == most + 1 else told[:most]


def _with_rest(texts: Sequence[str], told: Sequence[ToldApart], most: int) -> str:
    """Return named pairs as a sentence's end, and how many more there are. `most`: as of `_named`."""
    hidden = len(told) - len(_named(told, most))
    rest = f", and {counted(hidden, 'more pair')}" if hidden else ""
    return f"; paired: {', '.join(texts)}{rest}" if texts else ""


def _counted_cells(rows: Sequence[AnswerRow], number: int) -> Iterator[tuple[AnswerRow, AnswerCell]]:
    """Yield the rows whose answers in one column are those of an agent under a profile that applies to it, with their cells."""
    for row in rows:
        cell = row.cells[number]
        if cell is not None and cell.place != NOT_APPLICABLE and not cell.arm.death_cause:
            yield row, cell


def _in_column(rows: Sequence[AnswerRow], number: int) -> Iterator[FalseClaims]:
    for row, cell in _counted_cells(rows, number):
        summary = cell.arm.summary
        if summary.false_success is not None:
            yield FalseClaims(row.loop, summary.false_success, summary.scored, summary.false_success_rate)


def _added_up(row: AnswerRow, columns: int) -> FalseClaims | None:
    """Return a loop's claims over all columns; None where it did not run in each of them."""
    in_columns = [each for number in range(columns) for each in _in_column([row], number)]
    if len(in_columns) < columns:
        return None
    if columns == 1:
        return in_columns[0]
    return FalseClaims(row.loop, sum(each.wrong for each in in_columns), sum(each.scored for each in in_columns))


def _differ(claims: Sequence[FalseClaims]) -> bool:
    return len({each.wrong for each in claims}) > 1


def _weighed(claims: Sequence[FalseClaims], adopted: Sequence[str]) -> list[FalseClaims]:
    """Return the adopted loop and the most accurate other one, where the first gave more and the shares of both are known."""
    own = next((each for each in claims if each.loop in adopted[:1]), None)
    other = next((each for each in claims if each.loop not in adopted[:1]), None)
    if own is None or other is None or own.rate is None or other.rate is None or own.rate.value <= other.rate.value:
        return []
    return [own, other]


def _interval(claims: FalseClaims) -> str:
    """Return ` [8, 24]`: so many of as many trials, by the interval of the share; empty where tasks are too few for one."""
    if claims.rate is None or _few_units(claims.rate):
        return ""
    low, high = (round(end * claims.scored) for end in (claims.rate.low, claims.rate.high))
    return f" [{low:,}, {high:,}]"


def _few_units(rate: Interval) -> str:
    """Return the tasks of a share, or their clusters, where they are too few for its interval to be told; else empty."""
    units = rate.n if rate.units is None else rate.units
    if not are_too_few_to_plan(units, ALPHA, is_clustered=rate.units is not None):
        return ""
    return counted(units, "task") if rate.units is None else counted(units, "cluster")


def _without_intervals(by_column: Sequence[Sequence[FalseClaims]], adopted: Sequence[str]) -> str:
    """Return, as a clause, why the counts have no intervals; empty if they have. `by_column`: the claims."""
    few = [
        reason for each in by_column for claims in _weighed(each, adopted) if claims.rate and (reason := _few_units(claims.rate))
    ]
    return f"; {few[0]} are too few for an interval" if few else ""


def _named_too(shown_claims: Sequence[FalseClaims], named: Sequence[FalseClaims], weighed: Sequence[FalseClaims] = ()) -> str:
    """Return `, finish 12` for each of the named ones, unless it is among those that are shown."""
    rest = [each for each in named if each not in shown_claims]
    return "".join(f", {each.loop} {each.wrong or 'none'}{_interval(each) if each in weighed else ''}" for each in rest)


def _counts(claims: Sequence[FalseClaims], adopted: Sequence[str]) -> str:
    """Return `, of 120 trials: finish 6, bare none`; of many loops those with the most and with the fewest, and the adopted one.

    Where the adopted loop gave more than the next, its count and that of the next have intervals: `finish 16 [8, 24]`.
    """
    ordered, weighed = sorted(claims, key=lambda each: -each.wrong), _weighed(claims, adopted)
    shown_claims = ordered if len(ordered) <= MAX_NAMES else [ordered[0], ordered[-1]]
    scored = {each.scored for each in ordered}
    of = [f" of {each.scored:,}" if len(scored) > 1 else "" for each in shown_claims]
    counts = [
        f"{each.loop} {each.wrong or 'none'}{trials}{_interval(each) if each in weighed else ''}"
        for each, trials in zip(shown_claims, of, strict=True)
    ]
    too = _named_too(shown_claims, [each for each in claims if each.loop in adopted or each in weighed], weighed)
    listed = ", ".join(counts) if len(shown_claims) == len(ordered) else f"from {counts[-1]} to {counts[0]}{too}"
    return f", of {ordered[0].scored:,} trials: {listed}" if len(scored) == 1 else f": {listed}"


def _range(claims: Sequence[FalseClaims], adopted: Sequence[str]) -> str:
    """Return `, of 120: bare none to finish 6`, in fewer words; as `_counts` where trials differ in number or loops are two."""
    ordered = sorted(claims, key=lambda each: each.wrong)
    if len(ordered) < 3 or len({each.scored for each in ordered}) > 1:
        return _counts(claims, adopted)
    least, most = (f"{each.loop} {each.wrong or 'none'}" for each in (ordered[0], ordered[-1]))
    too = _named_too([ordered[0], ordered[-1]], [each for each in claims if each.loop in adopted])
    return f", of {ordered[0].scored:,}: {least} to {most}{too}"
