"""The files of a user's project that a module is made of: its own, and those of the project that it imports, transitively.

A project is what lies below the folder from which the topmost package or module is imported; of a package that is installed, it
is the package alone. What is imported follows from the import statements, wherever in a file they stand, and from the modules that
this process has loaded. Nothing is imported for it, so a module whose name a text holds, for `import_module`, is not seen.
"""

from __future__ import annotations

import ast
import contextlib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from whichloop.protocol.digest import short_digest

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
