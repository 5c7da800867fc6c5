"""Which fields of a fault profile from a file have changed since a baseline was blessed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from whichloop.metrics.trajectory.trajectory import shortened
from whichloop.protocol import render_value
from whichloop.text.numbers import listed_names

MAX_VALUE_CHARS = 40
"""Characters of a value that are shown."""


def changed_fields(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return `rates.wire.empty 0.2, not 0.1`, and so on; empty where one of the two is not known or they are the same."""
    if not was or not now:
        return ""
    old, new = dict(_fields(was)), dict(_fields(now))
    names = [name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)]
    return listed_names([f"{name} {_value(new, name)}, not {_value(old, name)}" for name in names])


def _fields(profile: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a profile, those of its sections by `section.field`."""
    for name, value in profile.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{part}", inner) for part, inner in value.items())
        else:
            yield name, value


def _value(fields: Mapping[str, Any], name: str) -> str:
    return shortened(render_value(fields[name]), MAX_VALUE_CHARS) if name in fields else "none"
