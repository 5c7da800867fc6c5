"""Which setting of an ablation to use, by one rule: each factor keeps the loop's own value unless another one is shown better.

Better: more accurate under some profile and less under none, or as accurate (equivalent) and shown cheaper. The factor with the
largest effect is decided first; one whose effect is shown to depend on it is decided by what it does at the value chosen there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from statistics import fmean
from typing import Any, Literal

from whichloop.experiments.compare.measured_forms import applies
from whichloop.experiments.compare.verdict import unit_of_cost
from whichloop.metrics.factors.factorial import EFFECT_METRICS, Effect
from whichloop.metrics.factors.layout import Factor
from whichloop.metrics.statistics import VerdictWord
from whichloop.metrics.summary import PRIMARY
from whichloop.protocol.names import Spec, parse_spec, parse_values

from .ablation import AblationResult, setting

Word = Literal[VerdictWord, "mixed", "cheaper", "dearer"]
"""How one value stands to another over all profiles. mixed: better under one, worse under another; cheaper: equivalent, and so."""
OPPOSITE: Mapping[Word, Word] = {"better": "worse", "worse": "better", "cheaper": "dearer", "dearer": "cheaper"}
SHOWN = ("better", "worse")


@dataclass(frozen=True, slots=True)
class Choice:
    """The value of one factor to use."""

    factor: str
    value: str
    own: str | None
    """The loop's own value; None of an option that it requires."""
    against: Mapping[str, Word]
    """Each other value that the effects hold against it → how the chosen one stands to it."""
    is_same: bool
    """Whether its values made no difference at all."""
    tasks: Mapping[str, int | None]
    """Each value against which it is undecided → how many tasks would decide; None where that is not known."""

    def to_json(self) -> dict[str, Any]:
        names = ("factor", "value", "own", "against", "tasks")
        return {**{name: getattr(self, name) for name in names}, "same": self.is_same}


def choices(result: AblationResult) -> tuple[Choice, ...]:
    """Return a choice for each factor, in their order; none where the run is invalid, tells nothing of accuracy, or a profile does
    not apply to a setting."""
    compared = result.results.comparison
    is_known = any(effect.metric == PRIMARY for effect in result.effects)
    if compared.invalid or not is_known or not all(applies(arm.info) for arm in compared.arms):
        return ()
    words: dict[str, Mapping[tuple[str, str], Word]] = {}
    values: dict[str, str] = {}
    for factor in sorted(result.layout.factors, key=lambda factor: -_largest(result, factor)):
        words[factor.name] = _words(result, factor, values)
        values[factor.name] = _value(result, factor, words[factor.name])
    made = []
    for factor in result.layout.factors:
        name, value, is_same = factor.name, values[factor.name], makes_no_difference(result, factor.name)
        against = {b: word for (a, b), word in words[name].items() if a == value}
        undecided = () if is_same else [b for b, word in against.items() if word == "undecided"]
        tasks = {b: _tasks(result, name, values, b) for b in undecided}
        made.append(Choice(name, value, result.own.get(name), against, is_same, tasks))
    return tuple(made)


def setting_to_use(result: AblationResult, chosen: Sequence[Choice]) -> str:
    """Return the loop with the chosen values, those left out that it has anyway: `finish(parse_retries=2)`."""
    spec = parse_spec(result.ablation.loop)
    changed = {choice.factor: parse_values(choice.value)[0] for choice in chosen if result.own.get(choice.factor) != choice.value}
    return str(Spec(spec.name, {**spec.options, **changed}, spec.program))


def makes_no_difference(result: AblationResult, factor: str) -> bool:
    """Whether no two settings that differ in nothing but a factor differ in any mean."""
    groups: dict[tuple[str, ...], list[list[object]]] = {}
    for arm in result.results.comparison.arms:
        others = [value for name, value in result.values(arm.info.arm).items() if name != factor]
        groups.setdefault((setting(arm), *others), []).append([arm.summary.means[metric] for metric in EFFECT_METRICS])
    several = [means for means in groups.values() if len(means) > 1]
    return bool(several) and all(each == means[0] for means in several for each in means)


def _value(result: AblationResult, factor: Factor, words: Mapping[tuple[str, str], Word]) -> str:
    """Return the value to use: the loop's own, or the cheapest that is shown better than it and worse than none."""
    beats = [pair for pair, word in words.items() if word in ("better", "cheaper")]
    own, beaten = result.own.get(factor.name, factor.levels[0]), {b for _, b in beats}
    unbeaten = [value for value in factor.levels if value not in beaten]
    if not beats or own in unbeaten:
        return own
    arms = result.results.comparison.arms
    costs: dict[str, list[float]] = {value: [] for value in factor.levels}
    for arm in arms:
        if (mean := arm.summary.means[unit_of_cost(arms)]) is not None:
            costs[result.values(arm.info.arm)[factor.name]].append(mean.value)
    better = [value for value in unbeaten if (value, own) in beats]
    return min(better or unbeaten or [own], key=lambda value: fmean(costs[value]) if costs.get(value) else math.inf)


def _words(result: AblationResult, factor: Factor, chosen: Mapping[str, str]) -> dict[tuple[str, str], Word]:
    """Return how each value stands to each other one that an effect holds against it."""
    unit, words = unit_of_cost(result.results.comparison.arms), dict[tuple[str, str], Word]()
    for a, b in permutations(factor.levels, 2):
        term = f"{factor.name}: {a} → {b}"
        if standings := {_standing(result, effect, chosen) for effect in _mains(result, term, PRIMARY)}:
            word = _together(standings)
            costs = _together({effect.verdict.word for effect in _mains(result, term, unit)})
            if word == "equivalent" and costs in SHOWN:
                word = "cheaper" if costs == "better" else "dearer"
            words[b, a], words[a, b] = word, OPPOSITE.get(word, word)
    return words


def _together(words: set[VerdictWord]) -> Word:
    """Return the verdict over several profiles."""
    if shown := words & {*SHOWN}:
        return "mixed" if len(shown) > 1 else shown.pop()
    return "equivalent" if words == {"equivalent"} else "undecided"


def _standing(result: AblationResult, effect: Effect, chosen: Mapping[str, str]) -> VerdictWord:
    """Return the verdict on a change, at the value that was chosen for what it is shown to depend on."""
    for other in result.effects:
        if (other.metric, other.profile, other.kind) == (PRIMARY, effect.profile, "interaction") and other.verdict.word in SHOWN:
            for at in other.conditional:
                name, _, value = at.given.partition(" = ")
                if at.change == effect.term and chosen.get(name) == value:
                    return at.verdict.word
    return effect.verdict.word


def _mains(result: AblationResult, term: str, metric: str) -> list[Effect]:
    return [each for each in result.effects if (each.kind, each.term, each.metric) == ("main", term, metric)]


def _largest(result: AblationResult, factor: Factor) -> float:
    """Return the size of a factor's largest effect on accuracy; one that is shown is larger than any that is not."""
    own = [each for each in result.effects if (each.kind, each.factors, each.metric) == ("main", (factor.name,), PRIMARY)]
    return max((abs(each.difference.value) + (each.verdict.word in SHOWN) for each in own), default=0.0)


def _tasks(result: AblationResult, factor: str, values: Mapping[str, str], other: str) -> int | None:
    """Return how many tasks would tell two values apart in the setting to use or, where that did the same with both, elsewhere."""
    compared = result.results.comparison
    here, elsewhere = list[int | None](), list[int | None]()
    for pair in compared.pairs_on(PRIMARY):
        a, b = dict(result.values(pair.a)), dict(result.values(pair.b))
        differ = {a.pop(factor), b.pop(factor)} == {values[factor], other} and a == b
        if differ and not compared.are_same(pair.a, pair.b):
            is_here = a | {factor: values[factor]} == values
            (here if is_here else elsewhere).append(None if pair.outlook is None else pair.outlook.more.tasks)
    return min((tasks for tasks in here or elsewhere if tasks is not None), default=None)
