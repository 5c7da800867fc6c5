"""Warnings of a comparison about trials that are not in its means: no score, faults that did not land, unknown costs.

Each kind is one sentence, however many arms it is about, the arm that it weighs on most first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from textwrap import shorten

from whichloop.protocol.values import counted, joined

from .record import UNREPLAYABLE, Record
from .record_table import alike, where
from .summary import COSTS, ArmSummary

MAX_LEFT_OUT = 0.1
"""Share of tasks that an arm left out (quarantined, without a plan, not in a file), beyond which a warning says so."""
MAX_REASON_CHARS = 240
"""Characters of the reason that a warning shows."""
BLANK_SCORE = "the score is blank"
"""Reason of an errored trial of an imported table, of which nothing says that an error ended it."""
_WORD_FOR_BLANK = "the score is '"
"""How such a reason begins where the cell spells it: the score is 'N/A'."""
AS_FAILURES = "--errors-as-failures"


def blank_score(text: str) -> str:
    """Return the reason of a trial whose score is blank, or spells that there is none: `N/A`."""
    return f"{_WORD_FOR_BLANK}{text}'" if text else BLANK_SCORE


def excluded_warnings(records: Sequence[Record]) -> tuple[list[str], list[str]]:
    """Tell how many tasks a broken tool or plan has excluded, unasked, which makes a run invalid, and how many arms leave out."""
    excluded = [record for record in alike(records) if record.status == "excluded"]
    broken = [record for record in excluded if record.reason.startswith(UNREPLAYABLE)]
    asked_for = [record for record in excluded if not record.reason.startswith(UNREPLAYABLE)]
    tasks, unreplayable = counted(_tasks(records), "task"), []
    if broken:
        why = most_frequent(Counter(record.reason.removeprefix(UNREPLAYABLE) for record in broken))
        out = counted(_tasks(broken), f"of {tasks} is left out because its plan", f"of {tasks} are left out because their plans")
        does = "does" if _tasks(broken) == 1 else "do"
        mend = "mend the tools or the plans, or name the tasks in a -s quarantine=file"
        unreplayable.append(f"{out} {does} not replay{why}. The run is invalid: {mend}.")
    return unreplayable, _left_out_by_arm(records, asked_for) if asked_for else []


def _left_out_by_arm(records: Sequence[Record], excluded: Sequence[Record]) -> list[str]:
    """Tell how many tasks arms leave out: those that leave out the same ones in one sentence, which names no arm if all do."""
    # a task whose other repeats are scored is not left out: arms may have unequal repeats
    scored = {(record.arm, record.task) for record in alike(records) if record.status == "scored"}
    lost: dict[str, list[Record]] = {}
    for record in excluded:
        if (record.arm, record.task) not in scored:
            lost.setdefault(record.arm, []).append(record)
    arms_of: dict[frozenset[str], list[str]] = {}
    for arm, own in sorted(lost.items()):
        arms_of.setdefault(frozenset(record.task for record in own), []).append(arm)
    every, tasks = len({record.arm for record in alike(records)}), _tasks(records)
    warnings = []
    for gone, arms in arms_of.items():
        if len(gone) > MAX_LEFT_OUT * tasks:
            why = most_frequent(Counter(record.reason for arm in arms for record in lost[arm]))
            who = "" if len(arms) == every else f"{', '.join(arms)}: "
            of = counted(tasks, "task")
            warnings.append(f"{who}{counted(len(gone), f'of {of} is', f'of {of} are')} left out{why}.")
    return warnings


def overlap_warnings(scored: Mapping[str, int], common: Mapping[tuple[str, str], int]) -> tuple[list[str], list[str]]:
    """Tell of pairs that have no task in common, and of those that were compared on fewer tasks than an arm's accuracy is over.

    `scored`: arm → its scored tasks. `common`: pair of arms → the tasks that are scored in both.
    """
    none = [pair for pair, n in common.items() if n == 0]
    named = "" if not none else f"{none[0][0]} and {none[0][1]}"
    several = f"{counted(len(none), 'pair')}, such as {named}" if len(none) > 1 else named
    apart = [f"{several}: no task was scored in both."] if none else []
    partial = {(a, b): n for (a, b), n in common.items() if 0 < n < (1 - MAX_LEFT_OUT) * max(scored[a], scored[b])}
    if not partial:
        return apart, []
    (a, b), n = min(partial.items(), key=lambda item: item[1])
    both = f"{counted(n, 'task')} that both were scored on, of {scored[a]:,} and {scored[b]:,}"
    if len(partial) == 1:
        return apart, [f"{a} and {b} are compared on the {both}: their accuracies are not over the same tasks."]
    many = f"{len(partial)} pairs are compared on fewer tasks than their accuracies are over"
    return apart, [f"{many}: {a} and {b} on the {both}."]


def most_frequent(reasons: Mapping[str, int]) -> str:
    """Return the most frequent reason as the end of a sentence; empty if no trial has one."""
    reason, are_several = _most_frequent(reasons)
    return f", {'most often' if are_several else 'all of them'} because of: {reason}" if reason else ""


def most_told(told: Mapping[str, int]) -> str:
    """Return what is told of most trials as the end of a sentence, where it says what happened; empty if nothing is told of any."""
    what, are_several = _most_frequent(told)
    return f"{', most often' if are_several else ''}: {what}" if what else ""


def _most_frequent(texts: Mapping[str, int]) -> tuple[str, bool]:
    """Return the text of most trials, shortened, and whether there are others; empty where no trial has any."""
    counts = {text: count for text, count in texts.items() if text}
    most = max(counts, key=lambda text: counts[text], default="")
    return shorten(most, MAX_REASON_CHARS, placeholder=" …").rstrip("."), len(counts) > 1


def _tasks(records: Sequence[Record]) -> int:
    return len({record.task for record in alike(records)})


MAX_ERRORED = 0.02
"""Share of errored trials in an arm, or its difference between two arms, beyond which verdicts carry a warning."""
MAX_RIGHT_UNSEEN = 0.05
"""Share of an arm's trials that are right though no prompt showed what the answer rests on, beyond which verdicts carry a warning.

One such trial says nothing. Honest loops give hardly any: see docs/tunnel.md.
"""
MAX_NOT_ASKED_FOR = 0.05
"""Share of an arm's calls that no reply asked for and whose results were shown, beyond which verdicts carry a warning."""
MAX_ARMS = 4
"""Most arms that a warning names."""
COUNTED = dict(zip(COSTS, ("the number of tokens", "the cost", "the duration in seconds"), strict=True))


def unsound_arm_warnings(arms: Mapping[str, ArmSummary]) -> Iterator[tuple[str, str]]:
    """Yield of each arm why no verdict on it holds, with the kind of the warning. `arms`: name → what it gave."""
    for name, summary in arms.items():
        if not summary.scored:
            yield "no scored trial", f"{name}: no trial was scored."
        met = summary.faults
        if met.short:
            yield (
                "faults did not land",
                f"{name}: only {met.landed} of {met.scheduled} scheduled faults landed; the run is invalid.",
            )
        if _is_right_unseen(summary):
            yield (
                "right though never shown",
                f"{name}: right though never shown in {summary.right_unseen} of {summary.scored} trials: no prompt showed the "
                "scripted model what these answers rest on. They are not the model's, and no verdict on this arm holds.",
            )

        if summary.not_asked_for > MAX_NOT_ASKED_FOR:
            yield (
                "calls nobody asked for",
                f"{name}: {summary.not_asked_for:.0%} of its calls were asked for by no reply, and their results were shown to the "
                "scripted model. They are not the model's, and no verdict on this arm holds.",
            )


def _is_right_unseen(summary: ArmSummary) -> bool:
    return (summary.right_unseen or 0) > max(1, MAX_RIGHT_UNSEEN * summary.scored)


def is_not_the_models(summary: ArmSummary) -> bool:
    """Whether an arm's answers are not its model's, so that no verdict on it holds."""
    return _is_right_unseen(summary) or summary.not_asked_for > MAX_NOT_ASKED_FOR


def errored_warnings(arms: Mapping[str, ArmSummary], compared: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield which arms have many errored trials, and the largest difference between two arms that are compared.

    `compared`: the pairs of arms of one suite and profile.
    """
    shares = {name: summary.errored_share for name, summary in arms.items()}
    reasons = {name: summary.errored_reasons for name, summary in arms.items()}
    yield from _lacking(shares, reasons, compared, "errored and left out")


def lost_repeats_warnings(records: Mapping[str, Sequence[Record]], compared: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield which arms lack many repeats of tasks whose other repeats they have, as where a file has no row for what failed.

    `records`: arm → its trials. A repeat that an arm has of no task was not asked for, and a task that it lacks whole is told
    elsewhere.
    """
    lost = {name: _lost_repeats(trials) for name, trials in records.items()}
    shares = {name: len(lost[name]) / max(len(trials), 1) for name, trials in records.items()}
    reasons = {name: Counter(record.reason for record in missing) for name, missing in lost.items()}
    yield from _lacking(shares, reasons, compared, "repeats that are excluded")


def _lost_repeats(records: Sequence[Record]) -> list[Record]:
    excluded = where(records, lambda record: record.status == "excluded")
    if not excluded:
        return []
    there = where(records, lambda record: record.status != "excluded")
    tasks, repeats = {record.task for record in alike(there)}, {record.repeat for record in there}
    return [record for record in excluded if record.task in tasks and record.repeat in repeats]


def _lacking(
    shares: Mapping[str, float], reasons_of: Mapping[str, Mapping[str, int]], compared: Sequence[tuple[str, str]], what: str
) -> Iterator[str]:
    """Yield one sentence on the arms whose share of such trials is large. `what`: what those trials are."""
    many = sorted((name for name in shares if shares[name] > MAX_ERRORED), key=lambda name: -shares[name])
    if not many:
        return
    reasons: Counter[str] = Counter()
    for name in many:
        reasons.update(reasons_of[name])
    gap, pair = max(((abs(shares[a] - shares[b]), (a, b)) for a, b in compared), default=(0.0, ("", "")))
    biased = f" {_biased(gap, pair)}" if gap > MAX_ERRORED else ""
    if len(many) == 1:
        sentence = f"{many[0]}: {shares[many[0]]:.1%} of its trials are {what}"
    else:
        sentence = f"{what[0].upper()}{what[1:]}: {of_each({name: f'{shares[name]:.1%}' for name in many}, 'of the trials')}"
    yield f"{sentence}{most_frequent(reasons)}.{biased}"


def _biased(gap: float, pair: tuple[str, str]) -> str:
    return f"The shares of {pair[0]} and {pair[1]} differ by {100 * gap:.1f} points, which may bias their comparison."


def cost_warnings(arms: Mapping[str, ArmSummary], compared: Sequence[tuple[str, str]]) -> list[str]:
    """Return one sentence on the costs that are known of some scored trials of an arm only; none where there are none.

    It adds where the shares of such trials of two arms that are compared differ.
    """
    sentence = _partly_known_costs(arms)
    return [" ".join([sentence, *_unlike_shares(arms, compared)])] if sentence else []


def _unlike_shares(arms: Mapping[str, ArmSummary], compared: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield of each cost which two arms differ most in the share of the trials where it is known."""
    for measure in COSTS:
        known_shares = {name: arm.known[measure] / arm.scored for name, arm in arms.items() if arm.scored and arm.known[measure]}
        gaps = [(abs(known_shares[a] - known_shares[b]), (a, b)) for a, b in compared if a in known_shares and b in known_shares]
        gap, pair = max(gaps, default=(0.0, ("", "")))
        if gap > MAX_ERRORED:
            shares = f"Between {pair[0]} and {pair[1]} the shares of trials where {COUNTED[measure]} is known"
            yield f"{shares} differ by {100 * gap:.1f} points, which may bias their comparison."


def _partly_known_costs(arms: Mapping[str, ArmSummary]) -> str:
    """Return which costs are known of some scored trials of an arm only; empty where there are none."""
    partly = [
        (measure, name)
        for measure in COSTS
        for name, one in arms.items()
        if one.means[measure] is not None and one.known[measure] < one.scored
    ]
    if len(partly) == 1:
        ((measure, name),) = partly
        summary, mean = arms[name], arms[name].means[measure]
        trials = f"{summary.known[measure]} of its {counted(summary.scored, 'scored trial')}"
        over = f"the mean is over these, in {0 if mean is None else mean.n} of its {summary.tasks} tasks"
        return f"{name}: {COUNTED[measure]} is known for {trials}; {over}."
    clauses = []
    for measure in COSTS:
        partly_known = sorted(
            (name for of, name in partly if of == measure), key=lambda name: arms[name].known[measure] / arms[name].scored
        )
        if partly_known:
            shares = {name: f"{arms[name].known[measure]} of the {arms[name].scored}" for name in partly_known}
            clauses.append(f"{COUNTED[measure]} is known for {of_each(shares, 'scored trials')}")
    sentence = "; ".join(clauses)
    return f"{sentence[0].upper()}{sentence[1:]}; each mean is over these." if clauses else ""


def of_each(numbers: Mapping[str, str], unit: str) -> str:
    """Return `9.2% of the trials of a, 5.0% of b and 2.5% of c`, of many arms the first ones and how many more there are."""
    parts = [f"{number}{'' if place else f' {unit}'} of {name}" for place, (name, number) in enumerate(numbers.items())]
    listed = parts if len(parts) <= MAX_ARMS else [*parts[: MAX_ARMS - 1], counted(len(parts) - MAX_ARMS + 1, "more arm")]
    return joined(listed)
