"""The limits and threads that a loop sets for its tools; a product has no limits unless it sets them."""

from __future__ import annotations

from dataclasses import dataclass

from whichloop.protocol import Toolbox


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSettings:
    """The options that all designs share. Raises ValueError for a limit that lets nothing through."""

    tool_timeout_s: float | None = None
    """Seconds for one call of a tool that has no limit of its own, where the toolbox allows no less; None: no limit."""
    tool_max_chars: int | None = None
    """Characters that the model reads of one result, under the same rule; hooks and stores have all of it. None: no limit."""
    tool_threads: bool | None = None
    """Run sync functions on threads of their own, or (False) on the caller's; None: as the design does, see docs/product.md."""

    def __post_init__(self) -> None:
        if self.tool_timeout_s is not None and not self.tool_timeout_s > 0:
            raise ValueError(f"tool_timeout_s must be more than 0 s, or None, not {self.tool_timeout_s}")
        if self.tool_max_chars is not None and self.tool_max_chars < 1:
            raise ValueError(f"tool_max_chars must be at least 1, or None, not {self.tool_max_chars}")
        if self.tool_threads is False and self.tool_timeout_s is not None:
            raise ValueError("tool_threads must not be False with a tool_timeout_s: no limit can stop the caller's own thread")

    def configured_tools(self, tools: Toolbox, *, at_once: bool = False) -> Toolbox:
        """Return the same tools under these settings. `at_once`: the design runs several calls at the same time."""
        threads = True if at_once and self.tool_threads is None else self.tool_threads
        if threads is None and self.tool_timeout_s is None and self.tool_max_chars is None:
            return tools
        return tools.limited(self.tool_timeout_s, self.tool_max_chars, threads)
