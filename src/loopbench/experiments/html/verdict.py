"""The verdict in words: which arm is the most accurate, how sure that is, and what deciding the rest would take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from loopbench.experiments.collection import short_name
from loopbench.experiments.compare import Results
from loopbench.experiments.report import interval, notes
from loopbench.metrics.comparison import Arm, Comparison, Pair
from loopbench.metrics.power import Needed
from loopbench.metrics.statistics import VerdictWord
from loopbench.metrics.summary import PRIMARY
from loopbench.metrics.views import Unit

from .charts import grouped
from .document import Banner, Block, Items, Paragraph, Part, Section

Word = Literal["better", "equivalent", "tied", "undecided", "worse"]
_SAID: dict[Word, str] = {
    "better": "Better than",
    "equivalent": "Equivalent to",
    "tied": "Tied with",
    "undecided": "Undecided against",
    "worse": "Worse than",
}
WARNING = "Warning: "
BROKEN = ("This run is invalid", "The test is invalid")
"""What notes begin with that stand in a banner."""
_TURNED: dict[VerdictWord, VerdictWord] = {"better": "worse", "worse": "better"}


@dataclass(frozen=True, slots=True)
class Against:
    """Another arm, seen from the most accurate one."""

    arm: Arm
    word: Word
    within_margin: bool
    needed: Needed | None


def verdict_section(found: Results) -> Section:
    """Comes first: what holds, in words, and what to keep in mind."""
    comparison = found.comparison
    blocks: list[Block] = [*_banners(found)]
    groups = grouped(comparison.arms)
    for name, arms in groups.items():
        said = tuple(_group(arms, comparison))
        blocks += [Part(name, said)] if len(groups) > 1 else said
    blocks.append(Items(tuple(_reading(comparison)), "quiet"))
    return Section("verdict", "Verdict", tuple(blocks))


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


def _group(arms: Sequence[Arm], comparison: Comparison) -> Iterator[Block]:
    known = [arm for arm in arms if arm.summary.accuracy is not None]
    if not known:
        yield Paragraph("No trial was scored.")
        return
    best = max(known, key=_accuracy)
    others = [] if comparison.invalid else against(best, known, comparison.pairs)
    said = f"{interval(best.summary.accuracy, 3)} of the tasks solved" if not others else interval(best.summary.accuracy, 3)
    yield Paragraph(f"{short_name(best.info)}{' is the most accurate' if others else ''}: {said}.", "strong")
    if others:
        yield Items(tuple(_lines(best, others)), "verdicts")


def _accuracy(arm: Arm) -> float:
    return -1.0 if arm.summary.accuracy is None else arm.summary.accuracy.value


def against(best: Arm, arms: Sequence[Arm], pairs: Sequence[Pair]) -> list[Against]:
    """How `best` stands against each other arm that it was compared with, on accuracy."""
    by_name = {arm.info.arm: arm for arm in arms}
    found = []
    for pair in pairs:
        if pair.metric != PRIMARY or best.info.arm not in (pair.a, pair.b):
            continue
        turned = pair.b == best.info.arm
        word = _TURNED.get(pair.verdict.word, pair.verdict.word) if turned else pair.verdict.word
        other = by_name[pair.a if turned else pair.b]
        is_tie = word == "undecided" and _accuracy(best) == _accuracy(other)
        found.append(Against(other, "tied" if is_tie else word, pair.verdict.within_margin, pair.needed))
    return found


def _lines(best: Arm, others: Sequence[Against]) -> Iterator[str]:
    for word, said in _SAID.items():
        names = [_named(other) for other in others if other.word == word and other.needed is None]
        if names:
            yield f"{said} {', '.join(names)}."
        for other in others:
            if other.word == word and other.needed is not None:
                yield f"{said} {short_name(other.arm.info)}; to decide it takes {needed_in_words(other.needed)}."
    yield from _cheapest(best, others)


def _named(other: Against) -> str:
    name = short_name(other.arm.info)
    return f"{name} (within the margin)" if other.within_margin and other.word in ("better", "worse") else name


def needed_in_words(needed: Needed) -> str:
    """`about 412 tasks × 1 (824 trials, $3.10) to show a difference`."""
    cost = "" if needed.cost_usd is None else f", ${needed.cost_usd:,.2f}"
    goal = "a difference" if needed.to_show == "difference" else "equivalence"
    return f"about {needed.tasks:,} tasks × {needed.repeats} ({needed.trials:,} trials{cost}) to show {goal}"


def _cheapest(best: Arm, others: Sequence[Against]) -> Iterator[str]:
    """Of the arms that are not shown to be worse, the one that costs least."""
    rivals = [best, *(other.arm for other in others if other.word != "better")]
    unit: Unit = "cost_usd" if all(_cost(arm, "cost_usd") for arm in rivals) else "tokens"
    if len(rivals) < 2 or any(_cost(arm, unit) is None for arm in rivals):
        return
    cheapest = min(rivals, key=lambda arm: _cost(arm, unit) or 0.0)
    if cheapest is not best:
        least, most = (_amount(_cost(arm, unit) or 0.0, unit) for arm in (cheapest, best))
        yield f"Of those not shown to be less accurate, {short_name(cheapest.info)} costs least: {least} per trial, against {most}."


def _cost(arm: Arm, unit: Unit) -> float | None:
    found = arm.summary.cost_usd if unit == "cost_usd" else arm.summary.tokens
    return None if found is None else found.value


def _amount(value: float, unit: Unit) -> str:
    return f"${value:,.4f}" if unit == "cost_usd" else f"{value:,.0f} tokens"
