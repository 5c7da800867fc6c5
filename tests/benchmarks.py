"""The programs of benchmarks/, as modules."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

from .docs.pages import ROOT


def load_benchmark(name: str) -> ModuleType:
    """Import a program of benchmarks/, which imports its neighbours as a script does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        return importlib.import_module(f"benchmarks.{name}")
