"""What a loop says when it calls a tool, and what it sees of the call: specs, calls, results, and the exceptions that end a run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple
from uuid import uuid4

from whichloop.protocol.json_text import sha256

from .values import render_value


class StopRun(Exception):
    """A tool raises this, or a subclass of a product's own, to end the run: every loop lets it pass to who called `run`."""


class BudgetExceeded(StopRun):
    """A budget is used up, and the run ends here. Every loop lets it pass, and so does a tool that asks a model itself."""


class TransientError(Exception):
    """A tool's failure may pass: the same call may work the next time. Subclasses name the reason."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool, as a move states it."""

    name: str
    arguments: Mapping[str, Any]
    """A JSON object."""
    call_id: str = field(default="", compare=False)
    """The provider's id of a native call; not part of the move."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """The description of a tool that a model gets."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of the arguments, type "object"."""


class ToolListing(NamedTuple):
    """The tools as a server lists them."""

    tools: tuple[ToolSpec, ...]
    changes: int = 0
    """How often a fault has changed the list so far, whether or not that still shows."""


NEVER_RAN = frozenset({"UnknownTool", "InvalidArguments"})
"""Error types of a call that was refused, because there is no such tool or because its arguments did not pass the check."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The result of a call. The error's type is a field of its own, so that each design can word it."""

    tool_name: str
    status: Literal["success", "error"]
    data: str
    """The result as text, or the error's message without its type; what a model reads, so it may be cut."""
    error_type: str | None = None
    """Name of the exception's class; one of NEVER_RAN if the tool never ran."""
    value: Any = field(default=None, compare=False)
    """The result as the tool returned it; None for an error."""
    call_id: str = ""
    seconds: float = field(default=0.0, compare=False)
    """Wall time of the call."""
    transient: bool = field(default=False, compare=False)
    """The tool raised a TransientError."""
    max_chars: int | None = field(default=None, compare=False)
    """How many characters of a longer text `data` shows; None if it shows all."""
    raised: BaseException | None = field(default=None, compare=False, repr=False)
    """What the tool raised; None if it raised nothing, or was not called."""

    @property
    def ok(self) -> bool:
        return self.status == "success"

    @property
    def ran(self) -> bool:
        """Whether the tool ran, whatever came of it; False for a call that was refused instead."""
        return self.error_type not in NEVER_RAN

    @property
    def whole(self) -> str:
        """The whole text of a result, also where `data` is cut: for hooks and stores, which are not short of context."""
        return self.data if self.max_chars is None or not self.ok else render_value(self.value)

    def as_dict(self) -> dict[str, str]:
        """Return `{"status", "data", "tool_name"}`, an error with its type in front."""
        data = self.data if self.error_type is None else f"{self.error_type}: {self.data}"
        return {"status": self.status, "data": data, "tool_name": self.tool_name}


INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
_WITH_CODE = re.compile(r"(?P<message>.*) \((?P<code>-?[0-9]{1,9})\)", re.DOTALL)


class McpError(Exception):
    """A server answered the call of a tool with a JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message


def read_mcp_error(text: str) -> McpError:
    """Return the error that an observation's `data` shows; one without a code is an internal error."""
    match = _WITH_CODE.fullmatch(text)
    return McpError(INTERNAL_ERROR, text) if match is None else McpError(int(match["code"]), match["message"])


ID_DIGITS = 32
"""Hexadecimal digits of a run's id and of an idempotency key, as many as a UUID has."""
NAME_CHARS = 20
"""How much of a tool's name stands in an id: OpenAI takes ids of up to 40 characters."""
NO_RUN = "0" * ID_DIGITS
"""The id of the run, where a comparison calls a suite's tools outside of any trial."""
_STRANGE = re.compile(r"[^a-zA-Z0-9_-]")
"""What Anthropic takes in no id."""


@dataclass(frozen=True, slots=True)
class CurrentCall:
    """The call that is being carried out.

    A context variable holds it, so that no parameter of the function stands for it and no model reads of it.
    """

    tool: str
    call_id: str
    """The call's id in the events, approvals and messages of its run; equal calls of other runs have the same one."""
    run_id: str
    """32 hexadecimal digits: another one for each run, and the same when a run is taken up from its checkpoint."""
    attempt: int = 1
    """1, and one more for each time that the call has begun before, as a checkpoint knows."""
    _runs: dict[str, int] = field(default_factory=dict, compare=False, repr=False)
    """How many runs have begun within the call, by what they are asked."""

    @property
    def idempotency_key(self) -> str:
        """32 hexadecimal digits, which `uuid.UUID` reads: the same whenever this call is made, and no other call's."""
        return idempotency_key(self.run_id, self.call_id)


class CallId(str):
    """An id that a run gave to a call. No id of a model's is one, whatever it looks like: a model must not choose what runs."""

    __slots__ = ("attempt", "run_id")

    run_id: str
    attempt: int

    def __new__(cls, text: str, run_id: str = "", attempt: int = 1) -> CallId:
        call_id = super().__new__(cls, text)
        call_id.run_id, call_id.attempt = run_id, attempt
        return call_id


CURRENT: ContextVar[CurrentCall | None] = ContextVar("whichloop_current_call", default=None)


def current_call() -> CurrentCall:
    """Return the call for which the tool's function that asks is carried out, sync or async, on any thread that whichloop makes.

    Threads of the tool's own do not know it: ask before they start. Raises RuntimeError outside of a tool's call.
    """
    call = CURRENT.get()
    if call is None:
        raise RuntimeError("current_call: no tool is called here; ask in the tool's own function, and before it starts a thread")
    return call


def idempotency_key(run_id: str, call_id: str) -> str:
    """Return the key of a call of a run: 32 hexadecimal digits."""
    return sha256(f"{run_id} {call_id}")[:ID_DIGITS]


def new_run_id(question: str) -> str:
    """Return the id of a run that begins here. `question`: its query, as text.

    Within a tool's call it is made of the call: a run of an agent that is a tool has the same id when the call is made again.
    """
    outer = CURRENT.get()
    if outer is None:
        return uuid4().hex
    number = outer._runs.get(question, 0)
    outer._runs[question] = number + 1
    return sha256(f"{outer.idempotency_key} {number} {question}")[:ID_DIGITS]


def id_name(tool: str) -> str:
    """Return a tool's name as ids hold it."""
    return _STRANGE.sub("_", tool[:NAME_CHARS])


def current_of(call: ToolCall, run_id: str, numbers: Iterator[int]) -> CurrentCall:
    """Return what the tool's function may know of a call; one that no run has named gets this run's id, and the next number."""
    call_id = call.call_id
    if isinstance(call_id, CallId):
        return CurrentCall(call.name, str(call_id), call_id.run_id, call_id.attempt)
    return CurrentCall(call.name, f"{id_name(call.name)}-{next(numbers)}", run_id)
