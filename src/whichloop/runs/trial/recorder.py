"""What one trial did: counted for its record, and kept as its trace, every request, reply, move and observation as plain JSON."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from whichloop.metrics.record import RECORDING
from whichloop.metrics.trace import ModelExchange, Note, RequestError, ToolRun, Trace, TracedCall, TraceEvent
from whichloop.models.metering import MeteredExchange
from whichloop.models.receipts import call_digest, call_text
from whichloop.models.recording import RecordingError
from whichloop.models.scripted_calls import NATIVE
from whichloop.models.tunnel import KEPT
from whichloop.protocol.chat import Message, Reply, Usage
from whichloop.protocol.events import Observer
from whichloop.protocol.json_text import sha256
from whichloop.protocol.model import CHARS_PER_TOKEN, ContextOverflow, ModelError, ProviderError, Request, estimate_input
from whichloop.protocol.moves import MOVE_NAMES, STEP_ROLES, Act, Answer, Move, Text, WireError
from whichloop.protocol.redact import redact, redact_json
from whichloop.protocol.tool_calls import Observation, ToolCall
from whichloop.protocol.tools import Tool
from whichloop.protocol.values import ToolArgumentError, own_copy, render_value
from whichloop.protocol.wire import calls_in

from .counts import CallUse, PrefixCount, RetentionCount

TRIAL_NAMES = ("arm", "task", "repeat")
_NO_USAGE = Usage()


class Recorder:
    """Hears of everything that happens in one trial: counts it, and keeps it as the trace's events."""

    def __init__(self) -> None:
        self.events: list[TraceEvent] = []
        self.steps = self.tool_calls = self.repeated_calls = 0
        self.calls: dict[str, int] = {}
        self.usage = _NO_USAGE
        self.is_answered = False
        self.errors = defaultdict[str, int](int)
        self.retries = Counter[str]()
        self.provider_failure: ProviderError | None = None
        """The failure of a real provider that the last request met, if it did."""
        self.provider_trouble: ProviderError | None = None
        """The last failure of a real provider in which the request had no part, whatever came after it."""
        self.tools: Mapping[str, Tool] = {}
        self.prefixes = PrefixCount()
        self.retention: RetentionCount | None = None
        """None without a scripted model: nobody else says what a prompt shows."""
        self.call_use = CallUse()
        self._digested: list[Any] = []
        self._gave: set[str] = set()
        """Calls that have given a result, as text."""
        self._last_messages: dict[tuple[str, str], tuple[Message, ...]] = {}

    def exchange(self, exchange: MeteredExchange) -> None:
        request, role, reply = exchange.request, str(exchange.request.role), exchange.reply
        before = self._last_messages.get((role, request.scope), ())
        same, messages = len(before), request.messages
        if messages[:same] != before:
            same = next(n for n, old in enumerate(before) if messages[n : n + 1] != (old,))
        self._last_messages[role, request.scope] = messages
        self.calls[role] = self.calls.get(role, 0) + 1
        if reply is not None:
            self.prefixes.count(request)
            if self.retention is not None:
                self.retention.count(request, exchange.shown_calls)
            fields = self._reply_fields(request, reply)
        else:
            fields = {} if exchange.error is None else self._failure_fields(request, exchange.error)
        event = ModelExchange(
            role,
            request.scope,
            same,
            messages[same:],
            request.tool_choice,
            exchange.illegible,
            exchange.fault or "",
            round(exchange.seconds, 3) if exchange.seconds >= 0.001 else 0.0,
            **fields,
        )
        self.events.append(event)

    def tool_call(self, call: ToolCall, observation: Observation, fault: str | None) -> None:
        status, error_type, data = observation.status, observation.error_type, observation.data
        run = ToolRun(TracedCall(call.name, call.arguments), status, data, error_type, fault or "")
        text, gave = call_text(call.name, call.arguments), run.gave_result
        if not run.never_ran:
            self.tool_calls += 1
            if error_type is not None:
                self.errors[f"tool.{error_type}"] += 1
        self.repeated_calls += text in self._gave
        if gave:
            self._gave.add(text)
        self.call_use.ran(call_digest(call.name, call.arguments), gave, fault)
        self.events.append(run)
        self._digested.append((_AT_ONCE, call.name, call.arguments, status, error_type, data))

    def note(self, kind: str, data: Mapping[str, object]) -> None:
        self.events.append(Note(kind, data))

    def fields(self) -> dict[str, Any]:
        usage, prefixes = self.usage, self.prefixes
        return {
            "steps": self.steps,
            "calls": dict(sorted(self.calls.items())),
            "tool_calls": self.tool_calls,
            "repeated_calls": self.repeated_calls,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cached_tokens": usage.cached_tokens,
            "tokens_estimated": usage.estimated,
            "cost_usd": usage.cost_usd,
            "nominal_usd": usage.nominal_usd,
            "retries": dict(sorted(self.retries.items())),
            "errors": dict(sorted(self.errors.items())),
            "trace_digest": sha256(_in_order(self._digested)),  # of moves and observations, without times and wording of prompts
            "later_bytes": prefixes.later_bytes,
            "repeated_bytes": prefixes.repeated_bytes,
            "cacheable_tokens": prefixes.cacheable_bytes // CHARS_PER_TOKEN,
        }

    def _reply_fields(self, request: Request, reply: Reply) -> dict[str, Any]:
        """Return the fields of a reply, and count it."""
        self.provider_failure = None
        if reply.failed_attempts:
            self.retries.update(reply.failed_attempts)
        usage = reply.usage or _NO_USAGE
        self.usage = usage if self.usage is _NO_USAGE else self.usage + usage
        self.is_answered = True
        self.steps += request.role in STEP_ROLES
        fields: dict[str, Any] = {
            "failed_attempts": tuple(reply.failed_attempts),
            "reply": reply.text,
            "native_calls": reply.calls,
            "tokens": (usage.input_tokens, usage.output_tokens),
        }
        move, able = None, None
        told: Any = reply.text
        if request.codec is not None:
            try:
                move = request.codec.parse(reply)
            except WireError as error:
                self.errors["wire"] += 1
                told, fields["wire_error"] = "wire", str(error)
            else:
                told = fields["move"] = move_to_json(move)
                able = self._calls_that_can_run(move) if isinstance(move, Act) else None
        self._note_move(request, told)
        asked = move
        if request.codec is None:
            with contextlib.suppress(WireError):
                asked = NATIVE.parse(reply)
        self.call_use.count(request, move, able, calls_in(asked))
        return fields

    def _calls_that_can_run(self, move: Act) -> list[ToolCall]:
        """Count the calls that cannot run as errors of the model, wherever a design notices them; return the others."""
        able = []
        for call in move.calls:
            tool = self.tools.get(call.name)
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
        kind = "provider"
        if isinstance(error, RecordingError):
            kind = RECORDING
        elif isinstance(error, ContextOverflow):
            kind = "context_overflow"
            self.usage += Usage(estimate_input(request), 0, estimated=True)
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
        KEPT[self] = take

    def note(self, kind: str, **data: object) -> None:
        KEPT[self](kind, data)


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
    return {name: _as_json(getattr(value, name)) for name in value.__dataclass_fields__}


def _as_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_as_json(item) for item in value]
    return _fields(value) if dataclasses.is_dataclass(value) else own_copy(value)


_ENCODER = json.JSONEncoder(ensure_ascii=True, sort_keys=False, separators=(",", ":"), allow_nan=False, default=render_value)
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
