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
import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from pydantic import BaseModel

from whichloop.loops.shared.boundary import refuse_checkpoint
from whichloop.protocol import SILENT, StopReason, Tool, Toolbox
from whichloop.protocol.cancellation import stop_tasks
from whichloop.protocol.threads import in_event_loop, run_here

from .loop import Finish
from .output import JsonOutput, ModelOutput, as_tool, refuse_reserved
from .run import History, Run, Unfinished, entry, index_of_message, is_system
from .step import HookFailed, resolve_model
from .xml_output import input_xml, model_xml

MAX_DEPTH = 3
"""How deep branches may be nested."""


class UnfinishedError(Exception):
    """The run ended without an answer, and the module is strict."""

    def __init__(self, unfinished: Unfinished) -> None:
        names = ", ".join(call.name for call in unfinished.tool_calls) or "no tool"
        super().__init__(f"ended after calling {names}, without __finish__")
        self.unfinished = unfinished


def _refuse_misspelt(cls: type[Module]) -> None:
    """Raises TypeError for an attribute that is nearly an option: without it `max_step = 5` would make a single turn.

    The plural or singular of a single word, such as `models`, is an attribute of the subclass's own.
    """
    known_names = [name for name in vars(Module) if not name.startswith("_")] + ["on_step", "on_stream"]
    for name in vars(cls):
        near = difflib.get_close_matches(name, known_names, 1, cutoff=0.85)
        if near and name not in known_names and not _is_other_number(name, near[0]):
            raise TypeError(f"{cls.__name__}.{name}: did you mean {near[0]!r}?")


def _is_other_number(name: str, option: str) -> bool:
    """Return whether two single words are the plural and the singular of one noun."""
    shorter, longer = sorted((name, option), key=len)
    return "_" not in name and longer in (f"{shorter}s", f"{shorter}es")


@dataclass(slots=True)
class _ModuleCall:
    """One call of one module; hooks find theirs here."""

    owner: Module
    run: Run
    parent: _ModuleCall | None
    depth: int
    event_loop: asyncio.AbstractEventLoop
    branches: dict[str, int] = field(default_factory=dict)
    """Branches begun, by name."""
    running: set[asyncio.Task[Any]] = field(default_factory=set)
    """Tasks that branches run in."""
    is_over: bool = False


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
    """Seconds for one call of a tool that has no limit of its own; None: no limit."""
    tool_threads: ClassVar[bool | None] = None
    """Run sync tools on threads of their own; None: only with `parallel_tools`, a `tool_timeout_s`, or in `acall`."""
    tool_max_chars: ClassVar[int | None] = None
    """Characters that the model reads of one result; None: all of it."""

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        _refuse_misspelt(cls)
        refuse_checkpoint(cls, "Finish(max_steps=…)")
        _config_of(cls, None, None)
        for name in ("initial_input", "final_output"):
            model_class = getattr(cls, name)
            if model_class is not None and not (isinstance(model_class, type) and issubclass(model_class, BaseModel)):
                raise TypeError(f"{cls.__name__}.{name} must be a pydantic model, not {model_class!r}")
        refuse_reserved(_toolbox_of(cls))

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
            return _watched(call, child, inputs)
        if call.is_over:  # cancelled while the hook was at work: its event loop may be closed
            raise asyncio.CancelledError
        running = asyncio.run_coroutine_threadsafe(_watched(call, child, inputs), call.event_loop)
        try:
            return running.result()
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
        if parent is None or self.model is not None:
            model_given, model = self.model, resolve_model(self.model)
        else:
            model_given, model = parent.run.model_given, parent.run.model
        inherited, depth, observer = [], 0, SILENT
        if parent is not None:
            inherited, depth, observer = _inherited(parent.run), parent.depth + 1, parent.run.observer
        config = _config_of(self, getattr(self, "on_step", None), getattr(self, "on_stream", None))
        input_text = _shown_input(type(self).__name__, self.initial_input, inputs)
        output = JsonOutput.of(None) if self.final_output is None else ModelOutput.of(self.final_output)
        run = config.begin(output, _toolbox_of(self), model, [*inherited, entry("user", input_text)], observer)
        run.model_given, run.scope = model_given, scope
        call = _ModuleCall(self, run, parent, depth, asyncio.get_running_loop())
        before = _CALL.set(call)
        try:
            ending = await config.drive(run)
        except HookFailed as failure:
            raise failure.error from None
        finally:
            _CALL.reset(before)
            await _stop_branches(call)
        if ending.stop in (StopReason.UNFINISHED, StopReason.MAX_STEPS) and ending.unfinished is not None:
            if self.strict:
                raise UnfinishedError(ending.unfinished)
            return ending.unfinished
        return ending.value


module = Module


# --- from attributes to the loop ---

_OPTIONS = tuple(item.name for item in fields(Finish) if item.metadata.get("option") is not False and hasattr(Module, item.name))


def _config_of(owner: Any, on_step: Any, on_stream: Any) -> Finish:
    options = {name: getattr(owner, name) for name in _OPTIONS}
    if options["system_prompt"] is None:
        cls = owner if isinstance(owner, type) else type(owner)
        options["system_prompt"] = cls.__doc__
    if options["system_prompt"] is not None:
        options["system_prompt"] = inspect.cleandoc(options["system_prompt"])
    return Finish(**options, on_step=on_step, on_stream=on_stream)


def _toolbox_of(owner: Any) -> Toolbox:
    return Toolbox([as_tool(item) for item in owner.tools])


def _shown_input(name: str, initial_input: type[BaseModel] | None, inputs: Mapping[str, Any]) -> str:
    """Return the user message. Raises TypeError for inputs that nobody declared."""
    if initial_input is not None:
        return model_xml(initial_input.model_validate(dict(inputs)))
    if inputs:
        raise TypeError(f"{name} declares no initial_input, and was called with {', '.join(inputs)}")
    return input_xml({})


# --- branches ---


async def _branch(call: _ModuleCall, module: type[Module] | Module, inputs: Mapping[str, Any]) -> Any:
    child = module() if isinstance(module, type) else module
    if call.depth >= MAX_DEPTH:
        raise RuntimeError(f"branch: deeper than {MAX_DEPTH} modules")
    name = type(child).__name__
    number = call.branches[name] = call.branches.get(name, 0) + 1
    scope = f"{call.run.scope}/{name}" + (f"-{number}" if number > 1 else "")
    return await child._call(inputs, call, scope)


def _inherited(run: Run) -> History:
    """Return a copy of the history without system messages, and without the step whose calls have no results yet."""
    unfinished = index_of_message(run.history, run.unanswered) if run.unanswered is not None else None
    finished_items = (item for index, item in enumerate(run.history) if index != unfinished)
    return copy.deepcopy([item for item in finished_items if not is_system(item)])


async def _watched(call: _ModuleCall, module: type[Module] | Module, inputs: Mapping[str, Any]) -> Any:
    """Run a branch that ends with the call, whether or not the hook still waits for it."""
    if call.is_over:
        raise asyncio.CancelledError
    task = asyncio.current_task()
    assert task is not None
    call.running.add(task)
    try:
        return await _branch(call, module, inputs)
    finally:
        call.running.discard(task)


async def _stop_branches(call: _ModuleCall) -> None:
    """End a call for good: no branch begins any more, and those that still run are stopped."""
    call.is_over = True
    await stop_tasks(task for task in call.running if task.get_loop() is call.event_loop)
