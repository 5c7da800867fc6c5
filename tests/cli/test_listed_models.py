"""The list of models says of the model in the box what is not installed."""

from __future__ import annotations

import pytest

from whichloop.cli import catalogue
from whichloop.models.local.server import INSTALL


def summary_of(name: str) -> str:
    return next(entry.summary for entry in catalogue.entries("models") if entry.name == name)


def test_weights_that_are_missing_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ValueError(name)

    monkeypatch.setattr(catalogue, "find_weights", missing)
    assert summary_of("local").endswith(f"not installed here: {INSTALL}")


@pytest.mark.parametrize("found", [None, object()])
def test_so_is_the_package_that_serves_them(monkeypatch: pytest.MonkeyPatch, found: object) -> None:
    monkeypatch.setattr(catalogue, "find_weights", lambda name: None)
    monkeypatch.setattr(catalogue, "find_spec", lambda name: found)
    assert ("pip install 'whichloop[local]'" in summary_of("local")) is (found is None)
