"""What `whichloop why` prints, and `run.why()` shows in Python: the losses of a run and their causes, as lines."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from whichloop.experiments.compare.results import Results
from whichloop.experiments.why.arms import (
    counts_in_words,
    errored_in_words,
    grades_in_words,
    how_they_ended,
    shares_in_words,
    untraced_in_words,
)
from whichloop.experiments.why.base_rates import BaseRates, doubts_in_words, split_by_doubt
from whichloop.experiments.why.remedies import ProposedAblation, ablation_of
from whichloop.experiments.why.why import ArmLosses, Kinds, LostTrial, PairLosses, Why, copies
from whichloop.metrics.arm_info import IMPORTED
from whichloop.metrics.comparison import Comparison
from whichloop.metrics.summary import PRIMARY
from whichloop.metrics.tasks import GroupFindings, Kind
from whichloop.metrics.trajectory.causes import Cause
from whichloop.protocol.values import counted
from whichloop.text.doc import Table
from whichloop.text.numbers import interval, relation
from whichloop.text.output import UNBROKEN, OutputLine, Prose, prose_lines

Shown = OutputLine | Prose | Table

MIN_PAIRS = 3
"""If there are more pairs, each is shown in short, with one example in all."""
MAX_EXAMPLES = 3
"""Examples of each cause, unless all are shown."""
MAX_CAUSES = 2
"""Causes of which the sums show an example: those that lost most. The others take one line, so that a screen has room for all."""
UNKNOWN = "–"
SCREEN, WIDTH = 24, 80
"""Lines and columns of a usual terminal, which the sums keep to."""
MIN_ARMS = 3
"""Arms whose losses are told whatever else stands on the screen."""
MAX_TASKS = 6
"""Number of tasks that a line names."""

STILL = "clean"


def _not_applicable(infos: object) -> str:
    return ""


BESIDE = (
    "A pair counts only trials that the other arm solved, and explains them by where the two part; the sums explain every lost "
    "trial by itself, so that the same trial may have another cause there."
)
"""Why the counts of a pair and the sums may differ."""


@dataclass(frozen=True, slots=True)
class WaysToSeeMore:
    """The commands that show more of the losses of a run in one directory."""

    folder: Path

    @property
    def choices(self) -> str:
        """What shows one arm, or two."""
        one = f"whichloop why {shlex.quote(str(self.folder))} ARM"
        return f"One arm: {one}; two arms where they part: A B; every pair, and tasks: -v"

    def show(self, trial: str) -> str:
        """Return what shows one trial. `trial`: ARM/TASK/REPEAT."""
        return shlex.join(["whichloop", "show", str(self.folder), trial])

    def why(self, a: str, b: str) -> str:
        """Return what shows where two arms part."""
        return shlex.join(["whichloop", "why", str(self.folder), a, b])


def sums(run: Results, reasons: Why, ways: WaysToSeeMore, *, in_full: bool = False) -> Iterator[Shown]:
    """Yield how many trials each arm lost to each cause, the arm that lost most first, and an example of each frequent cause.

    An arm that did the same as another in every trial is told as such, and its losses are counted once. Of many arms those that
    lost most are told, as many as a screen has room for. `in_full`: all arms and of each cause, those in doubt too, and without the
    ways to see more.
    """
    lost = sorted((arm for arm in reasons.arms if arm.lost), key=lambda arm: -arm.lost / arm.trials)
    head: list[Shown] = [OutputLine(run.title, "bold")]
    if len(reasons.pairs) == 1:
        head += _only_pair(run.comparison, reasons, ways)
    if not lost:
        head.append(OutputLine("No scored trial was lost." if any(arm.trials for arm in reasons.arms) else "No trial was scored."))
    head += _strangers(run, {arm.arm for arm in lost})
    same = copies(run)
    told = [_losses_of(arm, same) for arm in lost]
    counted_once = [arm for arm in lost if same.get(arm.arm) not in {each.arm for each in lost}]
    causes: list[Shown] = []
    for most in (None,) if in_full else (MAX_CAUSES, 1):
        causes = list(_summed_causes(run, reasons, counted_once, ways, most))
        room = SCREEN - sum(map(_height, [*head, *causes]))
        if in_full or sum(map(_height, told[:MIN_ARMS])) < room:
            break
    shown = told if in_full or sum(map(_height, told)) <= room else _first_within(told, room - 1)
    yield from head
    yield from shown
    if rest := lost[len(shown) :]:
        some = f"{sum(arm.lost for arm in rest)} of {counted(sum(arm.trials for arm in rest), 'trial')}"
        yield Prose(f"{counted(len(rest), 'more arm')} lost {some}: -v", "dim")
    yield from causes


def _losses_of(arm: ArmLosses, same: Mapping[str, str]) -> Prose:
    """Return how many trials an arm lost to each cause. `same`: arm → the other one that did the same in every trial."""
    losses = "; ".join(filter(None, [_counts(arm.causes, arm.kinds, arm.base_rates), how_they_ended(arm)]))
    if arm.arm in same:
        clause = f", as it did the same as {same[arm.arm]} in every trial"
    elif losses:
        clause = f": {losses}"
    else:
        clause = ""
    return Prose(f"{arm.arm} lost {arm.lost} of {arm.trials}{clause}", hanging="  ")


def _first_within(told: Sequence[Prose], room: int) -> Sequence[Prose]:
    """Return the first arms that have so many lines in all, and `MIN_ARMS` in any case."""
    heights = list(accumulate(map(_height, told)))
    return told[: max(MIN_ARMS, sum(height <= room for height in heights))]


def _height(shown: Shown) -> int:
    """Return how many lines of a usual terminal something takes."""
    if isinstance(shown, Table):
        return len(shown.rows) + 2
    if isinstance(shown, OutputLine):
        return sum(max(1, -(-len(line) // WIDTH)) for line in shown.text.split("\n"))
    return max(1, len(prose_lines(shown, WIDTH)))


def _summed_causes(run: Results, reasons: Why, lost: Sequence[ArmLosses], ways: WaysToSeeMore, most: int | None) -> Iterator[Shown]:
    """Yield an example of the most frequent causes, the other causes, and what traces do not tell. `most`: causes; None: all."""
    total: Counter[Cause] = Counter()
    for arm in lost:
        total.update(arm.causes)
    shown_causes = [cause for cause, _ in total.most_common() if most is None or any(_stands(arm, cause) for arm in lost)]
    shown_causes = shown_causes[:most]
    if shown_causes:
        yield OutputLine("")
    for cause in shown_causes:
        yield from _sum_of(cause, lost, run, ways)
    if others := [f"{cause} {many}" for cause, many in total.most_common() if cause not in shown_causes]:
        yield Prose(f"other causes: {', '.join(others)}; examples: -v", "dim")
    if reasons.untraced:
        yield from _untraced(run, reasons)
    if reasons.untraced and not total:
        for group in reasons.findings.groups:
            yield from _kinds(group, show_all=False)
    if most is not None:
        yield Prose(ways.choices, "dim")


def _strangers(run: Results, arms: Collection[str]) -> Iterator[Shown]:
    """Yield to which of these arms' loops their profile does not apply, so that what they lost under it says nothing of them."""
    if clause := _not_applicable([arm.info for arm in run.comparison.arms if arm.info.arm in arms]):
        yield Prose(f"{clause}.", "yellow")


def _counts(causes: Mapping[Cause, int], kinds: Kinds, rates: BaseRates) -> str:
    """Return how many trials each cause lost, and then those that are not shown to be one.

    No line breaks between a cause, or a kind of fault, and its number.
    """
    standing, _ = split_by_doubt(causes, rates)
    counts = ", ".join(counts_in_words(standing, kinds)).replace(" ", UNBROKEN)
    counts = counts.replace(f",{UNBROKEN}", ", ").replace(f"{UNBROKEN}(", " (")
    return "; ".join(filter(None, [counts, *doubts_in_words(causes, rates)]))


def _sum_of(cause: Cause, lost: Sequence[ArmLosses], run: Results, ways: WaysToSeeMore) -> Iterator[Shown]:
    """Yield what one cause lost to all arms: its kinds of fault, an example of the commonest one, and what may help.

    Where solved trials of every arm show it as often, only an example of it.
    """
    sure = [arm for arm in lost if _stands(arm, cause)]
    doubted = [arm for arm in lost if cause in arm.causes and arm not in sure]
    kinds: Counter[str] = Counter()
    for each in sure or doubted:
        kinds.update(each.kinds[cause])
    main = max(kinds, key=lambda fault: (kinds[fault], fault))
    examples = [(arm, each) for arm in sure or doubted for each in arm.examples if each.loss.cause == cause]
    # An example that other arms solved tells most.
    arm, example = max(examples, key=lambda run: (run[1].loss.fault == main, run[1].solved_by))
    yield Prose(_headline(cause, sum(each.causes[cause] for each in sure), kinds), "bold", hanging="  ")
    yield Prose(f"in one, step {example.loss.step}: {example.loss.detail}{_others(example)}", indent="  ")
    yield OutputLine(f"  {ways.show(f'{arm.arm}/{example.task}/{example.repeat}')}", "dim")
    info = next(each.info for each in run.comparison.arms if each.info.arm == arm.arm)
    if sure and (remedy := ablation_of(info, cause, run.manifest.settings, example.loss.fault)):
        yield from _remedy(remedy, arm, lost, ways)


def _stands(arm: ArmLosses, cause: Cause) -> bool:
    """Return whether an arm lost trials to a cause, and solved trials do not show it as often."""
    return cause in split_by_doubt(arm.causes, arm.base_rates)[0]


def _headline(cause: Cause, many: int, kinds: Counter[str]) -> str:
    """Return how many trials a cause lost, and by which kinds of fault; of none that solved trials show it as often."""
    if not many:
        return f"{cause} is not shown to be a cause: solved trials show it, too"
    shares = shares_in_words(dict(kinds.most_common())) if len(kinds) > 1 else ""
    return f"{cause} lost {counted(many, 'trial')}{f': {shares}' if shares else ''}"


def _remedy(remedy: ProposedAblation, arm: ArmLosses, lost: Sequence[ArmLosses], ways: WaysToSeeMore) -> Iterator[Shown]:
    """Yield the run that measures what may help; of a cure that is in the run, what it lost."""
    cured = next((each for each in lost if each.arm == f"{remedy.cure}/{remedy.profile}"), None)
    if cured is not None:
        numbers = f"{cured.arm} lost {cured.lost} of {cured.trials}, {arm.arm} {arm.lost} of {arm.trials}"
        yield Prose(f"{remedy.cure} reads such replies: {numbers}", "dim", indent="  ")
        yield OutputLine(f"  where the two part: {ways.why(arm.arm, cured.arm)}", "dim")
        return
    asks = f"{remedy.cure} reads such replies; whether that helps" if remedy.cure else "whether an option helps"
    yield OutputLine(f"  {asks}: {remedy.command}", "dim")


def _only_pair(comparison: Comparison, reasons: Why, ways: WaysToSeeMore) -> Iterator[Shown]:
    """Yield how the two arms of a run stand to each other: in accuracy, in trials, and what each lost that the other solved.

    The lost trials have the causes that the sums below give them, so that each has one name on the screen.
    """
    (pair,) = reasons.pairs
    rates = {arm.arm: arm.base_rates for arm in reasons.arms}
    for tested in () if comparison.invalid else comparison.pairs:
        if tested.metric == PRIMARY:
            better = tested if tested.difference.value >= 0 else tested.turned
            gap = f"{interval(better.difference, 3)} over {counted(better.difference.n, 'task')}"
            yield Prose(f"{better.a} is {relation(better)} {better.b}: accuracy differs by {gap}", "bold")
    trials = pair.both + pair.neither + pair.only_a + pair.only_b
    yield Prose(f"{counted(trials, 'trial')} of both: {pair.counts}")
    for loser, winner, many in ((pair.a, pair.b, pair.only_b), (pair.b, pair.a, pair.only_a)):
        standing, doubted = split_by_doubt(pair.own_causes[loser], rates.get(loser, {}))
        losses = [_counts(standing, pair.own_kinds[loser], {}), f"in doubt: {_counts(doubted, {}, {})}" if doubted else ""]
        if causes := "; ".join(filter(None, losses)):
            yield Prose(f"where {winner} solved and {loser} lost {many}: {causes}", hanging="  ")
    yield OutputLine(f"{'with examples' if pair.divergences else 'task by task'}: {ways.why(pair.a, pair.b)}", "dim")
    yield OutputLine("")


def in_full(run: Results, reasons: Why, ways: WaysToSeeMore, *, show_all: bool) -> Iterator[Shown]:
    """Yield the sums, and below them the pairs, or the arms if there are no pairs, and the tasks."""
    yield from sums(run, reasons, ways, in_full=True)
    yield from _explained(reasons, ways, show_all=show_all)
    for group in reasons.findings.groups:
        yield from _group(group, show_all=show_all)


def why_lines_of(run: Results, reasons: Why, ways: WaysToSeeMore, *, show_all: bool, with_tasks: bool) -> Iterator[Shown]:
    """Yield the pairs, or the arms if there are no pairs, and then what is notable about the tasks, or how to see it."""
    yield OutputLine(run.title, "bold")
    yield from _strangers(run, {arm.arm for arm in reasons.arms} | {arm for pair in reasons.pairs for arm in (pair.a, pair.b)})
    yield from _explained(reasons, ways, show_all=show_all)
    if reasons.untraced:
        yield from _untraced(run, reasons)
    for group in reasons.findings.groups if with_tasks else ():
        yield from _group(group, show_all=show_all)
    if not with_tasks:
        yield OutputLine("\nTasks that one arm alone solved, or none, and false successes: -v", "dim")


def _explained(reasons: Why, ways: WaysToSeeMore, *, show_all: bool) -> Iterator[Shown]:
    """Yield the pairs, or the arms if there are no pairs."""
    in_short = len(reasons.pairs) > MIN_PAIRS and not show_all
    rates = {arm.arm: arm.base_rates for arm in reasons.arms}
    for pair in reasons.pairs:
        yield from _pair(ways, pair, rates, in_short=in_short, show_all=show_all)
    if any(pair.divergences for pair in reasons.pairs):
        yield OutputLine("")
        yield Prose(BESIDE, "dim")
    alone = reasons.is_unparted and any(arm.causes for arm in reasons.arms)
    if alone:
        yield OutputLine("\nTrials that were solved have no trace to hold the lost ones against: each by itself", "yellow")
    for arm in reasons.arms if alone or not reasons.pairs else ():
        examples = [
            _Example(each.loss.cause, arm.arm, each.task, each.repeat, each.loss.step, each.loss.detail)
            for each in (arm.examples if show_all else _telling(arm))
        ]
        yield OutputLine(f"\n{arm.arm}", "bold")
        lost = _LostTo(f"lost {arm.lost} of {counted(arm.trials, 'trial')}", arm.causes, arm.kinds, arm.base_rates)
        yield from _causes(ways, lost, examples, in_short=False)
        if how := how_they_ended(arm):
            yield Prose(f"without a trace: {how}", indent="  ")
    if in_short:
        yield OutputLine(f"\nEach cause with examples: {ways.why('A', 'B')}", "dim")


def lost(arm: str, trial: LostTrial, ways: WaysToSeeMore) -> Iterator[Shown]:
    yield OutputLine(f"{arm}/{trial.task}/{trial.repeat}: {trial.loss.cause}", "bold")
    yield Prose(f"step {trial.loss.step}: {trial.loss.detail}{_others(trial)}", indent="  ")
    yield OutputLine(f"  {ways.show(f'{arm}/{trial.task}/{trial.repeat}')}", "dim")


@dataclass(frozen=True, slots=True)
class _Example:
    cause: Cause
    arm: str
    task: str
    repeat: int
    step: int
    detail: str
    parts_at: int | None = None
    """The step at which the trial parts from the one that it is held against, if it is."""

    @property
    def parted(self) -> str:
        """Where the two trials part, if that is not the step of the cause."""
        return "" if self.parts_at in (None, self.step) else f" (they part at step {self.parts_at})"


def _pair(
    ways: WaysToSeeMore, pair: PairLosses, rates: Mapping[str, BaseRates], *, in_short: bool, show_all: bool
) -> Iterator[Shown]:
    trials = pair.both + pair.neither + pair.only_a + pair.only_b
    parted = f"; they part on {counted(pair.tasks, 'task')}" if pair.tasks else ""
    yield OutputLine(f"\n{pair.a} against {pair.b}", "bold")
    yield Prose(f"{counted(trials, 'trial')}: {pair.counts}{parted}")
    for loser, many in ((pair.a, pair.only_b), (pair.b, pair.only_a)):
        if many:
            mine = [each for each in pair.divergences if each.loser == loser]
            if not show_all:
                mine = [each for cause in pair.causes[loser] for each in [one for one in mine if one.cause == cause][:MAX_EXAMPLES]]
            examples = [_Example(each.cause, loser, each.task, each.repeat, each.step, each.detail, each.parts_at) for each in mine]
            lost = _LostTo(f"{loser} lost {many}", pair.causes[loser], pair.kinds[loser], rates.get(loser, {}))
            yield from _causes(ways, lost, examples, in_short=in_short)


@dataclass(frozen=True, slots=True)
class _LostTo:
    """What an arm lost trials to, in sum."""

    many: str
    """How many trials it lost, in words."""
    causes: Mapping[Cause, int]
    kinds: Kinds
    rates: BaseRates
    """Of all trials of the arm, whoever else solved them."""

    @property
    def head(self) -> str:
        """The number of trials, and by cause."""
        counts = _counts(self.causes, self.kinds, self.rates)
        return f"{self.many}: {counts}" if counts else self.many

    def heading(self, cause: Cause, shown_trials: int) -> str:
        """Return a cause, how many of its trials are shown where it is not all of them, and how many solved trials show it."""
        many = self.causes[cause]
        first = f" (first {shown_trials} of {many}; all: --all)" if shown_trials < many else ""
        return f"{cause}{first}{f'; of all its trials: {self.rates[cause].in_short}' if cause in self.rates else ''}"


def _causes(ways: WaysToSeeMore, lost: _LostTo, examples: Sequence[_Example], *, in_short: bool) -> Iterator[Shown]:
    yield Prose(lost.head, hanging="  ")
    last: Cause | None = None
    for example in examples[:1] if in_short else examples:
        if example.cause != last and not in_short:
            shown_trials = sum(each.cause == example.cause for each in examples)
            yield Prose(lost.heading(example.cause, shown_trials), indent="  ", hanging="    ")
        last = example.cause
        yield Prose(
            f"{example.task}, repeat {example.repeat}, step {example.step}: {example.detail}{example.parted}", indent="    "
        )
        yield OutputLine(f"      {ways.show(f'{example.arm}/{example.task}/{example.repeat}')}", "dim")


def _telling(arm: ArmLosses) -> Iterator[LostTrial]:
    """Yield some trials of each cause, those first that most other arms solved: they tell most about this loop."""
    for cause in arm.causes:
        examples = [each for each in arm.examples if each.loss.cause == cause]
        yield from sorted(examples, key=lambda each: -each.solved_by)[:MAX_EXAMPLES]


# --- tasks ---

WASTED = "Means per trial; wasted steps are those beyond the cheapest trial, of any arm, that solved the same task."
"""What a column of the table is."""
UNDISTURBED = (STILL, IMPORTED)
"""Profiles under which no fault can be why nobody solved a task."""
_KINDS: Mapping[Kind, str] = {
    "unsolved": "no arm solved",
    "solved by one arm": "only one arm solved",
    "flaky": "an arm solved in some repeats, and not in all",
    "false success": "an arm claimed a success that it did not have",
}


def kind_in_words(kind: Kind, profile: str) -> str:
    """Return what a kind of task is, with a doubt about the expected answer where no fault can be why nobody gave it."""
    doubt = " (is the expected answer right?)" if kind == "unsolved" and profile in UNDISTURBED else ""
    return f"{_KINDS[kind]}{doubt}"


def _group(group: GroupFindings, *, show_all: bool) -> Iterator[Shown]:
    yield from _kinds(group, show_all=show_all)
    rows = tuple(
        (
            arm.arm,
            interval(arm.false_success, 3),
            interval(arm.wasted_steps, 2),
            interval(arm.repeated_calls, 2),
            str(len(arm.flaky)) if group.repeats > 1 else UNKNOWN,
            str(len(arm.alone)) if len(group.arms) > 1 else UNKNOWN,
        )
        for arm in group.arms
    )
    columns = ("arm", "false success", "wasted steps", "repeated calls", "flaky tasks", "solved alone")
    places = [place for place in range(len(columns)) if any(row[place] != UNKNOWN for row in rows)]
    if len(places) > 1:
        if "wasted steps" in (columns[place] for place in places):
            yield Prose(WASTED, "dim", indent="  ")
        yield Table("", tuple(columns[place] for place in places), tuple(tuple(row[place] for place in places) for row in rows))


def _kinds(group: GroupFindings, *, show_all: bool) -> Iterator[Shown]:
    """Yield how many tasks are notable, by kind, and the first of each."""
    yield OutputLine(f"\nTasks of {group.suite} under {group.profile}: {group.tasks}, repeats: {group.repeats}", "bold")
    for kind in _KINDS:
        tasks = group.of_kind(kind)
        if tasks:
            yield Prose(f"{kind_in_words(kind, group.profile)}: {len(tasks)}: {_named(tasks, show_all=show_all)}", indent="  ")


def _named(tasks: Sequence[str], *, show_all: bool) -> str:
    named = tasks if show_all else tasks[:MAX_TASKS]
    return ", ".join(named) + (", …" if len(named) < len(tasks) else "")


def _others(trial: LostTrial) -> str:
    return f" ({counted(trial.solved_by, 'other arm')} solved it)" if trial.solved_by else ""


def _untraced(run: Results, reasons: Why) -> Iterator[Shown]:
    yield OutputLine("")
    if grades := grades_in_words(reasons.arms):
        yield Prose(grades, "yellow")
    yield Prose(untraced_in_words(run, reasons), "yellow")
    if errored := errored_in_words(reasons.arms):
        yield Prose(errored)
