"""What the cards of a run's loops disclose, and the smallest sets of faults with which its lost trials are still lost.

`benchmarks/measures.py` shows both. A card's values are read from the run's manifest and records, from the requests of an
undisturbed run, and from a run with one fault, as `whichloop report --card` reads them. The smallest sets are those of
`whichloop show --minimal`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from whichloop.checks.program import RECOVERED, Outcome, check_program
from whichloop.checks.program.bench import tool_descriptions
from whichloop.checks.program.naming import TOLD_STEPS, agent_name
from whichloop.experiments.card.card import WireUse, wire_uses
from whichloop.experiments.compare.results import Results
from whichloop.experiments.why.minimal import MinimalFaults, SolvedAgainError, minimal_among
from whichloop.experiments.why.replay import Replays, replayable_run
from whichloop.metrics.record import Record
from whichloop.metrics.statistics import Interval, accuracy_interval
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_loop
from whichloop.text.doc import Table
from whichloop.text.numbers import interval

PROFILE = "crossed-calls"
"""The profile whose recovery a card shows."""
MAX_SEARCHED, MAX_RUNS = 12, 60
"""Lost trials of an arm that are searched at most, the first ones, and runs of each."""


@dataclass(frozen=True)
class Disclosed:
    """What a loop's card says."""

    wire: tuple[WireUse, ...]
    requests: int
    outcomes: Mapping[Outcome, int]
    """Outcome → number of faults, one at a time."""
    stops: tuple[str, ...]
    recovery: Interval | None
    """The share of faults that the run's trials recovered from."""

    @property
    def faults(self) -> int:
        """Number of faults that can happen to the loop."""
        return sum(count for outcome, count in self.outcomes.items() if outcome != "not applicable")

    @property
    def recovered(self) -> int:
        return sum(self.outcomes.get(outcome, 0) for outcome in RECOVERED)


@dataclass(frozen=True)
class Searched:
    """What was found in a loop's lost trials."""

    lost: int
    """Lost trials of the run."""
    found: Sequence[tuple[str, MinimalFaults]]
    """Task and smallest set of each trial that was searched."""
    not_again: int
    """Trials that were solved when their faults struck again."""

    @property
    def alone(self) -> Interval | None:
        """The share of these trials that one fault alone loses; trials of one task count together."""
        by_task: dict[str, list[float]] = {}
        for task, one in self.found:
            by_task.setdefault(task, []).append(float(len(one.faults) == 1))
        return accuracy_interval(list(by_task.values())) if by_task else None

    def sizes(self, least: int, most: float) -> int:
        """Number of trials whose smallest set has so many faults."""
        return sum(least <= len(one.faults) <= most for _, one in self.found)

    @property
    def several(self) -> list[MinimalFaults]:
        """Those on which two or more faults landed: of one that landed alone, no other set could be found."""
        return [one for _, one in self.found if len(one.landed) > 1]

    @property
    def kinds(self) -> Counter[str]:
        """The kinds of fault that lose a trial alone, with the number of trials."""
        return Counter(one.faults[0].partition("@")[0] for _, one in self.found if len(one.faults) == 1)


def disclosed(found: Results) -> dict[str, Disclosed]:
    """Loop → what its card says."""
    cards = {}
    for arm in (arm for arm in found.comparison.arms if arm.info.profile == PROFILE):
        name = arm.info.arm.rpartition("/")[0]
        spec = parse_spec(name.partition("@")[0])  # a framework's version stands behind it
        loop = make_loop(spec, TOLD_STEPS)
        check = check_program(loop, agent_name(spec))
        cards[name] = Disclosed(
            wire=wire_uses(check.asked, tool_descriptions("chain")),
            requests=len(check.asked),
            outcomes=Counter(finding.outcome for finding in check.findings),
            stops=tuple(sorted(stop.value for stop in loop.stops)),
            recovery=arm.summary.recovery,
        )
    return cards


def card_table(cards: Mapping[str, Disclosed]) -> Table:
    """The cards side by side."""
    columns = (
        *("loop", "what it asks its model for", "requests, undisturbed", f"recovery, {PROFILE}", "recovers from, one at a time"),
        *("ends as if all were well", "ends, and says so", "has no limit", "can end by"),
    )
    rows = tuple(
        (
            f"`{loop}`",
            "; ".join(map(_asks, card.wire)),
            str(card.requests),
            interval(card.recovery, 3),
            f"{card.recovered} of {card.faults}",
            *(str(card.outcomes.get(outcome, 0)) for outcome in ("silent", "error", "unlimited")),
            ", ".join(card.stops),
        )
        for loop, card in cards.items()
    )
    return Table("", columns, rows)


def _asks(use: WireUse) -> str:
    calls = "no call" if not use.calls_per_reply else f"{use.calls_per_reply} call{'s' * (use.calls_per_reply > 1)}"
    return f"{use.role}: `{use.format}`, {calls}, tools {use.tools}"


def searched(found: Results) -> dict[str, Searched]:
    """Loop → the smallest sets of its lost trials, all in one event loop, so that a framework's process starts once."""
    by_loop: dict[str, list[Record]] = {arm.info.arm.rpartition("/")[0]: [] for arm in found.comparison.arms}
    for record in found.records:
        if record.status == "scored" and record.accuracy < 1:
            by_loop[record.arm.rpartition("/")[0]].append(record)
    run = replayable_run(found.folder)
    made = {}
    with asyncio.Runner() as runner:
        for loop, lost in by_loop.items():
            sets, chosen = [], list(_first(lost))
            for record in chosen:
                try:
                    sets.append((record.task, minimal_among(Replays(run.trial(record), runner), record, MAX_RUNS)))
                except SolvedAgainError:
                    continue
            made[loop] = Searched(len(lost), sets, len(chosen) - len(sets))
    return made


def _first(lost: Sequence[Record]) -> Iterator[Record]:
    """The first lost trials of each arm, in the order of tasks."""
    seen: Counter[str] = Counter()
    for record in sorted(lost, key=lambda record: (record.arm, record.task, record.repeat)):
        seen[record.arm] += 1
        if seen[record.arm] <= MAX_SEARCHED:
            yield record


def smallest_table(searches: Mapping[str, Searched]) -> Table:
    """How many faults the lost trials need, and which kinds lose one alone."""
    columns = (
        *(
            "loop",
            "lost trials",
            "searched",
            "runs",
            "faults that landed, median",
            "lost without any",
            "with one alone",
            "with two",
        ),
        *("with three or more", "smallest is proven", "solved when run again", "two or more landed", "of these with one alone"),
        *("share with one alone", "kinds that suffice alone"),
    )
    rows = []
    for loop, one in searches.items():
        sets = [found for _, found in one.found]
        counts = (sum(found.runs for found in sets), median(len(found.landed) for found in sets) if sets else "–")
        sizes = (one.sizes(0, 0), one.sizes(1, 1), one.sizes(2, 2), one.sizes(3, float("inf")))
        rest = (sum(found.is_smallest for found in sets), one.not_again)
        kinds = ", ".join(f"`{kind}` {count}" for kind, count in one.kinds.most_common()) or "–"
        several = (len(one.several), sum(len(found.faults) == 1 for found in one.several))
        cells = (one.lost, len(sets) + one.not_again, *counts, *sizes, *rest, *several)
        rows.append((f"`{loop}`", *map(str, cells), interval(one.alone, 3), kinds))
    return Table("", columns, tuple(rows))
