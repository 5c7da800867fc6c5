"""Variants by file name: what a file offers is right, or one line names the file and says what would be."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from whichloop.protocol.modules import names_in, offered_by

PACKAGE = "package_of_variants"
RIGHT = "a whole number, such as 7"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A package of one variant, `one`, whose file a test writes."""
    root = tmp_path_factory.mktemp("variants")
    folder = root / PACKAGE
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "one.py").touch()
    (folder / "_helper.py").touch()
    sys.path.append(str(root))
    yield folder
    sys.path.remove(str(root))


def offered(folder: Path, code: str) -> object:
    (folder / "one.py").write_text(code, "utf-8")
    sys.modules.pop(f"{PACKAGE}.one", None)
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode  # two files of one second and one size would be one to Python
    try:
        return offered_by(PACKAGE, "one", "NUMBER", lambda value: type(value) is int, RIGHT)
    finally:
        sys.dont_write_bytecode = before


@given(st.one_of(st.integers(), st.floats(allow_nan=False), st.text(max_size=5), st.none(), st.booleans(), st.lists(st.integers())))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_a_file_offers_is_right_or_one_line_names_the_file(package: Path, value: object) -> None:
    code = f"inf = float('inf')\nNUMBER = {value!r}\n"
    if type(value) is int:
        assert offered(package, code) == value
        return
    with pytest.raises(ValueError, match="NUMBER must be") as refused:
        offered(package, code)
    assert str(refused.value) == f"{package / 'one.py'}: NUMBER must be {RIGHT}; it is of the type {type(value).__name__}"


def test_what_is_missing_and_what_is_a_class_is_said(package: Path) -> None:
    assert names_in(PACKAGE) == ("one",)
    with pytest.raises(ValueError, match=rf"one\.py: NUMBER is missing; it must be {RIGHT}$"):
        offered(package, "NUMBERS = 7")
    with pytest.raises(ValueError, match=rf"NUMBER must be {RIGHT}; it is the class Seven$"):
        offered(package, "class Seven: ...\nNUMBER = Seven")
