"""`loopbench show-program` and `loopbench diff`: a program to read, and how two differ."""

from __future__ import annotations

import json
from typing import Annotated

import typer

EQUAL, DIFFERENT = 0, 1
STYLES = {"head": "bold", "place": "cyan", "same": "", "added": "green", "removed": "red"}

Named = "a program's file, or a loop for its own: `name`, `name(option=value)` or `name@FILE`."


def show_program(
    program: Annotated[str, typer.Argument(help=f"What to print: {Named}", show_default=False)],
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print a program: the instructions and demonstrations of each predictor, and where it comes from."""
    from rich.text import Text

    from loopbench.experiments.compare.tables import plain
    from loopbench.experiments.optimize.program_text import demo_title, one_line, origin, parts, program_named, to_markdown

    from . import render

    if as_json and as_markdown:
        raise ValueError("--json and --markdown exclude each other")
    found = program_named(program)
    if as_json:
        print(json.dumps(found.to_json(), ensure_ascii=True, allow_nan=False))
        return
    if as_markdown:
        print(to_markdown(found), end="")
        return
    console = render.out()

    def put(text: str, style: str = "") -> None:
        console.print(Text(plain(text), style=style), soft_wrap=True)

    def put_block(text: str) -> None:
        put("\n".join(f"   {line}" for line in text.split("\n")))

    put(found.name, "bold")
    for line in origin(found):
        put(line, "dim")
    for name, prompt in found.predictors.items():
        put(f"\n── {one_line(name)} ", "bold green")
        put_block(prompt.instructions)
        for place, demo in enumerate(prompt.demos, 1):
            put(f"── {one_line(name)}, {demo_title(place, demo)} ", "green")
            for part in parts(demo):
                put(f"   {part.label}:", "cyan")
                put_block("\n".join(f"   {line}" for line in part.text.split("\n")))


def diff(
    a: Annotated[str, typer.Argument(help=f"Before: {Named}", show_default=False)],
    b: Annotated[str, typer.Argument(help="After: the same.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print how program B differs from A: instructions line by line, demonstrations by content. Exit code 1 where they differ."""
    from rich.text import Text

    from loopbench.experiments.compare.tables import plain
    from loopbench.experiments.optimize.program_text import diff_lines, program_diff, program_named

    from . import render

    found = program_diff(program_named(a), program_named(b))
    if as_json:
        print(json.dumps(found.to_json(), ensure_ascii=True, allow_nan=False))
    else:
        console = render.out()
        for line in diff_lines(found):
            console.print(Text(plain(line.text), style=STYLES[line.kind]), soft_wrap=True)
    raise typer.Exit(EQUAL if found.equal else DIFFERENT)
