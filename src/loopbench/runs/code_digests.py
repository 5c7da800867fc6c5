"""Digests of source code, which show that code has changed since a run began."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from loopbench.datasets.importing.mcp_server import is_mcp
from loopbench.protocol import ForeignLoop, Loop
from loopbench.protocol.digest import sha256
from loopbench.protocol.values import underlying
from loopbench.runs.options import options_of
from loopbench.runs.registry import builtin_names, find, takes_loop, tools_named


def _source_of_design(design: type) -> str:
    """Return the text of a design's module, or of all modules if the design is a package that exports the class."""
    module = importlib.import_module(design.__module__)
    package = importlib.import_module(design.__module__.rpartition(".")[0]) if "." in design.__module__ else None
    if package is None or vars(package).get(design.__name__) is not design:
        return inspect.getsource(module)
    files = sorted(file for folder in package.__path__ for file in Path(folder).glob("*.py"))
    return "".join(f"# {file.name}\n{file.read_text(encoding='utf-8')}" for file in files)


def code_digest(target: object) -> str:
    """Return the sha256 of the source of a loop and the loops inside it: a run continues only with the code that began it.

    The source of a foreign loop includes that of its program.
    """
    try:
        source = _source_of_design(type(target))
    except (OSError, TypeError):
        return ""
    if isinstance(target, ForeignLoop):
        source += "".join(f"# {file.name}\n{file.read_text(encoding='utf-8', errors='replace')}" for file in target.sources)
    inside = (getattr(target, name, None) for name, option in options_of(type(target)).items() if takes_loop(option))
    return sha256(source + "".join(code_digest(loop) for loop in inside if isinstance(loop, Loop)))


def own_code_digest(suite: str | None, tools: str | None, scorers: Iterable[str] = ()) -> str:
    """Return the sha256 of the modules of the user's own suite, tools and scorers; empty if there are none.

    The names must have been imported before. A package counts with all its modules; where a name leads to what other modules
    define, those count too.
    """
    modules: list[ModuleType | None] = []
    if suite is not None and suite not in builtin_names("suite"):
        modules += [_named_module(suite), inspect.getmodule(find("suite", suite))]
    if tools is not None and not is_mcp(tools):  # a server has an entry of its own in the manifest
        modules += [_named_module(tools), *(inspect.getmodule(underlying(tool.function)) for tool in tools_named(tools).fixed)]
    modules += map(_named_module, scorers)
    own = {module.__name__: module for module in modules if module is not None and module.__name__.partition(".")[0] != "loopbench"}
    return sha256("".join(_source_of_module(own[name]) for name in sorted(own))) if own else ""


def _named_module(name: str) -> ModuleType | None:
    """Return the object of `package.module:Name`, if it has been imported."""
    return sys.modules.get(name.partition(":")[0])


def _source_of_module(module: ModuleType) -> str:
    """Return a module's text, a package's with all modules in it; empty if it is not written in Python."""
    folders = getattr(module, "__path__", None)
    try:
        files = [Path(inspect.getfile(module))] if folders is None else sorted(f for at in folders for f in Path(at).rglob("*.py"))
        return "".join(f"# {module.__name__} {file.name}\n{file.read_text(encoding='utf-8')}" for file in files)
    except (OSError, TypeError, UnicodeDecodeError):
        return ""
