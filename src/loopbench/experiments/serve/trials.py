"""A suite's trials behind the HTTP server: any program, in any language, can be put in the tunnel.

The model answers under `/t/TASK/v1`, `/t/TASK,REPEAT/v1` or `/t/TASK,REPEAT,LABEL/v1`; a new label is a new trial. Without a trial
in the path the task is the one whose question stands in the request. Further pages run the suite's own tools and score the answer.
"""

from __future__ import annotations

import itertools
import logging
import math
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from loopbench.datasets.task import Suite, Task
from loopbench.datasets.validity import Replayed, replay
from loopbench.metrics.judgement import Judgement
from loopbench.metrics.scorers import scores_of
from loopbench.models.metering import MeteredToolbox
from loopbench.models.profiles import Profile, built_in_profiles, load_profile
from loopbench.models.receipts import Truth, call_digest, content_digest, sightings
from loopbench.models.scripted import Scripted
from loopbench.models.server import OwnRequest, ServedTrial, UnknownModel, WrongMethod
from loopbench.models.tunnel import Tunnel
from loopbench.models.wires.chat import ChatRequest
from loopbench.models.wires.fields import BadRequest
from loopbench.protocol import (
    Message,
    ModelError,
    NativeCall,
    Observation,
    ProviderError,
    Reply,
    Request,
    StopReason,
    Tool,
    ToolCall,
    Usage,
    WireError,
    WrappedModel,
)
from loopbench.protocol.values import error_text
from loopbench.protocol.wire import from_json, read_call
from loopbench.runs.trial.script import script_of

MODEL = "scripted"
MAX_TRIALS = 1_024
"""Trials whose state is kept; the one that was asked the longest ago goes first."""
MAX_REPEAT = 1_000_000
RELATIVE_ERROR = 1e-9
"""Within which two numbers are the same result."""

logger = logging.getLogger(__name__)


class SuiteTrials:
    """The trials of one suite, made as they are asked for. Not for several threads."""

    def __init__(self, suite: Suite, profile: Profile, seed: int = 0, *, real_time: bool = False) -> None:
        """`profile`: of the model named "scripted"; "scripted/NAME" has the built-in profile of that name."""
        self.suite = suite
        self.profile = profile
        self.seed = seed
        self.real_time = real_time
        self._tasks = {task.id: task for task in suite.tasks}
        self._by_length = sorted(suite.tasks, key=lambda task: len(task.query.text), reverse=True)
        self._trials: OrderedDict[_Key, _Trial] = OrderedDict()
        self._latest: dict[str, _Key] = {}
        """Task → its latest conversation without a trial's name."""
        self._numbers = itertools.count(1)

    def models(self) -> list[str]:
        """Names, the server's own profile first."""
        return [MODEL, *(f"{MODEL}/{name}" for name in built_in_profiles())]

    def find(self, trial: str | None, asked: ChatRequest) -> ServedTrial:
        """Raises LookupError for a trial or question that the suite does not have, UnknownModel for a model."""
        profile = self._profile(asked.model)
        if trial is not None:
            return self._trial(self._key(trial), profile).served
        return self._trial(self._conversation(asked.request), profile).served

    async def more(self, call: OwnRequest) -> Any:
        """`GET /tasks`, `GET /t/TRIAL`, `POST /t/TRIAL/answer`, `POST /t/TRIAL/tools/NAME`.

        Raises LookupError for any other page and for an unknown trial, BadRequest for a body that is not what the page wants, and
        WrongMethod.
        """
        match call.path:
            case ("tasks",):
                _only("GET", call)
                return self._listing()
            case ("t", name):
                _only("GET", call)
                return self._begun(name).report()
            case ("t", name, "answer"):
                _only("POST", call)
                return {"score": self._open(name).take(_object(call.body))}
            case ("t", name, "tools", tool):
                _only("POST", call)
                seen = await self._open(name).toolbox.call(ToolCall(tool, _object(call.body)))
                return seen.as_dict()
        raise LookupError(f"no page {'/'.join(('', *call.path))[:200]}; GET /tasks lists the trials")

    def close(self) -> None:
        """Close all environments."""
        for key in list(self._trials):
            self._drop(key)

    # --- trials ---

    def _profile(self, model: str) -> Profile:
        if model == MODEL:
            return self.profile
        family, _, name = model.partition("/")
        if family != MODEL or name not in built_in_profiles():
            raise UnknownModel(f"The model '{model[:200]}' does not exist; there are {', '.join(self.models())}.")
        return load_profile(name)

    def _key(self, name: str) -> _Key:
        """Raises LookupError."""
        task, _, rest = name.partition(",")
        repeat, _, label = rest.partition(",")
        if task not in self._tasks or (rest and not (repeat.isascii() and repeat.isdigit() and int(repeat[:8]) <= MAX_REPEAT)):
            raise LookupError(f"No trial '{name[:200]}': say TASK, TASK,REPEAT or TASK,REPEAT,LABEL; GET /tasks lists the tasks.")
        return _Key(task, int(repeat[:8] or 0), label)

    def _conversation(self, request: Request) -> _Key:
        """The trial of a program that names none: told by the ids of the calls that its conversation shows.

        One that shows none goes on with the task's latest if it has had a reply, or if the first request has only met failures so
        far: that is tried again. Otherwise a new one begins.
        """
        task = self._asked_about(request).id
        ids = [call_id for message in request.messages for call_id in (message.call_id, *(call.id for call in message.calls))]
        numbers = [match[1] for call_id in ids if (match := _CONVERSATION.match(call_id))]
        if numbers:
            return _Key(task, 0, f"~{numbers[-1]}")
        latest = self._latest.get(task)
        known = None if latest is None else self._trials.get(latest)
        has_begun = any(message.role in ("assistant", "tool") for message in request.messages)
        if latest is not None and known is not None and (has_begun or (known.model_calls and not known.replies)):
            return latest
        made = self._latest[task] = _Key(task, 0, f"~{next(self._numbers)}")
        return made

    def _asked_about(self, request: Request) -> Task:
        text = "\n".join(message.content for message in request.messages)
        found = next((task for task in self._by_length if task.query.text in text), None)
        if found is None:
            raise LookupError("The request holds no question of the suite: ask one of GET /tasks, or name it as /t/TASK/v1.")
        return found

    def _trial(self, key: _Key, profile: Profile) -> _Trial:
        """The trial as it stands; begun anew where it was under another profile."""
        known = self._trials.get(key)
        if known is not None and known.profile == profile:
            self._trials.move_to_end(key)
            return known
        self._drop(key)
        task = self._tasks[key.task]
        if task.quarantined or task.plan is None:
            why = task.quarantined or task.no_plan or "the suite gives no plan"
            raise LookupError(f"Task '{task.id}' cannot be asked of a scripted model: {why}")
        made = self._trials[key] = _Trial(key, task, self.suite, profile, self.seed, self.real_time)
        while len(self._trials) > MAX_TRIALS:
            self._drop(next(iter(self._trials)))
        return made

    def _open(self, name: str) -> _Trial:
        """The trial as it stands, under whatever profile; a new one under the server's."""
        key = self._key(name)
        known = self._trials.get(key)
        return self._trial(key, self.profile if known is None else known.profile)

    def _begun(self, name: str) -> _Trial:
        known = self._trials.get(self._key(name))
        if known is None:
            raise LookupError(f"Trial '{name[:200]}' has not begun.")
        return known

    def _drop(self, key: _Key) -> None:
        trial = self._trials.pop(key, None)
        if trial is not None:
            trial.close()

    def _listing(self) -> dict[str, Any]:
        """What there is to solve; nothing of how, or of what is right."""
        return {
            "suite": self.suite.name,
            "tasks": [self._entry(task) for task in self.suite.tasks if task.plan and not task.quarantined],
        }

    def _entry(self, task: Task) -> dict[str, Any]:
        environment = self.suite.open(task)
        try:
            tools = [_tool_as_dict(tool) for tool in environment.tools]
        finally:
            environment.close()
        query = task.query
        return {"trial": task.id, "question": query.text, "context": query.context, "schema": query.schema, "tools": tools}


@dataclass(frozen=True, slots=True)
class _Key:
    """Which trial."""

    task: str
    repeat: int = 0
    label: str = ""


class _Trial:
    """One trial's world, model and counts; the listener of its own toolbox."""

    def __init__(self, key: _Key, task: Task, suite: Suite, profile: Profile, seed: int, real_time: bool) -> None:
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
        self.served = ServedTrial(_TrialModel(Scripted(script, self.tunnel), self), self.tunnel, {}, self.toolbox.names)
        self.replayed: Mapping[str, Replayed] | None = None
        self.model_calls = self.replies = 0
        self.tool_calls = 0
        self.usage = Usage()
        self.answer: Any = None
        self.score: float | None = None

    async def prepare(self) -> Mapping[str, Replayed]:
        """What the planned calls truly give, by CALL digest. Raises ProviderError for a plan that does not replay."""
        if self.replayed is None:
            try:
                calls = await replay(self.task, self.suite)
            except ValueError as error:
                raise ProviderError(f"the plan does not replay: {error}", "bad_request") from None
            digests = {call.call_id: call_digest(call.tool, call.arguments) for call in calls}
            self.truth |= {call.call_id: Truth(digests[call.call_id], content_digest(call.text)) for call in calls}
            self.replayed = {digests[call.call_id]: call for call in calls}
        return self.replayed

    def exchange(self, request: Request, reply: Reply | None, error: ModelError | None, seconds: float, fault: str | None) -> None:
        self.model_calls += 1
        self.replies += reply is not None
        if reply is not None and reply.usage is not None:
            self.usage += reply.usage

    def tool_call(self, call: ToolCall, seen: Observation, fault: str | None) -> None:
        self.tool_calls += 1
        self.own_tools.not_own.add(call_digest(call.name, call.arguments))

    def take(self, body: Mapping[str, Any]) -> float:
        """Score the answer; the first one counts. Raises BadRequest."""
        if "answer" not in body:
            raise BadRequest("Missing required parameter: 'answer'.", "answer", "missing_required_parameter")
        if self.score is not None:
            raise BadRequest("This trial has its answer; a new label begins a new one.", "answer", "answered")
        judgement = Judgement(self.task, body["answer"], StopReason.FINISHED.value, self.environment.state())
        self.score = scores_of(judgement)["accuracy"]
        self.answer = body["answer"]
        return self.score

    def report(self) -> dict[str, Any]:
        """The trial so far."""
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
            },
            "answered": self.score is not None,
            "answer": self.answer,
            "score": self.score,
        }

    def close(self) -> None:
        try:
            self.environment.close()
        except Exception as error:  # what the trial gave stands all the same
            logger.warning("%s: closing its environment failed: %s: %s", self.task.id, type(error).__name__, error_text(error))


class _TrialModel(WrappedModel):
    """The trial's scripted model, to which results of the program's own tools are as good as those of the suite's."""

    def __init__(self, scripted: Scripted, trial: _Trial) -> None:
        super().__init__(scripted)
        self.trial = trial

    async def complete(self, request: Request) -> Reply:
        """Raises as the scripted model does, and ProviderError for a plan that does not replay."""
        replayed = await self.trial.prepare()
        own_tools = self.trial.own_tools
        shown = own_tools.signed(request, replayed)
        reply: Reply | None = None
        failure: ModelError | None = None
        try:
            reply = await self.model.complete(shown)
        except ModelError as error:
            failure = error
            raise
        finally:
            self.trial.exchange(request, reply, failure, 0.0, None)
        if self.trial.key.label.startswith("~"):
            reply = replace(reply, calls=tuple(self._named(call) for call in reply.calls))
        own_tools.heard(reply)
        return reply

    def _named(self, call: NativeCall) -> NativeCall:
        """With an id that tells the conversation: its program names no trial."""
        return replace(call, id=f"call_{self.trial.key.label[1:]}_{call.id.removeprefix('call_')}")


_CONVERSATION = re.compile(r"call_([0-9]{1,12})_")


@dataclass(slots=True)
class ForeignResults:
    """Receipts for results of tools that are not the suite's: a tool message serves that answers a call which the model made.

    A result that means the same as the suite's is the true one; of any other the model believes what it is told. An error is no
    result, except where the plan expects one. The program sees none of this: receipts stand in the model's view of the request.
    """

    tunnel: Tunnel
    made: dict[str, list[NativeCall]] = field(default_factory=dict)
    """The model's calls by id; a program that drops its history meets an id again."""
    receipts: dict[tuple[str, str], str] = field(default_factory=dict)
    """(CALL, text) → the receipt given, empty for an error."""
    not_own: set[str] = field(default_factory=set)
    """CALL digests of what the suite's own tools were asked for: their results have receipts, and their faults none."""

    def heard(self, reply: Reply) -> None:
        """The model has made these calls."""
        for call in reply.calls:
            self.made.setdefault(call.id, []).append(call)

    def signed(self, request: Request, replayed: Mapping[str, Replayed]) -> Request:
        """The request with receipts after the results in it; `replayed`: true results by CALL digest."""
        asked: dict[str, NativeCall] = {}
        messages = []
        for message in request.messages:
            asked |= {call.id: call for call in message.calls}
            messages.append(self._signed(message, asked.get(message.call_id), replayed) if message.role == "tool" else message)
        return request if list(request.messages) == messages else replace(request, messages=tuple(messages))

    def _signed(self, message: Message, shown: NativeCall | None, replayed: Mapping[str, Replayed]) -> Message:
        made = self.made.get(message.call_id)
        if not made or sightings(message.content):
            return message
        try:
            call = read_call(next((call for call in reversed(made) if call == shown), made[-1]))
        except WireError:  # the wire spoiled it: nothing can have come of it
            return message
        key = (call_digest(call.name, call.arguments), message.content)
        if key[0] in self.not_own:
            return message
        if key not in self.receipts:
            self.receipts[key] = self._receipt(*key, replayed.get(key[0]))
        return replace(message, content=f"{message.content} {self.receipts[key]}") if self.receipts[key] else message

    def _receipt(self, digest: str, text: str, true: Replayed | None) -> str:
        whole, ledger = read_result(text), self.tunnel.ledger
        value = unwrapped(whole)
        if true is not None and true.failed:
            expected = is_error(text) or isinstance(value, str)  # in whatever words a program tells it
            return ledger.sign(digest, true.text if expected else text, None if expected else value, False).receipt
        if is_error(text):
            return ""
        alike = true is not None and (same_result(whole, true.value) or same_result(value, true.value))
        if true is not None and (alike or text.strip() == true.text.strip()):
            return ledger.sign(digest, true.text, true.value, True).receipt
        return ledger.sign(digest, text, value, True).receipt


_ERROR = re.compile(r"\W*(?:\w*error|\w*exception|traceback)\b", re.IGNORECASE)


def is_error(text: str) -> bool:
    """Whether a tool's text tells of a failure: it begins so, or is an object with a true `error` or `isError`, or an envelope
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


def unwrapped(value: Any) -> Any:
    """What an envelope holds: an object of one of `data`, `result`, `output`, … and of nothing else but what is said about it, as
    `{"status": "success", "data": 9}`; also as the only item of a list, as MCP has it. Anything else is itself.
    """
    if isinstance(value, list) and len(value) == 1 and _is_envelope(value[0]):
        return unwrapped(value[0])
    if not _is_envelope(value):
        return value
    inner = next(value[name] for name in _INSIDE if name in value)
    return unwrapped(read_result(inner) if isinstance(inner, str) else inner)


def _is_envelope(value: Any) -> bool:
    return isinstance(value, dict) and sum(name in value for name in _INSIDE) == 1 and value.keys() <= {*_INSIDE, *_BESIDE}


def read_result(text: str) -> Any:
    """The value that a tool's text stands for: what it is as JSON, also where that is text that is JSON; else the text."""
    value: Any = text
    for _ in range(2):
        try:
            value = from_json(value)
        except ValueError:
            break
        if not isinstance(value, str):
            break
    return value


def same_result(one: Any, other: Any) -> bool:
    """Equal as results: numbers to nine digits, whatever their type; text that is a number is one."""
    one, other = (read_result(item) if isinstance(item, str) else item for item in (one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        try:
            return math.isclose(one, other, rel_tol=RELATIVE_ERROR)
        except OverflowError:  # a whole number beyond any float
            return one == other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same_result(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same_result, one, other))
    return bool(one == other)


def _tool_as_dict(tool: Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _only(method: str, call: OwnRequest) -> None:
    if call.method != method:
        raise WrongMethod(method)


def _object(body: Any) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise BadRequest("The body must be a JSON object.")
    return body
