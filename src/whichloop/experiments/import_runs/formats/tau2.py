"""Results of tau2-bench: a file with its simulations, or a folder (or a zip of one) with `results.json` and `simulations/ID.json`.

A simulation says how it ended, what the agent cost, and of each result whether the call failed; arguments are parsed, and failed
requests are left out. Calls that the simulated user makes are not the agent's, and neither are their results.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from whichloop.protocol import StopReason
from whichloop.protocol.json_text import digest

from ..chats import read_chat
from ..conversation import ConversationItem, ModelTurn
from ..foreign_file import FileTree, FolderTree, ForeignFile
from ..foreign_trials import ForeignArm, ForeignLog, ForeignTrace, Format, ReadingOptions
from ..values import count, located, measures_in, name_of, object_at, objects_at, usage_in, without_floats

INFRASTRUCTURE = "infrastructure_error"
"""What ended a simulation that the benchmark itself leaves out, whatever reward a later grading gave it."""
STOPS: Mapping[str, StopReason] = {
    "user_stop": StopReason.FINISHED,
    "agent_stop": StopReason.FINISHED,
    "max_steps": StopReason.MAX_STEPS,
    "too_many_errors": StopReason.ERROR_VALVE,
    "timeout": StopReason.TIMEOUT,
    "context_window_exceeded": StopReason.CONTEXT_OVERFLOW,
}
"""The `termination_reason` → stop; any other one ended the simulation from outside."""
_SIMULATION = re.compile(r"((?:.*/)?)simulations/[^/]+\.json")
RESULTS = "results.json"


def recognizes(file: ForeignFile) -> bool:
    if file.tree is not None:
        return bool(_runs(file.tree))
    info = file.top_level.get("info")
    return isinstance(info, dict) and (isinstance(file.top_level.get("simulations"), list) or "agent_info" in info)


def read(file: ForeignFile, reading: ReadingOptions) -> ForeignLog:
    """Read results."""
    log = ForeignLog("tau2", reading)
    if file.tree is None and "simulations" in file.json_object:
        listed = objects_at(file.json_object, "simulations", "a simulation")
        simulations = ((f"simulation {number}", simulation) for number, simulation in enumerate(listed, 1))
        due = [_add(log, file.json_object, simulations)]
    else:
        tree = file.tree or FolderTree(file.path.parent)  # of a file they stand beside it
        due = [
            _add(log, tree.json_object(f"{folder}{RESULTS}"), ((name, tree.json_object(name)) for name in names))
            for folder, names in _runs(tree).items()
            if file.tree is not None or not folder
        ]
    if not due:
        raise ValueError("no simulations in it, and none in a folder beside it")
    log.due_repeats = max(due)
    return log


FORMAT = Format("tau2", recognizes, read)


def _runs(tree: FileTree) -> dict[str, list[str]]:
    """Return the folders in which results stand, and the names of their simulations."""
    found: dict[str, list[str]] = {}
    for match in filter(None, map(_SIMULATION.fullmatch, sorted(tree.names))):
        if f"{match[1]}{RESULTS}" in tree:
            found.setdefault(match[1], []).append(match[0])
    return found


def _add(log: ForeignLog, data: Mapping[str, Any], simulations: Iterable[tuple[str, Mapping[str, Any]]]) -> int:
    """Add the simulations of one run; return how many trials of a task were due."""
    info = object_at(data, "info")
    agent, domain = object_at(info, "agent_info"), object_at(info, "environment_info").get("domain_name")
    arm = ForeignArm.of(agent.get("implementation") or "agent", agent.get("llm") or "unknown", "agent_info.implementation")
    suite = "tau2" if domain is None else f"tau2-{name_of(domain, 'domain_name')}"
    tasks = objects_at(data, "tasks", "a task")
    questions = {name_of(task.get("id"), "a task's id"): digest(without_floats(task)) for task in tasks}
    for where, run in simulations:
        with located(where):
            reason, task = run.get("termination_reason"), name_of(run.get("task_id"), "task_id")
            ended = "no reason" if reason is None else name_of(reason, "termination_reason")
            items = _conversation(run)
            log.tell(
                run,
                arm,
                task,
                object_at(run, "reward_info").get("reward"),
                is_judged=ended != INFRASTRUCTURE,
                repeat=count(run.get("trial"), "trial") or 0,
                reason=f"no reward: {ended}",
                question=questions.get(task, ""),
                suite=suite,
                stop=None if reason is None else STOPS.get(ended, StopReason.TERMINATED),
                **measures_in(run, cost_usd="agent_cost", seconds="duration"),
                trace=ForeignTrace.of(items, ("provider", "wire")) if items else None,
            )
    log.questions |= {name: asked for name, asked in questions.items() if name not in log.questions}
    return count(info.get("num_trials"), "num_trials") or 1


def _conversation(run: Mapping[str, Any]) -> list[ConversationItem]:
    """Return what the messages that the agent wrote or got say, with tokens and seconds of the replies."""
    messages = [
        one
        for one in objects_at(run, "messages", "a message")  # not the user's own calls and their results
        if (one.get("requestor") != "user" if one.get("role") == "tool" else one.get("role") != "user" or not one.get("tool_calls"))
    ]
    replies = iter([message for message in messages if message.get("role") == "assistant"])
    items = list[ConversationItem]()
    for item in read_chat(messages):
        if isinstance(item, ModelTurn):
            message = next(replies, {})
            seconds = measures_in(message, seconds="generation_time_seconds")["seconds"] or 0.0
            item = replace(item, tokens=usage_in(object_at(message, "usage")), seconds=seconds)
        items.append(item)
    return items
