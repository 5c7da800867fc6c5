"""`whichloop init`: a first project, whose files work as they are, or a first loop."""

from __future__ import annotations

import json
import shlex
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

FILES = {
    "whichloop.toml": "whichloop.toml",
    "loop_tools.py.txt": "loop_tools.py",
    "loop_tasks.jsonl": "loop_tasks.jsonl",
    "test_loops.py.txt": "tests/test_loops.py",
    "loops.yml": ".github/workflows/loops.yml",
    "project.toml": "pyproject.toml",
    "gitignore": ".gitignore",
}
"""Template in `project/` → file of the project."""
KEPT = ("pyproject.toml", ".gitignore")
"""Files that stay as they are where there are some."""


def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder to write to.")] = Path(),
    loop: Annotated[str | None, typer.Option(metavar="NAME", help="Write a loop of this name, and its test.")] = None,
    program: Annotated[str | None, typer.Option(metavar="COMMAND", help="Program that the project is about.")] = None,
) -> None:
    """Write a project: settings, tasks with plans, tools, a test, a recipe for CI.

    With --loop, write NAME.py instead, a small loop that works, and
    test_NAME.py, which holds it against the laws of loops.
    """
    from whichloop.text.output import terminal_safe

    from .flags import one_of

    one_of(loop=loop, program=program)
    written, steps = _write_project(folder, program) if loop is None else _write_loop(folder, loop)
    for path in written:
        print(f"wrote {terminal_safe(str(path))}")
    print("next:")
    for line in steps:
        print(f"  {line}")


def _with_pytest(test: str) -> list[str]:
    """Return the step that a test takes where there is no pytest."""
    from whichloop._extras import is_installed
    from whichloop.text.output import terminal_safe

    return [] if is_installed("pytest") else [f"pip install pytest  # which {terminal_safe(test)} needs"]


def _write_loop(folder: Path, name: str) -> tuple[list[Path], list[str]]:
    """Write a loop and its test, and return both files and what to do next. Raises ValueError."""
    from whichloop.checks.loop.scaffold import new_loop

    made = new_loop(name, folder)
    at, test = made.root.resolve(), made.test.resolve()
    run = shlex.quote(str(test.relative_to(at) if test.is_relative_to(at) else test))
    first = [] if at == Path.cwd() else [f"cd {shlex.quote(str(made.root))}"]
    compare = f"whichloop compare --loop {made.target} --loop bare --profile flaky-format"
    steps = [*first, f"whichloop check loop {made.target}", *_with_pytest(test.name), f"python -m pytest {run}", compare]
    return [made.loop, made.test], steps


def _write_project(folder: Path, program: str | None) -> tuple[list[Path], list[str]]:
    """Write a project, and return its files and what to do next. Raises ValueError where another file of it is there already."""
    from whichloop.protocol.names import program_spec

    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is not a directory")
    quoted = json.dumps("bare" if program is None else program_spec(program), ensure_ascii=False)
    agent = quoted if program is None else f"program={json.dumps(program, ensure_ascii=False)}"
    new = {template: folder / name for template, name in FILES.items() if name not in KEPT or not (folder / name).exists()}
    if taken := [str(path) for path in new.values() if path.exists()]:
        raise ValueError(f"{', '.join(taken)}: already there; nothing was written")
    for template, path in new.items():
        text = resources.files("whichloop.cli").joinpath("project", template).read_text("utf-8")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("@LOOP@", quoted).replace("@AGENT@", agent), "utf-8")
    add = 'add to pyproject.toml: [tool.whichloop] with loop = ["…"] and allow = ["loop_tools"], for `whichloop gate`'
    first = [*([] if "project.toml" in new else [add]), *([] if folder == Path() else [f"cd {shlex.quote(str(folder))}"])]
    tests = [
        *_with_pytest("tests/test_loops.py"),
        "python -m pytest --loop-bless tests/test_loops.py  # writes tests/baselines/; commit them",
        "python -m pytest tests/test_loops.py               # fails once the loop gets worse",
    ]
    return list(new.values()), [*first, "whichloop compare --config whichloop.toml", *tests]
