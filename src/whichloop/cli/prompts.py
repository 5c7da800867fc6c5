"""`whichloop prompts`: the prompts of a loop or a file, and how two differ."""

from __future__ import annotations

from typing import Annotated

import typer

from .flags import Json

STYLES = {"@": "cyan", "+": "green", "-": "red"}


def prompts(
    a: Annotated[str, typer.Argument(metavar="A", help="File of prompts, or loop: name, name@FILE.")],
    b: Annotated[str | None, typer.Argument(metavar="B", help="Those to compare with.")] = None,
    as_json: Json = False,
) -> None:
    """Print a loop's prompts, or how those of B differ from those of A, line by line. The exit code is 1 if they differ."""
    from rich.text import Text

    from whichloop.experiments.optimize.candidates import program_json
    from whichloop.experiments.optimize.program_text import program_diff, program_lines, program_named
    from whichloop.protocol import program_digest, render_value
    from whichloop.text.doc import Doc, Lines, TraceLines
    from whichloop.text.output import terminal_safe

    from .console import out, show

    program, about = program_named(a)
    if b is None:
        origin = tuple((name, render_value(value)) for name, value in about.items())
        blocks = (Lines(origin), TraceLines("", tuple(program_lines(program))))
        data = {"program": a, "digest": program_digest(program), "about": dict(about), "predictors": program_json(program)}
        show(Doc(a, blocks, data), as_json=as_json)
        return
    lines = program_diff(program, program_named(b)[0], (a, b))
    if as_json:
        show(Doc("", (), {"a": a, "b": b, "equal": not lines, "diff": [*lines]}), as_json=True)
    else:
        for number, line in enumerate(lines):
            style = "bold" if number < 2 else STYLES.get(line[:1], "")
            out().print(Text(terminal_safe(line), style=style), soft_wrap=True)  # however long it is
    raise typer.Exit(1 if lines else 0)
