"""Judging a run against a baseline: whether the two can be compared, and the outcome."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from loopbench.experiments.compare.results import Results
from loopbench.metrics.comparison import MAX_ERRORED
from loopbench.metrics.gate import MARGIN, GateLine, Held, check_level, check_margin, judge_lines, overall
from loopbench.metrics.statistics import ALPHA
from loopbench.metrics.summary import METRICS, PRIMARY, TaskValues
from loopbench.protocol import StopReason
from loopbench.protocol.counts import counted
from loopbench.runs.changes import upgrades
from loopbench.runs.manifest import Manifest
from loopbench.text.counts import listed

from .baseline import Baseline, has_all, troubles
from .changed_profile import changed_fields
from .changed_stops import is_graver, stop_changes
from .changed_tasks import changes
from .larger import larger
from .other_changes import differences, unjudged_amounts
from .outcome import PASSES, GateArm, GateResult, Outcome
from .sides import Sides, stop_of
from .unseen import dice, loop_differences, unseen

DEFAULT_METRICS: Mapping[str, float] = {PRIMARY: MARGIN}
SCRIPTED = "scripted"
_HINT = "where that is meant, bless a new run"
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
) -> GateResult:
    """Judge a run against a baseline. `metrics`: metric → margin; accuracy is always among them. `path`: the baseline's file.

    Raises Incomparable (a ValueError) if the two cannot be compared: another suite, profile, policy, step limit or list of
    tasks, or a metric unknown on either side; ValueError for a bad margin or level.
    """
    margins = {**DEFAULT_METRICS, **metrics}
    check_request(baseline, margins, alpha)
    refuse_other(run.folder, run.manifest, baseline)
    _refuse_other_tasks(run, baseline)
    matched = found_arms(run.folder, run.manifest, baseline)
    sides = [Sides.of(run, arm, baseline, old) for old, arm in matched.items()]
    reasons = (*troubles(run), *(reason for side in sides for reason in side.troubles()))
    paired = (run.manifest.seed, run.manifest.settings.repeats) == (baseline.seed, baseline.repeats)
    if not reasons:
        _refuse_unknown(sides, margins)
    pairing = _Pairing(paired, paired and _is_fixed(run, baseline, sides))
    arms = () if reasons else _judged_arms(sides, margins, alpha, pairing)
    outcome: Outcome = "invalid" if reasons else overall([line for arm in arms for line in arm.lines])
    other = [pair for side in sides for pair in side.pairs if pair.same_result and not pair.same] if paired else []
    return GateResult(
        outcome=outcome,
        reasons=reasons,
        arms=arms,
        tasks=changes(run.folder, sides, paired=paired),
        same_result=len(other),
        differs_in=differences(run.folder, other),
        stops=stop_changes(run.folder, sides, paired=paired),
        notes=(
            *_notes(run, baseline, matched),
            *loop_differences(sides, baseline.arms, run.manifest.arms),
            *(dice(sides, baseline, run.manifest) if pairing.fixed and not reasons else ()),
            *(() if reasons else unjudged_amounts(sides, margins)),
            *larger([line for arm in arms for line in arm.lines], baseline, path, _again(run, baseline, margins, alpha)),
            *(unseen(sides, baseline.arms, run.manifest.arms) if outcome in PASSES else ()),
        ),
        run=run.folder,
        baseline=path,
        alpha=alpha,
        paired=paired,
    )


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


def refuse_other(folder: Path, manifest: Manifest, baseline: Baseline) -> None:
    """Raise Incomparable that names the first difference in the questions, or an arm that is missing; no trial has to have run."""
    suite, old = manifest.suite, baseline.suite
    settings: list[tuple[str, Any, Any]] = [
        ("suite", old.name, suite.name),
        (f"version of suite {old.name}", old.version, suite.version),
        (f"digest of suite {old.name}", old.digest, suite.digest),
        ("step limit", old.max_tool_steps, suite.max_tool_steps),
        *((f"version of {name}", baseline.versions.get(name), now) for name, now in manifest.versions.items()),
    ]
    for name, now in manifest.profiles.items():
        if name in baseline.profiles:
            settings.append((f"digest of profile {name}", baseline.profiles[name], now))
            fields = changed_fields(baseline.own_profiles.get(name, {}), manifest.own_profiles.get(name, {}))
            if baseline.profiles[name] != now and fields:
                raise Incomparable(f"{folder}: profile {name} is another than in the baseline: {fields}; {_HINT}")
    for setting, then, now in settings:
        if then != now:
            raise Incomparable(f"{folder}: another {setting} than in the baseline: {_brief(now)}, not {_brief(then)}; {_HINT}")
    found_arms(folder, manifest, baseline)


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
        lacking = [old for old in matched if old not in found]
        has = ", ".join(arm.arm for arm in manifest.arms)
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
            raise Incomparable(f"{run.folder}: other tasks: {len(tasks)} {problem}, such as {min(tasks)}; {_HINT}")


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


def _is_fixed(run: Results, baseline: Baseline, sides: Iterable[Sides]) -> bool:
    """Whether the models' replies follow from seed and prompt: those of the scripted model, or of a recording that is replayed."""
    settings = run.manifest.settings
    if settings.cassette is not None and settings.cassette_mode in (None, "replay"):
        return True
    models = {arm.arm: arm.model for arm in run.manifest.arms}
    return all(models[side.arm] == baseline.arms[side.baseline_arm].model == SCRIPTED for side in sides)


def _judged_arms(sides: Sequence[Sides], margins: Mapping[str, float], alpha: float, pairing: _Pairing) -> tuple[GateArm, ...]:
    same = {side.arm: pairing.paired and side.identical(margins) for side in sides}
    lines = judge_lines(
        [
            Held(
                side.arm,
                metric,
                side.old_values(metric),
                side.new_values(metric),
                margin,
                same[side.arm],
                side.cost_usd,
                pairing.fixed and side.unchanged(metric) and not (metric == PRIMARY and _ends_gravely(side)),
            )
            for side in sides
            for metric, margin in margins.items()
            if not METRICS[metric].of_some or _is_known(side, metric)
        ],
        alpha,
    )
    return tuple(_arm(side, [line for line in lines if line.arm == side.arm], same[side.arm], pairing) for side in sides)


def _arm(side: Sides, lines: Sequence[GateLine], identical: bool, pairing: _Pairing) -> GateArm:
    """Return an arm with its lines. Where nothing is left to chance, a new crash is a regression, whatever the margins say."""
    is_open = any(line.metric == PRIMARY and line.outcome == "undecided" for line in lines)
    crash_alone = pairing.fixed and _crashes_anew(side) and all(line.outcome != "regression" for line in lines)
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
    )


def _crashes_anew(side: Sides) -> bool:
    """Whether a trial crashes whose counterpart in the baseline did not."""
    ends = ((pair.line.stop[pair.record.repeat], stop_of(pair.record)) for pair in side.pairs)
    return any(now == StopReason.CRASHED != before for before, now in ends)


def _ends_gravely(side: Sides) -> bool:
    """Whether a trial has a graver stop than its counterpart in the baseline."""
    return any(is_graver(pair.line.stop[pair.record.repeat], stop_of(pair.record)) for pair in side.pairs)


def _notes(run: Results, baseline: Baseline, matched: Mapping[str, str]) -> Iterator[str]:
    """Yield the caveats, a sentence each."""
    manifest = run.manifest
    for setting, then, now in (
        ("seed", baseline.seed, manifest.seed),
        ("number of repeats", baseline.repeats, manifest.settings.repeats),
    ):
        if then != now:
            yield f"Another {setting} than in the baseline, {now}, not {then}: tasks pair up, their trials do not."
    for old, arm in matched.items():
        if arm != old:
            yield f"{arm} is held against {old} of the baseline."
    if extra := [arm.info.arm for arm in run.comparison.arms if arm.info.arm not in matched.values()]:
        yield f"Not in the baseline, and not judged: {', '.join(extra)}."
    if manifest.suite.code != baseline.suite.code:
        yield "The code of your own that the suite is made of changed since: tools and scorers may have, too."
