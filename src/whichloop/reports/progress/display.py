"""Progress of what a Python program starts: a view in a terminal or in a notebook's cell, silence elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.live import Live

from whichloop.experiments.compare.prepare import Experiment
from whichloop.runs.engine.runner import Progress

from . import search, trials

if TYPE_CHECKING:
    from whichloop.experiments.optimize.prepare import Optimization  # which needs DSPy

COLUMNS, LINES = 110, 40
"""Size of the view in a notebook's cell."""
REDRAWN_EVERY_S = 0.5


@contextmanager
def run_display(experiment: Experiment, wanted: bool | None) -> Iterator[Progress]:
    """Show the progress of a run for as long as the block lasts. `wanted`: None shows it where a person is likely to look."""
    display = _notebook_display(wanted)
    if display is None:
        with trials.watching(experiment, quiet=not _shows_outside_notebooks(wanted)) as progress:
            yield progress
        return
    view = trials.LiveView(experiment, Live(console=_console(), auto_refresh=False))
    with _in_cell(view, display):
        yield view


@contextmanager
def search_display(optimization: Optimization, wanted: bool | None) -> Iterator[search.SearchDisplay]:
    """Show the progress of an optimization for as long as the block lasts; `wanted` is as for `run_display`."""
    display = _notebook_display(wanted)
    if display is None:
        with search.watching(optimization, quiet=not _shows_outside_notebooks(wanted)) as progress:
            yield progress
        return
    view = search.LiveSearch(optimization)
    with _in_cell(view, display):
        yield view


def _shows_outside_notebooks(wanted: bool | None) -> bool:
    return sys.stderr.isatty() if wanted is None else wanted


def _console() -> Console:
    return Console(file=StringIO(), width=COLUMNS, height=LINES)


@contextmanager
def _in_cell(view: RenderableType, display: Any) -> Iterator[None]:
    """Show a terminal's view as text in a cell, which is replaced as time goes on and keeps its last state."""
    console = _console()

    def draw() -> float:
        with console.capture() as captured:
            console.print(view)
        handle.update(_Html(f'<pre style="margin: 0; line-height: 1.3;">{escape(captured.get())}</pre>'))
        return REDRAWN_EVERY_S

    handle = display(_Html(""), display_id=True)
    try:
        with trials.calling(draw):
            yield
    finally:
        draw()


class _Html:
    """Text that a notebook shows as HTML; our own class, since IPython exists in notebooks only."""

    def __init__(self, html: str) -> None:
        self.html = html

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return ""


def _notebook_display(wanted: bool | None) -> object:
    """Return IPython's `display` where this process is the kernel of a notebook and progress is wanted, else None."""
    if wanted is False or "ipykernel" not in sys.modules or "IPython" not in sys.modules:
        return None
    return sys.modules["IPython"].display.display
