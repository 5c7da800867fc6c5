"""Files that are read whole: what a writer accepts, its reader reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from whichloop.protocol import files
from whichloop.protocol.files import read_bounded, read_settings, readable
from whichloop.protocol.modules import package_version, plugins_of
from whichloop.protocol.own_code import place_in, raised_at


@pytest.mark.parametrize(("size", "values"), [(0, 0), (100, 5), (101, 0), (100, 6)])
@pytest.mark.parametrize("settings", [False, True])
def test_what_a_writer_accepts_its_reader_reads(tmp_path, monkeypatch, size, values, settings):
    monkeypatch.setattr(files, "MAX_DOCUMENT", 100)
    monkeypatch.setattr(files, "MAX_SETTINGS", 5)
    path = tmp_path / "file"
    data = b"," * min(values, size) + b"x" * (size - min(values, size))
    path.write_bytes(data)

    def read() -> bytes:
        return read_settings(path) if settings else read_bounded(path, files.MAX_DOCUMENT)

    try:
        assert readable(data, path, settings=settings) == data
    except OSError as refused:
        with pytest.raises(OSError, match=str(refused.strerror)):
            read()
    else:
        assert read() == data


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


def raised(file: Path) -> str:
    code = compile("import json\n\njson.loads('[')\n", str(file), "exec")
    with pytest.raises(ValueError, match="Expecting") as caught:
        exec(code, {})
    caught.value.__traceback__ = caught.tb.tb_next  # without the line of this test
    return raised_at(caught.value)


def test_the_innermost_line_of_the_users_is_named_from_the_current_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert raised(tmp_path / "shop" / "loop.py") == "shop/loop.py:3"
    assert raised(tmp_path.parent / "loop.py") == "loop.py:3"


def test_a_place_is_read_back_from_the_end_of_a_reason(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my loop.py").touch()
    assert place_in("KeyError: 'look at me' at my loop.py:14") == ("my loop.py", 14)
    assert [place_in(said) for said in ("", "KeyError", "at gone.py:1", "at my loop.py:", "at my loop.py:²")] == [None] * 5
