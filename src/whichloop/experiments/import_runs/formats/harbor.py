"""Jobs of Harbor: a folder (or a zip of one) in which each trial has a `result.json` and, if its agent writes one, a trajectory.

Written by harbor 0.26.0 and earlier. A trial of several steps has a trajectory for each, which follow each other here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from whichloop.experiments.import_runs.foreign_file import FileTree
from whichloop.experiments.import_runs.foreign_trials import LogBuilder
from whichloop.experiments.trace_formats.atif import NEVER_TOLD, AtifTrajectory, read_trajectory
from whichloop.experiments.trace_formats.conversation import ConversationItem, events_of, untold_of
from whichloop.protocol import StopReason

from ..foreign_file import ForeignFile, parse_json
from ..foreign_trials import ForeignArm, ForeignLog, ForeignTrace, ForeignTrial, Format, ReadingOptions
from ..values import (
    answer_of,
    count,
    located,
    mapping,
    name_of,
    names_in_a_line,
    number_from_zero,
    object_at,
    objects_at,
    reason_line,
    score,
)
from .atif import measurements_of, trace_of, whole_trajectory

RESULT, TRAJECTORY = "result.json", "agent/trajectory.json"
STOPS: Mapping[str, StopReason] = {
    "AgentTimeoutError": StopReason.TIMEOUT,
    "ContextWindowExceededError": StopReason.CONTEXT_OVERFLOW,
    "ContextLengthExceededError": StopReason.CONTEXT_OVERFLOW,
    "NonZeroAgentExitCodeError": StopReason.CRASHED,
}
"""Type of an exception that leaves the reward valid → stop."""
_Trajectory = tuple[Mapping[str, Any], AtifTrajectory]
"""A trajectory's document, and what is read from it."""
_TRIAL = re.compile(rf"(.*/)?{RESULT}")


def recognizes(file: ForeignFile) -> bool:
    return file.tree is not None and any(_TRIAL.fullmatch(name) for name in file.tree.names)


def read(file: ForeignFile, reading: ReadingOptions) -> ForeignLog:
    """Read the trials of a job, or of several below one folder. Raises ValueError that names the file."""
    if file.tree is None:
        raise ValueError("not a folder or a zip of one")
    job = _Job(file.tree, reading)
    for name in file.tree.names:
        if _TRIAL.fullmatch(name):
            raw = file.tree.read(name)
            with located(name):
                data = mapping(parse_json(raw), "the result")
                if "task_name" in data and "trial_name" in data:  # a job's own result has neither
                    job.add(name.removesuffix(RESULT), data)
    return job.log_builder.log(by="harbor")


FORMAT = Format("harbor", recognizes, read)


@dataclass(slots=True)
class _Job:
    """The trials read so far."""

    tree: FileTree
    reading: ReadingOptions
    log_builder: LogBuilder = field(default_factory=lambda: LogBuilder("harbor"))

    def add(self, folder: str, data: Mapping[str, Any]) -> None:
        arm = _arm(object_at(data, "agent_info"))
        task = name_of(data.get("task_name"), "task_name")
        checksum = data.get("task_checksum")
        suite = "adhoc" if data.get("source") is None else name_of(data["source"], "source")
        value, rest = self._score(data)
        error = next(iter(_exceptions(data)), {})
        is_valid = value is not None and data.get("reward_valid", True) is not False
        trajectories = self._trajectories(folder, data)
        measures = {name: one for name, one in _measurements_of(data, trajectories).items() if one is not None}
        kind = str(error.get("exception_type", ""))
        measures["stop"] = (
            STOPS.get(kind, StopReason.TERMINATED if is_valid else StopReason.CRASHED) if error else measures.get("stop")
        )
        trial = ForeignTrial(
            arm.name,
            task,
            self.log_builder.next_repeat(arm.name, task),
            status="scored" if is_valid else "errored",
            reason="" if is_valid else reason_line(f"{kind}: {error.get('exception_message', '')}" if error else "no reward"),
            score=value if is_valid else None,
            scores=rest,
            trace=_trace(trajectories),
            **measures,
        )
        self.log_builder.add(arm, trial, checksum if isinstance(checksum, str) else "", suite)

    def _score(self, data: Mapping[str, Any]) -> tuple[float | None, dict[str, float]]:
        """Return the reward that is the accuracy, and the others. Raises ValueError if it is not clear which it is."""
        rewards = object_at(object_at(data, "verifier_result"), "rewards")
        wanted = self.reading.scorer or ("reward" if "reward" in rewards or len(rewards) != 1 else next(iter(rewards)))
        if rewards and wanted not in rewards:
            raise ValueError(
                f"rewards are {names_in_a_line(list(rewards))}; say which is the accuracy: --scorer {next(iter(rewards))}"
            )
        if rewards:
            self.log_builder.scorers.add(wanted)
        others = {name: score(value, None) for name, value in rewards.items() if name != wanted and _is_share(value)}
        return score(rewards.get(wanted), self.reading.scale), {name: value for name, value in others.items() if value is not None}

    def _trajectories(self, folder: str, data: Mapping[str, Any]) -> Sequence[_Trajectory]:
        steps = [f"steps/{step.get('step_name')}/" for step in objects_at(data, "step_results", "a step")]
        trajectories = []
        for name in (f"{folder}{step}{TRAJECTORY}" for step in (steps or [""])):
            if name in self.tree:
                raw = self.tree.read(name)
                with located(name):
                    first = mapping(parse_json(raw), "the trajectory")
                document, remark = whole_trajectory(name, first, self.tree)
                self.log_builder.notes += [remark] if remark else []
                with located(name):
                    trajectories.append((document, read_trajectory(document)))
        return trajectories


def _trace(trajectories: Sequence[_Trajectory]) -> ForeignTrace | None:
    """Return the trace of a trial; of several steps one after the other."""
    if len(trajectories) < 2:
        return trace_of(*trajectories[0]) if trajectories else None
    items: list[ConversationItem] = [item for _, trajectory in trajectories for item in trajectory.items]
    events = events_of(items)
    return ForeignTrace(events, trajectories[0][1].query, untold=tuple(sorted({*NEVER_TOLD, *untold_of(events)})))


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and 0 <= value <= 1


def _arm(agent: Mapping[str, Any]) -> ForeignArm:
    name, model = name_of(agent.get("name"), "agent_info.name"), object_at(agent, "model_info").get("name")
    version = agent.get("version")
    options = {} if version is None else {"version": name_of(version, "agent_info.version")}
    if model is None:
        return ForeignArm(name, loop=name, options=options)
    model_name = name_of(model, "model_info.name")
    return ForeignArm(f"{name}/{model_name}", loop=name, options=options, model=model_name)


def _exceptions(data: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield what went wrong in the trial, and then in its steps."""
    for holder in (data, *objects_at(data, "step_results", "a step")):
        if holder.get("exception_info") is not None:
            yield object_at(holder, "exception_info")


def _measurements_of(data: Mapping[str, Any], trajectories: Sequence[_Trajectory]) -> dict[str, Any]:
    """Return what the result says of tokens, cost and time, and else the trajectory."""
    measures: dict[str, Any] = dict(measurements_of(trajectories[-1][1])) if trajectories else {}
    if len(trajectories) > 1:  # the last step's totals are not the trial's
        measures = {"answer": measures["answer"], "stop": measures["stop"]}
    agents = [
        object_at(data, "agent_result"),
        *(object_at(step, "agent_result") for step in objects_at(data, "step_results", "a step")),
    ]
    for ours, theirs, read_value in (
        ("input_tokens", "n_input_tokens", count),
        ("output_tokens", "n_output_tokens", count),
        ("cached_tokens", "n_cache_tokens", count),
        ("cost_usd", "cost_usd", number_from_zero),
    ):
        values = [value for agent in agents if (value := read_value(agent.get(theirs), theirs)) is not None]
        if values:
            measures[ours] = sum(values)
    timing = object_at(data, "agent_execution")
    measures["seconds"] = _between(timing.get("started_at"), timing.get("finished_at")) or measures.get("seconds")
    return measures | {"answer": answer_of(measures.get("answer"))}


def _between(start: Any, end: Any) -> float | None:
    """Return the seconds between two times in ISO 8601; None if one is missing or cannot be read."""
    try:
        return max((datetime.fromisoformat(str(end)) - datetime.fromisoformat(str(start))).total_seconds(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None
