"""Digests of source code, of a project's files too, which show that code has changed since a run began."""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from whichloop.datasets.importing.mcp_server import is_mcp
from whichloop.protocol import ForeignLoop, Loop
from whichloop.protocol.digest import sha256, short_digest
from whichloop.protocol.values import underlying

from .built_in import builtin_names, options_of
from .registry import find, takes_loop, tools_named

_INSTALLED = ("site-packages", "dist-packages")
"""Folders of what is installed, which belongs to no project."""
_OURS = Path(__file__).parents[1]
"""The folder of whichloop itself."""
_PACKAGE = "__init__.py"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of Python, and the module that it is."""

    module: str
    """Its dotted name."""
    path: Path

    @property
    def is_package(self) -> bool:
        return self.path.name == _PACKAGE

    @property
    def package(self) -> str:
        """The package that relative imports begin at."""
        return self.module if self.is_package else self.module.rpartition(".")[0]

    @property
    def root(self) -> Path:
        """The folder from which the topmost package is imported, or the module without one."""
        return self.path.parents[self.module.count(".") + self.is_package]


def source_file(path: Path) -> SourceFile:
    """Return a file as the module that it is by the packages around it, as Python names one that is run by its path."""
    path = path.absolute()
    names, folder = [path.stem], path.parent
    while (folder / _PACKAGE).is_file():
        names, folder = [folder.name, *names], folder.parent
    return SourceFile(".".join(names[:-1] if path.name == _PACKAGE else names), path)


def source_in(module: ModuleType, path: Path) -> SourceFile:
    """Return a file of a module that is loaded, or of the package that it is."""
    name, path = module.__name__, path.absolute()
    folder = next((Path(at).absolute() for at in getattr(module, "__path__", ()) if path.is_relative_to(at)), None)
    if name == "__main__" or path.suffix != ".py":
        return source_file(path)
    inside = () if folder is None else path.relative_to(folder).with_suffix("").parts
    return SourceFile(".".join([name, *inside]).removesuffix(f".{Path(_PACKAGE).stem}"), path)


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """A file of a project, as it was read."""

    path: Path
    text: str

    @property
    def digest(self) -> str:
        return short_digest(self.text)


def project_files(first_files: Iterable[SourceFile]) -> dict[str, ProjectFile]:
    """Return these files and all files of their projects that they import, by their names.

    A file is named from its project's folder on, as `my_package/tools.py`, so alike on every machine.

    A project is what lies below the folder from which the topmost package or module is imported; of a package that is installed, it
    is the package alone. What is imported follows from the import statements, wherever in a file they stand, and from the modules
    that this process has loaded. Nothing is imported for it, so a module whose name a text holds, for `import_module`, is not seen.
    """
    files: dict[str, ProjectFile] = {}
    for source in first_files:
        project = _Project.of(source)
        waiting, queued_paths = [source], {source.path}
        while waiting:
            file = waiting.pop()
            if not project.holds(file.path):
                continue
            with contextlib.suppress(OSError, UnicodeDecodeError):
                text = file.path.read_text(encoding="utf-8")
                files[file.path.relative_to(project.root).as_posix()] = ProjectFile(file.path, text)
                for imported in project.imported(file, text):
                    if imported.path not in queued_paths:
                        queued_paths.add(imported.path)
                        waiting.append(imported)
    return dict(sorted(files.items()))


@dataclass(frozen=True, slots=True)
class _Project:
    """The files that are one user's own."""

    root: Path
    top: str
    """The topmost package or module, where that alone is the project, since it is installed; else empty."""

    @classmethod
    def of(cls, source: SourceFile) -> _Project:
        root = source.root
        return cls(root, source.module.partition(".")[0] if root.name in _INSTALLED else "")

    def holds(self, file: Path) -> bool:
        if not file.is_relative_to(self.root) or file.is_relative_to(_OURS):
            return False
        parts = file.relative_to(self.root).parts
        own_top = not self.top or parts[0].removesuffix(".py") == self.top
        return own_top and not any(part in _INSTALLED for part in parts)

    def imported(self, file: SourceFile, text: str) -> Iterator[SourceFile]:
        """Yield the files of the project that the import statements of a file name; none of what cannot be read as Python."""
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            return
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from filter(None, map(self._module, _prefixes(alias.name)))
            elif isinstance(node, ast.ImportFrom):
                yield from self._from(_absolute(file, node), [alias.name for alias in node.names])

    def _from(self, module: str, names: Iterable[str]) -> Iterator[SourceFile]:
        """Yield what `from module import names` leads to: the modules of these names, and the one itself for all other names."""
        inside = {name: self._module(f"{module}.{name}" if module else name) for name in names}
        yield from filter(None, inside.values())
        if module and not all(inside.values()) and (itself := self._module(module)) is not None:
            yield itself

    def _module(self, name: str) -> SourceFile | None:
        """Return the file of a module of the project: the one that is loaded, else the one that an import would load."""
        loaded = sys.modules.get(name)
        if loaded is not None:
            at = getattr(loaded, "__file__", None)
            path = Path(at) if isinstance(at, str) and at.endswith(".py") else None
            return SourceFile(name, path) if path is not None and self.holds(path) else None
        inside = self.root.joinpath(*name.split("."))
        for path in (inside / _PACKAGE, inside.with_name(f"{inside.name}.py")):
            if path.is_file():
                return SourceFile(name, path) if self.holds(path) else None
        return None


def _prefixes(name: str) -> list[str]:
    """Return a, a.b and a.b.c of a.b.c: code that imports the last can ask each of them for what it holds."""
    parts = name.split(".")
    return [".".join(parts[: count + 1]) for count in range(len(parts))]


def _absolute(file: SourceFile, node: ast.ImportFrom) -> str:
    """Return the dotted name of the module that an import begins at; empty for one above the topmost package."""
    if not node.level:
        return node.module or ""
    package = file.package.split(".")
    outer = package[: len(package) - node.level + 1]
    return ".".join([*outer, *([node.module] if node.module else [])]) if outer and outer[0] else ""


def _source_of_design(design: type) -> str:
    """Return the text of a design's module, or of all modules if the design is a package that exports the class."""
    files = _exporting_package(design)
    if not files:
        return inspect.getsource(importlib.import_module(design.__module__))
    return "".join(f"# {file.name}\n{file.read_text(encoding='utf-8')}" for file in files)


def _exporting_package(design: type) -> list[Path]:
    """Return the files of the package that exports a design's class, sorted; none where its module stands alone."""
    package = importlib.import_module(design.__module__.rpartition(".")[0]) if "." in design.__module__ else None
    if package is None or vars(package).get(design.__name__) is not design:
        return []
    return sorted(file for folder in package.__path__ for file in Path(folder).glob("*.py"))


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
    return sha256(source + "".join(map(code_digest, _loops_inside(target))))


def loop_file_digests(target: object) -> dict[str, str]:
    """Return file → short digest of the files that `loop_files` finds."""
    return {name: file.digest for name, file in loop_files(target).items()}


def loop_files(target: object) -> dict[str, ProjectFile]:
    """Return the user's own files that a loop and the loops inside it are made of, by their names: those behind `code_digest`, and
    all of the same project that they import. Empty for a loop of ours, or one without a file.
    """
    design = type(target)
    first_files = [source_file(file) for file in target.sources if file.suffix == ".py"] if isinstance(target, ForeignLoop) else []
    with contextlib.suppress(OSError, TypeError, KeyError):
        module = sys.modules[design.__module__]
        first_files += [source_file(file) for file in _exporting_package(design)] or [
            source_in(module, Path(inspect.getfile(design)))
        ]
    files = project_files(first_files)
    for loop in _loops_inside(target):
        files |= loop_files(loop)
    return dict(sorted(files.items()))


def _loops_inside(target: object) -> list[Loop]:
    """Return the loops that a loop holds in its options."""
    inside = (getattr(target, name, None) for name, option in options_of(type(target)).items() if takes_loop(option))
    return [loop for loop in inside if isinstance(loop, Loop)]


def own_code_digest(suite: str | None, tools: str | None, scorers: Iterable[str] = ()) -> str:
    """Return the sha256 of the modules of the user's own suite, tools and scorers; empty if there are none.

    The names must have been imported before. A package counts with all its modules; where a name leads to what other modules
    define, those count too.
    """
    modules = _own_modules(suite, tools, scorers)
    return sha256("".join(_source_of_module(module) for module in modules)) if modules else ""


def scorer_digests(scorers: Iterable[str]) -> list[str]:
    """Return a digest of the code of each module of the user's own scorers, comments aside: it decides what is right."""
    return [short_digest(ast.dump(ast.parse(_source_of_module(module)))) for module in _own_modules(None, None, scorers)]


def own_file_digests(suite: str | None, tools: str | None, scorers: Iterable[str] = ()) -> dict[str, str]:
    """Return file → short digest of the same modules, by which it is known later which of them changed.

    A file is named from its topmost package on, as `loop_tools.py` or `my_package/tools.py`, so alike on every machine.
    """
    digests = {}
    for module in _own_modules(suite, tools, scorers):
        folders = getattr(module, "__path__", None)
        name = module.__name__.replace(".", "/")
        for file in _files_of_module(module):
            folder = next((Path(at) for at in folders or () if file.is_relative_to(at)), None)
            with contextlib.suppress(OSError, UnicodeDecodeError):
                file_name = f"{name}/{file.relative_to(folder).as_posix()}" if folder is not None else f"{name}{file.suffix}"
                digests[file_name] = short_digest(file.read_text(encoding="utf-8"))
    return dict(sorted(digests.items()))


def imported_file_digests(suite: str | None, tools: str | None, scorers: Iterable[str] = ()) -> dict[str, str]:
    """Return file → short digest of the other files of the same project that these modules import, transitively."""
    modules = _own_modules(suite, tools, scorers)
    files = project_files(source_in(module, file) for module in modules for file in _files_of_module(module))
    own = own_file_digests(suite, tools, scorers)
    return {name: file.digest for name, file in files.items() if name not in own}


def _own_modules(suite: str | None, tools: str | None, scorers: Iterable[str]) -> list[ModuleType]:
    """Return the modules of the user's own suite, tools and scorers, sorted by name."""
    modules: list[ModuleType | None] = []
    if suite is not None and suite not in builtin_names("suite"):
        modules += [_named_module(suite), inspect.getmodule(find("suite", suite))]
    if tools is not None and not is_mcp(tools):  # a server has an entry of its own in the manifest
        modules += [_named_module(tools), *(inspect.getmodule(underlying(tool.function)) for tool in tools_named(tools).fixed)]
    modules += map(_named_module, scorers)
    by_name = {
        module.__name__: module for module in modules if module is not None and module.__name__.partition(".")[0] != "whichloop"
    }
    return [by_name[name] for name in sorted(by_name)]


def _named_module(name: str) -> ModuleType | None:
    """Return the object of `package.module:Name`, if it has been imported."""
    return sys.modules.get(name.partition(":")[0])


def _source_of_module(module: ModuleType) -> str:
    """Return a module's text, a package's with all modules in it; empty if it is not written in Python."""
    try:
        return "".join(f"# {module.__name__} {file.name}\n{file.read_text(encoding='utf-8')}" for file in _files_of_module(module))
    except (OSError, UnicodeDecodeError):
        return ""


def _files_of_module(module: ModuleType) -> list[Path]:
    """Return a module's file, a package's with all modules in it; none of one that has no file."""
    folders = getattr(module, "__path__", None)
    if folders is not None:
        return sorted(file for at in folders for file in Path(at).rglob("*.py"))
    try:
        return [Path(inspect.getfile(module))]
    except TypeError:
        return []
