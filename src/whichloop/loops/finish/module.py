"""The declarative face: a class states model, input, output and tools; calling its instance runs the loop and gives the output.

class Research(module):
    '''Answer questions.'''

    model = "anthropic/claude-sonnet-4-5"
    max_steps = 15
    initial_input = Question
    final_output = Answer
    tools = [search]

Research()(question="Who wrote it?").name
"""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from pydantic import BaseModel

from whichloop.loops.shared.boundary import refuse_approval
from whichloop.protocol import SILENT, StopReason, Tool, Toolbox
from whichloop.protocol.cancellation import stop_tasks
from whichloop.protocol.threads import in_event_loop, run_here

from .answer import Output
from .hooks import resolve_model
from .loop import Finish
from .state import History, HookFailed, Run, Unfinished, as_tool, message_of, refuse_reserved
from .xml_output import input_xml

MAX_DEPTH = 3


class UnfinishedError(Exception):
    """The run ended without an answer, and the module is strict."""

    def __init__(self, unfinished: Unfinished) -> None:
        names = ", ".join(call.name for call in unfinished.tool_calls) or "no tool"
        super().__init__(f"ended after calling {names}, without __finish__")
        self.unfinished = unfinished


@dataclass(slots=True)
class _ModuleCall:
    """One call of one module; hooks find theirs here."""

    owner: Module
    run: Run
    parent: _ModuleCall | None
    event_loop: asyncio.AbstractEventLoop
    branches: Counter[str] = field(default_factory=Counter)
    running: set[asyncio.Task[Any]] = field(default_factory=set)
    """Tasks that branches run in."""
    is_over: bool = False

    async def branch(self, module: type[Module] | Module, inputs: Mapping[str, Any]) -> Any:
        """Run a branch that ends with the call, whether or not the hook still waits for it."""
        task = asyncio.current_task()
        assert task is not None
        if self.is_over:
            raise asyncio.CancelledError
        self.running.add(task)
        try:
            child = module() if isinstance(module, type) else module
            if self.run.scope.count("/") >= MAX_DEPTH:
                raise RuntimeError(f"branch: deeper than {MAX_DEPTH} modules")
            name = type(child).__name__
            self.branches[name] += 1
            number = f"-{self.branches[name]}" if self.branches[name] > 1 else ""
            return await child._call(inputs, self, f"{self.run.scope}/{name}{number}")
        finally:
            self.running.discard(task)

    def inherited(self) -> History:
        """Return a copy of the history without system messages, and without the step whose calls have no results yet."""
        unfinished = self.run.place_of_unanswered()
        items = [item for place, item in enumerate(self.run.history) if place != unfinished]
        return copy.deepcopy([item for item in items if message_of(item).role != "system"])

    async def end(self) -> None:
        """End the call for good: no branch begins any more, and those that still run are stopped."""
        self.is_over = True
        await stop_tasks(self.running)


_CALL: ContextVar[_ModuleCall | None] = ContextVar("whichloop_finish_call", default=None)


class Module:
    """Subclass it, state the attributes, call an instance; one instance may run many calls at once.

    `on_step(self, step)` and `on_stream(self, chunk)` are optional; a def is called on a thread of its own, an async def on the
    event loop, and is the one to write where a hook touches a queue of that loop. The options of Finish are attributes too, but for
    `typed_output`, which `final_output` stands for. Raises ValueError when a class is made with a tool named `__finish__` or an
    option out of range, TypeError for an input or output that is not a pydantic model.
    """

    model: ClassVar[Any] = None
    """A name, a dict of `model`, `num_retries` and `retry_delay`, or a Model."""
    temperature: ClassVar[float | None] = None
    max_tokens: ClassVar[int | None] = None
    max_steps: ClassVar[int | None] = None
    """None: a single turn."""
    parse_retries: ClassVar[int] = 2
    system_prompt: ClassVar[str | None] = None
    """None: the class's docstring."""
    initial_input: ClassVar[type[BaseModel] | None] = None
    final_output: ClassVar[type[BaseModel] | None] = None
    """None: a text."""
    tools: ClassVar[Sequence[Tool | Callable[..., Any]]] = ()
    strict: ClassVar[bool] = False
    """Raise UnfinishedError instead of returning Unfinished."""
    retries_consume_steps: ClassVar[bool] = True
    finish_with_tools: ClassVar[str] = "stop"
    forced_finish: ClassVar[str] = "both"
    parallel_tools: ClassVar[bool] = False
    list_tools_in_error: ClassVar[bool] = False
    tool_timeout_s: ClassVar[float | None] = None
    tool_threads: ClassVar[bool | None] = None
    tool_max_chars: ClassVar[int | None] = None

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        refuse_approval(cls)
        _config_of(cls)
        for name in ("initial_input", "final_output"):
            model_class = getattr(cls, name)
            if model_class is not None and not (isinstance(model_class, type) and issubclass(model_class, BaseModel)):
                raise TypeError(f"{cls.__name__}.{name} must be a pydantic model, not {model_class!r}")
        refuse_reserved([as_tool(item).name for item in cls.tools])

    def __call__(self, **inputs: Any) -> Any:
        """Return an instance of `final_output`, or Unfinished if a single turn ended in other tools.

        Raises what `acall` raises, and RuntimeError inside a running event loop.
        """
        if in_event_loop():
            raise RuntimeError(f"an event loop is running: write await {type(self).__name__}().acall(...)")
        return run_here(self.acall(**inputs))

    async def acall(self, **inputs: Any) -> Any:
        """Do what a plain call does, asynchronously.

        Raises pydantic's ValidationError for inputs that do not fit, ParseError, the provider's ModelError, whatever a hook raises,
        and UnfinishedError where the module is strict.
        """
        return await self._call(inputs)

    @property
    def history(self) -> History:
        """The history of the call that a hook runs in. Raises RuntimeError outside of a hook."""
        return self._current("history").run.history

    @history.setter
    def history(self, changed: History) -> None:
        self._current("history").run.history = changed

    def branch(self, child: type[Module] | Module, **inputs: Any) -> Any:
        """Run another module on a copy of this call's history. Return its result, to be awaited in an async hook.

        Raises RuntimeError outside of a hook and for branches nested too deep; what ends the child in an error is raised here.
        """
        call = self._current("branch")
        if in_event_loop():
            return call.branch(child, inputs)
        try:
            return asyncio.run_coroutine_threadsafe(call.branch(child, inputs), call.event_loop).result()
        except CancelledError:  # of concurrent.futures, which is an ordinary exception
            raise asyncio.CancelledError from None

    def _current(self, what: str) -> _ModuleCall:
        call = _CALL.get()
        while call is not None and call.owner is not self:
            call = call.parent
        if call is None:
            raise RuntimeError(f"{what} belongs to a call: use it inside of on_step or on_stream")
        return call

    async def _call(self, inputs: Mapping[str, Any], parent: _ModuleCall | None = None, scope: str = "") -> Any:
        """Run one call from its inputs to its result; a branch takes model, history and observer over from its parent."""
        config = _config_of(self)
        output = Output.of(None) if self.final_output is None else Output.of_model(self.final_output)
        history = [*([] if parent is None else parent.inherited()), {"role": "user", "content": self._input(inputs)}]
        if parent is None or self.model is not None:
            given, model = self.model, resolve_model(self.model)
        else:
            given, model = parent.run.model_given, parent.run.model
        tools, observer = Toolbox(map(as_tool, self.tools)), SILENT if parent is None else parent.run.observer
        run = config.begin(output, tools, model, history, observer)
        run.model_given, run.scope = given, scope
        call = _ModuleCall(self, run, parent, asyncio.get_running_loop())
        before = _CALL.set(call)
        try:
            stop, answer = await config.drive(run)
        except HookFailed as failure:
            raise failure.__cause__ or failure from None
        finally:
            _CALL.reset(before)
            await call.end()
        if stop not in (StopReason.UNFINISHED, StopReason.MAX_STEPS):
            return answer
        if self.strict:
            raise UnfinishedError(run.last)
        return run.last

    def _input(self, inputs: Mapping[str, Any]) -> str:
        """Return the user message. Raises TypeError for inputs that nobody declared."""
        if self.initial_input is not None:
            return input_xml(self.initial_input.model_validate(dict(inputs)))
        if inputs:
            raise TypeError(f"{type(self).__name__} declares no initial_input, and was called with {', '.join(inputs)}")
        return input_xml({})


module = Module
_OPTIONS = tuple(item.name for item in fields(Finish) if item.metadata.get("option") is not False and hasattr(Module, item.name))


def _config_of(owner: Module | type[Module]) -> Finish:
    options = {name: getattr(owner, name) for name in _OPTIONS}
    text = owner.__doc__ if owner.system_prompt is None else owner.system_prompt
    options["system_prompt"] = None if text is None else inspect.cleandoc(text)
    return Finish(**options, on_step=getattr(owner, "on_step", None), on_stream=getattr(owner, "on_stream", None))
