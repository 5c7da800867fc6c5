"""MIPROv2: instructions and demonstrations combined by Bayesian search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import dspy

from whichloop.dspy_seam.program import LoopProgram

from ..built_in import BOTH, INSTRUCTIONS, BuiltIn, Part, at_least, bootstrap_metric, check_threshold
from ..compiling import Workshop


@dataclass(frozen=True, slots=True)
class MIPROv2(BuiltIn):
    """Proposed instructions and bootstrapped demonstrations, combined by Bayesian search (Opsahl-Ong et al. 2024, 2406.11695)."""

    name = "MIPROv2"
    proposes = True

    auto: Literal["light", "medium", "heavy"] | None = None
    """DSPy's own sizes, in place of `num_candidates` and `num_trials`: hundreds of rollouts and more."""
    num_candidates: int | None = None
    """Instructions, and sets of demonstrations, to choose from for each predictor; left out: 6."""
    num_trials: int | None = None
    """Combinations to try; left out: what DSPy recommends for that many candidates and predictors."""
    max_bootstrapped_demos: int = 4
    """Most demonstrations for each predictor; 0, and 0 examples: instructions alone are changed."""
    max_labeled_demos: int = 4
    """Demonstrations and examples for each predictor, together."""
    metric_threshold: float | None = None
    """Score from which a rollout went well; left out: full marks."""
    minibatch: bool = True
    """Score combinations on `minibatch_size` dev tasks, the best of them on all; where dev is no larger, always on all."""
    minibatch_size: int = 35
    """Dev tasks of a minibatch."""
    minibatch_full_eval_steps: int = 5
    """Minibatches between two evaluations on all dev tasks."""
    init_temperature: float = 1.0
    """Of the proposals."""
    view_data_batch_size: int = 10
    """Train tasks in a request for a summary of the data."""
    program_aware_proposer: bool = True
    """Proposals see a description of the program."""
    data_aware_proposer: bool = True
    """Proposals see a summary of the train tasks."""
    tip_aware_proposer: bool = True
    """Proposals see a tip drawn at random."""
    fewshot_aware_proposer: bool = True
    """Proposals see demonstrations."""

    def __post_init__(self) -> None:
        if self.auto is not None and (self.num_candidates is not None or self.num_trials is not None):
            raise ValueError("auto sets num_candidates and num_trials: give it, or them")
        at_least(2, num_candidates=self.num_candidates)
        at_least(1, num_trials=self.num_trials, minibatch_size=self.minibatch_size, view_data_batch_size=self.view_data_batch_size)
        at_least(1, minibatch_full_eval_steps=self.minibatch_full_eval_steps)
        at_least(0, max_bootstrapped_demos=self.max_bootstrapped_demos, max_labeled_demos=self.max_labeled_demos)
        at_least(0, init_temperature=self.init_temperature)
        check_threshold(self.metric_threshold)
        if self.max_bootstrapped_demos == 0 < self.max_labeled_demos:
            raise ValueError("max_bootstrapped_demos=0 needs max_labeled_demos=0: DSPy draws from 1 demonstration on")

    @property
    def changes(self) -> frozenset[Part]:
        return BOTH if self.max_labeled_demos or self.max_bootstrapped_demos else INSTRUCTIONS

    def _search(self, workshop: Workshop, student: LoopProgram) -> object:
        candidates = None if self.auto else self.num_candidates or 6
        dev = workshop.choosing
        search = dspy.MIPROv2(
            metric=bootstrap_metric(self.metric_threshold),
            metric_threshold=self.metric_threshold,
            auto=self.auto,
            num_candidates=candidates,
            max_bootstrapped_demos=self.max_bootstrapped_demos,
            max_labeled_demos=self.max_labeled_demos,
            init_temperature=self.init_temperature,
            num_threads=workshop.threads,
            seed=workshop.seed,
        )
        zero_shot = self.changes == INSTRUCTIONS
        trials = candidates and (self.num_trials or search._set_num_trials_from_num_candidates(student, zero_shot, candidates))
        return search.compile(
            student,
            trainset=list(workshop.train),
            valset=dev,
            num_trials=trials,
            minibatch=self.minibatch and len(dev) > self.minibatch_size,
            minibatch_size=min(self.minibatch_size, len(dev)),
            minibatch_full_eval_steps=self.minibatch_full_eval_steps,
            view_data_batch_size=self.view_data_batch_size,
            program_aware_proposer=self.program_aware_proposer,
            data_aware_proposer=self.data_aware_proposer,
            tip_aware_proposer=self.tip_aware_proposer,
            fewshot_aware_proposer=self.fewshot_aware_proposer,
        )


OPTIMIZER = MIPROv2
