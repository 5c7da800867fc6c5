"""LabeledFewShot: questions and answers as examples."""

from __future__ import annotations

from dataclasses import dataclass

import dspy

from whichloop.dspy_seam.program import LoopProgram

from ..built_in import DEMOS, BuiltIn, Part, at_least
from ..compiling import Workshop


@dataclass(frozen=True, slots=True)
class LabeledFewShot(BuiltIn):
    """Questions and answers of train tasks as examples; nothing is tried out."""

    name = "LabeledFewShot"
    only_collects = True

    k: int = 16
    """Most examples for each predictor."""
    sample: bool = True
    """Drawn for each predictor; otherwise all get the same ones."""

    def __post_init__(self) -> None:
        at_least(1, k=self.k)

    @property
    def changes(self) -> frozenset[Part]:
        return DEMOS

    def _search(self, workshop: Workshop, student: LoopProgram) -> object:
        return dspy.LabeledFewShot(k=self.k).compile(student, trainset=workshop.drawn, sample=self.sample)


OPTIMIZER = LabeledFewShot
