"""The gate within a team's own tests: the value of the pytest plugin's fixture `loop_gate`."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args

import pytest

from whichloop.checks.pytest_items import check_not_async
from whichloop.experiments.compare.prepare import Experiment, prepare
from whichloop.experiments.compare.results import Results, results
from whichloop.metrics.statistics import ALPHA
from whichloop.metrics.summary import PRIMARY
from whichloop.protocol.files import file_error_words
from whichloop.protocol.names import nearest, program_spec
from whichloop.protocol.own_code import raised_in
from whichloop.protocol.values import counted
from whichloop.runs.config import CompareConfig, config_from
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.silent_end import terminated_as_interrupted, told_of_exit
from whichloop.text.output import safe_for_others

from .changes.baseline_changes import blessed_crashes, replaced
from .changes.unseen import lower_defaults
from .commands import Counting, Rules
from .comparable import COMMON_ADVICE, COMMON_FLAG, Incomparable, check_accuracy_margin, check_request
from .data.advice import Advice
from .data.baseline import Baseline, bless, read_baseline, write_baseline
from .data.damaged import SUFFIX, DamagedBaseline, missing_files_told
from .data.outcome import PASSES, GateResult, OnOtherAnswers, OnWorseHere
from .data.outcome import OnUndecided as GateOnUndecided
from .data.troubles import literal
from .ended_run import LeftUnknown, interrupted_run, refuse_before_it_runs, run_to_judge, with_lines_watched
from .judge import DEFAULT_METRICS, judge
from .output.brief import text
from .output.github import (
    append_error,
    append_summary,
    github_annotations,
    in_actions,
    step_summary,
    unjudged_annotation,
)
from .output.next_steps import let_through, next_steps
from .output.sentences import further_lines, headline
from .running import run_unless_it_hangs, with_stall_limit

OnUndecided = Literal["fail", "skip", "pass"]


@dataclass(frozen=True, slots=True)
class LoopGate:
    """A gate that judges loops against a baseline from within one test."""

    item: pytest.Item
    default_baseline: Path
    runs: Path
    blesses: bool
    """Whether calls write baselines instead of judging by them."""
    blessed: set[Path]
    """Baselines that this session wrote."""
    defaults: Mapping[str, Any]
    """The marker's keywords."""
    say: Callable[[str], None]
    """A function that adds a line to the summary of the session."""
    annotate: Callable[[str], None]
    """A function that prints a workflow command of GitHub when the session ends."""
    leave_open: Callable[[str], None]
    """A function that keeps what this gate leaves unknown until the session ends, when other tests may have shown it."""
    tell: Callable[[str], None]
    """A function that prints a line at once, such as that a trial hangs."""

    def __call__(self, loop: str | type | None = None, *, program: str | None = None, **settings: Any) -> GateResult:
        """Run `loop`, a name as `--loop` takes it or a class, and fail the test if it is worse than its baseline.

        Or run `program`, an agent as `--program` takes it: a command line, `my.module:function` or `FILE.py:function`.
        `baseline`: a file, relative to the test's folder [baselines/MODULE.TEST.json]. `margin`: accepted loss of accuracy [0.02].
        `metrics`: other metric → the share that it may grow by, such as {"tokens": 0.1}. `alpha`: level of the tests [0.05].
        `on_undecided`: fail [default], skip or pass. `on_worse_here`: fail [default] or pass. `on_other_answers`: pass [default] or
        fail, where answers with the blessed score are others. `common_tasks`: where the suite has changed since, judge by the tasks
        that are the same in both [False]. All other keywords are settings of a comparison: suite, profile, tasks, repeats, seed,
        model, cassette, … Return the result; its outcome is `blessed` if a baseline was written. Bad settings, and a baseline of
        something else, fail the test with a line that names them.
        """
        try:
            with told_of_exit():
                keywords = {**self.defaults, **settings}
                default = keywords.pop("program", None)
                return self._judge(_named(loop, program or default), _Settings.of(keywords))
        except (ValueError, OSError, SystemExit) as error:
            mistake = self._mistake(error)
        _fail(f"loop_gate: {mistake}")  # out here, where no context prints it twice

    def _judge(self, loop: str, settings: _Settings) -> GateResult:
        path = self.default_baseline if settings.baseline is None else self.item.path.parent / settings.baseline
        if self.blesses:
            if path.resolve() in self.blessed:
                raise ValueError(f"{path} was written by another call just now; give each call a file of its own: baseline=…")
            return self._bless(self._run_to_bless(self._prepared(loop, settings.settings), path), path, settings)
        if not path.is_file():
            shutil.rmtree(self._prepared(loop, settings.settings).folder)  # a mistake in the call is told before what comes next
            absent = f"no baseline {self._from_here(path)}; write it with: {self._bless_command()}"
            self._show_unjudged(absent)
            _fail(absent)
        baseline = read_baseline(path)
        check_request(baseline, settings.metrics, settings.alpha)
        experiment = with_lines_watched(self._prepared(loop, settings.settings), baseline)
        common = settings.common_tasks
        refuse_before_it_runs(experiment, Path(self._from_here(path)), baseline, common=common)
        if "trial_timeout_s" not in settings.settings:
            experiment = with_stall_limit(experiment, baseline)
        rules = Rules(settings.metrics, settings.alpha, common)
        judges = ["whichloop", "gate", str(experiment.folder), "--baseline", self._from_here(path)]
        judging = shlex.join([*judges, *rules.words(), *settings.counting.words()])
        with self._interruption_told(experiment, baseline, judging):
            ended_run = run_to_judge(experiment, _NotesAtOnce(self.tell), baseline, rules)
        _check_finished(ended_run.stopped)
        judged = ended_run.judged(baseline, rules, path)
        judged = replace(judged, bless=self._bless_command() if judged.bless else "", advice=self._advice(judged.advice, settings))
        self._end(judged, settings)
        return judged

    def _mistake(self, error: ValueError | OSError | SystemExit) -> str:
        """Return the error in words, with the command that blesses where a baseline is damaged or of something else; within GitHub
        Actions it is shown there, too."""
        if isinstance(error, DamagedBaseline):
            mistake = f"{error}:\n    {self._bless_command()}".replace(str(error.path), self._from_here(error.path))
        else:
            bless = [f"  to bless: {self._bless_command()}"] if isinstance(error, Incomparable) else []
            mistake = "\n".join([_mistake(error), *bless])
        mistake = safe_for_others(mistake)
        self._show_unjudged(mistake, raised_in(error))
        return mistake

    def _show_unjudged(self, message: str, place: tuple[str | Path, int] | None = None) -> None:
        """Annotate a step of GitHub Actions, and add to its summary, what keeps the gate from judging, at a place in a file."""
        if in_actions():
            self.annotate(unjudged_annotation(message, place))
        if (summary := step_summary()) is not None:
            with suppress(OSError):
                append_error(summary, message)

    def _bless_command(self) -> str:
        return shlex.join(self._pytest("--loop-bless"))

    def _pytest(self, *flags: str) -> tuple[str, ...]:
        """Return the words that run this test alone, from where pytest was started."""
        config = self.item.config
        file, *names = self.item.nodeid.split("::")
        return (*_started_as(config), *flags, "::".join([self._from_here(config.rootpath / file), *names]))

    def _from_here(self, path: Path) -> str:
        """Return a file as seen from where pytest was started; one elsewhere as it is."""
        here = self.item.config.invocation_params.dir
        return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)

    def _advice(self, advice: Advice, settings: _Settings) -> Advice:
        """Return the advice in a test's words: its settings stand in the test, and pytest blesses and gates."""
        again = self._pytest()
        here = advice.with_flags([*settings.counting.words()]).with_words(
            lambda word: self._from_here(Path(word)) if word.endswith(SUFFIX) else word
        )
        return replace(here, asker="test", again=again, paired=again, bless_latest=self._pytest("--loop-bless"))

    def _prepared(self, loop: str, settings: Mapping[str, Any]) -> Experiment:
        check_not_async(self.item, "loop_gate")
        data = {"loops": (loop,), "runs": self.runs, "mlflow": False} | _plural(settings)
        config = config_from(data, self.item.nodeid)
        with missing_files_told(settings, "the test"):
            return prepare(config, is_compared=False)

    def _run_to_bless(self, experiment: Experiment, path: Path) -> Results:
        blessing = shlex.join(["whichloop", "bless", str(experiment.folder), "--output", self._from_here(path)])
        with self._interruption_told(experiment, None, blessing):
            stopped = run_unless_it_hangs(experiment, _NotesAtOnce(self.tell))
        _check_finished(stopped)
        return results(experiment.folder)

    @contextmanager
    def _interruption_told(self, experiment: Experiment, baseline: Baseline | None, command: str) -> Iterator[None]:
        """Tell what is known of the run where Ctrl-C or SIGTERM interrupts the block, which ends in KeyboardInterrupt then.

        `command`: the one that judges or blesses the run if it is complete.
        """
        try:
            with terminated_as_interrupted():
                yield
        except KeyboardInterrupt:
            with suppress(ValueError, OSError):
                interrupted = interrupted_run(results(experiment.folder), baseline)
                what_is_known = interrupted.sentence_with(command)
                self._show_unjudged(what_is_known, interrupted.place)
                self.item.ihook.pytest_runtest_logreport(report=_failed(self.item, literal(what_is_known)))
            raise

    def _bless(self, run_results: Results, path: Path, settings: _Settings) -> GateResult:
        """Write the baseline, say what changes in the one that it replaces, and return the run held against itself."""
        new = bless(run_results)
        judged = judge(run_results, new, metrics=settings.metrics, alpha=settings.alpha, path=path)
        replacements = replaced(path, new)
        write_baseline(path, new)
        self.blessed.add(path.resolve())
        self.say(f"blessed {counted(len(run_results.records), 'trial')}: {path}")
        for line in (*lower_defaults(run_results.manifest), *blessed_crashes(run_results.records), *replacements):
            self.say(line)
        return replace(judged, outcome="blessed")

    def _end(self, judged: GateResult, settings: _Settings) -> None:
        on_undecided, outcome = settings.on_undecided, judged.held_as(settings.on_worse_here)
        judged = let_through(judged, settings.on_worse_here, on_undecided).with_answers_held(settings.on_other_answers)
        self.leave_open(LeftUnknown.by(judged).to_text())
        judged = replace(judged, followed=(), advice=replace(judged.advice, unseen=()))  # which another test may know
        self._show_github(judged, settings)
        is_open = outcome == "undecided" and not judged.fails_for_answers
        skips = is_open and on_undecided == "skip" and judged.undecided_as("undecided") == "undecided"
        passes = on_undecided == "pass" if is_open else outcome in PASSES and not judged.fails_for_answers
        if not (passes or skips):
            _fail(text(judged))  # which has all that the summary of the session says of other tests
        for line in (headline(judged), *further_lines(judged)):
            self.say(line)
        if judged.advice.let_through or (judged.bless and judged.outcome in PASSES):
            for step in next_steps(judged)[:1]:
                self.say(step.brief)
        if skips:
            raise pytest.skip.Exception(headline(judged), _use_item_location=True)  # where the user's test stands, not this line

    def _show_github(self, judged: GateResult, settings: _Settings) -> None:
        """Annotate a step of GitHub Actions, and add to its summary, as the command does."""
        if in_actions():
            for line in github_annotations(judged, settings.counting.on_undecided, settings.on_worse_here):
                self.annotate(line)
        if (summary := step_summary()) is not None:
            append_summary(summary, judged)


def _started_as(config: pytest.Config) -> tuple[str, ...]:
    """Return the words that start pytest as this one was started: `python -m pytest` has the folder where Python looks for code."""
    typed = getattr(config, "workerinput", {}).get(
        "mainargv", sys.argv
    )  # a worker of pytest-xdist knows what its session was typed as
    return ("python", "-m", "pytest") if Path(typed[0]).name == "__main__.py" else ("pytest",)


def _fail(message: str) -> NoReturn:
    """Fail the test with a message that may quote the user's own code."""
    pytest.fail(safe_for_others(message), pytrace=False)


def _check_finished(stopped: str) -> None:
    """Fail the test if its run stopped early, for this reason."""
    if stopped:
        _fail(f"the run was not finished: {stopped}")


def _failed(item: pytest.Item, reason: str) -> pytest.TestReport:
    """Return the report of a test that cannot end by itself, for the terminal and the JUnit file."""
    report = pytest.TestReport(item.nodeid, item.location, dict.fromkeys(item.keywords, 1), "failed", reason, "call")
    report.user_properties = item.user_properties
    return report


class _NotesAtOnce(Unwatched):
    """Progress of which only what needs a look is told."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def noted(self, text: str) -> None:
        """Print it at once."""
        self._tell(f"loop_gate: {literal(text)}")


@dataclass(frozen=True, slots=True)
class _Settings:
    """The keywords of a call, split into those of the gate and those of the comparison."""

    settings: Mapping[str, Any]
    metrics: Mapping[str, float]
    alpha: float
    baseline: str | Path | None
    on_undecided: OnUndecided
    on_worse_here: OnWorseHere
    on_other_answers: OnOtherAnswers
    common_tasks: bool

    @property
    def counting(self) -> Counting:
        """How outcomes count, as the command line says it: what a test skips is undecided there."""
        undecided: GateOnUndecided = "undecided" if self.on_undecided == "skip" else self.on_undecided
        return Counting(undecided, self.on_worse_here, self.on_other_answers)

    @classmethod
    def of(cls, keywords: Mapping[str, Any]) -> _Settings:
        settings = dict(keywords)
        margin = settings.pop("margin", DEFAULT_METRICS[PRIMARY])
        metrics = settings.pop("metrics", {})
        on_undecided, on_worse_here = settings.pop("on_undecided", "fail"), settings.pop("on_worse_here", "fail")
        on_other_answers = settings.pop("on_other_answers", "pass")
        alpha = settings.pop("alpha", ALPHA)
        baseline = settings.pop("baseline", None)
        common_tasks = settings.pop("common_tasks", False)
        known_keywords = (*_PLURALS, *CompareConfig.model_fields, *OWN_KEYWORDS)
        for name in settings:
            if name not in known_keywords:
                raise ValueError(f"unknown keyword {name!r}; {nearest(name, known_keywords)}")
        if not isinstance(metrics, Mapping):
            raise ValueError(f"metrics maps metric to margin, such as {{'tokens': 0.1}}, got {metrics!r}")
        for name, value, known_values in (
            ("on_undecided", on_undecided, get_args(OnUndecided)),
            ("on_worse_here", on_worse_here, get_args(OnWorseHere)),
            ("on_other_answers", on_other_answers, get_args(OnOtherAnswers)),
        ):
            if value not in known_values:
                raise ValueError(f"{name} is {', '.join(known_values)}, got {value!r}")
        if not isinstance(common_tasks, bool):
            raise ValueError(f"common_tasks is True or False, got {common_tasks!r}")
        for name, value in {"margin": margin, "alpha": alpha, **metrics}.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"{name} is a number, got {value!r}")
        check_accuracy_margin("margin", margin)
        return cls(
            metrics={PRIMARY: margin, **metrics},
            alpha=alpha,
            baseline=baseline,
            on_undecided=on_undecided,
            on_worse_here=on_worse_here,
            on_other_answers=on_other_answers,
            common_tasks=common_tasks,
            settings=settings,
        )


_COMMON = "common_tasks=True"
"""What `--common-tasks` is called in a test."""


def _mistake(error: BaseException) -> str:
    """Return the error in words, what would be right in lines of its own; one about a file names the file first and no error
    number."""
    text = "\n".join(error.lines) if isinstance(error, Incomparable) else str(error)
    words = file_error_words(error) if isinstance(error, OSError) else text
    return words.replace(COMMON_ADVICE, f"{_COMMON} judges by").replace(COMMON_FLAG, _COMMON)


def _named(loop: str | type | None, program: str | None) -> str:
    """Return a loop's name as a comparison takes it. Raises ValueError for none and for two."""
    wanted = 'name a loop, such as loop_gate("finish"), or program="my_agent.py:solve"'
    if loop is None:
        if program is None:
            raise ValueError(f"{wanted}; none of them is given")
        return program_spec(program)
    if program is not None:
        raise ValueError(f"{wanted}; both of them are given")
    return loop if isinstance(loop, str) else f"{loop.__module__}:{loop.__qualname__}"


OWN_KEYWORDS = (
    "program",
    "baseline",
    "margin",
    "metrics",
    "alpha",
    "on_undecided",
    "on_worse_here",
    "on_other_answers",
    "common_tasks",
)
"""Keywords of a call that are no settings of a comparison."""
_PLURALS = {"profile": "profiles", "model": "models"}


def _plural(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Turn `profile="clean"` into `profiles=("clean",)`, the form of a comparison."""
    data = dict(settings)
    for singular, plural in _PLURALS.items():
        if singular in data:
            if plural in data:
                raise ValueError(f"{singular} and {plural} are both given")
            data[plural] = (data.pop(singular),)
    return data
