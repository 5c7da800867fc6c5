"""The trace of one trial: every request, reply, move and observation, kept as plain JSON."""

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from whichloop.metrics.record import RECORDING
from whichloop.metrics.trace import ModelExchange, Note, RequestError, ToolRun, Trace, TracedCall, TraceEvent, TraceHead
from whichloop.models.cassette import RecordingError
from whichloop.models.faults import IMPLICIT
from whichloop.models.metering import MeteredExchange
from whichloop.models.receipts import call_digest, call_key, paired_results
from whichloop.protocol import (
    STEP_ROLES,
    Act,
    Answer,
    ContextOverflow,
    Message,
    ModelError,
    Move,
    Observation,
    Observer,
    ProviderError,
    Recovery,
    Reply,
    Request,
    Text,
    ToolArgumentError,
    Toolbox,
    ToolCall,
    Usage,
    WireError,
    render_value,
)
from whichloop.protocol.digest import sha256
from whichloop.protocol.json_text import Encoder
from whichloop.protocol.moves import MOVE_NAMES
from whichloop.protocol.redact import redact, redact_json
from whichloop.protocol.tokens import estimate_input
from whichloop.protocol.values import own_copy

from .context_use import ContextCount


class CallUse:
    """How often the calls of a trial's model were lost, done twice, or given another call's result."""

    def __init__(self) -> None:
        self.asked = 0
        self.lost = 0
        self._doubled = 0
        """Runs that were made more often than the model asked for, as far as replies are over whose calls nobody waits for."""
        self.planned: Mapping[str, str] = {}
        """CALL digest → planned call, with a scripted model."""
        self._waiting: dict[str, list[str]] = {}
        """Scope → CALL digests of calls that its last reply asked for, and that have not run yet."""
        self._unrun = 0
        """Calls that the loop went on without, though another one may have run in the place of each."""
        self._unasked_new = 0
        """Runs that no reply asked for, of calls that had never run: each stands for one that did not run, if there is one."""
        self._unasked_again = 0
        """Runs that no reply asked for, of calls that had given a result: each stands for one that did not run, or is double."""
        self._retries: Counter[str] = Counter()
        """Scope → runs that the model has asked for by way of recovery, of whatever call."""
        self._tried: set[str] = set()
        self._gave: set[str] = set()
        self._paired: dict[tuple[str, str], bool] = {}
        """Id and receipt → whether the result was that of a call with the id."""

    def count(self, exchange: MeteredExchange, move: Move | None, calls: Sequence[ToolCall]) -> None:
        """Count a reply. `calls`: those of its move that can run."""
        request = exchange.request
        self._end_waiting(request.scope)
        self._pair(request.messages)
        if isinstance(move, Recovery):
            self._retries[request.scope] += move.strategy in ("retry", "alternative_tool")
        if not isinstance(move, Act):
            return
        self._waiting[request.scope] = [call_digest(call.name, call.arguments) for call in calls]

    def _end_waiting(self, scope: str) -> None:
        """Count as lost what has not run until the model is asked again. A request without a scope runs beside no other."""
        for name in [scope] if scope else list(self._waiting):
            calls = self._waiting.pop(name, [])
            self.lost += len(calls)
            self.asked += len(calls)
            self._unrun += len(calls)
        if not any(self._waiting.values()):
            self._doubled += self._double_runs(self._unrun)
            self._unrun = self._unasked_new = self._unasked_again = 0

    def _double_runs(self, unrun: int) -> int:
        """Return how many runs that no reply asked for are more than the calls, so many, that did not run themselves.

        A loop that alters a call makes one for the one that it altered, and none too many, even if it made the same one before.
        """
        return max(0, self._unasked_again - max(0, unrun - self._unasked_new))

    def ran(self, digest: str, gave: bool, fault: str | None) -> None:
        """Count a run of a call. `gave`: it gave a result.

        What a loop runs again by itself after it had given its result is double whatever comes of it: whether a second booking is
        taken or refused is the tool's doing.
        """
        is_result = gave and fault not in IMPLICIT  # what nobody takes for the result may be asked for again
        scope = next((scope for scope, waiting in self._waiting.items() if digest in waiting), None)
        if scope is not None:
            self._waiting[scope].remove(digest)
            self.asked += 1
        elif (retry := next((scope for scope, retries in self._retries.items() if retries), None)) is not None:
            self._retries[retry] -= 1
        else:
            self._unasked_new += digest not in self._tried
            self._unasked_again += digest in self._gave
        self._tried.add(digest)
        if is_result:
            self._gave.add(digest)

    def _pair(self, messages: Sequence[Message]) -> None:
        for one in paired_results(messages) if self.planned else ():
            self._paired.setdefault((messages[one.place].call_id, one.receipt), one.is_right)

    def fields(self, unshown: int, early: int, overlapped: int) -> dict[str, int]:
        """Return the counts by name, without those of which nothing came up.

        `unshown`: results that the first prompt which needed them did not show. `early`, `overlapped`: see `CallsAtOnce`.
        """
        counted = {
            "asked": self.asked,
            "lost": min(self.lost + unshown, self.asked),
            "doubled": self._doubled + self._double_runs(self._unrun + sum(map(len, self._waiting.values()))),
            "paired": len(self._paired),
            "mispaired": sum(not is_right for is_right in self._paired.values()),
            "early": early,
            "overlapped": overlapped,
        }
        return {name: number for name, number in counted.items() if number}


TRIAL_NAMES = ("arm", "task", "repeat")
_NO_USAGE = Usage()


class Recorder(Observer):
    """Observes everything that happens in one trial: counts it, and keeps it as the trace's events."""

    only_answers = True

    def __init__(self) -> None:
        self.events: list[TraceEvent] = []
        self.steps = 0
        self.calls: Counter[str] = Counter()
        self.tool_calls = 0
        self.repeated_calls = 0
        self.usage = Usage()
        self.is_answered = False
        """Whether the model gave any reply."""
        self.errors: Counter[str] = Counter()
        self.retries: Counter[str] = Counter()
        self.provider_failure: ProviderError | None = None
        """The failure of a real provider that the last request met, if it did."""
        self.provider_trouble: ProviderError | None = None
        """The last failure of a real provider in which the request had no part, whatever came after it."""
        self.tools: Toolbox | None = None
        """The tools that calls are checked against."""
        self.context = ContextCount()
        self.call_use = CallUse()
        self._digested: list[Any] = []
        self._gave: set[str] = set()
        """Calls that have given a result, as text."""
        self._last_messages: dict[tuple[str, str], tuple[Message, ...]] = {}
        """Role and scope → messages of the last request."""

    # --- what the metered model and toolbox tell ---

    def exchange(self, exchange: MeteredExchange) -> None:
        request, role = exchange.request, str(exchange.request.role)
        same = self._repeated_messages(role, request)
        self.calls[role] += 1
        if exchange.reply is not None:
            self.context.count(request, exchange.shown_calls)
            fields = self._reply_fields(exchange, exchange.reply)
        else:
            fields = {} if exchange.error is None else self._failure_fields(request, exchange.error)
        new, fault = request.messages[same:], exchange.fault or ""
        seconds = round(exchange.seconds, 3) if exchange.seconds >= 0.001 else 0.0
        event = ModelExchange(
            role=role,
            same=same,
            messages=new,
            scope=request.scope,
            tool_choice=request.tool_choice,
            illegible=exchange.illegible,
            fault=fault,
            seconds=seconds,
            **fields,
        )
        self.events.append(event)

    def tool_call(self, call: ToolCall, observation: Observation, fault: str | None) -> None:
        run = ToolRun(
            TracedCall(call.name, call.arguments), observation.status, observation.data, observation.error_type, fault or ""
        )
        self.tool_calls += not run.never_ran
        key, gave = call_key(call.name, call.arguments), run.gave_result
        self.repeated_calls += key.text in self._gave
        if gave:
            self._gave.add(key.text)
        self.call_use.ran(key.digest, gave, fault)
        if observation.error_type is not None and not run.never_ran:
            self.errors[f"tool.{observation.error_type}"] += 1
        self.events.append(run)
        self._digested.append((_AT_ONCE, call.name, call.arguments, observation.status, observation.error_type, observation.data))

    # --- what the loop tells ---

    def note(self, kind: str, **data: Any) -> None:
        self.events.append(Note(kind, data))

    # --- results ---

    def digest(self) -> str:
        """Return the sha256 of moves and observations, without times and wording of prompts."""
        return sha256(_in_order(self._digested))

    def line(self, head: TraceHead) -> bytes:
        """Return the whole trace as one line of JSON, without secrets; what names the trial is kept as it is."""
        return trace_line(Trace(head, tuple(self.events)))

    # --- the parts of an exchange: fields of a ModelExchange ---

    def _repeated_messages(self, role: str, request: Request) -> int:
        """Return how many messages a request begins with that the last one of its role and scope showed already."""
        key = (role, request.scope)
        before = self._last_messages.get(key, ())
        same = len(before)
        if request.messages[:same] != before:
            same = next(n for n, old in enumerate(before) if request.messages[n : n + 1] != (old,))
        self._last_messages[key] = request.messages
        return same

    def _reply_fields(self, exchange: MeteredExchange, reply: Reply) -> dict[str, Any]:
        """Return the fields of a reply, and count it."""
        request = exchange.request
        self.provider_failure = None
        if reply.failed_attempts:
            self.retries.update(reply.failed_attempts)
        usage = reply.usage or _NO_USAGE
        self.usage += usage
        self.is_answered = True
        self.steps += request.role in STEP_ROLES
        fields: dict[str, Any] = {
            "failed_attempts": tuple(reply.failed_attempts),
            "reply": reply.text,
            "native_calls": reply.calls,
            "tokens": (usage.input_tokens, usage.output_tokens),
        }
        if request.codec is None:
            self._note_move(request, reply.text)
            self.call_use.count(exchange, None, ())
            return fields
        try:
            move = request.codec.parse(reply)
        except WireError as error:
            self.errors["wire"] += 1
            self._note_move(request, "wire")
            self.call_use.count(exchange, None, ())
            fields["wire_error"] = str(error)
            return fields
        plain_move = move_to_json(move)
        self._note_move(request, plain_move)
        self.call_use.count(exchange, move, self._calls_that_can_run(move) if isinstance(move, Act) else ())
        fields["move"] = plain_move
        return fields

    def _calls_that_can_run(self, move: Act) -> list[ToolCall]:
        """Count the calls that cannot run as errors of the model, wherever a design notices them; return the others."""
        able = []
        for call in move.calls if self.tools is not None else ():
            tool = self.tools.get(call.name) if self.tools is not None else None
            if tool is None:
                self.errors["call.unknown_tool"] += 1
                continue
            try:
                if tool.arguments is not None:
                    tool.arguments.check(call.arguments)
                able.append(call)
            except ToolArgumentError:
                self.errors["call.invalid_arguments"] += 1
        return able

    def _failure_fields(self, request: Request, error: ModelError) -> dict[str, Any]:
        """Return the fields of a failure that came in the place of a reply, and count it."""
        fields: dict[str, Any] = {}
        self.usage += Usage(estimate_input(request), 0, estimated=True) if isinstance(error, ContextOverflow) else Usage()
        kind = "context_overflow" if isinstance(error, ContextOverflow) else "provider"
        if isinstance(error, RecordingError):
            kind = RECORDING
        elif isinstance(error, ProviderError):
            kind = f"provider.{error.kind}"
            self.retries.update(error.failed_attempts)
            fields["failed_attempts"] = tuple(error.failed_attempts)
            if not error.injected:
                self.provider_failure = error
                if error.hits_every_request:
                    self.provider_trouble = error
        self.errors[kind] += 1
        self._note_move(request, kind)
        return fields | {"error": RequestError(kind, str(error))}

    def _note_move(self, request: Request, what: Any) -> None:
        self._digested.append((_AT_ONCE if request.scope else _IN_TURN, request.role, request.scope, what))


class NoteTaker(Observer):
    """The observer that a loop gets: it takes notes for a recorder, whose counts no loop can reach by it."""

    only_answers = True

    def __init__(self, take: Callable[[str, Mapping[str, object]], None]) -> None:
        self._take = take

    def note(self, kind: str, **data: object) -> None:
        self._take(kind, data)


def face_of(recorder: Recorder) -> Observer:
    """Return the face of a recorder that a loop gets."""
    return NoteTaker(lambda kind, data: recorder.note(kind, **data))


def trace_line(trace: Trace) -> bytes:
    """Return a trace as one line of JSON, without secrets; what names the trial is kept as it is."""
    rest = trace.to_json()
    names = {name: rest.pop(name) for name in TRIAL_NAMES}
    text = _encoded(rest)
    text = text if redact(text) == text else _encoded(redact_json(rest))
    return f"{_encoded(names)[:-1]},{text[1:]}\n".encode("ascii")


_AT_ONCE, _IN_TURN = "at once", "in turn"


def _in_order(digested: list[Any]) -> str:
    """Return events as a list in JSON; tool runs and replies of a scope, which may end in any order, are sorted."""
    groups = [(at_once, list(items)) for at_once, items in itertools.groupby(digested, key=operator.itemgetter(0))]
    if not any(at_once == _AT_ONCE and len(group) > 1 for at_once, group in groups):
        return _encoded(digested)
    texts: list[str] = []
    for at_once, group in groups:
        texts += sorted(_encoded(item, 1) for item in group) if at_once == _AT_ONCE else [_encoded(group)[1:-1]]
    return f"[{','.join(texts)}]"


def move_to_json(move: Move) -> dict[str, Any]:
    """Return a move as plain JSON, its kind under `move`; a copy, since the loop may change its own move."""
    if isinstance(move, Act):
        calls = [{"name": call.name, "arguments": own_copy(call.arguments)} for call in move.calls]
        return {"move": "act", "thought": move.thought, "calls": calls}
    if isinstance(move, Answer):
        fields: dict[str, Any] = {"move": "answer", "thought": move.thought, "value": own_copy(move.value)}
        return fields if move.confidence is None else fields | {"confidence": move.confidence}
    if isinstance(move, Text):
        return {"move": "text", "text": move.text}
    return {"move": MOVE_NAMES[type(move)], **_fields(move)}


def _fields(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass, and of those inside it, as a dictionary."""
    return {name: _as_json(getattr(value, name)) for name in value.__dataclass_fields__}


def _as_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_as_json(item) for item in value]
    return _fields(value) if dataclasses.is_dataclass(value) else own_copy(value)


_ENCODER = Encoder(ensure_ascii=True, sort_keys=False, separators=(",", ":"), allow_nan=False, default=render_value)
MAX_DEPTH = 12
"""Maximum depth at which values that JSON cannot hold are looked for; deeper values become text."""


def _encoded(value: Any, depth: int = 0) -> str:
    """Return a line of JSON; what JSON cannot say stands as text in its place."""
    try:
        return _ENCODER.encode(value)
    except Exception:  # NaN, a key that is not text, a cycle, or whatever a class of the loop's own raises
        if depth < MAX_DEPTH and type(value) is dict:
            items = (f"{_ENCODER.encode(render_value(key))}:{_encoded(item, depth + 1)}" for key, item in value.items())
            return f"{{{','.join(items)}}}"
        if depth < MAX_DEPTH and type(value) in (list, tuple):
            return f"[{','.join(_encoded(item, depth + 1) for item in value)}]"
        return _ENCODER.encode(render_value(value))
