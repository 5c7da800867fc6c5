"""Programs as text: a program from a file or a loop, turn by turn, and the differences between two programs."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from whichloop.protocol import Optimizable, Program, Prompt, program_digest, read_program, render_value
from whichloop.protocol.names import parse_spec
from whichloop.protocol.program import Demo
from whichloop.protocol.values import one_line
from whichloop.protocol.wire import CONVERSATION, in_own_format
from whichloop.runs.registry import make_loop

HEAD = "── "
"""How the heading of a part of a program begins."""
BOOTSTRAPPED = "augmented"
"""The field with which DSPy marks a demonstration from a run of the program."""


def program_named(text: str) -> tuple[Program, Mapping[str, Any]]:
    """Return the program of a file, whose predictors have no known fields, and what the file says of it; or that of a loop `name`,
    `name(option=value)` or `name@FILE`, of which nothing is said.

    Raises ValueError for anything else, and OSError.
    """
    about: Mapping[str, Any] = {}
    if (text.endswith(".json") and "@" not in text) or Path(text).is_file():
        saved = read_program(text)
        program, about = saved.program, saved.about
    else:
        loop = make_loop(parse_spec(text))
        if not isinstance(loop, Optimizable):
            raise ValueError(f"loop {text}: it has no program: no predictors and with_predictors")
        program = dict(loop.predictors)
    try:
        program_digest(program)
    except ValueError as error:
        raise ValueError(f"{text}: {error}") from None
    return program, about


def program_lines(program: Program) -> Iterator[str]:
    """Yield a program as lines: the instructions of each predictor, then its demonstrations, a conversation turn by turn."""
    for name, prompt in program.items():
        yield f"{HEAD}{one_line(name)}"
        yield from prompt.instructions.split("\n")
        for demo in prompt.demos:
            yield f"{HEAD}{one_line(name)}, demonstration{' from a run' if demo.get(BOOTSTRAPPED) is True else ''}"
            for label, text in _parts(demo):
                yield from f"{label}: {text}".split("\n")


def _parts(demo: Demo) -> Iterator[tuple[str, str]]:
    """Yield a demonstration as labelled texts."""
    fields = {name: value for name, value in demo.items() if name != BOOTSTRAPPED}
    outputs = [name for name in fields if name != CONVERSATION]
    if CONVERSATION in fields and len(outputs) == 1:
        for turn in in_own_format(Prompt("", {CONVERSATION: str}, {outputs[0]: str}, (fields,))).turns:
            calls = [f"{call.name} {call.arguments}" for call in turn.calls]
            yield turn.role, "\n".join([*([turn.content] if turn.content or not calls else []), *calls])
        return
    yield from ((one_line(name), render_value(value)) for name, value in fields.items())


# --- two programs ---


def program_diff(a: Program, b: Program, names: tuple[str, str]) -> tuple[str, ...]:
    """Return how b differs from a, as `diff -u` does; nothing where it does not. `names`: what the two are called."""
    return tuple(difflib.unified_diff([*program_lines(a)], [*program_lines(b)], *names, lineterm=""))
