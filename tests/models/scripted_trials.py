"""Profiles in which one kind of fault strikes, and what became of the faults of a trial."""

from __future__ import annotations

from typing import Any

from whichloop.loops.bare_codecs import CODEC
from whichloop.models.profiles import Clears, Profile
from whichloop.models.scripted_calls import NativeCodec
from whichloop.protocol import (
    run_sync,
)

from . import bench

SHOWN_ERROR_CURES = {"resample": 0.0, "names": 0.0, "error": 1.0, "expected": 0.0, "reply": 0.0}
"""Shares under which a retry that shows the error always clears a fault that feedback clears, and no other retry does."""


class OneCall(NativeCodec):
    """Native calls, one at a time."""

    max_calls = 1


def profile(*kinds: str, feedback: float = 0, after: float = 0, never: float = 0, attempts: int = 2, **more: Any) -> Profile:
    """Every point that can be struck is struck; by default the fault clears when the request shows the error, and not before."""
    feedback = feedback or 1 - after - never
    clears = Clears(feedback=feedback, after=after, never=never, attempts=attempts, **SHOWN_ERROR_CURES)
    return Profile(name="one", rates=dict.fromkeys(kinds, 1 / len(kinds) if kinds else 0), clears=clears, **more)


def points(trial: bench.Bench) -> list[str]:
    return [str(fault.point) for fault in trial.tunnel.faults]


def settled(trial: bench.Bench) -> list[tuple[str, str, bool, bool, bool]]:
    """(point, kind, landed, absorbed, recovered) of each fault."""
    trial.tunnel.settle(trial.oracle)
    return [(str(f.point), f.kind, f.landed, f.absorbed, f.recovered) for f in trial.tunnel.faults]


# --- what clears a fault ---


def run(trial: bench.Bench, **how: Any) -> Any:
    return run_sync(trial.run(**{"codec": CODEC} | how))
