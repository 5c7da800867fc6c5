"""An optimization from configuration to tested programs: search each design's prompts, then open the test split, once."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import dspy
from dspy.utils.saving import get_dependency_versions

from whichloop.datasets.task import Task
from whichloop.dspy_seam import lm_of
from whichloop.dspy_seam.program import LoopProgram, loop_with
from whichloop.experiments.compare import reopen as compare_reopen
from whichloop.experiments.compare import run as compare
from whichloop.experiments.compare.run import Experiment
from whichloop.models.metering import Meter
from whichloop.models.real import RealModel
from whichloop.protocol.program import ABOUT
from whichloop.protocol.redact import redact
from whichloop.protocol.values import counted, json_safe
from whichloop.runs.config import BudgetConfig, CompareConfig
from whichloop.runs.engine.runner import Progress
from whichloop.runs.folders import TEST
from whichloop.runs.manifest import read_manifest, timestamp, write_manifest
from whichloop.runs.permissions import Permissions, own_code
from whichloop.runs.store.files import MANIFEST, RunError, locked, write_whole
from whichloop.runs.trial.trial import TrialContext, budget_of
from whichloop.runs.trial.watchdog import INTERRUPTED, Interruption
from whichloop.runs.trial_models import open_models

from . import candidates as files
from .candidates import SILENT, Candidate, SearchEnd, Status, Watcher, plain, read_end
from .compiling import OptimizerFailed, SearchOver, Workshop
from .config import AGAIN, SplitOpening, read_optimization_manifest
from .prepare import DesignSearch, Optimization, open_proposer, search_config
from .result import check_program
from .rollouts import Background, Proposals, Rollouts, RunStopped

# --- the locked tasks ---


def open_test(search: Optimization) -> Experiment:
    """Create or reopen the comparison on the test split: each design as it was, and with its program.

    Before it, the manifest records when the split was opened, for which programs, and the rollouts until then. Raises RunError.
    """
    now: dict[str, Any] = {
        "programs": {design.name: design.ended().digest for design in search.designs},
        "rollouts": {design.name: files.log_digest(design.folder / files.ROLLOUTS) for design in search.designs},
    }
    manifest = read_optimization_manifest(search.folder)
    test = manifest.splits["test"]
    for part, known in now.items() if test.opened else ():
        if getattr(test.opened, part) != known:
            raise RunError(f"{search.folder}: the test split was opened before, for other {part}; it is opened once")
    for design in search.designs:
        check_program(design.folder, now["programs"][design.name])
    if test.opened is None:
        opened = SplitOpening(at=timestamp(), before=tuple(_opened_before(search.folder, test.digest)), **now)
        splits = {**manifest.splits, "test": test.model_copy(update={"opened": opened})}
        write_manifest(search.folder, manifest.model_copy(update={"splits": splits}))
    return _comparison(search.folder / TEST, config_of_test(search))


def _opened_before(folder: Path, tasks: str) -> Iterator[str]:
    """Yield the names of the runs beside this one that have opened the same tasks. `tasks`: their digest."""
    for other in sorted(path.parent for path in folder.parent.glob(f"*/{MANIFEST}") if path.parent != folder):
        try:
            test = read_optimization_manifest(other).splits["test"]
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
        return compare.prepare(config, folder)
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
                    end = read_end(design.folder) or _optimize(optimization, design, watcher, interruption, progress)
                    watcher.ended(design.name, end)
                    if interruption.is_ending:  # while the last rollout of the search was under way
                        return INTERRUPTED
        except RunStopped as reason:
            return str(reason)
        ends = [design.ended() for design in optimization.designs]
        if all(end.status == "failed" for end in ends):
            file = optimization.designs[0].folder / files.FAILURE
            details = f"; the traceback is in {file}" if file.is_file() else ""
            raise RunError(f"{ends[0].reason}{details}; the test split stays locked")
        if stopped := compare.run_apart(open_test(optimization), progress):
            return stopped
        again = _comparison(optimization.folder / AGAIN, config_of_test(optimization, again=True))
        return compare.run_apart(again, progress)


def _optimize(
    optimization: Optimization, design: DesignSearch, watcher: Watcher, interruption: Interruption, progress: Progress
) -> SearchEnd:
    config, compare_config = optimization.config, optimization.config.compare
    design.folder.mkdir(parents=True, exist_ok=True)
    answers, opened = open_models(search_config(config), (design.arm,)), AsyncExitStack()
    with ExitStack() as stack:
        background = stack.enter_context(Background())  # whose event loop the models belong to
        stack.callback(answers.close, whole=True)
        stack.callback(lambda: background.submit(opened.aclose()).result())
        setting = TrialContext(
            optimization.suite,
            background.submit(opened.enter_async_context(answers.opened())).result(),
            compare_config.trial_timeout_s,
            budget_of(compare_config.trial_budget),
            Meter(budget_of(config.search.budget)),
            compare_config.real_time,
            compare_config.tool_timeout_s,
        )
        tasks = {task.id: (name, task) for name in ("train", "dev") for task in optimization.splits[name]}
        log, soft = design.folder / files.ROLLOUTS, optimization.optimizer.about.only_collects
        rollouts = Rollouts(design.arm, tasks, setting, background, log, watcher, compare_config.seed, soft)
        stack.enter_context(closing(rollouts))
        (proposer, pricing), meter = open_proposer(config), Meter(budget_of(config.proposer_budget))
        proposals = Proposals(proposer, meter, background, design.folder / files.PROPOSALS, rollouts.go_on, pricing)
        stack.enter_context(closing(proposals))

        def wind_down() -> None:
            running = counted(rollouts.wind_down(), "rollout")
            progress.interrupted(f"{running} under way will end first; Ctrl-C again ends the search at once")

        interruption.wind_down = partial(background.loop.call_soon_threadsafe, wind_down)
        stack.callback(setattr, interruption, "wind_down", None)
        end = _search(optimization, design, rollouts, proposals)
        if isinstance(proposer, RealModel):
            background.submit(proposer.aclose()).result()
    files.write_json(design.folder / files.ENDED, plain(end))  # marks the design as done
    return end


def _search(setup: Optimization, design: DesignSearch, rollouts: Rollouts, proposals: Proposals) -> SearchEnd:
    """Run one compile, score its initial and final programs on dev, and write the final one and all candidates."""
    loop = design.arm.loop
    student = LoopProgram(loop, runner=rollouts)
    initial = rollouts.candidate(student.program)
    status: Status = "finished"
    reason = ""
    train, dev = ([_example(task) for task in tasks] for tasks in (setup.splits["train"], setup.splits["dev"]))
    lm, threads, seed, log = lm_of(proposals), setup.config.threads, setup.config.compare.seed, design.folder / files.CHATTER
    try:
        final = rollouts.candidate(setup.optimizer.compile(Workshop(student, train, dev, lm, threads, seed, log)))
    except SearchOver as over:
        status, reason, final = over.status, str(over), rollouts.best()
    except OptimizerFailed as failure:
        status, reason, final = "failed", str(failure), rollouts.best()
        trace = redact("".join(traceback.format_exception(failure)))
        write_whole(design.folder / files.FAILURE, trace.encode("utf-8", "backslashreplace"))
    if status == "finished" and (used_up := rollouts.setting.meter.exhausted):
        status, reason = "budget", used_up
    before = rollouts.dev_scores(loop, initial.program)
    after = rollouts.dev_scores(loop, final.program)
    if rollouts.broken:
        status, reason = "failed", rollouts.broken
    state = LoopProgram(loop_with(loop, final.program)).dump_state()
    notes = {"metadata": {"dependency_versions": get_dependency_versions()}, ABOUT: _about(setup, design, final)}  # DSPy compares
    files.write_json(design.folder / files.PROGRAM, {**state, **notes})
    return SearchEnd(
        design=design.name,
        status=status,
        reason=reason,
        digest=final.digest,
        chosen=final.number,
        candidates=tuple(rollouts.candidates.values()),
        before=before,
        after=after,
        search=rollouts.spent,
        proposals=proposals.spent,
        evaluation=rollouts.evaluation,
        warnings=tuple(_warnings(rollouts, proposals)),
    )


def _example(task: Task) -> object:
    """Return the example that a teleprompter gets for a task."""
    return dspy.Example(query=task.query.full_text, task=task.id, answer=task.expected).with_inputs("query", "task")


def _warnings(rollouts: Rollouts, proposals: Proposals) -> Iterator[str]:
    if rollouts.errored:
        yield f"rollouts that errored, and count 0 for the optimizer: {rollouts.errored}, the last with {rollouts.last_failure}"
    texts = {tuple(prompt.instructions for prompt in each.program.values()) for each in rollouts.candidates.values()}
    if proposals.spent.calls and len(texts) == 1:  # DSPy ignores proposals that it cannot read
        yield f"no proposed instructions were ever tried, of {counted(proposals.spent.calls, 'request')}: look at {files.PROPOSALS}"


def _about(setup: Optimization, design: DesignSearch, final: Candidate) -> dict[str, object]:
    """Return our notes in the file of a program."""
    config, arm, budget = setup.config, design.arm, setup.config.search.budget.model_dump(exclude_none=True)
    options = {name: json_safe(value) for name, value in arm.spec.options.items()}
    where = {"suite": f"{setup.suite.name} {setup.suite.version}", "profile": arm.profile.name, "model": arm.model}
    how = {"optimizer": config.search.optimizer, "seed": config.compare.seed, "budget": budget, "candidate": final.number}
    return {"design": arm.loop.name, "loop": arm.spec.name, "options": options, **where, **how, "created": timestamp()}
