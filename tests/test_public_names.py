"""The names that the package and its loops offer at the top: all there, none loaded before it is asked for."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = [f"whichloop{name}" for name in ("", ".checks.suite", ".experiments.import_runs", ".loops", ".protocol")]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_there_and_listed(package: str) -> None:
    module = importlib.import_module(package)
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None
        assert name in dir(module)
    assert sorted(name for names in module._HOMES.values() for name in names) == module.__all__
    with pytest.raises(AttributeError, match="has no attribute 'nothing_of_ours'"):
        module.nothing_of_ours  # noqa: B018


@pytest.mark.parametrize("package", PACKAGES)
def test_the_stub_for_type_checkers_has_the_same_names_from_the_same_modules(package: str) -> None:
    module = importlib.import_module(package)
    stub = Path(str(module.__file__)).with_suffix(".pyi").read_text(encoding="utf-8")
    imports = [node for node in ast.parse(stub).body if isinstance(node, ast.ImportFrom)]
    listed = [(node.module, alias.name) for node in imports for alias in node.names]
    assert sorted(listed) == sorted((home, name) for home, names in module._HOMES.items() for name in names)
    assert all(alias.name == alias.asname for node in imports for alias in node.names)  # without `as`, a stub's import is private


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_a_package_loads_none_of_its_modules(package: str) -> None:
    code = f"import sys, {package}; print(sorted(name for name in sys.modules if name.startswith('whichloop')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    parts = package.split(".")
    assert done.stdout.strip() == str(
        sorted({"whichloop._extras", "whichloop._lazy", *(".".join(parts[: n + 1]) for n in range(len(parts)))})
    )
