"""From a configuration to a run that is ready to go: everything looked up, the run directory made or opened again."""

from __future__ import annotations

import dataclasses
import platform
import re
import secrets
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from loopbench.datasets.generating import SPLITS, split_of
from loopbench.datasets.importing.rows import Rows
from loopbench.datasets.quarantine import read_quarantine, with_quarantine
from loopbench.datasets.task import Suite, Task
from loopbench.metrics.record import RECORD_VERSION
from loopbench.metrics.scorers import scorer_named
from loopbench.metrics.sequential import Looks
from loopbench.models.profiles import PROFILES_VERSION
from loopbench.protocol import Loop, Optimizable, program_digest, render_value
from loopbench.runs.store.files import RunError, read_manifest, write_manifest
from loopbench.runs.store.lock import locked
from loopbench.text.plain_text import json_safe

from .config import CompareConfig, config_from
from .ground import ASKED, arms_changed, changes, questions_of, quoted, suite_changes, summary
from .past import Retry, RunState, Spent, read_state
from .registry import builtin_names, code_digest, loops_named, make_suite, nearest, own_code_digest, parse_spec
from .results import looks_of
from .schedule import Arm, Trial, make_arms, schedule
from .suite_checks import quick_problems
from .trial_models import TrialModels, open_models

PACKAGES = ("loopbench", "dspy", "mlflow", "pydantic", "scipy", "statsmodels")


@dataclass(frozen=True, slots=True)
class PendingTrials:
    """The trials of a schedule that are to be run, each made when its turn comes."""

    cells: Callable[[], Iterator[Trial]]
    """The whole schedule."""
    scheduled: int
    past: RunState
    retry: Retry | None

    def __iter__(self) -> Iterator[Trial]:
        for trial in self.cells():
            attempt = self.past.next_attempt(trial.key, self.retry)
            if attempt is not None:
                yield replace(trial, attempt=attempt) if attempt else trial

    def __len__(self) -> int:
        return self.scheduled - len(self.past.ended) + self.again

    @property
    def again(self) -> int:
        """Of them, those that have a record."""
        return sum(self.past.next_attempt(key, self.retry) is not None for key in self.past.ended)

    @property
    def favoured(self) -> int:
        """Of them, those that are scored already."""
        past = self.past
        return sum(past.is_favoured(key) and past.next_attempt(key, self.retry) is not None for key in past.ended)


@dataclass(frozen=True, slots=True)
class Experiment:
    """A run that is ready to go: everything looked up, the directory made."""

    folder: Path
    config: CompareConfig
    """As it is carried out now: a resume may have other workers, or another budget, than the manifest says."""
    suite: Suite
    tasks: Sequence[Task]
    arms: tuple[Arm, ...]
    manifest: Mapping[str, Any]
    trial_models: TrialModels = field(default_factory=TrialModels)
    past: RunState = field(default_factory=RunState)
    """What earlier sittings gave."""
    retry: Retry | None = None
    """What is run again on request."""

    @property
    def trials(self) -> int:
        """In the whole schedule."""
        return len(self.arms) * len(self.tasks) * self.config.repeats

    @property
    def spent(self) -> Spent:
        """By earlier sittings, as far as it is known."""
        return self.past.spent + Spent.cut_short(self.manifest)

    def missing(self) -> PendingTrials:
        """Trials without a record, and those that are to be tried again."""
        return PendingTrials(self._schedule, self.trials, self.past, self.retry)

    def _schedule(self) -> Iterator[Trial]:
        repeats, seed, looks = self.config.repeats, self.config.seed, looks_of(self.manifest)
        if looks is None:
            yield from schedule(self.arms, self.tasks, repeats, seed)
            return
        tasks = {task.id: task for task in self.tasks}
        for look in range(1, looks.count + 1):
            yield from schedule(self.arms, [tasks[task] for task in looks.stage(look)], repeats, seed)


def prepare(config: CompareConfig, folder: Path | None = None) -> Experiment:
    """Look everything up and make the run directory, `folder` or a new one.

    Raises ValueError for bad input; then nothing was made.
    """
    suite, tasks, arms = resolve(config)
    check_plans(config, suite, tasks)
    answers = open_models(config, arms)
    manifest = manifest_of(config, suite, tasks, arms) | {
        ASKED: asked_of(config, suite, tasks),
        "models": answers.as_manifest(),
        "suite_problems": list(quick_problems(suite, tasks)),
    }
    if config.looks is not None:
        looks = Looks.planned([task.id for task in tasks], config.looks, config.alpha, config.seed)
        manifest["looks"] = looks.to_json()
    folder = new_folder(config.runs, suite.name) if folder is None else folder
    folder.mkdir(parents=True, exist_ok=True)
    write_manifest(folder, manifest)
    return Experiment(folder, config, suite, tasks, arms, manifest, answers)


def check_plans(config: CompareConfig, suite: Suite, tasks: Sequence[Task]) -> None:
    """Raises ValueError where the scripted model is to answer, and tasks that nobody said to skip have no plan for it."""
    if config.skip_unplanned or "scripted" not in config.models:
        return
    known = tasks.facts.unplanned if isinstance(tasks, Rows) and tasks.facts is not None else None
    if known == 0:
        return  # tasks that stand in a file are not read again for it
    unplanned = (task for task in tasks if task.plan is None and not task.quarantined)
    first = next(unplanned, None)
    if first is None:
        return
    count = 1 + sum(1 for _ in unplanned) if known is None else known
    why = f"{first.id}: {first.no_plan or 'the suite gives none'}"
    rest = (
        "--skip-unplanned leaves them out"
        if count < len(tasks)
        else "run a real model, then learn plans from the run: loopbench suite learn"
    )
    said = f"{count} of {len(tasks)} tasks have no plan, which the scripted model needs"
    raise ValueError(f"suite {suite.name}: {said} ({why}); {rest}")


@dataclass(frozen=True, slots=True)
class Permissions:
    """What a run directory, which may come from anywhere, does not decide: the user has typed it again."""

    code: Collection[str] = ()
    """Names of code that is not built in and may be imported."""
    base_url: str | None = None
    """The server that may be asked, and sent the key."""
    cassette: Path | None = None
    """The folder of recordings that may be read and written."""
    address: str | None = None
    """The Ray cluster that may be sent the trials."""
    tracking_uri: str | None = None
    """The MLflow store or server that results may be logged to, with the token of the environment."""


NO_PERMISSIONS = Permissions()

SESSION_SETTINGS = frozenset({"concurrency", "workers", "engine", "address", "budget", "mlflow"})


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """How a run goes on this time. What a trial gives does not depend on it, and none of it is written to the manifest."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `CompareConfig` that win over the manifest's: those in `SESSION_SETTINGS`; of `budget` the given limits."""
    retry: Retry | None = None

    def over(self, begun: Mapping[str, Any]) -> dict[str, Any]:
        """What differs from the configuration that a run began with. Raises ValueError for a setting that results depend on."""
        for name in self.settings:
            if name not in SESSION_SETTINGS:
                raise ValueError(f"{name}: it stays as it was when the run began")
        changed = dict(self.settings)
        if "budget" in changed:
            known = begun.get("budget")
            changed["budget"] = {**(known if isinstance(known, dict) else {}), **changed["budget"]}
        if changed.get("engine") == "local":
            changed.setdefault("address", None)
        elif changed.get("address") is not None:
            changed.setdefault("engine", "ray")
        return changed


UNCHANGED = SessionSettings()


@dataclass(frozen=True, slots=True)
class Reopened:
    """A run that was begun, and what its configuration means today."""

    folder: Path
    manifest: Mapping[str, Any]
    config: CompareConfig
    """With what was typed for this sitting."""
    suite: Suite
    tasks: Sequence[Task]
    arms: tuple[Arm, ...]
    today: Mapping[str, Any]
    """The manifest that a run of this configuration would have if it began now."""

    @property
    def changes(self) -> list[str]:
        """What is another since the run began, in words."""
        return changes(self.manifest, self.today)

    def trial_models(self) -> TrialModels:
        """What answers; real models as they showed themselves when the run began. Raises as `open_models` does."""
        known = self.manifest.get("models")
        return open_models(self.config, self.arms, known if isinstance(known, dict) else {})


def look_again(folder: Path, allowed: Permissions = NO_PERMISSIONS, sitting: SessionSettings = UNCHANGED) -> Reopened:
    """Look up what a run's configuration means today. Raises RunError and ValueError; nothing is written."""
    manifest = read_manifest(folder)
    if "imported" in manifest:
        raise RunError(f"{folder}: imported from another tool's files, so there is nothing to run")
    changed = sitting.over(manifest["config"])
    config = config_from({**manifest["config"], **changed}, f"{folder}/manifest.json", typed=sitting.settings)
    config = allowed_config(folder, config, allowed)
    suite, tasks, arms = resolve(config)
    return Reopened(folder, manifest, config, suite, tasks, arms, manifest_of(config, suite, tasks, arms))


def reopen(folder: Path, allowed: Permissions = NO_PERMISSIONS, sitting: SessionSettings = UNCHANGED) -> Experiment:
    """An interrupted run. Raises RunError where code, suite or profiles have changed since: results are never mixed."""
    begun = look_again(folder, allowed, sitting)
    with locked(folder):
        pass  # a run that another process writes to is refused before anything is shown of it
    if begun.changes:
        raise RunError(changed_message(begun))
    _check_looks(folder, begun.manifest, begun.tasks)
    past = read_state(folder)
    return Experiment(
        folder, begun.config, begun.suite, begun.tasks, begun.arms, begun.manifest, begun.trial_models(), past, sitting.retry
    )


def changed_message(begun: Reopened) -> str:
    """What has changed since a run began, and what can be done about it, in one line."""
    way = _way_on(begun)
    found = summary(begun.changes)
    return f"{begun.folder}: changed since this run began: {found}; results are never mixed, nothing was written; {way}"


def _way_on(begun: Reopened) -> str:
    then, now, name = begun.manifest, begun.today, quoted(begun.folder)
    if not suite_changes(then, now):
        words = [name, "--fork", *resume_flags(begun.config)]
        return f"a new run that takes over what still holds: loopbench resume {' '.join(words)}"
    anew = "start a new run with the same settings"
    if arms_changed(then, now) or then.get(ASKED) != asked_of(begun.config, begun.suite, begun.tasks):
        return anew
    rescore = " ".join(["loopbench rescore", name, *allow_words(begun.config.model_copy(update={"loops": ()}))])
    if then["suite"].get("digest") != now["suite"]["digest"]:
        return f"the questions are the same, so the answers can be judged again: {rescore}"
    return f"where only scorers changed in it, judge the answers again: {rescore}; else {anew}"


def asked_of(config: CompareConfig, suite: Suite, tasks: Sequence[Task]) -> dict[str, str]:
    """What `ASKED` holds. Of the user's own code only `--tools` is a part: what a suite's module holds may be expected answers."""
    made = questions_of(suite, tasks, config.max_tool_steps or suite.max_tool_steps)
    return made if config.tools is None else made | {"tools": own_code_digest(None, config.tools)}


def _check_looks(folder: Path, manifest: Mapping[str, Any], tasks: Sequence[Task]) -> None:
    """Raises RunError where the plan of looks is not one of these tasks."""
    try:
        looks = looks_of(manifest)
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{folder}/manifest.json: looks: {error}") from None
    if looks is not None and set(looks.order) != {task.id for task in tasks}:
        raise RunError(f"{folder}/manifest.json: looks: other tasks than the suite's")


def allowed_config(folder: Path, config: CompareConfig, allowed: Permissions) -> CompareConfig:
    """A manifest's configuration, with what the user typed again. Raises RunError for what has to be typed and was not."""
    allowed_code(folder, own_code(config), allowed.code)
    shown = config.public()  # as in the manifest, which leaves out what is secret
    if config.base_url is not None:
        config = config.model_copy(update={"base_url": allowed.base_url})
        if config.public()["base_url"] != shown["base_url"]:
            again = f"type it again: --base-url {shlex.quote(shown['base_url'])}"
            raise RunError(f"{folder}: this run asks the server at {shown['base_url']}; {again}")
    if config.address is not None:
        config = config.model_copy(update={"address": allowed.address})
        if config.public()["address"] != shown["address"]:
            again = f"type it again: --address {shlex.quote(shown['address'])}, or stay here: --engine local"
            raise RunError(f"{folder}: this run goes to the Ray cluster at {shown['address']}; {again}")
    if config.tracking_uri is not None and config.mlflow:
        config = config.model_copy(update={"tracking_uri": allowed.tracking_uri})
        if config.public()["tracking_uri"] != shown["tracking_uri"]:
            again = f"type it again: --tracking-uri {shlex.quote(shown['tracking_uri'])}, or log nothing: --no-mlflow"
            raise RunError(f"{folder}: this run is logged to {shown['tracking_uri']}; {again}")
    if config.cassette is not None and allowed.cassette != config.cassette:
        again = f"type it again: --cassette {shlex.quote(str(config.cassette))}"
        raise RunError(f"{folder}: this run uses the recordings in {config.cassette}; {again}")
    return config


def allowed_code(folder: Path, names: Iterable[str], allowed: Collection[str]) -> None:
    """Raises RunError for names of the user's own code that were not typed."""
    missing = [name for name in names if name not in allowed]
    if missing:
        its, it = ("its name", "it") if len(missing) == 1 else ("their names", "them")
        again = f"type {its} to let {it} be imported: {' '.join(f'--allow {shlex.quote(name)}' for name in missing)}"
        raise RunError(f"{folder}: this run uses {', '.join(missing)}, code of your own; {again}")


def resume_flags(config: CompareConfig) -> list[str]:
    """What `allowed_config` wants typed again, as words of a command; of addresses without what is secret."""
    shown = config.public()
    flags = ("base_url", "cassette", "address", *(("tracking_uri",) if config.mlflow else ()))
    typed_again = [[f"--{name.replace('_', '-')}", shlex.quote(str(shown[name]))] for name in flags if shown[name]]
    return [*allow_words(config), *(word for words in typed_again for word in words)]


def allow_words(config: CompareConfig) -> list[str]:
    """Of them, what lets code of the user's own be imported."""
    return [word for name in own_code(config) for word in ("--allow", shlex.quote(name))]


def own_code(config: CompareConfig) -> list[str]:
    """The names in a configuration that lead to code outside of loopbench, each once."""
    ours = {"loop": builtin_names("loop"), "suite": builtin_names("suite")}
    named = [*(("loop", text) for text in config.loops), ("suite", config.suite)]
    names = [(kind, name) for kind, text in named for name in loops_named(parse_spec(text))]
    tools = [] if config.tools is None else [config.tools]
    return list(dict.fromkeys([*(name for kind, name in names if name not in ours[kind]), *tools]))


def suite_of(config: CompareConfig) -> Suite:
    """The suite that a configuration names, all its tasks. Raises ValueError for a bad name, option or file, and OSError."""
    suite = make_suite(parse_spec(config.suite), config.data, config.tools)
    return suite if config.quarantine is None else with_quarantine(suite, read_quarantine(config.quarantine))


def resolve(config: CompareConfig) -> tuple[Suite, Sequence[Task], tuple[Arm, ...]]:
    suite = suite_of(config)
    for scorer, where in sorted(_scorers(suite).items()):
        try:
            scorer_named(scorer)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
    return suite, tasks_of_split(suite, config.split)[: config.tasks], make_arms(config, suite)


def tasks_of_split(suite: Suite, name: str | None) -> Sequence[Task]:
    """The tasks of one split, of all where none is named. Raises ValueError where there are none.

    A suite whose tasks say nothing of splits is split by the tasks' ids, see `split_of`.
    """
    if name is None:
        return suite.tasks
    known = {str(task.labels["split"]) for task in suite.tasks if "split" in task.labels}

    def is_in(task: Task) -> bool:
        return (task.labels.get("split") if known else split_of(task.id)) == name

    # tasks that stand in a file stay there
    found = suite.tasks.where(is_in) if isinstance(suite.tasks, Rows) else tuple(filter(is_in, suite.tasks))
    if not found:
        raise ValueError(f"suite {suite.name} has no task of split {name!r}; {nearest(name, sorted(known or SPLITS))}")
    return found


def _scorers(suite: Suite) -> Mapping[str, str]:
    """The suite's scorers, and where each is named; tasks that stand in a file are not read again for it."""
    if isinstance(suite.tasks, Rows) and suite.tasks.facts is not None:
        return suite.tasks.facts.scorers
    return {task.scorer: f"suite {suite.name}" for task in suite.tasks}


def manifest_of(config: CompareConfig, suite: Suite, tasks: Sequence[Task], arms: Sequence[Arm]) -> dict[str, Any]:
    """What decides what trials give, and where they ran."""
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "config": config.public(),
        "seed": config.seed,
        "versions": {"record": RECORD_VERSION, "policy_and_profiles": PROFILES_VERSION},
        "suite": suite_manifest(config, suite, tasks),
        "profiles": {arm.profile.name: arm.profile.digest for arm in arms},
        "arms": [
            {
                "arm": arm.name,
                "loop": arm.spec.name,
                "options": {name: json_safe(value) for name, value in arm.spec.options.items()},
                "model": arm.model,
                "profile": arm.profile.name,
                "configuration": configuration(arm.loop),
                "code": code_digest(arm.loop),
                **({} if arm.spec.program is None else {"program": loop_program_digest(arm.loop)}),
            }
            for arm in arms
        ],
        "packages": {name: package_version(name) for name in PACKAGES},
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
    }


def suite_manifest(config: CompareConfig, suite: Suite, tasks: Sequence[Task]) -> dict[str, Any]:
    """What a manifest says of the suite."""
    code = suite_code(config, suite)
    return {
        "name": suite.name,
        "version": suite.version,
        "digest": suite.digest,
        "tasks": len(tasks),
        "max_tool_steps": config.max_tool_steps or suite.max_tool_steps,
        **({"code": code} if code else {}),
    }


def suite_code(config: CompareConfig, suite: Suite) -> str:
    """Digest of the code of the user's own that tasks are made of, solved with and scored by; empty where there is none."""
    scorers = [name for scorer in sorted(_scorers(suite)) if ":" in (name := scorer.partition("(")[0].strip())]
    return own_code_digest(parse_spec(config.suite).name, config.tools, scorers)


def loop_program_digest(loop: Loop) -> str | None:
    """Of the prompts of a loop; None where they cannot be changed."""
    return program_digest(loop.predictors) if isinstance(loop, Optimizable) else None


def configuration(loop: object) -> str:
    """All that a loop is set to, its program aside, the same in every process: sets sorted, no memory addresses."""
    if not dataclasses.is_dataclass(loop):
        return render_value(loop)
    fields = [f"{item.name}={_literal(getattr(loop, item.name))}" for item in dataclasses.fields(loop) if item.name != "program"]
    return f"{type(loop).__name__}({', '.join(fields)})"


def _literal(value: Any) -> str:
    return repr(value if value is None or isinstance(value, str | int | float) else render_value(value))


def package_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def new_folder(runs: Path, suite: str) -> Path:
    """Makes a run directory whose name says when, and what of; never one that is there already."""
    runs.mkdir(parents=True, exist_ok=True)
    while True:
        folder = runs / new_name(suite)
        try:
            folder.mkdir()
        except FileExistsError:  # another process began in the same second, and drew the same
            continue
        return folder


def new_name(suite: str) -> str:
    """Of a run directory: when, and what of."""
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    label = re.sub(r"[^A-Za-z0-9._-]+", "-", suite)[:60]
    return f"{stamp}-{label}-{secrets.token_hex(2)}"
