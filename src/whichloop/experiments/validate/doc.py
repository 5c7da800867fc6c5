"""What a validation found, and what is predicted of tasks to come, as documents."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whichloop.metrics.statistics import Interval
from whichloop.runs.store.files import RunError, read_document
from whichloop.text.doc import UNKNOWN, Cell, Doc, Table, lines_of
from whichloop.text.numbers import counts, interval, signed_interval

from .prediction import FOLDER
from .validity import MEASURES

VALIDITY = "validity.json"
"""Beside the prediction."""
VERDICTS: Mapping[str, str] = {
    "Poor": "loops are in another order in the tunnel",
    "Weak": "nothing speaks against the order of the loops, and little for it",
    "Order right, level wrong": "the order holds, and an accuracy is off",
    "Good": "the order holds, and no accuracy is off",
}


def validity_doc(found: Mapping[str, Any]) -> Doc:
    """Return what a validation found. `found`: as `validity` returns it. Raises KeyError, TypeError, ValueError."""
    tau = interval_of_json(found["tau"])
    off = [gap for gap in found["differences"] if gap["off"]]
    misplaced = [pair for pair in found["pairs"] if pair["misplaced"]]
    few = found["held_out_units"] < found["units_needed"]
    needed = f"{found['held_out_units']} independent tasks, and {found['units_needed']} or more can tell a pair of loops apart"
    pairs = [
        (
            pair["better"],
            pair["worse"],
            interval(interval_of_json(pair["real"]), 2),
            f"{pair['predicted']:+z.2f}",
            Cell("MISPLACED" if pair["misplaced"] else "", "bad"),
        )
        for pair in found["pairs"]
    ]
    lines = lines_of(
        ("Verdict", f"{found['verdict']}: {VERDICTS[found['verdict']]}"),
        ("Pairs", f"{len(pairs)} of {found['pairs_in_all']} told apart by the run, {len(misplaced)} misplaced by the tunnel"),
        ("tau-b", f"{interval(tau, 2)}, of the loops' accuracies"),
        ("Off", f"{len(off)} of {len(found['differences'])} differences"),
        ("Basis", f"fitted to {found['fitted_tasks']} tasks, held against {found['held_out_tasks']} others"),
        ("Warning", f"few tasks: {needed}" if few else ""),
        ("Warning", [f"misplaced: {pair['better']} is better than {pair['worse']} in the run" for pair in misplaced]),
        ("Warning", f"errors that the tunnel never made: {counts(found['unknown_errors'])}" if found["unknown_errors"] else ""),
        ("Prediction", found["prediction"]),
    )
    blocks = (
        _loops(found),
        Table("Pairs that the run tells apart", ("better", "than", "by", "in the tunnel by", ""), tuple(pairs)),
        lines,
    )
    return Doc("Held-out tasks: the run, and what the tunnel predicted", blocks, found)


def _loops(found: Mapping[str, Any]) -> Table:
    """Return what each loop did in the run and in the tunnel, and the differences."""
    rows: list[tuple[Cell | str, ...]] = []
    for place, loop in enumerate(found["loops"]):
        gaps = found["differences"][place * len(MEASURES) : (place + 1) * len(MEASURES)]
        sides = (interval(interval_of_json(loop[side]), 2) for side in ("real", "predicted"))
        differences: list[Cell] = []
        for gap in gaps:
            difference = interval_of_json(gap["difference"])
            text = UNKNOWN if difference is None else signed_interval(difference, 2)
            differences.append(Cell(f"{text} OFF", "bad") if gap["off"] else Cell(text))
        rows.append((gaps[0]["loop"], *sides, *differences))
    columns = ("loop", "run", "tunnel", "accuracy, run − tunnel", "steps", "errors")
    return Table("", columns, tuple(rows))


def interval_of_json(row: Mapping[str, Any] | None) -> Interval | None:
    """Return the interval that `Interval.as_dict` has written; None for None."""
    if row is None:
        return None
    low, high = (-math.inf if row["low"] is None else row["low"]), (math.inf if row["high"] is None else row["high"])
    return Interval(float(row["value"]), float(low), float(high), int(row["n"]), row.get("clusters"))


def read_validity(folder: Path) -> Doc | None:
    """Return what the last validation of a run found; None if there was none. Raises RunError for a damaged file."""
    path = folder / FOLDER / VALIDITY
    if not path.exists():
        return None
    try:
        return validity_doc(read_document(path))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise RunError(f"{path}: not what `whichloop learn profile --held-out` writes by now ({error!r}); run it again") from None


def ahead_doc(folder: Path, prediction: Mapping[str, Any], written: Path) -> Doc:
    """Return a prediction of tasks to come. `written`: its file."""
    rows = tuple((arm, f"{loop['accuracy']:.2f}", f"{loop['steps']:.1f}") for arm, loop in prediction["loops"].items())
    run, tasks = shlex.quote(str(folder)), len(prediction["fitted"]) + len(prediction["held_out"])
    lines = lines_of(
        ("Digest", prediction["digest"]),
        ("File", f"{written}; publish it before the tasks are run"),
        ("Next", f"whichloop resume {run} --tasks {tasks}"),
        ("Then", f"whichloop learn profile {run} --prediction {shlex.quote(str(written))}"),
    )
    data = {"run": str(folder.resolve()), "prediction": prediction["digest"], "held_out": prediction["held_out"]}
    return Doc("Predicted of the tasks to come", (Table("", ("loop", "accuracy", "steps"), rows), lines), data)
