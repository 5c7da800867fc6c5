"""The manifest that a run of a configuration has when it begins."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from whichloop.datasets.importing.mcp_server import is_mcp, tool_server
from whichloop.datasets.importing.own_tools import tell_gaps
from whichloop.datasets.task import Suite, Task, described_tools, is_by_construction
from whichloop.datasets.validity import replay
from whichloop.metrics.arm_info import TRIAL_LIMITS, TRIAL_LIMITS_VERSION
from whichloop.metrics.record import RECORD_VERSION
from whichloop.models.local.server import find_weights
from whichloop.models.profiles import PROFILES_VERSION, built_in_profiles
from whichloop.protocol import ForeignLoop, Loop, Optimizable, plan_to_json, program_digest, render_value
from whichloop.protocol.json_text import Json, canonical_json, digest, sha256, short_digest
from whichloop.protocol.modules import package_version
from whichloop.protocol.names import is_local_model, parse_spec
from whichloop.protocol.threads import run_blocking
from whichloop.protocol.values import error_text, json_safe
from whichloop.runs.built_in import builtin_names
from whichloop.runs.code_digests import code_digest, loop_files, own_file_digests, scorer_digests
from whichloop.runs.config import BudgetConfig, CompareConfig
from whichloop.runs.lookup import scorers_of
from whichloop.runs.manifest import ArmEntry, Manifest, SuiteEntry, TaskDigests, timestamp
from whichloop.runs.permissions import with_worker_process
from whichloop.runs.registry import own_limit
from whichloop.runs.schedule import Arm, form_of

PACKAGES = ("whichloop", "dspy", "mlflow", "pydantic", "scipy", "statsmodels")
REPLAY_S = 10.0
"""Seconds for the replay of all plans with the user's own tools."""
_START_S = 20.0
_REPLAYING = """
import asyncio, json, os, sys
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what a tool prints is no result
job = json.load(sys.stdin)
sys.path[:] = job["path"]
from whichloop.runs import config, lookup, new_manifest
settings = config.CompareConfig.model_validate_json(json.dumps(job["config"]))
suite, tasks, _ = lookup.resolve(settings.model_copy(update={"loops": ()}))
print(json.dumps(asyncio.run(new_manifest.result_digests(suite, tasks))), file=out)
"""
VERSIONS = {"record": RECORD_VERSION, "policy_and_profiles": PROFILES_VERSION}


def versions_of(config: CompareConfig) -> dict[str, int | str | None]:
    """Return the versions that decide what trials give; that of the rule of their limits only where there are any."""
    has_limits = config.trial_budget != BudgetConfig()
    return {**VERSIONS, **({TRIAL_LIMITS: TRIAL_LIMITS_VERSION} if has_limits else {})}


def manifest_of(config: CompareConfig, suite: Suite, tasks: Sequence[Task], arms: Sequence[Arm]) -> Manifest:
    """Return the parts that decide what trials give, and where they run."""
    weights, built_in = _weights_entries(config), built_in_profiles()
    own_profiles = {arm.profile.name: arm.profile.effects() for arm in arms if arm.profile.name not in built_in}
    return Manifest(
        created=timestamp(),
        config=config.public(),
        seed=config.seed,
        versions=versions_of(config),
        suite=suite_entry(config, suite, tasks),
        profiles={arm.profile.name: arm.profile.digest for arm in arms},
        arms=tuple(_arm_entry(config, suite, arm) for arm in arms),
        packages={name: package_version(name) for name in PACKAGES},
        python=platform.python_version(),
        platform=platform.platform(terse=True),
        **({"weights": weights} if weights else {}),
        **({"own_profiles": own_profiles} if own_profiles else {}),
    )


def _weights_entries(config: CompareConfig) -> dict[str, dict[str, str]]:
    """Return the weights of the local models that answer; without those that are not there, which is told where they are opened."""
    entries = {}
    for name in () if config.replays else filter(is_local_model, config.opened_models):
        with contextlib.suppress(ValueError):
            file, by = find_weights(name), f"xllamacpp {package_version('xllamacpp') or 'unknown'}"
            with file.open("rb") as opened:
                entries[name] = {"file": file.name, "sha256": hashlib.file_digest(opened, "sha256").hexdigest(), "by": by}
    return entries


def suite_entry(config: CompareConfig, suite: Suite, tasks: Sequence[Task]) -> SuiteEntry:
    files, constructed = own_files(config, suite), sum(map(is_by_construction, tasks))
    server = tool_server(config.tools)._asdict() if config.tools is not None and is_mcp(config.tools) else None
    return SuiteEntry(
        name=suite.name,
        version=suite.version,
        digest=suite.digest,
        tasks=len(tasks),
        max_tool_steps=config.max_tool_steps or suite.max_tool_steps,
        **({"code": digest(files), "files": files} if files else {}),
        **({"by_construction": constructed} if constructed else {}),
        **({"tool_server": server} if server is not None else {}),
    )


def _arm_entry(config: CompareConfig, suite: Suite, arm: Arm) -> ArmEntry:
    loop, foreign = arm.loop, dict[str, Any]()
    own = own_limit(loop, arm.spec, config.max_tool_steps, config.max_tool_steps or suite.max_tool_steps)
    if isinstance(loop, ForeignLoop):
        foreign = {"version": loop.version, "packages": dict(loop.packages), "environment": loop.environment_digest}
    return ArmEntry(
        arm=arm.name,
        loop=arm.spec.name,
        options=typed_options(arm),
        model=arm.model,
        profile=arm.profile.name,
        configuration=configuration(arm.loop),
        code=code_digest(arm.loop),
        **({"files": {name: file.digest for name, file in files.items()}} if (files := loop_files(arm.loop)) else {}),
        **({} if arm.spec.program is None else {"program": loop_program_digest(arm.loop)}),
        **{name: value for name, value in foreign.items() if value},
        **({"calls_in": form} if (form := form_of(arm.loop)) else {}),
        **({"met": arm.profile_met.name} if arm.profile.by_form else {}),
        **({} if own is None else {"own_limit": own}),
    )


def typed_options(arm: Arm) -> dict[str, Json]:
    return {name: json_safe(value) for name, value in arm.spec.options.items()}


def own_files(config: CompareConfig, suite: Suite) -> dict[str, str]:
    """Return file → digest of the user's own code that tasks are made of, solved with and scored by."""
    return own_file_digests(parse_spec(config.suite).name, config.tools, _own_scorers(suite))


def _own_scorers(suite: Suite) -> list[str]:
    return [name for scorer in sorted(scorers_of(suite)) if ":" in (name := scorer.partition("(")[0].strip())]


def loop_program_digest(loop: Loop) -> str | None:
    """Return the digest of a loop's prompts, or None if they cannot be changed."""
    return program_digest(loop.predictors) if isinstance(loop, Optimizable) else None


def configuration(loop: object) -> str:
    """Return all that a loop is set to, its program aside, alike in every process: sets are sorted, no address is in it."""
    if not dataclasses.is_dataclass(loop):
        return render_value(loop)
    fields = [f"{item.name}={_literal(getattr(loop, item.name))}" for item in dataclasses.fields(loop) if item.name != "program"]
    return f"{type(loop).__name__}({', '.join(fields)})"


def _literal(value: object) -> str:
    return repr(value if value is None or isinstance(value, str | int | float) else render_value(value))


def question_digests(config: CompareConfig, suite: Suite, tasks: Sequence[Task]) -> dict[str, Any]:
    """Return the parts of a manifest by which it is known later whether the same was asked, and of which tasks not.

    Warns of tools that do not say what they and their arguments are.
    """
    tools = described_tools(suite.opened(tasks[0]))  # once for both: tools of a server take their time
    tell_gaps(tools)
    is_own = parse_spec(config.suite).name not in builtin_names("suite") if config.tools is None else not is_mcp(config.tools)
    digests = task_digests(suite, tasks, _results(config, suite, tasks) if is_own else {}, tools)
    return {"asked": asked_digests(config, suite, tasks, tools), "task_digests": digests}


def task_digests(suite: Suite, tasks: Sequence[Task], results: Mapping[str, str], tools: Any = None) -> TaskDigests:
    """Return the digests by which these tasks can be told from those of another version of their suite."""
    shared = short_digest([suite.shared, tools or described_tools(suite.opened(tasks[0])), *scorer_digests(_own_scorers(suite))])
    by_task = {task.id: short_digest(task.as_dict()) for task in tasks}
    return TaskDigests(shared=shared, tasks=by_task, **({"results": results} if results else {}))


def _results(config: CompareConfig, suite: Suite, tasks: Sequence[Task]) -> dict[str, str]:
    """Return what `result_digests` gives, in a process of its own where trials have one."""
    if not with_worker_process(config).is_spread:
        return run_blocking(result_digests(suite, tasks))
    command = [sys.executable, "-P", "-c", _REPLAYING]
    job = json.dumps({"path": sys.path, "config": config.model_dump(mode="json", exclude={"loops"})}).encode()
    try:
        done = subprocess.run(command, input=job, capture_output=True, timeout=_START_S + REPLAY_S, check=True)  # noqa: S603
        return dict(json.loads(done.stdout))
    except (subprocess.SubprocessError, ValueError):
        return {}


async def result_digests(suite: Suite, tasks: Sequence[Task]) -> dict[str, str]:
    """Return task → digest of what the calls of its plan give, or why one failed, if it comes out twice within `REPLAY_S`."""
    ends, digests = time.monotonic() + REPLAY_S, {}
    for task in tasks:
        if task.plan is None or task.quarantined:
            continue
        seen = []
        for _ in range(2):
            try:
                seen.append([call.text for call in await replay(task, suite, max(ends - time.monotonic(), 0.01))])
            except Exception as error:  # the user's own code
                seen.append([error_text(error)])
        if time.monotonic() >= ends:
            break
        if seen[0] == seen[1]:
            digests[task.id] = short_digest(seen[0])
    return digests


def asked_digests(config: CompareConfig, suite: Suite, tasks: Sequence[Task], tools: Any = None) -> dict[str, str]:
    """Return digests of what tasks ask, and of their plans. What is expected, and scorers, have no part in them.

    Of the user's own code only `--tools` has: a suite's module may hold expected answers.
    """
    questions, plans = [], []
    for task in tasks:
        query = task.query
        question = [task.id, query.text, query.context, query.schema, dict(task.world)]
        questions.append(sha256(canonical_json(question)))
        plans.append(sha256(canonical_json([task.id, None if task.plan is None else plan_to_json(task.plan)])))
    tools, own = tools or described_tools(suite.opened(tasks[0])), config.tools
    return {
        "questions": digest([config.max_tool_steps or suite.max_tool_steps, suite.shared, tools, questions]),
        "plans": digest(plans),
        **({} if own is None else {"tools": digest(list(tool_server(own)) if is_mcp(own) else own_file_digests(None, own))}),
    }
