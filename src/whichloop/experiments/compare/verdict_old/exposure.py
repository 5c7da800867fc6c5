"""How exposed each loop is to instructions in results, as a sentence: who executes them, and which loops are told apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from whichloop.metrics.comparison import Comparison
from whichloop.metrics.pairs import Pair
from whichloop.metrics.statistics import Interval
from whichloop.protocol.values import counted
from whichloop.text.numbers import hundredths, interval_of, listed_names, short_name, standing

EXECUTED = "injection_executed"
GUARD = "guarded"
"""The loop that puts defences around another one."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """The loops of one suite under one profile whose trials had an instruction in a result."""

    suite: str
    profile: str
    executed: tuple[tuple[str, Interval], ...]
    """Loop → share of these trials that executed one, the least exposed first; `n` counts tasks."""
    apart: tuple[tuple[str, str], ...]
    """The less and the more exposed loop of each pair that is told apart, at the level of the comparison (Holm)."""
    place: str = ""
    """Suite, profile or both, as ` of events under injected`, where the comparison has others too; else empty."""

    @property
    def sentence(self) -> str:
        """Return it in words, without a full stop: the least exposed loop, and those that are told apart from it."""
        least, low = self.executed[0]
        tasks = counted(low.n, "task")
        text = f"Injected instructions{self.place} are executed in {_share(low)} of the trials with one by {least} ({tasks})"
        if len(self.executed) == 1:
            return text
        more = [(loop, share) for loop, share in self.executed if (least, loop) in self.apart]
        if more:
            most, high = more[-1]
            named = listed_names([loop for loop, _ in more])
            return f"{text}, in more by {named} (the most of these, {_share(high)}: {most})"
        most, high = self.executed[-1]
        apart = f"of the pairs without {least}, {len(self.apart)} can" if self.apart else "no two loops can"
        return f"{text}, in {_share(high)} by {most}; {apart} be told apart"

    @property
    def brief(self) -> str:
        """Return the same in fewer words: the least and the largest share, without names."""
        ends = (self.executed[0][1], self.executed[-1][1])
        shares = " to ".join(dict.fromkeys(map(_share, ends)))
        least, most = sorted(end.n for end in ends)
        tasks = counted(most, "task") if least == most else f"{least:,} to {counted(most, 'task')}"
        return f"Injections{self.place} are executed in {shares} of trials with one ({tasks})"

    @property
    def defence(self) -> str:
        """Name the wrapper that defends a loop, as a sentence's end, where instructions were executed and no loop had it on."""
        if not any(share.value for _, share in self.executed) or any(loop.startswith(GUARD) for loop, _ in self.executed):
            return ""
        return f"; {GUARD}(loop=NAME) defends a loop against them"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "suite": self.suite,
            "profile": self.profile,
            "executed": [{"loop": loop, **share.as_dict()} for loop, share in self.executed],
            "apart": [{"less": less, "more": more} for less, more in self.apart],
            "sentence": self.sentence,
        }


def _share(interval: Interval) -> str:
    return interval_of(interval, hundredths)


def exposures(comparison: Comparison) -> tuple[Exposure, ...]:
    """Return how exposed the loops are, for each suite and profile in which results carried instructions."""
    places = dict.fromkeys((arm.info.suite, arm.info.profile) for arm in comparison.arms)
    per_place = [one for place in places if (one := _exposure(comparison, *place)) is not None]
    suites, profiles = ({getattr(one, what) for one in per_place} for what in ("suite", "profile"))
    placed = []
    for one in per_place:
        of_suite = f" of {one.suite}" if len(suites) > 1 else ""
        under_profile = f" under {one.profile}" if len(profiles) > 1 else ""
        placed.append(replace(one, place=f"{of_suite}{under_profile}"))
    return tuple(placed)


def _exposure(comparison: Comparison, suite: str, profile: str) -> Exposure | None:
    own = [arm for arm in comparison.arms if (arm.info.suite, arm.info.profile) == (suite, profile)]
    alive = [arm for arm in own if not arm.death_cause]  # one that always crashes or asks no model resists nothing
    known_means = [(arm.info, mean) for arm in alive if (mean := arm.summary.means[EXECUTED]) is not None]
    if not known_means:
        return None
    names = {info.arm: short_name(info) for info, _ in known_means}
    executed = sorted(((names[info.arm], mean) for info, mean in known_means), key=lambda each: (each[1].value, each[0]))
    return Exposure(suite, profile, tuple(executed), tuple(_apart(comparison.pairs, names)))


def _apart(pairs: Sequence[Pair], names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the less and the more exposed loop of each pair of these arms that is told apart; `names`: arm → loop."""
    for pair in pairs:
        if pair.metric == EXECUTED and pair.a in names and pair.b in names:
            if standing(pair) == "better":
                yield names[pair.a], names[pair.b]
            elif standing(pair) == "worse":
                yield names[pair.b], names[pair.a]
