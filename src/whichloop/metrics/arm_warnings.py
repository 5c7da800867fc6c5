"""Warnings of a comparison about trials that are not in its means: no score, faults that did not land, unknown costs.

Each kind is one sentence, however many arms it is about, the arm that it weighs on most first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from whichloop.protocol.values import counted, joined

from .left_out import most_frequent
from .record import Record
from .record_table import alike, where
from .summary import COSTS, ArmSummary

MAX_ERRORED = 0.02
"""Share of errored trials in an arm, or its difference between two arms, beyond which verdicts carry a warning."""
MAX_RIGHT_UNSEEN = 0.05
"""Share of an arm's trials that are right though no prompt showed what the answer rests on, beyond which verdicts carry a warning.

One such trial says nothing. Honest loops give hardly any: see docs/tunnel.md.
"""
MAX_ARMS = 4
"""Most arms that a warning names."""
COUNTED = dict(zip(COSTS, ("the number of tokens", "the cost", "the duration in seconds"), strict=True))


def unsound_arm_warnings(arms: Mapping[str, ArmSummary]) -> Iterator[str]:
    """Yield of each arm why no verdict on it holds. `arms`: name → what it gave."""
    for name, summary in arms.items():
        if not summary.scored:
            yield f"{name}: no trial was scored."
        if summary.faults.short:
            yield short_warning(name, summary)
        if (summary.right_unseen or 0) > max(1, MAX_RIGHT_UNSEEN * summary.scored):
            yield (
                f"{name}: right though never shown in {summary.right_unseen} of {summary.scored} trials: no prompt showed the "
                "scripted model what these answers rest on. They are not the model's, and no verdict on this arm holds."
            )


def short_warning(name: str, summary: ArmSummary) -> str:
    """Return that too few of an arm's scheduled faults landed for a run to say anything for it."""
    return f"{name}: {short_words(summary)}; the run is invalid."


def short_words(summary: ArmSummary) -> str:
    """Return how many of the scheduled faults landed."""
    return f"only {summary.faults.landed} of {summary.faults.due} scheduled faults landed"


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
    partly = [(measure, name) for measure in COSTS for name, summary in arms.items() if _is_partly_known(summary, measure)]
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


def _is_partly_known(summary: ArmSummary, measure: str) -> bool:
    return summary.means[measure] is not None and summary.known[measure] < summary.scored


def of_each(numbers: Mapping[str, str], unit: str) -> str:
    """Return `9.2% of the trials of a, 5.0% of b and 2.5% of c`, of many arms the first ones and how many more there are."""
    parts = [f"{number}{'' if place else f' {unit}'} of {name}" for place, (name, number) in enumerate(numbers.items())]
    listed = parts if len(parts) <= MAX_ARMS else [*parts[: MAX_ARMS - 1], counted(len(parts) - MAX_ARMS + 1, "more arm")]
    return joined(listed)
