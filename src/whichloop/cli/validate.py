"""`whichloop validate`: how well the tunnel predicts a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from whichloop.experiments.validate.doc import VALIDITY, ahead_doc, validity_doc
from whichloop.experiments.validate.prediction import (
    FOLDER,
    Predicted,
    ValidationRequest,
    predict,
    predict_ahead,
    predicted_before,
    register,
)
from whichloop.experiments.validate.validity import validity
from whichloop.reports.html.files import write_page
from whichloop.reports.html.page import validity_html
from whichloop.runs.config import IfAbsent, Positive
from whichloop.runs.folders import trials_folder
from whichloop.runs.store.files import write_document

from .console import say, show
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
        show(ahead_doc(folder, predicted.prediction, written), as_json=output.as_json)
        return
    found = validity(folder, predicted)
    write_document(folder / FOLDER / VALIDITY, found)
    doc = validity_doc({"run": str(folder.resolve()), **found})
    page = write_page(validity_html(folder, doc), folder / FOLDER / "validity.html")
    show(doc, as_json=output.as_json)
    say(f"prediction in {written}; page: {page}")


def _predicted(folder: Path, options: ValidateOptions, allow: list[str]) -> Predicted:
    request = ValidationRequest(options.model, options.profile, options.seed)
    if options.prediction is not None:
        return predicted_before(folder, options.prediction, allow)
    return predict(folder, request, allow) if options.ahead is None else predict_ahead(folder, request, options.ahead, allow)
