"""Programs as text: a program from a file or a loop, turn by turn, and the differences between two programs."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from whichloop.protocol import Message, Optimizable, Prompt, program_digest, read_program
from whichloop.protocol.names import parse_spec
from whichloop.protocol.program import CONVERSATION, Demo, in_own_format
from whichloop.protocol.values import one_line
from whichloop.runs.registry import make_loop

BOOTSTRAPPED = "augmented"
"""The field with which DSPy marks a demonstration from a run of the program."""


@dataclass(frozen=True, slots=True)
class NamedProgram:
    """A program and its origin."""

    name: str
    """The name as typed."""
    predictors: Mapping[str, Prompt]
    """The predictors; those of a file have no known fields."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """The notes of the optimization in the file."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "program": self.name,
            "digest": program_digest(self.predictors),
            "about": dict(self.about),
            "predictors": {
                name: {"instructions": prompt.instructions, "demos": [dict(demo) for demo in prompt.demos]}
                for name, prompt in self.predictors.items()
            },
        }


def program_named(text: str) -> NamedProgram:
    """Return the program of a file, or that of a loop `name`, `name(option=value)` or `name@FILE`.

    Raises ValueError for anything else, and OSError.
    """
    if (text.endswith(".json") and "@" not in text) or Path(text).is_file():
        saved = read_program(text)
        predictors = {name: Prompt(instructions, {}, {}, demos) for name, (instructions, demos) in saved.state.items()}
        return _checked(NamedProgram(text, predictors, saved.about))
    loop = make_loop(parse_spec(text))
    if not isinstance(loop, Optimizable):
        raise ValueError(f"loop {text}: it has no program: no predictors and with_predictors")
    return _checked(NamedProgram(text, loop.predictors))


def _checked(program: NamedProgram) -> NamedProgram:
    """Raise ValueError for numbers that JSON does not have."""
    try:
        program_digest(program.predictors)
    except ValueError as error:
        raise ValueError(f"{program.name}: {error}") from None
    return program


# --- one program ---


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A labelled text: a field of a demonstration, or a turn of its conversation."""

    label: str
    text: str


def parts(demo: Demo) -> tuple[LabelledText, ...]:
    """Return a demonstration as labelled texts: a conversation turn by turn, anything else field by field."""
    fields = {name: value for name, value in demo.items() if name != BOOTSTRAPPED}
    outputs = [name for name in fields if name != CONVERSATION]
    if CONVERSATION in fields and len(outputs) == 1:
        prompt = Prompt("", {CONVERSATION: str}, {outputs[0]: str}, (fields,))
        return tuple(LabelledText(turn.role, _turn_text(turn)) for turn in in_own_format(prompt).turns)
    return tuple(LabelledText(one_line(name), value if isinstance(value, str) else _json(value)) for name, value in fields.items())


def _turn_text(turn: Message) -> str:
    calls = [f"{call.name} {call.arguments}" for call in turn.calls]
    return "\n".join([*([turn.content] if turn.content or not calls else []), *calls])


def demo_title(place: int, demo: Demo) -> str:
    """Return the title of a demonstration; `place` starts at 1."""
    return f"demonstration {place}{', from a run' if demo.get(BOOTSTRAPPED) is True else ''}"


def origin(program: NamedProgram) -> tuple[tuple[str, str], ...]:
    """Return what is noted of a program's origin, as labels and texts."""
    return tuple((name, value if isinstance(value, str) else _json(value)) for name, value in program.about.items())


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


# --- two programs ---

Status = Literal["equal", "changed", "added", "removed"]


@dataclass(frozen=True, slots=True)
class PredictorDiff:
    """The difference of a predictor between a and b."""

    name: str
    status: Status
    """The status: added if only b has the predictor, removed if only a has it."""
    instructions: tuple[str, ...]
    """The unified diff without the lines that name files; empty if equal."""
    shared: tuple[Demo, ...]
    """The demonstrations of both, equal in all fields."""
    added: tuple[Demo, ...]
    removed: tuple[Demo, ...]
    reordered: bool
    """Whether the demonstrations of both are in different order."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "status": self.status,
            "instructions": list(self.instructions),
            "demos": {
                "kept": len(self.shared),
                "added": [dict(demo) for demo in self.added],
                "removed": [dict(demo) for demo in self.removed],
                "reordered": self.reordered,
            },
        }


@dataclass(frozen=True, slots=True)
class ProgramDiff:
    """The difference of program b from program a."""

    a: NamedProgram
    b: NamedProgram
    predictors: tuple[PredictorDiff, ...]

    @property
    def equal(self) -> bool:
        return all(diff.status == "equal" for diff in self.predictors)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "a": self.a.name,
            "b": self.b.name,
            "equal": self.equal,
            "predictors": {diff.name: diff.to_json() for diff in self.predictors},
        }


def program_diff(a: NamedProgram, b: NamedProgram) -> ProgramDiff:
    """Return the differences predictor by predictor, a's first."""
    names = dict.fromkeys([*a.predictors, *b.predictors])
    return ProgramDiff(a, b, tuple(_predictor_diff(name, a.predictors.get(name), b.predictors.get(name)) for name in names))


_NO_PROMPT = Prompt("", {}, {})


def _predictor_diff(name: str, a: Prompt | None, b: Prompt | None) -> PredictorDiff:
    old, new = a or _NO_PROMPT, b or _NO_PROMPT
    in_a, in_b = _shared(old.demos, new.demos), _shared(new.demos, old.demos)
    shared, kept_in_b = tuple(demo for demo, is_shared in in_a if is_shared), tuple(demo for demo, is_shared in in_b if is_shared)
    reordered = [*map(_key, shared)] != [*map(_key, kept_in_b)]
    added, removed = (tuple(demo for demo, is_shared in demos if not is_shared) for demos in (in_b, in_a))
    instructions = _unified(old.instructions, new.instructions)
    status: Status = "changed" if instructions or added or removed or reordered else "equal"
    if a is None or b is None:
        status = "added" if a is None else "removed"
    return PredictorDiff(name, status, instructions, shared, added, removed, reordered)


def _shared(demos: Sequence[Demo], others: Sequence[Demo]) -> list[tuple[Demo, bool]]:
    """Return each demonstration and whether the others have it too; each of the others matches once."""
    remaining = Counter(map(_key, others))
    pairs = []
    for demo in demos:
        key = _key(demo)
        pairs.append((demo, remaining[key] > 0))
        remaining[key] -= 1
    return pairs


def _key(demo: Demo) -> str:
    return json.dumps(demo, sort_keys=True)


def _unified(a: str, b: str) -> tuple[str, ...]:
    if a == b:
        return ()
    return tuple(difflib.unified_diff(a.split("\n"), b.split("\n"), lineterm=""))[2:]


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of a diff."""

    kind: Literal["head", "place", "same", "added", "removed"]
    text: str


def diff_lines(diff: ProgramDiff) -> Iterator[DiffLine]:
    """Yield the lines as `diff -u` prints them; demonstrations of both are only counted."""
    if diff.equal:
        return
    yield DiffLine("removed", f"--- {diff.a.name}")
    yield DiffLine("added", f"+++ {diff.b.name}")
    for predictor in diff.predictors:
        if predictor.status == "equal":
            continue
        only = {"added": f" (only in {diff.b.name})", "removed": f" (only in {diff.a.name})"}.get(predictor.status, "")
        yield DiffLine("head", f"{one_line(predictor.name)}{only}")
        for text in predictor.instructions:
            yield DiffLine(_KINDS.get(text[:1], "same"), text)
        if predictor.shared or predictor.added or predictor.removed:
            order = ", in another order" if predictor.reordered else ""
            counts = f"{len(predictor.removed)} removed, {len(predictor.added)} added, {len(predictor.shared)} kept{order}"
            yield DiffLine("place", f"@@ demonstrations: {counts} @@")
        yield from _demo_lines("removed", "-", predictor.removed)
        yield from _demo_lines("added", "+", predictor.added)


_KINDS: Mapping[str, Literal["place", "added", "removed"]] = {"@": "place", "+": "added", "-": "removed"}


def _demo_lines(kind: Literal["added", "removed"], mark: str, demos: Sequence[Demo]) -> Iterator[DiffLine]:
    for place, demo in enumerate(demos):
        if place:
            yield DiffLine(kind, mark)
        for part in parts(demo):
            first, *rest = part.text.split("\n")
            yield DiffLine(kind, f"{mark}{part.label}: {first}")
            yield from (DiffLine(kind, f"{mark}  {line}") for line in rest)
