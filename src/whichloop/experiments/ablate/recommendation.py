"""Which setting of an ablation to use: value by value, by the effects on accuracy, and what these leave undecided.

Each factor stays at the loop's own value, tried or not, unless an effect shows another value to be better under some profile and
worse under none, or as accurate and cheaper. The factor with the largest effect is decided first; one whose effect is shown to
depend on it is decided by what it does at the value that was chosen there. Of a factor that changed nothing, that is said.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Literal

from whichloop.experiments.compare.measured_forms import applies, fits_in_words
from whichloop.experiments.compare.trial_limits import limits_sentences
from whichloop.experiments.compare.verdict_old.air import STILL
from whichloop.experiments.compare.verdict_old.answer import answer_json
from whichloop.experiments.compare.verdict_old.basis import basis
from whichloop.experiments.compare.verdict_old.matrix import cost_text, unit_of_cost, with_unit
from whichloop.experiments.compare.verdict_old.same_loops import without_copies
from whichloop.experiments.compare.verdict_old.sentence import AnswerSentence, DecidingRun
from whichloop.experiments.compare.verdict_old.undecided import likelier_equivalent, too_few_to_plan
from whichloop.metrics.factors.factorial import Effect
from whichloop.metrics.factors.layout import Factor
from whichloop.metrics.statistics import Interval, VerdictWord, clearance, is_narrow
from whichloop.metrics.summary import PRIMARY
from whichloop.protocol.names import SCRIPTED, Spec, parse_spec, parse_values, value_text
from whichloop.text.numbers import chance_in_words, interval_of, listed_names, tasks_in_words

from .ablation import AblationResult, is_idle, setting, value_texts
from .open_values import OpenValues


def price_in_words(result: AblationResult, factor: str, value: str, instead_of: str) -> str:
    """Return `style=b takes 120 [100, 140] more tokens a trial than a (+49 %)`, for each profile where they differ.

    Empty where no effect tells the two apart in cost. Where costs were not among the metrics of the ablation, the means are told.
    """
    arms = result.results.comparison.arms
    unit, profiles = unit_of_cost(arms), list(dict.fromkeys(map(setting, arms)))
    effects = list(_effects(result, factor, value, instead_of))
    if not effects and unit not in result.ablation.metrics:
        own, other = (mean_cost(result, factor, each, profiles) for each in (value, instead_of))
        written = [with_unit(cost_text(each, unit), unit) for each in (own, other) if math.isfinite(each)]
        return f"{factor}={value} takes {written[0]} a trial, {instead_of} {written[1]}" if len(set(written)) == 2 else ""
    parts = []
    for profile, difference in effects:
        more = "more" if difference.value > 0 else "fewer" if unit == "tokens" else "less"
        size = difference if difference.value > 0 else difference.turned
        ends = {cost_text(end, unit) for end in (size.low, size.high)}
        gap = ends.pop() if len(ends) == 1 else interval_of(size, lambda number: cost_text(number, unit))
        base = mean_cost(result, factor, instead_of, [profile])
        percent = 100 * difference.value / base if math.isfinite(base) and base > 0 else 0.0
        share = f" ({percent:+.{0 if abs(percent) >= 1 else 1}f} %)" if percent else ""
        under = f" under {profile}" if len(profiles) > 1 else ""
        parts.append(f"{with_unit(f'{gap} {more}', unit)} a trial than {instead_of}{share}{under}")
    return f"{factor}={value} takes {', '.join(parts)}" if parts else ""


def _effects(result: AblationResult, factor: str, value: str, instead_of: str) -> Iterator[tuple[str, Interval]]:
    """Yield for each profile where it is shown by how much more one value costs than another."""
    unit = unit_of_cost(result.results.comparison.arms)
    for effect in result.effects.effects:
        if (effect.kind, effect.metric) != ("main", unit) or effect.verdict.word not in ("better", "worse"):
            continue
        if effect.term == f"{factor}: {instead_of} → {value}":
            yield effect.profile, effect.difference
        elif effect.term == f"{factor}: {value} → {instead_of}":
            yield effect.profile, effect.difference.turned


def mean_cost(result: AblationResult, factor: str, value: str, profiles: Sequence[str] = ()) -> float:
    """Return the mean cost of a trial of the settings with a value, under some profiles or all; infinite where it is not known."""
    arms, cells = result.results.comparison.arms, result.ablation.cells
    own = [arm for arm in arms if value_text(cells[arm.info.arm][factor]) == value and (not profiles or setting(arm) in profiles)]
    means = [arm.summary.means[unit_of_cost(arms)] for arm in own]
    values = [mean.value for mean in means if mean is not None]
    return math.fsum(values) / len(values) if values else math.inf


Word = Literal[VerdictWord, "mixed"]
"""How one value stands to another over all profiles; mixed: better under one, and worse under another."""
OPPOSITE: Mapping[Word, Word] = {"better": "worse", "worse": "better"}
SHOWN = ("better", "worse")
NOT_RUN = "This fraction did not run just these values: compare the loop so set with the loop as it was"


@dataclass(frozen=True, slots=True)
class Relation:
    """How one value of a factor stands to another in accuracy."""

    word: Word
    is_close: bool
    """Whether one of the verdicts behind it is narrow."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The value of one factor that is recommended."""

    factor: str
    value: str
    relations: Mapping[str, Relation]
    """Each other value that the effects hold against it → how the chosen one stands to it."""
    saves: str
    """The value that it replaces because it is as accurate and cheaper; empty if that is not why."""
    is_tried: bool
    """Whether some cell has the value: the loop's own one may be none of those that were tried."""
    is_idle: bool
    """Whether its values made no difference at all, in no task."""

    def against(self, *words: Word) -> list[str]:
        """Return the values to which the chosen one stands so."""
        return [value for value, relation in self.relations.items() if relation.word in words]


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A value of each factor, and what follows."""

    choices: tuple[Choice, ...]
    arms: tuple[str, ...]
    """The arms of the cell with these values, one for each profile; empty where a fraction did not run it."""
    sentences: tuple[AnswerSentence, ...]


def recommendation(result: AblationResult) -> Recommendation | None:
    """Return which setting to use; None where the run is invalid, shows no effect yet, or a profile does not apply to a setting."""
    compared = result.results.comparison
    if compared.invalid or not any(effect.metric == PRIMARY for effect in result.effects.effects):
        return None
    if not all(applies(arm.info) for arm in compared.arms):
        return None
    chosen = _Choosing(result).all()
    values = {choice.factor: choice.value for choice in chosen}
    arms = tuple(arm for arm, cell in result.ablation.cells.items() if value_texts(cell) == values)
    not_run = () if arms or not all(choice.is_tried for choice in chosen) else (AnswerSentence(NOT_RUN),)
    shown_profiles = {e.profile for e in result.effects.effects if e.metric == PRIMARY and e.verdict.word in SHOWN}
    before = (*limits_sentences(compared), *basis(without_copies(compared), shown_profiles))
    pairs = OpenValues(result, values)
    unmoved = [AnswerSentence(sentence) for factor in result.layout.factors for sentence in pairs.without_difference(factor)]
    sentences = (*before, AnswerSentence(_sentence(result, chosen, pairs)), *unmoved, *not_run, *_deciding(result, chosen, pairs))
    return Recommendation(chosen, arms, sentences)


def recommendation_sentences(result: AblationResult) -> list[str]:
    """Return what is recommended, in words, and which settings measured profiles apply to; nothing where nothing is to say."""
    return [sentence.in_full for sentence in said_of(result, recommendation(result))]


def said_of(result: AblationResult, recommended: Recommendation | None) -> tuple[AnswerSentence, ...]:
    """Return the sentences of a recommendation, and which settings measured profiles apply to."""
    fits, brief = (
        ("", "") if result.results.comparison.invalid else fits_in_words([arm.info for arm in result.results.comparison.arms])
    )
    return (*(() if recommended is None else recommended.sentences), *([AnswerSentence(fits, brief)] if fits else []))


# --- which value ---


@dataclass(frozen=True, slots=True)
class _Choosing:
    """Decides one factor after the other."""

    result: AblationResult

    def all(self) -> tuple[Choice, ...]:
        """Return a choice for each factor, in their own order."""
        chosen: dict[str, Choice] = {}
        for factor in sorted(self.result.layout.factors, key=lambda factor: -self._largest(factor)):
            chosen[factor.name] = self._choice(factor, chosen)
        return tuple(chosen[factor.name] for factor in self.result.layout.factors)

    def _choice(self, factor: Factor, chosen: Mapping[str, Choice]) -> Choice:
        relations = self._relations(factor, chosen)
        start = start_of(self.result, factor)
        unbeaten = [
            value for value in factor.levels if not any(relations[a, b].word == "better" for a, b in relations if b == value)
        ]
        value, saves = start, ""
        if start not in factor.levels:
            beaten = len(unbeaten) < len(factor.levels)
            value = min(unbeaten, key=lambda each: mean_cost(self.result, factor.name, each)) if beaten and unbeaten else start
        elif start not in unbeaten:
            better = [each for each in unbeaten if (each, start) in relations and relations[each, start].word == "better"]
            value = min(better or unbeaten or [start], key=lambda each: mean_cost(self.result, factor.name, each))
        else:
            equal = [each for each in unbeaten if (each, start) in relations and relations[each, start].word == "equivalent"]
            cheaper = [each for each in equal if self._is_cheaper(factor, each, start)]
            if cheaper:
                value, saves = min(cheaper, key=lambda each: mean_cost(self.result, factor.name, each)), start
        against = {b: relation for (a, b), relation in relations.items() if a == value}
        return Choice(factor.name, value, against, saves, value in factor.levels, is_idle(self.result, factor))

    def _relations(self, factor: Factor, chosen: Mapping[str, Choice]) -> dict[tuple[str, str], Relation]:
        """Return how each value stands to each other one that an effect holds against it."""
        relations: dict[tuple[str, str], Relation] = {}
        for a, b in permutations(factor.levels, 2):
            standings = [self._standing(effect, chosen) for effect in self._mains(f"{factor.name}: {a} → {b}", PRIMARY)]
            if standings:
                word = _together([word for word, _ in standings])
                shown_differences = [difference for own_word, difference in standings if own_word in SHOWN]
                is_close = bool(shown_differences) and is_narrow(max(shown_differences, key=clearance))
                relations[b, a] = Relation(word, is_close)
                relations[a, b] = Relation(OPPOSITE.get(word, word), is_close)
        return relations

    def _standing(self, effect: Effect, chosen: Mapping[str, Choice]) -> tuple[VerdictWord, Interval]:
        """Return the verdict on a change and its size, at the values that were chosen for what it is shown to depend on."""
        for other in self.result.effects.effects:
            if (other.metric, other.profile, other.kind) != (PRIMARY, effect.profile, "interaction"):
                continue
            for at in other.conditional if other.verdict.word in SHOWN else ():
                name, _, value = at.given.partition(" = ")
                if at.change == effect.term and name in chosen and chosen[name].value == value:
                    return at.verdict.word, at.difference
        return effect.verdict.word, effect.difference

    def _mains(self, term: str, metric: str) -> list[Effect]:
        return [each for each in self.result.effects.effects if (each.kind, each.term, each.metric) == ("main", term, metric)]

    def _largest(self, factor: Factor) -> float:
        """Return the size of a factor's largest effect; one that is shown is larger than any that is not."""
        own = [each for each in self.result.effects.effects if each.kind == "main" and each.factors == (factor.name,)]
        sizes = [abs(each.difference.value) + (each.verdict.word in SHOWN) for each in own if each.metric == PRIMARY]
        return max(sizes, default=0.0)

    def _is_cheaper(self, factor: Factor, one: str, other: str) -> bool:
        """Whether an effect shows one value to cost less than another under some profile, and none shows it to cost more."""
        unit = unit_of_cost(self.result.results.comparison.arms)
        words: list[Word] = [effect.verdict.word for effect in self._mains(f"{factor.name}: {other} → {one}", unit)]
        back = [effect.verdict.word for effect in self._mains(f"{factor.name}: {one} → {other}", unit)]
        words += [OPPOSITE.get(word, word) for word in back]
        return "better" in words and "worse" not in words


def start_of(result: AblationResult, factor: Factor) -> str:
    """Return the value of a factor in the loop as typed; the base where that is not known, as of an option that it requires."""
    own = result.ablation.own if result.ablation.default is None else result.ablation.default
    return value_text(own[factor.name]) if factor.name in own else factor.levels[0]


def _together(words: Sequence[VerdictWord]) -> Word:
    """Return the verdict over several profiles."""
    if "better" in words or "worse" in words:
        return "mixed" if "better" in words and "worse" in words else "better" if "better" in words else "worse"
    return "equivalent" if all(word == "equivalent" for word in words) else "undecided"


# --- in words ---


def _sentence(result: AblationResult, chosen: Sequence[Choice], open_values: OpenValues) -> str:
    """Return `Use finish(parse_retries=2): parse_retries=2 is better than 0; undecided: parse_retries=5, forced_finish=xml`."""
    facts = [fact for choice in chosen for fact in _facts(choice)]
    undecided = [
        f"{choice.factor}={value}"
        for choice in chosen
        if not choice.is_idle
        for value in choice.against("undecided")
        if not open_values.are_the_same_here(choice.factor, value)
    ]
    open_ones = [f"undecided against {listed_names(undecided)}"] if undecided else []
    if idle := [choice.factor for choice in chosen if choice.is_idle]:
        open_ones.append(f"{listed_names(idle)} never made a difference here")
    if untried := [f"{choice.factor}={choice.value}" for choice in chosen if not choice.is_tried]:
        has = "is the loop's own value and was" if len(untried) == 1 else "are the loop's own values and were"
        open_ones.append(f"{listed_names(untried)} {has} not tried")
    if _is_still(result):
        open_ones.append(f"{STILL} disturbs nothing: add --profile flaky-format or flaky-tools")
    loop, is_changed = _loop(result, chosen)
    if is_changed:
        return f"Use {loop}: {'; '.join([*facts, *_prices(result, chosen), *open_ones])}"
    return f"Keep {loop} as it is: {'; '.join([*(facts or ['nothing else is shown to be better']), *open_ones])}"


def _is_still(result: AblationResult) -> bool:
    """Whether nothing was disturbed, so that more tasks would hardly show more."""
    return {(arm.info.model, arm.info.profile) for arm in result.results.comparison.arms} == {(SCRIPTED, STILL)}


def _facts(choice: Choice) -> Iterator[str]:
    """Yield what is shown of the chosen value."""
    if choice.is_idle:
        return
    name = f"{choice.factor}={choice.value}"
    if choice.saves:
        yield f"{name} is as accurate as {choice.saves}, and cheaper"
    if better := choice.against("better"):
        narrowly = " narrowly" if any(choice.relations[value].is_close for value in better) else ""
        yield f"{name} is{narrowly} better than {listed_names(better)}"
    if equal := [value for value in choice.against("equivalent") if value != choice.saves]:
        yield f"{name} is equivalent to {listed_names(equal)}"
    if mixed := choice.against("mixed"):
        yield f"{name} is better than {listed_names(mixed)} under some profile, and worse under another"


def _prices(result: AblationResult, chosen: Sequence[Choice]) -> Iterator[str]:
    """Yield what each changed value costs beside the loop's own, or beside one that it beats where its own was not tried."""
    for factor, choice in zip(result.layout.factors, chosen, strict=True):
        own = start_of(result, factor)
        others = [own] if own in factor.levels else choice.against("better")
        if choice.value != own and choice.is_tried and others:
            yield from filter(None, [price_in_words(result, choice.factor, choice.value, others[0])])


def _loop(result: AblationResult, chosen: Sequence[Choice]) -> tuple[str, bool]:
    """Return the loop with the chosen values, those left out that it has anyway, and whether any is left."""
    spec, ablation = parse_spec(result.ablation.loop), result.ablation
    own = value_texts(ablation.own if ablation.default is None else ablation.default)
    changed = {choice.factor: parse_values(choice.value)[0] for choice in chosen if own.get(choice.factor) != choice.value}
    return str(Spec(spec.name, {**spec.options, **changed}, spec.program)), bool(changed)


def _deciding(result: AblationResult, chosen: Sequence[Choice], open_values: OpenValues) -> Iterator[AnswerSentence]:
    """Yield which run is likely to decide soonest between a chosen value and another one, in a setting where the two differ."""
    open_pairs = [
        (pair, choice, value)
        for choice in chosen
        if not choice.is_idle
        for value in choice.against("undecided")
        for pair in open_values.deciding_pairs(choice.factor, value)
        if pair.verdict.word == "undecided"
    ]
    if not open_pairs or _is_still(result):
        return
    if few := too_few_to_plan([pair for pair, _, _ in open_pairs], result.results.comparison.alpha):
        yield AnswerSentence(few)
        return
    plans = [(pair.outlook, pair, choice, value) for pair, choice, value in open_pairs if pair.outlook is not None]
    if not plans:
        return
    outlook, pair, choice, value = min(plans, key=lambda plan: (plan[0].more.tasks, plan[0].more.chance))
    own, other, size = f"{choice.factor}={choice.value}", f"{choice.factor}={value}", outlook.more
    settings = {arm.info.arm: setting(arm) for arm in result.results.comparison.arms}
    under = f" under {settings[pair.a]}" if len({*settings.values()}) > 1 else ""
    alike = likelier_equivalent(pair)
    what = f"decide between {own} and {other}{alike}" if alike else f"tell {own} from {other}"
    run = f"{tasks_in_words(size, outlook)}{under}{open_values.elsewhere(choice.factor, pair)}"
    sentence = f"{run} would {what} (chance about {chance_in_words(size.chance)})"
    yield AnswerSentence(sentence, decides=DecidingRun((pair.a, pair.b), size.tasks, size.chance))


def ablation_answer_json(result: AblationResult) -> dict[str, Any]:
    """Return the answer under the names of a comparison's, where `loops` are the settings; `choices`: the value of each factor.

    `recommendation` is the sentence that says which setting to use; None where nothing is recommended. Costs are means
    over profiles, in `unit`.
    """
    compared, recommended = answer_json(result.results.comparison), recommendation(result)
    sentences = said_of(result, recommended)
    chosen = () if recommended is None else recommended.sentences
    choices = {} if recommended is None else {choice.factor: choice.value for choice in recommended.choices}
    own = {name: value_text(value) for name, value in result.ablation.own.items()}
    return compared | {
        "recommendation": next((each.in_full for each in chosen if not each.is_basis), None),
        "sentences": [each.in_full for each in sentences],
        "choices": [{"factor": name, "value": value, "own": own.get(name)} for name, value in choices.items()],
    }
