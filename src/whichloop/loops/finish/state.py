"""The state of one run: the conversation, which hooks may change, the tools on offer, and the results of calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, overload

from whichloop.protocol.chat import Message, Reply
from whichloop.protocol.events import Observer
from whichloop.protocol.model import Model
from whichloop.protocol.redact import logger_of
from whichloop.protocol.tool_calls import Observation, ToolCall
from whichloop.protocol.tools import Tool, Toolbox, ToolboxAround
from whichloop.protocol.values import render_value
from whichloop.protocol.wire import Predictor

from .answer import FINISH, Output

logger = logger_of(__name__)

History = list[Any]
"""Messages as dicts in OpenAI's chat format."""
REMOVED = "(removed)"
"""The text in the place of a result that was taken out of the history while its call stayed."""
F = TypeVar("F", bound=Callable[..., Any])
_MARK = "__whichloop_tool__"


class _Said(dict[str, Any]):
    """A message in the history, with what the reply's provider wants back."""

    native: Any = None


class HookFailed(Exception):
    """`on_step` or `on_stream` raised what is the cause."""


@dataclass(slots=True)
class ToolResult:
    """The result of one call."""

    name: str
    output: Any
    """The tool's own object, or an error's text; the model sees what is here after `on_step`."""
    id: str = ""
    """Id of the call that it answers."""
    error: str | None = None
    """Name of the exception's class; None if the tool gave a result."""
    shown: str | None = field(default=None, repr=False)
    """What the model sees of the output as the tool gave it: it may be cut."""
    was_executed: bool = field(default=False, repr=False)
    """Whether the tool ran, whatever came of it."""

    @property
    def text(self) -> str:
        """The text that the model sees: text unchanged, what JSON can say as JSON, else `str()` (row S3-40)."""
        if self.shown is not None:
            return self.shown
        return "null" if self.output is None else render_value(self.output)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The last step of a run that ended without an answer: its calls and their results."""

    tool_calls: tuple[ToolCall, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()


@dataclass(slots=True)
class Run:
    """All that belongs to one run, and to no other."""

    output: Output
    tools: CurrentTools
    model: Model
    model_given: Any
    """The model as it was given: a name, a dict or a Model."""
    history: History
    predictor: Predictor
    """Makes the requests; its demonstrations are part of every one and never of the history."""
    observer: Observer
    temperature: float | None
    max_tokens: int | None
    scope: str = ""
    counter: int = 0
    failures: int = 0
    """Replies in a row without valid `__finish__` or executed tool."""
    last: Unfinished = Unfinished()
    unanswered: Mapping[str, Any] | None = None
    """The history's message whose calls have no results yet."""
    is_mended: bool = False

    def say(self, reply: Reply) -> None:
        """Put a reply into the history; one that says nothing is left out, as providers refuse it."""
        if reply.text or reply.calls:
            self._add(Message("assistant", reply.text, reply.calls, native=reply.native))
            self.unanswered = self.history[-1] if reply.calls else None

    def tell(self, text: str) -> None:
        self._add(Message("user", text))

    def answer_calls(self, results: Sequence[ToolResult]) -> None:
        """Put results next to their calls, in call order, before whatever a hook has appended (row B3-2)."""
        place = self.place_of_unanswered()
        if place is not None:
            appended = self.history[place + 1 :]
            del self.history[place + 1 :]
            for result in results:
                self._add(Message("tool", result.text, call_id=result.id))
            self.history += appended
        elif self.unanswered is not None:
            self._mended(len(results))
        self.unanswered = None

    def _add(self, message: Message) -> None:
        self.history.append(_Said(message.as_dict()))
        self.history[-1].native = message.native

    def place_of_unanswered(self) -> int | None:
        """Return the index of the message whose calls have no results yet, or of the copy that a hook has put in its place."""
        made = self.unanswered["tool_calls"] if self.unanswered else None
        for place in reversed(range(len(self.history) if made else 0)):
            item = self.history[place]
            if item is self.unanswered or (isinstance(item, Mapping) and item.get("tool_calls") == made):
                return place
        return None

    def messages(self) -> tuple[Message, ...]:
        """Return the messages of the next request. Raises HookFailed for what a hook has put there and is no message."""
        try:
            messages, count = legal_messages(self.history)
        except Exception as error:
            raise HookFailed from ValueError(f"history: no message: {error}")
        self._mended(count)
        return messages

    def _mended(self, count: int) -> None:
        """Say once that the history had results without calls, now left out, or calls without results (row B3-15)."""
        if count and not self.is_mended:
            logger.warning("history: %d results without call, or calls without result, were mended", count)
            self.observer.note("history_mended", count=count)
            self.is_mended = True


def legal_messages(history: History) -> tuple[tuple[Message, ...], int]:
    """Return the messages with exactly one result next to every call, and how many had to be mended.

    A result belongs to the nearest call before it that has its id and no result yet. A result without a call is left out; a
    call without a result gets `(removed)`.
    """
    messages: list[Message] = []
    results: dict[tuple[int, int], str] = {}
    waiting: dict[str, list[tuple[int, int]]] = {}
    """Id → places of the calls that have no result yet, as message and call; the nearest one last."""
    mended = 0
    for item in history:
        message = message_of(item)
        if message.role != "tool":
            for place, call in reversed([*enumerate(message.calls)]):
                waiting.setdefault(call.id, []).append((len(messages), place))
            messages.append(message)
        elif places := waiting.get(message.call_id):
            results[places.pop()] = message.content
        else:
            mended += 1
    legal: list[Message] = []
    for number, message in enumerate(messages):
        legal.append(message)
        for place, call in enumerate(message.calls):
            mended += (number, place) not in results
            legal.append(Message("tool", results.get((number, place), REMOVED), call_id=call.id))
    return tuple(legal), mended


def message_of(item: Any) -> Message:
    """Return an item of the history, which a hook may have put there. Raises ValueError for what is no message."""
    message = item if isinstance(item, Message) else Message.from_dict(item)
    native = getattr(item, "native", None)
    return message if native is None else replace(message, native=native)


# --- tools ---


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(**settings: Any) -> Callable[[F], F]: ...
def tool(function: Any = None, /, **settings: Any) -> Any:
    """Make a function a tool: its name, docstring and argument types describe it. The function itself is unchanged.

    `settings`: those of `Tool.from_function`. Raises TypeError if an argument's type has no JSON schema.
    """

    def marked(decorated: F) -> F:
        setattr(decorated, _MARK, Tool.from_function(decorated, **settings))
        return decorated

    return marked if function is None else marked(function)


def as_tool(given: Tool | Callable[..., Any]) -> Tool:
    """Return a given tool, the tool of a decorated function, or one made of a plain function."""
    given = getattr(given, _MARK, given)
    return given if isinstance(given, Tool) else Tool.from_function(given)


class CurrentTools(ToolboxAround):
    """The tools that a run was given, without those that `on_step` removed and with those that it added.

    Raises ValueError for a tool named `__finish__`, which ends the run (row G-6).
    """

    def __init__(self, within: Toolbox) -> None:
        super().__init__(within)
        refuse_reserved(within.names)
        self._tools = dict(within._tools)  # a copy: what is added and removed is so for this run only

    def add(self, given: Tool | Callable[..., Any]) -> None:
        """Offer a tool; the same tool again changes nothing. Raises ValueError for another tool's name, and for `__finish__`."""
        added = as_tool(given)
        refuse_reserved([added.name])
        present = self._tools.setdefault(added.name, added)
        if present.function != added.function:  # by equality: a method is a new object each time that it is named
            raise ValueError(f"another tool is named {added.name!r} already; remove it first")

    def remove(self, name: str) -> None:
        """Stop offering a tool; an unknown name changes nothing. Raises ValueError for `__finish__`."""
        if name == FINISH:
            raise ValueError(f"{FINISH} cannot be removed: without it the run could not end")
        self._tools.pop(name, None)

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        if self.get(call.name) is self.within.get(call.name):  # both None for a tool that nobody knows
            return await self.within.call(call, validate=validate)
        return await Toolbox.call(self, call, validate=validate)


def refuse_reserved(names: Sequence[str]) -> None:
    """Raise ValueError for a tool named `__finish__`."""
    if FINISH in names:
        raise ValueError(f"a tool may not be named {FINISH!r}: that name ends the run")
