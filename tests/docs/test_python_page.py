"""docs/python.md names columns and attributes that there are."""

from __future__ import annotations

import re

import whichloop
from tests.docs.pages import DOCS

TABLES = {"trials", "arms", "pairs", "tasks", "effects"}


def test_what_the_page_names_of_a_run_is_there(tmp_path):
    text = (DOCS / "python.md").read_text("utf-8")
    run = whichloop.compare(
        "bare", vary={"max_consecutive_errors": [1, 3]}, tasks=6, profiles="flaky-format", progress=False, runs=tmp_path
    )
    rows = dict(re.findall(r"^\| `run\.(\w+)`[^|]*\|[^|]*\|(.*)\|$", text, re.MULTILINE))
    assert rows.keys() >= TABLES
    for name in TABLES:
        assert set(re.findall(r"`([a-z_]+)`", rows[name])) - {"vary"} <= set(getattr(run, name).columns), name
    assert all(hasattr(run, name) for name in re.findall(r"`run\.(\w+)", text))
