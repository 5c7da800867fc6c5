"""Runs of terminal-bench before Harbor: a folder (or a zip of one) in which each trial has a `results.json`.

Its agents log what they did each in a form of its own, if at all: there are no traces.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from loopbench.protocol import StopReason
from loopbench.protocol.digest import digest

from ..folder_tree import FileTree
from ..foreign_file import ForeignFile, parse_json
from ..foreign_trials import ForeignArm, ForeignLog, ForeignTrial, Format, ReadingOptions
from ..values import count, located, mapping, name_of, one_line

METADATA = "run_metadata.json"
STOPS: Mapping[str, StopReason] = {
    "agent_timeout": StopReason.TIMEOUT,
    "context_length_exceeded": StopReason.CONTEXT_OVERFLOW,
    "unset": StopReason.FINISHED,
    "none": StopReason.FINISHED,
}
"""The `failure_mode` → stop; any other one ended the trial from outside."""
_TRIAL = re.compile(r"(.*/)?results\.json")


def recognizes(file: ForeignFile) -> bool:
    return file.tree is not None and any(_TRIAL.fullmatch(name) for name in file.tree.names)


def read(file: ForeignFile, reading: ReadingOptions) -> ForeignLog:
    """Read the trials of a run, or of several below one folder. Raises ValueError that names the file."""
    if file.tree is None:
        raise ValueError("not a folder or a zip of one")
    metadata = {name.removesuffix(METADATA): _object(file.tree, name) for name in file.tree.names if name.endswith(METADATA)}
    arms: dict[str, ForeignArm] = {}
    trials: list[ForeignTrial] = []
    asked: dict[str, str] = {}
    repeats: Counter[tuple[str, str]] = Counter()
    for name in file.tree.names:
        if not _TRIAL.fullmatch(name):
            continue
        data = _object(file.tree, name)
        if "task_id" not in data or "is_resolved" not in data:  # a run's own results have neither
            continue
        with located(name):
            run = max((folder for folder in metadata if name.startswith(folder)), key=len, default="")
            arm = _arm(metadata.get(run, {}), file.path.name)
            task = name_of(data.get("task_id"), "task_id")
            arms.setdefault(arm.name, arm)
            trials.append(_trial(data, arm.name, task, repeats[arm.name, task]))
            repeats[arm.name, task] += 1
            asked[task] = digest(str(data.get("instruction", "")))
    return ForeignLog("terminal-bench", tuple(arms.values()), tuple(trials), asked, by="terminal-bench")


FORMAT = Format("terminal-bench", recognizes, read)


def _object(tree: FileTree, name: str) -> Mapping[str, Any]:
    raw = tree.read(name)
    with located(name):
        return mapping(parse_json(raw), "the file")


def _arm(run: Mapping[str, Any], folder: str) -> ForeignArm:
    agent, model = run.get("agent_name"), run.get("model_name")
    name = name_of(folder if agent is None else agent, "agent_name")
    if model is None:
        return ForeignArm(name, loop=name)
    known = name_of(model, "model_name")
    return ForeignArm(f"{name}/{known}", loop=name, model=known)


def _trial(data: Mapping[str, Any], arm: str, task: str, repeat: int) -> ForeignTrial:
    resolved, mode = data.get("is_resolved"), str(data.get("failure_mode", "unset"))
    is_scored = isinstance(resolved, bool)
    return ForeignTrial(
        arm,
        task,
        repeat,
        status="scored" if is_scored else "errored",
        reason="" if is_scored else one_line(f"not judged: {mode}"),
        score=float(resolved) if isinstance(resolved, bool) else None,
        stop=STOPS.get(mode, StopReason.TERMINATED),
        input_tokens=_known(data.get("total_input_tokens")),
        output_tokens=_known(data.get("total_output_tokens")),
    )


def _known(tokens: Any) -> int | None:
    """Return a count; 0 stands for agents that do not count their tokens."""
    return count(tokens, "tokens") or None
