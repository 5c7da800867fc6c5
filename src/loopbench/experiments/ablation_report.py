"""What an ablation found, in words and as tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from loopbench.metrics.comparison import Arm
from loopbench.metrics.factorial import Effect
from loopbench.metrics.statistics import Interval
from loopbench.metrics.summary import PRIMARY
from loopbench.protocol.names import value_text

from .ablation import Ablated, ablated, setting
from .compare import Results
from .report import Table, interval, p_value

SHOWN = {"lm_calls": "LM calls", "cost_usd": "USD", "nominal_usd": "USD uncached"}
"""Metrics whose name for people is another."""
DIGITS = {PRIMARY: 3, "tokens": 0, "cost_usd": 5, "nominal_usd": 5}


def effects_tables(found: Results) -> tuple[Table, ...]:
    """Effects on accuracy, interactions, effects on other metrics, cells; none where the run is no ablation. Raises RunError."""
    made = ablated(found)
    return () if made is None else tables(made)


def tables(made: Ablated) -> tuple[Table, ...]:
    """See `effects_tables`."""
    found = (
        _effects(made, "main", "Main effects on accuracy, in points; averaged over the other factors"),
        _effects(made, "interaction", "Interactions on accuracy: what both changes do beyond the sum of each"),
        _others(made),
        _cells(made),
    )
    return tuple(table for table in found if table.rows)


def conclusions(made: Ablated) -> list[str]:
    """A line for each factor under each profile, step by step from value to value; none of a run that is invalid."""
    if made.found.comparison.invalid:
        return []
    said = []
    several = len(_profiles(made)) > 1
    for profile in _profiles(made):
        for name in made.ablation.factors:
            steps = _steps(made, profile, name)
            if steps:
                lines = "; ".join(f"{effect.term.partition(': ')[2]}: {_found(effect)}" for effect in steps)
                said.append(f"{f'{profile}: ' if several else ''}{name} {lines}{_depends(made, profile, name)}")
    return said


def notes(made: Ablated) -> list[str]:
    """What to keep in mind: warnings first."""
    compared, ablation = made.found.comparison, made.ablation
    said = [f"Warning: {warning}" for warning in compared.warnings]
    if compared.invalid:
        said.append("This run is invalid: no effect of it holds.")
    said += made.effects.notes
    said += _design(made)
    said.append(
        f"Brackets are {100 * (1 - compared.alpha):g} % intervals, paired by task; p is a sign-flip test on the tasks' contrasts, "
        f"adjusted over all effects on a metric (Holm); no difference means within {compared.margin:g}, and is shown."
    )
    if ablation.default is not None:
        said.append(f"* is {ablation.loop} as it is without factors.")
    if any(arm.info.model == "scripted" for arm in compared.arms):
        said.append("The model is scripted: intervals speak of tasks and fault draws, not of any real model.")
    return said


def _design(made: Ablated) -> list[str]:
    """What a fraction leaves open."""
    if made.ablation.design == "full":
        return []
    resolution, efficiency = made.ablation.resolution, made.ablation.efficiency
    kind = f"resolution {_ROMAN[resolution]}" if resolution in _ROMAN else f"D-optimal, efficiency {efficiency:.2f}"
    total = math.prod(len(factor.levels) for factor in made.layout.factors)
    said = [
        f"A fraction ({kind}), {len(made.layout.cells)} of {total} cells: interactions of three factors and more are taken to be absent."
    ]
    if made.layout.aliases:
        said.append(f"This fraction knows only the sums of: {'; '.join(made.layout.aliases)}.")
    return said


_ROMAN = {4: "IV", 5: "V", 6: "VI", 7: "VII", 8: "VIII"}


# --- conclusions ---


def _profiles(made: Ablated) -> list[str]:
    return list(dict.fromkeys(effect.profile for effect in made.effects.effects))


def _steps(made: Ablated, profile: str, name: str) -> list[Effect]:
    """From each value to the next."""
    levels = next(factor.levels for factor in made.layout.factors if factor.name == name)
    terms = [f"{name}: {a} → {b}" for a, b in pairwise(levels)]
    known = {effect.term: effect for effect in made.effects.effects if (effect.metric, effect.profile) == (PRIMARY, profile)}
    return [known[term] for term in terms if term in known]


def _found(effect: Effect) -> str:
    """`+0.310 [0.220, 0.400], better`."""
    return f"{signed(effect.difference, 3)}, {_WORDS.get(effect.verdict.word, effect.verdict.word)}{_within(effect)}"


_WORDS = {"equivalent": "no difference", "undecided": "no difference shown"}


def _within(effect: Effect) -> str:
    return ", within the margin" if effect.verdict.within_margin and effect.verdict.word in ("better", "worse") else ""


def _depends(made: Ablated, profile: str, name: str) -> str:
    """The factors on which a factor's effect is shown to depend."""
    others: dict[str, bool] = {}
    for effect in made.effects.effects:
        shown = effect.verdict.word in ("better", "worse") and not effect.verdict.within_margin
        here = (effect.metric, effect.profile, effect.kind) == (PRIMARY, profile, "interaction")
        if shown and here and name in effect.factors:
            (other,) = (factor for factor in effect.factors if factor != name)
            others[other] = others.get(other, False) or not effect.aliases
    sure, open_ = ([other for other, told in others.items() if told is wanted] for wanted in (True, False))
    said = f"; depends on {', '.join(sure)}" if sure else ""
    return said + (f"; may depend on {', '.join(open_)}" if open_ else "")


# --- tables ---


def _effects(made: Ablated, kind: str, title: str) -> Table:
    several = len(_profiles(made)) > 1
    columns = ("effect", *(("profile",) if several else ()), "difference", "tasks", "p", "p (Holm)", "verdict", "odds ratio")
    rows = tuple(
        (
            " = ".join((effect.term, *effect.aliases)),
            *((effect.profile,) if several else ()),
            signed(effect.difference, 3),
            str(effect.difference.n),
            p_value(effect.p),
            p_value(effect.p_holm),
            _verdict(effect),
            interval(effect.odds_ratio, 2),
        )
        for effect in made.effects.effects
        if (effect.metric, effect.kind) == (PRIMARY, kind)
    )
    return Table(title, columns, rows)


def _verdict(effect: Effect) -> str:
    word = effect.verdict.word
    if effect.kind == "main":
        return f"{_WORDS.get(word, word)}{_within(effect)}"
    return {"better": "more than the sum", "worse": "less than the sum", "equivalent": "none", "undecided": "none shown"}[word] + (
        _within(effect)
    )


def _others(made: Ablated) -> Table:
    """Main effects on the other metrics, a column for each that is known."""
    several = len(_profiles(made)) > 1
    mains = {(e.profile, e.term, e.metric): e for e in made.effects.effects if e.kind == "main" and e.metric != PRIMARY}
    metrics = list(dict.fromkeys(metric for _, _, metric in mains))
    columns = ("effect", *(("profile",) if several else ()), *(SHOWN.get(metric, metric) for metric in metrics))
    rows = []
    for profile, term in dict.fromkeys((profile, term) for profile, term, _ in mains):
        found = [mains.get((profile, term, metric)) for metric in metrics]
        cells = [_marked(effect) for effect in found]
        rows.append((term, *((profile,) if several else ()), *cells))
    return Table("Main effects on other metrics (secondary; ! where shown)", columns, tuple(rows))


def _marked(effect: Effect | None) -> str:
    if effect is None:
        return "–"
    shown = effect.verdict.word in ("better", "worse")
    return signed(effect.difference, DIGITS.get(effect.metric, 2)) + (" !" if shown else "")


def signed(found: Interval, digits: int) -> str:
    """`+0.310 [0.220, 0.400]`."""
    text = interval(found, digits)
    return text if text.startswith("-") else f"+{text}"


def _cells(made: Ablated) -> Table:
    arms = made.found.comparison.arms
    several = len({setting(arm) for arm in arms}) > 1
    names = tuple(factor.name for factor in made.layout.factors)
    metrics = [metric for metric in made.ablation.metrics if any(getattr(arm.summary, metric) is not None for arm in arms)]
    columns = ("cell", *names, *(("profile",) if several else ()), "scored", *(SHOWN.get(metric, metric) for metric in metrics))
    rows = tuple(_cell(made, number, arm, metrics, several=several) for number, arm in enumerate(arms, 1))
    return Table("Cells", columns, rows)


def _cell(made: Ablated, number: int, arm: Arm, metrics: Sequence[str], *, several: bool) -> tuple[str, ...]:
    values = made.ablation.cells[arm.info.arm]
    return (
        f"{number}{' *' if values == made.ablation.default else ''}",
        *(value_text(values[factor.name]) for factor in made.layout.factors),
        *((setting(arm),) if several else ()),
        str(arm.summary.scored),
        *(interval(getattr(arm.summary, metric), DIGITS.get(metric, 2)) for metric in metrics),
    )
