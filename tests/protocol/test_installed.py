"""What is installed is asked once, and again where something has come or gone."""

from __future__ import annotations

import os
import shutil
from importlib.metadata import version
from pathlib import Path

import pytest

from whichloop.protocol.modules import package_version, plugins_of


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of the search path."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def install(place: Path, name: str, release: str) -> Path:
    """A package with a plug-in of its own name."""
    folder = place / f"{name}-{release}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {release}\n", encoding="utf-8")
    (folder / "entry_points.txt").write_text(f"[whichloop.loops]\n{name} = {name}:Own\n", encoding="utf-8")
    return folder


def at(place: Path, second: int) -> None:
    """Let the last change of a folder have been then: a file system may tell no two changes of the same moment apart."""
    os.utime(place, (second, second))


def test_a_package_that_comes_and_goes_is_noticed(place: Path) -> None:
    at(place, 1)
    before = set(plugins_of("whichloop.loops").names)
    assert package_version("surely_new") is None
    folder = install(place, "surely_new", "1.2.3")
    at(place, 2)
    assert package_version("surely_new") == "1.2.3"
    assert set(plugins_of("whichloop.loops").names) == before | {"surely_new"}
    assert [point.value for point in plugins_of("whichloop.loops").select(name="surely_new")] == ["surely_new:Own"]
    shutil.rmtree(folder)
    at(place, 3)
    assert package_version("surely_new") is None
    assert set(plugins_of("whichloop.loops").names) == before


def test_a_path_that_is_left_takes_its_packages_with_it(tmp_path: Path) -> None:
    install(tmp_path, "elsewhere", "1")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        assert package_version("elsewhere") == "1"
    assert package_version("elsewhere") is None


def test_versions_are_those_of_the_standard_library() -> None:
    assert package_version("pytest") == version("pytest")
    assert package_version("no-such-package") is None
