"""An optimization from configuration to tested programs: search each design's prompts, then open the test split, once."""

from __future__ import annotations

import contextlib
import json
import re
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import cast

import dspy

from whichloop.datasets.task import Task
from whichloop.dspy_seam import lm_of
from whichloop.dspy_seam.program import LoopProgram, loop_with
from whichloop.experiments.compare import prepare as compare_prepare
from whichloop.experiments.compare import reopen as compare_reopen
from whichloop.experiments.compare import run as compare
from whichloop.experiments.compare.prepare import Experiment
from whichloop.models.metering import Meter
from whichloop.models.real import RealModel
from whichloop.protocol import Optimizable
from whichloop.protocol.digest import seal_document
from whichloop.protocol.files import readable
from whichloop.protocol.names import without_process
from whichloop.protocol.program import ABOUT
from whichloop.protocol.redact import redact
from whichloop.protocol.values import counted
from whichloop.runs.config import BudgetConfig, CompareConfig
from whichloop.runs.engine.interruption import INTERRUPTED, Interruption
from whichloop.runs.engine.job import budget_of
from whichloop.runs.engine.runner import Progress
from whichloop.runs.folders import TEST
from whichloop.runs.manifest import read_manifest, timestamp, write_manifest
from whichloop.runs.store.files import MANIFEST, RunError, locked, read_document, write_whole
from whichloop.runs.trial.setting import TrialContext
from whichloop.runs.trial_models import TrialModels, open_models
from whichloop.text.output import json_safe

from .candidates import SILENT, Candidate, SearchEnd, Status, Watcher
from .compiling import OptimizerFailed, Workshop
from .event_loop_thread import Background
from .manifest import (
    CANDIDATES,
    ENDED,
    FAILURE,
    PROGRAM,
    PROPOSALS,
    ROLLOUTS,
    SplitOpening,
    log_digest,
    read_optimization_manifest,
    saved_digest,
)
from .optimizer import unread_proposals_warning
from .prepare import (
    DesignSearch,
    Optimization,
    dependency_versions,
    open_proposer,
    proposal_pricing,
    search_config,
    typed_permissions,
)
from .proposals import Proposals
from .raising import BudgetSpent
from .rollouts import RolloutRules, Rollouts, RunStopped, ScorerBroken


def open_test(search: Optimization) -> Experiment:
    """Create or reopen the comparison on the test split: each design as it was, and with its program.

    Before the first trial, the manifest records when the split was opened, for which programs, and the rollouts until then.
    Raises RunError if it was opened before for other programs.
    """
    programs = {design.name: design.ended().digest for design in search.designs}
    rollouts = {design.name: log_digest(design.folder / ROLLOUTS) for design in search.designs}
    folder = search.folder / TEST
    manifest = read_optimization_manifest(search.folder)
    test = manifest.splits["test"]
    for part, now in (("programs", programs), ("rollouts", rollouts)):
        if test.opened is not None and getattr(test.opened, part) != now:
            raise RunError(
                f"{search.folder}: the test split was opened before, for other {part}; it is opened once: start a new run"
            )
    for design in search.designs:
        if saved_digest(design.folder / PROGRAM) != programs[design.name]:
            raise RunError(f"{design.folder / PROGRAM}: not the program that the optimization gave")
    if test.opened is None:
        test = test.model_copy(update={"opened": SplitOpening(at=timestamp(), programs=programs, rollouts=rollouts)})
        write_manifest(search.folder, manifest.model_copy(update={"splits": {**manifest.splits, "test": test}}))
    config, is_begun = test_config(search), (folder / MANIFEST).is_file()
    if not is_begun:
        return compare_prepare.prepare(config, folder)
    _follow(folder, config)
    return compare_reopen.reopen(folder, typed_permissions(config))


def test_config(optimization: Optimization) -> CompareConfig:
    """Return the configuration of the comparison on the test split."""
    loops = [*(design.name for design in optimization.designs), *(_optimized(design) for design in optimization.designs)]
    return optimization.config.compare.model_copy(
        update={"name": None, "loops": tuple(loops), "split": "test", "budget": BudgetConfig(), "mlflow": False}
    )


def _optimized(design: DesignSearch) -> str:
    return str(replace(design.arm.spec, program=str((design.folder / PROGRAM).resolve())))


def _follow(folder: Path, config: CompareConfig) -> None:
    """Update the paths in a test that began before the run directory was moved."""
    manifest = read_manifest(folder)
    if manifest.settings.loops != config.loops:
        write_manifest(folder, manifest.model_copy(update={"config": {**manifest.config, "loops": [*config.loops]}}))


# --- running ---


def run(optimization: Optimization, watcher: Watcher = SILENT, progress: Progress = SILENT) -> str:
    """Optimize the remaining designs, then test; `progress` is notified of each test trial.

    Return the reason for an early stop, or an empty text. The first Ctrl-C in a search lets the rollouts under way end; another one
    raises KeyboardInterrupt. Either leaves a resumable run. Raises RunError and ValueError.
    """
    interruption = Interruption()
    with locked(optimization.folder):
        try:
            with interruption.listening():
                for design in optimization.designs:
                    if design.is_done:
                        watcher.ended(design.name, design.ended(), _final_candidate(design))
                    else:
                        _optimize(optimization, design, watcher, interruption, progress)
                    if interruption.is_ending:  # while the last rollout of the search was under way
                        raise RunStopped(INTERRUPTED)
        except RunStopped as stopped:
            return str(stopped)
        ends = [design.ended() for design in optimization.designs]
        if all(end.status == "failed" for end in ends):
            raise RunError(_all_failed(optimization.designs, ends[0].reason))
        return compare.run(open_test(optimization), progress)


def _all_failed(designs: Sequence[DesignSearch], reason: str) -> str:
    """Return why no design could be optimized, by the first of them."""
    file = designs[0].folder / FAILURE
    details = [*(["on all designs"] if len(designs) > 1 else []), *([f"the traceback is in {file}"] if file.is_file() else [])]
    added = f" ({'; '.join(details)})" if details else ""
    return f"{reason}{added}; the test split stays locked"


def _optimize(
    optimization: Optimization, design: DesignSearch, watcher: Watcher, interruption: Interruption, progress: Progress
) -> None:
    config = optimization.config
    design.folder.mkdir(parents=True, exist_ok=True)
    answers = open_models(search_config(config), (design.arm,))
    with Background() as background, _opened(background, answers) as models:
        setting = TrialContext(
            optimization.suite,
            models,
            config.compare.trial_timeout_s,
            budget_of(config.compare.trial_budget),
            Meter(budget_of(config.search.budget)),
            config.compare.real_time,
            config.compare.tool_timeout_s,
        )
        rollouts = Rollouts(
            design.arm,
            optimization.splits.searched,
            setting,
            background,
            design.folder / ROLLOUTS,
            watcher,
            RolloutRules(config.compare.seed, optimization.optimizer.only_collects),
        )
        proposer = open_proposer(config)
        proposals = Proposals(
            proposer,
            Meter(budget_of(config.proposer_budget)),
            background,
            design.folder / PROPOSALS,
            rollouts.proposed,
            proposal_pricing(config, proposer),
        )
        wind_down = partial(_wind_down, rollouts, progress)
        with (
            contextlib.closing(rollouts),
            contextlib.closing(proposals),
            interruption.of(None),
            interruption.gentle(wind_down, background.loop),
        ):
            end, final = _search(optimization, design, rollouts, proposals)
            if isinstance(proposer, RealModel):
                background.submit(proposer.aclose()).result()
    _save(optimization, design, rollouts, end, final)
    watcher.ended(design.name, end, final)


def _wind_down(rollouts: Rollouts, progress: Progress) -> None:
    """Begin no further rollout, and say so."""
    running = rollouts.wind_down()
    ends = f"{counted(running, 'rollout')} under way will end first" if running else "the search ends before its next rollout"
    progress.interrupted(f"{ends}; Ctrl-C again ends the search at once")


@contextlib.contextmanager
def _opened(background: Background, answers: TrialModels) -> Iterator[TrialModels]:
    """Open the models within the background's event loop."""
    context = answers.opened()
    models = background.submit(context.__aenter__()).result()
    try:
        yield models
    finally:
        background.submit(_close(context)).result()
        answers.close(whole=True)


async def _close(context: contextlib.AbstractAsyncContextManager[TrialModels]) -> None:
    await context.__aexit__(None, None, None)


def _search(setup: Optimization, design: DesignSearch, rollouts: Rollouts, proposals: Proposals) -> tuple[SearchEnd, Candidate]:
    """Run one compile, and score its initial and final programs on dev."""
    loop = design.arm.loop
    student = LoopProgram(loop, runner=rollouts)
    initial = rollouts.candidate(student.program)
    logged: list[str] = []
    status: Status = "finished"
    reason = ""
    try:
        compiled = setup.optimizer.compile(
            Workshop(
                student,
                [_example(task) for task in setup.splits.train],
                [_example(task) for task in setup.splits.dev],
                lm_of(proposals),
                setup.config.threads,
                setup.config.compare.seed,
                logged.append,
            )
        )
        final = rollouts.candidate(compiled.program, is_whole=True)
    except BudgetSpent as exhausted:
        status, reason, final = "budget", str(exhausted), rollouts.best()
    except ScorerBroken:
        final = rollouts.best()
    except OptimizerFailed as failure:
        status, reason, final = "failed", str(failure), rollouts.best()
        write_text(design.folder / FAILURE, redact("".join(traceback.format_exception(failure))))
    if status == "finished" and (used_up := rollouts.setting.meter.exhausted):
        status, reason = "budget", used_up
    before = rollouts.dev_scores(loop, initial.program)
    after = rollouts.dev_scores(loop, final.program)
    if rollouts.scorer.is_hopeless:
        status, reason = "failed", f"{rollouts.scorer.first} (it {rollouts.scorer})"
    end = SearchEnd(
        design=design.name,
        status=status,
        reason=reason,
        digest=final.digest,
        chosen=final.number,
        candidates=rollouts.tried,
        before=before,
        after=after,
        search=rollouts.spent,
        proposals=proposals.spent,
        evaluation=rollouts.evaluation,
        warnings=tuple(_warnings(setup, rollouts, proposals, logged)),
    )
    return end, rollouts.candidates[final.digest]


def _example(task: Task) -> object:
    """Return the example that a teleprompter gets for a task."""
    return dspy.Example(query=task.query.full_text, task=task.id, answer=task.expected).with_inputs("query", "task")


def _warnings(optimization: Optimization, rollouts: Rollouts, proposals: Proposals, logged: Sequence[str]) -> Iterator[str]:
    """Yield the warnings of a search; `logged`: DSPy's log messages."""
    predictors = next(iter(rollouts.candidates.values())).program
    unused = [name for name in predictors if rollouts.used_predictors and name not in rollouts.used_predictors]
    if unused and any(map(_UNUSED_PREDICTOR.search, logged)):
        yield f"never asked in the search, so that nothing could be learned for it: {', '.join(unused)}"
    yield from (
        f"{without_process(optimization.optimizer.name)} says: {line}"
        for line in logged
        if not (unused and _UNUSED_PREDICTOR.search(line))
    )
    if rollouts.scorer.raised and not rollouts.scorer.is_hopeless:
        yield f"the scorer {rollouts.scorer}, which count 0 for the optimizer, first with {rollouts.scorer.first}"
    if rollouts.errored:
        yield f"{rollouts.errored} rollouts were errored, after several attempts; the optimizer was told a score of 0 for them"
    if warning := unread_proposals_warning(proposals.spent.calls, [item.program for item in rollouts.candidates.values()]):
        yield warning


_UNUSED_PREDICTOR = re.compile(r"No valid reflective examples found for|No valid predictions found for any module")
"""GEPA's messages about a predictor that no rollout has used."""


def _save(setup: Optimization, design: DesignSearch, rollouts: Rollouts, end: SearchEnd, final: Candidate) -> None:
    """Write the program and the candidates, and finally mark the design as done."""
    config, arm = setup.config, design.arm
    about = {
        "design": arm.loop.name,
        "loop": arm.spec.name,
        "options": {name: json_safe(value) for name, value in arm.spec.options.items()},
        "suite": f"{setup.suite.name} {setup.suite.version}",
        "profile": arm.profile.name,
        "model": arm.model,
        "optimizer": config.search.optimizer,
        "seed": config.compare.seed,
        "budget": config.search.budget.model_dump(exclude_none=True),
        "candidate": final.number,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    state = LoopProgram(loop_with(arm.loop, final.program)).dump_state()
    write_json(design.folder / PROGRAM, {**state, "metadata": {"dependency_versions": dependency_versions()}, ABOUT: about})
    write_json(design.folder / CANDIDATES, {"candidates": [item.to_json() for item in rollouts.candidates.values()]})
    write_json(design.folder / ENDED, end.to_json())


def _final_candidate(design: DesignSearch) -> Candidate:
    """Read the final candidate of a design. Raises RunError."""
    path = design.folder / CANDIDATES
    try:
        items = read_document(path)["candidates"]
        own = cast(Optimizable, design.arm.loop).predictors  # checked when it was looked up
        return Candidate.from_json(items[design.ended().chosen], own)
    except OSError as error:
        raise RunError(f"{path}: {error.strerror}") from None
    except (AttributeError, ValueError, KeyError, IndexError, TypeError) as error:
        raise RunError(f"{path}: {type(error).__name__}: {error}") from None


def write_json(path: Path, value: Mapping[str, object]) -> None:
    """Write an object with its checksum, atomically."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_whole(path, readable(seal_document(text.encode("utf-8", "backslashreplace")), path))


def write_text(path: Path, text: str) -> None:
    """Write a file atomically."""
    write_whole(path, text.encode("utf-8", "backslashreplace"))
