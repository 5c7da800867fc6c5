"""`whichloop gate`: compare a run with a baseline, write the baseline, or hold a loop against itself."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from . import flags
from .flags import Allow, Json, Quiet, Runs, Verbose, settings

NEW, WRITTEN = "A new run of the baseline's configuration", "What is written"
"""Panels of the help."""
TIMES = 10


def gate(
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="Finished run; without one a new one is made.")] = None,
    baseline: Annotated[Path | None, typer.Option(metavar="FILE", help="File that --bless wrote.")] = None,
    metric: Annotated[list[str] | None, typer.Option(metavar="NAME=MARGIN", help="Metric to judge and its margin.")] = None,
    accept: Annotated[list[str] | None, typer.Option(metavar="CODE,…", help="Reasons that pass within the margin.")] = None,
    bless: Annotated[bool, typer.Option("--bless", metavar="", help="Write RUN as the baseline in --output.")] = False,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="File of the new baseline.")] = None,
    loop: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Loop instead of the baseline's.", rich_help_panel=NEW)
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Seed instead of its own.", rich_help_panel=NEW)] = None,
    is_self: Annotated[
        bool, typer.Option("--self", metavar="", help="Hold the loop against itself: false alarms.", rich_help_panel=NEW)
    ] = False,
    times: Annotated[int | None, typer.Option(min=2, metavar="N", help="Pairs of --self, else 10.", rich_help_panel=NEW)] = None,
    allow: Allow = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="JUnit XML.", rich_help_panel=WRITTEN)] = None,
    summary: Annotated[Path | None, typer.Option(metavar="FILE", help="Markdown to append.", rich_help_panel=WRITTEN)] = None,
    runs: Runs = flags.RUNS,
    setting: Annotated[
        list[str] | None, typer.Option("-s", metavar="NAME=VALUE", help="base_url or cassette of the new run.", rich_help_panel=NEW)
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Say whether a run is worse than a baseline.

    Exit codes: 0 pass, 1 regression, 2 bad input, 3 undecided, 4 invalid run.
    """
    from whichloop.experiments import gate as gates
    from whichloop.experiments.gate import ci
    from whichloop.experiments.gate.baseline import bless_as
    from whichloop.experiments.gate.doc import blessed_doc
    from whichloop.experiments.gate.noise import self_check, self_doc
    from whichloop.experiments.gate.rerun import project_permissions
    from whichloop.reports.progress import TrialBoard, watching
    from whichloop.runs.folders import run_folder
    from whichloop.runs.permissions import Permissions, resume_flags

    from .console import check_writable, say, show
    from .process import DONE, FAILED, INTERRUPTED, INVALID, UNDECIDED, load_env, own_prints_aside, quiet_loops
    from .render import write_report

    flags.one_of(quiet=quiet, verbose=verbose)
    flags.only_with("--self", is_self, times=times)
    flags.only_with("--bless", bless, output=output)
    flags.only_with("a judged run, not --bless or --self", not bless and not is_self, junit=junit, summary=summary)
    flags.only_with("a new run, not RUN or --bless", run is None and not bless, loop=loop, seed=seed, allow=allow, s=setting)
    accepted = [code.strip() for codes in accept or () for code in codes.split(",") if code.strip()]
    with _told_to_ci(junit, summary):
        if bless:
            flags.one_of(bless=bless, baseline=baseline)
            flags.one_of(bless=bless, self=is_self)
            if output is None:
                raise typer.BadParameter("name the file of the new baseline: --output FILE", param_hint="--bless")
            blessed, old = bless_as(output, gates.read_run(run_folder(run or flags.LATEST, runs)), _margins(metric), accepted)
            return show(blessed_doc(blessed, output, old), as_json=as_json)
        if baseline is None:
            raise typer.BadParameter("name the baseline's file, or --bless a run", param_hint="--baseline")
        held = gates.read_baseline(baseline)
        held = held.model_copy(update={"gate": held.gate.changed(_margins(metric), accepted)})
        check_writable("--junit", junit, "nothing was judged")
        check_writable("--summary", summary, "nothing was judged")
        if run is not None:
            if is_self:
                raise typer.BadParameter("it makes new runs; leave RUN out", param_hint="--self")
            judged = gates.judge(gates.read_run(run_folder(run, runs)), held, path=baseline)
        else:
            load_env()
            typed = settings(setting)
            if unknown := typed.keys() - {"base_url", "cassette"}:
                raise typer.BadParameter(f"{min(unknown)}: the baseline's holds; base_url and cassette are typed", param_hint="-s")
            cassette = Path(typed["cassette"]) if "cassette" in typed else None
            allowed = project_permissions(Permissions(allow or (), typed.get("base_url"), cassette))
            config = gates.config_again(held, baseline, settings(None, runs=runs, loops=tuple(loop or ()), seed=seed), allowed)
            if is_self:
                with quiet_loops(), own_prints_aside():
                    check = self_check(held, config, times or TIMES, (lambda line: None) if quiet else say)
                return show(self_doc(check), as_json=as_json, verbose=verbose)
            with own_prints_aside():
                experiment = gates.prepare_again(held, baseline, config)
            try:
                with quiet_loops(), own_prints_aside(), watching(TrialBoard(experiment), quiet=quiet) as progress:
                    new, judged = gates.run_and_judge(experiment, progress, held, held.gate, baseline)
            except KeyboardInterrupt:
                folder = str(experiment.folder)
                typed_again = [
                    word
                    for flag, given in (("--metric", metric), ("--accept", accept))
                    for each in given or ()
                    for word in (flag, each)
                ]
                say(f"interrupted; go on with: whichloop resume {' '.join([shlex.quote(folder), *resume_flags(config)])}")
                say(f"and then: {shlex.join(['whichloop', 'gate', folder, '--baseline', str(baseline), *typed_again])}")
                raise typer.Exit(INTERRUPTED) from None
        if junit is not None:
            junit.write_text(ci.to_junit(judged), encoding="utf-8")
        ci.append_summary(ci.to_summary(judged), summary)
        if command := ci.annotation(judged):
            say(command)  # GitHub reads stderr, too, and stdout is for results
    show(gates.gate_doc(judged), as_json=as_json, verbose=verbose)
    if run is None:
        write_report(new, announce=not quiet)
        if not quiet:
            say(f"run directory: {new.folder}")
    raise typer.Exit({"pass": DONE, "regression": FAILED, "undecided": UNDECIDED, "invalid": INVALID}[judged.outcome])


def _margins(metrics: Sequence[str] | None) -> dict[str, float]:
    """Return metric → margin. Raises BadParameter for what is no number."""
    from whichloop.metrics.gate import MARGIN, MORE
    from whichloop.metrics.summary import SHARES

    margins = {}
    for text in metrics or ():
        name, equals, value = text.partition("=")
        try:
            margins[name] = float(value) if equals else MARGIN if name in SHARES else MORE
        except ValueError:
            raise typer.BadParameter(f"{text!r}: write NAME=MARGIN, such as steps=0.1", param_hint="--metric") from None
    return margins


@contextmanager
def _told_to_ci(junit: Path | None, summary: Path | None) -> Iterator[None]:
    """Write an error within the block, which goes on, to where the outcome would have gone."""
    try:
        yield
    except (ValueError, OSError) as error:
        from whichloop.experiments.gate import ci
        from whichloop.protocol.own_code import raised_in
        from whichloop.protocol.redact import redact

        from .console import say
        from .mistakes import error_words

        message = " ".join(redact(error_words(error)).split())
        with suppress(OSError):
            if junit is not None:
                junit.write_text(ci.error_junit(message), encoding="utf-8")
            ci.append_summary(ci.error_summary(message), summary)
        if command := ci.workflow_command("error", "not judged", message, raised_in(error)):
            say(command)
        raise
