"""GEPA: instructions evolved by reflecting on feedback."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import dspy

from whichloop.dspy_seam.program import LoopProgram

from ..built_in import INSTRUCTIONS, BuiltIn, Part, at_least
from ..compiling import Workshop, judge, loud

FULL_EVALS = 10


@dataclass(frozen=True, slots=True)
class GEPA(BuiltIn):
    """Instructions evolved by reflecting on feedback in words (Agrawal et al. 2025, 2507.19457)."""

    name = "GEPA"
    proposes = True

    max_metric_calls: int | None = None
    """Rollouts; left out, as `auto` and `max_full_evals` are: ten times all train and dev tasks."""
    max_full_evals: int | None = None
    """The same in times of all train and dev tasks."""
    auto: Literal["light", "medium", "heavy"] | None = None
    """DSPy's own sizes, in place of both."""
    reflection_minibatch_size: int = 3
    """Train tasks of a reflection."""
    candidate_selection_strategy: Literal["pareto", "current_best"] = "pareto"
    """Which program is developed further: one that is best at some dev task, or the best of all."""
    component_selector: Literal["round_robin", "all"] = "round_robin"
    """Predictors that a reflection changes: one after the other, or all."""
    skip_perfect_score: bool = True
    """No reflection where all tasks of it went well."""
    use_merge: bool = True
    """Combine programs that are good at different tasks."""
    max_merge_invocations: int = 5
    """Most such combinations."""

    def __post_init__(self) -> None:
        sizes = {"max_metric_calls": self.max_metric_calls, "max_full_evals": self.max_full_evals, "auto": self.auto}
        if (names := [name for name, value in sizes.items() if value is not None])[1:]:
            raise ValueError(f"{' and '.join(names)} say the same: give one")
        at_least(1, max_metric_calls=self.max_metric_calls, max_full_evals=self.max_full_evals)
        at_least(1, reflection_minibatch_size=self.reflection_minibatch_size)
        at_least(0, max_merge_invocations=self.max_merge_invocations)

    @property
    def changes(self) -> frozenset[Part]:
        return INSTRUCTIONS

    def _search(self, workshop: Workshop, student: LoopProgram) -> object:
        options = dict(self.options)
        if all(size is None for size in (self.max_metric_calls, self.max_full_evals, self.auto)):
            options["max_full_evals"] = FULL_EVALS
        teleprompter = dspy.GEPA(
            metric=loud(judge), reflection_lm=workshop.lm, num_threads=workshop.threads, seed=workshop.seed, **options
        )
        return teleprompter.compile(student, trainset=list(workshop.train), valset=workshop.choosing)


OPTIMIZER = GEPA
