"""Digests of source code, of a project's files too, which show that code has changed since a run began."""

from __future__ import annotations

import ast
import contextlib
import inspect
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import resolve_name
from itertools import accumulate
from pathlib import Path
from types import ModuleType

from whichloop.datasets.importing.mcp_server import is_mcp
from whichloop.protocol import ForeignLoop, Loop
from whichloop.protocol.json_text import sha256, short_digest
from whichloop.protocol.values import underlying

from .built_in import builtin_names, options_of
from .registry import find, takes_loop, tools_named

_INSTALLED = ("site-packages", "dist-packages")
"""Folders of what is installed, which belongs to no project."""
_OURS = Path(__file__).parents[1]
_PACKAGE = "__init__.py"


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """A file of a project, as it was read."""

    path: Path
    text: str

    @property
    def digest(self) -> str:
        return short_digest(self.text)


Source = tuple[str, Path]
"""The dotted name of a module, and its file."""


def source_file(path: Path) -> Source:
    """Return a file as the module that it is by the packages around it, as Python names one that is run by its path."""
    path = path.absolute()
    names, folder = [] if path.name == _PACKAGE else [path.stem], path.parent
    while (folder / _PACKAGE).is_file():
        names, folder = [folder.name, *names], folder.parent
    return ".".join(names), path


def source_in(module: ModuleType, path: Path) -> Source:
    """Return a file of a module that is loaded, or of the package that it is."""
    path = path.absolute()
    if module.__name__ == "__main__" or path.suffix != ".py":
        return source_file(path)
    folder = next((Path(at).absolute() for at in getattr(module, "__path__", ()) if path.is_relative_to(at)), None)
    inside = () if folder is None else path.relative_to(folder).with_suffix("").parts
    return ".".join([module.__name__, *inside]).removesuffix(".__init__"), path


def project_files(first: Iterable[Source]) -> dict[str, ProjectFile]:
    """Return these files and all files of their projects that they import, by their names.

    A file is named from its project's folder on, as `my_package/tools.py`, so alike on every machine. A project is what lies below
    the folder from which the topmost package or module is imported; of a package that is installed, it is the package alone. What
    is imported follows from the import statements, wherever in a file they stand, and from what is loaded. Nothing is imported for
    it: a module whose name a text holds, for `import_module`, is not seen.
    """
    files: dict[str, ProjectFile] = {}
    for module, start in first:
        root = start.parents[module.count(".") + (start.name == _PACKAGE)]
        top = module.partition(".")[0] if root.name in _INSTALLED else ""
        waiting, seen = [(module, start)], {start}
        while waiting:
            name, path = waiting.pop()
            parts = path.relative_to(root).parts
            if path.is_relative_to(_OURS) or (top and parts[0].removesuffix(".py") != top) or not set(_INSTALLED).isdisjoint(parts):
                continue
            try:
                text = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                continue
            files["/".join(parts)] = ProjectFile(path, text)
            for inside in _imported(name if path.name == _PACKAGE else name.rpartition(".")[0], text):
                at, loaded = root.joinpath(*inside.split(".")), getattr(sys.modules.get(inside), "__file__", None)
                places = (Path(loaded),) if loaded else (at / _PACKAGE, at.with_name(f"{at.name}.py"))
                found = next((each for each in places if each.is_relative_to(root) and each.is_file()), None)
                if found is not None and found not in seen:
                    seen.add(found)
                    waiting.append((inside, found))
    return dict(sorted(files.items()))


def _imported(package: str, text: str) -> Iterator[str]:
    """Yield the dotted names that the import statements of a file in a package may load; none of what is no Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:  # code that imports a.b.c can ask a and a.b for what they hold
                yield from accumulate(alias.name.split("."), "{}.{}".format)
        elif isinstance(node, ast.ImportFrom):
            with contextlib.suppress(ImportError):  # above the topmost package
                base = resolve_name(f"{'.' * node.level}{node.module or ''}", package) if node.level else node.module or ""
                yield from (base, *(f"{base}.{alias.name}" for alias in node.names))


def _files_of(module: ModuleType) -> list[Path]:
    """Return a module's file, a package's with all modules in it; none of one that has no file."""
    folders = getattr(module, "__path__", None)
    if folders is not None:
        return sorted(file for at in folders for file in Path(at).rglob("*.py"))
    with contextlib.suppress(TypeError):
        return [Path(inspect.getfile(module))]
    return []


def _module_of(design: type) -> ModuleType | None:
    """Return a design's module, or the package that exports the class."""
    module, package = sys.modules.get(design.__module__), sys.modules.get(design.__module__.rpartition(".")[0])
    return package if package is not None and vars(package).get(design.__name__) is design else module


def code_digest(loop: object) -> str:
    """Return the sha256 of the source of a loop and the loops inside it: a run continues only with the code that began it.

    The source of a foreign loop includes that of its program. Empty for a loop without a file.
    """
    module = _module_of(type(loop))
    files = [*([] if module is None else _files_of(module)), *(loop.sources if isinstance(loop, ForeignLoop) else ())]
    try:
        source = "".join(f"# {file.name}\n{file.read_text(encoding='utf-8', errors='replace')}" for file in files)
    except OSError:
        return ""
    return sha256(source + "".join(map(code_digest, _loops_inside(loop)))) if source else ""


def loop_files(loop: object) -> dict[str, ProjectFile]:
    """Return the user's own files that a loop and the loops inside it are made of, by their names: those behind `code_digest`, and
    all of the same project that they import. Empty for a loop of ours, or one without a file.
    """
    module = _module_of(type(loop))
    first_files = [source_file(file) for file in loop.sources if file.suffix == ".py"] if isinstance(loop, ForeignLoop) else []
    first_files += [] if module is None else [source_in(module, file) for file in _files_of(module)]
    files = project_files(first_files)
    for inner in _loops_inside(loop):
        files |= loop_files(inner)
    return dict(sorted(files.items()))


def _loops_inside(target: object) -> list[Loop]:
    inside = (getattr(target, name, None) for name, option in options_of(type(target)).items() if takes_loop(option))
    return [loop for loop in inside if isinstance(loop, Loop)]


def scorer_digests(scorers: Iterable[str]) -> list[str]:
    """Return a digest of the code of each module of the user's own scorers, comments aside: it decides what is right."""
    files = [file for module in _own_modules(None, None, scorers) for file in _files_of(module)]
    return [short_digest(ast.dump(ast.parse(file.read_text(encoding="utf-8")))) for file in files]


def own_file_digests(suite: str | None, tools: str | None, scorers: Iterable[str] = ()) -> dict[str, str]:
    """Return file → short digest of the files of the user's own suite, tools and scorers, and of all of their projects that these
    import; empty if there are none. The names must have been imported before. A package counts with all its modules.
    """
    modules = _own_modules(suite, tools, scorers)
    files = project_files(source_in(module, file) for module in modules for file in _files_of(module))
    return {name: file.digest for name, file in files.items()}


def _own_modules(suite: str | None, tools: str | None, scorers: Iterable[str]) -> list[ModuleType]:
    """Return the modules of the user's own suite, tools and scorers, sorted by name."""
    names, functions = [*scorers], list[object]()
    if suite is not None and suite not in builtin_names("suite"):
        names.append(suite)
        functions.append(find("suite", suite))
    if tools is not None and not is_mcp(tools):  # a server has an entry of its own in the manifest
        names.append(tools)
        functions += [underlying(tool.function) for tool in tools_named(tools).fixed]
    modules = [*(sys.modules.get(name.partition(":")[0]) for name in names), *map(inspect.getmodule, functions)]
    by_name = {each.__name__: each for each in modules if each is not None and each.__name__.partition(".")[0] != "whichloop"}
    return [by_name[name] for name in sorted(by_name)]
