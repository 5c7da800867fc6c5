"""One run of the five designs and some frameworks through all measures: five sentences that its tables say, and the tables.

`benchmarks/measures.py --block overview` runs it. Sentences are made of the numbers that the tables print, so that a reader of the
tables can make them again. One that names a range names the loops at both ends, and says whether their intervals do not overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from measures_faults import card_table, disclosed, searched, smallest_table

from whichloop.experiments.compare.harness_tables import harness_tables
from whichloop.experiments.compare.results import Results
from whichloop.metrics.statistics import Interval
from whichloop.runs.registry import find
from whichloop.text.numbers import interval
from whichloop.text.table import Table

FRAMEWORKS = ("langchain", "openai_agents", "pydantic_ai")
CLEAN, CROSSED, INJECTED = PROFILES = ("clean", "crossed-calls", "injected")
Column = tuple[str, str]
"""Profile and measure."""
COLUMNS: tuple[Column, ...] = (
    (CLEAN, "retention"),
    (CLEAN, "prefix_stability"),
    (CLEAN, "tokens_with_cache"),
    (CROSSED, "accuracy"),
    (CROSSED, "calls_overlapped"),
    (INJECTED, "injection_executed"),
    (INJECTED, "utility_kept"),
)
DIGITS = 3
Means = Mapping[str, Interval]
"""Loop → mean of one measure, as it is printed."""


def sentences(
    harness: str, means: Mapping[Column, Means], recovered: Mapping[str, tuple[int, int]], alone: Means
) -> tuple[str, str, str, str, str]:
    """Five sentences on the six measures.

    `harness`: the sentence on loops and fault profiles. `recovered`: loop → faults, one at a time, from which it recovers, and
    those that can happen to it. `alone`: the share of its lost trials that one fault alone loses.
    """
    calls = _told(means[CROSSED, "calls_overlapped"], "run too early") + _unknown(means[CROSSED, "calls_overlapped"], recovered)
    executed = _told(means[INJECTED, "injection_executed"], "end in its execution")
    kept = _told(means[CLEAN, "retention"], "are shown")
    repeated = _told(means[CLEAN, "prefix_stability"], "repeat the beginning of an earlier one")
    lost = _told(alone, "are lost with one of their faults alone")
    return (
        harness,
        f"Of the faults that can happen to it, one at a time, {_recovering(recovered)}; of the lost trials searched, {lost}",
        f"Of the trials with an instruction in a result, {executed}",
        f"Of the calls that are made beside what they need done, {calls}",
        f"Of the results that prompts need, {kept}; of the bytes of a trial's later prompts, {repeated}",
    )


def _recovering(recovered: Mapping[str, tuple[int, int]]) -> str:
    """Say from how many faults loops recover at least and at most."""
    shares = {loop: count / faults for loop, (count, faults) in recovered.items()}
    ends = []
    for choose in (min, max):
        share = choose(shares.values())
        loops = [loop for loop in shares if shares[loop] == share]
        counts = dict.fromkeys(f"{recovered[loop][0]} of {recovered[loop][1]}" for loop in loops)
        ends.append(f"{' or '.join(counts)} ({_listed(loops)})")
    return f"a loop recovers, by share, from {ends[0]} to {ends[1]}"


def installed() -> tuple[str, ...]:
    """The frameworks that have an environment on this machine."""
    return tuple(name for name in FRAMEWORKS if _version(name))


def _version(name: str) -> str:
    try:
        return str(find("loop", name)().version)
    except ValueError:
        return ""


def overview(found: Results) -> str:
    """The sentences, and the tables that they are made of."""
    loops = tuple(dict.fromkeys(arm.info.arm.rpartition("/")[0] for arm in found.comparison.arms))
    means = {column: _means(found, column) for column in COLUMNS}
    cards, smallest = disclosed(found), searched(found)
    recovered = {loop: (card.recovered, card.faults) for loop, card in cards.items()}
    alone = {loop: rounded(one.alone) for loop, one in smallest.items() if one.alone is not None}
    said = "\n".join(f"- {sentence}." for sentence in sentences(found.harness[0].sentence, means, recovered, alone))
    (split,) = harness_tables(found.harness)
    folded = (
        ("The harness cards of these loops, side by side", card_table(cards)),
        ("The smallest sets of faults with which their lost trials are still lost", smallest_table(smallest)),
        (split.title, split),
    )
    return "\n\n".join([said, _markdown(_means_table(loops, means)), *(_folded(*each) for each in folded)])


def _folded(title: str, table: Table) -> str:
    return f"<details><summary>{title}</summary>\n\n{_markdown(table)}\n\n</details>"


def _means_table(loops: Sequence[str], means: Mapping[Column, Means]) -> Table:
    rows = [(f"`{loop}`", *(_printed(means[column].get(loop)) for column in COLUMNS)) for loop in loops]
    return Table("", ("loop", *(f"`{name}`, {profile}" for profile, name in COLUMNS)), tuple(rows))


def _printed(mean: Interval | None) -> str:
    return interval(mean, 0 if mean is not None and mean.value > 1 else DIGITS)


def _markdown(table: Table) -> str:
    rows = [table.columns, tuple("---" for _ in table.columns), *table.rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _means(found: Results, column: Column) -> Means:
    """Loop → mean of a measure under a profile, where it is known, with the digits that are printed."""
    profile, measure = column
    arms = [arm for arm in found.comparison.arms if arm.info.profile == profile]
    known = {arm.info.arm.rpartition("/")[0]: arm.summary.means[measure] for arm in arms}
    return {loop: rounded(mean) for loop, mean in known.items() if mean is not None}


def rounded(mean: Interval) -> Interval:
    """The mean with the digits that are printed."""
    return Interval(round(mean.value, DIGITS), round(mean.low, DIGITS), round(mean.high, DIGITS), mean.n)


def _told(means: Means, do: str) -> str:
    """Say of a share where it is lowest and highest, and whether these are told apart."""
    if not means:
        return "nothing is known"
    low, high = (_extreme(means, choose) for choose in (min, max))
    if high[0].value == low[0].value:
        return f"{_percent(high[0])} {do} in every loop of which it is known"
    apart = "exclude each other" if high[0].low > low[0].high else "do not exclude each other"
    ends = f"from {_percent(low[0])} ({_listed(low[1])}) to {_percent(high[0])} ({_listed(high[1])})"
    return f"{ends} {do}, and the intervals {apart}"


def _unknown(means: Means, loops: Collection[str]) -> str:
    """Name the loops of which nothing is known."""
    unknown = [loop for loop in loops if loop not in means]
    return f"; of {_listed(unknown)} nothing is known (–)" if unknown else ""


def _extreme(means: Means, choose: Callable[..., Interval]) -> tuple[Interval, list[str]]:
    """The highest or lowest mean with the loops that have it, and the widest of their intervals."""
    value = choose(means.values(), key=lambda mean: mean.value).value
    ends = {loop: mean for loop, mean in means.items() if mean.value == value}
    low, high = min(mean.low for mean in ends.values()), max(mean.high for mean in ends.values())
    return Interval(value, low, high, min(mean.n for mean in ends.values())), list(ends)


def _percent(share: Interval) -> str:
    return f"{100 * share.value:.0f} % [{100 * share.low:.0f}, {100 * share.high:.0f}]"


def _listed(loops: Sequence[str]) -> str:
    *most, last = (f"`{loop}`" for loop in loops)
    return f"{', '.join(most)} and {last}" if most else last
