"""Comparisons of loops that solve given shares of their tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import Comparison, compare

PROFILES = ("calm", "rough")
Shares = Mapping[str, Sequence[float]]
"""Loop → share of tasks that it solves, by profile."""


@pytest.fixture(scope="session")
def compared(record) -> Callable[..., Comparison]:
    """Compares loops that solve given shares of n tasks at a given number of tokens, by loop or by arm."""

    def make(
        shares: Shares, tokens: Mapping[str, int] | None = None, n: int = 100, profiles: Sequence[str] = PROFILES
    ) -> Comparison:
        infos, records = [], []
        for loop, by_profile in shares.items():
            for profile, share in zip(profiles, by_profile, strict=False):
                infos.append(ArmInfo(f"{loop}/{profile}", loop, {}, "scripted", profile, "s"))
                for task in range(n):
                    right = float((task * 37 % n) < share * n)
                    known = tokens or {}
                    cost = known.get(f"{loop}/{profile}", known.get(loop, 100)) + task % 3
                    records.append(
                        record(
                            arm=f"{loop}/{profile}",
                            task=f"t{task:03}",
                            scores={"accuracy": right},
                            input_tokens=cost,
                            output_tokens=0,
                        )
                    )
        return compare(records, infos)

    return make
