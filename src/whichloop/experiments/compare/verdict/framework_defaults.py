"""That frameworks were compared as they come, where an option of theirs decides what the model is shown."""

from __future__ import annotations

import re

from whichloop.runs.manifest import Manifest
from whichloop.text.numbers import listed_names

OPTION, SHOWN = "tool_errors", "shown"
_AS_IT_COMES = re.compile(rf"\b{OPTION}='default'")


def defaults_sentence(manifest: Manifest) -> str:
    """Return which frameworks ran with their own way with a failing tool, and what shows the model its error; empty for none."""
    loops = dict.fromkeys(arm.loop for arm in manifest.arms if _AS_IT_COMES.search(arm.configuration))
    if not loops:
        return ""
    runs = "runs" if len(loops) == 1 else "run"
    names = listed_names(list(loops))
    return f"{names} {runs} as installed; {next(iter(loops))}({OPTION}={SHOWN}) shows the model what a tool raises."
