"""`whichloop prompts`: the prompts of a loop or a file, and how two differ."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.text import Text

from whichloop.experiments.optimize.program_text import (
    NamedProgram,
    ProgramDiff,
    demo_title,
    diff_lines,
    origin,
    parts,
    program_diff,
    program_named,
    to_markdown,
)
from whichloop.protocol.values import one_line
from whichloop.runs.config import IfAbsent
from whichloop.text.output import terminal_safe

from .console import out
from .options import JsonOption, OptionGroup, with_options

EQUAL, DIFFERENT = 0, 1
STYLES = {"head": "bold", "place": "cyan", "same": "", "added": "green", "removed": "red"}


class PromptsOptions(OptionGroup):
    a: Annotated[str, typer.Argument()]
    """File of optimized prompts, or a loop for its own: `name`, `name(option=value)` or `name@FILE`."""
    b: Annotated[str | None, typer.Argument(), IfAbsent("none")] = None
    """Those to compare with, given in the same way."""
    as_markdown: Annotated[bool, typer.Option("--markdown")] = False
    """Print Markdown, of one alone."""


@with_options()
def prompts(options: PromptsOptions, output: JsonOption) -> None:
    """Print the prompts of a loop, instructions and demonstrations, or how those of B differ from those of A.

    Instructions are compared line by line, demonstrations by content. The exit code is 1 if they differ.
    """
    if options.as_markdown and (output.as_json or options.b is not None):
        raise ValueError("--markdown is for one program, and without --json")
    program = program_named(options.a)
    if options.b is not None:
        _print_difference(program_diff(program, program_named(options.b)), as_json=output.as_json)
    elif output.as_json:
        print(json.dumps(program.to_json(), ensure_ascii=True, allow_nan=False))
    elif options.as_markdown:
        print(to_markdown(program), end="")
    else:
        _print_program(program)


def _print_program(program: NamedProgram) -> None:
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


def _print_difference(difference: ProgramDiff, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(difference.to_json(), ensure_ascii=True, allow_nan=False))
    else:
        console = out()
        for line in diff_lines(difference):
            console.print(Text(terminal_safe(line.text), style=STYLES[line.kind]), soft_wrap=True)
    raise typer.Exit(EQUAL if difference.equal else DIFFERENT)
