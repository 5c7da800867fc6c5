"""What a call from Python tells besides its answer: warnings of one category, at the line of the user's code."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from types import FrameType


class WhichloopWarning(UserWarning):
    """What is worth knowing and stops nothing, such as columns that were not read."""


def warn_caller(notes: Sequence[str]) -> None:
    """Warn once, a line for each note, at the line of the user's code that asked."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_ours(frame):
        level, frame = level + 1, frame.f_back
    if notes:  # one warning, for each shows the line of the call anew
        warnings.warn("\n".join(notes), WhichloopWarning, stacklevel=level)


def _is_ours(frame: FrameType) -> bool:
    package: str = frame.f_globals.get("__name__", "")
    return package.partition(".")[0] == __name__.partition(".")[0]
