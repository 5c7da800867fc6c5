"""A toolbox around another, to watch or change its calls."""

from __future__ import annotations

from loopbench.protocol import Toolbox
from loopbench.protocol.tools import ToolListing


class ToolboxAround(Toolbox):
    """A toolbox with the tools and limits of another, which runs the calls."""

    def __init__(self, within: Toolbox) -> None:
        super().__init__(within, time_limit_s=within.time_limit_s, max_chars=within.max_chars, threads=within.threads)
        self.within = within

    def listed(self) -> ToolListing:
        return self.within.listed()
