"""`whichloop gate` and `whichloop bless`: compare a run with a baseline, and write the baseline."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from whichloop.experiments.compare.prepare import Experiment
from whichloop.experiments.compare.results import Results
from whichloop.experiments.gate import (
    Baseline,
    EndedRun,
    GateResult,
    RerunSettings,
    check_request,
    prepare_again,
    read_baseline,
    read_run,
    run_to_judge,
    write_baseline,
)
from whichloop.experiments.gate import bless as new_baseline
from whichloop.experiments.gate.changes.baseline_changes import blessed_crashes, contents, replaced
from whichloop.experiments.gate.changes.other_changes import CLAIMS
from whichloop.experiments.gate.changes.unseen import lower_defaults
from whichloop.experiments.gate.commands import Rules
from whichloop.experiments.gate.comparable import OtherQuestions, check_accuracy_margin
from whichloop.experiments.gate.data.baseline import stored_value
from whichloop.experiments.gate.data.damaged import DamagedBaseline, check_suffix
from whichloop.experiments.gate.data.outcome import PASSES
from whichloop.experiments.gate.ended_run import interrupted_run
from whichloop.experiments.gate.larger import run_anew
from whichloop.experiments.gate.output.github import in_actions, step_summary
from whichloop.experiments.gate.output.next_steps import to_json
from whichloop.metrics.gate import MARGIN, MORE, check_margin
from whichloop.metrics.statistics import ALPHA
from whichloop.metrics.summary import METRICS, PRIMARY, SHARES
from whichloop.protocol.cured_error import CuredError
from whichloop.protocol.redact import redact
from whichloop.protocol.values import counted
from whichloop.reports.progress.trials import print_note, watching
from whichloop.runs.config import IfAbsent, config_from, flag_of
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.folders import RUNS, run_folder
from whichloop.runs.permissions import Permissions, resume_flags
from whichloop.runs.store.files import RunError
from whichloop.text.output import terminal_safe

from .console import make_room, say
from .environment import load_env
from .gate_targets import GateTargets, OnOtherAnswers, OnUndecided, OnWorseHere, print_gate
from .mistakes import error_words
from .options import (
    ConfigFlags,
    OptionGroup,
    OutputOptions,
    RerunPermissions,
    RunChoice,
    RunsOption,
    Texts,
    with_options,
)
from .process import DONE, FAILED, INTERRUPTED, INVALID, UNDECIDED, own_prints_aside, quiet_loops
from .render import write_report

HELD_BESIDE: Mapping[str, float] = {"tokens": MORE, CLAIMS: MARGIN, "calls_doubled": MARGIN}
"""Metric that a baseline's command has judged beside accuracy → its margin."""
MAX_SHORT_ANSWER = 40
"""Characters of a text that is a short answer, such as a name or a date."""
CODES = {OnUndecided.PASSED: DONE, OnUndecided.FAILED: FAILED, OnUndecided.UNDECIDED: UNDECIDED}

RERUN_FLAGS = ConfigFlags(
    only=("loops", "seed", "repeats", "trial_timeout_s"),
    helps={
        "loops": "Loop to run instead of the baseline's, `name` or `name(option=value)`; repeat the option for more loops.",
        "seed": "Seed of the faults of a new run. [default: the baseline's]",
        "repeats": "Number of trials for each arm and task of a new run. [default: the baseline's]",
        "trial_timeout_s": "Seconds after which a trial of a new run ends, and so a loop that hangs; with the scripted model, "
        "seconds without a request or a call. [default: the baseline's; of the scripted model 20 times its slowest trial, at least "
        "10, if that is less]",
    },
)


def _number(text: str | float) -> float:
    """Return a typed number. Raises BadParameter, which names the option, for what is none."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"a number such as 0.02 is needed, got {text!r}") from None


class GateOptions(RunsOption):
    baseline: Path
    """File that `whichloop bless latest --output FILE` wrote."""
    run: Annotated[Path | None, typer.Argument(), IfAbsent("a new run of the baseline's configuration")] = None
    """Run directory, its name in the runs folder, or `latest`."""
    margin: Annotated[float | None, typer.Option(parser=_number), IfAbsent("0.02, which is 2 points")] = None
    """Loss of accuracy that is accepted."""
    metric: Annotated[Texts, IfAbsent("0.1, which is 10 %; of a share 0.02")]
    """Metric to judge as well, NAME=MARGIN or NAME; it may grow by the share MARGIN, or a share such as retention may fall by so
    much, and one such as injection_executed rise; repeat the option for more metrics."""
    alpha: float = ALPHA
    """Maximum rate of false alarms, over draws of both the baseline and the run."""
    common_tasks: Annotated[bool, typer.Option("--common-tasks")] = False
    """Where the suite has changed since, judge by the tasks that are the same in both."""


class GatePrints(OutputOptions):
    quiet: Annotated[bool, typer.Option("--quiet", "-q")] = False
    """Show no progress beside a trial that hangs, and not where the run and its page are."""
    verbose: Annotated[bool, typer.Option("--verbose", "-v")] = False
    """Print every metric of every arm, what would decide each, and up to 20 changed tasks."""


class GateOutputs(OptionGroup):
    on_undecided: OnUndecided = OnUndecided.UNDECIDED
    """How an undecided outcome counts: it exits with code 0, 1 or 3."""
    on_worse_here: OnWorseHere = OnWorseHere.FAILED
    """How it counts if tasks are lost and none gained, by the change of the loop alone: it exits with code 1 or 0."""
    on_other_answers: OnOtherAnswers = OnOtherAnswers.PASSED
    """How it counts if answers of the same score are others than before, such as "42" for 42: it exits with code 0 or 1."""
    junit: Path | None = None
    """File to write JUnit XML to."""
    summary: Annotated[Path | None, IfAbsent("$GITHUB_STEP_SUMMARY")] = None
    """File to append Markdown to."""
    annotations: Annotated[bool | None, typer.Option("--annotations/--no-annotations"), IfAbsent("yes, within GitHub Actions")] = (
        None
    )
    """Print annotations for GitHub."""

    @property
    def annotates(self) -> bool:
        """Whether annotations are printed."""
        return in_actions() if self.annotations is None else self.annotations

    def targets(self) -> GateTargets:
        """Return where the outcome goes."""
        return GateTargets(
            on_undecided=self.on_undecided,
            on_worse_here=self.on_worse_here,
            on_other_answers=self.on_other_answers,
            junit=self.junit,
            summary=self.summary or step_summary(),
            annotations=self.annotates,
        )


@with_options(RERUN_FLAGS)
def gate(options: GateOptions, flags: dict[str, Any], again: RerunPermissions, outputs: GateOutputs, output: GatePrints) -> None:
    """Say whether a run is worse than a baseline.

    The exit code is 0 if it is not, 1 if it is, be it on these tasks alone, or if a default limit of the loop's own is another, 2
    for bad usage or a run that cannot be compared, 3 if it is undecided, 4 if the run is invalid, and 130 if it was interrupted.
    """
    with _errors_told(outputs.targets()):
        judged = _judged(options, flags, again, outputs.targets(), output)
    _print(judged, as_json=output.as_json, verbose=output.verbose)
    undecided = CODES[OnUndecided(judged.undecided_as(outputs.on_undecided.value))]
    codes = {**dict.fromkeys(PASSES, DONE), "regression": FAILED, "worse here": FAILED, "undecided": undecided, "invalid": INVALID}
    code = codes[judged.held_as(outputs.on_worse_here.value)]
    raise typer.Exit(FAILED if judged.fails_for_answers and code in (DONE, UNDECIDED) else code)


def _judged(
    options: GateOptions, flags: dict[str, Any], again: RerunPermissions, targets: GateTargets, output: GatePrints
) -> GateResult:
    """Judge the run that is named, or a new one, and write the outcome to its targets."""
    if options.run is not None:
        _refuse_flags_of_a_new_run(flags, options.run)
    baseline, margins = _baseline(options.baseline), _margins(options.margin, options.metric)
    check_request(baseline, margins, options.alpha)
    targets.check()  # before a run that may cost money
    rules = Rules(margins, options.alpha, options.common_tasks)
    with _blessing_told(baseline, options):
        if options.run is None:
            load_env()
            allowed = Permissions(again.allow, again.base_url, again.cassette)
            rerun_fields = {
                name: value for name in ("seed", "repeats", "trial_timeout_s") if (value := flags.get(name)) is not None
            }
            settings = RerunSettings(
                flags.get("loops", ()), allowed=allowed, runs=options.runs or RUNS, common=options.common_tasks, **rerun_fields
            )
            ended_run = _run_again(baseline, options.baseline, settings, rules, targets, quiet=output.quiet)
        else:
            ended_run = EndedRun(read_run(run_folder(options.run, options.runs)))
        judged = targets.counted(ended_run.judged(baseline, rules, options.baseline))
    targets.write(judged)
    if options.run is None:
        write_report(ended_run.results, announce=not output.quiet)
        if not output.quiet:
            say(f"run directory: {ended_run.results.folder}")
    return judged


@contextmanager
def _blessing_told(baseline: Baseline, options: GateOptions) -> Iterator[None]:
    """Add to a refusal of a run that was asked something else the commands that make a new baseline."""
    try:
        yield
    except OtherQuestions as error:
        runs = () if options.runs is None else (flag_of(["runs"]), str(options.runs))
        anew = () if options.run is not None else run_anew(baseline)
        named = str(options.run or ("latest" if anew else "RUN"))
        bless = ("whichloop", "bless", named, *runs, "--output", str(options.baseline))
        commands = [(*anew, *runs), bless] if anew else [bless]
        raise OtherQuestions(error.mistake, *error.cures, commands=commands) from error.__cause__


def _refuse_flags_of_a_new_run(flags: Mapping[str, Any], run: Path) -> None:
    """Raise ValueError for a flag that only a new run could heed, beside a run that has ended. `--allow` and the other permissions
    are no such flags: they change nothing of how a run is judged."""
    new_run_flags = [flag_of([name]) for name, value in flags.items() if value]
    if new_run_flags:
        raise ValueError(f"{new_run_flags[0]} is for a new run; leave it out, or the run {str(run)!r}")


def _baseline(path: Path) -> Baseline:
    """Read the baseline. Raises ValueError, which says how to write one where there is none, or one that cannot be read."""
    if not path.exists():
        command = ("whichloop", "bless", "latest", "--output", str(path))
        raise CuredError(f"{path}: no such file", "write it from a run that you are content with", commands=[command])
    try:
        return read_baseline(path)
    except DamagedBaseline as error:
        raise CuredError(error.mistake, *error.cures, commands=[("whichloop", "bless", "RUN", "--output", str(path))]) from None
    except ValueError as error:
        raise CuredError(str(error), "whichloop bless latest --output FILE writes one") from None


@contextmanager
def _errors_told(targets: GateTargets) -> Iterator[None]:
    """Write an error within the block, which goes on, to where the outcome would have gone: the JUnit file and the summary, and as
    an annotation for GitHub."""
    try:
        yield
    except (ValueError, OSError) as error:
        targets.write_error(error, " ".join(redact(error_words(error)).split()))
        raise


class BlessOptions(OptionGroup):
    output: Annotated[Path, typer.Option("--output", "--out", "-o")]
    """File to write; an older baseline there is replaced."""


@with_options()
def bless(choice: RunChoice, options: BlessOptions) -> None:
    """Write a run as the baseline that `whichloop gate` compares later runs with.

    It says what changes in a baseline that it replaces, be it a damaged one; a file that is no baseline is not replaced.
    """
    output = options.output
    check_suffix("--output", output)
    blessed_run = read_run(choice.folder)
    baseline = new_baseline(blessed_run)
    replacements = replaced(output, baseline)
    make_room(output)
    write_baseline(output, baseline)
    size = output.stat().st_size
    print(terminal_safe(f"{output}: the baseline of {choice.folder}, {counted(len(blessed_run.records), 'trial')}, {size:,} bytes"))
    crashes = blessed_crashes(blessed_run.records, imported=blessed_run.manifest.imported is not None)
    for line in (*contents(baseline), *lower_defaults(blessed_run.manifest), *crashes):
        print(terminal_safe(f"  {line}"))
    if replacements:
        print("in the place of the baseline that was there:")
    for line in replacements:
        print(terminal_safe(f"  {line}"))
    named_run = [] if blessed_run.manifest.imported is None else ["RUN"]  # one that was imported cannot be run again
    words = ["whichloop", "gate", *named_run, "--baseline", str(output), *_held_beside(blessed_run)]
    print(terminal_safe(f"gate it with: {shlex.join(words)}{_again(blessed_run)}"))
    if named_run:
        print(terminal_safe("  RUN is an import of what the same agents did later: whichloop import FILES --name RUN"))


def _held_beside(run: Results) -> Iterator[str]:
    """Yield the words that have the bill, wrong answers given as done and calls made once more judged, too, and hold short answers
    to the blessed ones, as the test does that `init` writes; none of a metric that some trial does not have, though it should."""
    scored = [record for record in run.records if record.status == "scored"]
    for metric, margin in HELD_BESIDE.items():
        each_known = [stored_value(record, metric) is not None for record in scored]
        if any(each_known) if METRICS[metric].of_some else all(each_known):
            yield from ("--metric", f"{metric}={margin:g}")
    if run.manifest.imported is None and all(_is_short(record.answer) for record in scored):
        yield from ("--on-other-answers", OnOtherAnswers.FAILED.value)


def _is_short(answer: Any) -> bool:
    """Whether an answer is none, a number or a short text, so that another one is no other wording."""
    return answer is None or isinstance(answer, int | float) or (isinstance(answer, str) and len(answer) <= MAX_SHORT_ANSWER)


def _again(run: Results) -> str:
    """Return the words that let the baseline's code, server and recording be used again, each behind a space."""
    config = run.manifest.config
    if "loops" not in config:
        return ""
    words = resume_flags(config_from({**config, "mlflow": False, "address": None}, str(run.folder)))
    return "".join(f" {word}" for word in words)


def _margins(margin: float | None, metrics: list[str]) -> dict[str, float]:
    """Return the margin of each metric. Raises ValueError for a metric that is named twice, or a margin that is not a number."""
    margins: dict[str, float] = {} if margin is None else {PRIMARY: margin}
    if margin is not None:
        check_accuracy_margin("--margin", margin)
    for text in metrics:
        name, equals, value = text.partition("=")
        if name in margins:
            raise ValueError(f"--metric {text}: {name} has a margin already")
        try:
            margins[name] = float(value) if equals else MARGIN if name in SHARES else MORE
        except ValueError:
            raise ValueError(
                f"--metric {text}: {value!r} is not a number; a metric is NAME or NAME=MARGIN, such as steps=0.1"
            ) from None
        check_margin(name, margins[name])
    return margins


def _run_again(
    baseline: Baseline, path: Path, again: RerunSettings, rules: Rules, targets: GateTargets, *, quiet: bool
) -> EndedRun:
    """Run the baseline's configuration again, and return the run.

    One that is interrupted can be judged later, after it was resumed if it is not complete; what is known of it is written to the
    targets.
    """
    with own_prints_aside():
        experiment = prepare_again(baseline, path, again)
    try:
        with quiet_loops(), own_prints_aside(), watching(experiment, quiet=quiet, may_shrink=False) as progress:
            ended_run = run_to_judge(experiment, _Notes() if quiet else progress, baseline, rules)
    except KeyboardInterrupt:
        _tell_of_interruption(experiment, baseline, path, rules, targets)
        raise typer.Exit(INTERRUPTED) from None
    if ended_run.stopped:
        say(f"stopped early: {ended_run.stopped}")
    return ended_run


def _tell_of_interruption(experiment: Experiment, baseline: Baseline, path: Path, rules: Rules, targets: GateTargets) -> None:
    """Say what is known of an interrupted run, and the commands that go on with it, if it is not complete, and then judge it."""
    judging = shlex.join(["whichloop", "gate", str(experiment.folder), "--baseline", str(path), *rules.words(), *targets.flags()])
    with suppress(RunError):
        interrupted = interrupted_run(read_run(experiment.folder), baseline)
        what_is_known = interrupted.sentence_with(judging)
        targets.write_unjudged(what_is_known, interrupted.place)
        say(terminal_safe(what_is_known))
        if interrupted.is_complete:
            return
    words = [shlex.quote(str(experiment.folder)), *resume_flags(experiment.config)]
    say(f"interrupted; go on with whichloop resume {' '.join(words)}, then")
    say(f"  {judging}")


class _Notes(Unwatched):
    """Progress of which only what needs a look is told, such as a trial that hangs: a gate that waits for it is not silent."""

    def noted(self, text: str) -> None:
        """Print it at once."""
        print_note(text)


def _print(judged: GateResult, *, as_json: bool, verbose: bool) -> None:
    if as_json:
        print(json.dumps(to_json(judged), ensure_ascii=True, allow_nan=False))
        return
    print_gate(judged, verbose=verbose)
