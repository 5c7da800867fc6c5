"""`loopbench init`: a first project, whose files work as they are."""

from __future__ import annotations

import re
import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from loopbench.runs.config import IfAbsent
from loopbench.text.plain_text import plain

from .options import OptionGroup, with_options
from .starter_project import write_project


class InitOptions(OptionGroup):
    folder: Annotated[Path, typer.Argument()] = Path()
    """Folder of the project; it is made if it does not exist."""
    loop: str = "bare"
    """Loop that the project is about, a built-in name or `my_package.loops:Mine`."""
    program: Annotated[str | None, IfAbsent("none")] = None
    """Program of your own that the project is about instead: a command line, `my.module:function` or `FILE.py:function`."""


def _check_found(loop: str, folder: Path) -> None:
    """Raise ValueError for a loop of a module that is not there; nothing is imported."""
    module, colon, _ = loop.partition(":")
    top = module.partition(".")[0]
    if not colon or not all(part.isidentifier() for part in module.split(".")):
        return
    is_here = any((place / f"{top}.py").is_file() or (place / top).is_dir() for place in (folder, Path()))
    if not is_here and find_spec(top) is None:
        raise ValueError(f"--loop {loop}: no module named {top!r} in {folder}, in the current directory or installed")


@with_options()
def init(options: InitOptions) -> None:
    """Write settings, example tasks with plans, tools, a test and a recipe for CI into a project."""
    if options.program is not None and options.loop != "bare":
        raise ValueError("--loop and --program: give one of them")
    if re.match(r"[^(]*\.py:", options.loop):
        raise ValueError(f"--loop {options.loop}: a function of a file is a program: --program {shlex.quote(options.loop)}")
    _check_found(options.loop, options.folder)
    for name in write_project(options.folder, options.loop, options.program):
        print(f"wrote {plain(str(options.folder / name))}")
    print("next:")
    if options.folder != Path():
        print(f"  cd {shlex.quote(str(options.folder))}")
    print("  loopbench compare --config loopbench.toml")
    print("  pytest --loop-bless tests/test_loops.py    # writes tests/baselines/; commit them")
    print("  pytest tests/test_loops.py                 # fails once the loop gets worse")
