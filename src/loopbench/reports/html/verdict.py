"""The verdict in words: which arm has the highest accuracy, how sure that is, and what deciding the rest would take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loopbench.experiments.compare.results import Results
from loopbench.experiments.compare.tables import needed_in_words, notes
from loopbench.metrics.comparison import ArmResult, Comparison, Pair
from loopbench.metrics.power import Needed
from loopbench.metrics.summary import PRIMARY
from loopbench.metrics.views import Unit
from loopbench.text.numbers import RELATIONS, Relation, dollars, interval, short_name, standing

from .charts import grouped
from .document import Banner, Block, Items, PageSection, Paragraph, Subsection

WARNING = "Warning: "
BROKEN = ("This run is invalid", "The test is invalid")
"""What notes begin with that stand in a banner."""


@dataclass(frozen=True, slots=True)
class Against:
    """Another arm, seen from the one of the highest accuracy."""

    arm: ArmResult
    stands: Relation
    within_margin: bool
    needed: Needed | None


def verdict_section(found: Results, conclusions: Sequence[str] | None = None) -> PageSection:
    """Comes first: what holds, in words, and what to keep in mind. `conclusions`: in place of who has the highest accuracy."""
    comparison = found.comparison
    blocks: list[Block] = [*_banners(found)]
    if conclusions:
        blocks.append(Items(tuple(f"{line}." for line in conclusions), "verdicts"))
    groups = {} if comparison.invalid or conclusions is not None else grouped(comparison.arms)
    for name, arms in groups.items():
        said = tuple(_said(arms, comparison))
        blocks += [Subsection(name, said)] if len(groups) > 1 else said
    blocks.append(Items(tuple(_reading(comparison)), "quiet"))
    return PageSection("verdict", "Verdict", tuple(blocks))


def _banners(found: Results) -> Iterator[Banner]:
    comparison = found.comparison
    if comparison.invalid:
        yield Banner("This run is invalid: no verdict of it holds.", comparison.warnings, "invalid")
    elif comparison.warnings:
        yield Banner("Keep in mind", comparison.warnings)
    if not found.is_complete:
        left = found.scheduled - len(found.records)
        yield Banner("This run is incomplete", (f"{left} of {found.scheduled} trials have no result yet.",))


def _reading(comparison: Comparison) -> list[str]:
    """The notes without what stands in a banner."""
    return [note for note in notes(comparison) if not note.startswith((WARNING, *BROKEN))]


def _said(arms: Sequence[ArmResult], comparison: Comparison) -> Iterator[Block]:
    """Of the arms of one suite and profile."""
    known = [arm for arm in arms if arm.summary.accuracy is not None]
    if not known:
        yield Paragraph("No trial was scored.")
    for members in together(known, comparison.pairs):
        yield from _group(members, comparison.pairs)


def together(arms: Sequence[ArmResult], pairs: Sequence[Pair]) -> list[list[ArmResult]]:
    """Arms that pairs on accuracy join, directly or through others: those without a common task are not compared."""
    group = {arm.info.arm: place for place, arm in enumerate(arms)}
    for pair in pairs:
        if pair.metric == PRIMARY and pair.a in group and pair.b in group:
            one, other = sorted((group[pair.a], group[pair.b]))
            group = {arm: one if place == other else place for arm, place in group.items()}
    found: dict[int, list[ArmResult]] = {}
    for arm in arms:
        found.setdefault(group[arm.info.arm], []).append(arm)
    return list(found.values())


def _group(arms: Sequence[ArmResult], pairs: Sequence[Pair]) -> Iterator[Block]:
    """Of scored arms that are compared."""
    best = max(arms, key=_accuracy)
    others = against(best, arms, pairs)
    name, value = short_name(best.info), interval(best.summary.accuracy, 3)
    if not others:
        yield Paragraph(f"{name}: {value}.", "strong")
        return
    yield Paragraph(f"Highest accuracy: {name}, {value}.", "strong")
    yield Items(tuple(_lines(best, others)), "verdicts")


def _accuracy(arm: ArmResult) -> float:
    return -1.0 if arm.summary.accuracy is None else arm.summary.accuracy.value


def against(best: ArmResult, arms: Sequence[ArmResult], pairs: Sequence[Pair]) -> list[Against]:
    """How `best` stands against each other arm that it was compared with, on accuracy."""
    by_name = {arm.info.arm: arm for arm in arms}
    first = best.info.arm
    own = [pair for pair in pairs if pair.metric == PRIMARY and first in (pair.a, pair.b)]
    return [
        Against(by_name[pair.b if pair.a == first else pair.a], standing(pair, first), pair.verdict.within_margin, pair.needed)
        for pair in own
    ]


def _lines(best: ArmResult, others: Sequence[Against]) -> Iterator[str]:
    for stands, said in RELATIONS.items():
        names: dict[str, list[str]] = {}
        for other in others:
            if other.stands == stands:
                plan = "" if other.needed is None else f": {needed_in_words(other.needed)}"
                names.setdefault(plan, []).append(_named(other))
        for plan, same in names.items():
            yield f"{said.capitalize()} {', '.join(same)}{plan}."
    yield from _cheapest(best, others)


def _named(other: Against) -> str:
    name = short_name(other.arm.info)
    return f"{name} (within the margin)" if other.within_margin and other.stands in ("better", "worse") else name


def _cheapest(best: ArmResult, others: Sequence[Against]) -> Iterator[str]:
    """Of the arms that are not shown to be worse, the one that costs least."""
    rivals = [best, *(other.arm for other in others if other.stands != "better")]
    unit: Unit = "cost_usd" if all(_cost(arm, "cost_usd") for arm in rivals) else "tokens"
    if len(rivals) < 2 or any(_cost(arm, unit) is None for arm in rivals):
        return
    cheapest = min(rivals, key=lambda arm: _cost(arm, unit) or 0.0)
    if cheapest is not best:
        least, most = (_amount(_cost(arm, unit) or 0.0, unit) for arm in (cheapest, best))
        yield f"Of those not shown to be less accurate, {short_name(cheapest.info)} costs least: {least} per trial, against {most}."


def _cost(arm: ArmResult, unit: Unit) -> float | None:
    found = arm.summary.means[unit]
    return None if found is None else found.value


def _amount(value: float, unit: Unit) -> str:
    return f"${dollars(value)}" if unit == "cost_usd" else f"{value:,.0f} tokens"
