"""Documents and charts as self-contained HTML pages: nothing is loaded from anywhere, and every text that is not ours is data.

What makes pages loads when one is made: a page that is there already needs none of it.
"""

from __future__ import annotations

from pathlib import Path

from whichloop._lazy import lazy
from whichloop.runs.store.files import write_whole

_HOMES = {"whichloop.reports.html.page": ("collection_html", "doc_html", "optimization_html", "report_html")}

__getattr__, __dir__ = lazy(__name__, _HOMES)

PAGE = "report.html"


def write_page(text: str, path: Path) -> Path:
    """Write a page, whole or not at all, and return its path. Raises OSError."""
    write_whole(path, text.encode("utf-8"))
    return path
