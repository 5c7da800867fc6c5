"""JSON of files: what the standard library reads is read alike, but for a key that stands twice, wherever it stands."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sealing import reseal
from whichloop.datasets.jsonl import load as jsonl_suite
from whichloop.datasets.task import read_quarantine
from whichloop.experiments.import_runs.foreign_trials import ReadingOptions
from whichloop.experiments.import_runs.importing import read_file
from whichloop.experiments.import_runs.joining import ImportRequest
from whichloop.models.recording import Recordings
from whichloop.protocol.json_text import DuplicateKeyError, load_json
from whichloop.protocol.program import read_program
from whichloop.runs.store.files import read_manifest_json

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def same(a: Any, b: Any) -> bool:
    return repr(a) == repr(b)  # NaN is not equal to itself


@given(values, st.booleans(), st.sampled_from(["utf-8", "utf-16", "utf-32"]))
def test_a_text_without_duplicate_keys_is_read_as_ever(value: Any, ascii_only: bool, encoding: str) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert same(load_json(text), value)
    if ascii_only or text.isascii() or encoding == "utf-8":
        data = text.encode(encoding, "surrogatepass")
        assert same(load_json(data), json.loads(data))


@given(st.text(max_size=20) | st.text(st.sampled_from('{}[]":,1ae. '), max_size=12))
def test_what_is_not_json_is_refused_as_ever(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(ValueError, match=r"."):
            load_json(text)
        return
    try:
        assert same(load_json(text), expected)
    except DuplicateKeyError:
        assert text.count(":") > 1


class Written(dict[str, Any]):
    """An object whose text has its first key twice."""


def doubled(value: Any) -> str:
    if isinstance(value, Written):
        pairs = [f"{json.dumps(key)}: {doubled(item)}" for key, item in value.items()]
        return "{" + ", ".join([*pairs, pairs[0]]) + "}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {doubled(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(doubled, value)) + "]"
    return json.dumps(value)


@given(st.text(max_size=5), values, st.data())
def test_a_duplicate_key_is_found_at_any_depth(key: str, inner: Any, data: st.DataObject) -> None:
    value: Any = Written({key: inner})
    for _ in range(data.draw(st.integers(0, 4))):
        value = [inner, value] if data.draw(st.booleans()) else {"a": inner, "b": value}
    with pytest.raises(DuplicateKeyError) as caught:
        load_json(doubled(value))
    assert str(caught.value) == f"duplicate key {key!r}"


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a": 1e999}'])
def test_what_is_not_finite_is_read_only_where_it_may_be(text: str) -> None:
    assert not math.isfinite(next(iter(_numbers(load_json(text)))))
    with pytest.raises(ValueError, match=r"NaN|Infinity|1e999"):
        load_json(text, finite=True)


def _numbers(value: Any) -> list[float]:
    return [value] if isinstance(value, float) else list(value.values() if isinstance(value, dict) else value)


def test_deep_nesting_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="nested too deep"):
        load_json("[" * 1_000_000)


# --- the files ---

TASK = '{"id": "t1", "question": "1 + 1?", "answer": 2, "answer": 3}'
ROW = '{"task": "t1", "arm": "a", "score": 1, "score": 0}'


def _manifest(path: Path) -> object:
    return read_manifest_json(path.parent)


READERS = {
    "tasks.jsonl": (TASK, lambda path: len(jsonl_suite(path).tasks)),
    "quarantine.json": ('{"t1": "bad", "t1": "good"}', read_quarantine),
    "table.jsonl": (ROW, lambda path: read_file(path, ImportRequest(reading=ReadingOptions()))),
    "log.json": ('{"eval": {"a": 1, "a": 2}}', lambda path: read_file(path, ImportRequest())),
    "program.json": ('{"react": {"demos": [], "demos": [1]}}', read_program),
    "manifest.json": ('{"config": {"seed": 1, "seed": 2}}', _manifest),
    "m.jsonl": ('{"model": "a", "model": "b"}\n', lambda path: Recordings(path.parent, "replay").of("m")),
}


@pytest.mark.parametrize("name", READERS)
def test_every_file_with_a_duplicate_key_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    text, read = READERS[name]
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    if name == "manifest.json":  # its checksum is looked at first
        reseal(path)
    with pytest.raises(ValueError, match="duplicate key") as caught:
        read(path)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)
