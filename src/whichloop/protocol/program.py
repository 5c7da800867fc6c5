"""A loop's prompts as a program: what an optimizer may change, free of any framework, and the file that keeps it.

A *predictor* is one kind of request that a loop makes, such as `react` and `extract`. Its state is its instructions and its
demonstrations; a *program* is the state of all predictors of a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar, cast, runtime_checkable

from .chat import Reply
from .files import file_error_words, read_bounded
from .json_text import CHECKSUM, digest, load_json, unseal
from .names import nearest
from .values import counted

Demo = Mapping[str, Any]
"""Input and output fields by name, as JSON values; a *labelled* example, without an output, has `query` and `answer` instead."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The state of one predictor."""

    instructions: str
    inputs: Mapping[str, Any]
    """Input fields: name → type."""
    outputs: Mapping[str, Any]
    """Output fields: name → type."""
    demos: tuple[Demo, ...] = ()

    def is_whole(self, demo: Demo) -> bool:
        """Return whether a demonstration has all outputs; otherwise it is a labelled example."""
        return all(name in demo for name in self.outputs)


Program = Mapping[str, Prompt]
"""Name of a predictor → its state."""


@dataclass(frozen=True, slots=True)
class Prompted:
    """The predictor that makes a request, and this call of it as a demonstration."""

    predictor: str
    inputs: Callable[[], Mapping[str, Any]]
    """Returns the input fields of this call."""
    outputs: Callable[[Reply], Mapping[str, Any]]
    """Returns the output fields of a reply. Raises WireError."""


@runtime_checkable
class Optimizable(Protocol):
    """A loop whose prompts an optimizer may change."""

    @property
    def predictors(self) -> Program:
        """The state of every predictor that this configuration uses, by name."""

    def with_predictors(self, program: Program) -> Self:
        """Return the same loop with other instructions and demonstrations; predictors that are not named keep theirs.

        Raises ValueError, which names it, for a predictor that the loop does not have.
        """


OptimizableT = TypeVar("OptimizableT", bound=Optimizable)


class TakesProgram:
    """Gives a loop that is a dataclass `with_predictors`, which puts other prompts into the loop's field `program`."""

    __slots__ = ()

    def with_predictors(self: OptimizableT, program: Program) -> OptimizableT:
        """Return the same loop with other prompts. Raises ValueError for a predictor that it does not have."""
        changed: object = replace(cast(Any, self), program=merged(self.predictors, program))
        return cast(OptimizableT, changed)


# --- a program as data ---


def merged(program: Program, changes: Program | None) -> Program:
    """Return the loop's own program with changes. `changes`: the states of some of its predictors, None for none.

    Raises ValueError for a predictor that the loop does not have.
    """
    if not changes:
        return program
    for name in changes:
        if name not in program:
            raise ValueError(f"predictor {name!r} is not one of this loop's; {nearest(name, program)}")
    return {
        name: replace(prompt, instructions=changes[name].instructions, demos=changes[name].demos) if name in changes else prompt
        for name, prompt in program.items()
    }


def program_digest(program: Program) -> str:
    """Return the sha256 of all instructions and demonstrations."""
    return digest(
        {
            name: {"instructions": prompt.instructions, "demos": [dict(demo) for demo in prompt.demos]}
            for name, prompt in program.items()
        }
    )


@dataclass(frozen=True, slots=True)
class SavedProgram:
    """The contents of a program file: predictors as DSPy saves them, and their origin."""

    program: Program
    """Instructions and demonstrations by predictor; the fields are the loop's."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """`loop`, and further notes of the optimization: optimizer, suite, budget, scores."""


ABOUT = "whichloop"
"""The key of our own notes in a program file; DSPy ignores it."""
_NO_PREDICTORS = frozenset({ABOUT, CHECKSUM, "metadata"})


def read_program(path: str | Path) -> SavedProgram:
    """Read a program from a file that `optimize`, or DSPy's own `save`, has written; a model and traces in it are ignored.

    Raises ValueError, in one line that names the file and, in it, the field.
    """
    try:
        raw = read_bounded(Path(path))
        data = load_json(raw.decode("utf-8"), finite=True)
    except OSError as error:
        raise ValueError(file_error_words(error)) from None
    except ValueError as error:
        raise ValueError(f"{path}: invalid JSON: {error}") from None
    if not isinstance(data, dict):
        raise ValueError(f"{path}: not a program: expected a JSON object of predictors")
    if ABOUT in data or CHECKSUM in data:
        try:
            unseal(raw)
        except ValueError as error:
            hint = f"a program that you edited is read without its notes {ABOUT!r} and {CHECKSUM!r}"
            raise ValueError(f"{path}: {error}; {hint}") from None
    about = data.get(ABOUT, {})
    if not isinstance(about, dict):
        raise ValueError(f"{path}: {ABOUT}: expected a JSON object")
    program = {name: _state(item, f"{path}: {name}") for name, item in data.items() if name not in _NO_PREDICTORS}
    if not program:
        raise ValueError(f"{path}: not a program: it holds no predictor")
    return SavedProgram(program, about)


def _state(data: Any, where: str) -> Prompt:
    signature = data.get("signature") if isinstance(data, dict) else None
    instructions = signature.get("instructions") if isinstance(signature, dict) else None
    if not isinstance(instructions, str):
        raise ValueError(f"{where}: signature.instructions: expected a text")
    demos = data.get("demos", [])
    if not isinstance(demos, list) or not all(isinstance(demo, dict) for demo in demos):
        raise ValueError(f"{where}: demos: expected a list of JSON objects")
    return Prompt(instructions, {}, {}, tuple(demos))


def with_program(loop: OptimizableT, path: str | Path) -> OptimizableT:
    """Return the loop with the prompts of a file, ready for a product: `with_program(Finish(), "optimized.json")`.

    Raises ValueError, in one line that names the file, if it cannot be read or its program does not fit the loop.
    """
    saved, name = read_program(path), getattr(loop, "name", None)
    design = saved.about.get("design")
    try:
        if None not in (design, name) and design != name:
            raise ValueError(f"it was saved for the design {design!r}, of whose replies its prompts speak; this one is {name!r}")
        return loop.with_predictors(merged(loop.predictors, saved.program))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def repr_with_program(loop: Any) -> str:
    """Return the repr of a loop that is a dataclass, with the prompts that its `program` has in the place of its own."""
    options = [f"{item.name}={getattr(loop, item.name)!r}" for item in fields(loop) if item.repr]
    if loop.program is not None:
        own = replace(loop, program=None).predictors
        changed = [
            f"{name}: {prompt.instructions!r} and {counted(len(prompt.demos), 'demonstration')}"
            for name, prompt in loop.predictors.items()
            if prompt != own.get(name)
        ]
        options.append(f"program=<{'; '.join(changed) or 'as its own'}>")
    return f"{type(loop).__qualname__}({', '.join(options)})"
