"""Public names that load on first use (PEP 562)."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any


@contextmanager
def explained_imports(what: str) -> Iterator[None]:
    """Let a failed import within the block name the extra that is missing. `what`: the beginning of that sentence."""
    try:
        yield
    except ModuleNotFoundError:
        extras = importlib.import_module("loopbench._extras")  # only now: `import loopbench` and help load as little as possible
        with extras.needed_by(what):
            raise


def lazy(package: str, homes: Mapping[str, Sequence[str]]) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package whose names live in other modules. `homes`: module → names."""
    module_of = {name: module for module, names in homes.items() for name in names}

    def load(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with explained_imports(f"{package}.{name}"):
            return getattr(_imported(module_of[name]), name)

    def listing() -> list[str]:
        return sorted(module_of)

    return load, listing, sorted(module_of)


def _imported(module: str) -> ModuleType:
    """Import a module. Raises ImportError for an AttributeError in it: `__getattr__` would say with that that a name is missing."""
    try:
        return importlib.import_module(module)
    except AttributeError as error:
        raise ImportError(f"{module} cannot be imported: {error}") from error
