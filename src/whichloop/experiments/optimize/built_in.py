"""The base of the built-in optimizers, which `optimizers` has; their fields are their options.

Their defaults suit a small budget.

A program that is optimized again begins with its own instructions. Its demonstrations are dropped by LabeledFewShot,
BootstrapFewShot, BootstrapFewShotWithRandomSearch and InferRules (DSPy's `reset_copy`), which gather their own; MIPROv2 scores them
once and then searches among its own; COPRO and GEPA keep them, SIMBA drops some in every program that it makes.
"""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, ClassVar, Literal

from whichloop.dspy_seam.program import LoopProgram
from whichloop.runs.built_in import Option, options_of

from .compiling import Workshop, compiled, loud, score, share
from .config import packages_of

Part = Literal["instructions", "demos"]
INSTRUCTIONS: frozenset[Part] = frozenset({"instructions"})
DEMOS: frozenset[Part] = frozenset({"demos"})
BOTH = INSTRUCTIONS | DEMOS


class BuiltIn:
    """The base of the built-in optimizers; their fields are their options."""

    __slots__ = ()

    name: ClassVar[str]
    proposes: ClassVar[bool] = False
    only_collects: ClassVar[bool] = False

    @property
    def changes(self) -> frozenset[Part]:
        return BOTH

    @property
    def summary(self) -> str:
        return (inspect.getdoc(type(self)) or "").splitlines()[0]

    @property
    def options(self) -> Mapping[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}  # type: ignore[arg-type]  # each is a dataclass

    @property
    def described(self) -> Mapping[str, Option]:
        return options_of(type(self))

    def compile(self, workshop: Workshop) -> LoopProgram:
        for package in packages_of(self.name):
            importlib.import_module(package)  # before its logger is silenced, because the import sets it up
        return compiled(self.name, self._search, workshop)

    def _search(self, workshop: Workshop, student: LoopProgram) -> object:
        raise NotImplementedError


def at_least(least: float, **values: float | None) -> None:
    """Raise ValueError for an option below the limit, or one that is not a finite number."""
    for name, value in values.items():
        if value is not None and not (math.isfinite(value) and value >= least):
            raise ValueError(f"{name} must be at least {least:g}, not {value:g}")


def check_threshold(threshold: float | None) -> None:
    """Raise ValueError for a threshold that no score reaches, or for 0, which DSPy treats as unset."""
    if threshold is not None and not 0 < threshold <= 1:
        raise ValueError(f"metric_threshold must be above 0 and at most 1, not {threshold:g}")


def bootstrap_metric(threshold: float | None) -> Callable[..., Any]:
    """Return the metric by which demonstrations are bootstrapped: full success, or the score where a threshold decides."""
    return loud(score if threshold is None else share)
