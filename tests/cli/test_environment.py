"""Keys from a `.env` file: what is set wins, nothing is interpolated, and what cannot be read is one line without its content."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.cli.environment import load_env


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test sets is gone after it."""
    monkeypatch.setattr(os, "environ", os.environ.copy())


def load(folder: Path, content: str | bytes) -> dict[str, str]:
    (folder / ".env").write_bytes(content if isinstance(content, bytes) else content.encode())
    before = set(os.environ)
    load_env(folder)
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


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("LB_A=1\nthis is no line sk-secret-123456\n", "line 2: write NAME=value"),
        ("LB_A='unclosed sk-secret-123456\n", "line 1: write NAME=value"),
        (b"LB_A=sk-secret-123456\xff\n", "it is not UTF-8 text"),
        (b"LB_A=sk-secret\x00-123456\n", "line 1: write NAME=value"),
    ],
)
def test_a_bad_file_is_one_line_and_sets_nothing(tmp_path, content, said):
    with pytest.raises(ValueError, match=r"cannot be read|line") as caught:
        load(tmp_path, content)
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "LB_A" not in os.environ


def test_no_file_is_no_trouble_and_neither_is_a_virtual_environment_of_that_name(tmp_path):
    load_env(tmp_path)
    (tmp_path / ".env").mkdir()
    load_env(tmp_path)


def test_the_working_directory_is_the_default(tmp_path, monkeypatch):
    (tmp_path / ".env").write_text("\ufeffLB_A=1\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    load_env()
    assert os.environ["LB_A"] == "1"
