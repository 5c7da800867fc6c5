"""Judging a run against a baseline: whether the two can be compared, and the outcome."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from loopbench.experiments.compare.results import Results
from loopbench.metrics.comparison import MAX_ERRORED
from loopbench.metrics.gate import MARGIN, GateLine, Held, check_level, check_margin, judge_lines, overall
from loopbench.metrics.statistics import ALPHA
from loopbench.metrics.summary import METRICS, PRIMARY, SHARES, TaskValues
from loopbench.protocol.counts import counted
from loopbench.runs.changes import upgrades
from loopbench.runs.manifest import Manifest
from loopbench.text.counts import listed

from .baseline import Baseline, has_all, troubles
from .changed_code import CodeChange, code_change
from .changed_profile import changed_fields
from .changed_stops import stop_changes
from .changed_suite import TaskSets
from .changed_tasks import changes
from .larger import larger
from .names import short_arm
from .other_changes import differences, unjudged_bills, unjudged_sentences
from .outcome import PASSES, GateArm, GateResult, Outcome, StopChange
from .own_limits import held_open, tested_lines
from .sides import Sides
from .unseen import SEED_ALONE, dice, is_changed, loop_differences, only_the_seed_differs, unseen

DEFAULT_METRICS: Mapping[str, float] = {PRIMARY: MARGIN}
SCRIPTED = "scripted"
_HINT = "where that is meant, bless a new run"
COMMON_FLAG = "--common-tasks"
COMMON_ADVICE = f"{COMMON_FLAG}, in Python common_tasks=True, judges by"
_DIGEST_CHARS, _SHORT = 64, 12


class Incomparable(ValueError):
    """A run and a baseline cannot be compared; the text says why in one line."""


def judge(
    run: Results,
    baseline: Baseline,
    *,
    metrics: Mapping[str, float] = DEFAULT_METRICS,
    alpha: float = ALPHA,
    path: Path | None = None,
    common: bool = False,
) -> GateResult:
    """Judge a run against a baseline. `metrics`: metric → margin; accuracy is always among them. `path`: the baseline's file.

    `common`: where the suite has changed, judge by the tasks that are the same in both.
    Raises Incomparable (a ValueError) if the two cannot be compared: another suite, profile, policy, step limit or list of
    tasks, or a metric unknown on either side; ValueError for a bad margin or level.
    """
    margins = {**DEFAULT_METRICS, **metrics}
    check_request(baseline, margins, alpha)
    sets = refuse_other(run.folder, run.manifest, baseline, common=common)
    if sets is None:
        _refuse_other_tasks(run, baseline)
    matched = found_arms(run.folder, run.manifest, baseline)
    sides = [Sides.of(run, arm, baseline, old, None if sets is None else sets.same) for old, arm in matched.items()]
    died = [side.arm for side in sides if side.died]
    reasons = (*troubles(run, died), *(reason for side in sides for reason in side.troubles()))
    paired = (run.manifest.seed, run.manifest.settings.repeats) == (baseline.seed, baseline.repeats)
    if not reasons:
        _refuse_unknown(sides, margins)
    changed_code = code_change(run.manifest, baseline)
    pairing = _Pairing(paired, paired and _is_fixed(run, baseline, sides))
    causal = _caused_by_the_loop(sides, baseline, run.manifest) if pairing.fixed and changed_code is None else frozenset()
    stops = stop_changes(run.folder, sides, paired=paired)
    judged = () if reasons else _judged_arms(sides, margins, alpha, pairing._replace(causal=causal), stops)
    arms = held_open(judged, baseline.arms, run.manifest.arms)
    outcome: Outcome = "invalid" if reasons else overall([line for arm in arms for line in arm.lines])
    lead = _lead(outcome, changed_code, seed_alone=only_the_seed_differs(sides, baseline, run.manifest))
    other = [pair for side in sides for pair in side.pairs if pair.same_result and not pair.same] if paired else []
    return GateResult(
        outcome=outcome,
        reasons=reasons,
        arms=arms,
        tasks=changes(run.folder, sides, paired=paired),
        same_result=len(other),
        differs_in=differences(run.folder, other),
        stops=stops,
        notes=(
            *_notes(run, baseline, sides, changed_code),
            *(dice(sides, baseline, run.manifest) if pairing.fixed and not reasons else ()),
            *unjudged_sentences(arms),
            *larger(tested_lines(arms), baseline, path, _again(run, baseline, margins, alpha)),
            *(unseen(sides, baseline.arms, run.manifest.arms) if outcome in PASSES else ()),
        ),
        run=run.folder,
        baseline=path,
        alpha=alpha,
        paired=paired,
        common=sets,
        bless=bless_command(run.folder, path) if not died and lead != SEED_ALONE and _may_be_meant(outcome, arms) else "",
        lead=lead,
    )


def _lead(outcome: Outcome, changed_code: CodeChange | None, *, seed_alone: bool) -> str:
    """Return the likely cause beside the loop of what is held against it; empty where there is none."""
    if outcome == "regression" and seed_alone:
        return SEED_ALONE
    return "" if changed_code is None or outcome in PASSES else changed_code.lead


def _may_be_meant(outcome: Outcome, arms: Iterable[GateArm]) -> bool:
    """Whether the run differs so that somebody may want it to be the new baseline."""
    return outcome in ("regression", "better here") or any(
        arm.limit_alone or any(line.outcome == "pass" and line.better for line in arm.lines) for arm in arms
    )


def bless_command(folder: Path, path: Path | None) -> str:
    """Return the command that makes the run in this directory the new baseline."""
    return shlex.join(["loopbench", "bless", str(folder), "-o", str(path or "FILE")])


def _caused_by_the_loop(sides: Iterable[Sides], baseline: Baseline, manifest: Manifest) -> frozenset[str]:
    """Return the arms whose loop is another than the blessed one: a loop that is the same and does otherwise throws dice."""
    entries = {arm.arm: arm for arm in manifest.arms}
    return frozenset(side.arm for side in sides if is_changed(baseline.arms[side.baseline_arm], entries[side.arm]))


def _again(run: Results, baseline: Baseline, margins: Mapping[str, float], alpha: float) -> Iterator[str]:
    """Yield the words that judge these loops again: other loops than the baseline's, and rules that are not the defaults."""
    loops = run.manifest.settings.loops
    for loop in loops if list(loops) != list(baseline.config.get("loops", ())) else ():
        yield from ("--loop", loop)
    for metric, margin in margins.items():
        if DEFAULT_METRICS.get(metric) != margin:
            yield from ("--margin", f"{margin:g}") if metric == PRIMARY else ("--metric", f"{metric}={margin:g}")
    if alpha != ALPHA:
        yield from ("--alpha", f"{alpha:g}")


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


# --- can they be compared? ---


def check_request(baseline: Baseline, metrics: Mapping[str, float], alpha: float) -> None:
    """Raise Incomparable for a metric that the baseline lacks, ValueError for a bad margin or level; no run is needed."""
    check_level(alpha)
    for metric, margin in metrics.items():
        check_margin(metric, margin)
        if metric not in baseline.metrics:
            raise Incomparable(f"metric {metric}: not in the baseline, which knows {', '.join(baseline.metrics)}")


def refuse_other(folder: Path, manifest: Manifest, baseline: Baseline, *, common: bool = False) -> TaskSets | None:
    """Raise Incomparable that names the first difference in the questions, or an arm that is missing; no trial has to have run.

    `common`: the suite may have changed; return which tasks are the same in both. None where all have to be.
    """
    suite, old = manifest.suite, baseline.suite
    _refuse(folder, [("suite", old.name, suite.name)])
    sets = common_tasks(folder, manifest, baseline) if common else None
    if sets is None:
        _refuse_other_suite(folder, manifest, baseline)
        _refuse_other_scheduled(folder, manifest, baseline)
    settings: list[tuple[str, Any, Any]] = [
        ("step limit", old.max_tool_steps, suite.max_tool_steps),
        *((f"version of {name}", baseline.versions.get(name), now) for name, now in manifest.versions.items()),
    ]
    for name, now in manifest.profiles.items():
        if name in baseline.profiles:
            settings.append((f"digest of profile {name}", baseline.profiles[name], now))
            fields = changed_fields(baseline.own_profiles.get(name, {}), manifest.own_profiles.get(name, {}))
            if baseline.profiles[name] != now and fields:
                raise Incomparable(f"{folder}: profile {name} is another than in the baseline: {fields}; {_HINT}")
    _refuse(folder, settings)
    found_arms(folder, manifest, baseline)
    _refuse_other_code(folder, manifest, baseline)
    return sets


def _refuse_other_code(folder: Path, manifest: Manifest, baseline: Baseline) -> None:
    """Raise Incomparable if files of the suite changed that no loop is made of: they are a part of every task."""
    change = code_change(manifest, baseline)
    if change is not None and change.apart_from_loops:
        raise Incomparable(
            f"{folder}: {change.named} changed since the baseline; tools or scorers are made of it, so every task is another, and "
            "the loop is not judged: bless a run of the loop as it was, with this file as it is now"
        )


def _refuse(folder: Path, settings: Iterable[tuple[str, Any, Any]]) -> None:
    """Raise Incomparable for the first setting, given with its values in the baseline and in the run, that is another."""
    for setting, then, now in settings:
        if then != now:
            raise Incomparable(f"{folder}: another {setting} than in the baseline: {_brief(now)}, not {_brief(then)}; {_HINT}")


def _refuse_other_suite(folder: Path, manifest: Manifest, baseline: Baseline) -> None:
    """Raise Incomparable if the suite has changed; where tasks have digests on both sides, it says which tasks did."""
    suite, old = manifest.suite, baseline.suite
    sets = _task_sets(manifest, baseline)
    versions = [
        (f"version of suite {old.name}", old.version, suite.version),
        (f"digest of suite {old.name}", old.digest, suite.digest),
    ]
    if sets is None or all(then == now for _, then, now in versions):
        _refuse(folder, versions)
        return
    other_version = f" (version {suite.version}, not {old.version})" * (suite.version != old.version)
    change = code_change(manifest, baseline)
    files = f" ({change.named})" if change is not None and change.files else ""
    shared = f"the tools or the data that all its tasks share{files}" * _shares_other(manifest, baseline)
    what = listed([part for part in (sets.named(), shared) if part]) or "tasks that were not run"
    cure = _HINT if shared or not sets.same else f"{COMMON_ADVICE} the {len(sets.same):,} that are the same in both; {_HINT}"
    raise Incomparable(f"{folder}: suite {old.name} has changed since the baseline{other_version}: {what}; {cure}")


def _refuse_other_scheduled(folder: Path, manifest: Manifest, baseline: Baseline) -> None:
    """Raise Incomparable if the run has other tasks of the suite than the baseline, before they ran, where these have digests."""
    sets = _task_sets(manifest, baseline)
    for tasks, problem in (
        () if sets is None else ((sets.added, "are not in the baseline"), (sets.removed, "of the baseline are left out"))
    ):
        if tasks:
            cure = f"{COMMON_ADVICE} those of both; {_HINT}"
            raise Incomparable(f"{folder}: other tasks: {len(tasks)} {problem}, such as {tasks[0]}; {cure}")


def _task_sets(manifest: Manifest, baseline: Baseline) -> TaskSets | None:
    """Return what became of the baseline's tasks; None where one side has no digests of them."""
    if manifest.task_digests is None or not baseline.task_digests:
        return None
    return TaskSets.of(baseline.task_digests, manifest.task_digests.tasks)


def _shares_other(manifest: Manifest, baseline: Baseline) -> bool:
    """Whether what all tasks share is another, for sides that both have digests."""
    return manifest.task_digests is not None and manifest.task_digests.shared != baseline.shared_digest


def common_tasks(folder: Path, manifest: Manifest, baseline: Baseline) -> TaskSets:
    """Return which tasks are the same in both. Raises Incomparable where none is, or nobody knows."""
    sets = _task_sets(manifest, baseline)
    if sets is None:
        older = "the baseline has" if not baseline.task_digests else f"{folder} has"
        raise Incomparable(f"{COMMON_FLAG}: {older} no digests of its tasks, as an older loopbench made it; make it anew")
    if _shares_other(manifest, baseline):
        raise Incomparable(
            f"{folder}: {COMMON_FLAG}: the tools or the data that all tasks share have changed, and so all of them did"
        )
    if not sets.same:
        raise Incomparable(f"{folder}: {COMMON_FLAG}: no task is the same as in the baseline: {sets.named()}; {_HINT}")
    return sets


def found_arms(folder: Path, manifest: Manifest, baseline: Baseline) -> dict[str, str]:
    """Return arm of the baseline → arm of the run. Raises Incomparable for one that the run lacks, and says what it has instead."""
    matched = match_arms(manifest, baseline)
    found = {old: arm for old, arm in matched.items() if arm is not None}
    for lost in (baseline.arms[old] for old in matched if old not in found):
        for setting, then, now in (
            ("profile", lost.profile, {arm.profile for arm in manifest.arms}),
            ("model", lost.model, {arm.model for arm in manifest.arms}),
        ):
            if then not in now:
                raise Incomparable(
                    f"{folder}: another {setting} than in the baseline: {', '.join(sorted(now))}, not {then}; {_HINT}"
                )
    if len(found) < len(matched):
        lacking = [short_arm(old) for old in matched if old not in found]
        has = ", ".join(short_arm(arm.arm) for arm in manifest.arms)
        raise Incomparable(
            f"{folder}: the run has no arm for {listed(lacking)} of the baseline; it has {has}; {_way_out(manifest)}"
        )
    return found


def _way_out(manifest: Manifest) -> str:
    """Return what to do about an arm that a run lacks; loopbench can run no agent whose results were imported."""
    if manifest.imported is None:
        return "run every loop of the baseline, as gate does without --loop, or bless a run of the one loop alone"
    return (
        "import what every agent of the baseline did into one run, name an agent as there (--arm), or bless an import of the one "
        "agent alone"
    )


def _refuse_other_tasks(run: Results, baseline: Baseline) -> None:
    blessed = {task for arm in baseline.arms.values() for task in arm.tasks}
    in_run = {record.task for record in run.records}
    for tasks, problem in ((in_run - blessed, "are not in the baseline"), (blessed - in_run, "of the baseline were not run")):
        if tasks and (has_all(run) or problem.startswith("are")):
            cure = _HINT if _task_sets(run.manifest, baseline) is None else f"{COMMON_ADVICE} those of both; {_HINT}"
            raise Incomparable(f"{run.folder}: other tasks: {len(tasks)} {problem}, such as {min(tasks)}; {cure}")


def _refuse_unknown(sides: Sequence[Sides], metrics: Iterable[str]) -> None:
    """Raise Incomparable for a metric unknown in more than 2 % of an arm's scored trials, on either side; of a metric that some
    trials have by its nature, for one that no arm has.
    """
    for metric in metrics:
        if METRICS[metric].of_some:
            if not any(_is_known(side, metric) for side in sides):
                raise Incomparable(f"metric {metric}: known for no trial, of no arm")
            continue
        for side in sides:
            for side_name, values in (("the baseline", side.old_values), ("the run", side.new_values)):
                known, scored = _count(values(metric)), _count(values(PRIMARY))
                if known < (1 - MAX_ERRORED) * scored:
                    raise Incomparable(
                        f"metric {metric}: known for {known:,} of {counted(scored, 'trial')} of {side.arm} in {side_name}"
                    )


def _is_known(side: Sides, metric: str) -> bool:
    """Whether any trial of an arm has a metric, in the baseline or in the run."""
    return bool(side.old_values(metric).values or side.new_values(metric).values)


def _count(by_task: TaskValues) -> int:
    return sum(map(len, by_task.values.values()))


def _brief(value: Any) -> str:
    """Shorten a digest."""
    text = str(value)
    return f"{text[:_SHORT]}…" if len(text) == _DIGEST_CHARS else text


# --- the outcome ---


class _Pairing(NamedTuple):
    """What the run and the baseline have in common."""

    paired: bool
    """Every trial has its counterpart."""
    fixed: bool
    """And no reply of a model is a matter of chance, given what it is asked."""
    causal: frozenset[str] = frozenset()
    """Arms of which nothing but the loop is another, and it is: what changed in their trials came of that."""


def _is_fixed(run: Results, baseline: Baseline, sides: Iterable[Sides]) -> bool:
    """Whether the models' replies follow from seed and prompt: those of the scripted model, or of a recording that is replayed."""
    settings = run.manifest.settings
    if settings.cassette is not None and settings.cassette_mode in (None, "replay"):
        return True
    now, then = {arm.arm: arm for arm in run.manifest.arms}, baseline.arms
    return all(
        now[side.arm].model == then[side.baseline_arm].model == SCRIPTED and now[side.arm].met == then[side.baseline_arm].met
        for side in sides
    )


def _judged_arms(
    sides: Sequence[Sides], margins: Mapping[str, float], alpha: float, pairing: _Pairing, stops: Sequence[StopChange]
) -> tuple[GateArm, ...]:
    graver = {change.arm for change in stops if change.graver}
    same = {side.arm: pairing.paired and side.identical(margins) for side in sides}
    gained = {side.arm for side in sides if side.arm in pairing.causal - graver and side.gained}
    lines = judge_lines(
        [
            Held(
                side.arm,
                metric,
                side.old_values(metric),
                side.new_values(metric),
                margin,
                identical=same[side.arm],
                cost_usd=side.cost_usd,
                unchanged=pairing.fixed and side.unchanged(metric) and not (metric == PRIMARY and side.arm in graver),
                gained=side.arm in gained and (metric not in SHARES or side.none_worse(metric)),
                grows=pairing.fixed,
            )
            for side in sides
            for metric, margin in margins.items()
            if not METRICS[metric].of_some or _is_known(side, metric)
        ],
        alpha,
    )
    crashed = {change.arm for change in stops if change.crashed} if pairing.fixed else set()
    return tuple(
        _arm(side, [line for line in lines if line.arm == side.arm], same[side.arm], pairing, crashes_anew=side.arm in crashed)
        for side in sides
    )


def _arm(side: Sides, lines: Sequence[GateLine], identical: bool, pairing: _Pairing, *, crashes_anew: bool) -> GateArm:
    """Return an arm with its lines. Where nothing is left to chance, a new crash is a regression, whatever the margins say."""
    is_open = any(line.metric == PRIMARY and line.outcome == "undecided" for line in lines)
    crash_alone = crashes_anew and all(line.outcome != "regression" for line in lines)
    if crash_alone:
        lines = [replace(line, outcome="regression") if line.metric == PRIMARY else line for line in lines]
    return GateArm(
        arm=side.arm,
        baseline_arm=side.baseline_arm,
        identical=identical,
        trials=len(side.records),
        scored=side.scored,
        lines=tuple(lines),
        stop_alone=is_open and pairing.fixed and side.unchanged(PRIMARY) and not crash_alone,
        crash_alone=crash_alone,
        unjudged=unjudged_bills(side, {line.metric for line in lines}),
    )


def _notes(run: Results, baseline: Baseline, sides: Sequence[Sides], changed_code: CodeChange | None) -> Iterator[str]:
    """Yield the caveats, a sentence each."""
    manifest, matched = run.manifest, {side.baseline_arm: side.arm for side in sides}
    for setting, then, now in (
        ("seed", baseline.seed, manifest.seed),
        ("number of repeats", baseline.repeats, manifest.settings.repeats),
    ):
        if then != now:
            yield f"Another {setting} than in the baseline, {now}, not {then}: tasks pair up, their trials do not."
    for old, arm in matched.items():
        if arm != old:
            yield f"{arm} is held against {old} of the baseline."
        entry, before = manifest.arm(arm), baseline.arms[old].met
        if entry is not None and entry.met != before:
            was = before or entry.profile
            yield f"{arm} met {entry.met or entry.profile}, by the form of its calls, and {was} in the baseline."
    if extra := [arm.info.arm for arm in run.comparison.arms if arm.info.arm not in matched.values()]:
        yield f"Not in the baseline, and not judged: {', '.join(map(short_arm, extra))}."
    if changed_code is not None:
        yield f"Changed since the baseline: {changed_code.named}; tools and scorers may have, too."
    yield from loop_differences(sides, baseline.arms, manifest.arms)
