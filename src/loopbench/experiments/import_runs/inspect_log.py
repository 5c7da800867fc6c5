"""Logs of Inspect (UK AI Security Institute), `.eval` and `.json`: format version 2, as inspect-ai 0.3 writes it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from loopbench.protocol.redact import redact

from .foreign_trials import ForeignLog, ForeignTrial, ReadingOptions, ToldArm
from .inspect_sample import Choice, asked_of, told
from .values import answer_of, count, cut, listed, located, mapping, name_of
from .zip_file import ZipArchive

HEADER, STARTED = "header.json", "_journal/start.json"
SAMPLES, SHELL = "samples/", "/sample.json"
MAX_LABEL_CHARS = 80
"""Of a solver's arguments in an arm's name; longer ones stand among its options alone."""


# --- the two kinds of file ---


def read_inspect_archive(file: IO[bytes], path: Path, sha256: str, reading: ReadingOptions) -> ForeignLog:
    """A `.eval` file. Raises ValueError in one line that says where it is no log."""
    archive = ZipArchive(file)
    if HEADER not in archive and STARTED not in archive:
        raise ValueError(f"a zip file, but no log of Inspect: it has no {HEADER}")
    header = _member(archive, HEADER if HEADER in archive else STARTED)
    return _log(header, _samples(archive), path, sha256, reading)


def read_inspect_json(data: Mapping[str, Any], path: Path, sha256: str, reading: ReadingOptions) -> ForeignLog:
    """A `.json` log, parsed. Raises ValueError in one line that says where it is no log."""
    samples = listed(data.get("samples"), "samples")
    return _log(data, (mapping(sample, "a sample") for sample in samples), path, sha256, reading)


def _member(archive: ZipArchive, name: str) -> Mapping[str, Any]:
    return mapping(_parsed(archive, name), name)


def _parsed(archive: ZipArchive, name: str) -> Any:
    try:
        return json.loads(archive.read(name))
    except RecursionError:
        raise ValueError(f"{name}: nested too deep") from None
    except ValueError as error:
        raise ValueError(f"{name}: {error}" if name not in str(error) else str(error)) from None


def _samples(archive: ZipArchive) -> Iterator[Mapping[str, Any]]:
    """Samples one after the other, whole or in chunks."""
    starts: dict[tuple[str, str], list[int]] = {}
    for match in filter(None, map(_CHUNK.fullmatch, archive.names)):
        starts.setdefault((match[1], match[2]), []).append(int(match[3]))
    for name in archive.names:
        if _WHOLE.fullmatch(name):
            yield _member(archive, name)
        elif name.startswith(SAMPLES) and name.endswith(SHELL):
            yield _from_chunks(archive, name.removesuffix(SHELL), starts)


_WHOLE = re.compile(rf"{SAMPLES}.+_epoch_\d+\.json", re.DOTALL)
_CHUNK = re.compile(rf"({SAMPLES}.+)/(events|messages|attachments)/(\d{{1,15}})\.json", re.DOTALL)


def _from_chunks(archive: ZipArchive, folder: str, starts: Mapping[tuple[str, str], Sequence[int]]) -> Mapping[str, Any]:
    """A sample whose long parts stand in members of their own, each named by the index of its first item."""

    def parts(kind: str) -> list[Any]:
        members = [f"{folder}/{kind}/{start}.json" for start in sorted(starts.get((folder, kind), ()))]
        return [item for name in members for item in listed(_parsed(archive, name), name)]

    sample = dict(_member(archive, f"{folder}{SHELL}"))
    if (name := f"{folder}/metadata.json") in archive:
        sample["metadata"] = _member(archive, name)
    attachments = {str(index): text for index, text in enumerate(parts("attachments"))}
    return sample | {"events": parts("events"), "messages": parts("messages"), "attachments": attachments}


# --- one log ---


def _log(
    header: Mapping[str, Any], samples: Iterator[Mapping[str, Any]], path: Path, sha256: str, reading: ReadingOptions
) -> ForeignLog:
    spec = mapping(header.get("eval"), "eval")
    arm = _arm(spec, mapping(header.get("plan"), "plan"))
    trials: list[ForeignTrial] = []
    asked = dict.fromkeys(_due(spec), "")
    choice = Choice(reading.scorer)
    for sample in samples:
        task = name_of(sample.get("id"), "a sample's id")
        epoch = count(sample.get("epoch"), f"sample {task}: epoch") or 1
        with located(f"sample {task}, epoch {epoch}"):
            trials.append(told(sample, (arm.name, task, epoch - 1), choice, reading))
            asked[task] = asked_of(sample)
    return ForeignLog(
        path=path,
        format="inspect",
        sha256=sha256,
        by=f"inspect_ai {cut(str(mapping(spec.get('packages'), 'packages').get('inspect_ai', '')), 20)}".strip(),
        suite=name_of(spec.get("task"), "eval.task"),
        arms=(arm,),
        trials=tuple(trials),
        asked=asked,
        scorer=choice.name(),
        repeats=max([count(mapping(spec.get("config"), "config").get("epochs"), "epochs") or 1, *(t.repeat + 1 for t in trials)]),
        unfinished="" if header.get("status") == "success" else f"the log ends with status {cut(str(header.get('status')), 20)}",
    )


def _due(spec: Mapping[str, Any]) -> list[str]:
    """Ids of the samples that were to be run, where the log says."""
    ids = listed(mapping(spec.get("dataset"), "dataset").get("sample_ids"), "sample_ids")
    return [name_of(one, "a sample's id") for one in ids]


def _arm(spec: Mapping[str, Any], plan: Mapping[str, Any]) -> ToldArm:
    """Solver with the arguments that were passed to it and to the task, and model: what the log says, whatever else is imported."""
    steps = [mapping(step, "a step of the plan").get("solver") for step in listed(plan.get("steps"), "plan.steps")]
    told = spec.get("solver") or "+".join(_short(step) for step in steps) or spec.get("task")
    loop = _short(name_of(told, "eval.solver"))
    model = name_of(spec.get("model"), "eval.model")
    options = {
        cut(name, MAX_LABEL_CHARS): value if isinstance(value, bool | int | float) else cut(redact(str(value)), MAX_LABEL_CHARS)
        for key in ("task_args_passed", "solver_args_passed")
        for name, value in mapping(spec.get(key), key).items()
        if isinstance(value, str | bool | int | float)
    }
    inside = ", ".join(f"{name}={value}" for name, value in options.items())
    label = f"{loop}({inside})" if inside and len(inside) <= MAX_LABEL_CHARS else loop
    return ToldArm(name_of(f"{label}/{model}", "the arm"), loop, {name: answer_of(value) for name, value in options.items()}, model)


def _short(name: Any) -> str:
    """A solver of Inspect's own without the package."""
    return cut(str(name), MAX_LABEL_CHARS).removeprefix("inspect_ai/")
