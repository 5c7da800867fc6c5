"""`whichloop show-program` and `whichloop diff`: a program to read, and how two differ."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.text import Text

from whichloop.experiments.optimize.program_text import (
    demo_title,
    diff_lines,
    origin,
    parts,
    program_diff,
    program_named,
    to_markdown,
)
from whichloop.protocol.values import one_line
from whichloop.text.output import terminal_safe

from .console import out
from .options import JsonOption, OptionGroup, with_options

EQUAL, DIFFERENT = 0, 1
STYLES = {"head": "bold", "place": "cyan", "same": "", "added": "green", "removed": "red"}


class ProgramOptions(OptionGroup):
    program: Annotated[str, typer.Argument()]
    """File of a program, or a loop for its own program: `name`, `name(option=value)` or `name@FILE`."""
    as_markdown: Annotated[bool, typer.Option("--markdown")] = False
    """Print Markdown."""


class ProgramPair(OptionGroup):
    a: Annotated[str, typer.Argument()]
    """Program before: a file, or a loop for its own program: `name`, `name(option=value)` or `name@FILE`."""
    b: Annotated[str, typer.Argument()]
    """Program after, given in the same way."""


@with_options()
def show_program(options: ProgramOptions, output: JsonOption) -> None:
    """Print a program: the instructions and demonstrations of each predictor.

    It also says where the program comes from.
    """
    if output.as_json and options.as_markdown:
        raise ValueError("--json and --markdown exclude each other")
    program = program_named(options.program)
    if output.as_json:
        print(json.dumps(program.to_json(), ensure_ascii=True, allow_nan=False))
        return
    if options.as_markdown:
        print(to_markdown(program), end="")
        return
    console = out()

    def put(text: str, style: str = "") -> None:
        console.print(Text(terminal_safe(text), style=style), soft_wrap=True)

    def put_block(text: str) -> None:
        put("\n".join(f"   {line}" for line in text.split("\n")))

    put(program.name, "bold")
    for line in origin(program):
        put(line, "dim")
    for name, prompt in program.predictors.items():
        put(f"\n── {one_line(name)} ", "bold green")
        put_block(prompt.instructions)
        for place, demo in enumerate(prompt.demos, 1):
            put(f"── {one_line(name)}, {demo_title(place, demo)} ", "green")
            for part in parts(demo):
                put(f"   {part.label}:", "cyan")
                put_block("\n".join(f"   {line}" for line in part.text.split("\n")))


@with_options()
def diff(pair: ProgramPair, output: JsonOption) -> None:
    """Print how program B differs from program A.

    Instructions are compared line by line, demonstrations by content. The exit code is 1 if they differ.
    """
    difference = program_diff(program_named(pair.a), program_named(pair.b))
    if output.as_json:
        print(json.dumps(difference.to_json(), ensure_ascii=True, allow_nan=False))
    else:
        console = out()
        for line in diff_lines(difference):
            console.print(Text(terminal_safe(line.text), style=STYLES[line.kind]), soft_wrap=True)
    raise typer.Exit(EQUAL if difference.equal else DIFFERENT)
