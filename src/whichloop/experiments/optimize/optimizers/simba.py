"""SIMBA: demonstrations and advice from tasks whose rollouts differ most."""

from __future__ import annotations

from dataclasses import dataclass

import dspy

from whichloop.dspy_seam.program import LoopProgram

from ..built_in import BOTH, INSTRUCTIONS, BuiltIn, Part, at_least
from ..compiling import Workshop, judge, loud


@dataclass(frozen=True, slots=True)
class SIMBA(BuiltIn):
    """Demonstrations, and advice as further instructions, from train tasks whose rollouts differ most."""

    name = "SIMBA"
    proposes = True

    bsize: int = 8
    """Train tasks of a step, all of them where there are fewer; DSPy's default is 32."""
    num_candidates: int = 4
    """Rollouts of each task, and new programs, of a step; DSPy's default is 6."""
    max_steps: int = 4
    """Steps; DSPy's default is 8."""
    max_demos: int = 4
    """Demonstrations of a predictor from which some are dropped; 0: no new ones, advice alone."""
    demo_input_field_maxlen: int = 100_000
    """Most characters of a demonstration's field."""
    temperature_for_sampling: float = 0.2
    """Of the softmax over scores by which programs are drawn for rollouts."""
    temperature_for_candidates: float = 0.2
    """The same for the programs that new ones are made from."""

    def __post_init__(self) -> None:
        at_least(1, bsize=self.bsize, num_candidates=self.num_candidates, max_steps=self.max_steps)
        at_least(1, demo_input_field_maxlen=self.demo_input_field_maxlen)
        at_least(0, max_demos=self.max_demos)
        at_least(
            0.01, temperature_for_sampling=self.temperature_for_sampling, temperature_for_candidates=self.temperature_for_candidates
        )

    @property
    def changes(self) -> frozenset[Part]:
        return BOTH if self.max_demos else INSTRUCTIONS

    def _search(self, workshop: Workshop, student: LoopProgram) -> object:
        options = {**self.options, "bsize": min(self.bsize, len(workshop.train))}
        teleprompter = dspy.SIMBA(metric=loud(judge), num_threads=workshop.threads, **options)
        return teleprompter.compile(student, trainset=list(workshop.train), seed=workshop.seed)


OPTIMIZER = SIMBA
