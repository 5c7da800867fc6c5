"""`whichloop learn`: from a run a fault profile of its model, or plans for its tasks; and how well such a profile predicts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .flags import LATEST, Allow, Json, Run, Runs, Verbose, one_of, only_with

if TYPE_CHECKING:
    from whichloop.experiments.fit_profile.fit import FittedProfile
    from whichloop.text.doc import Doc

PROFILE, HELD_OUT, PLANS = "profile", "profile --held-out", "plans"
"""Panels of the help."""


def learn(
    kind: Annotated[Literal["profile", "plans"], typer.Argument(metavar="profile|plans", help="What is learned.")],
    run: Run = LATEST,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="A .toml, or a .jsonl of plans.")] = None,
    force: Annotated[bool, typer.Option("--force", metavar="", help="Overwrite FILE.")] = False,
    check: Annotated[
        bool | None,
        typer.Option("--check/--no-check", metavar="", help="Run loops or plans again; profile: yes.", show_default=False),
    ] = None,
    arm: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Arms to use.", rich_help_panel=PROFILE)] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Model, of several.", rich_help_panel=PROFILE)] = None,
    profile: Annotated[str | None, typer.Option(metavar="NAME", help="Profile, of several.", rich_help_panel=PROFILE)] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the new profile.", rich_help_panel=PROFILE)] = None,
    held_out: Annotated[
        bool, typer.Option("--held-out", metavar="", help="Fit to half of the tasks, predict the rest.", rich_help_panel=HELD_OUT)
    ] = False,
    ahead: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Predict N tasks that no run has had.", rich_help_panel=HELD_OUT)
    ] = None,
    prediction: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Hold what --ahead wrote against RUN.", rich_help_panel=HELD_OUT)
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", metavar="", help="Replace an older prediction.", rich_help_panel=HELD_OUT)
    ] = False,
    any_order: Annotated[bool, typer.Option("--any-order", metavar="", help="The tools only read.", rich_help_panel=PLANS)] = False,
    allow: Allow = None,
    runs: Runs = Path("runs"),
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Learn from a run how often its model fails, or the calls that solve its tasks.

    With --held-out it says how well the scripted model predicts the run.
    """
    held = held_out or ahead is not None or prediction is not None
    one_of(ahead=ahead, prediction=prediction)
    only_with("profile", kind == "profile", arm=arm, model=model, profile=profile, name=name)
    only_with("profile", kind == "profile", held_out=held_out, ahead=ahead, prediction=prediction)
    only_with("--held-out", held, again=again)
    only_with("plans", kind == "plans", any_order=any_order)
    only_with("what is written, not --held-out", not held, output=output, force=force, check=check, arm=arm, name=name)
    from whichloop.runs.folders import run_folder, trials_folder

    from .console import check_writable, show
    from .process import own_prints_aside

    folder = trials_folder(run_folder(run, runs))
    ending = ".toml" if kind == "profile" else ".jsonl"
    if output is not None:
        if output.suffix != ending:
            raise ValueError(f"--output {output}: the file's name ends in {ending}")
        if output.exists() and not force:
            raise ValueError(f"--output {output}: exists; overwrite it with --force")
        check_writable("--output", output, "nothing was learned")
    if held:
        doc = _held_out(folder, {"model": model, "profile": profile}, ahead, prediction, allow or [], again=again)
    elif kind == "profile":
        from whichloop.experiments.fit_profile.fit import fit_run

        fitted = fit_run(folder, arms=arm or [], model=model, profile=profile, name=name)
        doc = _profile(folder, fitted, output, allow or [], check=check is not False)
    elif output is None:
        raise typer.BadParameter("plans need a file: --output FILE.jsonl")
    else:
        from whichloop.experiments.learn_plans.doc import learned_doc
        from whichloop.experiments.learn_plans.learn import learn_run, write_suite

        with own_prints_aside():
            learned = learn_run(folder, allow or [], check=bool(check), any_order=any_order)
        write_suite(learned, output)
        doc = learned_doc(learned, output)
    show(doc, as_json=as_json, verbose=verbose)


def _profile(folder: Path, fitted: FittedProfile, output: Path | None, allow: list[str], *, check: bool) -> Doc:
    """Check a fitted profile against its run, and write it."""
    from whichloop.experiments.fit_profile.check import check_fit
    from whichloop.experiments.fit_profile.doc import fit_doc
    from whichloop.experiments.fit_profile.fit import to_toml

    from .process import own_prints_aside

    with own_prints_aside():
        held = check_fit(folder, fitted, allow) if check else None
    if output is not None:
        output.write_text(to_toml(fitted), encoding="utf-8")
    return fit_doc(fitted, held, output)


def _held_out(
    folder: Path, of: dict[str, Any], ahead: int | None, prediction: Path | None, allow: list[str], *, again: bool
) -> Doc:
    """Register what a profile of one part of the tasks predicts of the others; then hold it against what the run did there."""
    from whichloop.experiments.validate.doc import VALIDITY, ahead_doc, validity_doc
    from whichloop.experiments.validate.prediction import FOLDER, predict, predict_ahead, predicted_before, register
    from whichloop.experiments.validate.validity import validity
    from whichloop.runs.store.files import write_document

    from .console import say
    from .process import own_prints_aside

    with own_prints_aside():
        if prediction is not None:
            predicted = predicted_before(folder, prediction, allow)
        elif ahead is not None:
            predicted = predict_ahead(folder, ahead, allow, **of)
        else:
            predicted = predict(folder, allow, **of)
    written = register(folder, predicted.prediction, replace=again)
    if ahead is not None:
        return ahead_doc(folder, predicted.prediction, written)
    found = validity(folder, predicted)
    write_document(folder / FOLDER / VALIDITY, found)
    say(f"prediction in {written}")
    return validity_doc({"run": str(folder.resolve()), **found})
