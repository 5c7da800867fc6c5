"""The helpers of the tests of the loops as a fixture."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.loops.helpers import Moves, Notes, Script, answer, call, extract, python, react


@pytest.fixture(scope="session")
def kit() -> SimpleNamespace:
    return SimpleNamespace(
        Script=Script, Moves=Moves, Notes=Notes, call=call, answer=answer, react=react, extract=extract, python=python
    )
