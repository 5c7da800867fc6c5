"""The built-in loops that are designs of their own, as whichloop finds them: a test that lists them has no list to keep up."""

from __future__ import annotations

from whichloop.protocol import WrappedLoop
from whichloop.runs.built_in import builtin_names
from whichloop.runs.registry import find


def _is_wrapper(name: str) -> bool:
    """Whether a loop is another one with something around it."""
    made = find("loop", name)
    return isinstance(made, type) and issubclass(made, WrappedLoop)


DESIGNS = [name for name in builtin_names("loop") if not _is_wrapper(name)]
