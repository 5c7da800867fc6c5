"""The built-in optimizers. A class's fields are its options; `BUILT_IN` has them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import dspy

from whichloop.dspy_seam.program import LoopProgram
from whichloop.protocol.json_text import Json

from .compiling import (
    BOTH,
    DEMOS,
    INSTRUCTIONS,
    BuiltIn,
    Part,
    Workshop,
    at_least,
    bootstrap_metric,
    check_threshold,
    instructed,
    judge,
    loud,
    score,
)


@dataclass(frozen=True, slots=True)
class BootstrapFewShot(BuiltIn):
    """Steps of rollouts that went well as demonstrations, and further train tasks as examples."""

    name = "BootstrapFewShot"
    only_collects = True

    max_bootstrapped_demos: int = 4
    """Most demonstrations for each predictor, one from each task that went well."""
    max_labeled_demos: int = 16
    """Demonstrations and examples for each predictor, together."""
    max_rounds: int = 1
    """Attempts at a task; from the second one on, at temperature 1."""
    metric_threshold: float | None = None
    """Score from which a rollout went well; left out: full marks."""

    def __post_init__(self) -> None:
        at_least(1, max_bootstrapped_demos=self.max_bootstrapped_demos, max_rounds=self.max_rounds)
        at_least(0, max_labeled_demos=self.max_labeled_demos)
        check_threshold(self.metric_threshold)

    @property
    def changes(self) -> frozenset[Part]:
        return DEMOS

    def _search(self, workshop: Workshop, student: LoopProgram) -> object:
        teleprompter = dspy.BootstrapFewShot(
            metric=bootstrap_metric(self.metric_threshold),
            metric_threshold=self.metric_threshold,
            max_bootstrapped_demos=self.max_bootstrapped_demos,
            max_labeled_demos=self.max_labeled_demos,
            max_rounds=self.max_rounds,
        )
        return teleprompter.compile(student, trainset=workshop.drawn)


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


@dataclass(frozen=True, slots=True)
class InferRules(BuiltIn):
    """BootstrapFewShot, and rules as further instructions, induced from train tasks; the best rules by dev score."""

    name = "InferRules"
    proposes = True

    num_candidates: int = 4
    """Sets of rules to try; DSPy's default is 10."""
    num_rules: int = 10
    """Rules in a set."""
    max_bootstrapped_demos: int = 4
    """Most demonstrations for each predictor, one from each task that went well."""
    max_labeled_demos: int = 16
    """Demonstrations and examples for each predictor, together."""
    max_rounds: int = 1
    """Attempts at a task; from the second one on, at temperature 1."""
    metric_threshold: float | None = None
    """Score from which a rollout went well; left out: full marks."""

    def __post_init__(self) -> None:
        at_least(1, num_candidates=self.num_candidates, num_rules=self.num_rules, max_rounds=self.max_rounds)
        at_least(1, max_bootstrapped_demos=self.max_bootstrapped_demos)
        at_least(0, max_labeled_demos=self.max_labeled_demos)
        check_threshold(self.metric_threshold)

    def _search(self, workshop: Workshop, student: LoopProgram) -> object:
        teleprompter = _InferRules(metric=bootstrap_metric(self.metric_threshold), num_threads=workshop.threads, **self.options)
        return teleprompter.compile(student, trainset=workshop.drawn, valset=workshop.choosing)


class _InferRules(dspy.InferRules):
    """DSPy 3.4.1's, with two things put right.

    It writes the rules into the signature that all copies of a program share: the student's own change with it, and the program
    that it gives has the rules that it tried last, not the best ones. And it shows the proposing model only such fields of the
    train tasks as the predictor has, which of a conversation are none.
    """

    def update_program_instructions(self, predictor: Any, natural_language_rules: str) -> None:
        predictor.signature = instructed(predictor.signature, predictor.signature.instructions)
        super().update_program_instructions(predictor, natural_language_rules)

    def get_predictor_demos(self, trainset: Sequence[Any], predictor: Any) -> list[dict[str, Json]]:
        demos = [dict(demo.items()) for demo in predictor.demos if demo.get("augmented")]
        return demos + [{"query": example.query, "answer": example.answer} for example in trainset]

    def format_examples(self, demos: Sequence[Mapping[str, Any]], signature: Any) -> str:
        outputs = {*signature.output_fields, "answer"}
        return "\n".join(
            f"Input Fields:\n{_lines(demo, demo.keys() - outputs)}\n=========\nOutput Fields:\n{_lines(demo, outputs)}"
            for demo in demos
        )


def _lines(demo: Mapping[str, object], names: set[str]) -> str:
    return "".join(f"{name}: {value}\n" for name, value in demo.items() if name in names and name != "augmented")


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


BUILT_IN: tuple[type[BuiltIn], ...] = (
    BootstrapFewShot,
    BootstrapFewShotWithRandomSearch,
    COPRO,
    GEPA,
    InferRules,
    LabeledFewShot,
    MIPROv2,
    SIMBA,
)
