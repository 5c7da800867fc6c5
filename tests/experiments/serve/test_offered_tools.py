"""The tools that the server lists for its suites are tools that it takes: the vendor's rules bind both ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from whichloop.experiments.serve.pages import SuiteTrials
from whichloop.models.profiles import load_profile
from whichloop.models.server import OwnRequest
from whichloop.models.wires.base import Incoming
from whichloop.models.wires.chat import CHAT
from whichloop.protocol import run_sync
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import generated_suites, make_suite


@pytest.mark.parametrize("name", generated_suites())
def test_every_tool_of_a_suite_is_taken(name: str) -> None:
    suite = make_suite(parse_spec(name))
    trials = SuiteTrials(replace(suite, tasks=suite.tasks[::8]), load_profile("clean"))
    try:
        listed = run_sync(trials.more(OwnRequest("GET", ("tasks",))))["tasks"]
    finally:
        trials.close()
    distinct = {repr(entry["tools"]): entry["tools"] for entry in listed}
    assert distinct
    for tools in distinct.values():
        body: Any = {"model": "scripted", "messages": [{"role": "user", "content": "?"}], "tools": tools}
        read = CHAT.read(Incoming(body))
        assert [tool.name for tool in read.request.tools] == [tool["function"]["name"] for tool in tools]
