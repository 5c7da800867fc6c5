"""Runs of terminal-bench before Harbor: a folder (or a zip of one) in which each trial has a `results.json`.

A run's own `results.json` lists its trials, too: that file alone is enough, and in a folder it has those without a
file of their own.
Its agents log what they did each in a form of its own, if at all: there are no traces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from whichloop.experiments.import_runs.foreign_file import FileTree
from whichloop.experiments.import_runs.foreign_trials import LogBuilder
from whichloop.protocol import StopReason
from whichloop.protocol.digest import digest
from whichloop.protocol.values import counted

from ..foreign_file import ForeignFile, parse_json
from ..foreign_trials import ForeignArm, ForeignLog, ForeignTrial, Format, ReadingOptions
from ..values import count, json_array, located, mapping, name_of, reason_line

METADATA = "run_metadata.json"
STOPS: Mapping[str, StopReason] = {
    "agent_timeout": StopReason.TIMEOUT,
    "context_length_exceeded": StopReason.CONTEXT_OVERFLOW,
    "unset": StopReason.FINISHED,
    "none": StopReason.FINISHED,
}
"""The `failure_mode` → stop; any other one ended the trial from outside."""
_RESULTS = re.compile(r"(.*/)?([^/]*_)?results\.json")
_OF_TRIAL = frozenset({"task_id", "is_resolved"})
"""What the results of a trial have, and those of a run have not."""
_FoundTrial = tuple[str, Mapping[str, Any], Mapping[str, Any]]
"""Where a trial's results stand, the metadata of its run, and the results."""


def recognizes(file: ForeignFile) -> bool:
    if file.tree is not None:
        return any(_RESULTS.fullmatch(name) for name in file.tree.names)
    trials = file.top_level.get("results")
    return isinstance(trials, list) and bool(trials) and isinstance(trials[0], dict) and trials[0].keys() >= _OF_TRIAL


def read(file: ForeignFile, reading: ReadingOptions) -> ForeignLog:
    """Read the trials of a run, or of several below one folder. Raises ValueError that names the file."""
    log_builder, unjudged = LogBuilder("terminal-bench"), 0
    for where, run, data in _in_folder(file.tree) if file.tree else _listed_trials("", {}, file.json_object):
        with located(where):
            arm = _arm(run, file.path.stem if file.suffix else file.path.name)
            task = name_of(data.get("task_id"), "task_id")
            trial = _trial(data, arm.name, task, log_builder.next_repeat(arm.name, task))
            log_builder.add(arm, trial, digest(str(data.get("instruction", ""))))
            unjudged += trial.counts_as_failure
    if unjudged and not reading.errors_as_failures:
        log_builder.notes.append(
            f"{counted(unjudged, 'trial')} could not be judged; the leaderboard counts them as not solved: --errors-as-failures"
        )
    return log_builder.log(by="terminal-bench")


FORMAT = Format("terminal-bench", recognizes, read)


def _in_folder(tree: FileTree) -> Iterator[_FoundTrial]:
    """Yield each trial once, first those with a file of their own: a copy of a run within another one adds nothing."""
    results = {name: _object(tree, name) for name in tree.names if _RESULTS.fullmatch(name)}
    metadata = {_folder(name): _object(tree, name) for name in tree.names if name.endswith(METADATA)}
    of_trials = {name for name, data in results.items() if data.keys() >= _OF_TRIAL}
    identities: set[str] = set()
    for name in sorted(results, key=lambda name: name not in of_trials):
        run = metadata.get(max((folder for folder in metadata if name.startswith(folder)), key=len, default=""), {})
        has_files = any(trial.startswith(_folder(name)) for trial in of_trials)
        for where, _, data in [(name, run, results[name])] if name in of_trials else _listed_trials(name, run, results[name]):
            identity = str(data["id"]) if "id" in data else (where if name in of_trials or not has_files else None)
            if identity is not None and identity not in identities:
                identities.add(identity)
                yield where, run, data


def _listed_trials(name: str, run: Mapping[str, Any], data: Mapping[str, Any]) -> Iterator[_FoundTrial]:
    """Yield the trials that a run's own results list."""
    with located(name or "the file"):
        trials = json_array(data.get("results", ()), "results")
    for number, trial in enumerate(trials):
        where = f"{name}: results[{number}]" if name else f"results[{number}]"
        yield where, run, mapping(trial, where)


def _folder(name: str) -> str:
    """Return the folder that a file is in, with a `/` behind it; empty for the outermost one."""
    return name[: name.rfind("/") + 1]


def _object(tree: FileTree, name: str) -> Mapping[str, Any]:
    raw = tree.read(name)
    with located(name):
        return mapping(parse_json(raw), "the file")


def _arm(run: Mapping[str, Any], folder: str) -> ForeignArm:
    agent, model = run.get("agent_name"), run.get("model_name")
    name = name_of(folder if agent is None else agent, "agent_name")
    if model is None:
        return ForeignArm(name, loop=name)
    model_name = name_of(model, "model_name")
    return ForeignArm(f"{name}/{model_name}", loop=name, model=model_name)


def _trial(data: Mapping[str, Any], arm: str, task: str, repeat: int) -> ForeignTrial:
    resolved, mode = data.get("is_resolved"), str(data.get("failure_mode", "unset"))
    is_scored = isinstance(resolved, bool)
    return ForeignTrial(
        arm,
        task,
        repeat,
        status="scored" if is_scored else "errored",
        reason="" if is_scored else reason_line(f"not judged: {mode}"),
        score=float(resolved) if isinstance(resolved, bool) else None,
        counts_as_failure=not is_scored,
        stop=STOPS.get(mode, StopReason.TERMINATED),
        input_tokens=_known_count(data.get("total_input_tokens")),
        output_tokens=_known_count(data.get("total_output_tokens")),
    )


def _known_count(tokens: Any) -> int | None:
    """Return a count; 0 stands for agents that do not count their tokens."""
    return count(tokens, "tokens") or None
