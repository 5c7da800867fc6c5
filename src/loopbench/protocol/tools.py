"""Tools: what a loop may call, and what it sees of the result.

A `Tool` is built from a typed function; a `Toolbox` validates a call's arguments, runs the function under a time limit and turns
whatever comes out, a value of any type or an exception, into an `Observation`. Nothing here raises for a tool's fault.

The module itself needs the standard library only; pydantic is loaded when the first schema is built.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import functools
import inspect
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

from .threads import in_thread

if TYPE_CHECKING:
    from .schema import Arguments

DEFAULT_TIME_LIMIT_S = 30.0
DEFAULT_MAX_CHARS = 20_000

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+(?=[^<>]{0,200}(?<![-=])>)")
"""A memory address as `<Thing object at 0x7f…>` has it; in prose ("fault at 0x10 -> exit") it is the tool's own finding."""


class BudgetExceeded(Exception):
    """A budget is used up: the run ends here. Every loop lets it through, and so does a tool that asks a model itself."""


class TransientError(Exception):
    """Raised by a tool whose failure may pass: the same call may work the next time. Subclasses name the reason."""


class ToolArgumentError(ValueError):
    """The arguments of a call do not fit the tool; the message says which, and what is allowed."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool, as a move states it."""

    name: str
    """The tool's name."""
    arguments: Mapping[str, Any]
    """A JSON object."""
    call_id: str = field(default="", compare=False)
    """The provider's id of a native call; no part of the move."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a model is told of a tool."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of the arguments, type "object"."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What came of a call. The error's type is kept apart, so that each design words it in its own way."""

    tool_name: str
    status: Literal["success", "error"]
    data: str
    """The result as text, or the error's message without its type."""
    error_type: str | None = None
    """Name of the exception's class; UnknownTool and InvalidArguments where the tool never ran."""
    value: Any = field(default=None, compare=False)
    """The result as returned; None for an error."""
    call_id: str = ""
    seconds: float = field(default=0.0, compare=False)
    """Wall time of the call."""
    transient: bool = field(default=False, compare=False)
    """The tool raised a TransientError."""

    @property
    def ok(self) -> bool:
        return self.status == "success"

    def as_dict(self) -> dict[str, str]:
        """`{"status", "data", "tool_name"}`, an error with its type in front."""
        data = self.data if self.error_type is None else f"{self.error_type}: {self.data}"
        return {"status": self.status, "data": data, "tool_name": self.tool_name}


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a model may call."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of the arguments, type "object"."""
    function: Callable[..., Any]
    """The function, sync or async; it gets the arguments as keywords where no `arguments` say otherwise."""
    arguments: Arguments | None = None
    """Validates and binds the arguments; None passes them on as they are (a tool known by its schema only)."""
    blocking: bool = True
    """True: a sync function runs in a thread, under the time limit. False: it is pure and quick and runs in place."""
    time_limit_s: float | None = None
    """Seconds; None takes the toolbox's limit."""

    @classmethod
    def from_function(
        cls,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        blocking: bool = True,
        time_limit_s: float | None = None,
    ) -> Tool:
        """Read name, docstring and argument types off a function, method, partial or callable object.

        Raises TypeError for what cannot be called, and where an argument's type has no JSON schema.
        """
        from .schema import Arguments  # pydantic: loaded by the first typed tool, not by an import of a loop

        if not callable(function):
            raise TypeError(f"a tool must be callable, got {type(function).__name__}")
        source = underlying(function)
        found = name or getattr(source, "__name__", None) or type(source).__name__
        text = description if description is not None else _docstring(source)
        arguments = Arguments.of(function, found)
        return cls(found, text, arguments.json_schema, function, arguments, blocking, time_limit_s)

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.description, self.parameters)

    @property
    def is_async(self) -> bool:
        target = self.function
        return inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(getattr(target, "__call__", None))  # noqa: B004


class Toolbox:
    """The tools of one run, and the only way to call them.

    Raises ValueError when two tools share a name.
    """

    def __init__(
        self,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        *,
        time_limit_s: float | None = DEFAULT_TIME_LIMIT_S,
        max_chars: int = DEFAULT_MAX_CHARS,
    ) -> None:
        """`time_limit_s`: seconds for one call, None for no limit. `max_chars`: longest text of one result."""
        made = [tool if isinstance(tool, Tool) else Tool.from_function(tool) for tool in tools]
        self._tools = {tool.name: tool for tool in made}
        if len(self._tools) != len(made):
            names = [tool.name for tool in made]
            raise ValueError(f"two tools are named {next(n for n in names if names.count(n) > 1)!r}: names must differ")
        self.time_limit_s = time_limit_s
        self.max_chars = max_chars

    def __deepcopy__(self, memo: object) -> Self:
        """The same toolbox: optimizers copy programs, and a tool must go on acting on the world it was given."""
        return self

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        """In the order given."""
        return tuple(self._tools)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self._tools.values())

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        """Run one call. `validate=False` hands the arguments to the function as they are.

        Cancellation, KeyboardInterrupt and BudgetExceeded leave; anything else that the tool does is an Observation.
        """
        started = time.perf_counter()
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            return self._failed(call, "UnknownTool", f"Tool '{call.name}' not found. Available tools: {known}", started)
        try:
            args, kwargs = self._bind(tool, call.arguments, validate)
        except ToolArgumentError as error:
            return self._failed(call, "InvalidArguments", str(error), started)
        try:
            value = await self._execute(tool, args, kwargs)
        except (asyncio.CancelledError, KeyboardInterrupt, BudgetExceeded):
            raise
        except BaseException as error:  # the boundary to foreign code: SystemExit in a tool must not end the run
            raised = _raised(error)
            seen = self._failed(call, type(raised).__name__, error_text(raised), started)
            return dataclasses.replace(seen, transient=True) if isinstance(raised, TransientError) else seen
        text = cap(render_value(value), self.max_chars)
        return Observation(call.name, "success", text, None, value, call.call_id, time.perf_counter() - started)

    async def call_all(
        self, calls: Sequence[ToolCall], *, parallel: bool = False, max_in_flight: int = 5, validate: bool = True
    ) -> tuple[Observation, ...]:
        """Run several calls, one after the other or at most `max_in_flight` at once; results in call order.

        Raises ValueError for `max_in_flight` < 1.
        """
        if max_in_flight < 1:
            raise ValueError(f"max_in_flight is {max_in_flight}: no call could ever start")
        if not parallel:
            return tuple([await self.call(call, validate=validate) for call in calls])
        slots = asyncio.Semaphore(max_in_flight)

        async def one(call: ToolCall) -> Observation:
            async with slots:
                return await self.call(call, validate=validate)

        running = [asyncio.create_task(one(call)) for call in calls]
        try:
            return tuple(await asyncio.gather(*running))
        except BaseException:  # no TaskGroup: its siblings outlive a call that cancels itself, and its errors come wrapped
            for task in running:
                if not task.cancelling():  # a second time would break off its cleaning up
                    task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            raise

    def _bind(self, tool: Tool, arguments: Mapping[str, Any], validate: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if type(arguments) is not dict and not isinstance(arguments, Mapping):
            raise ToolArgumentError(f"Tool '{tool.name}': arguments must be an object")
        try:
            own = {name: value if type(value) in _ATOMS else own_copy(value) for name, value in dict(arguments).items()}
        except Exception:  # a mapping of foreign code that cannot be read
            raise ToolArgumentError(f"Tool '{tool.name}': arguments must be an object") from None
        if tool.arguments is None:
            return (), own
        try:
            return tool.arguments.bind(own)
        except ToolArgumentError:
            if validate:
                raise
            return tool.arguments.bind_unchecked(own)

    async def _execute(self, tool: Tool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the function itself; raises what it raises, TimeoutError at the time limit."""
        limit = tool.time_limit_s if tool.time_limit_s is not None else self.time_limit_s
        if tool.blocking and not tool.is_async:
            return await _limited(in_thread(tool.function, *args, **kwargs), limit)
        value = tool.function(*args, **kwargs)
        if type(value) not in _ATOMS and inspect.isawaitable(value):
            value = await _limited(value, limit)
        return value

    def _failed(self, call: ToolCall, error_type: str, message: str, started: float) -> Observation:
        text = cap(_legible(message), self.max_chars)
        return Observation(call.name, "error", text, error_type, None, call.call_id, time.perf_counter() - started)


def own_copy(value: Any) -> Any:
    """A copy of a JSON value that others hold too: who changes what it is given must not change the move."""
    if not isinstance(value, list | dict):
        return value
    if type(value) is dict and all(type(item) in _ATOMS for item in value.values()):
        return value.copy()
    try:
        return copy.deepcopy(value)
    except Exception:  # nested too deep, or an object that cannot be copied: then it is handed over as it is
        return value


async def _limited(awaitable: Awaitable[Any], limit_s: float | None) -> Any:
    try:
        async with asyncio.timeout(limit_s) as clock:
            return await awaitable
    except TimeoutError as error:
        if clock.expired():
            raise TimeoutError(f"no result within {limit_s:g} s") from error
        raise


def underlying(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function inside any functools.partial."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _docstring(function: Callable[..., Any]) -> str:
    own = inspect.getdoc(function)
    if own is None and not inspect.isroutine(function) and not inspect.isclass(function):
        own = type(function).__call__.__doc__  # not by getdoc, which would fall back to that of `type.__call__`
    return inspect.cleandoc(own or "")


def _raised(error: BaseException) -> BaseException:
    """What the tool itself raised: a StopIteration leaves a coroutine as a RuntimeError (PEP 479)."""
    replaced = type(error) is RuntimeError and error.args == ("coroutine raised StopIteration",)
    return error.__cause__ if replaced and isinstance(error.__cause__, StopIteration) else error


def cap(text: str, max_chars: int) -> str:
    """Cut a text at `max_chars` characters and say so."""
    if len(text) <= max_chars:
        return text
    return f"{text[:max_chars]}... (truncated, {len(text)} characters in all)"


def error_text(error: BaseException) -> str:
    """An exception's message: no type, no traceback, no memory address."""
    try:
        return _legible(str(error))
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise
    except BaseException as broken:  # a user's __str__
        return f"(no message: {type(broken).__name__} in __str__)"


def render_value(value: Any) -> str:
    """Any value as text, the same in every process: str as it is, JSON where JSON can say it, else `str()`.

    Sets are sorted, memory addresses left out, lone surrogates replaced; never raises.
    """
    if value is None:
        return "None"
    try:
        if type(value) is int:
            return repr(value)
        plain = value if isinstance(value, _JSON_TYPES) else _jsonable(value)
        return _legible(plain if isinstance(plain, str) else _JSON.encode(plain))
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise
    except BaseException:  # a circular value, a key that JSON lacks, whatever a user's method does
        return _text(value, _notation)


def _jsonable(value: Any) -> Any:
    """What stands for a value in JSON; `str()` where nothing else does."""
    if isinstance(value, set | frozenset):  # each item rendered once and read back: sets nested in sets stay cheap
        return [json.loads(text) for text in sorted(_legible(_JSON.encode(item)) for item in value)]
    try:
        if isinstance(value, type):
            return _text(value)
        if callable(getattr(value, "model_dump", None)):
            return _in_order(value.model_dump(mode="json"), value)
        if dataclasses.is_dataclass(value):
            return {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
        if isinstance(value, Mapping):
            return dict(value)
    except Exception:  # half built, or a user's method
        return _text(value)
    return _text(value)


def _in_order(plain: Any, source: Any) -> Any:
    """`plain`, which pydantic made of `source`, with its sets sorted: there they stand in this process's own order."""
    if isinstance(plain, dict):
        same = isinstance(source, Mapping) and len(source) == len(plain)
        parts = source.values() if same else [getattr(source, key, None) for key in plain]
        return {key: _in_order(item, part) for (key, item), part in zip(plain.items(), parts, strict=True)}
    if isinstance(plain, list) and isinstance(source, list | tuple | set | frozenset) and len(source) == len(plain):
        items = [_in_order(item, part) for item, part in zip(plain, source, strict=True)]
        return sorted(items, key=_JSON.encode) if isinstance(source, set | frozenset) else items
    return plain


_ATOMS = frozenset({str, int, float, bool, type(None)})
"""Values of these very types hold nothing, and wait for nothing."""
_JSON_TYPES = (str, int, float, dict, list, tuple)
_JSON = json.JSONEncoder(ensure_ascii=False, default=_jsonable)


def _notation(value: Any, above: tuple[int, ...] = ()) -> str:
    """Like `repr`, with sets sorted and what cannot be shown named by its type."""
    brackets = next((pair for kind, pair in _BRACKETS if isinstance(value, kind)), None)
    if id(value) in above:
        return "...".join(brackets or ("", ""))
    inside = (*above, id(value))
    if brackets is None or not value:
        plain = None if value is None or isinstance(value, _JSON_TYPES) else _jsonable(value)
        return _notation(plain, inside) if isinstance(plain, dict | list) else _text(value, repr)
    if isinstance(value, Mapping):
        parts = [f"{_notation(key, inside)}: {_notation(item, inside)}" for key, item in value.items()]
    else:
        parts = [_notation(item, inside) for item in value]
    if isinstance(value, set | frozenset):
        parts.sort()
    single = "," if isinstance(value, tuple) and len(parts) == 1 else ""
    return f"{brackets[0]}{', '.join(parts)}{single}{brackets[1]}"


_BRACKETS = ((Mapping, ("{", "}")), (list, ("[", "]")), (tuple, ("(", ")")), ((set, frozenset), ("{", "}")))


def _text(value: Any, form: Callable[[Any], str] = str) -> str:
    try:
        return _legible(form(value))
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise
    except BaseException:  # a user's __str__, or one nested too deep
        return f"<{type(value).__name__}>"


def _legible(text: str) -> str:
    text = str.__str__(text)  # of a subclass, an enum's member say, its characters only
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    return _ADDRESS.sub("", text) if " at 0x" in text else text
