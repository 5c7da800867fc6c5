"""One experiment in process and over every wire: equal digests, up to what a wire cannot say (see docs/serve.md)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.over_http import OverHttp
from whichloop.experiments.compare.results import Results
from whichloop.models.profiles import FAULT_KINDS
from whichloop.models.wires import WIRES
from whichloop.protocol import Reply, Request

from .test_trial_models import LESS, made, told

WIRE_NAMES = tuple(wire.name for wire in WIRES)
NATIVE = ("finish", 'bare(decision_format="native")', "phased")
TEXT = ("bare",)
SPOILED = tuple(kind for kind in FAULT_KINDS if kind.startswith("wire."))
CANNOT_SAY = {"messages": SPOILED, "gemini": tuple(kind for kind in SPOILED if kind != "wire.empty")}
"""Wire → kinds of fault of which it loses something: what they make of a call's arguments, which are an object there."""
REFUSED_IN_TEXT = {"messages": ("wire.empty",)}
"""Wire → kinds of fault after which a conversation is refused: an empty message of the assistant's, which a loop sends back."""
OverWire = Callable[..., AbstractContextManager[None]]


@cache
def inside(loops: tuple[str, ...], kinds: tuple[str, ...]) -> Results:
    return run(loops, kinds)


def run(loops: tuple[str, ...], kinds: tuple[str, ...], suite: str = LESS, **more: Any) -> Results:
    """A run under a profile of these kinds of fault, with a seed that draws most of their families in few trials."""
    with TemporaryDirectory() as name:
        profile = Path(name, "windy.toml")
        rates = "".join(f'"{kind}" = {0.7 / len(kinds):.3f}\n' for kind in kinds)
        clears = "never = 0.0\nattempts = 1\nnothing = 1.0\nfailed = 1.0\nwords = 1.0\n"
        profile.write_text(f'name = "windy"\n[rates]\n{rates}[clears]\n{clears}')
        return made(Path(name), loops=loops, profiles=(str(profile),), suite=suite, seed=3, **more)


def landed(found: Results) -> set[str]:
    return {fault.kind for record in found.records for fault in record.faults if fault.landed}


@pytest.mark.parametrize("wire", WIRE_NAMES)
def test_native_calls_have_equal_digests_in_process_and_over_each_wire(over_http: OverWire, wire: str) -> None:
    kinds = tuple(kind for kind in FAULT_KINDS if kind not in CANNOT_SAY.get(wire, ()))
    with over_http(wire):
        outside = run(NATIVE, kinds)
    assert told(outside) == told(inside(NATIVE, kinds))
    assert outside.digest == inside(NATIVE, kinds).digest
    assert {kind.partition(".")[0] for kind in landed(outside)} >= {"decision", "provider", "tool"}
    for arm in outside.comparison.arms:
        assert arm.summary.errored == 0
        assert arm.summary.faults.landed == arm.summary.faults.scheduled


@pytest.mark.parametrize("wire", WIRE_NAMES)
def test_text_has_equal_digests_over_each_wire_whatever_befalls_it(over_http: OverWire, wire: str) -> None:
    kinds = tuple(kind for kind in SPOILED if kind not in REFUSED_IN_TEXT.get(wire, ()))
    with over_http(wire):
        outside = run(TEXT, kinds)
    assert told(outside) == told(inside(TEXT, kinds))
    assert landed(outside) == set(kinds)


SAID = tuple(kind for kind in SPOILED if kind not in REFUSED_IN_TEXT["messages"])


async def streamed(self: OverHttp, request: Request) -> Reply:
    """Take the place of `OverHttp.complete`."""
    chunks = [chunk async for chunk in self.stream(request)]
    assert chunks[-1].reply is not None
    return chunks[-1].reply


def test_spoiled_calls_have_equal_digests_in_process_and_in_streams(over_http: OverWire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OverHttp, "complete", streamed)
    with over_http("messages"):
        outside = run(NATIVE, SAID)
    assert told(outside) == told(inside(NATIVE, SAID))
    assert outside.digest == inside(NATIVE, SAID).digest
    assert landed(outside) == set(SAID)
