"""The model of one's own that the docs show answers over HTTP, and its failures are the provider's."""

from __future__ import annotations

import json
from typing import Any

from tests.docs.pages import DOCS
from tests.docs.samples import samples
from whichloop.loops import Bare, Finish, Query, StopReason, Toolbox
from whichloop.protocol import NativeCall

from .real.provider import CannedAnswer, SeenRequest, completion, failure, serving

MADE = "class Gateway:"


def answered(heard: SeenRequest) -> CannedAnswer:
    """The first request with a call and the next with its result; without tools it fails."""
    results = [message["content"] for message in heard.body["messages"] if message["role"] == "tool"]
    name, arguments = ("__finish__", {"answer": results[-1]}) if results else ("price", {"item": "tea"})
    called = completion(None, (NativeCall(f"c{len(results)}", name, json.dumps(arguments)),))
    return called if "tools" in heard.body else failure(500, "no tools")


def price(item: str) -> float:
    """What an item costs."""
    return 1.5


def test_a_model_of_ones_own_answers_over_http_and_its_failures_are_the_providers() -> None:
    pages = (page.read_text("utf-8") for page in DOCS.glob("*.md"))
    (code,) = (sample.text for page in pages for sample in samples(page) if MADE in sample.text)
    names: dict[str, Any] = {}
    exec(code, names)
    with serving(answered) as server:
        model = names["Gateway"](f"{server.url}/chat/completions", "mine")
        outcome = Finish(max_steps=3).run_sync(Query("What does tea cost?"), Toolbox([price]), model)
        failed = Bare().run_sync(Query("What does tea cost?"), Toolbox([price]), model)
    assert (outcome.answer, outcome.ok) == ("1.5", True)
    assert (failed.stop, failed.ok) == (StopReason.PROVIDER_ERROR, False)
    failure = failed.details["exception"]
    assert (failure.kind, failure.status, failure.is_transient) == ("server", 500, True)
