"""The mark that says which rows of `docs/conformance.md` a test holds: `@row("S4-11", "X-2")`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pytest

row = pytest.mark.row
"""Ids of rows, of one or several designs; the id of an option's row is DESIGN.OPTION."""


def rows_of(item: pytest.Item) -> Iterator[str]:
    """The ids that a collected test is marked with."""
    for mark in item.iter_markers("row"):
        yield from mark.args


def chosen(row_id: str, wanted: Sequence[str]) -> bool:
    """Say whether `--row` asked for this row: by its id, or by its design, such as `S4` or `bare`."""
    design = re.split(r"[-.]", row_id, maxsplit=1)[0]
    return row_id in wanted or design in wanted
