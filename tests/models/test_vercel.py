"""Vercel's AI SDK, its three providers over four wires: whole trials, single replies and failures. `make test-node` installs it."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from whichloop.datasets import arithmetic
from whichloop.experiments.serve.pages import SuiteTrials
from whichloop.models.profiles import load_profile
from whichloop.models.server import ServedTrial, Server
from whichloop.protocol import ContextOverflow, NativeCall, ProviderError, Reply, Usage

from .served import Book, fixed, struck_by

HERE = Path(__file__).parent / "vercel"
NODE = shutil.which("node")
WIRES = ("chat", "responses", "messages", "gemini")
RUNS = [f"{wire}, {mode}" for wire in WIRES for mode in ("generate", "stream")]

pytestmark = [
    pytest.mark.node,
    pytest.mark.skipif(NODE is None, reason="node is not installed"),
    pytest.mark.skipif(not (HERE / "node_modules" / "ai").is_dir(), reason="the AI SDK is not installed: make test-node"),
]


def told(open_server: Callable[[], Server], script: str, *arguments: str) -> Any:
    """Run a script against a server of its own, and return what it prints."""

    async def whole() -> Any:
        async with open_server() as server:
            command = [str(NODE), script, server.url, *arguments]
            pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            child = await asyncio.create_subprocess_exec(*command, cwd=HERE, **pipes)
            out, errors = await child.communicate()
        assert child.returncode == 0, errors.decode()
        return json.loads(out)

    return asyncio.run(whole())


# --- whole trials ---


@cache
def trials() -> dict[str, list[dict[str, Any]]]:
    suite = arithmetic.load()
    served = SuiteTrials(replace(suite, tasks=suite.tasks[:3]), load_profile("clean"))
    try:
        return dict(told(lambda: Server(served, more=served.more), "trials.mjs", *WIRES))
    finally:
        served.close()


@pytest.mark.parametrize("run", RUNS)
def test_it_solves_every_task_with_the_tools_of_the_suite(run: str) -> None:
    found = trials()[run]
    assert [trial["score"] for trial in found] == [1] * 3
    assert all(trial["steps"] > 1 for trial in found)
    assert all(trial["tokens"] > 0 for trial in found)


def test_the_way_is_the_same_over_every_wire() -> None:
    assert len({tuple(trial["steps"] for trial in found) for found in trials().values()}) == 1


# --- single replies ---

CALLS = (NativeCall("call_0", "add", '{"a": 1, "b": 2}'), NativeCall("call_1", "add", '{"a": 3, "b": 4}'))
SERVED: dict[str, ServedTrial] = {
    "said": fixed(Reply("It is 3.", (), Usage(10, 5))),
    "called": fixed(Reply("I add.", CALLS, Usage(10, 5), "tool_calls")),
    "malformed": fixed(Reply("", (NativeCall("call_0", "add", '{"a": '),), Usage(10, 5), "tool_calls")),
    "limited": fixed(ProviderError("no", "rate_limit")),
    "failed": fixed(ProviderError("no", "server")),
    "busy": fixed(ProviderError("no", "overloaded")),
    "long": fixed(ContextOverflow("9 of 8")),
    "interrupted": struck_by("provider.interrupted"),
}


@cache
def replies() -> dict[str, dict[str, list[Any]]]:
    return dict(told(lambda: Server(Book(**SERVED)), "replies.mjs", ",".join(WIRES), ",".join(SERVED)))


@pytest.mark.parametrize("wire", WIRES)
def test_texts_and_calls_are_read(wire: str) -> None:
    for met in replies()[wire]["said"]:
        assert met == {"text": "It is 3.", "calls": [], "finish": "stop", "tokens": 15}
    for met in replies()[wire]["called"]:
        calls = [["add", {"a": 1, "b": 2}, False], ["add", {"a": 3, "b": 4}, False]]
        assert met == {"text": "I add.", "calls": calls, "finish": "tool-calls", "tokens": 15}


@pytest.mark.parametrize(
    ("wire", "whole", "stream"),
    [
        ("chat", [["add", '{"a": ', True]], [["add", '{"a": ', True]]),
        ("responses", [["add", '{"a": ', True]], [["add", '{"a": ', True]]),
        ("messages", [["add", {}, False]], [["add", '{"a": ', True]]),
        ("gemini", [], []),
    ],
)
def test_a_malformed_call_is_met_as_the_wire_can_say_it(wire: str, whole: list[Any], stream: list[Any]) -> None:
    """Messages has objects in whole replies, Gemini everywhere: there the reason of the end is an error."""
    met = replies()[wire]["malformed"]
    assert [reply["calls"] for reply in met] == [whole, stream]
    assert {reply["finish"] for reply in met} == {"error" if wire == "gemini" else "tool-calls"}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("trial", "status", "retryable"), [("limited", 429, True), ("failed", 500, True), ("busy", 503, True), ("long", 400, False)]
)
def test_failures_are_told_with_their_status(wire: str, trial: str, status: int, retryable: bool) -> None:
    expected = 529 if (wire, trial) == ("messages", "busy") else status
    for met in replies()[wire][trial]:
        assert (met["failed"], met["status"], met["retryable"]) == ("AI_APICallError", expected, retryable)


@pytest.mark.parametrize("wire", WIRES)
def test_an_error_in_the_middle_of_a_stream_is_no_good_end(wire: str) -> None:
    whole, stream = replies()[wire]["interrupted"]
    assert whole["status"] == 500
    assert stream["text"]
    assert stream["failed"]
