"""What to do with a design's new prompts: one sentence, the same in a terminal, on the page, in Python, JSON and MLflow."""

from __future__ import annotations

from loopbench.experiments.compare.undecided import what_decides
from loopbench.metrics.comparison import Pair
from loopbench.metrics.gains import Gain
from loopbench.metrics.statistics import Interval
from loopbench.text.numbers import interval


def advice(gain: Gain, *, is_unchanged: bool, has_failed: bool, alpha: float) -> str:
    """Return whether to adopt a design's new prompts, what shows it, and what they cost; empty if no task was scored both times.

    `alpha`: the level of the test.
    """
    keep = f"Keep the old prompts of {gain.design}"
    if has_failed:
        return f"{keep}: the optimizer failed"
    if is_unchanged:
        return f"{keep}: no better program was found"
    if gain.test is None:
        return ""
    return _by_verdict(gain, gain.test, keep, alpha)


def _by_verdict(gain: Gain, test: Pair, keep: str, alpha: float) -> str:
    adopt, times = f"Adopt the new prompts of {gain.design}", gain.token_ratio
    word, within = test.verdict.word, f"within {test.margin:g}"
    if word == "better":
        small = f", {within}" if test.verdict.within_margin else ""
        return f"{adopt}: they gain {interval(test.difference, 3)}{small}{_cost(times, 'and take')}"
    if word == "worse":
        return f"{keep}: the new ones lose {interval(test.difference.turned, 3)}{_cost(times, 'and take')}"
    if word == "equivalent" and times is not None and times.high < 1:
        return f"{adopt}: they are equivalent {within}{_cost(times, 'and take')}"
    if word == "equivalent":
        return f"{keep}: the new ones are equivalent {within}{_cost(times, 'and take')}"
    return f"{keep}: no gain is shown{_cost(times, 'and the new ones take')}; {what_decides(test, alpha)}"


def _cost(times: Interval | None, verb: str) -> str:
    """Return how many times the tokens the new prompts take, as a clause; empty where that is not known."""
    if times is None:
        return ""
    if times.low <= 1 <= times.high:
        return f", {verb} about as many tokens ({interval(times, 2)} times)"
    return f", {verb} {interval(times, 2)} times the tokens"
