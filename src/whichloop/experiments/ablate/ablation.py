"""What an ablation is: the options of one loop varied together, as the arms of an ordinary comparison, and the effect of each.

A run is a comparison's run directory, whose manifest maps arms to cells under `ablation`; the effects are computed from its
records. `prepare.py` makes one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from whichloop.experiments.compare.results import Results
from whichloop.metrics.comparison import ArmResult
from whichloop.metrics.factors.factorial import FactorEffects, effects
from whichloop.metrics.factors.layout import Cell, Factor, Layout, layout
from whichloop.metrics.record import Record
from whichloop.metrics.summary import METRICS, PRIMARY
from whichloop.protocol.names import SCRIPTED, nearest, value_text
from whichloop.runs.config import SettingError
from whichloop.runs.store.files import RunError

Kind = Literal["full", "fractional"]


@dataclass(frozen=True, slots=True)
class Ablation:
    """The design of an ablation, as stored in its manifest."""

    loop: str
    factors: Mapping[str, Sequence[Any]]
    """Option → its values, the base first."""
    design: Kind
    cells: Mapping[str, Mapping[str, Any]]
    """Arm → option → value."""
    default: Mapping[str, Any] | None
    """The values of the cell that equals the loop as typed."""
    interactions: bool
    metrics: Sequence[str]
    resolution: int | None
    """The resolution of a regular fraction."""
    efficiency: float
    """The information per cell relative to a full design."""
    own: Mapping[str, Any] = field(default_factory=dict)
    """Option → the value that the loop has without it, which may be none of those that were tried; without one that it requires."""


def metrics_named(names: Sequence[str]) -> tuple[str, ...]:
    """Return accuracy and the named metrics, each once. Raises SettingError for an unknown one."""
    for name in names:
        if name not in METRICS:
            raise SettingError("metrics", f"unknown metric {name!r}; {nearest(name, METRICS)}", "--metric")
    return tuple(dict.fromkeys((PRIMARY, *names)))


@dataclass(frozen=True, slots=True)
class AblationResult:
    """A run of an ablation, with the effects of its factors."""

    results: Results
    ablation: Ablation
    layout: Layout
    effects: FactorEffects

    def to_json(self) -> dict[str, Any]:
        """Return the object that `ablate --json` prints; its names are stable."""
        return {
            "run": str(self.results.folder.resolve()),
            "digest": self.results.digest,
            "wall_s": self.results.wall_s,
            "complete": self.results.is_complete,
            "invalid": self.results.comparison.invalid,
            "warnings": list(self.results.comparison.warnings),
            "alpha": self.results.comparison.alpha,
            "margin": self.results.comparison.margin,
            "ablation": {
                "loop": self.ablation.loop,
                "factors": {name: list(values) for name, values in self.ablation.factors.items()},
                "design": self.ablation.design,
                "resolution": self.ablation.resolution,
                "efficiency": self.ablation.efficiency,
                "aliases": list(self.layout.aliases),
                "default": self.ablation.default,
            },
            "effects": [effect.to_json() for effect in self.effects.effects],
            "cells": [self._cell(arm) for arm in self.results.comparison.arms],
            "notes": list(self.effects.notes),
        }

    def _cell(self, arm: ArmResult) -> dict[str, Any]:
        values, data = self.ablation.cells[arm.info.arm], arm.to_json()
        names = ("profile", "model", "trials", "scored", "errored", "excluded", *METRICS)
        fields = {name: data[name] for name in names}
        return {"arm": arm.info.arm, "values": dict(values), "default": values == self.ablation.default} | fields


def ablation_result(run: Results) -> AblationResult | None:
    """Return the effects of a run; None if it is not an ablation. Raises RunError if its manifest is damaged."""
    if not run.manifest.is_ablation:
        return None
    try:
        ablation = Ablation(**run.manifest.ablation)
        ablation = replace(ablation, metrics=_with_uncached(ablation.metrics))
        if not (isinstance(ablation.efficiency, float | int) and isinstance(ablation.resolution, int | None)):
            raise TypeError("efficiency or resolution is not a number")
        factors = tuple(Factor(name, tuple(map(value_text, values))) for name, values in ablation.factors.items())
        groups = _groups(run, ablation.cells, factors)
        cells = sorted({cell for group in groups.values() for cell in group})
        design = layout(factors, cells)
        design = design if ablation.interactions else design.without_interactions()
        compared = run.comparison
        factor_effects = effects(
            groups, design, metrics=metrics_named(ablation.metrics), alpha=compared.alpha, margin=compared.margin
        )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise RunError(f"{run.folder}: the manifest's 'ablation' does not fit its arms: {error!r}") from None
    return AblationResult(run, ablation, design, factor_effects)


def _with_uncached(metrics: Sequence[str]) -> list[str]:
    """Return the metrics with uncached dollars beside those with a cache: by these costs are compared."""
    all_metrics = [name for metric in metrics for name in ((metric, "nominal_usd") if metric == "cost_usd" else (metric,))]
    return list(dict.fromkeys(all_metrics))


def _groups(
    run: Results, cells: Mapping[str, Mapping[str, object]], factors: Sequence[Factor]
) -> dict[str, dict[Cell, list[Record]]]:
    """Return profile, or real model → cell → records."""
    by_arm: dict[str, list[Record]] = {}
    for record in run.records:
        by_arm.setdefault(record.arm, []).append(record)
    groups: dict[str, dict[Cell, list[Record]]] = {}
    for arm in run.comparison.arms:
        values = cells[arm.info.arm]
        cell = tuple(factor.levels.index(value_text(values[factor.name])) for factor in factors)
        group = groups.setdefault(setting(arm), {})
        if cell in group:
            raise ValueError(f"{arm.info.arm} is the same cell as another arm")
        group[cell] = by_arm.get(arm.info.arm, [])
    return groups


def setting(arm: ArmResult) -> str:
    """Return the setting of an arm: its profile, or the real model."""
    return arm.info.profile if arm.info.model == SCRIPTED else arm.info.model


def value_texts(values: Mapping[str, object]) -> dict[str, str]:
    """Return option → its value as it is written."""
    return {name: value_text(value) for name, value in values.items()}


def is_idle(result: AblationResult, factor: Factor) -> bool:
    """Return whether no two settings that differ in nothing but a factor differ in the mean of any metric of the ablation."""
    ablation, by_setting = result.ablation, dict[tuple[object, ...], list[object]]()
    for arm in result.results.comparison.arms:
        others = {name: value_text(value) for name, value in ablation.cells[arm.info.arm].items() if name != factor.name}
        key = (setting(arm), *others.items())
        by_setting.setdefault(key, []).append([arm.summary.means[metric] for metric in ablation.metrics])
    alike = [means for means in by_setting.values() if len(means) > 1]
    return bool(alike) and all(one == means[0] for means in alike for one in means)
