"""Whether a run can be compared with a baseline, which is decided by what a trial sees; and what else differs between the two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whichloop.metrics.trajectory.trajectory import shortened
from whichloop.protocol.names import SCRIPTED, parse_spec, value_text
from whichloop.protocol.redact import redact
from whichloop.runs.manifest import ArmEntry, Manifest, upgrades

from .baseline import Baseline, BaselineArm, packages_of, repeatable

MAX_TASKS = 4
"""Tasks that are others which are named."""
MAX_VALUE = 40
"""Characters of an option's value that are shown."""


class Incomparable(ValueError):
    """A run and a baseline cannot be compared; the text says why."""


@dataclass(frozen=True, slots=True)
class Matched:
    """What a run and a baseline have in common."""

    arms: Mapping[str, str]
    """Arm of the baseline → arm of the run."""
    same: frozenset[str] | None
    """The tasks that are the same in both, where some are others; None where all are the same."""
    others: Mapping[str, Any]
    """How many tasks are the same, changed, added and removed, and the first of the others, where there are some."""


def match(folder: Path, manifest: Manifest, baseline: Baseline) -> Matched:
    """Raise Incomparable that names the first difference in what was asked, or an arm that is missing; no trial has to have run.

    `folder`: what an error names. Tools, data and tasks are compared by what a trial sees of them: names, schemas, descriptions,
    questions, expected answers, plans and the results of the plans' calls. Their source code decides nothing.
    """
    suite, old = manifest.suite, baseline.suite
    asked, was = manifest.task_digests, baseline.asked
    for name, then, now in (
        ("suite", old.name, suite.name),
        ("step limit", old.max_tool_steps, suite.max_tool_steps),
        ("limit of a trial", baseline.config.get("trial_budget"), repeatable(manifest.config).get("trial_budget")),
        *((f"version of {name}", baseline.versions.get(name), now) for name, now in manifest.versions.items()),
        *((f"profile {name}", baseline.profiles.get(name, now), now) for name, now in manifest.profiles.items()),
        ("price of tokens", *_prices(baseline.config, manifest.config)),
        *([] if asked and was else [("digest of the suite", old.digest, suite.digest)]),
    ):
        if then != now:
            raise Incomparable(
                f"{folder}: another {name} than in the baseline: {_brief(now)}, not {_brief(then)}; bless anew if that is meant"
            )
    if asked and was and asked.shared != was.shared:
        raise Incomparable(f"{folder}: the tools (names, schemas, descriptions) or the data that they share are others; bless anew")
    arms = {old: arm for old, arm in match_arms(manifest, baseline).items() if arm is not None}
    if lacking := [old for old in baseline.arms if old not in arms]:
        raise Incomparable(f"{folder}: the run has no arm for {', '.join(lacking)} of the baseline")
    if asked is None or was is None:
        return Matched(arms, None, {})
    both = was.tasks.keys() & asked.tasks.keys()
    same = frozenset(
        task
        for task in both
        if was.tasks[task] == asked.tasks[task]
        and (task not in was.results or was.results[task] == asked.results.get(task, was.results[task]))
    )
    named = sorted((was.tasks.keys() | asked.tasks.keys()) - same)
    others = {"same": len(same), "changed": len(both) - len(same), "first": ", ".join(named[:MAX_TASKS])}
    others |= {"added": len(asked.tasks.keys() - both), "removed": len(was.tasks.keys() - both)}
    if not same:
        raise Incomparable(f"{folder}: no task is the same as in the baseline; bless a new run if that is meant")
    return Matched(arms, same, others) if named else Matched(arms, None, {})


def _prices(was: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, str]:
    """Return the price of the scripted model's tokens on both sides, whosever it is; nothing where one side has none."""
    prices = [str(config["price"]).rpartition("=")[2] for config in (was, now) if config.get("price") is not None]
    return (prices[0], prices[1]) if len(prices) == 2 else ("", "")


def _brief(value: Any) -> str:
    text = str(value)
    return f"{text[:12]}…" if len(text) == 64 else shortened(text, MAX_VALUE)


def match_arms(manifest: Manifest, baseline: Baseline) -> dict[str, str | None]:
    """Return arm of the baseline → arm of the run, None if absent.

    Arms match by name, or else if only the version of a foreign loop differs, or if each side has a single loop under the same
    model and profile.
    """
    upgraded = upgrades(baseline.arms, {arm.arm: arm for arm in manifest.arms})
    in_run = {arm.arm: (arm.model, arm.profile) for arm in manifest.arms}
    blessed = {name: (arm.model, arm.profile) for name, arm in baseline.arms.items()}

    def alone(conditions: tuple[str, str]) -> str | None:
        old, new = ([name for name, its in side.items() if its == conditions] for side in (blessed, in_run))
        return new[0] if len(old) == len(new) == 1 else None

    return {name: name if name in in_run else upgraded[name] or alone(conditions) for name, conditions in blessed.items()}


def replies_are_fixed(manifest: Manifest, baseline: Baseline, arms: Mapping[str, str]) -> bool:
    """Whether the models' replies follow from seed and prompt, as those of the scripted model, or of a recording that is replayed.

    `arms`: arm of the baseline → arm of the run.
    """
    settings = manifest.settings
    recorded = baseline.config.get("cassette") is not None
    if recorded and settings.cassette is not None and settings.cassette_mode in (None, "replay"):
        return True
    now, then = {arm.arm: arm for arm in manifest.arms}, baseline.arms
    return all(now[arm].model == then[old].model == SCRIPTED and now[arm].met == then[old].met for old, arm in arms.items())


# --- what else differs ---


def is_changed(before: BaselineArm, now: ArmEntry) -> bool:
    """Whether the loop, its options, its version or its code are others."""
    was = (before.loop, before.options, before.program, before.version, before.code, before.files, before.packages)
    return was != (now.loop, now.options, now.program, now.version, now.code, now.files, now.packages)


def differences(manifest: Manifest, baseline: Baseline, arms: Mapping[str, str]) -> dict[str, list[str]]:
    """Return what else than the trials differs, by kind: the loop with its options, files of the user's own, versions."""
    entries = {arm.arm: arm for arm in manifest.arms}
    pairs = [(baseline.arms[old], entries[arm]) for old, arm in arms.items()]
    files = {name: digest for was, _ in pairs for name, digest in was.files.items()} | baseline.suite.files
    files_now = {name: digest for _, now in pairs for name, digest in now.files.items()} | manifest.suite.files
    versions = baseline.packages | {"suite": baseline.suite.version}
    versions_now = packages_of(manifest) | {"suite": manifest.suite.version}
    for was, now in pairs:
        versions |= was.packages
        versions_now |= now.packages
    found = {
        "loop": list(dict.fromkeys(text for was, now in pairs for text in _of_loop(was, now))),
        "files": [name for name in sorted(files.keys() | files_now.keys()) if files.get(name) != files_now.get(name)],
        "versions": list(_changes(versions, versions_now)),
    }
    return {kind: texts for kind, texts in found.items() if texts}


def _of_loop(was: BaselineArm, now: ArmEntry) -> Iterator[str]:
    if was.loop != now.loop:
        yield f"{was.loop} → {now.loop}"
        return
    yield from _changes({now.loop: was.version}, {now.loop: now.version})
    yield from _changes({"met": was.met, "program": was.program or ""}, {"met": now.met, "program": now.program or ""})
    try:
        before, after = (parse_spec(each).options for each in (was.configuration, redact(now.configuration)))
    except ValueError:
        before, after = {"configuration": was.configuration}, {"configuration": redact(now.configuration)}
    yield from _changes({name: value_text(v) for name, v in before.items()}, {name: value_text(v) for name, v in after.items()})


def _changes(was: Mapping[str, str], now: Mapping[str, str]) -> Iterable[str]:
    for name in sorted(was.keys() | now.keys()):
        before, after = (_brief(side.get(name) or "–") for side in (was, now))
        if was.get(name) != now.get(name):
            yield f"{name} {before} → {after}"
