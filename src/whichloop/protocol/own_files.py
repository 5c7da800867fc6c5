"""What stands in Python files of the user's own, told by their text: none of it is imported."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

_AS_FILE = re.compile(r"(?P<file>[^\s():@]+\.py)(?::(?P<name>\w*))?(?P<rest>[(@].*)?", re.DOTALL)
"""A name that is typed like a file's, such as `./shop/loop.py:Mine(tries=2)`."""


def named_as_file(typed: str, *, wants_loop: bool = False) -> str:
    """Return what a name that is typed like that of a file stands for, `shop.loop:Mine` of `./shop/loop.py:Mine`.

    Empty for other names, and where there is no such file below the current directory. Of a file alone it is the module, or if
    the file has a loop and one is wanted, that.
    """
    match = _AS_FILE.fullmatch(typed.strip())
    module = "" if match is None else _module_of(match["file"])
    if match is None or not module:
        return ""
    name = match["name"]
    if name == "" or (name is None and wants_loop):
        name = next(iter(loops_in(Path(match["file"]))), "NAME" if name == "" else None)
    return f"{module}{'' if name is None else f':{name}'}{match['rest'] or ''}"


def named_with_dots(typed: str) -> str:
    """Return `shop.loop:Mine` of `shop.loop.Mine` or `shop.loop:`, where there is such a file; empty otherwise."""
    module, _, name = typed.partition(":") if typed.endswith(":") else typed.rpartition(".")
    file = file_of(module)
    if file is None:
        return ""
    name = name or next(iter(loops_in(file)), "")
    return f"{module}:{name}" if name else ""


def file_of(module: str) -> Path | None:
    """Return the file of a module below the current directory; None where there is none."""
    inner = Path(*module.split("."))
    is_name = all(map(str.isidentifier, module.split(".")))
    places = (inner.with_name(f"{inner.name}.py"), inner / "__init__.py") if is_name else ()
    return next(filter(Path.is_file, places), None)


def loop_of_program(program: str) -> str:
    """Return the loop, `shop.loop:Mine`, that is typed where a program is asked for, as `FILE.py:NAME` or `MODULE:NAME`.

    Empty for what is no class with a coroutine `run` in a file below the current directory.
    """
    loop = named_as_file(program) or program
    module, _, name = loop.partition(":")
    file = file_of(module)
    return loop if file is not None and name in loops_in(file) else ""


def loops_in(file: Path) -> list[str]:
    """Return the classes at the top of a file that are loops by their coroutine `run`, or by that of a class above them.

    None of a file that cannot be read.
    """
    try:
        body = ast.parse(file.read_text(encoding="utf-8")).body
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return []
    loops: list[str] = []
    for each in body:
        if isinstance(each, ast.ClassDef) and (
            _has_run(each) or any((base.id if isinstance(base, ast.Name) else "") in loops for base in each.bases)
        ):
            loops.append(each.name)
    return loops


def _has_run(definition: ast.ClassDef) -> bool:
    return any(isinstance(each, ast.AsyncFunctionDef) and each.name == "run" for each in definition.body)


def _module_of(file: str) -> str:
    """Return the module of a file below the current directory; empty where it is not there, or is none by its name."""
    try:
        path = Path(os.path.abspath(file))  # links stay as they are: a module has the name of its link
        module = path.relative_to(Path.cwd()).with_suffix("")
    except (ValueError, OSError):
        return ""
    return ".".join(module.parts) if path.is_file() and all(map(str.isidentifier, module.parts)) else ""
