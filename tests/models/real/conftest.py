"""Fixtures for tests against a server on loopback."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from whichloop.models import real

from .provider import Server, completion, serving


@pytest.fixture(scope="module")
def _shared() -> Iterator[Server]:
    with serving(lambda heard: completion()) as server:
        yield server


@pytest.fixture
def shared(_shared: Server) -> Server:
    """One server for many tests; a test sets its rule, or has a completion without more."""
    _shared.rule = lambda heard: completion()
    return _shared


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key and no address of the machine's own; short pauses."""
    for name in os.environ:
        if name.endswith(("_API_KEY", "_BASE_URL", "_API_BASE")):
            monkeypatch.delenv(name)
    monkeypatch.setattr(real, "FIRST_PAUSE_S", 0.01)
