"""BootstrapFewShotWithRandomSearch: the best of many shuffled bootstraps."""

from __future__ import annotations

from dataclasses import dataclass

import dspy

from whichloop.dspy_seam.program import LoopProgram

from ..built_in import DEMOS, BuiltIn, Part, at_least, bootstrap_metric, check_threshold
from ..compiling import Workshop


@dataclass(frozen=True, slots=True)
class BootstrapFewShotWithRandomSearch(BuiltIn):
    """BootstrapFewShot over shuffled train tasks, many times; the best by dev score."""

    name = "BootstrapFewShotWithRandomSearch"

    num_candidate_programs: int = 6
    """Shuffled bootstraps, beside no demonstrations, examples alone, and one bootstrap in order; DSPy's default is 16."""
    max_bootstrapped_demos: int = 4
    """Most demonstrations for each predictor, one from each task that went well."""
    max_labeled_demos: int = 16
    """Demonstrations and examples for each predictor, together."""
    max_rounds: int = 1
    """Attempts at a task; from the second one on, at temperature 1."""
    metric_threshold: float | None = None
    """Score from which a rollout went well; left out: full marks."""
    stop_at_score: float | None = None
    """Dev score, in percent, at which the search ends."""

    def __post_init__(self) -> None:
        at_least(1, max_bootstrapped_demos=self.max_bootstrapped_demos, max_rounds=self.max_rounds)
        at_least(0, num_candidate_programs=self.num_candidate_programs, max_labeled_demos=self.max_labeled_demos)
        at_least(0, stop_at_score=self.stop_at_score)
        check_threshold(self.metric_threshold)

    @property
    def changes(self) -> frozenset[Part]:
        return DEMOS

    def _search(self, workshop: Workshop, student: LoopProgram) -> object:
        teleprompter = dspy.BootstrapFewShotWithRandomSearch(
            metric=bootstrap_metric(self.metric_threshold),
            metric_threshold=self.metric_threshold,
            max_bootstrapped_demos=self.max_bootstrapped_demos,
            max_labeled_demos=self.max_labeled_demos,
            max_rounds=self.max_rounds,
            num_candidate_programs=self.num_candidate_programs,
            num_threads=workshop.threads,
            stop_at_score=self.stop_at_score,
        )
        return teleprompter.compile(student, trainset=workshop.drawn, valset=workshop.choosing)


OPTIMIZER = BootstrapFewShotWithRandomSearch
