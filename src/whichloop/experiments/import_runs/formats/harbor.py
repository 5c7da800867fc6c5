"""Jobs of Harbor: a folder (or a zip of one) in which each trial has a `result.json` and, if its agent writes one, a trajectory.

Written by harbor 0.26.0 and earlier. A trial of several steps has a trajectory for each, which follow each other here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from whichloop.protocol import StopReason

from ..foreign_file import FileTree, ForeignFile
from ..foreign_trials import ForeignArm, ForeignLog, ForeignTrace, Format, ReadingOptions
from ..values import count, located, name_of, names_in_a_line, number_from_zero, object_at, objects_at, other_scores
from .atif import NEVER_TOLD, Trajectory, seconds_between, whole_trajectory

RESULT, TRAJECTORY = "result.json", "agent/trajectory.json"
STOPS: Mapping[str, StopReason] = {
    "AgentTimeoutError": StopReason.TIMEOUT,
    "ContextWindowExceededError": StopReason.CONTEXT_OVERFLOW,
    "ContextLengthExceededError": StopReason.CONTEXT_OVERFLOW,
    "NonZeroAgentExitCodeError": StopReason.CRASHED,
}
"""Type of an exception that leaves the reward valid → stop."""
_TRIAL = re.compile(rf"(.*/)?{RESULT}")


def read(file: ForeignFile, reading: ReadingOptions) -> ForeignLog:
    """Read the trials of a job, or of several below one folder."""
    if file.tree is None:
        raise ValueError("not a folder or a zip of one")
    log = ForeignLog("harbor", reading)
    for name in filter(_TRIAL.fullmatch, file.tree.names):
        data = file.tree.json_object(name)
        if "task_name" in data and "trial_name" in data:  # a job's own result has neither
            with located(name):
                _add(log, file.tree, name.removesuffix(RESULT), data)
    return log


FORMAT = Format("harbor", lambda file: file.tree is not None and any(map(_TRIAL.fullmatch, file.tree.names)), read)


def _add(log: ForeignLog, tree: FileTree, folder: str, data: Mapping[str, Any]) -> None:
    steps, agent = objects_at(data, "step_results", "a step"), object_at(data, "agent_info")
    options = {} if agent.get("version") is None else {"version": name_of(agent["version"], "agent_info.version")}
    arm = ForeignArm.of(agent.get("name"), object_at(agent, "model_info").get("name"), "agent_info.name", options)
    rewards = object_at(object_at(data, "verifier_result"), "rewards")
    wanted = log.reading.scorer or ("reward" if "reward" in rewards or len(rewards) != 1 else next(iter(rewards)))
    if rewards and wanted not in rewards:
        raise ValueError(f"rewards are {names_in_a_line(list(rewards))}; say which is the accuracy: --scorer {next(iter(rewards))}")
    log.scorers |= {wanted} if rewards else set()
    is_valid = rewards.get(wanted) is not None and data.get("reward_valid", True) is not False
    error = next((object_at(one, "exception_info") for one in (data, *steps) if one.get("exception_info") is not None), {})
    trajectories = []
    for name in [f"{folder}steps/{step.get('step_name')}/{TRAJECTORY}" for step in steps] or [f"{folder}{TRAJECTORY}"]:
        if name in tree:
            with located(name):
                trajectories.append(Trajectory.read(whole_trajectory(log, name, tree.json_object(name), tree)))
    items = [item for trajectory in trajectories for item in trajectory.items]
    measures = _measurements(data, steps, trajectories)
    if error:
        by_default = StopReason.TERMINATED if is_valid else StopReason.CRASHED
        measures["stop"] = STOPS.get(str(error.get("exception_type", "")), by_default)
    log.tell(
        data,
        arm,
        data.get("task_name"),
        rewards.get(wanted),
        is_judged=data.get("reward_valid", True) is not False,
        reason=f"{error.get('exception_type', '')}: {error.get('exception_message', '')}" if error else "no reward",
        question=str(data.get("task_checksum") or ""),
        suite=data.get("source") or "adhoc",
        scores=other_scores({name: one for name, one in rewards.items() if name != wanted}),
        trace=trajectories[0].trace() if len(trajectories) == 1 else ForeignTrace.of(items, NEVER_TOLD) if items else None,
        **measures,
    )


def _measurements(
    data: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], trajectories: Sequence[Trajectory]
) -> dict[str, Any]:
    """Return what the result says of tokens, cost and time, and else the trajectory, if it is the only one."""
    measures = trajectories[-1].measurements() if trajectories else {}
    if len(trajectories) > 1:
        measures = {"answer": measures["answer"], "stop": measures["stop"]}
    agents = [object_at(one, "agent_result") for one in (data, *steps)]
    for name in ("input_tokens", "output_tokens", "cache_tokens"):
        values = [value for agent in agents if (value := count(agent.get(f"n_{name}"), f"n_{name}")) is not None]
        measures |= {name.replace("cache_", "cached_"): sum(values)} if values else {}
    costs = [cost for agent in agents if (cost := number_from_zero(agent.get("cost_usd"), "cost_usd")) is not None]
    measures |= {"cost_usd": math.fsum(costs)} if costs else {}
    timing = object_at(data, "agent_execution")
    seconds = seconds_between(timing.get("started_at"), timing.get("finished_at"))
    return measures | ({"seconds": seconds} if seconds else {})
