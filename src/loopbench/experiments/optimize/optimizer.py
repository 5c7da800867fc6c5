"""Teleprompters by name: DSPy's own and the user's."""

from __future__ import annotations

import difflib
import importlib.util
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, Protocol

from pydantic_core import to_jsonable_python

from loopbench.dspy_seam.program import LoopProgram
from loopbench.protocol import Program
from loopbench.protocol.names import own_object
from loopbench.runs.options import Option, options_of
from loopbench.runs.registry import Spec, checked_options

from .built_in import BOTH, BuiltIn, Part, built_in
from .compiling import OptimizerFailed, Workshop, any_metric, compiled, judge, loud, score
from .quiet_dspy import one_line

__all__ = ["Optimizer", "OptimizerFailed", "OwnOptimizer", "Workshop", "judge", "optimizer_named", "optimizers", "score", "unheard"]

GROUP = "loopbench.optimizers"
"""Entry points of optimizers of others."""


class Optimizer(Protocol):
    """A teleprompter with its options."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str:
        """What it does, in a line."""

    @property
    def options(self) -> Mapping[str, Any]:
        """All options as they are used, as JSON."""

    @property
    def described(self) -> Mapping[str, Option]:
        """The options that can be typed: type, default and a line about each."""

    @property
    def changes(self) -> frozenset[Part]:
        """Which parts of a predictor's state it may change."""

    @property
    def proposes(self) -> bool:
        """Whether it makes requests of its own."""

    @property
    def only_collects(self) -> bool:
        """Whether it compares no programs, so that what it has when the rollouts end is what it would give."""

    def compile(self, workshop: Workshop) -> LoopProgram:
        """A program of the student's predictors, uncompiled in DSPy's sense, so that it can be optimized again.

        One compile at a time in a process; others wait. Raises OptimizerFailed. What is no Exception passes through every
        optimizer: KeyboardInterrupt, or whatever a rollout raises to end it.
        """


def unheard(asked: int, programs: Sequence[Program]) -> str:
    """A warning where proposals came to nothing, else an empty text. DSPy passes over proposals that cannot be read.

    `asked`: the optimizer's own requests. `programs`: those that were tried, the design's own first.
    """
    texts = [{name: prompt.instructions for name, prompt in program.items()} for program in programs]
    if not asked or any(text != texts[0] for text in texts):
        return ""
    return f"the optimizer made {asked} requests of its own, but no other instructions were ever tried: look at the proposals"


# --- the user's own ---

_GIVEN: Mapping[str, Callable[[Workshop], Any]] = {
    "metric": lambda workshop: loud(any_metric),
    "seed": lambda workshop: workshop.seed,
    "threads": lambda workshop: workshop.threads,
    "num_threads": lambda workshop: workshop.threads,
    "lm": lambda workshop: workshop.lm,
    "prompt_model": lambda workshop: workshop.lm,
    "reflection_lm": lambda workshop: workshop.lm,
}
"""Arguments that a constructor gets from us where its signature takes them."""


@dataclass(frozen=True, slots=True)
class OwnOptimizer:
    """A teleprompter of the user's own: a class, or a function, that gives an object with DSPy's `compile`."""

    name: str
    target: Callable[..., Any]
    given: Mapping[str, Any]
    """Options as typed."""

    changes: ClassVar[frozenset[Part]] = BOTH
    proposes: ClassVar[bool] = True
    only_collects: ClassVar[bool] = False

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.target) or "").partition("\n")[0]

    @property
    def options(self) -> Mapping[str, Any]:
        made: dict[str, Any] = to_jsonable_python(dict(self.given), fallback=str)
        return made

    @property
    def described(self) -> Mapping[str, Option]:
        return {name: option for name, option in options_of(self.target).items() if name not in _GIVEN}

    def compile(self, workshop: Workshop) -> LoopProgram:
        return compiled(self.name, self._search, workshop)

    def _search(self, workshop: Workshop, student: LoopProgram) -> Any:
        ours = {name: value(workshop) for name, value in _GIVEN.items()}
        made = self.target(**_taken(self.target, ours), **self.given)
        compiling: Any = getattr(made, "compile", None)
        if not callable(compiling):
            raise TypeError(f"it is a {type(made).__name__}, which has no compile(student, trainset=…)")
        more = {"valset": workshop.choosing, "seed": workshop.seed}
        return compiling(student, trainset=list(workshop.train), **_taken(compiling, more))


def _taken(function: Callable[..., Any], offered: Mapping[str, Any]) -> dict[str, Any]:
    """Those arguments that the function's signature names."""
    return {name: value for name, value in offered.items() if name in inspect.signature(function).parameters}


def _own(name: str, target: Any, given: Mapping[str, Any]) -> OwnOptimizer:
    whose = f"optimizer {name}"
    if not callable(target) or (inspect.isclass(target) and not hasattr(target, "compile")):
        raise ValueError(
            f"{whose}: it is not a class with a compile(student, trainset=…), nor a function that makes such an object"
        )
    if ours := [option for option in given if option in _GIVEN]:
        raise ValueError(f"{whose}: {ours[0]} cannot be given: loopbench sets it")
    made = OwnOptimizer(name, target, given)
    checked = checked_options(target, given, whose)
    empty = inspect.Parameter.empty
    if missing := [key for key, option in made.described.items() if option.default is empty and key not in given]:
        raise ValueError(f"{whose} needs {missing[0]}: give {name}({missing[0]}=…)")
    return OwnOptimizer(name, target, checked)


# --- by name ---


def optimizers() -> tuple[Optimizer, ...]:
    """The built-in ones, with their default options."""
    return tuple(kind() for kind in built_in())


def optimizer_named(spec: Spec) -> Optimizer:
    """The optimizer that a spec names: one of DSPy's in any case, `package.module:Name`, or a plug-in's name.

    Raises ValueError, in one line, for an unknown name or option, a bad value, or a package that is not installed.
    """
    name = spec.name
    if spec.program is not None:
        raise ValueError(f"optimizer {name}: @{spec.program} is for loops: an optimizer begins with the loop's program")
    if ":" in name:
        return _own(name, own_object("optimizer", name), spec.options)
    known = {kind.name.lower(): kind for kind in built_in()}
    if name.lower() in known:
        return _built_in(known[name.lower()], spec.options)
    plugins = {point.name: point for point in entry_points(group=GROUP)}
    if name in plugins:
        return _own(name, _loaded(plugins[name]), spec.options)
    raise ValueError(f"unknown optimizer {name!r}; {_hint(name, [*(kind.name for kind in built_in()), *sorted(plugins)])}")


def _built_in(kind: type[BuiltIn], given: Mapping[str, Any]) -> Optimizer:
    whose = f"optimizer {kind.name}"
    if kind.package and importlib.util.find_spec(kind.package) is None:
        raise ValueError(f"{whose} needs {kind.package}: pip install 'loopbench[optimize]'")
    options = checked_options(kind, given, whose)
    try:
        return kind(**options)
    except ValueError as error:
        raise ValueError(f"{whose}: {error}") from None


def _loaded(point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as error:  # the boundary to code of others
        raise ValueError(f"optimizer {point.name!r}: loading {point.value} failed: {one_line(error)}") from error


def _hint(name: str, known: Sequence[str]) -> str:
    """The nearest right name, whatever the case, and all of them."""
    lowered = {item.lower(): item for item in known}
    part = [item for low, item in lowered.items() if name.lower() in low]
    near = part or [lowered[low] for low in difflib.get_close_matches(name.lower(), lowered, 1)]
    return f"{f'did you mean {near[0]!r}? ' if near else ''}known: {', '.join(known)}, or package.module:Name"
