"""What installed packages offer."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from whichloop.protocol.modules import package_version, plugins_of


def test_a_package_is_found_as_long_as_its_folder_is_on_the_path(tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere-1.2.3.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.2.3\n", encoding="utf-8")
    (folder / "entry_points.txt").write_text("[whichloop.loops]\nelsewhere = elsewhere:Own\n", encoding="utf-8")
    before = plugins_of("whichloop.loops").names
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        assert package_version("elsewhere") == "1.2.3"
        assert plugins_of("whichloop.loops").names == before | {"elsewhere"}
        assert [point.value for point in plugins_of("whichloop.loops").select(name="elsewhere")] == ["elsewhere:Own"]
    assert package_version("elsewhere") is None
    assert plugins_of("whichloop.loops").names == before


def test_versions_are_those_of_the_standard_library() -> None:
    assert package_version("pytest") == version("pytest")
    assert package_version("no-such-package") is None
