"""What hooks get and give: a step with its calls and results, the pieces of a streamed reply, the answer as far as it is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, Field, TypeAdapter, create_model
from pydantic_core import from_json

from whichloop.loops.provider_retry import RetryingModel
from whichloop.protocol import SILENT, CallDelta, Chunk, Model, ModelError, Reply, StopRun, Tool, ToolCall
from whichloop.protocol.model import whole_reply
from whichloop.protocol.threads import in_thread, is_async_function

from .answer import FINISH, Output, parameters_of
from .state import History, HookFailed, Run, ToolResult

T = TypeVar("T", bound=BaseModel)


class ParseError(Exception):
    """No valid `__finish__` within the retries."""


async def call_hook(hook: Callable[[Any], Any], argument: Any) -> Any:
    """Return what the hook returns. Raises HookFailed, except for the errors that may end a branch inside it (row S3-17)."""
    try:
        return await (hook(argument) if is_async_function(hook) else in_thread(hook, argument))
    except (StopRun, ParseError, ModelError):
        raise
    except Exception as error:
        raise HookFailed from error


def resolve_model(given: Any) -> Model:
    """Return a Model: one that is given, a name (`provider/model`) through DSPy, or a dict.

    The dict holds `model`, `num_retries`, `retry_delay` and settings. Raises ValueError for anything else.
    """
    if isinstance(given, Model):
        return given
    settings: dict[str, Any] = {"model": given} if isinstance(given, str) else dict(given) if isinstance(given, Mapping) else {}
    model, retries, delay = settings.pop("model", None), settings.pop("num_retries", 0), settings.pop("retry_delay", 0.0)
    if isinstance(model, str):
        from whichloop.dspy_seam import model_named  # noqa: PLC0415  # imports DSPy, which takes a second: only a model by name needs it

        model = model_named(model, settings)
    if not isinstance(model, Model) or retries < 0 or delay < 0:
        raise ValueError(f"model: a Model, a name, or a dict with 'model' and num_retries and retry_delay from 0; got {given!r}")
    return RetryingModel(model, retries + 1, delay, SILENT) if retries else model


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
    _run: Run = field(repr=False)
    finished: bool = False
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


# --- streams ---


@dataclass(frozen=True, slots=True)
class StreamChunk:
    """A piece of a streamed reply, for `on_stream`."""

    content: str | None = None
    """A piece of the text; None on chunks of calls."""
    partial: Any = None
    """The answer as far as it is known, while `__finish__` is being written: Partial[T], or a dict under a JSON schema."""
    tool_call: CallDelta | None = None
    done: bool = False
    """True for the last chunk of a model call."""


MAX_EACH = 20_000
"""Characters of a call's arguments up to which every piece is handed out."""
MIN_GROWTH = 1 / 64
"""Share by which longer arguments have to grow before they are read again: otherwise the time would grow with their square."""


async def streamed(chunks: AsyncIterator[Chunk], output: Output, hook: Callable[[StreamChunk], Any]) -> Reply:
    """Return the whole reply after handing out its pieces. Raises ModelError and HookFailed; the stream is closed then."""
    calls: dict[int, CallDelta] = {}
    shown = Counter[int]()
    """Characters of each call's arguments that were handed out."""

    async def handed_out() -> AsyncGenerator[Chunk, None]:
        async with aclosing(cast(AsyncGenerator[Chunk, None], chunks)):
            async for chunk in chunks:
                for piece in _pieces(chunk, calls, shown, output):
                    await call_hook(hook, piece)
                yield chunk

    return await whole_reply(handed_out())


def _pieces(chunk: Chunk, calls: dict[int, CallDelta], shown: Counter[int], output: Output) -> list[StreamChunk]:
    """Return the pieces of one chunk; the last piece of a reply has `done`, and the whole answer if the reply holds one."""
    pieces = [StreamChunk(chunk.text)] if chunk.text else []
    if (new := chunk.call) is not None:
        so_far = calls.get(new.index, CallDelta(new.index))
        call = CallDelta(new.index, so_far.id + new.id, so_far.name + new.name, so_far.arguments + new.arguments)
        calls[new.index] = call
        chars, before = len(call.arguments), shown[new.index]
        if chars <= MAX_EACH or chars - before >= before * MIN_GROWTH:
            shown[new.index] = chars
            pieces.append(_of_call(call, output))
    if chunk.reply is not None:
        finish = next((call for call in chunk.reply.calls if call.name == FINISH), None)
        if finish is not None:
            pieces.append(_of_call(CallDelta(0, "", FINISH, finish.arguments), output))
        elif not pieces or new is not None or chunk.reply.calls:
            pieces.append(StreamChunk())
        pieces[-1] = replace(pieces[-1], done=True)
    return pieces


def _of_call(call: CallDelta, output: Output) -> StreamChunk:
    return StreamChunk(partial=so_far(call.arguments, output)) if call.name == FINISH else StreamChunk(tool_call=call)


def so_far(text: str, output: Output) -> Any:
    """Return what is known of an answer from arguments that are still being written; None if that is nothing yet."""
    arguments = partial_json(text)
    if arguments is None:
        return None
    return arguments[0] if output.model is None else _partial_of(output.model)._read(*arguments)


def partial_json(text: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Read an object whose text may break off anywhere: with the string that is being written, and without it.

    A number counts only once it cannot go on. Return None if the text is not an object.
    """
    try:
        so_far, complete = (from_json(text, allow_partial=mode, allow_inf_nan=False) for mode in ("trailing-strings", True))
        if so_far == complete:  # it does not end within a string
            so_far = complete = from_json(text.rstrip("0123456789.eE+-"), allow_partial=True, allow_inf_nan=False)
    except ValueError:
        return None
    return (so_far, complete) if isinstance(so_far, dict) and isinstance(complete, dict) else None


# --- Partial[T] ---


class Partial(Generic[T]):
    """`Partial[T]` is T with every field Optional, at every depth; a field that has not come yet is None."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __class_getitem__(cls, model: Any) -> Any:
        """Return the class for a pydantic model. Raises TypeError for anything else."""
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            raise TypeError(f"Partial[T]: T must be a pydantic model, got {model!r}")
        return _partial_of(model)


class PartialModel(BaseModel):
    """Base of all `Partial[T]`. Only what fits the field's type is taken: nothing here raises for what is still missing."""

    # Underscores: a user's field cannot have such a name.
    _adapters: ClassVar[Mapping[str, tuple[str, TypeAdapter[Any]]]] = {}
    """Argument → the field's name and type."""

    @classmethod
    def _read(cls, so_far: Mapping[str, Any], complete: Mapping[str, Any]) -> PartialModel:
        """Return what is known, from an object with the string that is being written and the same without it.

        A value that may still grow must keep its form: half a date is not a date, half a text is a text.
        """
        values: dict[str, Any] = {}
        for key, (name, adapter) in cls._adapters.items():
            for source in [source for source in (complete, so_far) if key in source]:
                with suppress(Exception):  # a type of the user's may raise anything
                    value = adapter.validate_python(source[key])
                    written = adapter.dump_python(value, by_alias=True, exclude_unset=True, warnings=False)
                    if source is complete or written == source[key]:
                        values[name] = value
        return cls.model_construct(**values)


@lru_cache(maxsize=256)
def _partial_of(model: type[BaseModel], above: tuple[type[BaseModel], ...] = ()) -> type[PartialModel]:
    fields: dict[str, Any] = {}
    adapters: dict[str, tuple[str, TypeAdapter[Any]]] = {}
    for (name, info), key in zip(model.model_fields.items(), parameters_of(model)["properties"], strict=True):
        annotation = _optional_inside(info.annotation, (*above, model))
        fields[name] = (annotation | None, Field(None, alias=key))
        adapters[key] = name, TypeAdapter(annotation)
    partial_class = create_model(f"Partial[{model.__name__}]", __base__=PartialModel, **fields)
    partial_class._adapters = adapters
    return partial_class


def _optional_inside(annotation: Any, above: tuple[type[BaseModel], ...]) -> Any:
    """Return an annotation with the models in it made partial; a model that holds itself becomes a plain dict there."""
    if isinstance(annotation, type) and get_origin(annotation) is None and issubclass(annotation, BaseModel):
        return dict[str, Any] if annotation in above else _partial_of(annotation, above)
    origin, arguments = get_origin(annotation), get_args(annotation)
    inner = tuple(_optional_inside(item, above) for item in arguments)
    if origin in (Union, UnionType):
        return Union[inner]  # noqa: UP007
    return origin[inner] if origin in (list, tuple, dict, set, frozenset) else annotation
