"""DSPy: `dspy.ReActV2` with native calls (dspy.ai)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from whichloop.protocol import StopReason

from .framework import Framework


@dataclass(frozen=True, slots=True)
class DSPyReAct(Framework):
    """DSPy's experimental agent over native calls; its text formats are what `react_extract` compares."""

    stops: ClassVar = Framework.stops | {StopReason.FORCED}
    requires: ClassVar = ("dspy", "litellm")


LOOP = DSPyReAct
