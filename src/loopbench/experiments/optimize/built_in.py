"""DSPy's teleprompters, their options typed and documented. Defaults suit a small budget.

A program that is optimized again begins with its own instructions. Its demonstrations are dropped by LabeledFewShot,
BootstrapFewShot, BootstrapFewShotWithRandomSearch and InferRules (DSPy's `reset_copy`), which gather their own; MIPROv2 scores them
once and then searches among its own; COPRO and GEPA keep them, SIMBA drops some in every program that it makes.
"""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

import dspy

from loopbench.dspy_seam.program import LoopProgram
from loopbench.runs.options import Option, options_of

from .compiling import Workshop, compiled, instructed, judge, loud, score, share

Part = Literal["instructions", "demos"]
INSTRUCTIONS: frozenset[Part] = frozenset({"instructions"})
DEMOS: frozenset[Part] = frozenset({"demos"})
BOTH = INSTRUCTIONS | DEMOS


class BuiltIn:
    """What the built-in optimizers share; their fields are their options."""

    __slots__ = ()

    name: ClassVar[str]
    proposes: ClassVar[bool] = False
    only_collects: ClassVar[bool] = False
    package: ClassVar[str] = ""
    """Installed with the extra `optimize`."""

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
        if self.package:
            importlib.import_module(self.package)  # before its logger is kept quiet, which it sets up when it is imported
        return compiled(self.name, self._search, workshop)

    def _search(self, workshop: Workshop, student: LoopProgram) -> Any:
        raise NotImplementedError


def _at_least(least: float, **values: float | None) -> None:
    """Raises ValueError for an option below it, or one that is no finite number."""
    for name, value in values.items():
        if value is not None and not (math.isfinite(value) and value >= least):
            raise ValueError(f"{name} must be at least {least:g}, not {value:g}")


def _a_share(threshold: float | None) -> None:
    """Raises ValueError for a threshold that no score reaches, or 0, which DSPy takes for none."""
    if threshold is not None and not 0 < threshold <= 1:
        raise ValueError(f"metric_threshold must be above 0 and at most 1, not {threshold:g}")


def _bootstrap_metric(threshold: float | None) -> Callable[..., Any]:
    return loud(score if threshold is None else share)


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
        _at_least(1, k=self.k)

    @property
    def changes(self) -> frozenset[Part]:
        return DEMOS

    def _search(self, workshop: Workshop, student: LoopProgram) -> Any:
        return dspy.LabeledFewShot(k=self.k).compile(student, trainset=workshop.drawn, sample=self.sample)


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
        _at_least(1, max_bootstrapped_demos=self.max_bootstrapped_demos, max_rounds=self.max_rounds)
        _at_least(0, max_labeled_demos=self.max_labeled_demos)
        _a_share(self.metric_threshold)

    @property
    def changes(self) -> frozenset[Part]:
        return DEMOS

    def _search(self, workshop: Workshop, student: LoopProgram) -> Any:
        found = dspy.BootstrapFewShot(
            metric=_bootstrap_metric(self.metric_threshold),
            metric_threshold=self.metric_threshold,
            max_bootstrapped_demos=self.max_bootstrapped_demos,
            max_labeled_demos=self.max_labeled_demos,
            max_rounds=self.max_rounds,
        )
        return found.compile(student, trainset=workshop.drawn)


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
        _at_least(1, max_bootstrapped_demos=self.max_bootstrapped_demos, max_rounds=self.max_rounds)
        _at_least(0, num_candidate_programs=self.num_candidate_programs, max_labeled_demos=self.max_labeled_demos)
        _at_least(0, stop_at_score=self.stop_at_score)
        _a_share(self.metric_threshold)

    @property
    def changes(self) -> frozenset[Part]:
        return DEMOS

    def _search(self, workshop: Workshop, student: LoopProgram) -> Any:
        found = dspy.BootstrapFewShotWithRandomSearch(
            metric=_bootstrap_metric(self.metric_threshold),
            metric_threshold=self.metric_threshold,
            max_bootstrapped_demos=self.max_bootstrapped_demos,
            max_labeled_demos=self.max_labeled_demos,
            max_rounds=self.max_rounds,
            num_candidate_programs=self.num_candidate_programs,
            num_threads=workshop.threads,
            stop_at_score=self.stop_at_score,
        )
        return found.compile(student, trainset=workshop.drawn, valset=workshop.choosing)


@dataclass(frozen=True, slots=True)
class MIPROv2(BuiltIn):
    """Proposed instructions and bootstrapped demonstrations, combined by Bayesian search (Opsahl-Ong et al. 2024, 2406.11695)."""

    name = "MIPROv2"
    proposes = True
    package = "optuna"

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
        _at_least(2, num_candidates=self.num_candidates)
        _at_least(1, num_trials=self.num_trials, minibatch_size=self.minibatch_size, view_data_batch_size=self.view_data_batch_size)
        _at_least(1, minibatch_full_eval_steps=self.minibatch_full_eval_steps)
        _at_least(0, max_bootstrapped_demos=self.max_bootstrapped_demos, max_labeled_demos=self.max_labeled_demos)
        _at_least(0, init_temperature=self.init_temperature)
        _a_share(self.metric_threshold)
        if self.max_bootstrapped_demos == 0 < self.max_labeled_demos:
            raise ValueError("max_bootstrapped_demos=0 needs max_labeled_demos=0: DSPy draws from 1 demonstration on")

    @property
    def changes(self) -> frozenset[Part]:
        return BOTH if self.max_labeled_demos or self.max_bootstrapped_demos else INSTRUCTIONS

    def _search(self, workshop: Workshop, student: LoopProgram) -> Any:
        candidates = None if self.auto else self.num_candidates or 6
        dev = workshop.choosing
        found = dspy.MIPROv2(
            metric=_bootstrap_metric(self.metric_threshold),
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
        trials = candidates and (self.num_trials or found._set_num_trials_from_num_candidates(student, zero_shot, candidates))
        return found.compile(
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
        _at_least(2, breadth=self.breadth)
        _at_least(1, depth=self.depth)
        _at_least(0, init_temperature=self.init_temperature)

    @property
    def changes(self) -> frozenset[Part]:
        return INSTRUCTIONS

    def _search(self, workshop: Workshop, student: LoopProgram) -> Any:
        found = dspy.COPRO(metric=loud(score), breadth=self.breadth, depth=self.depth, init_temperature=self.init_temperature)
        return found.compile(
            student, trainset=workshop.drawn, eval_kwargs={"num_threads": workshop.threads, "display_progress": False}
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
        _at_least(1, bsize=self.bsize, num_candidates=self.num_candidates, max_steps=self.max_steps)
        _at_least(1, demo_input_field_maxlen=self.demo_input_field_maxlen)
        _at_least(0, max_demos=self.max_demos)
        _at_least(
            0.01, temperature_for_sampling=self.temperature_for_sampling, temperature_for_candidates=self.temperature_for_candidates
        )

    @property
    def changes(self) -> frozenset[Part]:
        return BOTH if self.max_demos else INSTRUCTIONS

    def _search(self, workshop: Workshop, student: LoopProgram) -> Any:
        options = {**self.options, "bsize": min(self.bsize, len(workshop.train))}
        found = dspy.SIMBA(metric=loud(judge), num_threads=workshop.threads, **options)
        return found.compile(student, trainset=list(workshop.train), seed=workshop.seed)


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
        if (given := [name for name, value in sizes.items() if value is not None])[1:]:
            raise ValueError(f"{' and '.join(given)} say the same: give one")
        _at_least(1, max_metric_calls=self.max_metric_calls, max_full_evals=self.max_full_evals)
        _at_least(1, reflection_minibatch_size=self.reflection_minibatch_size)
        _at_least(0, max_merge_invocations=self.max_merge_invocations)

    @property
    def changes(self) -> frozenset[Part]:
        return INSTRUCTIONS

    def _search(self, workshop: Workshop, student: LoopProgram) -> Any:
        options = dict(self.options)
        if all(size is None for size in (self.max_metric_calls, self.max_full_evals, self.auto)):
            options["max_full_evals"] = FULL_EVALS
        found = dspy.GEPA(
            metric=loud(judge), reflection_lm=workshop.lm, num_threads=workshop.threads, seed=workshop.seed, **options
        )
        return found.compile(student, trainset=list(workshop.train), valset=workshop.choosing)


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
        _at_least(1, num_candidates=self.num_candidates, num_rules=self.num_rules, max_rounds=self.max_rounds)
        _at_least(1, max_bootstrapped_demos=self.max_bootstrapped_demos)
        _at_least(0, max_labeled_demos=self.max_labeled_demos)
        _a_share(self.metric_threshold)

    def _search(self, workshop: Workshop, student: LoopProgram) -> Any:
        found = _InferRules(metric=_bootstrap_metric(self.metric_threshold), num_threads=workshop.threads, **self.options)
        return found.compile(student, trainset=workshop.drawn, valset=workshop.choosing)


class _InferRules(dspy.InferRules):  # type: ignore[misc]  # DSPy ships no types
    """DSPy 3.4.1's, with two things put right.

    It writes the rules into the signature that all copies of a program share: the student's own change with it, and the program
    that it gives has the rules that it tried last, not the best ones. And it shows the proposing model only such fields of the
    train tasks as the predictor has, which of a conversation are none.
    """

    def update_program_instructions(self, predictor: Any, natural_language_rules: str) -> None:
        predictor.signature = instructed(predictor.signature, predictor.signature.instructions)
        super().update_program_instructions(predictor, natural_language_rules)

    def get_predictor_demos(self, trainset: Sequence[Any], predictor: Any) -> list[dict[str, Any]]:
        shown = [dict(demo.items()) for demo in predictor.demos if demo.get("augmented")]
        return shown + [{"query": example.query, "answer": example.answer} for example in trainset]

    def format_examples(self, demos: Sequence[Mapping[str, Any]], signature: Any) -> str:
        outputs = {*signature.output_fields, "answer"}
        return "\n".join(
            f"Input Fields:\n{_lines(demo, demo.keys() - outputs)}\n=========\nOutput Fields:\n{_lines(demo, outputs)}"
            for demo in demos
        )


def _lines(demo: Mapping[str, Any], names: set[str]) -> str:
    return "".join(f"{name}: {value}\n" for name, value in demo.items() if name in names and name != "augmented")


BUILT_IN: tuple[type[BuiltIn], ...] = (
    LabeledFewShot,
    BootstrapFewShot,
    BootstrapFewShotWithRandomSearch,
    MIPROv2,
    COPRO,
    SIMBA,
    GEPA,
    InferRules,
)
