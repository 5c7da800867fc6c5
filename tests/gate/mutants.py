"""Regressions planted in our own loops: the source of a design with one change, as a module of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from loopbench.loops import bare
from loopbench.loops.finish import loop as finish


@dataclass(frozen=True)
class Mutant:
    """One change of one design's source."""

    name: str
    """Of the module that it becomes."""
    source: Path
    loop: str
    """The class in it."""
    old: str
    new: str

    def write(self, folder: Path) -> str:
        """Writes the module; gives what `--loop` names. Fails where the source no longer holds what is to be changed."""
        text = self.source.read_text(encoding="utf-8")
        assert text.count(self.old) == 1, f"{self.source}: {self.old!r} stands there {text.count(self.old)} times"
        package = ".".join(self.source.parts[self.source.parts.index("loopbench") : -1])
        absolute = re.sub(r"^from \.(\w)", rf"from {package}.\1", text.replace(self.old, self.new), flags=re.MULTILINE)
        (folder / f"{self.name}.py").write_text(absolute, encoding="utf-8")
        return f"{self.name}:{self.loop}"


BARE, FINISH = Path(bare.__file__), Path(finish.__file__)

FEEDBACK_DROPPED = Mutant(
    "feedback_dropped",
    BARE,
    "Bare",
    '                observe("error", str(error), error.tool_name if isinstance(error, BadMove) else None)\n',
    "",
)
"""An unreadable reply is kept, and the model never told what was wrong with it."""

RETRY_OFF_BY_ONE = Mutant(
    "retry_off_by_one",
    FINISH,
    "Finish",
    "if run.failures > self.parse_retries:",
    "if run.failures >= self.parse_retries:",
)
"""One retry less than the option says."""

HISTORY_TRUNCATED = Mutant(
    "history_truncated",
    BARE,
    "Bare",
    "reply = await ask(tuple(messages), step)",
    "reply = await ask((*messages[: len(opening) + 1], *messages[len(opening) + 1 :][-4:]), step)",
)
"""The model sees the question and the last two exchanges only."""
