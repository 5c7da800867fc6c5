"""Progress of what a Python program starts: a bar in a terminal, one in a notebook's cell, silence elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any

from rich.console import Console
from rich.live import Live

from loopbench.cli.progress import LiveView, calling, watching
from loopbench.experiments.compare.prepare import Experiment
from loopbench.reports.notebook import preformatted
from loopbench.runs.engine.runner import Progress

COLUMNS = 110
"""Width of the view in a notebook's cell."""


@contextmanager
def progress_display(experiment: Experiment, wanted: bool | None) -> Iterator[Progress]:
    """Show the progress of a run for as long as the block lasts. `wanted`: None shows it where a person is likely to look."""
    display = _notebook_display() if wanted is not False else None
    if display is not None:
        with _in_notebook(experiment, display) as view:
            yield view
    else:
        with watching(experiment, quiet=not shows_progress(wanted)) as progress:
            yield progress


def shows_progress(wanted: bool | None) -> bool:
    """Say whether to show progress that only terminals can display."""
    return sys.stderr.isatty() if wanted is None else wanted


@contextmanager
def _in_notebook(experiment: Experiment, display: Any) -> Iterator[Progress]:
    """Show the terminal's view as text in a cell, which is replaced as the run goes on and keeps its last state."""
    console = Console(file=StringIO(), width=COLUMNS, height=40)
    view = LiveView(experiment, Live(console=console, auto_refresh=False))

    def draw() -> float:
        with console.capture() as captured:
            console.print(view)
        handle.update(_Html(preformatted(captured.get())))
        return 0.5

    handle = display(_Html(""), display_id=True)
    try:
        with calling(draw):
            yield view
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


def _notebook_display() -> Any:
    """Return IPython's `display` where this process is the kernel of a notebook, else None."""
    if "ipykernel" not in sys.modules or "IPython" not in sys.modules:
        return None
    return sys.modules["IPython"].display.display
