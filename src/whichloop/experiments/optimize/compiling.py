"""One compile of a teleprompter: its inputs, its metrics and its program.

It has no side effects on DSPy's settings, streams or loggers. It is repeatable: equal seeds and equal answers give equal programs.
It reports errors that DSPy swallows: an exception in a rollout or a metric ends the compile as OptimizerFailed, others, such as in
a proposal, reach `Workshop.warn`.

The base of the built-in optimizers, which `optimizers` has; their fields are their options.

Their defaults suit a small budget.

A program that is optimized again begins with its own instructions. Its demonstrations are dropped by LabeledFewShot,
BootstrapFewShot, BootstrapFewShotWithRandomSearch and InferRules (DSPy's `reset_copy`), which gather their own; MIPROv2 scores them
once and then searches among its own; COPRO and GEPA keep them, SIMBA drops some in every program that it makes.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import math
import random
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from types import TracebackType
from typing import Any, ClassVar, Literal, Self

import dspy

from whichloop.dspy_seam.program import LoopProgram
from whichloop.protocol.redact import logger_of
from whichloop.runs.built_in import Option, options_of

from .config import packages_of
from .quiet_dspy import Warn, error_line, quiet, with_place

logger = logger_of(__name__)


@dataclass(frozen=True, slots=True)
class Workshop:
    """The inputs of a compile."""

    student: LoopProgram
    """The initial program, which is not changed."""
    train: Sequence[dspy.Example]
    """The examples to learn from: `query`, `task` and `answer`, of which the first two are inputs."""
    dev: Sequence[dspy.Example]
    """The examples to select programs with; if empty, train."""
    lm: Any
    """A dspy.LM without a cache for the optimizer's own requests; may be None if it makes none."""
    threads: int = 1
    """Number of rollouts in flight at once."""
    seed: int = 0
    warn: Warn = logger.warning
    """A function that gets each kind of problem that DSPy only logs, in one line."""

    @property
    def drawn(self) -> list[Any]:
        """Return the train tasks in an order drawn with the seed, for optimizers without a seed."""
        tasks = list(self.train)
        random.Random(self.seed).shuffle(tasks)
        return tasks

    @property
    def choosing(self) -> list[Any]:
        """The examples to select programs with."""
        return list(self.dev or self.train)


class OptimizerFailed(Exception):
    """A compile without a result because of a bug in the optimizer, a metric or a rollout; the message names the cause."""


# --- metrics ---


def score(example: Any, prediction: Any, trace: Any = None) -> float | bool:
    """Return the rollout's score in [0, 1]; with a trace, in bootstrapping, whether it is a full success."""
    value = float(prediction.score)
    return value if trace is None else value >= 1.0


def judge(gold: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None) -> Any:
    """Return a dspy.Prediction of score and feedback, which GEPA reflects on and SIMBA derives advice from."""
    return dspy.Prediction(score=float(pred.score), feedback=str(pred.feedback))


def share(example: Any, prediction: Any, trace: Any = None) -> float:
    """Return the score, in bootstrapping too, where a threshold defines success."""
    return float(prediction.score)


def any_metric(example: Any, prediction: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None) -> Any:
    """Return a metric's value for optimizers whose way of calling is unknown."""
    return score(example, prediction, trace) if pred_name is None else judge(example, prediction)


class Uncaught(BaseException):
    """A carrier of an exception (its cause) past optimizers, which would log it and score 0; its text says where it was raised, and
    what, where there is no cause."""


def loud(metric: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a metric so that an exception in it ends the compile."""

    @functools.wraps(metric)
    def measured(*args: Any, **kwargs: Any) -> Any:
        try:
            return metric(*args, **kwargs)
        except Exception as error:
            raise Uncaught("in the metric") from error

    return measured


# --- a compile ---


class LoopUnderTest(LoopProgram):
    """An agent: a loop asks a model, calls tools and reads their results until it has an answer.

    Each predictor is one kind of request that the loop makes. Its instructions and demonstrations are all that can be changed.
    """

    # MIPROv2 and SIMBA show the source of this class to the model that proposes.

    _fuse: _Fuse

    @classmethod
    def of(cls, student: LoopProgram) -> Self:
        """Return a copy of the student."""
        student_copy: Self = student.deepcopy()
        student_copy.__class__ = cls
        student_copy._compiled = False  # DSPy takes a compiled program for frozen
        student_copy._fuse = _Fuse()
        student_copy.set_lm(None)
        return student_copy

    def end(self) -> None:
        """Let no rollout begin any more: after Ctrl-C, a thread of GEPA's goes on with its batch."""
        self._fuse.blown = self._fuse.blown or Uncaught("after the end")

    def forward(self, **inputs: Any) -> Any:
        trace = dspy.settings.trace
        before = 0 if trace is None else len(trace)
        with self._fuse:
            prediction = super().forward(**inputs)
        if trace is not None:
            trace[before:] = [
                (who, _fresh(call_inputs), dspy.Prediction(**_fresh(dict(outputs)))) for who, call_inputs, outputs in trace[before:]
            ]
        return prediction


class _Fuse:
    """A fuse shared by a program and its copies: a rollout that raises blows it, and then no further one begins."""

    def __init__(self) -> None:
        self.blown: BaseException | None = None

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __enter__(self) -> None:
        if self.blown is not None:
            raise self.blown

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if isinstance(error, Exception):
            self.blown = Uncaught("in a rollout")
            raise self.blown from error
        self.blown = error or self.blown


def _fresh(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy in which each text is an object of its own.

    BootstrapFewShot draws by a hash of pickles, which distinguish one text used twice from two equal texts: a rollout that is
    read from a log would lead to other demonstrations than the same one did when it was run.
    """
    copy: dict[str, Any] = json.loads(json.dumps(values))
    return copy


_ONE_AT_A_TIME = threading.RLock()
"""A lock, because silencing DSPy's modules affects the whole process."""


def compiled(name: str, search: Callable[[Workshop, LoopProgram], Any], workshop: Workshop) -> LoopProgram:
    """Run `search` on a copy of the student and return its program. Raises OptimizerFailed; see `Optimizer.compile`."""
    if not workshop.train:
        raise OptimizerFailed(f"{name}: there is no train task")
    student = LoopUnderTest.of(workshop.student)
    with _ONE_AT_A_TIME, quiet(workshop.warn), dspy.context(**_settings(workshop)):
        try:
            return _program(search(workshop, student), workshop.student)
        except Uncaught as uncaught:
            cause = uncaught.__cause__
            message = str(uncaught) if cause is None else f"{uncaught}: {with_place(cause)}"
            raise OptimizerFailed(f"{name}: {message}") from cause
        except Exception as error:  # the boundary to DSPy's and the user's own optimizers
            raise OptimizerFailed(f"{name}: {error_line(error)}") from error
        finally:
            student.end()


def _settings(workshop: Workshop) -> dict[str, Any]:
    return {
        "lm": workshop.lm,
        "adapter": dspy.ChatAdapter(),
        "trace": None,  # else every rollout is kept; code that needs a trace starts its own
        "callbacks": [],
        "disable_history": True,
        "track_usage": False,
        "num_threads": workshop.threads,
        "max_errors": sys.maxsize,  # DSPy would discard all scores at the tenth
    }


def _program(result: Any, student: LoopProgram) -> LoopProgram:
    """Return a copy of the student with the state of an optimizer's result, without anything else that DSPy attaches.

    Raises TypeError for anything but a program of the student's predictors.
    """
    if not isinstance(result, LoopProgram):
        raise TypeError(f"it gave a {type(result).__name__}, not the program that it was handed, or a copy of it")
    names, expected = sorted(_predictors(result)), sorted(_predictors(student))
    if names != expected:
        raise TypeError(f"it gave a program of the predictors {', '.join(names) or 'none'}, not {', '.join(expected)}")
    clean: LoopProgram = student.deepcopy()
    clean._compiled = False
    clean.set_lm(None)
    for name, prompt in result.program.items():
        predictor = getattr(clean, name)
        predictor.signature = instructed(predictor.signature, prompt.instructions)
        predictor.demos = [dspy.Example(_fresh(demo)) for demo in prompt.demos]
    return clean


def instructed(signature: Any, instructions: str) -> Any:
    """Return a new signature with these instructions; without any, DSPy would invent some."""
    new_signature = signature.with_instructions(instructions)
    new_signature.instructions = instructions
    return new_signature


def _predictors(program: LoopProgram) -> dict[str, Any]:
    return {name: value for name, value in vars(program).items() if isinstance(value, dspy.Predict)}


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
