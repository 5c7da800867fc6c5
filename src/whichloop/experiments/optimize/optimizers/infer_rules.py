"""InferRules: rules induced from train tasks as further instructions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dspy

from whichloop.dspy_seam.program import LoopProgram
from whichloop.protocol.json_text import Json

from ..built_in import BuiltIn, at_least, bootstrap_metric, check_threshold
from ..compiling import Workshop, instructed


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


OPTIMIZER = InferRules
