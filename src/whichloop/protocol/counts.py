"""Numbers with what they count, in the singular or the plural, and lists in words."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return `1 task`, `3 tasks`. `many`: the plural where it takes more than an s, its verb included: `trial is`, `trials are`."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def joined(names: Sequence[str], word: str = "and") -> str:
    """Return `a`, `a and b`, `a, b and c`, or the same with another word before the last one."""
    return f" {word} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
