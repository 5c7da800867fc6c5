"""`whichloop new loop`: a first version of a loop of one's own."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from whichloop._extras import is_installed
from whichloop.checks.loop import scaffold
from whichloop.text.output import terminal_safe

from .options import OptionGroup, with_options

FIRST_PROFILE = "flaky-format"
"""A first comparison is under faults: in clean air every sound loop solves every task."""


class NewLoopOptions(OptionGroup):
    name: Annotated[str, typer.Argument()]
    """Name of the module, such as my_loop."""
    into: Path = Path()
    """Folder to write to."""


@with_options()
def new_loop(options: NewLoopOptions) -> None:
    """Write NAME.py, a small loop that works, and test_NAME.py, which tests it against the laws."""
    files = scaffold.new_loop(options.name, options.into)
    print(f"wrote {terminal_safe(str(files.loop))} and {terminal_safe(str(files.test))}; next:")
    if files.root != Path.cwd():
        print(f"  cd {shlex.quote(str(files.root))}")
    print(f"  whichloop check loop {files.target}")
    if not is_installed("pytest"):
        print(f"  pip install pytest  # which {terminal_safe(files.test.name)} needs")
    test, at = files.test.resolve(), files.root.resolve()
    print(f"  python -m pytest {shlex.quote(str(test.relative_to(at) if test.is_relative_to(at) else test))}")
    print(f"  whichloop compare --loop {files.target} --loop bare --profile {FIRST_PROFILE}")
