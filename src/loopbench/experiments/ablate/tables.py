"""What an ablation found, in words and as tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from loopbench.experiments.compare.results import MAX_PAIRED
from loopbench.metrics.comparison import ArmResult
from loopbench.metrics.factors.factorial import Effect
from loopbench.metrics.statistics import Interval
from loopbench.metrics.summary import METRICS, PRIMARY
from loopbench.protocol.names import value_text
from loopbench.runs.folders import run_name
from loopbench.text.numbers import interval, p_value
from loopbench.text.table import Table, markdown_page

from .ablation import AblationResult, setting


def tables(result: AblationResult) -> tuple[Table, ...]:
    """Return the effects on accuracy, the interactions, the effects on other metrics, and the cells, without empty tables."""
    found = (
        _effects(result, "main", "Main effects on accuracy, in points; averaged over the other factors"),
        _effects(result, "interaction", "Interactions on accuracy: what both changes do beyond the sum of each"),
        _others(result),
        _cells(result),
    )
    return tuple(table for table in found if table.rows)


def to_markdown(result: AblationResult) -> str:
    """All of it, for a pull request."""
    return markdown_page(run_name(result.results.folder), tables(result), (*conclusions(result), *notes(result)))


def conclusions(result: AblationResult) -> list[str]:
    """A line for each factor under each profile, step by step from value to value; none of a run that is invalid."""
    if result.results.comparison.invalid:
        return []
    said = []
    several = len(_profiles(result)) > 1
    for profile in _profiles(result):
        for name in result.ablation.factors:
            steps = _steps(result, profile, name)
            if steps:
                lines = "; ".join(f"{effect.term.partition(': ')[2]}: {_found(effect)}" for effect in steps)
                said.append(f"{f'{profile}: ' if several else ''}{name} {lines}{_depends(result, profile, name, len(steps))}")
    return said


def notes(result: AblationResult) -> list[str]:
    """What to keep in mind: warnings first."""
    compared, ablation = result.results.comparison, result.ablation
    said = [f"Warning: {warning}" for warning in compared.warnings]
    if compared.invalid:
        said.append("This run is invalid: no effect of it holds.")
    said += result.effects.notes
    said += _design(result)
    said.append(
        "p is a sign-flip test on the tasks' contrasts, adjusted over all effects on a metric (Holm); brackets are intervals at "
        "the level that this leaves the effect, so that they hold 0 unless a difference is shown; equivalent means within "
        f"{compared.margin:g}."
    )
    if ablation.default is not None:
        said.append(f"* is {ablation.loop} with nothing varied.")
    if len(compared.arms) > MAX_PAIRED:
        said.append(f"{len(compared.arms)} arms are too many to compare in pairs too.")
    if any(arm.info.model == "scripted" for arm in compared.arms):
        said.append("The model is scripted: intervals speak of tasks and fault draws, not of any real model.")
    return said


def _design(result: AblationResult) -> list[str]:
    """What a fraction leaves open."""
    if result.ablation.design == "full":
        return []
    resolution, efficiency = result.ablation.resolution, result.ablation.efficiency
    kind = f"resolution {_ROMAN[resolution]}" if resolution in _ROMAN else f"D-optimal, efficiency {efficiency:.2f}"
    total = math.prod(len(factor.levels) for factor in result.layout.factors)
    cells = f"{len(result.layout.cells)} of {total} cells"
    said = [f"A fraction ({kind}), {cells}: interactions of three factors and more are taken to be absent."]
    if result.layout.aliases:
        said.append(f"This fraction knows only the sums of: {'; '.join(result.layout.aliases)}.")
    return said


_ROMAN = {4: "IV", 5: "V", 6: "VI", 7: "VII", 8: "VIII"}


# --- conclusions ---


def _profiles(result: AblationResult) -> list[str]:
    return list(dict.fromkeys(effect.profile for effect in result.effects.effects))


def _steps(result: AblationResult, profile: str, name: str) -> list[Effect]:
    """From each value to the next."""
    levels = next(factor.levels for factor in result.layout.factors if factor.name == name)
    terms = [f"{name}: {a} → {b}" for a, b in pairwise(levels)]
    known = {effect.term: effect for effect in result.effects.effects if (effect.metric, effect.profile) == (PRIMARY, profile)}
    return [known[term] for term in terms if term in known]


def _found(effect: Effect) -> str:
    """`+0.310 [0.220, 0.400], better`."""
    return f"{signed(effect.difference, 3)}, {effect.verdict.word}{_within(effect)}"


def _within(effect: Effect) -> str:
    return ", within the margin" if effect.verdict.within_margin and is_shown(effect) else ""


def _depends(result: AblationResult, profile: str, name: str, steps: int) -> str:
    """What a factor's change does at the values of those factors on which it is shown to depend."""
    said: dict[str, str] = {}
    for effect in result.effects.effects:
        here = (effect.metric, effect.profile, effect.kind) == (PRIMARY, profile, "interaction")
        if here and name in effect.factors and is_shown(effect):
            (other,) = (factor for factor in effect.factors if factor != name)
            own = [found for found in effect.conditional if found.change.startswith(f"{name}: ")]
            told = ", ".join(f"{found.given.partition(' = ')[2]} {found.difference.value:+.3f}" for found in own)
            which = f" ({own[0].change.partition(': ')[2]})" if own and steps > 1 else ""
            said.setdefault(other, f"; with {other} {told}{which}" if own else f"; may depend on {other}")
    return "".join(said.values())


def is_shown(effect: Effect) -> bool:
    """Whether it is there, whatever its direction."""
    return effect.verdict.word in ("better", "worse")


# --- tables ---


def _effects(result: AblationResult, kind: str, title: str) -> Table:
    several = len(_profiles(result)) > 1
    columns = ("effect", *(("profile",) if several else ()), "difference", "p (Holm)", "verdict", "odds ratio")
    rows = tuple(
        (
            " = ".join((effect.term, *effect.aliases)),
            *((effect.profile,) if several else ()),
            signed(effect.difference, 3),
            p_value(effect.p_holm),
            _verdict(effect),
            interval(effect.odds_ratio, 2),
        )
        for effect in result.effects.effects
        if (effect.metric, effect.kind) == (PRIMARY, kind)
    )
    return Table(title, columns, rows)


def _verdict(effect: Effect) -> str:
    word = effect.verdict.word
    return f"{_OF_BOTH.get(word, word) if effect.kind == 'interaction' else word}{_within(effect)}"


_OF_BOTH = {"better": "more than the sum", "worse": "less than the sum"}
"""Verdicts on interactions."""


def _others(result: AblationResult) -> Table:
    """Main effects on the other metrics, a column for each that is known."""
    several = len(_profiles(result)) > 1
    mains = {(e.profile, e.term, e.metric): e for e in result.effects.effects if e.kind == "main" and e.metric != PRIMARY}
    metrics = list(dict.fromkeys(metric for _, _, metric in mains))
    columns = ("effect", *(("profile",) if several else ()), *(METRICS[metric].label for metric in metrics))
    rows = []
    for profile, term in dict.fromkeys((profile, term) for profile, term, _ in mains):
        found = [mains.get((profile, term, metric)) for metric in metrics]
        cells = [_marked(effect) for effect in found]
        rows.append((term, *((profile,) if several else ()), *cells))
    return Table("Main effects on other metrics (secondary; ! where shown)", columns, tuple(rows))


def _marked(effect: Effect | None) -> str:
    if effect is None:
        return "–"
    return signed(effect.difference, METRICS[effect.metric].digits) + (" !" if is_shown(effect) else "")


def signed(found: Interval, digits: int) -> str:
    """`+0.310 [0.220, 0.400]`."""
    text = interval(found, digits)
    return text if text.startswith("-") else f"+{text}"


def _cells(result: AblationResult) -> Table:
    arms = result.results.comparison.arms
    several = len({setting(arm) for arm in arms}) > 1
    names = tuple(factor.name for factor in result.layout.factors)
    metrics = [name for name in result.ablation.metrics if name != PRIMARY and any(arm.summary.means[name] for arm in arms)]
    known = (PRIMARY, *(METRICS[metric].label for metric in metrics))
    columns = ("cell", *names, *(("profile",) if several else ()), "scored", *known)
    rows = tuple(_cell(result, number, arm, metrics, several=several) for number, arm in enumerate(arms, 1))
    return Table("Cells", columns, rows)


def _cell(result: AblationResult, number: int, arm: ArmResult, metrics: Sequence[str], *, several: bool) -> tuple[str, ...]:
    values = result.ablation.cells[arm.info.arm]
    return (
        f"{number}{' *' if values == result.ablation.default else ''}",
        *(value_text(values[factor.name]) for factor in result.layout.factors),
        *((setting(arm),) if several else ()),
        str(arm.summary.scored),
        interval(arm.summary.accuracy, METRICS[PRIMARY].digits),
        *(_mean(arm.summary.means[metric], metric) for metric in metrics),
    )


def _mean(found: Interval | None, metric: str) -> str:
    return "–" if found is None else f"{found.value:.{METRICS[metric].digits}f}"
