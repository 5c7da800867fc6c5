"""JSON of files: what the standard library reads is read alike, but for a key that stands twice, wherever it stands."""

from __future__ import annotations

import hashlib
import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.sealing import reseal
from whichloop.datasets.importing.json_files import read_quarantine
from whichloop.datasets.jsonl import load as jsonl_suite
from whichloop.experiments.import_runs.foreign_trials import ReadingOptions
from whichloop.experiments.import_runs.importing import read_file
from whichloop.experiments.import_runs.joining import ImportRequest
from whichloop.models.recording import Recordings
from whichloop.protocol import Inexpressible, NativeCall, WireError
from whichloop.protocol.json_text import canonical_json, digest, load_json, whole_numbers_as_int
from whichloop.protocol.program import read_program
from whichloop.protocol.wire import from_json, native_call, read_call, to_json
from whichloop.runs.store.files import read_manifest_json


def same(a: Any, b: Any) -> bool:
    return repr(a) == repr(b)  # NaN is not equal to itself


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
    except ValueError:
        assert text.count(":") > 1


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


STRICT_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(STRICT_JSON)
def test_any_json_comes_back_as_it_was(value: Any) -> None:
    assert from_json(to_json(value)) == value
    assert same(load_json(json.dumps(value)), value)


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, (1, 2), {1: 2}, {1}, b"b", object(), [math.nan], {"a": (1,)}],
    ids=lambda value: type(value).__name__,
)
def test_what_json_lacks_cannot_be_said(value: Any) -> None:
    with pytest.raises(Inexpressible):
        to_json(value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("NaN", "NaN is not JSON"),
        ("[-Infinity]", "-Infinity is not JSON"),
        ("1e999", "1e999 is out of range"),
        ("{", "line 1"),
        ("", "line 1"),
        ("[" * 100_000, "too deep"),
    ],
)
def test_what_is_no_json_says_why(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        from_json(text)


@given(st.text(max_size=20))
def test_any_arguments_are_an_object_or_a_wire_error(arguments: str) -> None:
    try:
        call = read_call(NativeCall("1", "add", arguments))
    except WireError:
        return
    assert (call.name, call.call_id) == ("add", "1")
    assert read_call(native_call(call)) == call


any_text = st.text(st.characters(categories=["L", "N", "P", "S", "Z", "Cc", "Cs"]), max_size=8)
finite_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
)


def shuffled(value: object, source: random.Random) -> object:
    """The same JSON with every object's keys in another order."""
    if isinstance(value, dict):
        items = list(value.items())
        source.shuffle(items)
        return {key: shuffled(item, source) for key, item in items}
    return [shuffled(item, source) for item in value] if isinstance(value, list) else value


@settings(max_examples=cases(25))
@given(finite_json, st.randoms(use_true_random=False))
def test_key_order_does_not_count(value: object, source: random.Random) -> None:
    assert canonical_json(shuffled(value, source)) == canonical_json(value)
    assert digest(shuffled(value, source)) == digest(value)


@given(finite_json)
def test_canonical_text_is_ascii_and_says_the_same_value(value: object) -> None:
    text = canonical_json(value)
    assert text.isascii()
    assert canonical_json(json.loads(text)) == text


@pytest.mark.parametrize(("value", "error"), [([{"a": -math.inf}], ValueError), (math.nan, ValueError), ({"a": {1}}, TypeError)])
def test_what_json_cannot_say_has_no_canonical_text(value: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        canonical_json(value)


def test_the_form_is_fixed() -> None:
    assert canonical_json({"b": [1, 2.5, None], "a": "é"}) == '{"a":"\\u00e9","b":[1,2.5,null]}'
    assert digest({}) == hashlib.sha256(b"{}").hexdigest()
    assert len(digest([1])) == 64


def as_floats(value: object) -> object:
    """The same JSON with every integer that a float can say exactly as a float."""
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value) if abs(value) < 2**53 else value
    if isinstance(value, dict):
        return {key: as_floats(item) for key, item in value.items()}
    return [as_floats(item) for item in value] if isinstance(value, list) else value


@given(finite_json)
def test_equal_numbers_have_one_digest_once_whole_ones_are_integers(value: object) -> None:
    assert whole_numbers_as_int(value) == value
    assert digest(whole_numbers_as_int(as_floats(value))) == digest(whole_numbers_as_int(value))
