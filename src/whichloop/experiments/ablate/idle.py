"""Factors of an ablation that made no difference at all."""

from __future__ import annotations

from whichloop.metrics.factors.layout import Factor
from whichloop.protocol.names import value_text

from .ablation import AblationResult, setting


def is_idle(result: AblationResult, factor: Factor) -> bool:
    """Return whether no two settings that differ in nothing but a factor differ in the mean of any metric of the ablation."""
    ablation, by_setting = result.ablation, dict[tuple[object, ...], list[object]]()
    for arm in result.results.comparison.arms:
        others = {name: value_text(value) for name, value in ablation.cells[arm.info.arm].items() if name != factor.name}
        key = (setting(arm), *others.items())
        by_setting.setdefault(key, []).append([arm.summary.means[metric] for metric in ablation.metrics])
    alike = [means for means in by_setting.values() if len(means) > 1]
    return bool(alike) and all(one == means[0] for means in alike for one in means)
