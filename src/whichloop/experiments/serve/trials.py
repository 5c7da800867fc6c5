"""A served trial: its environment, its scripted model, and its counts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from whichloop.datasets.task import Suite, Task
from whichloop.datasets.validity import Replayed, replay
from whichloop.metrics.answers import Judgement
from whichloop.metrics.scorers import is_abstention, scores_of
from whichloop.models.faults import IMPLICIT
from whichloop.models.metering import Meter, MeteredExchange, MeteredModel, MeteredToolbox
from whichloop.models.profiles import Profile
from whichloop.models.receipts import ReceiptEntry, Truth, call_digest, content_digest
from whichloop.models.scripted import Scripted
from whichloop.models.server import ServedTrial
from whichloop.models.tunnel import Tunnel
from whichloop.models.wires.base import BadRequest
from whichloop.protocol import (
    Message,
    NativeCall,
    Observation,
    ProviderError,
    Reply,
    Request,
    StopReason,
    ToolCall,
    Usage,
    WireError,
    WrappedModel,
)
from whichloop.protocol.json_text import Json
from whichloop.protocol.receipts import sightings
from whichloop.protocol.redact import logger_of
from whichloop.protocol.tool_calls import ToolListing
from whichloop.protocol.values import error_text
from whichloop.protocol.wire import from_json, read_call
from whichloop.runs.trial_models import script_of

RELATIVE_ERROR = 1e-9
"""Relative tolerance within which two numbers are the same result."""


@dataclass(slots=True)
class ForeignResults:
    """Receipts for results of a program's own tools, which are tool messages that answer a call of the model.

    A result that equals the suite's is the true one; the model believes any other as it is. An error is not a result, unless the
    plan expects one. The program does not see receipts, which are only in the model's view of the request.
    """

    tunnel: Tunnel
    calls: dict[str, list[NativeCall]] = field(default_factory=dict)
    """Id → calls of the model; a program that drops its history gets the same id again."""
    entries: dict[tuple[str, str], ReceiptEntry | None] = field(default_factory=dict)
    """(CALL, text) → the result as it was signed, None for an error."""
    suite_calls: set[str] = field(default_factory=set)
    """CALL digests of calls of the suite's own tools, whose results already have receipts unless a fault replaced them."""

    def with_receipts(self, request: Request, replayed: Mapping[str, Replayed]) -> Request:
        """Return the request with its results between the marks of their receipts; `replayed`: CALL digest → true result."""
        named: dict[str, NativeCall] = {}
        messages = []
        for message in request.messages:
            named |= {call.id: call for call in message.calls}
            messages.append(
                self._with_receipt(message, named.get(message.call_id), replayed) if message.role == "tool" else message
            )
        return request if list(request.messages) == messages else replace(request, messages=tuple(messages))

    def _with_receipt(self, message: Message, call_in_request: NativeCall | None, replayed: Mapping[str, Replayed]) -> Message:
        calls = self.calls.get(message.call_id)
        if not calls or sightings(message.content):
            return message
        try:
            call = read_call(next((call for call in reversed(calls) if call == call_in_request), calls[-1]))
        except WireError:  # a damaged call, which cannot have a result
            return message
        key = (call_digest(call.name, call.arguments), message.content)
        if key[0] in self.suite_calls:
            return message
        if key not in self.entries:
            self.entries[key] = self._entry(*key, replayed.get(key[0]))
        entry = self.entries[key]
        return message if entry is None else replace(message, content=entry.around(message.content))

    def _entry(self, digest: str, text: str, truth: Replayed | None) -> ReceiptEntry | None:
        """Sign a result, and vouch that the program's words for it show all of it."""
        result, ledger = read_result(text), self.tunnel.ledger
        value = unwrapped(result)
        is_same = truth is not None and (same_result(result, truth.value) or same_result(value, truth.value))
        if truth is not None and truth.failed:
            expected = is_error(text) or isinstance(value, str)  # in any wording
            entry = ledger.sign(digest, truth.text if expected else text, None if expected else value, False)
        elif is_error(text):
            return None
        elif truth is not None and (is_same or text.strip() == truth.text.strip()):
            entry = ledger.sign(digest, truth.text, truth.value, True)
        else:
            entry = ledger.sign(digest, text, value, True)
        ledger.vouch(entry, text)
        return entry


_ERROR = re.compile(r"\W*(?:tool )?(?:\w*error|\w*exception|traceback)\b", re.IGNORECASE)


def is_error(text: str) -> bool:
    """Return whether a tool's text is an error: it begins so, or is an object with a true `error` or `isError`, or an envelope
    (see `unwrapped`) whose status says so.
    """
    value = read_result(text)
    if isinstance(value, dict):
        if value.get("error") or value.get("isError"):
            return True
        return _is_envelope(value) and (value.get("status") in _FAILED or value.get("ok") is False or value.get("success") is False)
    return _ERROR.match(text) is not None


_INSIDE = ("data", "result", "output", "value", "content", "text")
_BESIDE = frozenset({"status", "ok", "success", "error", "isError", "type", "id", "name", "tool", "tool_name", "tool_call_id"})
_FAILED = ("error", "failed", "failure")


def unwrapped(value: Any) -> object:
    """Return the content of an envelope: an object with one of `data`, `result`, `output`, … and otherwise only metadata, such as
    `{"status": "success", "data": 9}`, also as the only item of a list as in MCP. Other values are returned unchanged.
    """
    if isinstance(value, list) and len(value) == 1 and _is_envelope(value[0]):
        return unwrapped(value[0])
    if not _is_envelope(value):
        return value
    inner = next(value[name] for name in _INSIDE if name in value)
    return unwrapped(read_result(inner) if isinstance(inner, str) else inner)


def _is_envelope(value: object) -> bool:
    return isinstance(value, dict) and sum(name in value for name in _INSIDE) == 1 and value.keys() <= {*_INSIDE, *_BESIDE}


def read_result(text: str) -> Any:
    """Return the value of a tool's text: its JSON value, parsed again if that is JSON text; else the text."""
    value: Any = text
    for _ in range(2):
        try:
            value = from_json(value)
        except ValueError:
            break
        if not isinstance(value, str):
            break
    return value


def same_result(a: object, b: object) -> bool:
    """Return whether two results are equal: numbers to nine digits, whatever their type; numeric text counts as a number."""
    a, b = (read_result(item) if isinstance(item, str) else item for item in (a, b))
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, int | float) and isinstance(b, int | float):
        try:
            return math.isclose(a, b, rel_tol=RELATIVE_ERROR)
        except OverflowError:  # an integer too large for a float
            return a == b
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same_result(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same_result, a, b))
    return bool(a == b)


logger = logger_of(__name__)


TrialKey = tuple[str, int, str]
"""Task, repeat and label of a trial."""


class SuiteTrial(WrappedModel):
    """A trial with its environment and counts.

    It is its scripted model, too, which accepts results of the program's own tools like those of the suite.
    """

    def __init__(self, key: TrialKey, task: Task, suite: Suite, profile: Profile, seed: int) -> None:
        _, self.repeat, self.label = key
        self.task = task
        self.suite = suite
        self.profile = profile
        self.environment = suite.open(task)
        self.tunnel = Tunnel()
        self.toolbox = MeteredToolbox(self.environment.tools, self.tool_call, self.tunnel)
        self.truth: dict[str, Truth] = {}
        script = script_of(task, self.truth, profile, seed, self.repeat, self.toolbox)
        super().__init__(Scripted(script, self.tunnel))
        self.own_tools = ForeignResults(self.tunnel)
        model = MeteredModel(self, Meter(), self.exchange, self.tunnel)
        self.served = ServedTrial(model.exchange, self.tunnel, {}, self.toolbox.names, self.recount)
        self.replayed: Mapping[str, Replayed] | None = None
        self.model_calls = self.replies = 0
        self.tool_calls = 0
        self.usage = Usage()
        self.answer: Any = None
        self.score: float | None = None

    async def prepare(self) -> Mapping[str, Replayed]:
        """Return the true results of the planned calls, by CALL digest. Raises ProviderError for a plan that does not replay."""
        if self.replayed is None:
            try:
                calls = await replay(self.task, self.suite)
            except ValueError as error:
                raise ProviderError(f"the plan does not replay: {error}", "bad_request") from None
            digests = {call.call_id: call_digest(call.tool, call.arguments) for call in calls}
            self.truth |= {call.call_id: Truth(digests[call.call_id], content_digest(call.text)) for call in calls}
            self.replayed = {digests[call.call_id]: call for call in calls}
        return self.replayed

    async def complete(self, request: Request) -> Reply:
        """Return the reply. Raises like the scripted model, and ProviderError for a plan that does not replay."""
        replayed = await self.prepare()
        reply = await self.model.complete(self.own_tools.with_receipts(request, replayed))
        if self.label.startswith("~"):  # the ids name the conversation, because its program names no trial
            begin = f"call_{self.label[1:]}_"
            reply = replace(reply, calls=tuple(replace(call, id=begin + call.id.removeprefix("call_")) for call in reply.calls))
        for call in reply.calls:
            self.own_tools.calls.setdefault(call.id, []).append(call)
        return reply

    def exchange(self, exchange: MeteredExchange) -> None:
        self.model_calls += 1
        self.replies += exchange.reply is not None
        if exchange.reply is not None and exchange.reply.usage is not None:
            self.usage += exchange.reply.usage

    def recount(self, usage: Usage, sent: Usage) -> None:
        self.usage = replace(self.usage, output_tokens=self.usage.output_tokens - usage.output_tokens + sent.output_tokens)

    def listed(self) -> ToolListing:
        """Return the tools as an MCP server of them lists them now."""
        return self.toolbox.listed()

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Observation:
        return await self.toolbox.call(ToolCall(name, arguments))

    def tool_call(self, call: ToolCall, seen: Observation, fault: str | None) -> None:
        self.tool_calls += 1
        self.own_tools.suite_calls.add(call_digest(call.name, call.arguments))

    def take(self, body: Mapping[str, object]) -> float:
        """Score the answer; the first one counts. Raises BadRequest."""
        if "answer" not in body:
            raise BadRequest("Missing required parameter: 'answer'.", "answer", "missing_required_parameter")
        if self.score is not None:
            raise BadRequest("This trial has its answer; a new label begins a new one.", "answer", "answered")
        judgement = Judgement(self.task, body["answer"], StopReason.FINISHED.value, self.environment.state())
        self.score = scores_of(judgement)["accuracy"]
        self.answer = body["answer"]
        return self.score

    def report(self) -> dict[str, Json]:
        self.tunnel.settle()
        faults = self.tunnel.faults
        return {
            "task": self.task.id,
            "repeat": self.repeat,
            "label": self.label,
            "profile": self.profile.name,
            "model_calls": self.model_calls,
            "tool_calls": self.tool_calls,
            "input_tokens": self.usage.input_tokens,
            "output_tokens": self.usage.output_tokens,
            "simulated_s": self.tunnel.simulated_s,
            "faults": {
                "scheduled": len(faults),
                "landed": sum(fault.landed for fault in faults),
                "absorbed": sum(fault.absorbed for fault in faults),
                "recovered": sum(fault.recovered for fault in faults),
                "implicit": sum(fault.landed and fault.kind in IMPLICIT for fault in faults),
                "believed": sum(fault.landed and fault.believed for fault in faults),
            },
            "injections": self.tunnel.instructions.counts(
                self.answer, abstained=self.score is not None and (self.answer is None or is_abstention(self.answer))
            ),
            "answered": self.score is not None,
            "answer": self.answer,
            "score": self.score,
        }

    def close(self) -> None:
        try:
            self.environment.close()
        except Exception as error:  # the results of the trial stay valid
            logger.warning("%s: closing its environment failed: %s: %s", self.task.id, type(error).__name__, error_text(error))
