"""A served trial: its environment, its scripted model, and its counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from whichloop.datasets.task import Suite, Task
from whichloop.datasets.validity import Replayed, replay
from whichloop.metrics.answers import Judgement
from whichloop.metrics.scorers import is_abstention, scores_of
from whichloop.models.faults import IMPLICIT
from whichloop.models.metering import MeteredExchange, MeteredToolbox
from whichloop.models.profiles import Profile
from whichloop.models.receipts import Truth, call_digest, content_digest
from whichloop.models.scripted import Scripted
from whichloop.models.server import ServedTrial
from whichloop.models.tunnel import Tunnel
from whichloop.models.wires.fields import BadRequest
from whichloop.protocol import (
    ModelError,
    NativeCall,
    Observation,
    ProviderError,
    Reply,
    Request,
    StopReason,
    ToolCall,
    Usage,
    WrappedModel,
)
from whichloop.protocol.json_text import Json
from whichloop.protocol.redact import logger_of
from whichloop.protocol.tool_calls import ToolListing
from whichloop.protocol.values import error_text
from whichloop.runs.trial.trial_parts import script_of

from .foreign_results import ForeignResults

logger = logger_of(__name__)


@dataclass(frozen=True, slots=True)
class TrialKey:
    """The name of a trial."""

    task: str
    repeat: int = 0
    label: str = ""


class SuiteTrial:
    """A trial with its environment, model and counts; it is the listener of its own toolbox."""

    def __init__(self, key: TrialKey, task: Task, suite: Suite, profile: Profile, seed: int, real_time: bool) -> None:
        self.key = key
        self.task = task
        self.suite = suite
        self.profile = profile
        self.environment = suite.open(task)
        self.tunnel = Tunnel(real_time=real_time, slow_s=profile.slow_s)
        self.toolbox = MeteredToolbox(self.environment.tools, self, self.tunnel)
        self.truth: dict[str, Truth] = {}
        script = script_of(task, self.truth, profile, seed, key.repeat, self.toolbox)
        self.own_tools = ForeignResults(self.tunnel)
        model = _TrialModel(Scripted(script, self.tunnel), self)
        self.served = ServedTrial(model, self.tunnel, {}, self.toolbox.names, self.recount)
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
        """Run one of the suite's tools."""
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
        """Return the state of the trial so far."""
        self.tunnel.settle(self.truth)
        faults = self.tunnel.faults
        return {
            "task": self.key.task,
            "repeat": self.key.repeat,
            "label": self.key.label,
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
            "injections": self.tunnel.instructions.counts(self.answer, abstained=self._abstained),
            "answered": self.score is not None,
            "answer": self.answer,
            "score": self.score,
        }

    @property
    def _abstained(self) -> bool:
        return self.score is not None and (self.answer is None or is_abstention(self.answer))

    def close(self) -> None:
        try:
            self.environment.close()
        except Exception as error:  # the results of the trial stay valid
            logger.warning("%s: closing its environment failed: %s: %s", self.task.id, type(error).__name__, error_text(error))


class _TrialModel(WrappedModel):
    """The trial's scripted model, which accepts results of the program's own tools like those of the suite."""

    def __init__(self, scripted: Scripted, trial: SuiteTrial) -> None:
        super().__init__(scripted)
        self.trial = trial

    async def complete(self, request: Request) -> Reply:
        """Return the reply. Raises like the scripted model, and ProviderError for a plan that does not replay."""
        replayed = await self.trial.prepare()
        own_tools = self.trial.own_tools
        signed_request = own_tools.with_receipts(request, replayed)
        reply: Reply | None = None
        failure: ModelError | None = None
        try:
            reply = await self.model.complete(signed_request)
        except ModelError as error:
            failure = error
            raise
        finally:
            self.trial.exchange(MeteredExchange(request, reply, failure, 0.0))
        if self.trial.key.label.startswith("~"):
            reply = replace(reply, calls=tuple(self._named(call) for call in reply.calls))
        own_tools.add_reply(reply)
        return reply

    def _named(self, call: NativeCall) -> NativeCall:
        """Give a call an id that names the conversation, because its program names no trial."""
        return replace(call, id=f"call_{self.trial.key.label[1:]}_{call.id.removeprefix('call_')}")
