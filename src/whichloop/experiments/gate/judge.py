"""Judging a run against a baseline: the outcome, with all that stands beside it. `comparable` says first whether it can be done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from whichloop.experiments.compare.results import Results
from whichloop.metrics.arm_warnings import short_words
from whichloop.metrics.gate import MARGIN, GateLine, Held, judge_lines, overall
from whichloop.metrics.record import Record
from whichloop.metrics.statistics import ALPHA
from whichloop.metrics.summary import METRICS, PRIMARY, SHARES
from whichloop.protocol.values import counted
from whichloop.runs.manifest import Manifest

from .case import GateCase, case_of, same_code
from .changes.other_changes import (
    CLAIMS,
    differences,
    more_claims,
    other_answers,
    stop_changes,
    time_sentences,
    unjudged_bills,
    unjudged_sentences,
)
from .changes.traced_trials import TracedTrials, altered_trials, changes
from .changes.unseen import (
    changed_files,
    changed_files_sentence,
    held_open,
    loop_differences,
    old_and_new,
    only_the_seed_differs,
    other_loops,
    tested_lines,
    unseen,
)
from .changes.worst_trials import growths, worst_trials
from .commands import Rules
from .comparable import check_request, refuse_unknown
from .data.advice import DRAWS, Advice
from .data.baseline import Baseline
from .data.outcome import PASSES, GateArm, GateResult, Outcome, StopChange, TaskChange
from .data.sides import Sides, is_share_of_some
from .data.troubles import hang_words, short_arm
from .larger import larger, run_anew

HAD_IT_EASIER = "its trials were easier than planned, so what got worse counts, and what did not shows nothing"
LOST = ("regression", "worse here")
UNKNOWN = (None, "other")
"""Causes of a lost trial that say nothing of what it was lost to."""


def shortfalls(case: GateCase) -> Mapping[str, str]:
    """Return arm → that too few of its scheduled faults landed, in words, where nothing else keeps from judging the run.

    Nothing where trials have no counterparts, so that the schedules are others.
    """
    if not case.paired or case.troubles(short_allowed=True):
        return {}
    summaries = {arm.info.arm: arm.summary for arm in case.run.comparison.arms}
    return {side.arm: short_words(summaries[side.arm]) for side in case.sides if summaries[side.arm].faults.short}


def lost_all_the_same(arms: Iterable[GateArm], short: Mapping[str, str], tasks: Sequence[TaskChange]) -> tuple[GateArm, ...]:
    """Return the arms, those with a shortfall held to what they lost; none at all where no arm got worse.

    `short`: arm → its shortfall in words.
    """
    held = [_held(arm, short[arm.arm], tasks) if arm.arm in short else arm for arm in arms]
    return tuple(held) if any(line.outcome in LOST for arm in held for line in arm.lines) else ()


def _held(arm: GateArm, shortfall: str, tasks: Sequence[TaskChange]) -> GateArm:
    words = f"{short_arm(arm.arm)}: {shortfall}"
    if not _has_lost(arm) or _main_cause(arm, tasks) in UNKNOWN:
        return replace(arm, lines=(), unjudged={}, claims=None, short_of_faults=f"{words}, so it is not judged")
    lines = tuple(map(_against, arm.lines))
    return replace(arm, lines=lines, short_of_faults=f"{words}: {HAD_IT_EASIER}")


def _has_lost(arm: GateArm) -> bool:
    return any(line.metric == PRIMARY and line.outcome in LOST for line in arm.lines)


def _main_cause(arm: GateArm, tasks: Sequence[TaskChange]) -> str | None:
    """Return what most of an arm's lost tasks were lost to; None without any."""
    causes = Counter(change.cause for change in tasks if change.arm == arm.arm and change.became == "worse")
    return causes.most_common(1)[0][0] if causes else None


def _against(line: GateLine) -> GateLine:
    """Return a line as it is where it is held against the arm, else left open."""
    if line.outcome in LOST:
        return line
    return replace(line, outcome="undecided", better=False, outlook=None, more_repeats=None)


DEFAULT_METRICS: Mapping[str, float] = {PRIMARY: MARGIN}


def judge(
    run: Results,
    baseline: Baseline,
    *,
    metrics: Mapping[str, float] = DEFAULT_METRICS,
    alpha: float = ALPHA,
    path: Path | None = None,
    common: bool = False,
    again: Sequence[Record] = (),
) -> GateResult:
    """Judge a run against a baseline. `metrics`: metric → margin; accuracy is always among them. `path`: the baseline's file.

    `common`: where the suite has changed, judge by the tasks that are the same in both. `again`: what trials of the run gave that
    were run once more, see `run_doubtful_again`.
    Raises Incomparable (a ValueError) if the two cannot be compared: another suite, profile, policy, step limit or list of
    tasks, or a metric unknown on either side; ValueError for a bad margin or level.
    """
    margins = {**DEFAULT_METRICS, **metrics}
    check_request(baseline, margins, alpha)
    return _judged(case_of(run, baseline, Rules(margins, alpha, common), path, again))


def _judged(case: GateCase) -> GateResult:
    """Judge a run that can be compared. Raises Incomparable for a metric that one side does not know."""
    run, baseline, sides = case.run, case.baseline, case.sides
    short, hung = shortfalls(case), case.hung
    reasons = () if short else case.troubles()
    if not reasons:
        refuse_unknown(sides, case.rules.margins)
    compared = hung if hung and reasons else sides  # of a run that was ended, the other arms have a part of their trials
    stops = stop_changes(run.folder, compared, paired=case.paired, hangs=case.hangs)
    traced = TracedTrials(run.folder, run.manifest.step_limits)
    tasks = changes(traced, compared, paired=case.paired)
    arms = _with_hangs(() if reasons else _held_arms(case, stops, short, tasks), hung)
    reasons = reasons if arms else case.troubles()
    outcome: Outcome = "regression" if hung else "invalid" if reasons else overall([line for arm in arms for line in arm.lines])
    shown_sides = () if outcome == "invalid" else compared  # where nothing is judged, no trial is called worse
    only_the_seed = only_the_seed_differs(sides, baseline, run.manifest)
    same_result = [pair for side in shown_sides for pair in side.pairs if pair.same_result and not pair.same] if case.paired else []
    answers = other_answers(run.folder, same_result) if case.fixed else None
    broke = any(change.broke for change in stops)
    may_be_meant = not (short or hung or only_the_seed) and _may_be_meant(
        case, outcome, arms, broke=broke, other_answers=answers is not None
    )
    notes, details = _notes(case, arms, outcome)
    return GateResult(
        outcome=outcome,
        reasons=() if hung else reasons,
        arms=arms,
        tasks=_of_lost_arms_first(tasks, arms) if shown_sides else (),
        same_result=len(same_result),
        differs_in=differences(traced, same_result),
        stops=stops if shown_sides else (),
        notes=(answers.sentence, *notes) if answers is not None and outcome in PASSES else notes,
        other_answers=answers,
        details=details,
        ended=_ended(run) if hung else "",
        altered=altered_trials(traced, compared, paired=case.paired),
        growths=tuple(growths(sides, arms, paired=case.paired)),
        worst=worst_trials(traced, baseline, sides, arms, paired=case.paired),
        advice=_advice(case, arms, outcome, only_the_seed=only_the_seed),
        unit=_unit(run.manifest, sides),
        run=run.folder,
        baseline=case.path,
        alpha=case.rules.alpha,
        paired=case.paired,
        common=case.only,
        shared=case.shared,
        bless=case.commands.bless() if may_be_meant else "",
        changed_files=changed_files(sides, baseline.arms, run.manifest.arms),
        lead="" if case.code is None or outcome in PASSES else case.code.lead,
    )


def _of_lost_arms_first(tasks: Sequence[TaskChange], arms: Iterable[GateArm]) -> tuple[TaskChange, ...]:
    """Return changed tasks, those that got worse in an arm that is held to have done so before those in which another did."""
    lost = {line.arm for arm in arms for line in arm.lines if line.outcome in ("regression", "worse here")}
    return tuple(sorted(tasks, key=lambda change: (change.became != "worse", change.became == "worse" and change.arm not in lost)))


def _may_be_meant(case: GateCase, outcome: Outcome, arms: Iterable[GateArm], *, broke: bool, other_answers: bool) -> bool:
    """Whether the run differs so that somebody may want it to be the new baseline; with other tasks it is to be one soon.

    `broke`: whether trials crash or hang that did not, which nobody wants later changes to be held to.
    """
    if broke or any(side.dead for side in case.sides):
        return False
    if outcome in PASSES and (case.only is not None or other_answers):
        return True
    if outcome in ("pass", "unchanged"):
        return any(line.better for arm in arms for line in arm.lines)
    if outcome == "undecided" and other_answers:
        return True
    return outcome in ("regression", "worse here", "better here") or any(arm.limit_alone for arm in arms)


# --- the arms ---


def _held_arms(
    case: GateCase, stops: Sequence[StopChange], short: Mapping[str, str], tasks: Sequence[TaskChange]
) -> tuple[GateArm, ...]:
    """Return the judged arms; none where some have a shortfall of faults, and no arm got worse all the same."""
    arms = _judged_arms(case, stops)
    return lost_all_the_same(arms, short, tasks) if short else arms


def _judged_arms(case: GateCase, stops: Sequence[StopChange]) -> tuple[GateArm, ...]:
    graver = {change.arm for change in stops if change.graver}
    same = {side.arm: case.paired and side.identical(case.rules.margins) for side in case.sides}
    gained = {side.arm for side in case.sides if side.arm in case.causal - graver and side.gained}
    lost = {side.arm for side in case.sides if side.arm in case.no_chance and side.lost}
    lines = judge_lines(
        [
            Held(
                side.arm,
                metric,
                *side.judged_values(metric, paired=case.paired),
                margin,
                identical=same[side.arm],
                cost_usd=side.cost_usd,
                unchanged=case.fixed and side.unchanged(metric) and not (metric == PRIMARY and side.arm in graver),
                gained=side.arm in gained and (metric not in SHARES or side.none_worse(metric)),
                lost=side.arm in lost,
                grows=case.fixed,
            )
            for side in case.sides
            for metric, margin in case.rules.margins.items()
            if not METRICS[metric].of_some or side.compares(metric, paired=case.paired)
        ],
        case.rules.alpha,
    )
    arms = [
        _arm(
            side,
            [line for line in lines if line.arm == side.arm],
            same[side.arm],
            fixed=case.fixed,
            broke=[change for change in stops if change.arm == side.arm and change.broke] if case.fixed else (),
            paired=case.paired,
        )
        for side in case.sides
    ]
    return held_open(arms, case.baseline.arms, case.manifest.arms)


def _arm(
    side: Sides, lines: Sequence[GateLine], identical: bool, *, fixed: bool, broke: Sequence[StopChange], paired: bool
) -> GateArm:
    """Return an arm with its lines. Where nothing is left to chance, a new crash or hang is a regression, whatever the margins say.

    `broke`: the trials that crash or hang now and did not. `paired`: whether trials have their counterparts.
    """
    is_open = any(line.metric == PRIMARY and line.outcome == "undecided" for line in lines)
    broke_alone = bool(broke) and all(line.outcome != "regression" for line in lines)
    if broke_alone:
        lines = _lost(lines)
    crash_alone = broke_alone and any(change.crashed for change in broke)
    return GateArm(
        arm=side.arm,
        baseline_arm=side.baseline_arm,
        identical=identical,
        trials=len(side.records),
        scored=side.scored,
        lines=tuple(lines),
        stop_alone=is_open and fixed and side.unchanged(PRIMARY) and not broke_alone,
        crash_alone=crash_alone,
        hang_alone=broke_alone and not crash_alone,
        unjudged=unjudged_bills(side, {line.metric for line in lines}),
        claims=None if any(line.metric == CLAIMS for line in lines) else more_claims(side, paired=paired),
    )


def _lost(lines: Iterable[GateLine]) -> list[GateLine]:
    """Return the lines, accuracy as a regression whatever the margins say."""
    return [
        replace(line, outcome="regression", outlook=None, more_repeats=None) if line.metric == PRIMARY else line for line in lines
    ]


def _with_hangs(arms: Iterable[GateArm], hung: Sequence[Sides]) -> tuple[GateArm, ...]:
    """Return the judged arms, those that hang as regressions; one that was not judged, since its run was ended, has no lines."""
    judged = {arm.arm: arm for arm in arms}
    for side in hung:
        in_words = hang_words(side.arm, side.records)
        arm = judged.get(side.arm) or GateArm(
            side.arm, side.baseline_arm, identical=False, trials=len(side.records), scored=side.scored, lines=()
        )
        judged[side.arm] = replace(arm, lines=tuple(_lost(arm.lines)), hangs=in_words)
    return tuple(judged.values())


def _ended(run: Results) -> str:
    """Return that nothing hung in the baseline, and what was not run, where the run ended since a loop hangs."""
    unrun = run.scheduled - len(run.records)
    ran = f"{len(run.records):,} of its {counted(run.scheduled, 'trial')}"
    stopped_early = f"; the run ended after {ran}, and the other {unrun:,} did not run" if unrun else ""
    return f"no trial of the baseline ended at its time limit{stopped_early}"


# --- the notes ---


def _notes(case: GateCase, arms: Sequence[GateArm], outcome: Outcome) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the caveats, a sentence each, and those that the long form alone tells."""
    sides, baseline, manifest = case.sides, case.baseline, case.manifest
    loops = tuple(loop_differences(sides, baseline.arms, manifest.arms))
    notes: list[str] = []
    details = list(unjudged_sentences(arms))
    (notes if outcome in PASSES else details).extend(_other_draws(case))  # of others the next step says it
    (details if loops else notes).extend(_other_names(sides))
    notes += [*_caveats(case), *loops, *_not_comparable(case)]
    (details if outcome in PASSES else notes).extend(changed_files_sentence(changed_files(sides, baseline.arms, manifest.arms)))
    if outcome != "invalid" and not any(arm.hangs for arm in arms):
        notes += same_code(case)
    if outcome != "invalid" and not any(case.hangs(record) for side in sides for record in side.records):
        notes += time_sentences(sides, baseline, manifest, case.rules.margins)
    judged = {arm.arm for arm in arms}
    if outcome != "invalid" and (unjudged := [side.arm for side in sides if side.arm not in judged]):
        notes.append(f"Not judged, since the run ended before all of their trials did: {', '.join(map(short_arm, unjudged))}.")
    return tuple(notes), tuple(details)


def _other_draws(case: GateCase) -> Iterator[str]:
    for setting, now, then in _draws(case):
        yield f"Another {DRAWS[setting]} than in the baseline, {now}, not {then}: tasks pair up, their trials do not."


def _draws(case: GateCase) -> Iterator[tuple[str, int, int]]:
    """Yield each setting by which the trials are others than the baseline's, with its value in the run and in the baseline."""
    for setting, now, then in (
        ("seed", case.manifest.seed, case.baseline.seed),
        ("repeats", case.manifest.settings.repeats, case.baseline.repeats),
    ):
        if now != then and case.shared is None:
            yield setting, now, then


def _not_comparable(case: GateCase) -> Iterator[str]:
    """Yield which metrics are not judged, since no task, or trial, has them on both sides: a loop that crashes calls no tool."""
    for metric in case.rules.margins:
        lacking = [
            side.arm
            for side in case.sides
            if METRICS[metric].of_some and side.knows(metric) and not side.compares(metric, paired=case.paired)
        ]
        if lacking:
            arms = ", ".join(map(short_arm, lacking))
            unit = "trial" if case.paired and is_share_of_some(metric) else "task"
            yield f"Not judged: {metric} of {arms}, which no {unit} has both in the baseline and in the run."


def _other_names(sides: Iterable[Sides]) -> Iterator[str]:
    for side in sides:
        if side.arm != side.baseline_arm:
            yield f"{side.arm} is held against {side.baseline_arm} of the baseline."


def _unit(manifest: Manifest, sides: Sequence[Sides]) -> str:
    """Return what is counted where a task counts once in each arm."""
    profiles = {entry.profile for side in sides if (entry := manifest.arm(side.arm)) is not None}
    if len(sides) == 1:
        return "task"
    return "task-profile pair" if len(profiles) == len(sides) else "task-arm pair"


def _caveats(case: GateCase) -> Iterator[str]:
    """Yield how the run differs from the baseline in what was asked, and what of it is not judged."""
    run, baseline, manifest = case.run, case.baseline, case.manifest
    matched = {side.baseline_arm: side.arm for side in case.sides}
    for old, arm in matched.items():
        entry, before = manifest.arm(arm), baseline.arms[old].met
        if entry is not None and entry.met != before:
            was = before or entry.profile
            yield f"{arm} met {entry.met or entry.profile}, by the form of its calls, and {was} in the baseline."
    if extra := [arm.info.arm for arm in run.comparison.arms if arm.info.arm not in matched.values()]:
        yield f"Not in the baseline, and not judged: {', '.join(map(short_arm, extra))}."
    if case.only is None and manifest.suite.digest != baseline.suite.digest:
        changed = "The order of the suite's tasks has changed, or tasks that do not run have"
        yield f"{changed}; each task that ran is the one of the baseline."
    if case.code is not None:
        yield f"Changed since the baseline: {case.code.named}; tools and scorers may have, too."


# --- what can be done ---


def _limits_compared(case: GateCase, arms: Iterable[GateArm]) -> tuple[str, ...]:
    """Return the command that compares loops under their old default limits with the same under the new ones; nothing where no
    default limit is another."""
    limited = {arm.arm: case.baseline.arms[arm.baseline_arm] for arm in arms if arm.limit_alone}
    words = run_anew(case.baseline, old_and_new(case.manifest, limited)) if limited else ()
    return (*words, *case.commands.runs()) if words else ()


def _advice(case: GateCase, arms: Sequence[GateArm], outcome: Outcome, *, only_the_seed: bool) -> Advice:
    """Return what next steps follow from, with the commands of a command line."""
    is_open = outcome in ("undecided", "worse here")
    return Advice(
        differs=tuple(_draws(case)),
        imported=case.manifest.imported is not None,
        only_the_seed=only_the_seed,
        again=case.commands.again(),
        paired=case.commands.again(paired=True),
        limited=case.commands.again(typed=other_loops(case.manifest, [arm.arm for arm in arms if arm.limit_alone])),
        limits_compared=_limits_compared(case, arms),
        review=case.commands.review(),
        bless_latest=case.commands.bless_latest(),
        other_cause=bool(case.other_cause),
        larger=larger(tested_lines(arms), case.baseline, case.commands.runs()) if is_open and not case.other_cause else None,
        unseen=unseen(case.sides, case.baseline.arms, case.manifest.arms) if outcome in PASSES else (),
    )
