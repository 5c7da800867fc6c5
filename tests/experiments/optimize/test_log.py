"""A log keeps every whole line, whatever happens to the last one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.sealing import reseal
from whichloop.experiments.optimize.candidates import JsonLinesLog, log_digest, read_log
from whichloop.runs.store.files import RunError

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
lines = st.lists(st.dictionaries(st.text(), json_values, max_size=3), max_size=6)


@settings(max_examples=cases(12))
@given(lines, lines, st.binary(max_size=20).filter(lambda torn: b"\n" not in torn))
def test_what_was_written_is_read_and_a_torn_end_is_cut_off(
    tmp_path_factory: pytest.TempPathFactory, first: list[dict[str, Any]], second: list[dict[str, Any]], torn: bytes
) -> None:
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    _write(path, first)
    with path.open("ab") as file:
        file.write(torn)
    assert [line for _, line in read_log(path)] == first
    _write(path, second)
    assert [line for _, line in read_log(path)] == [*first, *second]


@settings(max_examples=cases(12))
@given(lines, st.randoms(use_true_random=False))
def test_a_digest_does_not_depend_on_the_order(
    tmp_path_factory: pytest.TempPathFactory, made: list[dict[str, Any]], draw: Any
) -> None:
    folder = tmp_path_factory.mktemp("log")
    _write(folder / "a", made)
    draw.shuffle(made)
    _write(folder / "b", made)
    assert log_digest(folder / "a") == log_digest(folder / "b")
    assert log_digest(folder / "a")["count"] == len(made)


@pytest.mark.parametrize("line", [b"{", b"[]", b"7", b"\xff"])
def test_a_line_that_is_no_object_is_named(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"a": 1}\n' + line + b"\n")
    reseal(path)
    with pytest.raises(RunError, match=r"log\.jsonl:2: "):
        list(read_log(path))


def _write(path: Path, items: list[dict[str, Any]]) -> None:
    log = JsonLinesLog(path)
    for item in items:
        log.append(item)
    log.close()
