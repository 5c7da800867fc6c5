"""The answer to a question: the finding itself, and the sentences and tables that state it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from loopbench.reports.notebook import block
from loopbench.text.plain_text import plain_line
from loopbench.text.table import Table

Finding = TypeVar("Finding")


@dataclass(frozen=True, slots=True, repr=False)
class Conclusion(Generic[Finding]):
    """An answer that prints as its verdict; `finding` has everything behind it."""

    title: str
    verdicts: Sequence[str]
    """Sentences, the most important one first."""
    tables: Sequence[Table]
    finding: Finding
    shown: str = ""
    """What is printed instead of title and verdicts, if lines of it are indented."""

    def __repr__(self) -> str:
        """Return the title and the verdicts, a line each."""
        return self.shown or "\n".join(plain_line(line) for line in (self.title, *self.verdicts))

    def _repr_html_(self) -> str:
        """Return the verdicts and the tables for a notebook; every text is escaped."""
        return block(self.title, self.verdicts, self.tables)
