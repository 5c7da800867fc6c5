"""The files of a run directory: a manifest is written whole, and what is not one is refused."""

from __future__ import annotations

import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.kept import JSON
from whichloop.runs.store.files import RunError, read_manifest_json, write_manifest_json


@settings(max_examples=cases(20))
@given(st.dictionaries(st.text(st.characters()), JSON, max_size=4))
def test_a_manifest_is_read_back(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("run")
    write_manifest_json(folder, data | {"config": {}})
    assert read_manifest_json(folder) == data | {"config": {}}
    assert [path.name for path in folder.iterdir()] == ["manifest.json"]


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"{}", b'{"config": 3}', b"\xff", b"[" * 100_000])
def test_what_is_no_manifest_is_refused_in_one_line(tmp_path, raw):
    (tmp_path / "manifest.json").write_bytes(raw)
    with pytest.raises(RunError, match=r"manifest\.json") as caught:
        read_manifest_json(tmp_path)
    assert "\n" not in str(caught.value)
    shutil.rmtree(tmp_path)
    with pytest.raises(RunError, match="not a run directory"):
        read_manifest_json(tmp_path)
