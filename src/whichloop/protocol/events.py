"""What happens inside a run, as events, and the observer that is told of them.

Events are what a product shows or logs while a loop works: requests to the model, pieces of replies, calls of tools, a person's
approval, the end. They are the same for every design. A request has a number, and so has a call; events with one number belong
together, because requests and calls may be under way at the same time. A call also has an id, `call.call_id`, which the run gives
it: the same in all events, in a checkpoint and in the messages of the outcome, and another one for each call of a conversation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .chat import Chunk, Reply
from .model import ModelError, Request
from .outcome import AnswerT, Outcome, Parametrized
from .tool_calls import Observation, ToolCall
from .values import error_text, plain_value

_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class RunEvent:
    """Something that happened inside a run."""

    @property
    def name(self) -> str:
        """The event's kind as `as_dict` has it: `tool_started` of a ToolStarted."""
        return _WORD.sub("_", type(self).__name__).lower()

    def as_dict(self) -> dict[str, Any]:
        """Return the event as JSON for a log or a client, its kind under `event`; prompts and whole replies are left out."""
        return {"event": self.name, **_shown(self)}


@dataclass(frozen=True, slots=True)
class _OfRequest(RunEvent):
    number: int
    """0-based, in the order of the requests of a run; a request that is sent again has a number of its own."""
    request: Request


@dataclass(frozen=True, slots=True)
class RequestStarted(_OfRequest):
    """The model is asked."""


@dataclass(frozen=True, slots=True)
class ReplyChunk(_OfRequest):
    """A piece of a reply that is still coming, as the design's format has it; only told if the observer `streams`."""

    chunk: Chunk


@dataclass(frozen=True, slots=True)
class AnswerChunk(RunEvent):
    """A piece of the answer's text, free of the design's format; only told if the observer `streams`, and of answers that are text.

    An answer that the query refuses is asked for again: a piece of another request begins another answer.
    """

    number: int
    """That of the request."""
    text: str


@dataclass(frozen=True, slots=True)
class ReplyReceived(_OfRequest):
    """A whole reply has come, or as much of it as the design wanted."""

    reply: Reply
    seconds: float
    """Wall time since the request started."""


@dataclass(frozen=True, slots=True)
class ReplyUnreadable(_OfRequest):
    """A reply that has come is not in the design's format; what follows, another request say, is the design's."""

    error: str
    """What is wrong with the reply, in words for a model."""


@dataclass(frozen=True, slots=True)
class RequestFailed(_OfRequest):
    """A request got no reply."""

    error: ModelError
    seconds: float
    """Wall time since the request started."""


@dataclass(frozen=True, slots=True)
class CallInvalid(RunEvent):
    """The model asked for a tool that there is not, or with arguments that it does not take.

    What follows is the design's: it tells the model, or calls the tool all the same, as `bare` does without `check_types`.
    """

    request: int
    """Number of the request whose reply holds the call."""
    call: ToolCall
    error_type: str
    """UnknownTool or InvalidArguments."""
    error: str


@dataclass(frozen=True, slots=True)
class ApprovalAsked(RunEvent):
    """A call waits for a person's decision. Told each time that the run stops at it; see `Resumable`."""

    call: ToolCall
    """As the model wrote it."""
    arguments: Mapping[str, Any]
    """The JSON with which the call is made: the model's own, or what a person has given in its place."""
    problem: str = ""
    """Why it waits again, or what its rule could not judge; else empty."""
    id: str = ""
    """What `Checkpoint.approve` and `Checkpoint.reject` take: another one each time that the call waits."""


@dataclass(frozen=True, slots=True)
class ApprovalDecided(RunEvent):
    """What was decided about a call takes effect: the tool is called next, or the model is told that the call is refused."""

    call: ToolCall
    """As the model wrote it."""
    approved: bool
    by: str
    """Who decided: what `approve(by=…)` or `reject(by=…)` was given, "person" if nothing; "rule" for a rule of `needs_approval`
    that let the call through."""
    reason: str = ""
    arguments: Mapping[str, Any] | None = None
    """Those that a person gave in the place of the model's; None if the model's hold."""
    result: str | None = None
    """What the model reads as the call's result, where a person gave it and the tool is not called."""


@dataclass(frozen=True, slots=True)
class ToolStarted(RunEvent):
    """A design makes a call. Whether there is such a tool, and whether it ran, is known when it is finished."""

    number: int
    """0-based, in the order of the calls of a run."""
    call: ToolCall
    """As the model wrote it, or a person who changed its arguments."""


@dataclass(frozen=True, slots=True)
class ToolFinished(RunEvent):
    """A call has given a result or an error. `observation.seconds` is its wall time."""

    number: int
    call: ToolCall
    observation: Observation
    """As the tool gave it; a wrapper such as `guarded` may show its loop something else."""


@dataclass(frozen=True, slots=True)
class LoopNote(RunEvent):
    """Something that a design says of itself, as `Observer.note` gets it: a phase, calls that it does not run, another attempt."""

    kind: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RunEnded(RunEvent, Parametrized[AnswerT]):
    """The run is over: the last event. Exactly one of `outcome` and `error` is given."""

    outcome: Outcome[AnswerT] | None
    error: BaseException | None
    """What left the run instead of an outcome, such as BudgetExceeded or a cancellation."""
    seconds: float
    """Wall time of the run."""


def _shown(event: RunEvent) -> dict[str, Any]:
    """Return what the JSON of an event has beside its kind."""
    match event:
        case _OfRequest():
            return {"request": event.number, "role": event.request.role.value, **_of_request(event)}
        case AnswerChunk():
            return {"request": event.number, "text": event.text}
        case LoopNote():
            return {"kind": event.kind, "data": plain_value(event.data)}
        case RunEnded():
            return _of_end(event)
    return _of_call(event)


def _of_end(event: RunEnded[Any]) -> dict[str, Any]:
    outcome = event.outcome
    if outcome is None:
        raised = "" if event.error is None else f"{type(event.error).__name__}: {error_text(event.error)}"
        return {"error": raised, "seconds": event.seconds}
    fields = {"answer": plain_value(outcome.answer), "stop": outcome.stop.value, "ok": outcome.ok, "steps": outcome.steps}
    fields |= {} if outcome.usage is None else {"usage": outcome.usage.as_dict()}
    return fields | ({} if outcome.error is None else {"error": outcome.error}) | {"seconds": event.seconds}


def _of_request(event: _OfRequest) -> dict[str, Any]:
    match event:
        case RequestStarted():
            return {"messages": len(event.request.messages)}
        case ReplyChunk(chunk=chunk):
            call = chunk.call
            piece = {} if call is None else {"call": {"index": call.index, "name": call.name, "arguments": call.arguments}}
            return {"text": chunk.text, **piece}
        case ReplyReceived(reply=reply):
            usage = reply.usage
            tokens = {} if usage is None else {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
            return {"seconds": event.seconds, **tokens}
        case RequestFailed():
            return {"error": f"{type(event.error).__name__}: {error_text(event.error)}", "seconds": event.seconds}
        case ReplyUnreadable():
            return {"error": event.error}
    raise NotImplementedError


def _of_call(event: Any) -> dict[str, Any]:
    call: ToolCall = event.call
    shown = getattr(event, "arguments", call.arguments if isinstance(event, CallInvalid | ToolStarted) else None)
    arguments = {} if shown is None else {"arguments": plain_value(shown)}
    called = {"tool": call.name, **arguments, "call_id": str(call.call_id)}
    match event:
        case CallInvalid():
            return {"request": event.request, **called, "error": f"{event.error_type}: {event.error}"}
        case ApprovalAsked():
            return {**called, "id": event.id, **({"problem": event.problem} if event.problem else {})}
        case ApprovalDecided():
            result = {} if event.result is None else {"result": event.result}
            reason = {"reason": event.reason} if event.reason else {}
            return {**called, "approved": event.approved, "by": event.by, **result, **reason}
        case ToolFinished(observation=seen):
            came = {"result": seen.data} if seen.ok else {"error": f"{seen.error_type}: {seen.data}"}
            return {"call": event.number, **called, "ran": seen.ran, "status": seen.status, "seconds": seen.seconds, **came}
    return {"call": event.number, **called}


_OfCall = CallInvalid | ApprovalAsked | ApprovalDecided | ToolStarted | ToolFinished
_InRun = RequestStarted | ReplyChunk | AnswerChunk | ReplyReceived | ReplyUnreadable | RequestFailed | _OfCall | LoopNote
EventOf = _InRun | RunEnded[AnswerT]
"""Any event of a run on a `Query[AnswerT]`, so that a type checker knows the answer's type, and sees a `match` that forgets one."""


class Observer:
    """Receives what happens inside a run. This one does nothing; override what you need.

    Its methods are called on the event loop's thread; what they raise leaves the run.
    """

    streams: bool = False
    """True: replies are asked for in pieces, where the model can, and each piece is a ReplyChunk. Needs `on_event`."""
    only_answers: bool = False
    """True: outcomes are left without usage and messages, as in a comparison's trials, which count for themselves."""

    def on_event(self, event: EventOf[Any]) -> None:
        """Receive an event. The built-in loops tell them if this method is overridden, and go without them otherwise."""

    def note(self, kind: str, **data: object) -> None:
        """Receive something worth a line in the trace: a dropped call, a parse error, a phase."""


SILENT = Observer()
ANSWERS_ONLY = Observer()
"""For a run whose outcome nobody asks for usage or messages."""
ANSWERS_ONLY.only_answers = True
