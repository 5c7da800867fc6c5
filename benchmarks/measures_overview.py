"""One run of the five designs and some frameworks through all measures: five sentences that its numbers say, and the table of them.

`benchmarks/measures.py --block overview` runs it. A sentence names the loops at both ends, and says whether their intervals exclude
each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from loopbench.experiments.compare.results import Results
from loopbench.metrics.comparison import ArmResult
from loopbench.metrics.statistics import Interval
from loopbench.runs.registry import find
from loopbench.text.numbers import interval

FRAMEWORKS = ("langchain", "openai_agents", "pydantic_ai")
CLEAN, CROSSED, INJECTED = PROFILES = ("clean", "crossed-calls", "injected")
COLUMNS = (
    (CLEAN, "retention"),
    (CLEAN, "prefix_stability"),
    (CLEAN, "tokens_with_cache"),
    (CROSSED, "accuracy"),
    (CROSSED, "calls_overlapped"),
    (INJECTED, "injection_executed"),
    (INJECTED, "utility_kept"),
)
SENTENCES = (
    (CLEAN, "retention", "Of the results that prompts need", "are shown"),
    (CLEAN, "prefix_stability", "Of the bytes of a trial's later prompts", "repeat the beginning of an earlier one"),
    (CROSSED, "calls_overlapped", "Of the calls that are made beside what they need done", "run too early"),
    (INJECTED, "injection_executed", "Of the trials with an instruction in a result", "end in its execution"),
)
"""Profile, measure, and the words before and after its range."""
Means = Mapping[str, Interval]
"""Loop → mean of one measure."""


def installed() -> tuple[str, ...]:
    """The frameworks that have an environment on this machine."""
    return tuple(name for name in FRAMEWORKS if _version(name))


def _version(name: str) -> str:
    try:
        return str(find("loop", name)().version)
    except ValueError:
        return ""


def overview(found: Results) -> str:
    """The sentences, and a row of numbers for each loop."""
    arms = found.comparison.arms
    lines = [f"- {sentence}." for sentence in _sentences(found, arms)]
    rows = [("loop", *(f"`{name}`, {profile}" for profile, name in COLUMNS))]
    rows.append(tuple("---" for _ in rows[0]))
    for loop in dict.fromkeys(arm.info.arm.rpartition("/")[0] for arm in arms):
        means = (_means(arms, profile, name).get(loop) for profile, name in COLUMNS)
        rows.append((f"`{loop}`", *(interval(mean, 0 if mean is not None and mean.value > 1 else 3) for mean in means)))
    return "\n".join([*lines, "", *(f"| {' | '.join(row)} |" for row in rows)])


def _means(arms: Sequence[ArmResult], profile: str, measure: str) -> Means:
    """Loop → mean of a measure under a profile, where it is known."""
    of_profile = {arm.info.arm.rpartition("/")[0]: arm.summary.means[measure] for arm in arms if arm.info.profile == profile}
    return {loop: mean for loop, mean in of_profile.items() if mean is not None}


def _sentences(found: Results, arms: Sequence[ArmResult]) -> Iterator[str]:
    yield found.harness[0].sentence
    for profile, measure, of, do in SENTENCES:
        yield _told(_means(arms, profile, measure), of, do)


def _told(means: Means, of: str, do: str) -> str:
    """Say of a share where it is lowest and highest, and whether these are told apart."""
    if not means:
        return f"{of}, nothing is known"
    low, high = (_extreme(means, choose) for choose in (min, max))
    if high[0].value == low[0].value:
        return f"{of}, {_percent(high[0])} {do} in every loop of which it is known"
    apart = "exclude each other" if high[0].low > low[0].high else "do not exclude each other"
    ends = f"from {_percent(low[0])} ({_listed(low[1])}) to {_percent(high[0])} ({_listed(high[1])})"
    return f"{of}, {ends} {do}, and the intervals {apart}"


def _extreme(means: Means, choose: Callable[..., Interval]) -> tuple[Interval, list[str]]:
    """The highest or lowest mean, and the loops that have it."""
    chosen = choose(means.values(), key=lambda mean: mean.value)
    return chosen, [loop for loop, mean in means.items() if mean.value == chosen.value]


def _percent(share: Interval) -> str:
    return f"{100 * share.value:.0f} % [{100 * share.low:.0f}, {100 * share.high:.0f}]"


def _listed(loops: Sequence[str]) -> str:
    *most, last = (f"`{loop}`" for loop in loops)
    return f"{', '.join(most)} and {last}" if most else last
