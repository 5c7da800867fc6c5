"""Files that are read whole: what a writer accepts, its reader reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from whichloop.protocol import files
from whichloop.protocol.files import read_bounded, read_settings, readable


@pytest.mark.parametrize("size", [0, 99, 100, 101])
@pytest.mark.parametrize("values", [0, 4, 5, 6])
@pytest.mark.parametrize("settings", [False, True])
def test_what_a_writer_accepts_its_reader_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, values: int, settings: bool
) -> None:
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
