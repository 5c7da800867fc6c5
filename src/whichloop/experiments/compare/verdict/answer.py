"""What a comparison answers: loops × profiles, the best loop first, and which loop to adopt, what is undecided, what is worse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from whichloop.metrics.comparison import Comparison
from whichloop.metrics.pairs import Pair
from whichloop.metrics.statistics import too_few_units
from whichloop.metrics.summary import PRIMARY
from whichloop.metrics.views import AtBudget
from whichloop.text.numbers import short_name

from .air import every_profile
from .basis import basis
from .best_against_others import best_against_others
from .claims import RATE, claims_in_words
from .each_profile import ProfilesVerdict, differ, headline
from .exposure import exposures
from .few_tasks_table import NO_TASKS, FewTasksTable
from .few_tasks_verdict import FewTasksVerdict
from .matrix import AGENT, AnswerMatrix, matrix_of
from .measured_forms import are_mixed, are_of_different_replies, fits_in_words, met_different_faults
from .over_estimates import over_estimates, robust_choice
from .paired import difference_in_words
from .parts import that_apply, under_profile
from .prices import Prices
from .same_loops import same_sentences, without_copies
from .sentence import AnswerSentence
from .ties import tie_breaks
from .tighter import tighter_limits
from .trial_limits import impossible_limit, limits_sentences, suite_limit_sentences
from .unreadable import unreadable_replies
from .verdicts import Verdicts
from .warned import dead_arm_sentences

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
