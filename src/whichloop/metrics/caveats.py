"""Warnings as data: a code, what it is about, and its numbers. Each code has one fixed text with places for the numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from whichloop.protocol.values import counted, joined

from .pairs import Pair
from .record import RECORDING, UNREPLAYABLE, Record
from .statistics import too_few_units
from .summary import COSTS, PRIMARY, ArmSummary

TEXTS: Mapping[str, str] = {
    # no verdict of the run holds
    "recording lacks requests": "{trials:,} of {of:,} trials asked what the recording does not have; the run is invalid",
    "plans do not replay": "plans of {tasks:,} of {of:,} tasks do not replay (-s quarantine=file); the run is invalid: {reasons}",
    "plans mislead": (
        "plans of at least {tasks:,} of {of:,} tasks lead to a wrong answer, such as {task}: {call}, {answer}, expected {expected}"
    ),
    "invalid": "invalid: whichloop report {run} says why",
    # none on this arm does
    "always crashed": "every trial crashed ({trials:,}): {reasons}",
    "never asked": "never asked its model in {trials:,} trials: its accuracy is not that of an agent, and it is compared with none",
    "dead arm": "left out: crashed always, or never asked its model",
    "no scored trial": "no trial was scored",
    "faults did not land": "only {landed:,} of {scheduled:,} scheduled faults landed; the run is invalid",
    "right though never shown": (
        "right in {trials:,} of {of:,} trials though never shown what the answer rests on: no verdict on this arm holds"
    ),
    "calls nobody asked for": "{share:.0%} of its calls were asked for by no reply: no verdict on this arm holds",
    # what means lack
    "no common tasks": "no task was scored in both (such pairs: {pairs:,})",
    "incomplete": "incomplete: {trials:,} of {of:,} trials",
    "errored trials": "{trials:,} of {of:,} trials errored and are left out: {reasons}",
    "errored unlike": "shares of errored trials differ by {points:.1f} points, which may bias their comparison",
    "lost repeats": "{trials:,} of {of:,} trials are repeats that are excluded: {reasons}",
    "lost unlike": "shares of repeats that are excluded differ by {points:.1f} points, which may bias their comparison",
    "fewer common tasks": "compared on the tasks that both were scored on, {tasks:,} of {of:,} (such pairs: {pairs:,})",
    "tasks left out": "{tasks:,} of {of:,} tasks are left out: {reasons}",
    "few tasks": "{units:,} independent tasks are too few to show any difference (such pairs: {pairs:,})",
    "few clusters": "{units:,} clusters of tasks are too few to show any difference (such pairs: {pairs:,})",
    # what distorts a run
    "suite fails a check": "the suite fails a check, {problem}",
    "broken laws": "laws broken (whichloop check loop): {laws}",
    "run again": "{trials:,} trials that crashed or timed out ran again on request, which favours them",
    "at limit": "{trials:,} of {of:,} trials ended at the step limit (--max-tool-steps)",
    "at limit of run": "{trials:,} of {of:,} trials ended at the limit that the run set",
    "profile does not apply": "profile {profile} was measured of {form}, and does not apply",
    "forms of calls differ": "profile {profile} has a form for each, and these met {met}",
    "crashed": "{trials:,} of {of:,} trials crashed: {reasons}",
    "hung": "{trials:,} of {of:,} trials hung: {reasons}",
    "out of time": "{trials:,} of {of:,} trials ran out of time: {reasons}",
    # what a pilot leaves open
    "few to plan": "{units:,} {unit}s are too few to plan from: run about {needed:,} first",
    "small pilot": "{units:,} {unit}s: the true variance may be {factor:.1f} times as large (95 % sure)",
    "clusters": "{tasks:,} tasks in {units:,} clusters count like {independent:.0f} independent ones",
    "ran once": "each task ran once: gate sizes are upper bounds (--repeats 2)",
    "never varied": "no task's repeats differed: {assumed:,} of {of:,} tasks are assumed to, an upper bound",
    "no pair": "no two arms can be compared: the sizes are those of a gate",
    "scripted model": "scripted: it varies less than a real model; with the baseline's seed a gate takes fewer tasks",
    "recording": "replies came from a recording: a live model varies more",
    # costs
    "costs not known": "{cost} are known of {trials:,} of {of:,} scored trials, and the mean is over these",
    "costs unlike": "shares of trials whose {cost} are known differ by {points:.1f} points, which may bias their comparison",
}
"""Code → what it says. Warnings are told in this order, what weighs most first."""
DEAD = ("always crashed", "never asked")
"""Codes that an arm's accuracy is not that of an agent."""
MAX_TOLD = 4
"""Warnings of one code that a document prints; of more it says how many, and JSON has all."""
MAX_NAMES = 4
"""Names that a text lists; of more it says how many."""
MAX_REASONS = 3
MAX_REASON_CHARS = 160
MAX_LEFT_OUT = 0.1
"""Share of tasks that an arm left out (quarantined, without a plan, not in a file), beyond which a warning says so."""
MAX_ERRORED = 0.02
"""Share of errored trials in an arm, or its difference between two arms, beyond which verdicts carry a warning."""
MAX_RIGHT_UNSEEN = 0.05
"""Share of an arm's trials that are right though no prompt showed what the answer rests on, beyond which verdicts carry a warning.

One such trial says nothing. Honest loops give hardly any: see docs/scripted-model.md.
"""
MAX_NOT_ASKED_FOR = 0.05
"""Share of an arm's calls that no reply asked for and whose results were shown, beyond which verdicts carry a warning."""
_COUNTED = {"tokens": "tokens", "cost_usd": "dollars", "seconds": "seconds"}


@dataclass(frozen=True, slots=True)
class Caveat:
    """A warning."""

    code: str
    """One of `TEXTS`."""
    arms: tuple[str, ...] = ()
    """The arms, loops or runs that it is about; empty where it is about all."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """What stands in its text; `reasons`: reason → trials."""

    @property
    def text(self) -> str:
        """The warning in one line."""
        told = {name: reasons(value) if isinstance(value, Mapping) else value for name, value in self.numbers.items()}
        text = TEXTS[self.code].format(**told)
        return f"{listed_names(self.arms)}: {text}" if self.arms else text

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {"code": self.code, "arms": list(self.arms), "numbers": dict(self.numbers), "text": self.text}


def in_order(caveats: Iterable[Caveat]) -> tuple[Caveat, ...]:
    """Return warnings, what weighs most first."""
    places = {code: place for place, code in enumerate(TEXTS)}
    return tuple(sorted(caveats, key=lambda caveat: places[caveat.code]))


def warning_lines(caveats: Sequence[Caveat]) -> list[str]:
    """Return the texts that a document prints: of each code the first ones, and how many more there are."""
    lines: list[str] = []
    for code, many in Counter(caveat.code for caveat in caveats).items():
        own = [caveat.text for caveat in caveats if caveat.code == code]
        lines += own if many <= MAX_TOLD else [*own[: MAX_TOLD - 1], f"{code}: {many - MAX_TOLD + 1:,} more"]
    return lines


def reasons(numbers: Mapping[str, int], most: int = MAX_REASONS) -> str:
    """Return the most frequent reasons, as they were given, with their counts: `12 × no reply; 3 × TypeError: x; and 2 others`."""
    ordered = sorted(numbers.items(), key=lambda item: (-item[1], item[0]))
    text = "; ".join(f"{n} × {_beginning(reason)}" for reason, n in ordered[:most])
    return text + (f"; and {counted(len(ordered) - most, 'other')}" if len(ordered) > most else "")


def _beginning(reason: str) -> str:
    """Return a reason, or of a long one as many of its first words as there is room for; a word that is longer is cut."""
    if len(reason) <= MAX_REASON_CHARS:
        return reason or "no reason is told"
    head = reason[:MAX_REASON_CHARS]
    return f"{head if reason[MAX_REASON_CHARS].isspace() else head.rpartition(' ')[0] or head} …"


def listed_names(names: Sequence[str]) -> str:
    """Return `a`, `a and b`, `a, b and c`; of more than four names the first ones and how many others."""
    if len(names) > MAX_NAMES:
        return f"{', '.join(names[: MAX_NAMES - 1])} and {len(names) - MAX_NAMES + 1} others"
    return joined(names)


# --- what a comparison says ---


def is_not_the_models(summary: ArmSummary) -> bool:
    """Whether an arm's answers are not its model's, so that no verdict on it holds."""
    return _is_right_unseen(summary) or summary.not_asked_for > MAX_NOT_ASKED_FOR


def _is_right_unseen(summary: ArmSummary) -> bool:
    return (summary.right_unseen or 0) > max(1, MAX_RIGHT_UNSEEN * summary.scored)


def unsound_arms(arms: Mapping[str, ArmSummary]) -> Iterator[Caveat]:
    """Yield of each arm why no verdict on it holds. `arms`: name → what it gave."""
    for arm, summary in arms.items():
        own, met = (arm,), summary.faults
        if summary.always_crashed:
            yield Caveat("always crashed", own, {"trials": summary.scored, "reasons": summary.crashes})
        if summary.dead == "never asked":
            yield Caveat("never asked", own, {"trials": summary.scored})
        if not summary.scored:
            yield Caveat("no scored trial", own)
        if met.short:
            yield Caveat("faults did not land", own, {"landed": met.landed, "scheduled": met.scheduled})
        if _is_right_unseen(summary):
            yield Caveat("right though never shown", own, {"trials": summary.right_unseen, "of": summary.scored})
        if summary.not_asked_for > MAX_NOT_ASKED_FOR:
            yield Caveat("calls nobody asked for", own, {"share": summary.not_asked_for})


def excluded_trials(records: Sequence[Record]) -> Iterator[Caveat]:
    """Yield what a recording lacks, the tasks that a broken tool or plan has excluded, and those that arms leave out.

    Arms that leave out the same tasks are told of together, without names if all do.
    """
    errored = [record for record in records if record.status == "errored"]
    if unrecorded := sum(RECORDING in record.errors for record in errored):
        yield Caveat("recording lacks requests", (), {"trials": unrecorded, "of": len(records)})
    excluded = [record for record in records if record.status == "excluded"]
    if not excluded:
        return
    of = len({record.task for record in records})
    broken = [record for record in excluded if record.reason.startswith(UNREPLAYABLE)]
    if broken:
        why = Counter(record.reason.removeprefix(UNREPLAYABLE) for record in broken)
        yield Caveat("plans do not replay", (), {"tasks": len({record.task for record in broken}), "of": of, "reasons": why})
    # a task whose other repeats are scored is not left out: arms may have unequal repeats
    scored = {(record.arm, record.task) for record in records if record.status == "scored"}
    lost: dict[str, dict[str, str]] = {}
    for record in excluded:
        if not record.reason.startswith(UNREPLAYABLE) and (record.arm, record.task) not in scored:
            lost.setdefault(record.arm, {})[record.task] = record.reason
    arms_of: dict[frozenset[str], list[str]] = {}
    for arm, own in sorted(lost.items()):
        arms_of.setdefault(frozenset(own), []).append(arm)
    every = len({record.arm for record in records})
    for gone, arms in arms_of.items():
        if len(gone) > MAX_LEFT_OUT * of:
            numbers = {"tasks": len(gone), "of": of, "reasons": Counter(lost[arms[0]].values())}
            yield Caveat("tasks left out", () if len(arms) == every else tuple(arms), numbers)


Compared = Sequence[tuple[str, str]]
"""Pairs of arms."""


def lacking_trials(arms: Mapping[str, ArmSummary], records: Mapping[str, Sequence[Record]], compared: Compared) -> Iterator[Caveat]:
    """Yield which arms have many errored trials, or lack many repeats of tasks whose other repeats they have.

    With each the two arms that are compared and differ most in it. `compared`: those of one suite and profile.
    """
    errored = {name: (arm.errored, arm.scored + arm.errored, arm.errored_reasons) for name, arm in arms.items()}
    lost = {name: _lost_repeats(trials) for name, trials in records.items()}
    repeats = {name: (own.total(), len(records[name]), own) for name, own in lost.items()}
    for code, unlike, lacks in (("errored trials", "errored unlike", errored), ("lost repeats", "lost unlike", repeats)):
        shares = {name: trials / max(of, 1) for name, (trials, of, _) in lacks.items()}
        many = sorted((name for name in shares if shares[name] > MAX_ERRORED), key=lambda name: -shares[name])
        for name in many:
            trials, of, why = lacks[name]
            yield Caveat(code, (name,), {"trials": trials, "of": of, "reasons": why})
        if many:
            yield from _unlike(unlike, shares, compared)


def _unlike(code: str, shares: Mapping[str, float], compared: Compared, **numbers: str) -> Iterator[Caveat]:
    """Yield the two arms whose shares differ most, if by much."""
    gaps = [(abs(shares[a] - shares[b]), (a, b)) for a, b in compared if a in shares and b in shares]
    gap, pair = max(gaps, default=(0.0, ()))
    if gap > MAX_ERRORED:
        yield Caveat(code, pair, {"points": 100 * gap, **numbers})


def _lost_repeats(records: Sequence[Record]) -> Counter[str]:
    """Return reason → repeats that an arm lacks of tasks of which it has others, as where a file has no row for what failed.

    A repeat that it has of no task was not asked for, and a task that it lacks whole is told elsewhere.
    """
    excluded = [record for record in records if record.status == "excluded"]
    there = [record for record in records if record.status != "excluded"] if excluded else ()
    tasks, repeats = {record.task for record in there}, {record.repeat for record in there}
    return Counter(record.reason for record in excluded if record.task in tasks and record.repeat in repeats)


def common_tasks(scored: Mapping[str, int], common: Mapping[tuple[str, str], int]) -> Iterator[Caveat]:
    """Yield of the pairs without a common task the first, and of those on fewer tasks than an arm's accuracy is over the worst.

    `scored`: arm → its scored tasks. `common`: pair of arms → the tasks that are scored in both.
    """
    apart = [pair for pair, tasks in common.items() if tasks == 0]
    if apart:
        yield Caveat("no common tasks", apart[0], {"pairs": len(apart)})
    most = {(a, b): max(scored[a], scored[b]) for a, b in common}
    partial = [pair for pair, tasks in common.items() if 0 < tasks < (1 - MAX_LEFT_OUT) * most[pair]]
    if partial:
        worst = min(partial, key=lambda pair: common[pair])
        yield Caveat("fewer common tasks", worst, {"tasks": common[worst], "of": most[worst], "pairs": len(partial)})


def few_units(pairs: Sequence[Pair], alpha: float) -> Iterator[Caveat]:
    """Yield the pair with the most units of those that can show no difference of other tasks, since they have too few."""
    few = [pair for pair in pairs if pair.metric == PRIMARY and too_few_units(pair.units, alpha)]
    if few:
        most = max(few, key=lambda pair: pair.units)
        code = "few clusters" if most.units < most.difference.n else "few tasks"
        yield Caveat(code, (most.a, most.b), {"units": most.units, "pairs": len(few)})


def unknown_costs(arms: Mapping[str, ArmSummary], compared: Compared) -> Iterator[Caveat]:
    """Yield which costs are known of some scored trials of an arm only, and where two arms that are compared differ in it most."""
    for cost in COSTS:
        known = {name: (arm.known[cost], arm.scored) for name, arm in arms.items() if arm.scored and arm.known[cost]}
        shares = {name: trials / of for name, (trials, of) in known.items()}
        for name in sorted((name for name in shares if shares[name] < 1), key=lambda name: shares[name]):
            trials, of = known[name]
            yield Caveat("costs not known", (name,), {"cost": _COUNTED[cost], "trials": trials, "of": of})
        yield from _unlike("costs unlike", shares, compared, cost=_COUNTED[cost])
