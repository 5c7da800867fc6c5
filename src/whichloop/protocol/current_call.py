"""The call that a tool's function is carried out for: its id and its run's, of which an idempotency key is made.

A context variable holds it, so that no parameter of the function stands for it and no model reads of it.
"""

from __future__ import annotations

import re
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from itertools import count
from uuid import uuid4

from .digest import sha256
from .tool_calls import ToolCall

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
    """The call that is being carried out."""

    tool: str
    """The tool's name."""
    call_id: str
    """The call's id in the events, approvals and messages of its run; equal calls of other runs have the same one."""
    run_id: str
    """32 hexadecimal digits: another one for each run, and the same when a run is taken up from its checkpoint."""
    attempt: int = 1
    """1, and one more for each time that the call has begun before; a checkpoint knows that of tools in `needs_approval` only."""
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


_CURRENT: ContextVar[CurrentCall | None] = ContextVar("whichloop_current_call", default=None)


def current_call() -> CurrentCall:
    """Return the call for which the tool's function that asks is carried out, sync or async, on any thread that whichloop makes.

    Threads of the tool's own do not know it: ask before they start. Raises RuntimeError outside of a tool's call.
    """
    call = _CURRENT.get()
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
    outer = _CURRENT.get()
    if outer is None:
        return uuid4().hex
    number = outer._runs.get(question, 0)
    outer._runs[question] = number + 1
    return sha256(f"{outer.idempotency_key} {number} {question}")[:ID_DIGITS]


def id_name(tool: str) -> str:
    """Return a tool's name as ids hold it."""
    return _STRANGE.sub("_", tool[:NAME_CHARS])


class ToolboxIds:
    """Ids for the calls of a toolbox that no run has named: one that is used by itself, or in a comparison's trial."""

    def __init__(self) -> None:
        self.run_id = ""
        """Stands for a run; a random one is made where it is needed."""
        self._numbers = count(1)

    def begin(self, call: ToolCall) -> Token[CurrentCall | None]:
        """Let the tool's function know its call. Give what is returned to `end`."""
        call_id = call.call_id
        if isinstance(call_id, CallId):
            return _CURRENT.set(CurrentCall(call.name, str(call_id), call_id.run_id, call_id.attempt))
        if not self.run_id:
            self.run_id = uuid4().hex
        return _CURRENT.set(CurrentCall(call.name, f"{id_name(call.name)}-{next(self._numbers)}", self.run_id))

    @staticmethod
    def end(before: Token[CurrentCall | None]) -> None:
        """Restore what was the current call before."""
        _CURRENT.reset(before)
