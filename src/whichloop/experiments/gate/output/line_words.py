"""A line of the gate in words: its outcome, its means, its change between the bounds, and its margin."""

from __future__ import annotations

import math

from whichloop.metrics.gate import GateLine
from whichloop.metrics.summary import METRICS
from whichloop.protocol.values import counted
from whichloop.text.numbers import beside_zero, hundredths

from ..data.outcome import GateResult

DIGITS = 3
"""Of a change of a share."""
SLIGHT = 0.01
"""A change of an amount by a smaller share is shown, at times, and of no interest to anybody."""


def outcome_in_words(result: GateResult, line: GateLine, worse: str = "worse") -> str:
    """Return the outcome, of a line that passes with what is shown besides: `pass, better`, or `pass, ` and the words for worse."""
    direction = "worse here" if line.lost else "" if not is_shown(line) else worse if line.worse else "better"
    return f"{line.outcome}, {direction}" if line.outcome == "pass" and direction else result.word_of(line)


def is_shown(line: GateLine) -> bool:
    """Whether the line is shown to be better or worse, by more than 1 % of what is no share: less is nothing to tell."""
    return (line.better or line.worse) and not (line.is_ratio and abs(line.effect.value - 1) < SLIGHT)


def is_gain(line: GateLine) -> bool:
    """Whether the line is a gain: trials score higher here and none lower, or it passes and is shown to be better."""
    return line.outcome == "better here" or (line.outcome == "pass" and line.better and is_shown(line))


def value_in_words(line: GateLine, value: float, *, short: bool = False) -> str:
    """Return a mean of the line's metric with as many digits as the metric has; `short`: a share with two, as `.88`."""
    return hundredths(value) if short and not line.is_ratio else f"{value:.{METRICS[line.metric].digits}f}"


def amount_in_words(metric: str, value: float) -> str:
    """Return a value of a metric as `1,930`, or with the metric's digits where it is no whole number."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.{METRICS[metric].digits}f}"


def effect_in_words(line: GateLine, *, short: bool = False) -> str:
    """Return `-0.150 [-0.212, -0.088]`, or as a ratio `×1.25 [1.10, 1.42]`; – for a bound unknown because of too few tasks.
    Of an identical line it is the change alone.

    `short`: a share with two digits, as `-.15 [-.21, -.09]`.
    """
    effect = line.effect
    if line.outcome == "identical":  # nothing differs, so there is nothing to estimate
        return f"{'×' if line.is_ratio else ''}{number_in_words(line, effect.value, sign=not line.is_ratio, short=short)}"
    value, low, high = (_in_effect(line, number, short=short) for number in (effect.value, effect.low, effect.high))
    return f"{'×' if line.is_ratio else ''}{value} [{low}, {high}]"


def _in_effect(line: GateLine, number: float, *, short: bool) -> str:
    """Return the change or one of its bounds: where all of them lie on one side of 0, one that would round to 0 is told from it."""
    written = number_in_words(line, number, sign=not line.is_ratio, short=short)
    is_one_sided = line.effect.low > 0 or line.effect.high < 0
    if line.is_ratio or not is_one_sided or any(digit in written for digit in "123456789–"):
        return written
    amount = beside_zero(number, DIGITS + 1)
    return f"+{amount}" if number > 0 and amount[0].isdigit() else amount


def number_in_words(line: GateLine, value: float, *, sign: bool, short: bool = False) -> str:
    """Return a change or one of its bounds; – for a bound that is not known."""
    if not math.isfinite(value) or (line.is_ratio and value == 0):
        return "–"
    if short and not line.is_ratio:
        return hundredths(value, sign=sign)
    return f"{value:{'+' if sign else ''}z.{2 if line.is_ratio else DIGITS}f}"


def tasks_of(line: GateLine) -> str:
    """Return over how many tasks a line is judged: `24 tasks`, with their clusters where templates are shared."""
    return f"{counted(line.tasks, 'task')}{in_clusters(line)}"


def in_clusters(line: GateLine) -> str:
    """Return ` in 5 clusters`, to stand behind a number of tasks; empty where each task is a cluster of its own."""
    return "" if line.units == line.tasks else f" in {counted(line.units, 'cluster')}"


def margin_in_words(line: GateLine) -> str:
    """Return `-0.02`, `+0.02` of what may rise, or as a ratio `×1.1`."""
    if line.is_ratio:
        return f"×{1 + line.margin:g}"
    return f"{'+' if line.may_rise else '-'}{line.margin:g}" if line.margin else "0"
