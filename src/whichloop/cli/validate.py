"""`whichloop validate`: how well the tunnel predicts a finished run."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from whichloop.experiments.validate.outcome import FOLDER, VALIDITY, Validity
from whichloop.experiments.validate.prediction import (
    Predicted,
    RunPrediction,
    ValidationRequest,
    predict,
    predict_ahead,
    predicted_before,
    register,
)
from whichloop.experiments.validate.validity import validity
from whichloop.protocol.values import counted
from whichloop.reports.html.files import write_page
from whichloop.reports.html.page import validity_html
from whichloop.runs.config import IfAbsent, Positive
from whichloop.runs.folders import trials_folder
from whichloop.runs.store.files import write_document
from whichloop.text.doc import Table
from whichloop.text.numbers import interval

from .console import out, say, show_table
from .options import AllowOption, JsonOption, OptionGroup, ReadRunChoice, with_options
from .process import own_prints_aside


class ValidateOptions(OptionGroup):
    model: str | None = None
    """Model whose arms are validated, if the run has several."""
    profile: str | None = None
    """Profile whose arms are validated, if the run has several."""
    seed: int = 0
    """Chooses the half of the tasks that the profile is fitted to."""
    again: Annotated[bool, typer.Option("--again")] = False
    """Replace a prediction that was made before."""
    ahead: Annotated[Positive | None, IfAbsent("half of the run's tasks are held out")] = None
    """Predict so many tasks of the suite that come after those of the run, and compare nothing: publish the prediction, then run
    these tasks."""
    prediction: Annotated[Path | None, IfAbsent("a prediction is made")] = None
    """Hold this prediction, which --ahead wrote, against the run, which has had the tasks since."""


@with_options()
def validate(choice: ReadRunChoice, options: ValidateOptions, code: AllowOption, output: JsonOption) -> None:
    """Say how well the tunnel predicts a run: fit to half of its tasks, held against the rest.

    It fits a profile to half of the run's tasks, runs the loops under it on the other half, and writes what they do there as the
    prediction. Only then it reads what the run's own model did. With --ahead it predicts tasks that no run has had yet.
    """
    if options.ahead is not None and options.prediction is not None:
        raise ValueError("--ahead writes a prediction, and --prediction reads one: give one of them")
    folder = trials_folder(choice.folder)
    with own_prints_aside():
        predicted = _predicted(folder, options, code.allow)
    written = register(folder, predicted.prediction, replace=options.again)
    if options.ahead is not None:
        _say_ahead(folder, predicted.prediction, written, as_json=output.as_json)
        return
    validity_result = validity(folder, predicted)
    write_document(folder / FOLDER / VALIDITY, validity_result.as_dict())
    page = write_page(validity_html(folder, validity_result), folder / FOLDER / "validity.html")
    if output.as_json:
        print(json.dumps({"run": str(folder.resolve())} | validity_result.as_dict(), ensure_ascii=True, allow_nan=False))
        return
    _print(validity_result)
    say(f"prediction {validity_result.digest[:12]} in {written}; page: {page}")


def _predicted(folder: Path, options: ValidateOptions, allow: Collection[str]) -> Predicted:
    request = ValidationRequest(options.model, options.profile, options.seed)
    if options.prediction is not None:
        return predicted_before(folder, options.prediction, allow)
    return predict(folder, request, allow) if options.ahead is None else predict_ahead(folder, request, options.ahead, allow)


def _say_ahead(folder: Path, prediction: RunPrediction, written: Path, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"run": str(folder.resolve()), "prediction": prediction.digest, "held_out": list(prediction.held_out)}))
        return
    rows = tuple((arm, f"{loop.accuracy:.2f}", f"{loop.steps:.1f}") for arm, loop in prediction.loops.items())
    show_table(Table("Predicted of the tasks to come", ("loop", "accuracy", "steps"), rows))
    tasks = len(prediction.fitted) + len(prediction.held_out)
    say(f"prediction {prediction.digest[:12]} in {written}: publish it before the tasks are run")
    say(f"then: whichloop extend {folder} --tasks {tasks}, and whichloop validate {folder} --prediction {written}")


def _print(validity: Validity) -> None:
    console = out()
    style = "green" if validity.verdict.startswith("Good") else "yellow"
    console.print(Text(validity.verdict, style=f"bold {style}"), soft_wrap=True)
    show_table(validity_table(validity))
    if validity.tau is not None:
        tau = validity.tau
        console.print(
            Text(f"Kendall's tau-b of the loops' accuracies: {tau.value:.2f} [{tau.low:.2f}, {tau.high:.2f}]."), soft_wrap=True
        )
    unknown = ", ".join(f"{kind} ({count})" for kind, count in validity.unknown_errors.items())
    if unknown:
        console.print(Text(f"Errors of the run that the tunnel never made: {unknown}."), soft_wrap=True)
    size = f"Fitted to {counted(validity.fitted_tasks, 'task')}, held against {counted(validity.held_out_tasks, 'other')}."
    brackets = "Brackets of accuracy are 95 % intervals; a difference that is OFF lies beyond its own."
    console.print(Text(f"{size} {brackets}"), soft_wrap=True)


def validity_table(validity: Validity) -> Table:
    """Return what was measured and predicted of each loop."""
    rows = []
    for loop, first in zip(validity.loops, range(0, len(validity.gaps), 3), strict=True):
        accuracy, steps, errors = validity.gaps[first : first + 3]
        differences = (f"{gap.between}{' OFF' if gap.is_off else ''}" for gap in (accuracy, steps, errors))
        rows.append((accuracy.loop, interval(loop.real, 2), interval(loop.predicted, 2), *differences))
    columns = ("loop", "run", "tunnel", "accuracy, run − tunnel", "steps", "errors")
    return Table("Held-out tasks: the run, and what the tunnel predicted", columns, tuple(rows))
