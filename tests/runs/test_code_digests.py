"""Which files of the user's own a suite is made of, each with its digest."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from whichloop.runs.code_digests import own_file_digests


@pytest.fixture
def tools_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Writes two modules of tools, alone and in a package, and gives their digests."""
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "own_package"
    package.mkdir()
    (package / "prices.py").write_text("def price() -> int:\n    '''A price.'''\n    return 1\n")

    def digests(name: str, factor: int) -> dict[str, str]:
        (package / "__init__.py").write_text("from own_package.prices import price\nTOOLS = [price]\n")
        source = f"def double(n: int) -> int:\n    '''Twice n.'''\n    return {factor} * n\n\n\nTOOLS = [double]\n"
        (tmp_path / "own_tools.py").write_text(source)
        importlib.invalidate_caches()
        importlib.import_module(name)
        return own_file_digests(None, name)

    yield digests
    for name in ("own_tools", "own_package", "own_package.prices"):
        sys.modules.pop(name, None)


def test_a_file_has_its_name_and_another_digest_once_it_changes(tools_of):
    first, again, other = (tools_of("own_tools", factor) for factor in (2, 2, 3))
    assert list(first) == ["own_tools.py"]
    assert first == again
    assert first != other
