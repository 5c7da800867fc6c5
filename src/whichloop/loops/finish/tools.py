"""The tools of one run: those that it was given, with what `on_step` adds and removes.

Rows such as G-6 are those of docs/conformance.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from whichloop.protocol import Observation, Tool, Toolbox, ToolCall, ToolSpec
from whichloop.protocol.tools import ToolboxAround

from .output import FINISH

F = TypeVar("F", bound=Callable[..., Any])
_MARK = "__whichloop_tool__"


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    blocking: bool = True,
    time_limit_s: float | None = None,
    max_chars: int | None = None,
) -> Callable[[F], F]: ...
def tool(function: Any = None, /, **settings: Any) -> Any:
    """Make a function a tool: its name, docstring and argument types describe it. The function itself is unchanged.

    `time_limit_s`: seconds for one call. `max_chars`: characters that a model reads of one result. None: the module's limits.
    Raises TypeError if an argument's type has no JSON schema.
    """
    if function is None:
        return lambda decorated: _marked(decorated, settings)
    return _marked(function, settings)


def _marked(function: F, settings: dict[str, Any]) -> F:
    setattr(function, _MARK, Tool.from_function(function, **settings))
    return function


def as_tool(given: Tool | Callable[..., Any]) -> Tool:
    """Return a given tool, the tool of a decorated function, or one made of a plain function."""
    if isinstance(given, Tool):
        return given
    marked = getattr(given, _MARK, None)
    return marked if isinstance(marked, Tool) else Tool.from_function(given)


def refuse_reserved(tools: Toolbox) -> None:
    """Raise ValueError for a tool named `__finish__`, which ends the run (row G-6)."""
    if FINISH in tools:
        raise ValueError(f"a tool may not be named {FINISH!r}: that name ends the run")


class CurrentTools(ToolboxAround):
    """The tools that a run was given, without those that `on_step` removed and with those that it added."""

    def __init__(self, within: Toolbox) -> None:
        super().__init__(within)
        self._tools = dict(within._tools)  # a copy: what is added and removed is so for this run only
        self._offered: tuple[ToolSpec, ...] = ()

    def add(self, given: Tool | Callable[..., Any]) -> None:
        """Offer a tool; the same tool again changes nothing. Raises ValueError for another tool's name, and for `__finish__`."""
        added = as_tool(given)
        present = self.get(added.name)
        if added.name == FINISH:
            raise ValueError(f"a tool may not be named {FINISH!r}: that name ends the run")
        # By equality: a method is a new object each time that it is named.
        if present is not None and present is not added and present.function != added.function:
            raise ValueError(f"another tool is named {added.name!r} already; remove it first")
        self._tools.setdefault(added.name, added)

    def remove(self, name: str) -> None:
        """Stop offering a tool; an unknown name changes nothing. Raises ValueError for `__finish__`."""
        if name == FINISH:
            raise ValueError(f"{FINISH} cannot be removed: without it the run could not end")
        self._tools.pop(name, None)

    def specs_with(self, finish: ToolSpec) -> tuple[ToolSpec, ...]:
        """Return what a model reads of the tools and, last, of `__finish__`; like `specs` the same tuple as long as they stay."""
        offered = (*self.specs, finish)
        if offered != self._offered:
            self._offered = offered
        return self._offered

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        if self.get(call.name) is self.within.get(call.name):  # both None for a tool that nobody knows
            return await self.within.call(call, validate=validate)
        return await Toolbox.call(self, call, validate=validate)
