"""COPRO: instructions improved round by round."""

from __future__ import annotations

from dataclasses import dataclass

import dspy

from whichloop.dspy_seam.program import LoopProgram

from ..built_in import INSTRUCTIONS, BuiltIn, Part, at_least
from ..compiling import Workshop, loud, score


@dataclass(frozen=True, slots=True)
class COPRO(BuiltIn):
    """Proposed instructions, improved round by round from what earlier ones scored on train.

    Of its proposals, the prefixes of output fields are dropped: no request shows them.
    """

    name = "COPRO"
    proposes = True

    breadth: int = 4
    """Instructions for each predictor and round, the own ones among the first; DSPy's default is 10."""
    depth: int = 2
    """Rounds; DSPy's default is 3."""
    init_temperature: float = 1.4
    """Of the proposals."""

    def __post_init__(self) -> None:
        at_least(2, breadth=self.breadth)
        at_least(1, depth=self.depth)
        at_least(0, init_temperature=self.init_temperature)

    @property
    def changes(self) -> frozenset[Part]:
        return INSTRUCTIONS

    def _search(self, workshop: Workshop, student: LoopProgram) -> object:
        search = dspy.COPRO(metric=loud(score), breadth=self.breadth, depth=self.depth, init_temperature=self.init_temperature)
        return search.compile(
            student, trainset=workshop.drawn, eval_kwargs={"num_threads": workshop.threads, "display_progress": False}
        )


OPTIMIZER = COPRO
