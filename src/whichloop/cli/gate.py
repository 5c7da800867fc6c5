"""`whichloop gate`: compare a run with a baseline, write the baseline, or hold a loop against itself."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from whichloop.experiments.compare.results import Results
from whichloop.experiments.gate import (
    Baseline,
    GateResult,
    Rerun,
    ci,
    config_again,
    gate_doc,
    judge,
    prepare_again,
    read_baseline,
    read_run,
    run_and_judge,
)
from whichloop.experiments.gate.baseline import bless_as
from whichloop.experiments.gate.doc import blessed_doc
from whichloop.experiments.gate.noise import self_check, self_doc
from whichloop.experiments.gate.rerun import project_permissions
from whichloop.metrics.gate import MARGIN, MORE, Outcome
from whichloop.metrics.summary import SHARES
from whichloop.protocol.own_code import raised_in
from whichloop.protocol.redact import redact
from whichloop.reports.progress.trials import watching
from whichloop.runs.config import IfAbsent
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.folders import RUNS, run_folder
from whichloop.runs.permissions import Permissions, resume_flags

from .console import check_writable, say, show
from .environment import load_env
from .mistakes import error_words
from .options import LATEST, ConfigFlags, RerunPermissions, ResultsOptions, RunsOption, Texts, with_options
from .process import DONE, FAILED, INTERRUPTED, INVALID, UNDECIDED, own_prints_aside, quiet_loops
from .render import write_report

CODES: Mapping[Outcome, int] = {"pass": DONE, "regression": FAILED, "undecided": UNDECIDED, "invalid": INVALID}
RERUN_FLAGS = ConfigFlags(
    only=("loops", "seed"),
    helps={
        "loops": "Loop to run instead of the baseline's, `name` or `name(option=value)`; repeat the option for more loops.",
        "seed": "Seed of the faults of a new run. [default: the baseline's]",
    },
)


class GateOptions(RunsOption):
    run: Annotated[Path | None, typer.Argument(), IfAbsent("a new run of the baseline's configuration")] = None
    """Run directory, its name in the runs folder, or `latest`."""
    baseline: Path | None = None
    """File that `--bless` wrote: the blessed results, margins and accepted reasons."""
    metric: Texts
    """Metric to judge and its margin, `accuracy=0.02` or `tokens`, beside the baseline's; repeat the option for more."""
    accept: Texts
    """Reasons that pass where the loss lies within the margin: undecided,tasks_lost,graver_stop,other_answers,tasks_changed."""
    bless: Annotated[bool, typer.Option("--bless")] = False
    """Write RUN, the latest if none is named, as the baseline in --output."""
    output: Annotated[Path | None, typer.Option("--output", "-o")] = None
    """File of the new baseline."""
    is_self: Annotated[bool, typer.Option("--self")] = False
    """Hold the baseline's loop against itself: the share of false alarms, and the noise of each metric."""
    times: Annotated[int, typer.Option(min=2)] = 10
    """Pairs of runs of --self."""
    junit: Path | None = None
    """File to write JUnit XML to."""
    summary: Path | None = None
    """File to append Markdown to, as a comment on a pull request."""

    @property
    def accepted(self) -> list[str]:
        """The accepted reasons."""
        return [code.strip() for codes in self.accept for code in codes.split(",") if code.strip()]

    @property
    def margins(self) -> dict[str, float]:
        """The margins that were typed. Raises ValueError for what is no number."""
        margins = {}
        for text in self.metric:
            name, equals, value = text.partition("=")
            try:
                margins[name] = float(value) if equals else MARGIN if name in SHARES else MORE
            except ValueError:
                raise ValueError(f"--metric {text}: a metric is NAME or NAME=MARGIN, such as steps=0.1") from None
        return margins


@with_options(RERUN_FLAGS)
def gate(options: GateOptions, flags: dict[str, Any], again: RerunPermissions, output: ResultsOptions) -> None:
    """Say whether a run is worse than a baseline.

    The exit code is 0 for a pass, 1 for a regression, 2 for bad input, 3 if it is undecided, 4 if the run is invalid.
    """
    with _errors_told(options):
        if options.bless:
            if options.baseline is not None or options.is_self or any(flags.values()):
                raise ValueError("--bless takes RUN, --output, --metric and --accept")
            return _bless(options, as_json=output.as_json)
        if options.baseline is None:
            raise typer.BadParameter("name the baseline's file, or --bless a run", param_hint="--baseline")
        baseline = read_baseline(options.baseline)
        baseline = baseline.model_copy(update={"gate": baseline.gate.changed(options.margins, options.accepted)})
        for flag, path in (("--junit", options.junit), ("--summary", options.summary)):
            if path is not None:
                check_writable(flag, path, "nothing was judged")
        if options.run is not None:
            if flags.get("loops") or flags.get("seed") is not None or options.is_self:
                raise ValueError("--loop, --seed and --self are for a new run; leave them out, or RUN")
            result = judge(read_run(run_folder(options.run, options.runs)), baseline, path=options.baseline)
        else:
            load_env()
            rerun = _rerun(options, flags, again)
            if options.is_self:
                return _check_self(options, baseline, rerun, output)
            run, result = _run_again(options, baseline, rerun, quiet=output.quiet)
        _write(options, result)
        if options.run is None:
            write_report(run, announce=not output.quiet)
            if not output.quiet:
                say(f"run directory: {run.folder}")
    show(gate_doc(result), as_json=output.as_json, verbose=output.verbose)
    raise typer.Exit(CODES[result.outcome])


def _rerun(options: GateOptions, flags: Mapping[str, Any], again: RerunPermissions) -> Rerun:
    project = project_permissions()
    allowed = Permissions([*project.code, *again.allow], again.base_url or project.base_url, again.cassette or project.cassette)
    return Rerun(flags.get("loops") or (), flags.get("seed"), allowed, options.runs or RUNS)


def _run_again(options: GateOptions, baseline: Baseline, rerun: Rerun, *, quiet: bool) -> tuple[Results, GateResult]:
    assert options.baseline is not None
    config = config_again(baseline, options.baseline, rerun)
    with own_prints_aside():
        experiment = prepare_again(baseline, options.baseline, config)
    try:
        with quiet_loops(), own_prints_aside(), watching(experiment, quiet=quiet) as progress:
            return run_and_judge(experiment, progress, baseline, baseline.gate, options.baseline)
    except KeyboardInterrupt:
        words = [shlex.quote(str(experiment.folder)), *resume_flags(config)]
        say(f"interrupted; go on with whichloop resume {' '.join(words)}, then")
        typed = [word for flag in ("metric", "accept") for value in getattr(options, flag) for word in (f"--{flag}", value)]
        say(f"whichloop gate {words[0]} {shlex.join(['--baseline', str(options.baseline), *typed])}")
        raise typer.Exit(INTERRUPTED) from None


def _check_self(options: GateOptions, baseline: Baseline, rerun: Rerun, output: ResultsOptions) -> None:
    assert options.baseline is not None
    config = config_again(baseline, options.baseline, rerun)
    with quiet_loops(), own_prints_aside():
        check = self_check(baseline, config, options.times, Unwatched() if output.quiet else _Notes())
    show(self_doc(check), as_json=output.as_json, verbose=output.verbose)


class _Notes(Unwatched):
    """Progress of which only notes are told."""

    def noted(self, text: str) -> None:
        """Print it at once."""
        say(text)


def _bless(options: GateOptions, *, as_json: bool) -> None:
    if options.output is None:
        raise typer.BadParameter("name the file of the new baseline", param_hint="--output")
    run = read_run(run_folder(options.run or LATEST, options.runs))
    new, old = bless_as(options.output, run, options.margins, options.accepted)
    show(blessed_doc(new, options.output, old), as_json=as_json)


@contextmanager
def _errors_told(options: GateOptions) -> Iterator[None]:
    """Write an error within the block, which goes on, to where the outcome would have gone."""
    try:
        yield
    except (ValueError, OSError) as error:
        message = " ".join(redact(error_words(error)).split())
        with suppress(OSError):
            if options.junit is not None:
                options.junit.write_text(ci.error_junit(message), encoding="utf-8")
            ci.append_summary(ci.error_summary(message), options.summary)
        if command := ci.workflow_command("error", "not judged", message, raised_in(error)):
            print(command, file=sys.stderr)
        raise


def _write(options: GateOptions, result: GateResult) -> None:
    if options.junit is not None:
        options.junit.write_text(ci.to_junit(result), encoding="utf-8")
    ci.append_summary(ci.to_summary(result), options.summary)
    if command := ci.annotation(result):
        print(command, file=sys.stderr)  # GitHub reads stderr too, and stdout is for results
