"""What an ablation is: the options of one loop varied together, as the arms of an ordinary comparison, and the effect of each.

A run is a comparison's run directory, whose manifest maps arms to cells under `ablation`; the effects are computed from its
records. `prepare.py` makes one, `choices.py` says which setting to use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from whichloop.experiments.compare.results import Results
from whichloop.metrics.comparison import ArmResult
from whichloop.metrics.factors.factorial import Effect, effects
from whichloop.metrics.factors.layout import Cell, Factor, Layout, layout
from whichloop.metrics.record import Record
from whichloop.metrics.summary import PRIMARY
from whichloop.protocol.names import SCRIPTED, value_text
from whichloop.runs.store.files import RunError

Kind = Literal["full", "fractional"]
Values = Mapping[str, str]
"""Option → its value as it is written."""


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
    metrics: Sequence[str]
    resolution: int | None
    """The resolution of a fraction."""
    own: Mapping[str, Any] = field(default_factory=dict)
    """Option → the value that the loop has without it, which may be none of those that were tried; without one that it requires."""


@dataclass(frozen=True, slots=True)
class AblationResult:
    """A run of an ablation, with the effects of its factors."""

    results: Results
    ablation: Ablation
    layout: Layout
    effects: Sequence[Effect]
    """Ordered by metric as asked for, then by profile."""
    notes: Sequence[str] = ()
    """Tasks that had to be left out, and odds ratios that there are not."""

    def values(self, arm: str) -> Values:
        """Return the values of an arm's cell as they are written."""
        return {name: value_text(value) for name, value in self.ablation.cells[arm].items()}

    @property
    def own(self) -> Values:
        """The values of the loop as typed, without those of options that it requires."""
        own = self.ablation.own if self.ablation.default is None else self.ablation.default
        return {name: value_text(value) for name, value in own.items()}


def ablation_result(run: Results) -> AblationResult | None:
    """Return the effects of a run; None if it is not an ablation. Raises RunError if its manifest is damaged."""
    if not run.manifest.is_ablation:
        return None
    try:
        kept = {name: value for name, value in run.manifest.ablation.items() if name != "efficiency"}  # which older runs have
        ablation = Ablation(**kept)
        # uncached dollars stand beside those with a cache: by these costs are compared
        with_uncached = [each for name in ablation.metrics for each in (name, *(["nominal_usd"] if name == "cost_usd" else []))]
        if not isinstance(ablation.resolution, int | None):
            raise TypeError("the resolution is not a number")
        factors = tuple(Factor(name, tuple(map(value_text, values))) for name, values in ablation.factors.items())
        groups, metrics = _groups(run, ablation.cells, factors), list(dict.fromkeys((PRIMARY, *with_uncached)))
        design = layout(factors, sorted({cell for group in groups.values() for cell in group}))
        found, said = effects(groups, design, metrics=metrics, alpha=run.comparison.alpha, margin=run.comparison.margin)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise RunError(f"{run.folder}: the manifest's 'ablation' does not fit its arms: {error!r}") from None
    return AblationResult(run, ablation, design, found, said)


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
