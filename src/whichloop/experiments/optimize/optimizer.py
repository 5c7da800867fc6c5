"""Teleprompters by name: DSPy's own and the user's."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any, ClassVar, Protocol

from pydantic_core import to_jsonable_python

from whichloop.dspy_seam.program import LoopProgram
from whichloop.protocol import Program
from whichloop.protocol.modules import plugins_of
from whichloop.protocol.names import Spec, nearest, own_object, without_process
from whichloop.protocol.own_code import load_plugin
from whichloop.runs.built_in import Option, options_of
from whichloop.runs.registry import converted_options

from .compiling import BOTH, BuiltIn, Part, Workshop, any_metric, compiled, loud
from .config import check_packages
from .optimizers import BUILT_IN
from .quiet_dspy import error_line
from .raising import watched_metric

GROUP = "whichloop.optimizers"
"""The entry points of optimizers in other packages."""


class Optimizer(Protocol):
    """A teleprompter with its options."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str:
        """A one-line description."""

    @property
    def options(self) -> Mapping[str, Any]:
        """All options and their values, as JSON."""

    @property
    def described(self) -> Mapping[str, Option]:
        """The options that can be typed: type, default and a one-line description of each."""

    @property
    def changes(self) -> frozenset[Part]:
        """The parts of a predictor's state that it may change."""

    @property
    def proposes(self) -> bool:
        """Whether it makes its own model requests."""

    @property
    def only_collects(self) -> bool:
        """Whether it never compares programs, so that its state when the rollouts end is its result."""

    def compile(self, workshop: Workshop) -> LoopProgram:
        """Return a program of the student's predictors, uncompiled in DSPy's sense, so that it can be optimized again.

        A process runs one compile at a time; others wait. Raises OptimizerFailed. Only BaseExceptions pass through every
        optimizer: KeyboardInterrupt, or one that a rollout raises to end the compile.
        """


def unread_proposals_warning(requests: int, programs: Sequence[Program]) -> str:
    """Return a warning if proposals had no effect, else an empty text. DSPy ignores unreadable proposals.

    `requests`: the number of the optimizer's own requests. `programs`: those tried, the design's own first.
    """
    texts = [{name: prompt.instructions for name, prompt in program.items()} for program in programs]
    if not requests or any(text != texts[0] for text in texts):
        return ""
    return f"the optimizer made requests of its own ({requests}), but no other instructions were ever tried: look at the proposals"


# --- user optimizers ---

_PROVIDED: Mapping[str, Callable[[Workshop], Any]] = {
    "metric": lambda workshop: loud(any_metric),
    "seed": lambda workshop: workshop.seed,
    "threads": lambda workshop: workshop.threads,
    "num_threads": lambda workshop: workshop.threads,
    "lm": lambda workshop: workshop.lm,
    "prompt_model": lambda workshop: workshop.lm,
    "reflection_lm": lambda workshop: workshop.lm,
}
"""The arguments that whichloop passes to a constructor if its signature has them."""


@dataclass(frozen=True, slots=True)
class OwnOptimizer:
    """A user's own teleprompter: a class or function that returns an object with DSPy's `compile`."""

    name: str
    target: Callable[..., Any]
    typed_options: Mapping[str, Any]

    changes: ClassVar[frozenset[Part]] = BOTH
    proposes: ClassVar[bool] = True
    only_collects: ClassVar[bool] = False

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.target) or "").partition("\n")[0]

    @property
    def options(self) -> Mapping[str, Any]:
        options: dict[str, Any] = to_jsonable_python(dict(self.typed_options), fallback=str)
        return options

    @property
    def described(self) -> Mapping[str, Option]:
        return {name: option for name, option in options_of(self.target).items() if name not in _PROVIDED}

    def compile(self, workshop: Workshop) -> LoopProgram:
        return compiled(without_process(self.name), self._search, workshop)

    def _search(self, workshop: Workshop, student: LoopProgram) -> Any:
        settings = {name: value(workshop) for name, value in _PROVIDED.items()}
        teleprompter = self.target(**_accepted(self.target, settings), **self.typed_options)
        compiling: Any = getattr(teleprompter, "compile", None)
        if not callable(compiling):
            raise TypeError(f"it is a {type(teleprompter).__name__}, which has no compile(student, trainset=…)")
        arguments = {"valset": workshop.choosing, "seed": workshop.seed}
        accepted = _accepted(compiling, arguments)
        with watched_metric(teleprompter, workshop.warn):
            return compiling(student, trainset=list(workshop.train), **accepted)


def _accepted(function: Callable[..., Any], offered: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that the function's signature has."""
    return {name: value for name, value in offered.items() if name in inspect.signature(function).parameters}


def _own_optimizer(name: str, target: Any, options: Mapping[str, Any]) -> OwnOptimizer:
    label = f"optimizer {name}"
    if not callable(target) or (inspect.isclass(target) and not hasattr(target, "compile")):
        raise ValueError(
            f"{label}: it must be a class with a compile(student, trainset=…), or a function that makes such an object"
        )
    if reserved := [option for option in options if option in _PROVIDED]:
        raise ValueError(f"{label}: {reserved[0]} is not an option: whichloop sets it")
    unchecked = OwnOptimizer(name, target, options)
    checked = converted_options(target, options, label)
    empty = inspect.Parameter.empty
    if missing := [key for key, option in unchecked.described.items() if option.default is empty and key not in options]:
        raise ValueError(f"{label} needs {missing[0]}: give {name}({missing[0]}=…)")
    return OwnOptimizer(name, target, checked)


# --- by name ---


def optimizers() -> tuple[Optimizer, ...]:
    """Return the built-in optimizers with their default options."""
    return tuple(kind() for kind in BUILT_IN)


def optimizer_named(spec: Spec) -> Optimizer:
    """Return the optimizer that a spec names: one of DSPy's (case-insensitive), `package.module:Name`, or a plug-in.

    Raises ValueError with a one-line message for an unknown name or option, a bad value, or a package that is not installed.
    """
    name = spec.name
    if spec.program is not None:
        raise ValueError(f"optimizer {name}: @{spec.program} is for loops: an optimizer begins with the loop's program")
    if ":" in name:
        return _own_optimizer(name, own_object("optimizer", name), spec.options)
    by_name = {kind.name.lower(): kind for kind in BUILT_IN}
    if name.lower() in by_name:
        return _built_in(by_name[name.lower()], spec.options)
    plugins = {point.name: point for point in plugins_of(GROUP)}
    if name in plugins:
        return _own_optimizer(name, _loaded(plugins[name]), spec.options)
    hint = nearest(name, [*(kind.name for kind in BUILT_IN), *sorted(plugins)])
    raise ValueError(f"unknown optimizer {name!r}; {hint}, or package.module:Name")


def _built_in(kind: type[BuiltIn], typed_options: Mapping[str, Any]) -> Optimizer:
    label = f"optimizer {kind.name}"
    check_packages(kind.name)
    options = converted_options(kind, typed_options, label)
    try:
        return kind(**options)
    except ValueError as error:
        raise ValueError(f"{label}: {error}") from None


def _loaded(point: EntryPoint) -> Any:
    try:
        return load_plugin(point)
    except Exception as error:  # the boundary to foreign code
        raise ValueError(f"optimizer {point.name!r}: loading {point.value} failed: {error_line(error)}") from error
