"""What a recommended value of a factor costs beside the value that it replaces, in words, by the paired effect on costs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from whichloop.experiments.compare.verdict.matrix import cost_text, unit_of_cost, with_unit
from whichloop.metrics.statistics import Interval
from whichloop.protocol.names import value_text
from whichloop.text.numbers import interval_of

from .ablation import AblationResult, setting


def price_in_words(result: AblationResult, factor: str, value: str, instead_of: str) -> str:
    """Return `style=b takes 120 [100, 140] more tokens a trial than a (+49 %)`, for each profile where they differ.

    Empty where no effect tells the two apart in cost. Where costs were not among the metrics of the ablation, the means are told.
    """
    arms = result.results.comparison.arms
    unit, profiles = unit_of_cost(arms), list(dict.fromkeys(map(setting, arms)))
    effects = list(_effects(result, factor, value, instead_of))
    if not effects and unit not in result.ablation.metrics:
        own, other = (mean_cost(result, factor, each, profiles) for each in (value, instead_of))
        written = [with_unit(cost_text(each, unit), unit) for each in (own, other) if math.isfinite(each)]
        return f"{factor}={value} takes {written[0]} a trial, {instead_of} {written[1]}" if len(set(written)) == 2 else ""
    parts = []
    for profile, difference in effects:
        more = "more" if difference.value > 0 else "fewer" if unit == "tokens" else "less"
        size = difference if difference.value > 0 else difference.turned
        ends = {cost_text(end, unit) for end in (size.low, size.high)}
        gap = ends.pop() if len(ends) == 1 else interval_of(size, lambda number: cost_text(number, unit))
        base = mean_cost(result, factor, instead_of, [profile])
        percent = 100 * difference.value / base if math.isfinite(base) and base > 0 else 0.0
        share = f" ({percent:+.{0 if abs(percent) >= 1 else 1}f} %)" if percent else ""
        under = f" under {profile}" if len(profiles) > 1 else ""
        parts.append(f"{with_unit(f'{gap} {more}', unit)} a trial than {instead_of}{share}{under}")
    return f"{factor}={value} takes {', '.join(parts)}" if parts else ""


def _effects(result: AblationResult, factor: str, value: str, instead_of: str) -> Iterator[tuple[str, Interval]]:
    """Yield for each profile where it is shown by how much more one value costs than another."""
    unit = unit_of_cost(result.results.comparison.arms)
    for effect in result.effects.effects:
        if (effect.kind, effect.metric) != ("main", unit) or effect.verdict.word not in ("better", "worse"):
            continue
        if effect.term == f"{factor}: {instead_of} → {value}":
            yield effect.profile, effect.difference
        elif effect.term == f"{factor}: {value} → {instead_of}":
            yield effect.profile, effect.difference.turned


def mean_cost(result: AblationResult, factor: str, value: str, profiles: Sequence[str] = ()) -> float:
    """Return the mean cost of a trial of the settings with a value, under some profiles or all; infinite where it is not known."""
    arms, cells = result.results.comparison.arms, result.ablation.cells
    own = [arm for arm in arms if value_text(cells[arm.info.arm][factor]) == value and (not profiles or setting(arm) in profiles)]
    means = [arm.summary.means[unit_of_cost(arms)] for arm in own]
    values = [mean.value for mean in means if mean is not None]
    return math.fsum(values) / len(values) if values else math.inf
