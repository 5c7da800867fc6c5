"""A registry of tools for the tests of the bare loop."""

from __future__ import annotations

import pytest

from tests.loops.bare.helpers import (
    add,
    divide,
    lookup,
)
from whichloop.loops.bare_standalone import ToolRegistry


@pytest.fixture
def tools() -> ToolRegistry:
    made = ToolRegistry()
    for function in (add, divide, lookup):
        made.register()(function)
    return made
