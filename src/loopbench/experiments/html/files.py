"""Pages as files."""

from __future__ import annotations

from pathlib import Path

PAGE = "report.html"


def write_page(text: str, path: Path) -> Path:
    """Whole or not at all. Raises OSError."""
    scratch = path.with_name(f"{path.name}.part")
    scratch.write_text(text, encoding="utf-8", newline="\n")
    scratch.replace(path)
    return path
