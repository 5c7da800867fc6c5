"""What a comparison answers: loops × profiles, the best loop first, and which loop to adopt, what is undecided, what is worse."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from whichloop.metrics.arm_info import IMPORTED, ArmInfo
from whichloop.metrics.comparison import ArmResult, Comparison
from whichloop.metrics.pairs import Pair
from whichloop.metrics.statistics import interval_json, too_few_units
from whichloop.metrics.summary import PRIMARY
from whichloop.metrics.views import AtBudget
from whichloop.protocol.names import SCRIPTED, Spec, is_local_model
from whichloop.protocol.values import counted
from whichloop.runs.built_in import form_option
from whichloop.text.numbers import MAX_NAMES, interval, listed_names, short_name

from ..measured_forms import are_mixed, are_of_different_replies, fits_in_words, met_different_faults, that_apply, under_profile
from ..trial_limits import impossible_limit, limits_sentences, suite_limit_sentences
from .air import every_profile
from .basis import basis
from .claims import RATE, claims_in_words
from .each_profile import ProfilesVerdict, agreed, differ, each_of, headline
from .exposure import exposures
from .few_tasks_table import NO_TASKS, FewTasksTable
from .few_tasks_verdict import FewTasksVerdict
from .matrix import AGENT, BEST, COMPARED, AnswerMatrix, AnswerRow, matrix_of, pairs_of, place_in_column
from .prices import Prices
from .same_loops import same_sentences, without_copies
from .sentence import AnswerSentence
from .thrift import tighter_limits
from .ties import tie_breaks
from .undecided import difference_in_words
from .verdicts import Verdicts
from .warned import dead_arm_sentences

WIRE = "wire"
"""The kind of error of a reply that was refused for its form."""
MIN_REFUSED = 0.9
"""Share of an arm's calls to its model from which on the form, and not the loop, is what its accuracy says."""
NATIVE = "native"


def unreadable_replies(arms: Sequence[ArmResult]) -> Iterator[AnswerSentence]:
    """Yield which loops could read hardly any reply of a real model, what that says, and what to do about it."""
    unreadable = [arm for arm in arms if _is_unreadable(arm)]
    if not unreadable:
        return
    arm_shares = [f"{short_name(arm.info)} {_share(arm)}" for arm in unreadable]
    listed_shares = listed_names(arm_shares[:MAX_NAMES]) + (
        f" and {counted(len(arm_shares) - MAX_NAMES, 'other arm')}" if len(arm_shares) > MAX_NAMES else ""
    )
    why = "the model does not write calls and answers as the loop asks for them (errors: wire), which says nothing of the loop else"
    cures = list(dict.fromkeys(filter(None, map(_cure, (arm.info for arm in unreadable)))))
    cure = f"; {' or '.join(cures)}" if cures else ""
    sentence = f"Replies that could not be read: {listed_shares}: {why}{cure}"
    yield AnswerSentence(sentence, f"Replies that could not be read: {listed_shares}{cure}", is_basis=True)


def _calls(arm: ArmResult) -> int:
    mean = arm.summary.means["lm_calls"]
    return 0 if mean is None else round(mean.value * arm.summary.scored)


def _is_unreadable(arm: ArmResult) -> bool:
    calls, refused = _calls(arm), arm.summary.errors.get(WIRE, 0)
    return arm.info.model != SCRIPTED and arm.info.profile != IMPORTED and calls > 0 and refused >= MIN_REFUSED * calls


def _share(arm: ArmResult) -> str:
    """Return `39 of 40`."""
    refused = arm.summary.errors[WIRE]
    return f"{refused:,} of {max(_calls(arm), refused):,}"


def _cure(info: ArmInfo) -> str:
    """Return how else to ask for calls, or how to hold a local model to what is asked for."""
    option, default = form_option(info.loop)
    if option and info.calls_in != NATIVE:
        return f"--loop '{Spec(info.loop, {**info.options, option: NATIVE})}' asks for native calls"
    if option and default != NATIVE:
        without = {name: value for name, value in info.options.items() if name != option}
        return f"--loop '{Spec(info.loop, without)}' asks for calls in text"
    return "--constrain holds a local model to the form" if is_local_model(info.model) else "whichloop why shows the replies"


NamedPairs = Sequence[tuple[str, Pair]]
"""The other arms' names, and each pair with the best arm as its first one."""


def best_against_others(matrix: AnswerMatrix, comparison: Comparison) -> Iterator[AnswerSentence]:
    """Yield the first row minus each other one, in their order, of an imported run of three arms or more in one column."""
    if len(matrix.rows) < 3 or len(matrix.columns) != 1 or matrix.subject != AGENT:
        return
    best, *others = matrix.rows
    accuracy = comparison.pairs_on(PRIMARY)
    pairs = [(row.loop, pair) for row in others for pair in pairs_of(accuracy, best, row)]
    if not pairs:
        return
    named_pairs = pairs[: MAX_NAMES - 1] if len(pairs) > MAX_NAMES else pairs
    more = f", and {len(pairs) - len(named_pairs)} others" if len(named_pairs) < len(pairs) else ""
    over = _common_tasks([pair for _, pair in named_pairs])
    level = _level([pair for _, pair in named_pairs], len(accuracy), comparison.alpha)
    yield AnswerSentence(f"In accuracy {best.loop} minus {_differences_text(named_pairs)}{more}; paired over {over}{level}")


def _level(pairs: Sequence[Pair], family: int, alpha: float) -> str:
    """Return `, 98.3 % intervals for 3 pairs`; empty where they are at the level of a single test. `family`: all pairs."""
    levels = sorted({round(100 * (1 - pair.level), 1) for pair in pairs})
    if all(pair.level == alpha for pair in pairs):
        return ""
    each = f"{levels[0]:g}" if len(levels) == 1 else f"{levels[0]:g} to {levels[-1]:g}"
    return f", {each} % intervals for {family} pairs"


def _differences_text(named_pairs: NamedPairs) -> str:
    """Return `b: 0.083 [-0.050, 0.211], c: 0.142 [0.001, 0.268]`, with the number of tasks where it is not the same in all."""
    varies = len({pair.difference.n for _, pair in named_pairs}) > 1
    each = [f"{name}: {interval(pair.difference, 3)}{f' on {pair.difference.n}' if varies else ''}" for name, pair in named_pairs]
    return ", ".join(each)


def _common_tasks(pairs: Sequence[Pair]) -> str:
    """Return `60 common tasks`, or `so many common tasks` where each pair has its own; with the clusters that they count as."""
    tasks, units = sorted(pair.difference.n for pair in pairs), sorted(pair.units for pair in pairs)
    many = counted(tasks[0], "common task") if tasks[0] == tasks[-1] else "so many common tasks"
    if units == tasks:
        return many
    return f"{many} in {units[0] if units[0] == units[-1] else f'{units[0]} to {units[-1]}'} clusters"


def robust_choice(matrix: AnswerMatrix, tasks: FewTasksTable) -> tuple[str, ...]:
    """Return the loops than which none is shown to be better under any of the profiles, where some other loop is beaten.

    Empty of a few tasks with repeats, which show nothing of tasks in general, and where nothing holds over all loops.
    """
    best = [] if tasks.is_shown else [row.loop for row in _unbeaten(matrix)]
    return tuple(best) if len(best) < len(matrix.rows) else ()


def over_estimates(matrix: AnswerMatrix, tasks: FewTasksTable) -> Iterator[AnswerSentence]:
    """Yield which loops are among the best under each of the profiles; which of them to adopt, the verdict on each profile says.

    Places are of what tests show of tasks in general: where few `tasks` have repeats, which show something of these alone, that is
    said. Nothing where nothing holds over all loops.
    """
    if not _is_whole(matrix):
        return
    every, of = each_of(matrix.columns), _beyond(tasks)
    best = _unbeaten(matrix)
    if not best:
        yield AnswerSentence(f"No loop is among the best under {every}{of}")
        return
    columns = range(len(matrix.columns))
    is_alone = len(best) == 1 and all(
        place_in_column(row, n) == "lower" for row in matrix.rows if row is not best[0] for n in columns
    )
    if is_alone:
        yield AnswerSentence(f"Under {every} {best[0].loop} has the highest accuracy{of}")
    else:
        yield AnswerSentence(f"Under {every} no loop is shown to beat {listed_names([row.loop for row in best])}{of}")


def _is_whole(matrix: AnswerMatrix) -> bool:
    """Whether something holds over all loops: there are several, under several profiles, each of which applies to each loop."""
    columns = range(len(matrix.columns))
    return len(columns) > 1 and all(place_in_column(row, n) in COMPARED for row in matrix.rows for n in columns)


def _unbeaten(matrix: AnswerMatrix) -> list[AnswerRow]:
    """Return the loops that are among the best under each of the profiles; none where nothing holds over all loops."""
    columns = range(len(matrix.columns))
    return [row for row in matrix.rows if all(place_in_column(row, n) in BEST for n in columns)] if _is_whole(matrix) else []


def _beyond(tasks: FewTasksTable) -> str:
    """Return of which tasks it holds, where a verdict on a few tasks themselves stands before it; else empty."""
    return f" on tasks like these, beyond the {len(tasks.tasks)} at hand" if tasks.is_shown else ""


NOT_POOLED = ": each profile is judged by itself, and nothing is pooled, because they are of different replies"


@dataclass(frozen=True, slots=True)
class ComparisonAnswer(AnswerMatrix):
    """The matrix of loops × columns, the most accurate loop first, and the sentences that say what follows."""

    answer_sentences: tuple[AnswerSentence, ...]
    on_tasks: FewTasksTable = NO_TASKS
    """What each loop did on each task, where these are few and have repeats."""
    verdicts: tuple[ProfilesVerdict, ...] = ()
    """The verdict on all profiles together, or one on each that is judged by itself."""
    robust: tuple[str, ...] = ()
    """Where the verdicts on several profiles differ, the loops that none is shown to beat under any of them."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """The sentences in full."""
        return tuple(sentence.in_full for sentence in self.answer_sentences)


def answer(comparison: Comparison, budgets: Sequence[AtBudget] = ()) -> ComparisonAnswer:
    """Return what a comparison answers; of an invalid one the matrix, and which arms are dead: no verdict holds.

    `budgets`: how arms stand where each trial may cost less; where another loop than the adopted one is then ahead, it is said.
    """
    whole = _matrix(comparison)
    dead = tuple(dead_arm_sentences(comparison))
    if comparison.invalid:
        return ComparisonAnswer(whole.columns, whole.rows, whole.unit, whole.is_apart, dead)
    infos = [arm.info for arm in comparison.arms]
    tasks = FewTasksTable(whole, comparison.on_tasks, comparison.limits)
    if (beyond := impossible_limit(comparison)) is not None:
        sentences = (*dead, *limits_sentences(comparison), beyond)
        return ComparisonAnswer(whole.columns, whole.rows, whole.unit, whole.is_apart, sentences, tasks)
    distinct = without_copies(comparison)
    judged = _judged(distinct)
    by_profile = _profiles_verdicts(judged, is_apart=are_mixed(infos))
    robust = robust_choice(_matrix(distinct), tasks) if differ(by_profile) else ()
    verdicts = (
        [
            *headline(by_profile, robust),
            *_each_by_itself(judged, every_profile(whole)),
            *(replace(each, opens=True) for each in over_estimates(_matrix(distinct), tasks) if not robust),
        ]
        if are_mixed(infos)
        else [*next(iter(judged.values()), ())]
    )
    verdicts[1:1] = [*_only_difference(that_apply(distinct)), *best_against_others(whole, comparison)] if verdicts else []
    is_apart, is_basis = are_of_different_replies(infos), met_different_faults(infos)
    fits = [replace(each, is_basis=is_basis) for each in _fitting(comparison, is_apart)] if verdicts else [*_fitting(comparison)]
    rests_on = [*(each for each in fits if each.is_basis), *basis(that_apply(distinct))] if verdicts else []
    recommended = {profile: each.recommendation for each in by_profile for profile in each.profiles}
    adopted = {profile: each.adopts for profile, each in recommended.items() if each.adopts}
    named = next((each.loops for each in recommended.values() if each.adopts), ())
    sentences = (
        *dead,
        *(limits_sentences(comparison) if verdicts or _any_ended_at_a_limit(comparison) else ()),
        *unreadable_replies(comparison.arms),
        *rests_on,
        *verdicts,
        *same_sentences(comparison, whole),
        *tighter_limits(whole, budgets, adopted),
        *(suite_limit_sentences(comparison) if verdicts else ()),
        *(each for each in fits if not each.is_basis),
        *_claims(whole, comparison.pairs_on(RATE), named),
        *_of_injection(comparison),
    )
    if whole.subject == AGENT:  # read side by side in the terminal, on the page and in Python, where no other words may stand
        sentences = tuple(replace(each, brief="", briefest="") for each in sentences)
    return ComparisonAnswer(whole.columns, whole.rows, whole.unit, whole.is_apart, sentences, tasks, by_profile, robust)


def _any_ended_at_a_limit(comparison: Comparison) -> bool:
    return any(arm.summary.stops.get(stop) for arm in comparison.arms for stop in comparison.limits.stops)


def _judged(comparison: Comparison) -> dict[str, tuple[AnswerSentence, ...]]:
    """Return profile → the verdict on the loops that it applies to; the same under each, unless each is judged by itself."""
    infos = [arm.info for arm in comparison.arms]
    profiles = dict.fromkeys(info.profile for info in infos)
    if are_mixed(infos):
        return {profile: tuple(_verdicts(under_profile(comparison, profile)).sentences()) for profile in profiles}
    return dict.fromkeys(profiles, tuple(_verdicts(that_apply(comparison)).sentences()))


def _profiles_verdicts(judged: Mapping[str, tuple[AnswerSentence, ...]], *, is_apart: bool) -> tuple[ProfilesVerdict, ...]:
    """Return the verdict on each profile, where there is one; a single one of all of them unless each is judged by itself."""
    by_profile = {profile: sentences for profile, sentences in judged.items() if sentences}
    if is_apart:
        return tuple(ProfilesVerdict((profile,), sentences) for profile, sentences in by_profile.items())
    return tuple(ProfilesVerdict(tuple(by_profile), sentences) for sentences in list(by_profile.values())[:1])


def _matrix(comparison: Comparison) -> AnswerMatrix:
    return matrix_of(comparison.arms, () if comparison.invalid else comparison.pairs_on(PRIMARY))


def _verdicts(comparison: Comparison) -> Verdicts:
    matrix = _matrix(comparison)
    accuracy, costs = comparison.pairs_on(PRIMARY), comparison.pairs_on(matrix.unit)
    tasks = FewTasksTable(matrix, comparison.on_tasks, comparison.limits)
    prices = Prices(matrix, costs, comparison.solved_costs)
    these = FewTasksVerdict(tasks, accuracy, prices, comparison.alpha)
    return Verdicts(matrix, accuracy, prices, comparison.pooled, comparison.alpha, tie_breaks(matrix, comparison), these)


def _each_by_itself(judged: Mapping[str, Sequence[AnswerSentence]], every: str) -> list[AnswerSentence]:
    """Return what each profile says of the loops that it applies to; what the matrix shows is left out.

    What all of them say in the same words is said once. `every`: what all profiles together are called.
    """
    by_profile = {profile: [each for each in sentences if not each.may_be_left_out] for profile, sentences in judged.items()}
    shared = set.intersection(*({each.text for each in sentences if each.decides is None} for sentences in by_profile.values()))
    by_text: dict[str, AnswerSentence] = {}
    for profile, sentences in by_profile.items():
        for each in sentences:
            under = f"Under {every if each.text in shared else profile}: "
            own = replace(each.behind(under), opens=True)
            by_text.setdefault(own.text, own)
    return [*by_text.values()]


def _only_difference(comparison: Comparison) -> Iterator[AnswerSentence]:
    """Yield the paired difference of two arms, the more accurate one first, where there are no others."""
    pairs = comparison.pairs_on(PRIMARY)
    if len(pairs) != 1 or len(comparison.arms) != 2 or (pairs[0].within and too_few_units(pairs[0].units, comparison.alpha)):
        return
    pair = pairs[0] if pairs[0].difference.value >= 0 else pairs[0].turned
    names = {arm.info.arm: short_name(arm.info) for arm in comparison.arms}
    yield AnswerSentence(*difference_in_words(pair, names[pair.a], names[pair.b]))


def _fitting(comparison: Comparison, is_apart: bool = False) -> Iterator[AnswerSentence]:
    """Yield which loops measured profiles apply to, and what each loop met of one that is by the form of calls.

    `is_apart`: whether each profile was judged by itself.
    """
    text, brief = fits_in_words([arm.info for arm in comparison.arms])
    if text:
        yield AnswerSentence(f"{text}{NOT_POOLED if is_apart else ''}", brief, may_be_left_out=not brief, opens=is_apart)


def _claims(matrix: AnswerMatrix, pairs: Sequence[Pair], adopted: Sequence[str]) -> Iterator[AnswerSentence]:
    """Yield how many wrong answers each loop gave as done, where they differ. `adopted`: the loops to adopt, if any."""
    text, brief, briefest = claims_in_words(matrix.rows, [matrix.heading(column) for column in matrix.columns], adopted, pairs)
    if text:
        yield AnswerSentence(text, brief, briefest)


def _of_injection(comparison: Comparison) -> Iterator[AnswerSentence]:
    """Yield how exposed loops are to instructions in results."""
    for exposure in exposures(comparison):
        yield AnswerSentence(f"{exposure.sentence}{exposure.defence}", f"{exposure.brief}{exposure.defence}")


def answer_json(comparison: Comparison, known_answer: ComparisonAnswer | None = None) -> dict[str, Any]:
    """Return a comparison's answer, `known_answer` or made here, under stable names.

    `cost` is the mean over suites and profiles, in `unit`, and `costs` has that of each; where profiles are judged by themselves,
    `cost` is None.

    `cost_per_solved` is the mean cost of a trial by the mean accuracy, None where nothing was solved; `crashed` counts trials.
    The place `does not apply` is that of a loop under a profile that was measured of calls in another form. `recommendations` has
    an entry for each profile that is judged by itself, and a single one for profiles that are judged together: the loops to adopt,
    one or another, and the sentence that says so. `recommendation` is the sentence for all of them; None where profiles recommend
    different loops, and where there is no verdict, as of an invalid run or of a single loop. `robust` names the loops that none is
    shown to beat under any profile, where profiles recommend different loops and some other loop is beaten; else it is empty.
    `limits`: the run's own to each trial, in words. `tasks` has an entry for each loop, column and task where tasks are few and
    have repeats: its scored trials, how many were solved and how many went over the run's limit (None where it set none), and their
    mean cost.
    """
    comparison_answer = answer(comparison) if known_answer is None else known_answer
    recommendation = agreed(comparison_answer.verdicts, comparison_answer.answer_sentences)
    headings = [comparison_answer.heading(column) for column in comparison_answer.columns]
    return {
        "recommendation": None if recommendation is None else recommendation.in_full,
        "recommendations": [each.to_json() for each in comparison_answer.verdicts],
        "robust": list(comparison_answer.robust),
        "sentences": list(comparison_answer.sentences),
        "limits": comparison.limits.words or None,
        "margin": comparison.margin,
        "unit": comparison_answer.unit,
        "loops": [_loop(row, headings) for row in comparison_answer.rows],
        "tasks": list(comparison_answer.on_tasks.to_json()),
    }


def _loop(row: AnswerRow, headings: list[str]) -> dict[str, Any]:
    places = {heading: cell.place for heading, cell in zip(headings, row.cells, strict=True) if cell is not None}
    return {
        "loop": row.loop,
        "costs": {heading: interval_json(cost) for heading, cost in zip(headings, row.costs, strict=True)},
        "cost": interval_json(row.cost),
        "cost_per_solved": None if math.isinf(row.solved_cost) else row.solved_cost,
        "crashed": row.crashed,
        "places": places,
    }
