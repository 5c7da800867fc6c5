"""A run that a gate judges, and how a gate makes one: from its first trial to the doubtful ones that run once more.

Running a few trials of a gate's run once more, where it may have been chance that they came out otherwise than the blessed ones.

Only for the scripted model, whose trials cost nothing: of a loop that is the blessed one by every digest, which yet does otherwise,
and of a trial that ended at its time limit without having been interrupted, as it may have been slow.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from whichloop.experiments.compare.prepare import Experiment, prepare
from whichloop.experiments.compare.results import Results
from whichloop.experiments.compare.run import run_apart
from whichloop.metrics.arm_info import IMPORTED
from whichloop.metrics.record import Record
from whichloop.metrics.summary import PRIMARY
from whichloop.metrics.trajectory.trajectory import shortened
from whichloop.protocol.names import parse_spec
from whichloop.protocol.own_code import place_in
from whichloop.protocol.values import counted
from whichloop.runs.code_digests import loop_files
from whichloop.runs.config import CompareConfig, config_from
from whichloop.runs.engine.job import SeenLines
from whichloop.runs.engine.runner import Progress, Unwatched
from whichloop.runs.manifest import write_manifest
from whichloop.runs.permissions import NO_PERMISSIONS, Permissions, allowed_config
from whichloop.runs.registry import loops_named, programs_named
from whichloop.runs.run_state import RunState, TrialState, read_records
from whichloop.runs.store.files import RunError

from .case import GateCase, Key, case_of
from .changes.changed_code import lines_of_functions, other_loop_files, unrun_in_words
from .commands import Rules
from .comparable import Incomparable, match_arms, refuse_other
from .data.advice import Advice
from .data.baseline import Baseline, read_run
from .data.damaged import missing_files_told
from .data.line_digests import FollowedFile, changed_lines
from .data.outcome import GateResult
from .data.sides import TrialPair
from .data.troubles import hung, literal, short_arm, was_interrupted
from .judge import judge
from .output.github import append_open_questions, in_actions, open_question_annotations, step_summary
from .output.next_steps import not_met
from .output.sentences import says_what_is_unrun
from .running import Run, ever_hung, run_unless_it_hangs, with_stall_limit


def with_lines_watched(experiment: Experiment, baseline: Baseline) -> Experiment:
    """Return an experiment that is yet to run such that it tells which lines of the loops' changed files its trials come to.

    A file is left out of which nobody knows which lines changed, since the baseline has it, but not its lines: as one of an older
    whichloop does, or one that was blessed after the file had changed on the disk.
    """
    entries = {arm.arm: arm for arm in experiment.manifest.arms}
    matched = {new: old for old, new in match_arms(experiment.manifest, baseline).items() if new is not None}
    unknown, watched = baseline.files - baseline.lines.keys(), {}
    for arm in experiment.arms:
        if arm.name in matched:
            changed = {*other_loop_files(baseline.arms[matched[arm.name]], entries[arm.name])} - unknown
            watched.update({name: file.path for name, file in loop_files(arm.loop).items() if name in changed})
    return replace(experiment, lines=SeenLines(watched)) if watched else experiment


def followed_files(experiment: Experiment, baseline: Baseline) -> tuple[FollowedFile, ...]:
    """Return the changed files of the loops of an experiment that has ended, with the changed lines of functions that its trials
    came to, and those that none did.

    Nothing of a file of which no line was seen, as where the loop runs in a process of its own.
    """
    seen = experiment.lines
    if seen is None or not seen.is_whole:
        return ()
    followed = []
    for name, path in seen.files.items():
        if not (ran := seen.of(name)):
            continue
        try:
            text = path.read_text(encoding="utf-8")
            whole = lines_of_functions(compile(text, str(path), "exec", dont_inherit=True))
        except (OSError, ValueError, SyntaxError, RecursionError):
            continue
        changed = whole & changed_lines(baseline.lines.get(name, ""), text)
        followed.append(FollowedFile(name, str(path.resolve()), tuple(sorted(changed - ran)), tuple(sorted(changed & ran))))
    return tuple(followed)


@dataclass(frozen=True, slots=True)
class LeftUnknown:
    """What one gate leaves unknown, and what its trials showed."""

    files: tuple[FollowedFile, ...]
    """The changed files of its loop, with the lines that its trials came to."""
    unseen: tuple[tuple[str, str], ...]
    """Faults that no changed loop met, each with a profile that has them."""

    @classmethod
    def by(cls, judged: GateResult) -> LeftUnknown:
        """Return what a judgement leaves unknown; where a loss matters more, only what its trials showed."""
        files = judged.followed if says_what_is_unrun(judged) else [replace(file, unrun=()) for file in judged.followed]
        return cls(tuple(files), judged.advice.unseen)

    def to_text(self) -> str:
        """Return JSON, which a test's report can hold."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> LeftUnknown:
        """Read what `to_text` has written."""
        data = json.loads(text)
        files = (FollowedFile(**file | {"unrun": tuple(file["unrun"]), "ran": tuple(file["ran"])}) for file in data["files"])
        return cls(tuple(files), tuple((what, profile) for what, profile in data["unseen"]))

    @property
    def sentences(self) -> list[str]:
        """Which changed lines no trial came to."""
        return [literal(f"{sentence[:1].upper()}{sentence[1:]}.") for sentence in unrun_in_words(self.files)]

    def show_on_github(self, annotate: Callable[[str], None]) -> None:
        """Annotate a step of GitHub Actions, and add to its summary."""
        advice = [not_met(Advice(asker="test", unseen=self.unseen)).say] if self.unseen else []
        if in_actions():
            for line in open_question_annotations(self.files, advice):
                annotate(line)
        if (summary := step_summary()) is not None and (open_questions := [*self.sentences, *advice]):
            with suppress(OSError):
                append_open_questions(summary, open_questions)


def left_by_all(texts: Iterable[str]) -> LeftUnknown:
    """Return what all tests together leave unknown: lines that no trial of any of them came to, and faults that none of them met.

    `texts`: what each gate left unknown, as its test's report holds it.
    """
    each = [LeftUnknown.from_text(text) for text in texts]
    files: dict[str, list[FollowedFile]] = {}
    for file in (file for unknown in each for file in unknown.files):
        files.setdefault(file.path, []).append(file)
    unseen = [fault for fault in each[0].unseen if all(fault in unknown.unseen for unknown in each)] if each else []
    return LeftUnknown(tuple(map(_together, files.values())), tuple(unseen))


def _together(same: Sequence[FollowedFile]) -> FollowedFile:
    """Return one file as the trials of several gates came to its lines."""
    ran = {line for file in same for line in file.ran}
    unrun = {line for file in same for line in file.unrun} - ran
    return replace(same[0], unrun=tuple(sorted(unrun)), ran=tuple(sorted(ran)))


RepeatedTrials = Sequence[Record]
"""What trials gave that were run once more."""
MAX_DIFFERING = 5
"""Trials of an arm that are run again since they differ from the blessed ones."""
MAX_SLOW = 1
"""Trials of an arm that are run again since they ended at their time limit, which each takes once more."""


class NotesAlone(Unwatched):
    """Progress that passes notes on, such as what a first Ctrl-C waits for, and counts no trial: those of the run are counted."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def noted(self, text: str) -> None:
        """Pass a note on."""
        self._progress.noted(text)

    def interrupted(self, text: str) -> None:
        """Pass on what an interrupted run waits for."""
        self._progress.interrupted(text)


def run_doubtful_again(
    experiment: Experiment, results: Results, progress: Progress, baseline: Baseline, rules: Rules, run: Run = run_apart
) -> RepeatedTrials:
    """Run the doubtful trials of a run that has just ended once more, and return what they gave; nothing where none is.

    `experiment`: the one that made the run. Raises Incomparable as `judge` does.
    """
    case = case_of(results, baseline, rules, None)
    keys = frozenset(doubtful(case)) if _is_scripted(experiment) and not case.troubles() else frozenset()
    if not keys:
        return ()
    progress.noted(_said_of(len(keys)))
    with tempfile.TemporaryDirectory() as folder:
        write_manifest(Path(folder), experiment.manifest)
        past = RunState({record.key: _as_ended(record) for record in results.records if record.key not in keys})
        run(replace(experiment, folder=Path(folder), past=past), NotesAlone(progress))
        return read_records(Path(folder))


def _said_of(trials: int) -> str:
    """Return what is done, and why, since the trials of the run have all ended by then."""
    once = counted(trials, "doubtful trial runs", "doubtful trials run")
    return f"{once} once more before the run is judged: chance or a slow machine may have made them what they are"


def doubtful(case: GateCase) -> Iterator[Key]:
    """Yield the trials that chance, or a slow machine, may have made what they are."""
    for side in case.sides if case.fixed else ():
        if not side.hung_before and not any(map(was_interrupted, side.records)):
            yield from [record.key for record in side.records if hung(record)][:MAX_SLOW]
        if side.arm in case.blessed_loops:
            differing = sorted((pair for pair in side.pairs if not pair.same and not hung(pair.record)), key=_gravity)
            yield from [pair.record.key for pair in differing[:MAX_DIFFERING]]


def _gravity(pair: TrialPair) -> int:
    """Return 0 for a trial that lost its task, 1 for another score, 2 for the same one."""
    return 2 if pair.same_score else int(pair.no_worse(PRIMARY))


def _is_scripted(experiment: Experiment) -> bool:
    return not experiment.config.opened_models and experiment.config.cassette is None and not experiment.config.real_time


def _as_ended(record: Record) -> TrialState:
    return TrialState(record.status, record.stop, record.attempt)


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run that has ended, and what is known of it besides where the gate has made it itself."""

    results: Results
    stopped: str = ""
    """Why it stopped early; empty where it did not."""
    again: RepeatedTrials = ()
    """What its doubtful trials gave that were run once more."""
    followed: Sequence[FollowedFile] = ()
    """The changed files of the loops, with the lines that trials came to, and those that none did."""

    def judged(self, baseline: Baseline, rules: Rules, path: Path) -> GateResult:
        """Judge the run against the baseline in this file. Raises as `judge` does."""
        margins, alpha, common = rules.margins, rules.alpha, rules.common
        judged = judge(self.results, baseline, metrics=margins, alpha=alpha, path=path, common=common, again=self.again)
        return replace(judged, followed=self.followed)


def run_to_judge(experiment: Experiment, progress: Progress, baseline: Baseline, rules: Rules, run: Run = run_apart) -> EndedRun:
    """Run an experiment, until it is plain that a loop hangs, and then the doubtful trials once more, for `EndedRun.judged`.

    Raises KeyboardInterrupt, at whose time `interrupted_run` tells what is known, and Incomparable as `judge` does.
    """
    stopped = run_unless_it_hangs(experiment, progress, baseline, run)
    results = read_run(experiment.folder)
    again = () if stopped else run_doubtful_again(experiment, results, progress, baseline, rules, run)
    return EndedRun(results, stopped, again, followed_files(experiment, baseline))


@dataclass(frozen=True, slots=True)
class InterruptedRun:
    """What is known of a run that was interrupted."""

    sentence: str
    """How many trials ran, and which hang for sure, in one line."""
    is_complete: bool
    """Whether all trials of the schedule had ended, so that it is judged without any other."""
    place: tuple[str, int] | None
    """The file and the line of the user's code in which the first of these hangs; None where none does, or nobody knows."""

    def sentence_with(self, command: str) -> str:
        """Return what is known, and, of a complete run, the command that judges or blesses it."""
        return f"{self.sentence}; go on with: {command}" if self.is_complete else self.sentence


def interrupted_run(run: Results, baseline: Baseline | None) -> InterruptedRun:
    """Return what is known of a run that was interrupted, be it only after its last trial.

    A trial hangs for sure that was interrupted at its time limit, in an arm of which no blessed trial ended there; without a
    baseline, in any arm.
    """
    ran = f"interrupted after {len(run.records):,} of {counted(run.scheduled, 'trial')}"
    if run.is_complete:
        ran += f", before the run was {'blessed' if baseline is None else 'judged'}"
    hung = [record for record in run.records if was_interrupted(record)]
    where_none_did = ""
    if baseline is not None:
        hung_before = {arm for old, arm in match_arms(run.manifest, baseline).items() if ever_hung(baseline, old)}
        hung = [record for record in hung if record.arm not in hung_before]
        where_none_did = ", where none of the baseline did"
    if not hung:
        return InterruptedRun(ran, run.is_complete, None)
    first = hung[0]
    name = f"{short_arm(first.arm)}/{first.task}/{first.repeat}"
    hangs = counted(len(hung), f"trial hangs{where_none_did}", f"trials hang{where_none_did}")
    sentence = f"{ran}; {hangs}, such as {name} ({shortened(first.reason)})"
    return InterruptedRun(sentence, run.is_complete, place_in(first.reason))


@dataclass(frozen=True, slots=True)
class RerunSettings:
    """The settings for running the baseline's configuration again."""

    loops: Sequence[str] = ()
    """Loops as `--loop` takes them, which replace the baseline's; naming a loop here allows its code."""
    seed: int | None = None
    """A seed other than the baseline's, which gives fresh faults; trials are then no longer paired."""
    repeats: int | None = None
    allowed: Permissions = NO_PERMISSIONS
    """The user code, server and recording that the baseline names; server and recording may differ by now."""
    trial_timeout_s: float | None = None
    """Time limit for one trial, in seconds; None: the baseline's, or less where its trials were quick, see `with_stall_limit`."""
    runs: Path = Path("runs")
    common: bool = False
    """Where the suite has changed, the tasks that are the same in both are to be judged: they get the baseline's step limit."""


def prepare_again(baseline: Baseline, path: Path, settings: RerunSettings) -> Experiment:
    """Make the run directory of a new run.

    Raises RunError for code, a server or a recording that the baseline names and the user did not type, Incomparable if suite or
    profiles have changed or an arm is missing, ValueError for bad input, and OSError; then there is no directory.
    """
    config = config_again(baseline, path, settings)
    with missing_files_told(baseline.config, f"the configuration of the baseline {path}"):
        experiment = prepare(config, is_compared=False)
    refuse_before_it_runs(experiment, path, baseline, common=settings.common)
    experiment = with_lines_watched(experiment, baseline)
    return experiment if settings.trial_timeout_s is not None else with_stall_limit(experiment, baseline)


def refuse_before_it_runs(experiment: Experiment, path: Path, baseline: Baseline, *, common: bool) -> None:
    """Raise Incomparable, and remove the run's directory, where a run that is ready to start could not be judged; `path`: the
    baseline's file, which the user knows."""
    try:
        refuse_other(path, experiment.manifest, baseline, common=common)
    except Incomparable:
        shutil.rmtree(experiment.folder)
        raise


def config_again(baseline: Baseline, path: Path, settings: RerunSettings) -> CompareConfig:
    """Return the baseline's configuration with the requested changes. A recording is replayed; its model gets no request."""
    if IMPORTED in baseline.profiles:
        raise RunError(f"{path}: blessed from another tool's files, so there is nothing to run; import new ones, and name that run")
    if "loops" not in baseline.config:
        raise ValueError(f"{path}: its run was not made here, so it cannot be run again; name a run to judge")
    permissions = settings.allowed
    options: dict[str, Any] = {
        "loops": tuple(settings.loops),
        "seed": settings.seed,
        "repeats": settings.repeats,
        "trial_timeout_s": settings.trial_timeout_s,
        "base_url": permissions.base_url,
        "cassette": None if permissions.cassette is None else str(permissions.cassette),
        "runs": str(settings.runs),
        "max_tool_steps": baseline.suite.max_tool_steps if settings.common else None,
    }
    changes = {name: value for name, value in options.items() if value not in (None, ())}
    fixed = {"mlflow": False, "tracking_uri": None, "looks": None, "cassette_mode": _mode(baseline.config.get("cassette_mode"))}
    config = config_from({**baseline.config, **fixed, **changes}, str(path), typed=changes)
    typed = [parse_spec(text) for text in settings.loops]
    code = [*permissions.code, *(name for spec in typed for name in (*loops_named(spec), *programs_named(spec)))]
    return allowed_config(path, config, replace(permissions, code=code))


def _mode(recorded: Any) -> Any:
    """Return `replay` for a mode that made the recording, which exists by now."""
    return "replay" if recorded in ("record", "refresh") else recorded
