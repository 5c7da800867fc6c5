"""A suite's trials behind the HTTP server, for tunnel tests of programs in any language.

The model answers under `/t/TASK/v1`, `/t/TASK,REPEAT/v1` or `/t/TASK,REPEAT,LABEL/v1`; a new label is a new trial. Without a trial
in the path, the request's question selects the task. Further pages run the suite's own tools and score the answer.
"""

from __future__ import annotations

import itertools
import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from whichloop.datasets.task import Suite, Task
from whichloop.models.profiles import Profile, built_in_profiles, load_profile
from whichloop.models.server import OwnRequest, ServedTrial
from whichloop.models.wires.base import Refusal, WireRequest
from whichloop.protocol import Request
from whichloop.protocol.json_text import Json
from whichloop.protocol.names import SCRIPTED
from whichloop.protocol.redact import redact
from whichloop.text.output import plain_line

from .trials import SuiteTrial, TrialKey

MODEL = SCRIPTED
CALLS_IN = "native"
"""How the server writes calls, which decides what is met of a profile that has one for each form."""
MAX_TRIALS = 1_024
"""Maximum number of stored trials; the least recently used one is dropped first."""
MAX_REPEAT = 1_000_000
_CONVERSATION = re.compile(r"call_([0-9]{1,12})_")


class SuiteTrials:
    """The trials of one suite, created on demand. Not thread-safe."""

    def __init__(self, suite: Suite, profile: Profile, seed: int = 0) -> None:
        """Set up the trials; `profile` is for all models but "scripted/NAME", which has the built-in profile NAME."""
        self.suite = suite
        self.profile = profile
        self.seed = seed
        self._tasks = {task.id: task for task in suite.tasks}
        self._by_length = sorted(suite.tasks, key=lambda task: len(task.query.text), reverse=True)
        self._trials: OrderedDict[TrialKey, SuiteTrial] = OrderedDict()
        self._latest: dict[str, TrialKey] = {}
        """Task → its latest conversation without a trial name."""
        self._numbers = itertools.count(1)

    def models(self) -> tuple[str, ...]:
        """Return the model names, the server's own profile first. A name of another family is an alias of that one."""
        return (MODEL, *(f"{MODEL}/{name}" for name in built_in_profiles()))

    def find(self, trial: str | None, wire_request: WireRequest) -> ServedTrial:
        """Return the trial of a request. Raises LookupError for an unknown trial or question, Refusal for a model."""
        profile = self._profile(wire_request.model)
        if trial is not None:
            return self._trial(self._key(trial), profile).served
        return self._trial(self._conversation(wire_request.request), profile).served

    async def more(self, call: OwnRequest) -> Any:
        """Serve `GET /tasks`, `GET /t/TRIAL`, `POST /t/TRIAL/answer` and `POST /t/TRIAL/tools/NAME`.

        Raises LookupError for any other page and for an unknown trial, and Refusal for an invalid body or method.
        """
        match call.path:
            case ("tasks",):
                call.require("GET")
                return {
                    "suite": self.suite.name,
                    "tasks": [self._entry(task) for task in self.suite.tasks if task.plan and (not task.quarantined)],
                }
            case ("t", name):
                call.require("GET")
                if (trial := self._trials.get(self._key(name))) is None:
                    raise LookupError(f"Trial '{name[:200]}' has not begun.")
                return trial.report()
            case ("t", name, "answer"):
                call.require("POST")
                return {"score": self.open(name).take(call.fields)}
            case ("t", name, "tools", tool):
                call.require("POST")
                observation = await self.open(name).call(tool, call.fields)
                return observation.as_dict()
        raise LookupError(
            f"no page {'/'.join(('', *call.path))[:200]}; GET /tasks lists the trials; a client's base URL ends in /v1"
        )

    def close(self) -> None:
        for key in list(self._trials):
            self._drop(key)

    # --- trials ---

    def _profile(self, model: str) -> Profile:
        family, _, name = model.partition("/")
        if family != MODEL or not name:
            return self.profile
        if model not in self.models():
            problem = f"The model '{model[:200]}' does not exist; there are {', '.join(self.models())}."
            raise Refusal(404, problem, "model", "model_not_found")
        return load_profile(name).met_by(CALLS_IN)

    def _key(self, name: str) -> TrialKey:
        """Parse the name of a trial. Raises LookupError."""
        task, _, rest = name.partition(",")
        repeat, _, label = rest.partition(",")
        if task not in self._tasks or (rest and not (repeat.isascii() and repeat.isdigit() and int(repeat[:8]) <= MAX_REPEAT)):
            raise LookupError(f"No trial '{name[:200]}': say TASK, TASK,REPEAT or TASK,REPEAT,LABEL; GET /tasks lists the tasks.")
        return task, int(repeat[:8] or 0), label

    def _conversation(self, request: Request) -> TrialKey:
        """Return the trial of a request without a trial name, found by the call ids in its conversation.

        Without call ids it continues the task's latest trial if the request shows a reply, or if the first request has only failed
        so far and is now retried. Otherwise a new trial begins.
        """
        task = self._task_of(request).id
        ids = [call_id for message in request.messages for call_id in (message.call_id, *(call.id for call in message.calls))]
        numbers = [match[1] for call_id in ids if (match := _CONVERSATION.match(call_id))]
        if numbers:
            return task, 0, f"~{numbers[-1]}"
        latest = self._latest.get(task)
        trial = None if latest is None else self._trials.get(latest)
        has_begun = any(message.role in ("assistant", "tool") for message in request.messages)
        if latest is not None and trial is not None and (has_begun or (trial.model_calls and not trial.replies)):
            return latest
        key = self._latest[task] = (task, 0, f"~{next(self._numbers)}")
        return key

    def _task_of(self, request: Request) -> Task:
        text = "\n".join(message.content for message in request.messages)
        match = next((task for task in self._by_length if task.query.text in text), None)
        if match is None:
            raise LookupError("The request holds no question of the suite: ask one of GET /tasks, or name it as /t/TASK/v1.")
        return match

    def _trial(self, key: TrialKey, profile: Profile) -> SuiteTrial:
        """Return the trial in its present state; begin it anew if it was under another profile."""
        trial = self._trials.get(key)
        if trial is not None and trial.profile == profile:
            self._trials.move_to_end(key)
            return trial
        self._drop(key)
        task = self._tasks[key[0]]
        if task.quarantined or task.plan is None:
            reason = task.quarantined or task.no_plan or "the suite gives no plan"
            raise LookupError(f"Task '{task.id}' cannot be asked of a scripted model: {reason}")
        new_trial = self._trials[key] = SuiteTrial(key, task, self.suite, profile, self.seed)
        while len(self._trials) > MAX_TRIALS:
            self._drop(next(iter(self._trials)))
        return new_trial

    def open(self, name: str) -> SuiteTrial:
        """Return the trial in its present state, under any profile, or a new one under the server's."""
        key = self._key(name)
        trial = self._trials.get(key)
        return self._trial(key, self.profile if trial is None else trial.profile)

    def _drop(self, key: TrialKey) -> None:
        trial = self._trials.pop(key, None)
        if trial is not None:
            trial.close()

    def _entry(self, task: Task) -> dict[str, Json]:
        environment = self.suite.opened(task)
        try:
            tools: list[dict[str, Any]] = [
                {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.parameters}}
                for t in environment.tools
            ]
        finally:
            environment.close()
        query = task.query
        return {"trial": task.id, "question": query.text, "context": query.context, "schema": query.schema, "tools": tools}


MAX_CHARS = 400
MAX_REMEMBERED = 1_000


class LineHandler(logging.Handler):
    """Tells each thing that is logged once, as a short line without secrets."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._tell, self._told = tell, set[str]()

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        reason = "" if error is None else f": {type(error).__name__}: {error}"
        line = plain_line(redact(f"{record.getMessage()}{reason}"))[:MAX_CHARS]
        if line not in self._told:
            self._told = {line, *(self._told if len(self._told) < MAX_REMEMBERED else ())}
            self._tell(line)


API_KEY = "none"
"""Clients want some key, and the server takes any."""


def settings(url: str, model: str) -> Iterator[tuple[str, str]]:
    """Yield who takes a setting, and the setting. `url`: the server's, without a path, or with that of a trial."""
    chat = f"{url}/v1"
    yield "OpenAI's SDK, LangChain, most others", f"export OPENAI_BASE_URL={chat} OPENAI_API_KEY={API_KEY}"
    yield "LiteLLM, and what asks through it", f"export OPENAI_API_BASE={chat} OPENAI_API_KEY={API_KEY}  # model openai/{model}"
    yield "Anthropic's SDK, Claude Code", f"export ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY={API_KEY}"
    yield "Google's SDK, Gemini CLI", f"export GOOGLE_GEMINI_BASE_URL={url} GEMINI_API_KEY={API_KEY}"
    yield "DSPy", f'dspy.LM("openai/{model}", api_base="{chat}", api_key="{API_KEY}", cache=False)'
    yield "whichloop", f"whichloop compare --loop finish --model openai/{model} -s base_url={chat}"
