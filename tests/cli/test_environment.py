"""Keys from a `.env` file: what is set wins, nothing is interpolated, and what cannot be read is told without its content."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.cli.process import load_env


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test sets is gone after it."""
    monkeypatch.setattr(os, "environ", os.environ.copy())


def load(folder: Path, content: str | bytes) -> dict[str, str]:
    (folder / ".env").write_bytes(content if isinstance(content, bytes) else content.encode())
    before = set(os.environ)
    with contextlib.chdir(folder):
        load_env()
    return {name: os.environ[name] for name in set(os.environ) - before}


@given(
    st.dictionaries(st.from_regex(r"LB_[A-Z0-9_]{1,8}", fullmatch=True), st.from_regex(r"[A-Za-z0-9_$./+=-]{1,20}", fullmatch=True))
)
def test_what_a_file_names_is_set_as_it_stands(tmp_path_factory, values):
    content = "# keys\n\n" + "".join(f"export {name}={value}\n" for name, value in values.items())
    try:
        assert load(tmp_path_factory.mktemp("env"), content) == values
    finally:
        for name in values:
            os.environ.pop(name, None)


def test_what_is_set_wins_and_the_last_line_of_a_file_too(tmp_path):
    os.environ["LB_ONE"] = "set"
    assert load(tmp_path, "LB_ONE=file\nLB_TWO=first\nLB_TWO=second\nLB_NONE\n") == {"LB_TWO": "second"}
    assert os.environ["LB_ONE"] == "set"


def test_nothing_is_interpolated(tmp_path):
    os.environ["LB_ONE"] = "set"
    assert load(tmp_path, "LB_TWO=${LB_ONE}x\nLB_THREE='a b#c'\n") == {"LB_TWO": "${LB_ONE}x", "LB_THREE": "a b#c"}


def test_what_cannot_be_read_is_told_without_what_it_holds(tmp_path, caplog):
    assert load(tmp_path, "LB_A=1\nthis is no line sk-secret-123456\n") == {"LB_A": "1"}
    assert "line 2" in caplog.text
    with pytest.raises(ValueError, match="0xff") as caught:
        load(tmp_path, b"LB_B=sk-secret-123456\xff\n")
    assert "secret" not in caplog.text + str(caught.value)


def test_the_working_directory_is_the_default(tmp_path, monkeypatch):
    (tmp_path / ".env").write_text("\ufeffLB_A=1\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    load_env()
    assert os.environ["LB_A"] == "1"
