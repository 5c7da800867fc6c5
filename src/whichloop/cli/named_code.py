"""Whether code of the user's own that was typed is there, told by its text: none of it is imported."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from whichloop.protocol.names import near, parse_spec
from whichloop.protocol.own_files import loop_of_program, named_as_file
from whichloop.runs.program_specs import program_spec
from whichloop.runs.registry import converted_options, find

_FUNCTION = re.compile(r"(?P<module>[\w./-]+\.py|[A-Za-z_][\w.]*):(?P<name>[A-Za-z_]\w*)")
"""A function of a file or a module, as `--program` takes it."""


def check_loop(loop: str, folder: Path) -> None:
    """Raise ValueError, in a line that names the loop, for one that is not there, has other options, or is a program."""
    if (module := named_as_file(loop)) and loop_of_program(module.partition("(")[0]):
        raise ValueError(f"--loop {loop}: did you mean {module!r}?")
    if re.match(r"[^(]*\.py:", loop):
        raise ValueError(f"--loop {loop}: a function of a file is a program: --program {shlex.quote(loop)}")
    try:
        spec = parse_spec(loop)
        module, colon, name = spec.name.partition(":")
        if not colon:
            converted_options(find("loop", spec.name), spec.options, f"loop {spec.name}")
    except ValueError as error:
        raise ValueError(f"--loop {loop}: {error}") from None
    if colon:
        _check_defined(f"--loop {loop}", _module_file(f"--loop {loop}", module, folder), name)


def check_program(program: str, folder: Path) -> None:
    """Raise ValueError, in a line that names the program, for a file, a function or a command that is not there."""
    command = str(parse_spec(program_spec(program)).options["command"])
    what = f"--program {program}"
    function = _FUNCTION.fullmatch(command.strip())
    if function is None:
        _check_command(what, command, folder)
        return
    module, name = function["module"], function["name"]
    if not module.endswith(".py"):
        _check_defined(what, _module_file(what, module, folder), name)
        return
    file = folder / module
    if not file.is_file():
        raise ValueError(f"{what}: no file {module} in {_named(folder)}; write it first, or name one that is there")
    _check_defined(what, file, name)


def _check_command(what: str, command: str, folder: Path) -> None:
    """Raise ValueError for a command line whose first word is no command, or that gives Python a file that is not there."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None
    if shutil.which(words[0]) is None and not (folder / words[0]).is_file():
        raise ValueError(f"{what}: there is no {words[0]!r} to run")
    script = words[1] if len(words) > 1 and Path(words[0]).name.startswith("python") else ""
    if script.endswith(".py") and not (folder / script).is_file():
        raise ValueError(f"{what}: no file {script} in {_named(folder)}; write it first, or name one that is there")


def _module_file(what: str, module: str, folder: Path) -> Path | None:
    """Return the file of a module in the folder or the current directory; None for one that is installed. Raises ValueError."""
    top, inner = module.partition(".")[0], Path(*module.split("."))
    places = (folder, Path())
    files = [file for at in places for file in (at / inner.with_suffix(".py"), at / inner / "__init__.py") if file.is_file()]
    is_here = any((at / f"{top}.py").is_file() or (at / top).is_dir() for at in places)
    if files or is_here:
        if not files:
            raise ValueError(f"{what}: no module {module!r} in {_named(folder)}")
        return files[0]
    if find_spec(top) is None:
        raise ValueError(f"{what}: no module named {top!r} in {_named(folder)}, in the current directory or installed")
    return None


def _check_defined(what: str, file: Path | None, name: str) -> None:
    """Raise ValueError for a file that is no Python, or that defines no such name where all its names are known."""
    if file is None:
        return
    try:
        names = set(_names(ast.parse(file.read_text(encoding="utf-8")).body))
    except SyntaxError as error:
        raise ValueError(f"{what}: {file}: line {error.lineno}: {error.msg}") from None
    except (UnicodeDecodeError, ValueError) as error:
        raise ValueError(f"{what}: {file}: {error}") from None
    if name not in names and "*" not in names:
        suggestion = near(name, sorted(names))
        raise ValueError(f"{what}: {file} defines no {name}{f'; {suggestion}' if suggestion else ''}")


def _names(body: list[ast.stmt]) -> Iterator[str]:
    """Yield the names that statements define at the top of a module, `*` where others come from elsewhere."""
    for statement in body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                yield from (alias.asname or alias.name.partition(".")[0] for alias in aliases)
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                yield from (
                    node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
                )
            case _:
                inner = (getattr(statement, part, []) for part in ("body", "orelse", "finalbody", "handlers"))
                yield from _names([each for part in inner for each in part])


def _named(folder: Path) -> str:
    return "this folder" if folder == Path() else str(folder)
