"""Profiles in which one kind of fault strikes, and what became of the faults of a trial."""

from __future__ import annotations

from typing import Any

from whichloop.loops.bare_codecs import CODEC
from whichloop.models.profiles import Clears, Profile
from whichloop.models.scripted_calls import NativeCodec
from whichloop.protocol import run_sync

from . import bench


class OneCall(NativeCodec):
    """Native calls, one at a time."""

    max_calls = 1


def profile(*kinds: str, never: float = 0, attempts: float = 1, **more: Any) -> Profile:
    """Every point that can be struck is struck; by default a mistake clears when the request shows the error, and not before."""
    clears = Clears(never=never, attempts=attempts, nothing=0, failed=0, words=1)
    return Profile(name="one", rates=dict.fromkeys(kinds, 1 / len(kinds) if kinds else 0), clears=clears, **more)


def settled(trial: bench.Bench) -> list[tuple[str, str, bool, bool, bool]]:
    """(point, kind, landed, absorbed, recovered) of each fault."""
    trial.tunnel.settle()
    return [(str(f.point), f.kind, f.landed, f.absorbed, f.recovered) for f in trial.tunnel.faults]


# --- what clears a fault ---


def run(trial: bench.Bench, **how: Any) -> Any:
    return run_sync(trial.run(**{"codec": CODEC} | how))
