"""`whichloop report`: what runs say, why trials were lost, how large a run has to be, and the card of a loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from .flags import LATEST, PRINTED, Allow, Json, Runs, Verbose, one_of, only_with

if TYPE_CHECKING:
    from whichloop.text.doc import Doc

WHY, SIZE, CARD = "Why trials were lost", "Size of a run", "Card of a loop"
"""Panels of the help."""


def report(
    run: Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", help="Directory, name in --runs, or `latest`.")] = None,
    arm: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Arm or loop that is asked about; twice for --why: a pair.")
    ] = None,
    why: Annotated[bool, typer.Option("--why", metavar="", help="What trials were lost to.", rich_help_panel=WHY)] = False,
    task: Annotated[str | None, typer.Option(metavar="TASK", help="This task alone.", rich_help_panel=WHY)] = None,
    size: Annotated[bool, typer.Option("--size", metavar="", help="Tasks that a decision takes.", rich_help_panel=SIZE)] = False,
    metric: Annotated[str | None, typer.Option(metavar="NAME", help="Measure, if not accuracy.", rich_help_panel=SIZE)] = None,
    margin: Annotated[float | None, typer.Option(metavar="NUMBER", help="Difference that matters.", rich_help_panel=SIZE)] = None,
    power: Annotated[float | None, typer.Option(metavar="SHARE", help="How sure, if not 0.8.", rich_help_panel=SIZE)] = None,
    card: Annotated[bool, typer.Option("--card", metavar="", help="What a loop is and does.", rich_help_panel=CARD)] = False,
    allow: Allow = None,
    form: Annotated[
        Literal["md", "csv", "html"] | None,
        typer.Option("--format", metavar="md|csv|html", help="Another form.", rich_help_panel=PRINTED),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="File for --format.", rich_help_panel=PRINTED)
    ] = None,
    runs: Runs = Path("runs"),
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Print what a run says, or several side by side.

    Exit code: 4 where no verdict holds, 1 where an optimizer failed.
    """
    one_of(why=why, size=size, card=card)
    one_of(json=as_json, format=form)
    only_with("--why, --size or --card", why or size or card, arm=arm)
    only_with("--why", why, task=task)
    only_with("--size", size, metric=metric, margin=margin, power=power)
    only_with("--card", card, allow=allow)
    only_with("--format", form, output=output)
    from whichloop.runs.folders import run_folder, trials_folder
    from whichloop.runs.store.files import PAGE
    from whichloop.text.doc import to_markdown

    from .console import check_writable, say, show
    from .render import write

    folders = [run_folder(name, runs) for name in run or [LATEST]]
    if len(folders) > 1 and (why or size or card):
        raise typer.BadParameter(f"RUN: one run at most, got {len(folders)}")
    if output is not None:
        check_writable("--output", output, "nothing was read")
    code, forms = 0, Forms()
    if why:
        doc = _why(trials_folder(folders[0]), arm or [], task, whole=verbose or form is not None, as_json=as_json)
    elif size:
        doc = _size(trials_folder(folders[0]), arm or [], metric, margin, power)
    elif card:
        doc = _card(trials_folder(folders[0]), arm or [], allow or [])
    else:
        doc, code, forms = _results(folders)
    forms["md"] = lambda: to_markdown(doc)
    if form is None:
        show(doc, as_json=as_json, verbose=verbose)
    elif form not in forms:
        raise typer.BadParameter(f"--format {form}: this has {', '.join(forms)} alone")
    elif form == "html":
        usual = folders[0] / PAGE if len(folders) == 1 else Path(PAGE)
        write(forms[form](), output or usual, usual)
    elif output is not None:
        output.write_text(forms[form](), encoding="utf-8")
        say(f"wrote {output}")
    else:
        print(forms[form](), end="")
    raise typer.Exit(code)


Forms = dict[str, Callable[[], str]]
"""Form → what makes it."""


def _results(folders: Sequence[Path]) -> tuple[Doc, int, Forms]:
    """Return what runs say, one, several side by side, or an optimization; the exit code, and the forms that it has."""
    from whichloop.experiments.ablate.doc import run_doc
    from whichloop.experiments.compare.results import results
    from whichloop.experiments.compare.several_runs import collect, several_doc
    from whichloop.experiments.compare.tables import arms_csv
    from whichloop.reports.html import page as pages
    from whichloop.runs.folders import TEST, is_optimization

    from .render import code_of_run, code_of_search

    searches = [folder for folder in folders if is_optimization(folder)]
    if searches and len(folders) > 1:
        raise ValueError(f"{searches[0]} is an optimization; compare its test with other runs: {searches[0] / TEST}")
    if searches:
        from whichloop.experiments.optimize.doc import optimize_doc
        from whichloop.experiments.optimize.result import optimization_result

        search = optimization_result(searches[0])
        return optimize_doc(search), code_of_search(search), {"html": lambda: pages.optimization_html(search)}
    if len(folders) > 1:
        several = collect([results(folder) for folder in folders])
        return several_doc(several), max(map(code_of_run, several.runs)), {"html": lambda: pages.collection_html(several)}
    run = results(folders[0])
    return run_doc(run), code_of_run(run), {"html": lambda: pages.report_html(run), "csv": lambda: arms_csv(run.comparison)}


def _why(folder: Path, names: Sequence[str], task: str | None, *, whole: bool, as_json: bool) -> Doc:
    """Return what trials were lost to. Raises ValueError for more than two names."""
    from whichloop.experiments.compare.results import results
    from whichloop.experiments.why.doc import why_doc
    from whichloop.experiments.why.losses import comparable, losses_explained, pairs_named, required_arms

    if len(names) > 2:
        raise typer.BadParameter(f"--arm: once or twice, got {len(names)}")
    run = results(folder, paired=False)
    pairs: list[tuple[str, str]] | None = None
    arms: list[str] | None = None
    if len(names) == 2:
        pairs = pairs_named(run, *names)
    elif len(names) == 1:
        pairs, arms = [], required_arms(run, names[0])
    elif not whole and not as_json and len(comparable(run)) > 1:  # pairs are not shown, which saves half
        pairs, arms = [], [each.info.arm for each in run.comparison.arms]
    why = losses_explained(run, pairs=pairs, arms=arms, task=task)
    return why_doc(run, why, named=len(names) == 2)


def _size(folder: Path, names: Sequence[str], metric: str | None, margin: float | None, power: float | None) -> Doc:
    """Return how large a run of the arms named, or of all, has to be. `folder`: the pilot's."""
    from whichloop.experiments.compare.results import results
    from whichloop.experiments.size.doc import size_doc
    from whichloop.experiments.size.pilot import SizeRequest
    from whichloop.experiments.size.sizes import size
    from whichloop.experiments.why.losses import required_arms
    from whichloop.metrics.power import POWER
    from whichloop.metrics.summary import PRIMARY

    pilot = results(folder)
    arms = [arm for name in names for arm in required_arms(pilot, name)]
    infos = [info for info in pilot.comparison.infos if info.arm in arms]
    request = SizeRequest(
        PRIMARY if metric is None else metric,
        margin,
        power=POWER if power is None else power,
        loops=list(dict.fromkeys(info.without_profile for info in infos)),
        profiles=list(dict.fromkeys(info.profile for info in infos)),
    )
    return size_doc(size(pilot, request))


def _card(folder: Path, names: Sequence[str], allow: Sequence[str]) -> Doc:
    """Return the card of a run's loop. Exits with 1 for a loop that does not solve the tasks undisturbed."""
    from whichloop.checks.program import Trouble
    from whichloop.experiments.card.card import run_card
    from whichloop.experiments.compare.results import results

    from .console import say
    from .process import FAILED, own_prints_aside, quiet_loops

    if len(names) > 1:
        raise typer.BadParameter(f"--arm: once, got {len(names)}")
    try:
        with own_prints_aside(), quiet_loops():
            return run_card(results(folder, paired=False), names[0] if names else None, allow)
    except Trouble as trouble:
        say(f"{folder}: {trouble}")
        raise typer.Exit(FAILED) from None
