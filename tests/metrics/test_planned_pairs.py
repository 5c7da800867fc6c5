"""The gain of a design is the same number with the same interval, wherever the pair of its prompts stands."""

from __future__ import annotations

from hypothesis import given

from tests.metrics.test_gains import ARMS, RUN
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import compare
from whichloop.metrics.gains import gains, with_planned_pairs


@given(RUN)
def test_a_gain_has_one_interval_wherever_its_pair_stands(records):
    infos = [ArmInfo(name, name, {}, "scripted", "clean", "s") for name in arm_names()]
    plain = compare(records, infos)
    found = with_planned_pairs(plain, records, [(arm.before, arm.after) for arm in ARMS])
    tests = {(gain.test.b, gain.test.a): gain.test.turned for gain in gains(plain, records, ARMS).gains if gain.test is not None}
    for pair, was in zip(found.pairs, plain.pairs, strict=True):
        planned = tests.pop((pair.a, pair.b), None) if pair.metric == "accuracy" else None
        if planned is None:
            assert pair == was
        else:
            assert (pair.difference, pair.p_holm, pair.level, pair.verdict) == (
                planned.difference,
                planned.p_holm,
                planned.level,
                planned.verdict,
            )
            assert (pair.within, pair.difference.value, pair.p) == (was.within, was.difference.value, was.p)
    assert tests == {}


def arm_names() -> list[str]:
    return [*(arm.before for arm in ARMS), *(arm.after for arm in ARMS)]
