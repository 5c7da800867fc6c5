"""An optimization from configuration to tested programs: search each design's prompts, then open the test split, once."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import cast

import dspy
from dspy.utils.saving import get_dependency_versions

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
from whichloop.runs.permissions import Permissions, own_code
from whichloop.runs.store.files import MANIFEST, RunError, locked, read_document, write_whole
from whichloop.runs.trial.setting import TrialContext
from whichloop.runs.trial_models import TrialModels, open_models
from whichloop.text.output import json_safe

from . import manifest as files
from .candidates import SILENT, Candidate, SearchEnd, Status, Watcher
from .compiling import BudgetSpent, OptimizerFailed, Workshop
from .prepare import DesignSearch, Optimization, open_proposer, proposal_pricing, search_config
from .proposals import Proposals
from .rollouts import Background, RolloutRules, Rollouts, RunStopped, ScorerBroken

# --- the locked tasks ---


def open_test(search: Optimization) -> Experiment:
    """Create or reopen the comparison on the test split: each design as it was, and with its program.

    Before the first trial, the manifest records when the split was opened, for which programs, and the rollouts until then.
    Raises RunError if it was opened before for other programs.
    """
    programs = {design.name: design.ended().digest for design in search.designs}
    rollouts = {design.name: files.log_digest(design.folder / files.ROLLOUTS) for design in search.designs}
    manifest = files.read_optimization_manifest(search.folder)
    test = manifest.splits["test"]
    for part, now in (("programs", programs), ("rollouts", rollouts)):
        if test.opened is not None and getattr(test.opened, part) != now:
            raise RunError(
                f"{search.folder}: the test split was opened before, for other {part}; it is opened once: start a new run"
            )
    for design in search.designs:
        if files.saved_digest(design.folder / files.PROGRAM) != programs[design.name]:
            raise RunError(f"{design.folder / files.PROGRAM}: not the program that the optimization gave")
    if test.opened is None:
        before = tuple(_opened_before(search.folder, test.digest))
        opened = files.SplitOpening(at=timestamp(), programs=programs, rollouts=rollouts, before=before)
        splits = {**manifest.splits, "test": test.model_copy(update={"opened": opened})}
        write_manifest(search.folder, manifest.model_copy(update={"splits": splits}))
    return _comparison(search.folder / TEST, config_of_test(search))


def _opened_before(folder: Path, tasks: str) -> Iterator[str]:
    """Yield the names of the runs beside this one that have opened the same tasks. `tasks`: their digest."""
    for other in sorted(path.parent for path in folder.parent.glob(f"*/{MANIFEST}") if path.parent != folder):
        try:
            test = files.read_optimization_manifest(other).splits["test"]
        except (RunError, KeyError):
            continue
        if test.opened is not None and test.digest == tasks:
            yield other.name


def config_of_test(search: Optimization, *, again: bool = False) -> CompareConfig:
    """Return the configuration of the comparison on the test split; `again`: of the second run of the old prompts."""
    compare = search.config.compare
    loops = [design.name for design in search.designs]
    if not again:
        loops += [str(replace(each.arm.spec, program=str((each.folder / files.PROGRAM).resolve()))) for each in search.designs]
    fixed = {"name": None, "split": "test", "budget": BudgetConfig(), "mlflow": False}
    return compare.model_copy(update={**fixed, "loops": tuple(loops), "seed": compare.seed ^ again})


def _comparison(folder: Path, config: CompareConfig) -> Experiment:
    """Create or reopen a comparison; the paths in one that began before the run directory was moved are updated."""
    if not (folder / MANIFEST).is_file():
        return compare_prepare.prepare(config, folder)
    manifest = read_manifest(folder)
    if manifest.settings.loops != config.loops:
        write_manifest(folder, manifest.model_copy(update={"config": {**manifest.config, "loops": [*config.loops]}}))
    allowed = Permissions(own_code(config), config.base_url, config.cassette, tracking_uri=config.tracking_uri)
    return compare_reopen.reopen(folder, allowed)


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
        except RunStopped as reason:
            return str(reason)
        ends = [design.ended() for design in optimization.designs]
        if all(end.status == "failed" for end in ends):
            file = optimization.designs[0].folder / files.FAILURE
            details = f"; the traceback is in {file}" if file.is_file() else ""
            raise RunError(f"{ends[0].reason}{details}; the test split stays locked")
        if stopped := compare.run(open_test(optimization), progress):
            return stopped
        again = _comparison(optimization.folder / files.AGAIN, config_of_test(optimization, again=True))
        return compare.run(again, progress)


def _optimize(
    optimization: Optimization, design: DesignSearch, watcher: Watcher, interruption: Interruption, progress: Progress
) -> None:
    config, compare_config = optimization.config, optimization.config.compare
    design.folder.mkdir(parents=True, exist_ok=True)
    answers = open_models(search_config(config), (design.arm,))
    with ExitStack() as stack:
        background = stack.enter_context(Background())
        setting = TrialContext(
            optimization.suite,
            stack.enter_context(_opened(background, answers)),
            compare_config.trial_timeout_s,
            budget_of(compare_config.trial_budget),
            Meter(budget_of(config.search.budget)),
            compare_config.real_time,
            compare_config.tool_timeout_s,
        )
        rules = RolloutRules(compare_config.seed, optimization.optimizer.about.only_collects)
        tasks, log = optimization.splits.searched, design.folder / files.ROLLOUTS
        rollouts = stack.enter_context(closing(Rollouts(design.arm, tasks, setting, background, log, watcher, rules)))
        proposer = open_proposer(config)
        proposals = Proposals(
            proposer,
            Meter(budget_of(config.proposer_budget)),
            background,
            design.folder / files.PROPOSALS,
            rollouts.proposed,
            proposal_pricing(config, proposer),
        )
        stack.enter_context(closing(proposals))
        stack.enter_context(interruption.of(None))
        stack.enter_context(interruption.gentle(partial(_wind_down, rollouts, progress), background.loop))
        end, final = _search(optimization, design, rollouts, proposals)
        if isinstance(proposer, RealModel):
            background.submit(proposer.aclose()).result()
    _save(optimization, design, rollouts, end, final)
    watcher.ended(design.name, end, final)


def _wind_down(rollouts: Rollouts, progress: Progress) -> None:
    """Begin no further rollout, and say so."""
    running = rollouts.wind_down()
    progress.interrupted(f"{counted(running, 'rollout')} under way will end first; Ctrl-C again ends the search at once")


@contextmanager
def _opened(background: Background, answers: TrialModels) -> Iterator[TrialModels]:
    """Open the models within the background's event loop."""
    stack = AsyncExitStack()
    models = background.submit(stack.enter_async_context(answers.opened())).result()
    try:
        yield models
    finally:
        background.submit(stack.aclose()).result()
        answers.close(whole=True)


def _search(setup: Optimization, design: DesignSearch, rollouts: Rollouts, proposals: Proposals) -> tuple[SearchEnd, Candidate]:
    """Run one compile, and score its initial and final programs on dev."""
    loop = design.arm.loop
    student = LoopProgram(loop, runner=rollouts)
    initial = rollouts.candidate(student.program)
    logged: list[str] = []
    status: Status = "finished"
    reason = ""
    train, dev = ([_example(task) for task in tasks] for tasks in (setup.splits.train, setup.splits.dev))
    lm, threads, seed, log = lm_of(proposals), setup.config.threads, setup.config.compare.seed, design.folder / files.CHATTER
    try:
        compiled = setup.optimizer.compile(Workshop(student, train, dev, lm, threads, seed, log, logged.append))
        final = rollouts.candidate(compiled.program, is_whole=True)
    except BudgetSpent as exhausted:
        status, reason, final = "budget", str(exhausted), rollouts.best()
    except ScorerBroken:
        final = rollouts.best()
    except OptimizerFailed as failure:
        status, reason, final = "failed", str(failure), rollouts.best()
        write_text(design.folder / files.FAILURE, redact("".join(traceback.format_exception(failure))))
    if status == "finished" and (used_up := rollouts.setting.meter.exhausted):
        status, reason = "budget", used_up
    before = rollouts.dev_scores(loop, initial.program)
    after = rollouts.dev_scores(loop, final.program)
    if rollouts.broken:
        status, reason = "failed", rollouts.broken
    end = SearchEnd(
        design=design.name,
        status=status,
        reason=reason,
        digest=final.digest,
        chosen=final.number,
        candidates=sum(candidate.counts for candidate in rollouts.candidates.values()),
        before=before,
        after=after,
        search=rollouts.spent,
        proposals=proposals.spent,
        evaluation=rollouts.evaluation,
        warnings=tuple(_warnings(without_process(setup.optimizer.name), rollouts, proposals, logged)),
    )
    return end, rollouts.candidates[final.digest]


def _example(task: Task) -> object:
    """Return the example that a teleprompter gets for a task."""
    return dspy.Example(query=task.query.full_text, task=task.id, answer=task.expected).with_inputs("query", "task")


def _warnings(optimizer: str, rollouts: Rollouts, proposals: Proposals, logged: Sequence[str]) -> Iterator[str]:
    """Yield the warnings of a search; `logged`: what DSPy warned of."""
    programs = [candidate.program for candidate in rollouts.candidates.values()]
    yield from (f"{optimizer} says: {line}" for line in logged)
    if (errors := rollouts.scorer_errors) and not rollouts.broken:
        yield f"the scorer raised in {counted(len(errors), 'rollout')}, which count 0 for the optimizer, first with {errors[0]}"
    if rollouts.errored:
        yield f"{rollouts.errored} rollouts were errored, after several attempts; the optimizer was told a score of 0 for them"
    instructions = {tuple(prompt.instructions for prompt in program.values()) for program in programs}
    if proposals.spent.calls and len(instructions) == 1:  # DSPy ignores proposals that it cannot read
        asked = proposals.spent.calls
        yield f"the optimizer made requests of its own ({asked}), but no other instructions were ever tried: look at the proposals"


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
    versions = get_dependency_versions()  # DSPy warns if they differ
    write_json(design.folder / files.PROGRAM, {**state, "metadata": {"dependency_versions": versions}, ABOUT: about})
    write_json(design.folder / files.CANDIDATES, {"candidates": [item.to_json() for item in rollouts.candidates.values()]})
    write_json(design.folder / files.ENDED, end.to_json())


def _final_candidate(design: DesignSearch) -> Candidate:
    """Read the final candidate of a design. Raises RunError."""
    path = design.folder / files.CANDIDATES
    own = cast(Optimizable, design.arm.loop).predictors  # checked when it was looked up
    try:
        return Candidate.from_json(read_document(path)["candidates"][design.ended().chosen], own)
    except (OSError, AttributeError, ValueError, KeyError, IndexError, TypeError) as error:
        raise RunError(f"{path}: {type(error).__name__}: {error}") from None


def write_json(path: Path, value: Mapping[str, object]) -> None:
    """Write an object with its checksum, atomically."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_whole(path, readable(seal_document(text.encode("utf-8", "backslashreplace")), path))


def write_text(path: Path, text: str) -> None:
    """Write a file atomically."""
    write_whole(path, text.encode("utf-8", "backslashreplace"))
