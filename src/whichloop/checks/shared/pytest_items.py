"""What fixtures that run loops ask of the test that uses them."""

from __future__ import annotations

import pytest

from whichloop.protocol.threads import in_event_loop


def check_not_async(item: pytest.Item, fixture: str) -> None:
    """Raise UsageError where an event loop runs: the fixture runs one of its own."""
    if in_event_loop():
        raise pytest.UsageError(f"{item.nodeid}: {fixture} runs an event loop of its own; call it from a test that is not async")
