"""Where in the user's code an exception came up."""

from __future__ import annotations

from pathlib import Path

import pytest

from whichloop.protocol.own_code import place_in, raised_at


def raised(file: Path) -> str:
    code = compile("import json\n\njson.loads('[')\n", str(file), "exec")
    with pytest.raises(ValueError, match="Expecting") as caught:
        exec(code, {})
    caught.value.__traceback__ = caught.tb.tb_next  # without the line of this test
    return raised_at(caught.value)


def test_the_innermost_line_of_the_users_is_named_from_the_current_directory(tmp_path, monkeypatch):
    """Of a file elsewhere no folder of this machine is told."""
    monkeypatch.chdir(tmp_path)
    assert raised(tmp_path / "shop" / "loop.py") == "shop/loop.py:3"
    assert raised(tmp_path.parent / "loop.py") == "loop.py:3"


def test_a_place_is_read_back_from_the_end_of_a_reason(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my loop.py").touch()
    assert place_in("KeyError: 'look at me' at my loop.py:14") == ("my loop.py", 14)
    assert [place_in(said) for said in ("", "KeyError", "at gone.py:1", "at my loop.py:", "at my loop.py:²")] == [None] * 5
