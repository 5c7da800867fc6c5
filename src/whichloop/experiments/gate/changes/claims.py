"""Wrong answers given as done with a fault left open or a result unseen: told where they became more and no margin judges them,
since accuracy does not show it."""

from __future__ import annotations

from collections.abc import Sequence

from whichloop.experiments.gate.data.baseline import stored_value
from whichloop.experiments.gate.data.names import short_arm
from whichloop.experiments.gate.data.outcome import GateResult, MoreClaims
from whichloop.experiments.gate.data.sides import Sides
from whichloop.metrics.gate import MARGIN
from whichloop.protocol.values import counted
from whichloop.text.numbers import listed_names

CLAIMS = "false_success_rate"
"""The share of the trials that give a wrong answer as done though a fault was left open, or the result of a planned call unseen."""
WRONGLY = "a wrong answer as done, with a fault left open or a planned result unseen"
"""What is counted, in words; a wrong answer for another cause, such as one that the loop altered, is none of them."""


def more_claims(side: Sides, *, paired: bool) -> MoreClaims | None:
    """Return how many more trials of an arm give a wrong answer as done than in the baseline; None where they are not more, or not
    known on both sides.

    `paired`: whether trials have their counterparts.
    """
    before, after = side.old_values(CLAIMS), side.new_values(CLAIMS)
    tasks = [task for task in after.values if task in before.values]
    if not tasks:
        return None
    was, now = (sum(map(sum, (values.values[task] for task in tasks))) for values in (before, after))
    share, share_now = (sum(values.means[task] for task in tasks) / len(tasks) for values in (before, after))
    claiming = [record for record in side.records if record.task in before.values and stored_value(record, CLAIMS)]
    new = claiming
    if paired:
        new = [record for record in claiming if not side.old[record.task].values(CLAIMS)[record.repeat]]
    if share_now <= share or not new:
        return None
    more = len(new) if paired else int(now - was)
    return MoreClaims(int(was), int(now), share, share_now, more, f"{short_arm(side.arm)}/{new[0].task}/{new[0].repeat}")


def claims_in_words(result: GateResult) -> str:
    """Return that more trials give a wrong answer as done, with one of them, and what has the gate judge it; empty where not so."""
    claims = [(arm, arm.claims) for arm in result.arms if arm.claims is not None]
    if not claims:
        return ""
    where = [f" ({short_arm(arm.arm)})" if len(result.arms) > 1 else "" for arm, _ in claims]
    rates = listed_names([f"{each.baseline:.3f} → {each.run:.3f}{arm}" for (_, each), arm in zip(claims, where, strict=True)])
    judging = result.advice.judging([CLAIMS], MARGIN)
    return f"{_how_many([each for _, each in claims], paired=result.paired)}: {CLAIMS} {rates}, not judged; {judging} judges it"


def _how_many(claims: Sequence[MoreClaims], *, paired: bool) -> str:
    now, was, example = sum(each.now for each in claims), sum(each.was for each in claims), claims[0].example
    if not paired:
        return f"{counted(now, 'trial gives', 'trials give')} {WRONGLY}; {was} in the baseline, such as {example}"
    new = sum(each.new for each in claims)
    one, many = "trial now gives", "trials now give"
    return f"{counted(new, one, many)} {WRONGLY}, and did not in the baseline, such as {example}"
