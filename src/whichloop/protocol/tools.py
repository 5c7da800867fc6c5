"""Tools: what a loop may call, and what it sees of the result.

A `Tool` is built from a typed function; a `Toolbox` validates a call's arguments, runs the function under a time limit and turns
the result, a value of any type or an exception, into an `Observation`. Nothing here raises for a tool's fault.

The module itself needs the standard library only; `Tool.from_function` loads pydantic.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import re
import textwrap
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Self, TypeVar
from uuid import uuid4

from .cancellation import is_being_cancelled, stop_tasks
from .redact import logger_of
from .threads import call_here, caller_waits, in_thread, is_async_function, is_generator_function
from .tool_calls import CURRENT, NO_RUN, Observation, StopRun, ToolCall, ToolListing, ToolSpec, TransientError, current_of
from .values import ATOMS, ToolArgumentError, cap, error_text, legible, own_copy, render_value, underlying

if TYPE_CHECKING:
    from .schema import Arguments


DEFAULT_TIME_LIMIT_S = 30.0
"""Seconds that a comparison grants one call; a toolbox of a product's own has no limit unless it is given one."""
DEFAULT_MAX_CHARS = 20_000
"""Characters of one result that a model reads in a comparison."""


Limit = TypeVar("Limit", int, float)

logger = logger_of("whichloop.loops.tools")
"""Beside the loops' own loggers, so that one setting is for all that a product hears of a loop."""

_NAME = re.compile(r"[\w.:/-]+")  # wider than any provider's rule, for these differ; none takes white space or `<`


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a model may call."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of the arguments, type "object"."""
    function: Callable[..., Any]
    """The function, sync or async; it gets the arguments as keywords unless `arguments` binds them otherwise."""
    arguments: Arguments | None = None
    """Validates and binds the arguments; None passes them on unchanged (a tool known by its schema only)."""
    blocking: bool = True
    """A sync function may take its time: see `Toolbox`. False if it is pure and quick, and may run in place."""
    time_limit_s: float | None = None
    """Seconds; None for the toolbox's limit."""
    max_chars: int | None = None
    """Characters that a model reads of one result; None for the toolbox's limit."""
    read_only: bool = False
    """The tool changes nothing, as MCP's `readOnlyHint` says it; a tool that does not say so may write."""
    spec: ToolSpec = field(init=False, compare=False, repr=False)
    """What a model reads of the tool."""

    def __post_init__(self) -> None:
        _check_limits(f"tool {self.name!r}", self.time_limit_s, self.max_chars)
        if is_generator_function(self.function):
            raise TypeError(f"tool {self.name!r} is a generator function, which a call only begins: return a list or a text")
        object.__setattr__(self, "spec", ToolSpec(self.name, self.description, self.parameters))

    @classmethod
    def from_function(
        cls,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        blocking: bool = True,
        time_limit_s: float | None = None,
        max_chars: int | None = None,
        read_only: bool = False,
    ) -> Tool:
        """Make a tool from the name, docstring and argument types of a function, method, partial or callable object.

        What the docstring says of an argument, under `Args:` or behind `:param NAME:`, is the description of that argument and no
        part of the tool's. `description`: in the place of the docstring, which is not read then.

        Raises TypeError for what cannot be called, for a generator function, and if an argument's type has no JSON schema;
        ValueError for a name that no provider takes, such as that of a lambda.
        """
        from .schema import Arguments  # noqa: PLC0415  # loads pydantic: the first typed tool may, the import of a loop must not

        if not callable(function):
            raise TypeError(f"a tool must be callable, got {type(function).__name__}")
        source = underlying(function)
        tool_name = name or getattr(source, "__name__", None) or type(source).__name__
        if not _NAME.fullmatch(tool_name):
            raise ValueError(
                f"tool {tool_name!r}: no provider takes this name; Tool.from_function(function, name='price') gives one"
            )
        arguments = Arguments.of(function, tool_name)
        text = description if description is not None else _described(_docstring(source), arguments.json_schema["properties"])
        return cls(tool_name, text, arguments.json_schema, function, arguments, blocking, time_limit_s, max_chars, read_only)

    @property
    def is_async(self) -> bool:
        return is_async_function(self.function)


class Toolbox:
    """The tools of one run, and the only way to call them.

    Raises ValueError when two tools share a name.
    """

    def __init__(
        self,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        *,
        time_limit_s: float | None = None,
        max_chars: int | None = None,
        threads: bool | None = None,
        check_arguments: bool = False,
    ) -> None:
        """`time_limit_s`: seconds for one call. `max_chars`: characters that a model reads of one result. None: no limit.

        A tool's own limits come before these. `threads`: run synchronous functions on threads of their own (True), or on that of
        the caller, one at a time (False); None: on the caller's where it waits for a loop, as in a loop's `run_sync`, else on their
        own. A function with a time limit runs on a thread of its own in any case. `check_arguments`: arguments of wrong types are
        refused in every design, also in those that hand them over as they are.

        Raises TypeError for what is no list of tools or functions, ValueError for a limit that lets nothing through.
        """
        if not isinstance(tools, Iterable):
            raise TypeError(f"tools: give a list of tools or functions, not {type(tools).__name__}")
        listed = [tool if isinstance(tool, Tool) else Tool.from_function(tool) for tool in tools]
        self._tools = {tool.name: tool for tool in listed}
        if len(self._tools) != len(listed):
            names = [tool.name for tool in listed]
            raise ValueError(f"two tools are named {next(n for n in names if names.count(n) > 1)!r}: names must differ")
        _check_limits("toolbox", time_limit_s, max_chars)
        self.time_limit_s = time_limit_s
        self.max_chars = max_chars
        self.threads = threads
        self.check_arguments = check_arguments
        self.run_id = ""
        """Stands for the run of calls that no run has named: of a toolbox that is used by itself, or in a comparison's trial."""
        self._numbers = count(1)
        self._specs: tuple[ToolSpec, ...] = ()

    def __deepcopy__(self, memo: object) -> Self:
        """Return the same toolbox: optimizers copy programs, and a tool must go on acting on the same world."""
        return self

    def limited(self, time_limit_s: float | None, max_chars: int | None, threads: bool | None = None) -> Toolbox:
        """Return the same tools under these limits, where the toolbox's own are not tighter; None adds no limit.

        `threads`: for a toolbox that leaves it open.
        """
        if time_limit_s is None and max_chars is None and (threads is None or self.threads is not None):
            return self
        return LimitedToolbox(
            self,
            _tighter(self.time_limit_s, time_limit_s),
            _tighter(self.max_chars, max_chars),
            threads if self.threads is None else self.threads,
        )

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
        return tuple(self._tools)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What a model reads of the tools; the very same tuple as long as the tools stay, so that it is counted only once."""
        specs = tuple([tool.spec for tool in self._tools.values()])
        if specs != self._specs:
            self._specs = specs
        return self._specs

    def listed(self) -> ToolListing:
        """Return the tools as a server of them lists them now; a fault may change that within a trial, `specs` never."""
        return ToolListing(self.specs)

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        """Run one call. `validate=False` passes the arguments to the function unchanged.

        The cancellation of the run, KeyboardInterrupt and StopRun, such as BudgetExceeded, pass through; anything else becomes an
        Observation, the CancelledError of a task of the tool's own, too.
        """
        started = time.perf_counter()
        limits = self.in_force
        tool = self._tools.get(call.name)
        if tool is None:
            available = ", ".join(self._tools) or "none"
            return limits._failed(call, "UnknownTool", f"Tool '{call.name}' not found. Available tools: {available}", started)
        try:
            args, kwargs = self._bind(tool, call.arguments, validate or self.check_arguments)
        except ToolArgumentError as error:
            return limits._failed(call, "InvalidArguments", str(error), started)
        before = _LIMITS.set(None)  # a tool may call tools itself
        self.run_id = self.run_id or uuid4().hex
        call_before = CURRENT.set(current_of(call, self.run_id, self._numbers))
        try:
            value = await limits._execute(tool, args, kwargs)
        except (KeyboardInterrupt, StopRun):
            raise
        except BaseException as error:  # the boundary to foreign code: SystemExit in a tool must not end the run
            if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
                raise
            raised = _raised(error)
            logger.info("tool %s raised %s", call.name, type(raised).__name__, exc_info=raised)
            seen = limits._failed(call, type(raised).__name__, error_text(raised), started)
            return dataclasses.replace(seen, transient=isinstance(raised, TransientError), raised=raised)
        finally:
            CURRENT.reset(call_before)
            _LIMITS.reset(before)
        whole = render_value(value)
        most = tool.max_chars if tool.max_chars is not None else limits.max_chars
        text = cap(whole, most)
        max_chars = most if text is not whole else None
        seconds = time.perf_counter() - started
        return Observation(call.name, "success", text, None, value, call.call_id, seconds, max_chars=max_chars)

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
        own_threads = self.limited(None, None, threads=True)

        async def one(call: ToolCall) -> Observation:
            async with slots:
                return await own_threads.call(call, validate=validate)

        running = [asyncio.create_task(one(call)) for call in calls]
        try:
            return tuple(await asyncio.gather(*running))
        except BaseException:  # not a TaskGroup: siblings would outlive a call that cancels itself, and errors would come wrapped
            await stop_tasks(running)
            raise

    def _bind(self, tool: Tool, arguments: Mapping[str, Any], validate: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if not isinstance(arguments, Mapping):
            raise ToolArgumentError(f"Tool '{tool.name}': arguments must be an object")
        copies = {name: own_copy(value) for name, value in arguments.items()}
        if tool.arguments is None:
            return (), copies
        try:
            return tool.arguments.bind(copies)
        except ToolArgumentError:
            if validate:
                raise
            return tool.arguments.bind_unchecked(copies)

    async def _execute(self, tool: Tool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the function itself; raises what it raises, TimeoutError at the time limit."""
        if not tool.blocking or tool.is_async:
            value = tool.function(*args, **kwargs)
        elif self.in_thread(tool):
            return await _limited(in_thread(tool.function, *args, **kwargs), self.time_limit_of(tool))
        else:
            value = call_here(tool.function, *args, **kwargs)
        if type(value) not in ATOMS and inspect.isawaitable(value):
            value = await _limited(value, self.time_limit_of(tool))
        return value

    @property
    def in_force(self) -> Toolbox:
        """The toolbox whose limits hold for the call that is being made: this one, or one around it."""
        around = _LIMITS.get()
        return self if around is None else around

    def time_limit_of(self, tool: Tool) -> float | None:
        """Return the seconds that a call of a tool may take; None if there is no limit."""
        return tool.time_limit_s if tool.time_limit_s is not None else self.time_limit_s

    def in_thread(self, tool: Tool) -> bool:
        """Return whether a call of a tool runs on a thread of its own, which nothing can stop."""
        if not tool.blocking or tool.is_async:
            return False
        return self.time_limit_of(tool) is not None or (not caller_waits() if self.threads is None else self.threads)

    def _failed(self, call: ToolCall, error_type: str, message: str, started: float) -> Observation:
        text = cap(legible(message), self.max_chars)
        return Observation(call.name, "error", text, error_type, None, call.call_id, time.perf_counter() - started)


class ToolboxAround(Toolbox):
    """A toolbox with the tools, the limits and the list of another, which runs the calls.

    A subclass watches or changes calls, or offers other tools than the toolbox within: `listed` then shows those.
    """

    def __init__(self, within: Toolbox) -> None:
        super().__init__(
            (),
            time_limit_s=within.time_limit_s,
            max_chars=within.max_chars,
            threads=within.threads,
            check_arguments=within.check_arguments,
        )
        self.within = within
        self._tools = within._tools  # not a copy: what the toolbox within offers later is offered here, too

    def listed(self) -> ToolListing:
        """Return what the toolbox within lists, without the tools that are not offered here, and with those offered only here."""
        listing = self.within.listed()
        if self._tools is self.within._tools:
            return listing
        own = [tool.spec for tool in self if tool is not self.within.get(tool.name)]
        hidden = {tool.name for tool in self.within if tool.name not in self} | {spec.name for spec in own}
        return ToolListing((*(spec for spec in listing.tools if spec.name not in hidden), *own), listing.changes)

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        return await self.within.call(call, validate=validate)


class LimitedToolbox(ToolboxAround):
    """A toolbox under other limits: each call goes to the toolbox within, which may watch or change it as ever."""

    def __init__(self, within: Toolbox, time_limit_s: float | None, max_chars: int | None, threads: bool | None) -> None:
        """The limits, as of a Toolbox, replace those of the toolbox within."""
        super().__init__(within)
        _check_limits("toolbox", time_limit_s, max_chars)
        self.time_limit_s = time_limit_s
        self.max_chars = max_chars
        self.threads = threads

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        around = _LIMITS.get()  # made of these limits and tighter ones: they hold
        before = _LIMITS.set(self if around is None else around)
        try:
            return await self.within.call(call, validate=validate)
        finally:
            _LIMITS.reset(before)


_LIMITS: ContextVar[LimitedToolbox | None] = ContextVar("whichloop_tool_limits", default=None)
"""The limits of the call that is being made, where they are not those of the toolbox that makes it."""


def _check_limits(owner: str, time_limit_s: float | None, max_chars: int | None) -> None:
    if time_limit_s is not None and not time_limit_s > 0:
        raise ValueError(f"{owner}: time_limit_s must be more than 0 s, or None, not {time_limit_s!r}")
    if max_chars is not None and not max_chars >= 0:
        raise ValueError(f"{owner}: max_chars must be 0 or more, or None, not {max_chars!r}")


def _tighter(first: Limit | None, second: Limit | None) -> Limit | None:
    return min((limit for limit in (first, second) if limit is not None), default=None)


def bounded_toolbox(tools: Iterable[Tool], time_limit_s: float | None = DEFAULT_TIME_LIMIT_S) -> Toolbox:
    """Return a toolbox under the limits of a comparison, for whoever runs a suite's tools outside of a trial."""
    toolbox = Toolbox(tools, time_limit_s=time_limit_s, max_chars=DEFAULT_MAX_CHARS, threads=True)
    toolbox.run_id = NO_RUN  # a tool that gives its call's id for a result gives the same one each time
    return toolbox


async def _limited(awaitable: Awaitable[Any], limit_s: float | None) -> Any:
    try:
        async with asyncio.timeout(limit_s) as clock:
            return await awaitable
    except TimeoutError as error:
        if clock.expired():
            raise TimeoutError(f"no result within {limit_s:g} s") from error
        raise


_SECTION = re.compile(r"^(?:Args|Arguments):[ \t]*\n((?:[ \t]+.*(?:\n|\Z)|\n(?=[ \t]))+)\n?", re.MULTILINE)
_IN_SECTION = re.compile(r"^\*{0,2}(\w+)[ \t]*(?:\(.*?\))?:[ \t]*(.*(?:\n(?:[ \t].*)?)*)", re.MULTILINE)
_PARAM = re.compile(r"^:param (?:[^:\n]* )?\*{0,2}(\w+):[ \t]*(.*(?:\n[ \t]+.*)*)(?:\n|\Z)", re.MULTILINE)


def _described(docstring: str, properties: Mapping[str, Any]) -> str:
    """Put what a docstring says of arguments into their schemas, beside no description of their own; return the rest of it."""
    section = _SECTION.search(docstring)
    within = textwrap.dedent(section[1]) if section else ""
    entries = _IN_SECTION.findall(within) if section else _PARAM.findall(docstring)
    for name, text in entries:
        if name in properties:
            properties[name].setdefault("description", " ".join(text.split()))
    if not any(name in properties for name, _ in entries):
        return docstring
    if not section:
        return _PARAM.sub(lambda entry: "" if entry[1] in properties else entry[0], docstring).strip()
    is_placed = not _IN_SECTION.sub("", within).strip() and all(name in properties for name, _ in entries)
    return _SECTION.sub("", docstring).strip() if is_placed else docstring  # what says more than the schema can hold stays


def _docstring(function: Callable[..., Any]) -> str:
    own = inspect.getdoc(function)
    if own is None and not inspect.isroutine(function) and not inspect.isclass(function):
        own = type(function).__call__.__doc__  # not by getdoc, which would fall back to that of `type.__call__`
    return inspect.cleandoc(own or "")


def _raised(error: BaseException) -> BaseException:
    """Return what the tool itself raised: a StopIteration leaves a coroutine as a RuntimeError (PEP 479)."""
    replaced = type(error) is RuntimeError and error.args == ("coroutine raised StopIteration",)
    return error.__cause__ if replaced and isinstance(error.__cause__, StopIteration) else error
