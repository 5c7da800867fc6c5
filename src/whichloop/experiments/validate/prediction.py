"""What the tunnel predicts of a run's held-out tasks, written down with a digest before their results are read."""

from __future__ import annotations

import hashlib
import math
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from whichloop.datasets.task import Task
from whichloop.experiments.fit_profile.check import run_again
from whichloop.experiments.fit_profile.fit import fit_run, to_toml
from whichloop.metrics.record import Record
from whichloop.protocol.json_text import digest
from whichloop.runs.manifest import read_manifest
from whichloop.runs.store.files import RunError, read_document, write_document
from whichloop.runs.store.trials import each_record

FOLDER = "validity"
"""Below the run directory."""
PREDICTION = "prediction.json"
MIN_LOOPS = 3
TRIALS = 200
"""Of each loop in the tunnel, or fewer: so many that its mean is steadier than that of the run's half."""
VERSION = 2
"""Of the file. Version 1, which names none, has a digest of the profile's text, with the random name of the fitted run."""


def halves(units: Mapping[str, str], seed: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split tasks in halves, fitted and held out, by their names and the seed alone; tasks of one unit stay together.

    `units`: task → unit. Raises ValueError for fewer than two units.
    """
    ordered = sorted(set(units.values()), key=lambda unit: hashlib.sha256(f"{seed}/{unit}".encode("utf-8", "replace")).digest())
    if len(ordered) < 2:
        raise ValueError("a run needs two independent tasks or more to be split in halves")
    first = set(ordered[: len(ordered) // 2])
    return (
        tuple(sorted(task for task, unit in units.items() if unit in first)),
        tuple(sorted(task for task, unit in units.items() if unit not in first)),
    )


def prediction_digest(prediction: Mapping[str, Any]) -> str:
    """Return the digest of a prediction's JSON: since version 2 of the profile's values, and not of its remarks and description.

    Raises ValueError for a version that is not known, or a profile that is no TOML; KeyError.
    """
    content = {key: value for key, value in prediction.items() if key != "digest"}
    version = content.get("version", 1)
    if version not in (1, VERSION):
        raise ValueError(f"version {version!r}, and this tool knows 1 and {VERSION}")
    if version == 1:
        return digest(content)
    values = {key: value for key, value in tomllib.loads(content["profile"]).items() if key != "description"}
    return digest(content | {"profile": values})


@dataclass(frozen=True, slots=True)
class Predicted:
    """A prediction, with the trials in the tunnel that it is made of."""

    prediction: Mapping[str, Any]
    """As its file has it: the fitted `profile` as TOML; ids of the tasks `fitted` and `held_out`; `loops`, arm of the run → means
    over its trials, `accuracy`, `steps` and `errors` by kind; `version`, and `digest`, sha256 of all that is predicted."""
    arms: Mapping[str, str]
    """Arm of the run → arm under the profile."""
    records: tuple[Record, ...]


def predict(
    folder: Path, allow: Collection[str] = (), *, model: str | None = None, profile: str | None = None, seed: int = 0
) -> Predicted:
    """Fit a profile to the traces of half of a run's tasks, and run its loops under it on the other half.

    Of the held-out tasks only the names are read. `allow`: the user's own code that may be imported. `model`, `profile`: of the
    arms, where the run has several. `seed`: chooses the halves.
    Raises RunError for an imported run, fewer than three loops, or loops and tasks that cannot be run again; OSError.
    """
    try:
        fitted, held_out = halves(_units(folder), seed)
    except ValueError as error:
        raise RunError(f"{folder}: {error}") from None
    return _of_fitted(folder, (model, profile), fitted, _named(held_out), len(held_out), allow)


def predict_ahead(
    folder: Path, count: int, allow: Collection[str] = (), *, model: str | None = None, profile: str | None = None
) -> Predicted:
    """Fit a profile to all of a run, and run its loops under it on the next tasks of the suite, which no run has had yet.

    `count`: how many. A task of a cluster that the run has met is passed over. Else as `predict`.
    Raises RunError as `predict` does, and if the suite has fewer tasks left; OSError.
    """
    clusters = _units(folder)
    units = set(clusters.values())

    def next_ones(tasks: Sequence[Task]) -> Sequence[Task]:
        unused = [task for task in tasks if task.id not in clusters and str(task.labels.get("cluster", "")) not in units]
        if len(unused) < count:
            raise RunError(f"{folder}: --ahead is {count}, and the suite has {len(unused)} tasks that the run has not had")
        return unused[:count]

    return _of_fitted(folder, (model, profile), tuple(sorted(clusters)), next_ones, count, allow)


def predicted_before(folder: Path, file: Path, allow: Collection[str] = ()) -> Predicted:
    """Read a prediction that `register` has written, and run it in the tunnel again, for the trials that it is made of.

    `folder`: a run that has had the tasks since. `allow`: as in `predict`.
    Raises RunError for a file that is no prediction, for a run without its loops or tasks, and where the tunnel does
    other things than the prediction says; OSError.
    """
    had = _units(folder)
    try:
        written = read_document(file)
        profile, fitted = str(written["profile"]), tuple(map(str, written["fitted"]))
        held_out, arms = tuple(map(str, written["held_out"])), tuple(written["loops"])
        expected_digest = prediction_digest(written)
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{file}: no prediction of this tool ({error}); whichloop learn profile RUN --ahead N writes one") from None
    if lost := [task for task in held_out if task not in had]:
        raise RunError(f"{folder}: the run has not had {lost[0]}, which {file} predicts; run whichloop compare with more --tasks")
    if written.get("digest") != expected_digest:
        raise RunError(f"{file}: the digest is not that of the prediction, which was edited")
    predicted = _in_the_tunnel(folder, profile, arms, fitted, _named(held_out), len(held_out), allow)
    again = {**predicted.prediction, "version": written.get("version", 1)}
    if again | {"digest": expected_digest} != {"version": 1, **written}:
        raise RunError(f"{file}: the tunnel does other things by now: the prediction is of other loops, tasks or code")
    return replace(predicted, prediction=written)


def _units(folder: Path) -> dict[str, str]:
    """Return task → the unit that it belongs to: its cluster, or itself. Raises RunError for an imported run.

    Of the records nothing else is looked at.
    """
    if read_manifest(folder).imported is not None:
        raise RunError(f"{folder}: an imported run has no loops that could be run again; validate a run of this tool's")
    return {record.task: record.cluster or record.task for record in each_record(folder)}


Pick = Callable[[Sequence[Task]], Sequence[Task]]
"""Picks the tasks that the loops run in the tunnel."""


def _of_fitted(
    folder: Path, of: tuple[str | None, str | None], tasks: tuple[str, ...], pick: Pick, count: int, allow: Collection[str]
) -> Predicted:
    """Fit the profile to some tasks of arms of a model and profile, and run the loops under it on others.

    Raises RunError for fewer than three loops.
    """
    fitted = fit_run(folder, model=of[0], profile=of[1], tasks=frozenset(tasks))
    if len(fitted.arms) < MIN_LOOPS:
        raise RunError(f"{folder}: an order needs {MIN_LOOPS} loops or more, and this model has {len(fitted.arms)}")
    return _in_the_tunnel(folder, to_toml(fitted), fitted.arms, tasks, pick, count, allow)


def _named(ids: Collection[str]) -> Pick:
    return lambda tasks: [task for task in tasks if task.id in ids]


def _in_the_tunnel(
    folder: Path, profile: str, of_arms: Sequence[str], fitted: tuple[str, ...], pick: Pick, count: int, allow: Collection[str]
) -> Predicted:
    with tempfile.TemporaryDirectory() as scratch:
        arms, records, _ = run_again(folder, profile, of_arms, allow, Path(scratch), pick, TRIALS // max(1, count))
    loops = {arm: _mean_of([record for record in records if record.arm == name]) for arm, name in arms.items()}
    held_out = sorted({record.task for record in records})
    said = {"version": VERSION, "profile": profile, "fitted": [*fitted], "held_out": held_out, "loops": loops}
    return Predicted(said | {"digest": prediction_digest(said)}, arms, records)


def _mean_of(records: Sequence[Record]) -> dict[str, Any]:
    """Return what a loop's trials predict of it. Raises RunError if no trial was scored."""
    scored = [record for record in records if record.status == "scored"]
    if not scored:
        raise RunError("no held-out task was scored in the tunnel; the scripted model needs plans for them")
    errors: Counter[str] = Counter()
    for record in scored:
        errors.update(record.errors)
    return {
        "accuracy": math.fsum(record.accuracy for record in scored) / len(scored),
        "steps": math.fsum(record.steps for record in scored) / len(scored),
        "errors": {kind: count / len(scored) for kind, count in sorted(errors.items())},
    }


def register(folder: Path, prediction: Mapping[str, Any], *, replace: bool = False) -> Path:
    """Write a prediction below its run, and return the file.

    Raises RunError if another prediction stands there already, unless `replace`; OSError.
    """
    path = folder / FOLDER / PREDICTION
    if path.exists() and not replace:
        try:
            before = read_document(path).get("digest")
        except (ValueError, AttributeError) as error:
            raise RunError(f"{path}: no prediction of this tool ({error}); --again writes a new one") from None
        if before != prediction["digest"]:
            raise RunError(f"{path}: another prediction was made before ({before}); --again replaces it")
        return path
    path.parent.mkdir(exist_ok=True)
    write_document(path, prediction)
    return path
