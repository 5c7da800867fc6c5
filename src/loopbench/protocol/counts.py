"""Numbers with what they count, in the singular or the plural."""

from __future__ import annotations


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return `1 task`, `3 tasks`. `many`: the plural where it takes more than an s, its verb included: `trial is`, `trials are`."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
