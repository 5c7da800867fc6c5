"""What a whole message of Anthropic's has no room for, a stream of it says: a run whose replies are streamed loses nothing."""

from __future__ import annotations

import pytest

from tests.over_http import OverHttp
from whichloop.protocol import Reply, Request

from .test_trial_models import told
from .test_wires import NATIVE, REFUSED_IN_TEXT, SPOILED, OverWire, inside, landed, run

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
