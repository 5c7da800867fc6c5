"""The limits that a loop sets for its tools; a product has none unless it sets them."""

from __future__ import annotations

from dataclasses import dataclass

from loopbench.protocol import Toolbox


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSettings:
    """The options that all designs share. Raises ValueError for a limit that lets nothing through."""

    tool_timeout_s: float | None = None
    """Seconds for one call of a tool that has no limit of its own, where the toolbox allows no less; None: no limit."""
    tool_max_chars: int | None = None
    """Characters that the model reads of one result, under the same rule; hooks and stores have all of it. None: no limit."""

    def __post_init__(self) -> None:
        if self.tool_timeout_s is not None and not self.tool_timeout_s > 0:
            raise ValueError(f"tool_timeout_s must be more than 0 s, or None, not {self.tool_timeout_s}")
        if self.tool_max_chars is not None and self.tool_max_chars < 1:
            raise ValueError(f"tool_max_chars must be at least 1, or None, not {self.tool_max_chars}")

    def over(self, tools: Toolbox) -> Toolbox:
        """Return the same tools under these limits."""
        return tools.limited(self.tool_timeout_s, self.tool_max_chars)
