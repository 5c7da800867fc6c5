"""The results of an ablation as sentences and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from whichloop.experiments.compare.results import MAX_PAIRED
from whichloop.experiments.compare.tables import FAMILY
from whichloop.metrics.comparison import ArmResult
from whichloop.metrics.factors.factorial import Effect
from whichloop.metrics.statistics import Interval
from whichloop.metrics.summary import METRICS, PRIMARY, labels
from whichloop.protocol.names import SCRIPTED, value_text
from whichloop.protocol.values import counted
from whichloop.runs.folders import run_name
from whichloop.text.doc import Table, markdown_page
from whichloop.text.numbers import interval, p_value

from .ablation import AblationResult, is_idle, setting
from .recommendation import recommendation_sentences


def ablation_tables(result: AblationResult) -> tuple[Table, ...]:
    """Return the effects on accuracy, the interactions, the effects on other metrics, and the cells, without empty tables."""
    candidates = (
        _effects(result, "main", "Main effects on accuracy, in points; averaged over the other factors"),
        _effects(result, "interaction", "Interactions on accuracy: what both changes do beyond the sum of each"),
        _secondary(result),
        _cells(result),
    )
    limits = result.results.comparison.limits
    return tuple(replace(table, title=limits.title(table.title)) for table in candidates if table.rows)


def to_markdown(result: AblationResult) -> str:
    """Return the whole result as Markdown for a pull request."""
    return markdown_page(run_name(result.results.folder), ablation_tables(result), (*conclusions(result), *ablation_notes(result)))


def conclusions(result: AblationResult) -> list[str]:
    """Return which setting to use, and what each factor does."""
    return [*recommendation_sentences(result), *effect_lines(result)]


def effect_lines(result: AblationResult) -> list[str]:
    """Return a line per factor and profile, step by step from value to value, each with what it does at each value of a factor that
    it is shown to depend on; none if the run is invalid.

    What depends on another factor is the change from a factor's first value: one that is no step stands behind the steps.
    """
    if result.results.comparison.invalid:
        return []
    texts = []
    many = len(_profiles(result)) > 1
    idle = {factor.name for factor in result.layout.factors if is_idle(result, factor)}
    for profile in _profiles(result):
        for name in result.ablation.factors:
            dependence = _dependence(result, profile, name)
            changes = [
                f"{change.partition(': ')[2]}: {'no mean differs' if name in idle else _effect_text(effect)}{by_value}"
                for change, effect in _changes(result, profile, name).items()
                if (by_value := "".join(dependence.pop(change, {}).values())) or _is_step(result, change, name)
            ]
            if changes:
                unknown = "".join(text for others in dependence.values() for text in others.values())
                texts.append(f"{f'{profile}: ' if many else ''}{name} {'; '.join(changes)}{unknown}")
    return texts


def ablation_notes(result: AblationResult) -> list[str]:
    """Return the caveats, warnings first."""
    compared, ablation = result.results.comparison, result.ablation
    texts = [f"Warning: {warning}" for warning in compared.warnings]
    if compared.invalid:
        texts.append("This run is invalid: no effect of it holds.")
    texts += result.effects.notes
    texts += _design(result)
    texts.append(
        f"p is a sign-flip test on the tasks' contrasts, adjusted over all effects on a metric ({FAMILY}); brackets are intervals "
        "at the level that this leaves the effect, so that they hold 0 unless a difference is shown; equivalent means within "
        f"{compared.margin:g}."
    )
    if ablation.default is not None:
        texts.append(f"* is {ablation.loop} with nothing varied.")
    if len(compared.arms) > MAX_PAIRED:
        texts.append(f"{len(compared.arms)} arms are too many to compare in pairs too.")
    if any(arm.info.model == SCRIPTED for arm in compared.arms):
        texts.append("The model is scripted: intervals speak of tasks and fault draws, not of any real model.")
    return texts


def _design(result: AblationResult) -> list[str]:
    """Return the caveats of a fraction."""
    if result.ablation.design == "full":
        return []
    resolution, efficiency = result.ablation.resolution, result.ablation.efficiency
    kind = f"resolution {_ROMAN[resolution]}" if resolution in _ROMAN else f"D-optimal, efficiency {efficiency:.2f}"
    total = math.prod(len(factor.levels) for factor in result.layout.factors)
    cells = f"{len(result.layout.cells):,} of {counted(total, 'cell')}"
    sentences = [f"A fraction ({kind}), {cells}: interactions of three factors and more are taken to be absent."]
    if result.layout.aliases:
        sentences.append(f"This fraction knows only the sums of: {'; '.join(result.layout.aliases)}.")
    return sentences


_ROMAN = {4: "IV", 5: "V", 6: "VI", 7: "VII", 8: "VIII"}


# --- conclusions ---


def _profiles(result: AblationResult) -> list[str]:
    return list(dict.fromkeys(effect.profile for effect in result.effects.effects))


def _changes(result: AblationResult, profile: str, name: str) -> dict[str, Effect]:
    """Return `on_bad: show → end` → its effect, of all changes of a factor's value, those from each value to the next first."""
    effects = {
        effect.term: effect
        for effect in result.effects.effects
        if (effect.metric, effect.profile, effect.kind, effect.factors) == (PRIMARY, profile, "main", (name,))
    }
    return {term: effects[term] for term in sorted(effects, key=lambda term: not _is_step(result, term, name))}


def _is_step(result: AblationResult, change: str, name: str) -> bool:
    """Whether a change is one from a value to the next."""
    levels = next(factor.levels for factor in result.layout.factors if factor.name == name)
    return change in {f"{name}: {a} → {b}" for a, b in pairwise(levels)}


def _effect_text(effect: Effect) -> str:
    """Return `+0.310 [0.220, 0.400], better`."""
    return f"{signed(effect.difference, 3)}, {effect.verdict.word}{_within(effect)}"


def _within(effect: Effect) -> str:
    return ", within the margin" if effect.verdict.within_margin and is_shown(effect) else ""


def _dependence(result: AblationResult, profile: str, name: str) -> dict[str, dict[str, str]]:
    """Return change of a factor's value → other factor that it is shown to depend on → what it does at each value of that; the
    change is empty where the design tells no effect at each."""
    clauses: dict[str, dict[str, str]] = {}
    for effect in result.effects.effects:
        is_relevant = (effect.metric, effect.profile, effect.kind) == (PRIMARY, profile, "interaction")
        if is_relevant and name in effect.factors and is_shown(effect):
            (other,) = (factor for factor in effect.factors if factor != name)
            matching = [one for one in effect.conditional if one.change.startswith(f"{name}: ")]
            by_value = ", ".join(f"{one.given.partition(' = ')[2]} {one.difference.value:+z.3f}" for one in matching)
            of_change = clauses.setdefault(matching[0].change if matching else "", {})
            of_change.setdefault(other, f"; with {other} {by_value}" if matching else f"; may depend on {other}")
    return clauses


def is_shown(effect: Effect) -> bool:
    """Return whether an effect is shown, in either direction."""
    return effect.verdict.word in ("better", "worse")


# --- tables ---


def _effects(result: AblationResult, kind: str, title: str) -> Table:
    several = len(_profiles(result)) > 1
    columns = ("effect", *(("profile",) if several else ()), "difference", "p (adj.)", "verdict", "odds ratio")
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
"""Verdicts on interactions, by word."""


def _secondary(result: AblationResult) -> Table:
    """Return the main effects on the other metrics, a column for each known one."""
    several = len(_profiles(result)) > 1
    mains = {(e.profile, e.term, e.metric): e for e in result.effects.effects if e.kind == "main" and e.metric != PRIMARY}
    metrics = list(dict.fromkeys(metric for _, _, metric in mains))
    columns = ("effect", *(("profile",) if several else ()), *labels(metrics).values())
    rows = []
    for profile, term in dict.fromkeys((profile, term) for profile, term, _ in mains):
        effects = [mains.get((profile, term, metric)) for metric in metrics]
        cells = [_marked(effect) for effect in effects]
        rows.append((term, *((profile,) if several else ()), *cells))
    return Table("Main effects on other metrics (secondary; ! where shown)", columns, tuple(rows))


def _marked(effect: Effect | None) -> str:
    if effect is None:
        return "–"
    return signed(effect.difference, METRICS[effect.metric].digits) + (" !" if is_shown(effect) else "")


def signed(difference: Interval, digits: int) -> str:
    """Return `+0.310 [0.220, 0.400]`."""
    text = interval(difference, digits)
    number = text.partition(" ")[0]
    return f"+{text}" if number[0].isdigit() and float(number) else text


def _cells(result: AblationResult) -> Table:
    arms = result.results.comparison.arms
    several = len({setting(arm) for arm in arms}) > 1
    names = tuple(factor.name for factor in result.layout.factors)
    metrics = [name for name in result.ablation.metrics if name != PRIMARY and any(arm.summary.means[name] for arm in arms)]
    headings = (PRIMARY, *labels(metrics).values())
    columns = ("cell", *names, *(("profile",) if several else ()), "scored", *headings)
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


def _mean(mean: Interval | None, metric: str) -> str:
    return "–" if mean is None else f"{mean.value:.{METRICS[metric].digits}f}"
