"""The verdict in words: which arm has the highest accuracy, how sure that is, and what deciding the rest would take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loopbench.experiments.compare.results import Results
from loopbench.experiments.compare.tables import notes, outlook_in_words
from loopbench.metrics.comparison import ArmResult, Pair
from loopbench.metrics.outlook import Outlook
from loopbench.metrics.statistics import VerdictWord
from loopbench.metrics.summary import PRIMARY
from loopbench.metrics.views import Unit
from loopbench.text.numbers import RELATIONS, dollars, interval, short_name, standing

from .document import Banner, Block, Items, PageSection, Paragraph, under_headings
from .grouping import arms_by_group, group_by

WARNING = "Warning: "
BROKEN = ("This run is invalid", "The test is invalid")
"""Beginnings of notes that the page shows in a banner."""


@dataclass(frozen=True, slots=True)
class Against:
    """Another arm, compared to the one of the highest accuracy."""

    arm: ArmResult
    relation: VerdictWord
    within_margin: bool
    outlook: Outlook | None


def verdict_section(results: Results, conclusions: Sequence[str] | None = None) -> PageSection:
    """Return the first section: the verdict in words, and warnings. `conclusions`: what to say instead of the highest accuracy."""
    comparison = results.comparison
    blocks: list[Block] = [*_banners(results)]
    if conclusions:
        blocks.append(Items(tuple(f"{line}." for line in conclusions), "verdicts"))
    if not comparison.invalid and conclusions is None:
        groups = arms_by_group(comparison.arms)
        blocks += under_headings((name, list(_group_verdict(arms, comparison.pairs))) for name, arms in groups.items())
    blocks.append(plain_notes(notes(comparison)))
    return PageSection("verdict", "Verdict", tuple(blocks))


def warning_banners(invalid: str, warnings: tuple[str, ...]) -> list[Banner]:
    """Return a banner with the warnings, if any. `invalid`: the title for an invalid run, empty for a valid one."""
    if invalid:
        return [Banner(invalid, warnings, "invalid")]
    return [Banner("Keep in mind", warnings)] if warnings else []


def plain_notes(notes: Sequence[str]) -> Items:
    """Return the notes that the page does not show in a banner."""
    return Items(tuple(note for note in notes if not note.startswith((WARNING, *BROKEN))), "quiet")


def _banners(results: Results) -> Iterator[Banner]:
    comparison = results.comparison
    yield from warning_banners(
        "This run is invalid: none of its verdicts holds." if comparison.invalid else "", comparison.warnings
    )
    if not results.is_complete:
        missing = results.scheduled - len(results.records)
        yield Banner("This run is incomplete", (f"{missing} of {results.scheduled} trials have no result yet.",))


def _group_verdict(arms: Sequence[ArmResult], pairs: Sequence[Pair]) -> Iterator[Block]:
    """Yield the verdict on the arms of one suite and profile."""
    scored = [arm for arm in arms if arm.summary.accuracy is not None]
    if not scored:
        yield Paragraph("No trial was scored.")
    for members in compared_groups(scored, pairs):
        yield from _highest(members, pairs)


def compared_groups(arms: Sequence[ArmResult], pairs: Sequence[Pair]) -> list[list[ArmResult]]:
    """Return the arms in groups that pairs on accuracy join, directly or through others: without a common task there is no pair."""
    group = {arm.info.arm: place for place, arm in enumerate(arms)}
    for pair in pairs:
        if pair.metric == PRIMARY and pair.a in group and pair.b in group:
            one, other = sorted((group[pair.a], group[pair.b]))
            group = {arm: one if place == other else place for arm, place in group.items()}
    return list(group_by(arms, lambda arm: group[arm.info.arm]).values())


def _highest(arms: Sequence[ArmResult], pairs: Sequence[Pair]) -> Iterator[Block]:
    """Yield which of some compared arms has the highest accuracy, and how the others compare to it."""
    best = max(arms, key=_accuracy)
    others = comparisons_with(best, arms, pairs)
    name, value = short_name(best.info), interval(best.summary.accuracy, 3)
    if not others:
        yield Paragraph(f"{name}: {value}.", "strong")
        return
    yield Paragraph(f"Highest accuracy: {name}, {value}.", "strong")
    yield Items(tuple(_lines(best, others)), "verdicts")


def _accuracy(arm: ArmResult) -> float:
    return -1.0 if arm.summary.accuracy is None else arm.summary.accuracy.value


def comparisons_with(best: ArmResult, arms: Sequence[ArmResult], pairs: Sequence[Pair]) -> list[Against]:
    """Return how `best` compares on accuracy to each other arm that it was compared with."""
    by_name = {arm.info.arm: arm for arm in arms}
    first = best.info.arm
    own = [pair for pair in pairs if pair.metric == PRIMARY and first in (pair.a, pair.b)]
    return [
        Against(by_name[pair.b if pair.a == first else pair.a], standing(pair, first), pair.verdict.within_margin, pair.outlook)
        for pair in own
    ]


def _lines(best: ArmResult, others: Sequence[Against]) -> Iterator[str]:
    for relation, words in RELATIONS.items():
        names: dict[str, list[str]] = {}
        for other in others:
            if other.relation == relation:
                plan = "" if other.outlook is None else f": {outlook_in_words(other.outlook)}"
                names.setdefault(plan, []).append(_named(other))
        for plan, same in names.items():
            yield f"{words.capitalize()} {', '.join(same)}{plan}."
    yield from _cheapest(best, others)


def _named(other: Against) -> str:
    name = short_name(other.arm.info)
    return f"{name} (within the margin)" if other.within_margin and other.relation in ("better", "worse") else name


def _cheapest(best: ArmResult, others: Sequence[Against]) -> Iterator[str]:
    """Yield which arm costs least, of those that are not shown to be worse, if it is not `best`."""
    rivals = [best, *(other.arm for other in others if other.relation != "better")]
    unit: Unit = "cost_usd" if all(_cost(arm, "cost_usd") for arm in rivals) else "tokens"
    if len(rivals) < 2 or any(_cost(arm, unit) is None for arm in rivals):
        return
    cheapest = min(rivals, key=lambda arm: _cost(arm, unit) or 0.0)
    if cheapest is not best:
        least, most = (_amount(_cost(arm, unit) or 0.0, unit) for arm in (cheapest, best))
        name = short_name(cheapest.info)
        yield f"Among the arms not shown to be less accurate, {name} costs least: {least} per trial, against {most}."


def _cost(arm: ArmResult, unit: Unit) -> float | None:
    mean = arm.summary.means[unit]
    return None if mean is None else mean.value


def _amount(value: float, unit: Unit) -> str:
    return f"${dollars(value)}" if unit == "cost_usd" else f"{value:,.0f} tokens"
