"""How many tasks got better and worse, with the causes of the loss, each beside the arm whose cause it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from whichloop.experiments.gate.data.names import short_arm
from whichloop.experiments.gate.data.outcome import PASSES, Became, GateResult, causes_of
from whichloop.metrics.gate import GateLine
from whichloop.metrics.summary import PRIMARY
from whichloop.protocol.values import counted
from whichloop.text.numbers import Name, counts, listed_names

from .decisive import decisive
from .line_words import is_gain

SIDES: tuple[Became, Became] = ("worse", "better")
"""What became of tasks whose score changed."""


def tasks_in_words(result: GateResult) -> tuple[str, ...]:
    """Return how many tasks got worse, with all causes and with the main one, and how many better, where trials have counterparts
    and nothing else counts them: where accuracy decides, where both are, and where tasks only got better in a run that passes. Of
    one that is called unchanged, the arms that pass beside others have theirs, each beside its name.

    Of several arms the causes stand here where they are those of the arm whose estimate leads, or of one arm, which is named then.
    """
    became = Counter(change.became for change in result.tasks)
    worse, better = became["worse"], became["better"]
    if not result.paired or result.outcome in ("better here", "worse here", "unchanged"):
        return ()
    if not worse:
        return (f"{counted(better, result.unit)} better, none worse",) if better and result.outcome == "pass" else ()
    decides = result.outcome in ("regression", "undecided") and PRIMARY in {line.metric for line in decisive(result)}
    if not decides and (not better or any(accuracy_not_held(result))):
        return ()
    lost = counted(worse, f"{result.unit} worse", f"{result.unit}s worse")
    gained = f", {better} better" if better else ""
    return tuple(dict.fromkeys(f"{lost}{causes}{gained}" for causes in _causes_of_all(result)))


def _causes_of_all(result: GateResult) -> tuple[str, ...]:
    """Return the causes of all tasks that got worse, and the main one alone; the arm with them where no estimate of it leads.

    Where tasks of several arms got worse there are none: a cause of one arm would be taken for one of the arm that is named.
    """
    lost_arms = {change.arm for change in result.tasks if change.became == "worse"}
    if len(lost_arms) > 1:
        return ("",)
    leading = {line.arm for line in decisive(result)[:1] if line.metric == PRIMARY and result.outcome not in PASSES}
    where = "" if len(result.arms) == 1 or lost_arms == leading else f" in {listed_names([*map(short_arm, lost_arms)])}"
    return tuple(f"{where}{causes}" for causes in all_and_main(result.causes))


def all_and_main(causes: Mapping[Name, int]) -> tuple[str, str]:
    """Return all causes in words, and the main one alone; each is empty where none is known."""
    return _by(causes), _by(dict([*causes.items()][:1]))


def accuracy_not_held(result: GateResult) -> Iterator[GateLine]:
    """Yield the lines of accuracy that pass or are less than what a run is held to, in arms in which accuracy moved to one side
    only, or is shown to have risen; nothing of a run that passes."""
    if result.outcome not in ("regression", "undecided") or PRIMARY in {line.metric for line in decisive(result)}:
        return
    for line in result.lines:
        change = line.effect.value if line.metric == PRIMARY and line.outcome != result.outcome else 0.0
        if change < 0 or (change > 0 and (is_gain(line) or result.only_gained(line.arm))):
            yield line


def tasks_both_ways(result: GateResult, line: GateLine) -> str:
    """Return how many tasks of an arm got better and how many worse: that first which its accuracy did."""
    became = Counter(change.became for change in result.tasks if change.arm == line.arm)
    first, second = SIDES if line.effect.value < 0 else SIDES[::-1]
    return f"{counted(became[first], 'task')} {first}, {became[second] or 'none'} {second}"


def losses(result: GateResult, lines: Iterable[GateLine]) -> str:
    """Return `2 tasks lost, none gained (altered answer 2)` of the arms of these lines; with the arms where there are others."""
    arms = list(dict.fromkeys(line.arm for line in lines))
    lost = [change for change in result.tasks if change.arm in arms and change.became == "worse"]
    where = f" in {listed_names([short_arm(arm) for arm in arms])}" if len(arms) < len(result.arms) else ""
    unit = "task" if len(arms) == 1 else result.unit
    return f"{counted(len(lost), unit)} lost, none gained{where}{_by(causes_of(lost))}"


def _by(causes: Mapping[Name, int]) -> str:
    return f" ({counts(causes)})" if causes else ""
