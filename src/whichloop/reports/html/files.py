"""Pages as files."""

from __future__ import annotations

from pathlib import Path

from whichloop.runs.store.files import write_whole

PAGE = "report.html"


def write_page(text: str, path: Path) -> Path:
    """Write a page, whole or not at all, and return its path. Raises OSError."""
    write_whole(path, text.encode("utf-8"))
    return path
