"""What an installed whichloop holds beside modules: each file of the source tree that is no module is named in pyproject.toml."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
LEFT_OUT = {"__pycache__"}


def test_each_file_that_is_no_module_comes_with_the_package():
    named = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["package-data"]
    matched = {
        path for package, globs in named.items() for glob in globs for path in (SOURCE / package.replace(".", "/")).glob(glob)
    }
    files = {path for path in (SOURCE / "whichloop").rglob("*") if path.is_file() and not LEFT_OUT & set(path.parts)}
    assert {path.relative_to(SOURCE) for path in files - matched if path.suffix != ".py"} == set()
    assert any(path.suffix == ".txt" and path.parent.name == "constraints" for path in matched)


def test_each_pattern_finds_a_file():
    named = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["package-data"]
    empty = [
        f"{package}: {glob}"
        for package, globs in named.items()
        for glob in globs
        if not any((SOURCE / package.replace(".", "/")).glob(glob))
    ]
    assert empty == []
