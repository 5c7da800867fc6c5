"""What fixtures that run loops ask of the test that uses them."""

from __future__ import annotations

import asyncio

import pytest


def check_not_async(item: pytest.Item, fixture: str) -> None:
    """Raise UsageError where an event loop runs: the fixture runs one of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise pytest.UsageError(f"{item.nodeid}: {fixture} runs an event loop of its own; call it from a test that is not async")
