"""The ground that a run stands on: what of it has changed since, in words, and what must be asked alike to keep answers."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from loopbench.datasets.task import Suite, Task
from loopbench.protocol import plan_to_json
from loopbench.protocol.digest import canonical_json, digest, sha256

MAX_TOLD = 3
"""Changes that a message names; of more it gives the number."""

_VERSIONS = {"record": "the form of records", "policy_and_profiles": "the scripted model"}
_OF_ARMS = {
    "code": "code",
    "configuration": "configuration",
    "program": "program",
    "options": "options",
    "model": "model",
    "profile": "profile",
    "loop": "loop",
}


def changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What two manifests differ in that decides what trials give, in words; empty where nothing does."""
    found = [*_in_versions(then, now), *_in_suite(_dict(then, "suite"), _dict(now, "suite"))]
    found += _in_profiles(_dict(then, "profiles"), _dict(now, "profiles"))
    found += _in_arms(arms_of(then), arms_of(now))
    differ = [what for what in ("versions", "suite", "profiles", "arms") if then.get(what) != now.get(what)]
    return found or differ  # a manifest that somebody has written to may differ in what has no words


def suite_changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The same, of what all arms share: versions and suite."""
    return [*_in_versions(then, now), *_in_suite(_dict(then, "suite"), _dict(now, "suite"))]


def arms_changed(then: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether an arm, a fault profile or a version is not what it was: whatever decides trials, the suite aside."""
    return any(then.get(what) != now.get(what) for what in ("versions", "profiles", "arms"))


def summary(found: Sequence[str]) -> str:
    """Changes in one line."""
    rest = f" and {len(found) - MAX_TOLD} more" if len(found) > MAX_TOLD else ""
    return f"{', '.join(found[:MAX_TOLD])}{rest}"


def quoted(folder: Path) -> str:
    """A run directory as it is typed again."""
    return shlex.quote(str(folder))


def arms_of(manifest: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The arms of a manifest by name; what a damaged one has in their place is left out."""
    arms = manifest.get("arms")
    entries = arms if isinstance(arms, list) else []
    return {arm["arm"]: arm for arm in entries if isinstance(arm, dict) and isinstance(arm.get("arm"), str)}


def _dict(manifest: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = manifest.get(name)
    return value if isinstance(value, dict) else {}


def _in_versions(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    was, is_now = _dict(then, "versions"), _dict(now, "versions")
    for name in sorted({*was, *is_now}):
        if was.get(name) != is_now.get(name):
            yield f"{_VERSIONS.get(name, name)} (version {was.get(name)}, now {is_now.get(name)})"


def _in_suite(was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    name = now.get("name")
    if (was.get("name"), was.get("version")) != (name, now.get("version")):
        yield f"the suite ({was.get('name')} {was.get('version')}, now {name} {now.get('version')})"
    elif was.get("digest") != now.get("digest"):
        yield f"suite {name} (its tasks, tools or expected answers)"
    for field, what in (("tasks", "the number of tasks"), ("max_tool_steps", "the step limit")):
        if was.get(field) != now.get(field):
            yield f"{what} ({was.get(field)}, now {now.get(field)})"
    if was.get("code") != now.get("code"):
        yield f"the code of your own that suite {name} is made of or scored by"


def _in_profiles(was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted({*was, *now}):
        if was.get(name) != now.get(name):
            yield f"fault profile {name}"


def _in_arms(was: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name, arm in now.items():
        if name not in was:
            yield f"arm {name} (there was none)"
        elif arm != was[name]:
            parts = [what for key, what in _OF_ARMS.items() if arm.get(key) != was[name].get(key)]
            yield f"arm {name} (its {' and '.join(parts) or 'entry'})"
    for name in was:
        if name not in now:
            yield f"arm {name} (there is none now)"


def questions_of(suite: Suite, tasks: Sequence[Task], max_tool_steps: int) -> dict[str, str]:
    """Digests of what tasks ask, and of their plans: what is expected, and scorers, are no part of them."""
    environment = suite.open(tasks[0])
    try:
        tools = [[tool.name, tool.description, tool.parameters] for tool in environment.tools]
    finally:
        environment.close()
    questions, plans = [], []
    for task in tasks:
        query = task.query
        asked = [task.id, query.text, query.context, query.schema, dict(task.world)]
        questions.append(sha256(canonical_json(asked)))
        plans.append(sha256(canonical_json([task.id, None if task.plan is None else plan_to_json(task.plan)])))
    return {"questions": digest([max_tool_steps, suite.shared, tools, questions]), "plans": digest(plans)}
