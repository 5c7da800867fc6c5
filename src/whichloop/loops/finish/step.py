"""The arguments of the hooks: a step with its calls and results, and the pieces of a streamed reply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from whichloop.protocol import Reply, Tool, ToolCall

from .history import History
from .run import Run, ToolResult


@dataclass(slots=True)
class Step:
    """One step, for `on_step` to look at and to change what comes next."""

    counter: int
    """Number of the step; 1 for the first."""
    model: Any
    """The model in use; a name, a dict or a Model put here answers all later requests."""
    temperature: float | None
    max_tokens: int | None
    response: Reply
    tool_calls: list[ToolCall]
    tool_results: list[ToolResult]
    """Results in the order of the calls."""
    _run: Run = field(repr=False)
    finished: bool = False
    """Whether `finish` has been called."""
    answer: Any = None
    """The validated answer that `finish` was called with."""

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools on offer now, without `__finish__`."""
        return tuple(self._run.tools)

    @property
    def history(self) -> History:
        """The conversation: a list of dicts, to be changed in place or replaced."""
        return self._run.history

    @history.setter
    def history(self, changed: History) -> None:
        self._run.history = changed

    def add_tool(self, tool: Tool | Callable[..., Any]) -> None:
        """Offer a tool from now on. Raises ValueError for the name of another one, and for `__finish__`."""
        self._run.tools.add(tool)

    def remove_tool(self, name: str) -> None:
        """Stop offering a tool. Raises ValueError for `__finish__`."""
        self._run.tools.remove(name)

    def finish(self, **arguments: Any) -> None:
        """End the run with this answer; the last call counts.

        Raises ValueError for an answer that does not fit, pydantic's ValidationError where a model validates it.
        """
        self.answer = self._run.output.built(arguments)
        self.finished = True


@dataclass(frozen=True, slots=True)
class PartialCall:
    """A tool call as far as it has been streamed."""

    name: str
    arguments: str
    """The text so far."""
    index: int = 0
    """0-based place among the reply's calls."""
    id: str = ""


@dataclass(frozen=True, slots=True)
class StreamChunk:
    """A piece of a streamed reply, for `on_stream`."""

    content: str | None = None
    """A piece of the text; None on chunks of calls."""
    partial: Any = None
    """The answer as far as it is known, while `__finish__` is being written: Partial[T], or a dict under a JSON schema."""
    tool_call: PartialCall | None = None
    """Another call, as far as it is known."""
    done: bool = False
    """True for the last chunk of a model call."""
