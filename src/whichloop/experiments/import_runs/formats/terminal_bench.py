"""Runs of terminal-bench before Harbor: a folder (or a zip of one) in which each trial has a `results.json`.

A run's own `results.json` lists its trials, too: that file alone is enough, and in a folder it has those without a file of their
own. Its agents log what they did each in a form of its own, if at all: there are no traces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from whichloop.protocol import StopReason
from whichloop.protocol.json_text import digest

from ..foreign_file import FileTree, ForeignFile
from ..foreign_trials import ForeignArm, ForeignLog, Format, ReadingOptions
from ..values import located, measures_in, objects_at

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


def recognizes(file: ForeignFile) -> bool:
    if file.tree is not None:
        names = file.tree.names
        return any(map(_RESULTS.fullmatch, names)) and not any("simulations/" in name for name in names)
    trials = file.top_level.get("results")
    return isinstance(trials, list) and bool(trials) and isinstance(trials[0], dict) and trials[0].keys() >= _OF_TRIAL


def read(file: ForeignFile, reading: ReadingOptions) -> ForeignLog:
    """Read the trials of a run, or of several below one folder."""
    log, folder = ForeignLog("terminal-bench", reading), file.path.stem if file.suffix else file.path.name
    found = _in_folder(file.tree) if file.tree else _listed("", {}, file.json_object)
    for where, run, data in found:
        with located(where):
            resolved, mode = data.get("is_resolved"), str(data.get("failure_mode", "unset"))
            is_judged = isinstance(resolved, bool)
            counts = measures_in(data, input_tokens="total_input_tokens", output_tokens="total_output_tokens")
            told: dict[str, Any] = {name: number or None for name, number in counts.items()}  # 0: not counted
            log.tell(
                data,
                ForeignArm.of(run.get("agent_name") or folder, run.get("model_name"), "agent_name"),
                data.get("task_id"),
                resolved if is_judged else None,
                reason=f"not judged: {mode}",
                question=digest(str(data.get("instruction", ""))),
                stop=STOPS.get(mode, StopReason.TERMINATED) if is_judged else StopReason.CRASHED,
                **told,
            )
    return log


FORMAT = Format("terminal-bench", recognizes, read)


def _in_folder(tree: FileTree) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """Yield place, metadata of the run and results of each trial, once, those with a file of their own first."""
    results = {name: tree.json_object(name) for name in filter(_RESULTS.fullmatch, tree.names)}
    runs = {name.removesuffix(METADATA): tree.json_object(name) for name in tree.names if name.rpartition("/")[2] == METADATA}
    of_trials = {name for name, data in results.items() if data.keys() >= _OF_TRIAL}
    seen: set[str] = set()
    for name in sorted(results, key=lambda name: name not in of_trials):
        run = runs.get(max((folder for folder in runs if name.startswith(folder)), key=len, default=""), {})
        has_files = any(trial.startswith(name[: name.rfind("/") + 1]) for trial in of_trials)
        for where, _, data in [(name, run, results[name])] if name in of_trials else _listed(name, run, results[name]):
            identity = str(data["id"]) if "id" in data else where if name in of_trials or not has_files else ""
            if identity and identity not in seen:
                seen.add(identity)
                yield where, run, data


def _listed(
    name: str, run: Mapping[str, Any], data: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """Yield the trials that a run's own results list."""
    with located(name or "the file"):
        trials = objects_at(data, "results", "a trial of results")
    for number, trial in enumerate(trials):
        yield f"{name}: results[{number}]" if name else f"results[{number}]", run, trial
