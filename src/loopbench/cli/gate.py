"""`loopbench gate` and `loopbench bless`: a run held against a baseline, and the baseline made."""

from __future__ import annotations

import json
import os
import shlex
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .codes import DONE, FAILED, INTERRUPTED, INVALID, UNDECIDED
from .environment import load_env
from .folders import run_folder
from .own_prints import own_prints_aside, quiet_loops
from .report import write_report

if TYPE_CHECKING:
    from loopbench.experiments.gate import Baseline, GateResult, RerunSettings


class OnUndecided(StrEnum):
    """What becomes of an outcome that is neither."""

    PASSED = "pass"
    FAILED = "fail"
    UNDECIDED = "undecided"


CODES = {OnUndecided.PASSED: DONE, OnUndecided.FAILED: FAILED, OnUndecided.UNDECIDED: UNDECIDED}
STYLES = {"identical": "bold green", "pass": "bold green", "undecided": "bold yellow"}

Runs = Annotated[Path | None, typer.Option(help="Folder of the run directories [default: runs].", show_default=False)]


def gate(
    baseline: Annotated[Path, typer.Option(help="File that `loopbench bless` wrote.", show_default=False)],
    run: Annotated[
        Path | None,
        typer.Argument(help="Run directory, its name under runs/, or `latest` [default: the baseline's configuration, run anew]."),
    ] = None,
    loop: Annotated[
        list[str] | None, typer.Option(help="Loop in place of the baseline's, `name` or `name(option=value)`; again for each.")
    ] = None,
    margin: Annotated[float | None, typer.Option(help="What accuracy may fall by [default: 0.02, which is 2 points].")] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="Also judge NAME, which may grow by a share: NAME=MARGIN [default: 0.1, which is 10 %]; again for each."),
    ] = None,
    alpha: Annotated[float | None, typer.Option(help="Most false alarms, as a share of all runs [default: 0.05].")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the faults of a new run [default: the baseline's].")] = None,
    repeats: Annotated[int | None, typer.Option(help="Trials per arm and task of a new run [default: the baseline's].")] = None,
    allow: Annotated[
        list[str] | None, typer.Option(help="Code of your own that the baseline names and may import, package.module:Name.")
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="The server of a real model, typed again.")] = None,
    cassette: Annotated[Path | None, typer.Option(help="The recording that is replayed, typed again.")] = None,
    on_undecided: Annotated[
        OnUndecided, typer.Option(help="What an undecided outcome is: exit code 0, 1 or 3.")
    ] = OnUndecided.UNDECIDED,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit's XML there.", show_default=False)] = None,
    summary: Annotated[Path | None, typer.Option(help="Append Markdown there [default: $GITHUB_STEP_SUMMARY].")] = None,
    annotations: Annotated[
        bool | None, typer.Option("--annotations/--no-annotations", help="GitHub's annotations [default: in its actions].")
    ] = None,
    runs: Runs = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Say whether a run is worse than a baseline: exit code 0 if not, 1 if so, 3 if that is open, 4 if the run is no measure."""
    from loopbench.experiments.gate import RerunSettings, check_asked, judge, read_baseline, read_run
    from loopbench.metrics.statistics import ALPHA
    from loopbench.runs.permissions import Permissions

    from . import render

    typed = {"loop": loop, "seed": seed, "repeats": repeats, "allow": allow, "base-url": base_url, "cassette": cassette}
    given = [name for name, value in typed.items() if value is not None]
    if run is not None and given:
        raise ValueError(f"--{given[0]} is for a new run; leave it out, or the run {str(run)!r}")
    known, margins, level = read_baseline(baseline), _margins(margin, metric or []), ALPHA if alpha is None else alpha
    check_asked(known, margins, level)
    wanted = _Wanted(on_undecided, junit, summary or _step_summary(), _in_actions() if annotations is None else annotations)
    wanted.check()  # before a run that may cost money
    if run is None:
        load_env()  # keys may stand in a .env of the current directory
        allowed = Permissions(allow or (), base_url, cassette)
        folder = _run_again(known, baseline, RerunSettings(loop or (), seed, repeats, allowed, runs or Path("runs")), quiet=quiet)
    else:
        folder = run_folder(run, runs)
    found = read_run(folder)
    judged = judge(found, known, metrics=margins, alpha=level, path=baseline)
    wanted.write(judged)
    if run is None:
        write_report(found)
        render.say(f"run directory: {folder}")
    _print_whatever_reads(judged, as_json=as_json)
    codes = {"identical": DONE, "pass": DONE, "regression": FAILED, "undecided": CODES[on_undecided], "invalid": INVALID}
    raise typer.Exit(codes[judged.outcome])


def bless(
    run: Annotated[Path, typer.Argument(help="Run directory, its name under runs/, or `latest`.", show_default=False)],
    output: Annotated[Path, typer.Option(help="File to write; an older baseline there is replaced.", show_default=False)],
    runs: Runs = None,
) -> None:
    """Write a run down as the baseline that `loopbench gate` holds later runs against, and say what changed in it."""
    from loopbench.experiments.compare.tables import plain
    from loopbench.experiments.gate import bless as blessed
    from loopbench.experiments.gate import read_baseline, read_run, write_baseline
    from loopbench.experiments.gate.baseline import changes

    old = read_baseline(output) if output.exists() else None  # what is no baseline is not replaced
    found = read_run(run_folder(run, runs))
    new = blessed(found)
    write_baseline(output, new)
    size = output.stat().st_size
    print(plain(f"{output}: {len(found.records)} trials of {len(new.arms)} arms, {size:,} bytes"))
    if old is not None:
        for line in changes(old, new) or ["nothing changed"]:
            print(plain(f"  {line}"))


def _margins(margin: float | None, metrics: list[str]) -> dict[str, float]:
    """Raises ValueError for a metric that is named twice, or a margin that is no number."""
    from loopbench.experiments.gate import DEFAULT_METRICS
    from loopbench.metrics.gate import MORE, check_margin
    from loopbench.metrics.summary import PRIMARY

    found: dict[str, float] = {} if margin is None else {PRIMARY: margin}
    for text in metrics:
        name, equals, value = text.partition("=")
        if name in found:
            raise ValueError(f"--metric {text}: {name} has a margin already")
        try:
            found[name] = float(value) if equals else DEFAULT_METRICS.get(name, MORE)
        except ValueError:
            raise ValueError(
                f"--metric {text}: {value!r} is no number; a metric is NAME or NAME=MARGIN, such as steps=0.1"
            ) from None
        check_margin(name, found[name])
    return found


def _run_again(baseline: Baseline, path: Path, again: RerunSettings, *, quiet: bool) -> Path:
    """The directory of the new run. An interrupted one can be resumed, and judged then."""
    from loopbench.experiments.compare.run import run
    from loopbench.experiments.gate import prepare_again
    from loopbench.runs.permissions import resume_flags

    from . import render
    from .progress import watching

    with own_prints_aside():
        experiment = prepare_again(baseline, path, again)
    try:
        with quiet_loops(), own_prints_aside(), watching(experiment, quiet=quiet) as progress:
            stopped = run(experiment, progress)
    except KeyboardInterrupt:
        folder = shlex.quote(str(experiment.folder))
        words = [folder, *resume_flags(experiment.config)]
        render.say(f"interrupted; go on with loopbench resume {' '.join(words)}, then, with the flags that you gave,")
        render.say(f"  loopbench gate {folder} --baseline {shlex.quote(str(path))}")
        raise typer.Exit(INTERRUPTED) from None
    if stopped:
        render.say(f"stopped early: {stopped}")
    return experiment.folder


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Where else the outcome goes."""

    on_undecided: OnUndecided
    junit: Path | None
    summary: Path | None
    annotations: bool

    def check(self) -> None:
        """Raises ValueError for a file that cannot be written."""
        for flag, path in (("--junit", self.junit), ("--summary", self.summary)):
            if path is not None and (path.is_dir() or not os.access(_there(path), os.W_OK)):
                raise ValueError(f"{flag} {path}: cannot be written; nothing was judged")

    def write(self, judged: GateResult) -> None:
        from loopbench.experiments.gate import github_annotations, to_junit, to_markdown

        if self.junit is not None:
            self.junit.parent.mkdir(parents=True, exist_ok=True)
            self.junit.write_text(to_junit(judged, self.on_undecided.value), encoding="utf-8")
        if self.summary is not None:
            with self.summary.open("a", encoding="utf-8") as file:
                file.write(to_markdown(judged))
        if self.annotations:  # GitHub reads stderr too, and stdout is for results
            for line in github_annotations(judged, self.on_undecided.value):
                print(line, file=sys.stderr)


def _there(path: Path) -> Path:
    """The file, or the nearest folder above it that there is."""
    return next(place for place in (path, *path.absolute().parents) if place.exists())


def _step_summary() -> Path | None:
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    return Path(path) if path else None


def _in_actions() -> bool:
    return os.environ.get("GITHUB_ACTIONS") == "true"


def _print_whatever_reads(judged: GateResult, *, as_json: bool) -> None:
    """To stdout; a reader who has left changes nothing about the exit code."""
    try:
        _print(judged, as_json=as_json)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python flushes at its end
    except SystemExit:  # what rich makes of it, stdout put aside
        pass


def _print(judged: GateResult, *, as_json: bool) -> None:
    from rich.text import Text

    from loopbench.experiments.gate.outputs import headline, paragraphs, table, task_lines

    from . import render

    if as_json:
        print(json.dumps(judged.to_json(), ensure_ascii=True, allow_nan=False))
        return
    console = render.out()
    console.print(Text(headline(judged), style=STYLES.get(judged.outcome, "bold red")), soft_wrap=True)
    if judged.lines:
        render.table(table(judged), console)
    for line in paragraphs(judged):
        console.print(Text(line), soft_wrap=True)
    for line in task_lines(judged):
        console.print(Text(line), soft_wrap=True)
