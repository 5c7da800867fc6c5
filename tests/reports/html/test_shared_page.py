"""A page of which a fork makes a part: the bytes are those that one process makes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.reports.html.made_once import page_of
from whichloop.metrics.arm_info import TrialLimits
from whichloop.reports.html import page as pages
from whichloop.reports.html.causes import find_losses
from whichloop.runs.store.files import TRACES

IN_ONE_FORK = "the run of three designs that has a page"


@contextmanager
def made_here(write: Callable[[], str], *, wanted: bool) -> Iterator[Callable[[], str]]:
    """What a fork does, in this process."""
    assert wanted
    yield write


def untraced(found: Any, folder: Path) -> Any:
    """The run without its traces."""
    shutil.copytree(found.folder, folder / found.folder.name)
    (folder / found.folder.name / TRACES).unlink()
    return replace(found, folder=folder / found.folder.name)


LIMITS = TrialLimits("at most 9 tool steps a trial")


def limited(found: Any, _: Path) -> Any:
    """The run under a limit of its own to each trial."""
    return replace(found, comparison=replace(found.comparison, limits=LIMITS))


@pytest.mark.parametrize(
    "changed",
    [pytest.param(lambda found, _: found, marks=pytest.mark.slow), untraced, limited],
    ids=["whole", "untraced", "limited"],
)
def test_the_part_that_was_made_elsewhere_stands_in_its_place(breeze, changed, tmp_path, monkeypatch):
    found = changed(breeze, tmp_path)
    alone = page_of(found)
    monkeypatch.setattr(pages, "text_beside", made_here)
    monkeypatch.setattr(pages, "MIN_SHARED", 0)
    monkeypatch.setattr(pages, "find_losses", once(find_losses))
    assert pages.report_html(found, with_fork=True) == alone


def once(find: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, which may be called once."""
    calls = iter([find])
    return lambda *given, **named: next(calls)(*given, **named)


def test_a_short_run_asks_for_no_fork(breeze, monkeypatch):
    asked = []

    @contextmanager
    def nowhere(write: Callable[[], str], *, wanted: bool) -> Iterator[Callable[[], None]]:
        asked.append(wanted)
        yield lambda: None

    monkeypatch.setattr(pages, "text_beside", nowhere)
    assert pages.report_html(breeze, with_fork=True) == pages.report_html(breeze)
    assert len(breeze.records) < pages.MIN_SHARED
    assert asked == [False, False]
