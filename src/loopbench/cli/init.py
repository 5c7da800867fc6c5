"""`loopbench init`: a first project, whose files work as they are."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from loopbench.text.plain_text import plain

from .options import OptionGroup, with_options
from .starter_project import write_project


class InitOptions(OptionGroup):
    folder: Annotated[Path, typer.Argument()] = Path()
    """Folder of the project; it is made if it does not exist."""
    loop: str = "bare"
    """Loop that the project is about, a built-in name or `my_package.loops:Mine`."""


@with_options()
def init(options: InitOptions) -> None:
    """Write settings, example tasks with plans, tools, a test and a recipe for CI into a project."""
    for name in write_project(options.folder, options.loop):
        print(f"wrote {plain(str(options.folder / name))}")
    print("next:")
    if options.folder != Path():
        print(f"  cd {shlex.quote(str(options.folder))}")
    print("  loopbench compare --config loopbench.toml")
    print("  pytest --loop-bless tests/test_loops.py    # writes tests/baselines/; commit them")
    print("  pytest tests/test_loops.py                 # fails once the loop gets worse")
