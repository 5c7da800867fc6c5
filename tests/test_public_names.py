"""The names that the package and its loops offer at the top: all there, none loaded before it is asked for."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
import types
from pathlib import Path

import pytest

from whichloop._lazy import lazy

PACKAGES = [
    f"whichloop{name}"
    for name in ("", ".checks.suite", ".experiments.import_runs", ".experiments.why", ".loops", ".protocol", ".reports.html")
]


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
    assert done.stdout.strip() == str(sorted({"whichloop._lazy", *(".".join(parts[: n + 1]) for n in range(len(parts)))}))


def test_an_attribute_error_in_a_home_module_is_told_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home_with_a_bug.py").write_text("import math\n\nmath.no_such_function\n")
    monkeypatch.syspath_prepend(tmp_path)
    load, *_ = lazy("package", {"home_with_a_bug": ("Name",)})
    package = types.ModuleType("package_with_a_bug")
    package.__getattr__ = load  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, package.__name__, package)
    with pytest.raises(
        ImportError, match=r"^home_with_a_bug cannot be imported: module 'math' has no attribute 'no_such_f"
    ) as raised:
        exec("from package_with_a_bug import Name")  # "cannot import name 'Name'", where the AttributeError escapes
    assert isinstance(raised.value.__cause__, AttributeError)
    assert not hasattr(package, "Other")
