"""What a comparison grants one call of a tool, where neither the tool nor a setting says otherwise."""

from __future__ import annotations

DEFAULT_TIME_LIMIT_S = 30.0
"""Seconds that a comparison grants one call; a toolbox of a product's own has no limit unless it is given one."""
DEFAULT_MAX_CHARS = 20_000
"""Characters of one result that a model reads in a comparison."""
