"""`whichloop init`: a first project, whose files work as they are."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from whichloop._extras import is_installed
from whichloop.protocol.names import parse_spec
from whichloop.runs.config import IfAbsent
from whichloop.runs.registry import converted_options, find
from whichloop.text.plain_text import terminal_safe

from .options import OptionGroup, with_options
from .starter_project import write_project


class InitOptions(OptionGroup):
    folder: Annotated[Path, typer.Argument()] = Path()
    """Folder of the project; it is made if it does not exist."""
    loop: str = "bare"
    """Loop that the project is about, a built-in name or `my_package.loops:Mine`."""
    program: Annotated[str | None, IfAbsent("none")] = None
    """Program of your own that the project is about instead: a command line, `my.module:function` or `FILE.py:function`."""


@with_options()
def init(options: InitOptions) -> None:
    """Write settings, example tasks with plans, tools, a test and a recipe for CI into a project."""
    if options.program is not None and options.loop != "bare":
        raise ValueError("--loop and --program: give one of them")
    loop = parse_spec(options.loop)
    if ":" not in loop.name:
        converted_options(find("loop", loop.name), loop.options, f"loop {loop.name}")
    for name in write_project(options.folder, options.loop, options.program):
        print(f"wrote {terminal_safe(str(options.folder / name))}")
    print("next:")
    if options.folder != Path():
        print(f"  cd {shlex.quote(str(options.folder))}")
    print("  whichloop compare --config whichloop.toml")
    if not is_installed("pytest"):
        print("  pip install pytest                                   # which tests/test_loops.py needs")
    print("  python -m pytest --loop-bless tests/test_loops.py    # writes tests/baselines/; commit them")
    print("  python -m pytest tests/test_loops.py                 # fails once the loop gets worse")
