"""What the hooks see: a step with its calls and results, and the pieces of a streamed reply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from loopbench.protocol import Observation, Reply, Tool, ToolCall, render_value

from .history import History

if TYPE_CHECKING:
    from .run import Run


@dataclass(slots=True)
class ToolResult:
    """What came of one call."""

    name: str
    output: Any
    """The tool's own object, or an error's text; what stands here after `on_step` is what the model sees."""
    id: str = ""
    """Of the call that it answers."""
    error: str | None = None
    """Name of the exception's class; None where the tool gave a result."""
    observed: Observation | None = field(default=None, repr=False)
    is_edited: bool = field(default=False, repr=False)
    """Whether a hook has changed the output in place, which its identity does not show."""

    @property
    def was_executed(self) -> bool:
        """Whether the tool ran, to whatever end."""
        return self.observed is not None and self.observed.error_type not in ("UnknownTool", "InvalidArguments")

    @property
    def text(self) -> str:
        """As the model sees it: text as it is, what JSON can say as JSON, else `str()` (row S3-40)."""
        seen = self.observed
        is_as_given = seen is not None and seen.ok and seen.value is self.output and not self.is_edited
        if seen is not None and is_as_given and self.output is not None:
            return seen.data
        return "null" if self.output is None else render_value(self.output)


@dataclass(slots=True)
class Step:
    """One step, for `on_step` to look at and to change what comes next."""

    counter: int
    """1 for the first."""
    model: Any
    """The model in use; a name, a dict or a Model put here answers all later requests."""
    temperature: float | None
    max_tokens: int | None
    response: Reply
    tool_calls: list[ToolCall]
    tool_results: list[ToolResult]
    """In the order of the calls."""
    _run: Run = field(repr=False)
    finished: bool = False
    """Whether `finish` has been called."""
    answer: Any = None
    """What `finish` was called with, validated."""

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools on offer now, `__finish__` aside."""
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
        """Offer a tool no longer. Raises ValueError for `__finish__`."""
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
