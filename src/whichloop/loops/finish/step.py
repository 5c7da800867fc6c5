"""What a user gives, hooks and a model, and the arguments of hooks: a step with its calls and results, the pieces of a reply.

Rows such as S3-17 are those of docs/conformance.md.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from whichloop.loops.provider_retry import RetryingModel
from whichloop.protocol import SILENT, CallDelta, Chunk, Model, ModelError, ProviderError, Reply, StopRun, Tool, ToolCall
from whichloop.protocol.threads import in_thread, is_async_function
from whichloop.protocol.values import error_text

from .output import FINISH, Output
from .partial import partial_json
from .run import History, Run, ToolResult


class ParseError(Exception):
    """No valid `__finish__` within the retries."""


class HookFailed(Exception):
    """`on_step` or `on_stream` raised."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error_text(error)}")
        self.error = error


async def call_hook(hook: Callable[[Any], Any], argument: Any) -> Any:
    """Return what the hook returns. Raises HookFailed, except for the errors that may end a branch inside it (row S3-17)."""
    try:
        if is_async_function(hook):
            return await hook(argument)
        return await in_thread(hook, argument)
    except (StopRun, ParseError, ModelError):
        raise
    except Exception as error:
        raise HookFailed(error) from error


def resolve_model(given: Any) -> Model:
    """Return a Model: one that is given, a name (`provider/model`) through DSPy, or a dict.

    The dict holds `model`, `num_retries`, `retry_delay` and settings. Raises ValueError for anything else.
    """
    if isinstance(given, Model):
        return given
    if isinstance(given, str):
        return _named(given, {})
    if not isinstance(given, Mapping) or "model" not in given:
        raise ValueError(f"model: a name such as 'openai/gpt-4o-mini', a dict with 'model', or a Model; got {given!r}")
    settings = dict(given)
    model, retries, delay = settings.pop("model"), settings.pop("num_retries", 0), settings.pop("retry_delay", 0.0)
    if not isinstance(retries, int) or retries < 0 or not isinstance(delay, int | float) or delay < 0:
        raise ValueError(f"model: num_retries and retry_delay must not be negative, got {retries!r} and {delay!r}")
    asked = _named(model, settings) if isinstance(model, str) else resolve_model(model)
    return RetryingModel(asked, retries + 1, delay, SILENT)


def _named(name: str, settings: dict[str, Any]) -> Model:
    from whichloop.dspy_seam import model_named  # imports DSPy, which takes a second: only a model by name needs it

    return model_named(name, settings)


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


Hook = Callable[[StreamChunk], Any]

MAX_EACH = 20_000
"""Characters of a call's arguments up to which every piece is handed out."""
MIN_GROWTH = 1 / 64
"""Share by which longer arguments have to grow before they are read again: otherwise the time would grow with their square."""


async def streamed(chunks: AsyncIterator[Chunk], output: Output, hook: Hook) -> Reply:
    """Return the whole reply after handing out its pieces. Raises ModelError and HookFailed; the stream is closed then."""
    calls: dict[int, _ArrivingCall] = {}
    reply: Reply | None = None
    try:
        async for chunk in chunks:
            for piece in _pieces(chunk, calls, output):
                await call_hook(hook, piece)
            reply = chunk.reply or reply
    finally:
        if hasattr(chunks, "aclose"):
            await chunks.aclose()
    if reply is None:
        raise ProviderError("the stream ended without a reply", "server")
    return reply


@dataclass(slots=True)
class _ArrivingCall:
    """A call of which a part has come."""

    index: int
    name: str = ""
    id: str = ""
    parts: list[str] = field(default_factory=list)
    chars: int = 0
    shown: int = 0
    """Characters of the arguments that were handed out."""

    def take(self, delta: CallDelta) -> PartialCall | None:
        """Add a piece; return the call so far, unless it has not grown enough since it was last handed out."""
        self.name += delta.name
        self.id += delta.id
        self.parts.append(delta.arguments)
        self.chars += len(delta.arguments)
        if self.chars > MAX_EACH and self.chars - self.shown < self.shown * MIN_GROWTH:
            return None
        self.shown = self.chars
        self.parts = ["".join(self.parts)]
        return PartialCall(self.name, self.parts[0], self.index, self.id)


def _pieces(chunk: Chunk, calls: dict[int, _ArrivingCall], output: Output) -> list[StreamChunk]:
    """Return the pieces of one chunk; the last piece of a reply has `done`, and the whole answer if the reply holds one."""
    pieces = []
    if chunk.text and (chunk.reply is None or chunk.call is not None or chunk.reply.calls):
        pieces.append(StreamChunk(chunk.text))
    if chunk.call is not None:
        call = calls.setdefault(chunk.call.index, _ArrivingCall(chunk.call.index)).take(chunk.call)
        pieces += [] if call is None else [_of_call(call, output)]
    if chunk.reply is not None:
        finish = next((call for call in chunk.reply.calls if call.name == FINISH), None)
        last = StreamChunk(chunk.text or None) if not chunk.reply.calls and chunk.call is None else StreamChunk()
        if finish is not None:
            last = _of_call(PartialCall(FINISH, finish.arguments), output)
        pieces.append(replace(last, done=True))
    return pieces


def _of_call(call: PartialCall, output: Output) -> StreamChunk:
    if call.name != FINISH:
        return StreamChunk(tool_call=call)
    arguments = partial_json(call.arguments)
    return StreamChunk(partial=None if arguments is None else output.snapshot(*arguments))
