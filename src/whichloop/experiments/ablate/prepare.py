"""Preparing an ablation: the cells that are run, and the run directory."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from inspect import Parameter
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from whichloop.experiments.compare.run import Experiment
from whichloop.experiments.compare.run import prepare as prepare_comparison
from whichloop.metrics.factors.factorial import EFFECT_METRICS
from whichloop.metrics.factors.layout import choose_cells
from whichloop.protocol import Loop
from whichloop.protocol.names import Spec, nearest, parse_spec, parse_values, value_text
from whichloop.protocol.values import render_value
from whichloop.runs.built_in import options_of
from whichloop.runs.config import CompareConfig, SettingError
from whichloop.runs.manifest import write_manifest
from whichloop.runs.registry import find, make_loop

from .ablation import Ablation

MAX_CELLS, MAX_ARMS = 64, 200
"""Cells of a full factorial at most, more are a fraction of them; and arms, over all profiles and models."""


def prepare(loop: str, varied: Sequence[str], config: CompareConfig, folder: Path | None = None) -> Experiment:
    """Create the run directory of a comparison that varies options of one loop: all cells, or of more than 64 a fraction.

    `loop`: `name` or `name(option=value)`; options that are not varied keep this value. `varied`: each as `option=value,value`, the
    base value first. Raises ValueError for bad input, without creating anything.
    """
    spec = parse_spec(loop)
    options = options_of(find("loop", spec.name))
    factors = _factors(spec, varied, options)
    sizes = [len(values) for values in factors.values()]
    most = min(MAX_CELLS, MAX_ARMS // (len(config.profiles) * len(config.models)))
    try:
        cells, resolution = choose_cells(sizes, most)
    except ValueError as error:
        raise SettingError("vary", f"{math.prod(sizes)} cells, and {most} are the most: {error}") from None
    values = [{name: of[at] for (name, of), at in zip(factors.items(), cell, strict=True)} for cell in cells]
    specs = [Spec(spec.name, {**spec.options, **cell}, spec.program) for cell in values]
    _check_loops(specs, values)
    texts = [str(each) for each in specs]
    experiment = prepare_comparison(config.model_copy(update={"loops": tuple(texts)}), folder)
    by_arm = {arm.name: values[texts.index(str(arm.spec))] for arm in experiment.arms}
    typed_loop: Loop | None = None
    with suppress(ValueError):  # it may require an option that is a factor
        typed_loop = make_loop(spec, config.max_tool_steps, experiment.suite.max_tool_steps)
    ablation = Ablation(
        loop=str(spec),
        factors=factors,
        design="full" if len(values) == math.prod(sizes) else "fractional",
        cells=by_arm,
        default=next((by_arm[arm.name] for arm in experiment.arms if arm.loop == typed_loop), None),
        metrics=EFFECT_METRICS,
        resolution=resolution,
        own={name: options[name].default for name in factors if options[name].default is not Parameter.empty},
    )
    manifest = experiment.manifest.model_copy(update={"ablation": to_jsonable_python(asdict(ablation), fallback=render_value)})
    write_manifest(experiment.folder, manifest)
    return replace(experiment, manifest=manifest)


def _factors(spec: Spec, texts: Sequence[str], options: Collection[str]) -> dict[str, list[Any]]:
    """Parse factors. Raises SettingError for one that is unknown, a duplicate, fixed in the loop, or without two values."""
    factors: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, values_text = (part.strip() for part in text.partition("="))
        if not equals:
            raise SettingError("vary", f"{text!r}: write option=value,value")
        if name not in options:
            raise SettingError("vary", f"{name}: loop {spec.name} has no such option; {nearest(name, options)}")
        if name in factors or name in spec.options:
            raise SettingError("vary", f"{name}: it is given twice")
        try:
            factors[name] = parse_values(values_text)
        except ValueError as error:
            raise SettingError("vary", f"{name}: {error}") from None
        if len(factors[name]) < 2:
            raise SettingError("vary", f"{name}: give two values or more, the base first")
    return factors


def _check_loops(specs: Sequence[Spec], cells: Sequence[Mapping[str, Any]]) -> None:
    """Raise ValueError for a cell that the loop refuses, and for two cells that are the same loop."""
    names = [", ".join(f"{name}={value_text(value)}" for name, value in cell.items()) for cell in cells]
    loops: list[Loop] = []
    for spec, name in zip(specs, names, strict=True):
        try:
            loop = make_loop(spec)
        except ValueError as error:
            raise ValueError(f"cell {name}: {error}") from None
        if loop in loops:
            raise ValueError(f"cells {names[loops.index(loop)]} and {name} are one and the same loop")
        loops.append(loop)
