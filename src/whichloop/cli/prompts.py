"""`whichloop prompts`: the prompts of a loop or a file, and how two differ."""

from __future__ import annotations

from typing import Annotated

import typer

from .flags import Json

STYLES = {"head": "bold", "place": "cyan", "same": "", "added": "green", "removed": "red"}


def prompts(
    a: Annotated[str, typer.Argument(metavar="A", help="File of prompts, or loop: name, name@FILE.")],
    b: Annotated[str | None, typer.Argument(metavar="B", help="Those to compare with.")] = None,
    as_json: Json = False,
) -> None:
    """Print a loop's prompts, or how those of B differ from those of A.

    Instructions are compared line by line, demonstrations by content. The exit code is 1 if they differ.
    """
    from whichloop.experiments.optimize.program_text import demo_title, diff_lines, origin, parts, program_diff, program_named
    from whichloop.text.doc import Doc, Lines, TraceLines

    from .console import print_line, show

    program = program_named(a)
    if b is None:
        blocks: list[Lines | TraceLines] = [Lines(origin(program))]
        for name, prompt in program.predictors.items():
            blocks.append(TraceLines(f"── {name}", tuple(f"   {line}" for line in prompt.instructions.split("\n"))))
            for place, demo in enumerate(prompt.demos, 1):
                told = "\n".join(f"{part.label}:\n   " + part.text.replace("\n", "\n   ") for part in parts(demo))
                blocks.append(TraceLines(f"── {name}, {demo_title(place, demo)}", tuple(f"   {line}" for line in told.split("\n"))))
        show(Doc(program.name, tuple(blocks), program.to_json()), as_json=as_json)
        return
    difference = program_diff(program, program_named(b))
    if as_json:
        show(Doc("", (), difference.to_json()), as_json=True)
    else:
        for line in diff_lines(difference):
            print_line(line.text, STYLES[line.kind])
    raise typer.Exit(0 if difference.equal else 1)
