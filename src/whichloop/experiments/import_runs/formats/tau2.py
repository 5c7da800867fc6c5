"""Result files of tau2-bench: simulations with their messages, as its `Results` are written.

A simulation says how it ended, what the agent cost, and of each result whether the call failed; arguments are parsed, and failed
requests are left out. Calls that the simulated user makes are not the agent's, and neither are their results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from whichloop.experiments.import_runs.values import usage_in
from whichloop.experiments.trace_formats.conversation import (
    CallResult,
    ConversationItem,
    ModelTurn,
    SaidToModel,
    beyond_parts_in,
    events_of,
    items_of,
)
from whichloop.protocol import StopReason
from whichloop.protocol.digest import digest

from ..foreign_file import ForeignFile
from ..foreign_trials import ForeignArm, ForeignLog, ForeignTrace, ForeignTrial, Format, ReadingOptions
from ..values import count, located, mapping, name_of, number_from_zero, object_at, objects_at, score, without_floats

STOPS: Mapping[str, StopReason] = {
    "user_stop": StopReason.FINISHED,
    "agent_stop": StopReason.FINISHED,
    "max_steps": StopReason.MAX_STEPS,
    "too_many_errors": StopReason.ERROR_VALVE,
    "timeout": StopReason.TIMEOUT,
}
"""The `termination_reason` → stop; any other one ended the simulation from outside."""


def recognizes(file: ForeignFile) -> bool:
    return isinstance(file.top_level.get("simulations"), list) and isinstance(file.top_level.get("info"), dict)


def read(file: ForeignFile, reading: ReadingOptions) -> ForeignLog:
    """Read a file of results. Raises ValueError that names the simulation and the message."""
    data = file.json_object
    info = object_at(data, "info")
    agent = object_at(info, "agent_info")
    model = name_of(agent.get("llm") or "unknown", "agent_info.llm")
    loop = name_of(agent.get("implementation") or "agent", "agent_info.implementation")
    arm = ForeignArm(f"{loop}/{model}", loop=loop, model=model)
    tasks = {name_of(task.get("id"), "a task's id"): task for task in objects_at(data, "tasks", "a task")}
    questions = {name: digest(without_floats(task)) for name, task in tasks.items()}
    trials: list[ForeignTrial] = []
    for number, simulation in enumerate(objects_at(data, "simulations", "a simulation"), 1):
        with located(f"simulation {number}"):
            trials.append(_trial(simulation, arm.name, reading))
            questions.setdefault(trials[-1].task, "")
    domain = object_at(info, "environment_info").get("domain_name")
    suite = "tau2" if domain is None else f"tau2-{name_of(domain, 'domain_name')}"
    return ForeignLog(
        suite, (arm,), tuple(trials), questions, by="tau2-bench", due_repeats=count(info.get("num_trials"), "num_trials") or 1
    )


FORMAT = Format("tau2", recognizes, read)


def _trial(run: Mapping[str, Any], arm: str, reading: ReadingOptions) -> ForeignTrial:
    task, repeat = name_of(run.get("task_id"), "task_id"), count(run.get("trial"), "trial") or 0
    reward = score(object_at(run, "reward_info").get("reward"), reading.scale)
    reason = run.get("termination_reason")
    stop = STOPS.get(str(reason), StopReason.TERMINATED)
    items = tuple(_items(run))
    query = next(
        (message.text for message in (item for item in _items(run) if isinstance(item, SaidToModel) and item.role == "user")), ""
    )
    return ForeignTrial(
        arm,
        task,
        repeat,
        status="errored" if reward is None else "scored",
        reason=f"no reward: {name_of(reason, 'termination_reason')}" if reward is None else "",
        score=reward,
        stop=stop if reason is not None else None,
        cost_usd=number_from_zero(run.get("agent_cost"), "agent_cost"),
        seconds=number_from_zero(run.get("duration"), "duration"),
        beyond_parts=beyond_parts_in(items),
        trace=ForeignTrace(events_of(items), query, untold=("provider", "wire")),
    )


def _items(run: Mapping[str, Any]) -> Iterator[ConversationItem]:
    """Yield what concerns the agent, with tokens and seconds of its replies."""
    messages = [message for message in objects_at(run, "messages", "a message") if _is_the_agents(message)]
    for message, item in zip(messages, items_of(messages, _result), strict=True):
        if isinstance(item, ModelTurn):
            seconds = number_from_zero(message.get("generation_time_seconds"), "generation_time_seconds")
            yield replace(item, tokens=usage_in(object_at(message, "usage")), seconds=seconds or 0.0)
        else:
            yield item


def _is_the_agents(message: Mapping[str, Any]) -> bool:
    """Tell whether the agent wrote or got a message: not the user's own calls and their results."""
    if message.get("role") == "tool":
        return message.get("requestor") != "user"
    return message.get("role") != "user" or not message.get("tool_calls")


def _result(message: Mapping[str, Any], text: str) -> CallResult:
    call_id, error = message.get("id"), mapping(message, "a message").get("error")
    failed = error if isinstance(error, bool) else None
    return CallResult(text, call_id if isinstance(call_id, str) else "", failed=failed, error_type="Error" if failed else None)
