"""Numbers as text: intervals, p values, dollars, verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TypeVar

from whichloop.metrics.measures import Measure
from whichloop.metrics.pairs import Pair
from whichloop.metrics.statistics import NO_SPREAD, Interval
from whichloop.protocol.values import counted


def dollars_text(amount: float) -> str:
    """Return dollars with cents, or with two digits if less than a cent: `3.10`, `1,200.00`, `0.0042`; nothing is `0.00`."""
    if amount < -NO_SPREAD:
        return f"-{dollars_text(-amount)}"
    return f"{amount:z,.2f}" if amount >= 0.1 or amount <= NO_SPREAD else f"{amount:.{1 - math.floor(math.log10(amount))}f}"


def hundredths(share: float, *, sign: bool = False) -> str:
    """Return a share or a difference of shares with two digits, without the 0 before the point: `.88`, `1.00`, `-.15`."""
    written = f"{share:{'+' if sign else ''}z.2f}"
    return written.replace("0.", ".", 1) if abs(share) < 0.995 else written


def limit_text(limit: float) -> str:
    """Return a limit to what a trial may spend with all its digits, so that who types it gets the same: `5,343`, `0.00916`."""
    return f"{Decimal(repr(limit)).normalize():,f}"


def verdict(pair: Pair) -> str:
    """Return the verdict on a pair in words: `a is better`."""
    word = pair.verdict.word
    if word in ("equivalent", "undecided"):
        return word
    return f"a is {word}" + (", within the margin" if pair.verdict.within_margin else "")


def interval(value: Interval | None, digits: int) -> str:
    """Return `0.908 [0.843, 0.948]`, or – if unknown. Data that never vary have no interval: `5.00 (in all 120)`.

    Where an interval lies on one side of 0 and an end would round to 0, that end has one digit more, or is told as `>0` or `<0`.
    """
    return "–" if value is None else interval_of(value, lambda number: _rounded(number, value, digits))


def measure_text(value: Interval | None, measure: Measure) -> str:
    """Return a mean of a measure, or a difference of two, with its interval: dollars with two digits, else its own places."""
    return "–" if value is None else interval_of(value, dollars_text) if measure.in_dollars else interval(value, measure.digits)


def difference_text(value: Interval, digits: int) -> str:
    """Return a difference with its interval, as `interval`; an end that rounds to 0 while 0 lies within: `0.092 [≤0, 0.177]`.

    That end is 0 or beyond it, so that no difference is shown; written as 0.000 it would look like a bound of what can be measured.
    """

    def written(number: float) -> str:
        text = _rounded(number, value, digits)
        is_end = number != value.value and number == (value.low if value.value > 0 else value.high)
        return ("≤0" if value.value > 0 else "≥0") if is_end and value.value and text == f"{0:.{digits}f}" else text

    return interval_of(value, written)


def signed_interval(value: Interval, digits: int) -> str:
    """Return a difference with its interval, signs written out: `+0.025 [-0.011, +0.060]`; what rounds to 0 has none."""

    def written(number: float) -> str:
        text = _rounded(number, value, digits)
        return f"+{text}" if number > 0 and text[0].isdigit() and float(text) else text

    return interval_of(value, written)


def _rounded(number: float, value: Interval, digits: int) -> str:
    """Return a number of an interval: an end that would round to 0 is told from it where all lie on one side."""
    text = f"{number:z.{digits}f}"
    if float(text) or not (value.low > 0 or value.high < 0):
        return text
    cut = math.floor(abs(number) * 10 ** (digits + 1)) / 10 ** (digits + 1)
    return f"{math.copysign(cut, number):.{digits + 1}f}" if cut else ">0" if number > 0 else "<0"


def interval_of(value: Interval, written: Callable[[float], str]) -> str:
    """Return the same with its numbers written in a way of the caller's; of too few tasks `6,091 (n = 3, no interval)`."""
    if not value.is_known:
        of = "" if value.units is None else f" in {counted(value.units, 'cluster')}"
        return f"{written(value.value)} (n = {value.n}{of}, no interval)"
    if value.low == value.high:
        return f"{written(value.value)} (in all {value.n})"
    return f"{written(value.value)} [{written(value.low)}, {'∞' if math.isinf(value.high) else written(value.high)}]"


def p_value(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def duration(seconds: float) -> str:
    """Return `under a second`, `42 s`, `12 min`, `3.4 h`."""
    if seconds < 1:
        return "under a second"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3_600:.1f} h"


Name = TypeVar("Name", bound=str)


def counts(numbers: Mapping[Name, int]) -> str:
    """Return numbers by name as `finished 109, error_valve 8`, the largest first."""
    return ", ".join(f"{name} {n}" for name, n in sorted(numbers.items(), key=lambda item: (-item[1], item[0]))) or "–"
