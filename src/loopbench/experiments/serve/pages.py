"""A suite's trials behind the HTTP server: any program, in any language, can be put in the tunnel.

The model answers under `/t/TASK/v1`, `/t/TASK,REPEAT/v1` or `/t/TASK,REPEAT,LABEL/v1`; a new label is a new trial. Without a trial
in the path the task is the one whose question stands in the request. Further pages run the suite's own tools and score the answer.
"""

from __future__ import annotations

import itertools
import re
from collections import OrderedDict
from typing import Any

from loopbench.datasets.task import Suite, Task
from loopbench.models.profiles import Profile, built_in_profiles, load_profile
from loopbench.models.server import OwnRequest, ServedTrial, UnknownModel, WrongMethod
from loopbench.models.wires.chat import ChatRequest
from loopbench.models.wires.fields import BadRequest
from loopbench.protocol import Request, Tool, ToolCall

from .trials import SuiteTrial, TrialKey

MODEL = "scripted"
MAX_TRIALS = 1_024
"""Trials whose state is kept; the one that was asked the longest ago goes first."""
MAX_REPEAT = 1_000_000
_CONVERSATION = re.compile(r"call_([0-9]{1,12})_")


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
        self._trials: OrderedDict[TrialKey, SuiteTrial] = OrderedDict()
        self._latest: dict[str, TrialKey] = {}
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

    def _key(self, name: str) -> TrialKey:
        """Raises LookupError."""
        task, _, rest = name.partition(",")
        repeat, _, label = rest.partition(",")
        if task not in self._tasks or (rest and not (repeat.isascii() and repeat.isdigit() and int(repeat[:8]) <= MAX_REPEAT)):
            raise LookupError(f"No trial '{name[:200]}': say TASK, TASK,REPEAT or TASK,REPEAT,LABEL; GET /tasks lists the tasks.")
        return TrialKey(task, int(repeat[:8] or 0), label)

    def _conversation(self, request: Request) -> TrialKey:
        """The trial of a program that names none: told by the ids of the calls that its conversation shows.

        One that shows none goes on with the task's latest if it has had a reply, or if the first request has only met failures so
        far: that is tried again. Otherwise a new one begins.
        """
        task = self._asked_about(request).id
        ids = [call_id for message in request.messages for call_id in (message.call_id, *(call.id for call in message.calls))]
        numbers = [match[1] for call_id in ids if (match := _CONVERSATION.match(call_id))]
        if numbers:
            return TrialKey(task, 0, f"~{numbers[-1]}")
        latest = self._latest.get(task)
        known = None if latest is None else self._trials.get(latest)
        has_begun = any(message.role in ("assistant", "tool") for message in request.messages)
        if latest is not None and known is not None and (has_begun or (known.model_calls and not known.replies)):
            return latest
        made = self._latest[task] = TrialKey(task, 0, f"~{next(self._numbers)}")
        return made

    def _asked_about(self, request: Request) -> Task:
        text = "\n".join(message.content for message in request.messages)
        found = next((task for task in self._by_length if task.query.text in text), None)
        if found is None:
            raise LookupError("The request holds no question of the suite: ask one of GET /tasks, or name it as /t/TASK/v1.")
        return found

    def _trial(self, key: TrialKey, profile: Profile) -> SuiteTrial:
        """Return the trial in its present state; begin it anew if it was under another profile."""
        known = self._trials.get(key)
        if known is not None and known.profile == profile:
            self._trials.move_to_end(key)
            return known
        self._drop(key)
        task = self._tasks[key.task]
        if task.quarantined or task.plan is None:
            why = task.quarantined or task.no_plan or "the suite gives no plan"
            raise LookupError(f"Task '{task.id}' cannot be asked of a scripted model: {why}")
        made = self._trials[key] = SuiteTrial(key, task, self.suite, profile, self.seed, self.real_time)
        while len(self._trials) > MAX_TRIALS:
            self._drop(next(iter(self._trials)))
        return made

    def _open(self, name: str) -> SuiteTrial:
        """Return the trial in its present state, under any profile, or a new one under the server's."""
        key = self._key(name)
        known = self._trials.get(key)
        return self._trial(key, self.profile if known is None else known.profile)

    def _begun(self, name: str) -> SuiteTrial:
        known = self._trials.get(self._key(name))
        if known is None:
            raise LookupError(f"Trial '{name[:200]}' has not begun.")
        return known

    def _drop(self, key: TrialKey) -> None:
        trial = self._trials.pop(key, None)
        if trial is not None:
            trial.close()

    def _listing(self) -> dict[str, Any]:
        """Return what there is to solve, but not how, nor what is right."""
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
