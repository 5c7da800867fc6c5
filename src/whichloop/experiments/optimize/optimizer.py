"""Teleprompters by name: a table of DSPy's own, and the user's. Their options are the arguments that they take themselves."""

from __future__ import annotations

import importlib
import inspect
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import dspy
from pydantic_core import to_jsonable_python

from whichloop.dspy_seam.program import LoopProgram
from whichloop.protocol import Program
from whichloop.protocol.modules import plugins_of
from whichloop.protocol.names import Spec, nearest, own_object, without_process
from whichloop.runs.built_in import Option, options_of
from whichloop.runs.registry import converted_options

from .compiling import Workshop, compiled, error_line, judge, loud, loud_metric_of, score
from .config import check_packages

GROUP = "whichloop.optimizers"
Options = dict[str, Any]


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """What whichloop adds to a teleprompter of DSPy's."""

    summary: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Options that are smaller than DSPy's own, for small budgets."""
    metric: Callable[..., Any] = score
    only_collects: bool = False
    """Whether it never compares programs, so that its state when the rollouts end is its result."""
    sized: Callable[[Options, Workshop], Options] = lambda options, workshop: options


def _gepa(options: Options, workshop: Workshop) -> Options:
    sizes = {"max_metric_calls", "max_full_evals", "auto"}
    return options if sizes & options.keys() else {**options, "max_full_evals": 10}


def _mipro(options: Options, workshop: Workshop) -> Options:
    """Return its options without `auto`, unless that was typed; DSPy refuses a minibatch larger than dev."""
    dev, size = len(workshop.dev), options.get("minibatch_size", 35)
    options = {"minibatch": dev > size, **options, "minibatch_size": min(size, dev)}
    if options.get("auto") is not None:
        return options
    candidates = options.get("num_candidates", 6)
    parts = len(workshop.student.predictors())
    parts *= 1 if options.get("max_bootstrapped_demos") == options.get("max_labeled_demos") == 0 else 2
    trials = int(max(2 * parts * math.log2(max(2, candidates)), 1.5 * candidates))  # as many as DSPy recommends
    return {"num_trials": trials, **options, "auto": None, "num_candidates": candidates}


BUILT_IN: Mapping[str, BuiltIn] = {
    "BootstrapFewShot": BuiltIn("Steps of rollouts that went well as demonstrations, train tasks as examples.", only_collects=True),
    "BootstrapFewShotWithRandomSearch": BuiltIn(
        "BootstrapFewShot over shuffled train tasks, many times; the best by dev score.", {"num_candidate_programs": 6}
    ),
    "COPRO": BuiltIn("Proposed instructions, improved round by round by their score on train.", {"breadth": 4, "depth": 2}),
    "GEPA": BuiltIn("Instructions evolved by reflecting on feedback in words.", metric=judge, sized=_gepa),
    "LabeledFewShot": BuiltIn("Train tasks and their answers as examples; nothing is tried out.", only_collects=True),
    "MIPROv2": BuiltIn("Proposed instructions and bootstrapped demonstrations, combined by Bayesian search.", sized=_mipro),
    "SIMBA": BuiltIn(
        "Demonstrations and advice from train tasks whose rollouts differ most.",
        {"bsize": 8, "num_candidates": 4, "max_steps": 4},
        metric=judge,
        sized=lambda options, workshop: {**options, "bsize": min(options["bsize"], len(workshop.train))},
    ),
}  # fmt: skip

_GIVEN = ("metric", "seed", "threads", "num_threads", "lm", "prompt_model", "reflection_lm")
_RESERVED = frozenset({*_GIVEN, "self", "student", "trainset", "valset", "teacher", "eval_kwargs", "log_dir"})
"""Arguments that are no options: whichloop passes what it has to a constructor or a `compile` whose signature has them."""


@dataclass(frozen=True, slots=True)
class Optimizer:
    """A teleprompter with its options: a class or function that gives an object with DSPy's `compile`."""

    name: str
    target: Callable[..., Any]
    typed: Mapping[str, Any] = field(default_factory=dict)
    about: BuiltIn = BuiltIn("")

    @property
    def options(self) -> Options:
        """The options that differ from DSPy's defaults, as JSON."""
        options: Options = to_jsonable_python({**self.about.defaults, **self.typed}, fallback=str)
        return options

    @property
    def described(self) -> Mapping[str, Option]:
        """The options that can be typed."""
        own = options_of(self.target)
        of_compile = options_of(self._compile) if self._compile else {}
        return {name: option for name, option in {**of_compile, **own}.items() if name not in _RESERVED}

    @property
    def _compile(self) -> Any:
        """Its method, where it is a class."""
        return getattr(self.target, "compile", None) if inspect.isclass(self.target) else None

    def compile(self, workshop: Workshop) -> Program:
        """Return a program of the student's predictors. Raises what `compiled` does."""
        for package in check_packages(self.name):
            importlib.import_module(package)  # before its logger is redirected, because the import sets it up
        return compiled(without_process(self.name), self._search, workshop)

    def _search(self, workshop: Workshop, student: LoopProgram) -> Any:
        metric = self.about.metric
        if "metric_threshold" in self.typed and metric is score:
            metric = lambda example, prediction, trace=None: score(example, prediction)  # noqa: E731
        given = (loud(metric), workshop.seed, workshop.threads, workshop.threads, *[workshop.lm] * 3)
        options = self.about.sized({**self.about.defaults, **self.typed}, workshop)
        of_compile = {name: value for name, value in options.items() if name not in inspect.signature(self.target).parameters}
        own = {name: value for name, value in options.items() if name not in of_compile}
        teleprompter = self.target(**_accepted(self.target, dict(zip(_GIVEN, given, strict=True))), **own)
        compiling: Any = getattr(teleprompter, "compile", None)
        if not callable(compiling):
            raise TypeError(f"it is a {type(teleprompter).__name__}, which has no compile(student, trainset=…)")
        quiet = {"num_threads": workshop.threads, "display_progress": False}
        arguments = _accepted(compiling, {"valset": workshop.dev, "seed": workshop.seed, "eval_kwargs": quiet})
        has_seed = "seed" in arguments or "seed" in inspect.signature(self.target).parameters
        trainset = list(workshop.train)
        if not has_seed:
            random.Random(workshop.seed).shuffle(trainset)
        with loud_metric_of(teleprompter):
            return compiling(student, trainset=trainset, **arguments, **of_compile)


def _accepted(function: Callable[..., Any], offered: Mapping[str, Any]) -> Options:
    """Return the arguments that the function's signature has, and a metric where it takes any."""
    parameters = inspect.signature(function).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    return {name: value for name, value in offered.items() if name in parameters or (takes_any and name == "metric")}


# --- by name ---


def optimizers() -> tuple[Optimizer, ...]:
    """Return the built-in optimizers with their default options."""
    return tuple(Optimizer(name, getattr(dspy, name), {}, about) for name, about in BUILT_IN.items())


def optimizer_named(spec: Spec) -> Optimizer:
    """Return the optimizer of a spec: one of DSPy's (case-insensitive), `package.module:Name`, or a plug-in. Raises ValueError."""
    name = spec.name
    if spec.program is not None:
        raise ValueError(f"optimizer {name}: @{spec.program} is for loops: an optimizer begins with the loop's program")
    if ":" in name:
        return _checked(Optimizer(name, own_object("optimizer", name)), spec.options)
    for optimizer in optimizers():
        if optimizer.name.lower() == name.lower():
            check_packages(optimizer.name)
            return _checked(optimizer, spec.options)
    plugins = {point.name: point for point in plugins_of(GROUP)}
    if name not in plugins:
        hint = nearest(name, [*BUILT_IN, *sorted(plugins)])
        raise ValueError(f"unknown optimizer {name!r}; {hint}, or package.module:Name")
    try:
        target = plugins[name].load()
    except Exception as error:  # the boundary to foreign code
        raise ValueError(f"optimizer {name!r}: loading {plugins[name].value} failed: {error_line(error)}") from error
    return _checked(Optimizer(name, target), spec.options)


def _checked(plain: Optimizer, typed: Mapping[str, Any]) -> Optimizer:
    """Return an optimizer with options. Raises ValueError for what is none, and for an option that it lacks or needs."""
    label, target = f"optimizer {plain.name}", plain.target
    if not callable(target) or (inspect.isclass(target) and not hasattr(target, "compile")):
        raise ValueError(f"{label}: it must be a class with a compile(student, trainset=…), or a function that makes one")
    if reserved := typed.keys() & _RESERVED:
        raise ValueError(f"{label}: {min(reserved)} is not an option: whichloop sets it")
    own = options_of(target)
    of_compile = {name: value for name, value in typed.items() if name in plain.described and name not in own}
    options = converted_options(target, {name: value for name, value in typed.items() if name not in of_compile}, label)
    if of_compile:
        options |= converted_options(plain._compile, of_compile, label)
    empty = inspect.Parameter.empty
    if missing := [key for key, option in own.items() if option.default is empty and key not in {*options, *_RESERVED}]:
        raise ValueError(f"{label} needs {missing[0]}: give {plain.name}({missing[0]}=…)")
    return Optimizer(plain.name, target, options, plain.about)
