"""The marks on either side of an instruction that a tool's result carries: `[i:bdfhac] Instruction: … [bdfhac:i]`."""

from __future__ import annotations

import re

MARKED = re.compile(r"\[i:([a-p]{6})\](.*?)\[\1:i\]", re.DOTALL)
"""Label and sentence. A label has no digit, which a scorer might take for a number of the answer."""


def instructions_in(text: str) -> list[str]:
    """Return the sentences of the instructions in a text, whole, each in one line."""
    return [" ".join(found[2].split()) for found in MARKED.finditer(text)]
