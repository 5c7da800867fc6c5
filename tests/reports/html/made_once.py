"""Sections, pages and causes of the runs that tests share, each made once: a finished run has the same ones every time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whichloop.experiments.compare.results import Results
from whichloop.experiments.why.losses import Why, losses_explained
from whichloop.reports.html.document import PageSection
from whichloop.reports.html.page import report_html, sections

_MADE: dict[tuple[int, Callable[..., Any], frozenset[tuple[str, Any]]], tuple[Results, Any]] = {}
"""By the identity of a run, the function and its options: the run, so that no other gets that identity, and the result."""


def _once(make: Callable[..., Any], found: Results, **options: Any) -> Any:
    """Return what a function makes of a run, which may not be changed; it is called once for each run and each set of options."""
    key = (id(found), make, frozenset(options.items()))
    if key not in _MADE:
        _MADE[key] = found, make(found, **options)
    return _MADE[key][1]


def sections_of(found: Results, **options: Any) -> tuple[PageSection, ...]:
    made: tuple[PageSection, ...] = _once(sections, found, **options)
    return made


def page_of(found: Results) -> str:
    made: str = _once(report_html, found)
    return made


def why_of(found: Results, **options: Any) -> Why:
    made: Why = _once(losses_explained, found, **options)
    return made
