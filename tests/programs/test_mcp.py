"""A trial's tools over MCP: each message by itself, the bridge to standard input and output, and the official SDK as a client."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopbench.models.fake import FakeModel
from loopbench.models.server.refusals import Refusal
from loopbench.models.wires.fields import BadRequest
from loopbench.programs import mcp
from loopbench.programs.environment import MCP_BRIDGE
from loopbench.programs.gateway import served
from loopbench.programs.program import Program
from loopbench.programs.trial import ProgramTrial
from loopbench.protocol import Act, Answer, Query, Tool, Toolbox, ToolCall

AGENT = Path(__file__).with_name("mcp_agent.py")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)
METHODS = (
    st.sampled_from(["initialize", "ping", "tools/list", "tools/call", "notifications/initialized", "resources/list"]) | VALUES
)


def double(n: int) -> int:
    """Twice a number."""
    return 2 * n


def fail() -> int:
    """Fails."""
    raise ValueError("the pump is dry")


TOOLS = Toolbox((Tool.from_function(double), Tool.from_function(fail)))


def ask(method, params=None, trial=None):
    message = {"jsonrpc": "2.0", "id": 7, "method": method, **({} if params is None else {"params": params})}
    return asyncio.run(mcp.answer(trial or ProgramTrial(FakeModel(), TOOLS, None), message))


def test_it_introduces_itself_in_the_protocol_that_was_asked_for():
    for asked in mcp.VERSIONS:
        assert ask("initialize", {"protocolVersion": asked})["result"]["protocolVersion"] == asked
    assert ask("initialize", {"protocolVersion": "2030-01-01"})["result"]["protocolVersion"] == mcp.VERSIONS[0]


def test_it_lists_the_tools_with_their_schemas():
    listed = ask("tools/list")["result"]["tools"]
    assert [tool["name"] for tool in listed] == ["double", "fail"]
    assert listed[0]["inputSchema"]["required"] == ["n"]


@pytest.mark.parametrize(
    ("name", "arguments", "text", "is_error"),
    [
        ("double", {"n": 4}, "8", False),
        ("fail", {}, "ValueError: the pump is dry", True),
        ("double", {"n": "four"}, "InvalidArguments", True),
        ("triple", {}, "UnknownTool", True),
    ],
)
def test_a_tools_error_is_a_result_that_the_model_sees(name, arguments, text, is_error):
    result = ask("tools/call", {"name": name, "arguments": arguments})["result"]
    assert text in result["content"][0]["text"]
    assert result["isError"] is is_error


@given(st.fixed_dictionaries({"jsonrpc": st.just("2.0"), "id": VALUES, "method": METHODS, "params": VALUES}))
def test_each_request_has_one_answer_under_its_own_id(message):
    answer = asyncio.run(mcp.answer(ProgramTrial(FakeModel(), TOOLS, None), message))
    assert answer is not None
    assert answer["id"] == message["id"]
    assert ("result" in answer) != ("error" in answer)


@given(METHODS, VALUES)
def test_a_notification_has_none(method, params):
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    assert asyncio.run(mcp.answer(ProgramTrial(FakeModel(), TOOLS, None), message)) is None


@pytest.mark.parametrize("message", [None, 3, [], {}, {"id": 1, "method": "ping"}, {"jsonrpc": "1.0", "id": 1, "method": "ping"}])
def test_what_is_no_message_is_refused(message):
    with pytest.raises(BadRequest):
        asyncio.run(mcp.answer(ProgramTrial(FakeModel(), TOOLS, None), message))


def test_a_trial_that_is_over_runs_no_tool():
    trial = ProgramTrial(FakeModel(), TOOLS, None)
    trial.close()
    with pytest.raises(Refusal, match="over"):
        ask("tools/call", {"name": "double", "arguments": {"n": 1}}, trial)


def through_the_bridge(lines):
    async def talk():
        async with served(ProgramTrial(FakeModel(), TOOLS, None)) as url:
            process = await asyncio.create_subprocess_exec(
                sys.executable, str(MCP_BRIDGE), f"{url}/mcp", stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            out, _ = await process.communicate("\n".join(lines).encode())
            return [json.loads(line) for line in out.splitlines()]

    return asyncio.run(talk())


@pytest.mark.thorough
def test_the_bridge_passes_each_message_on():
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": mcp.VERSIONS[0]}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "double", "arguments": {"n": 4}}},
    ]
    answers = through_the_bridge([json.dumps(messages[0]), "", *map(json.dumps, messages[1:]), "no JSON", '{"id": 3}'])
    assert [answer["id"] for answer in answers] == [1, 2, 3]
    assert answers[1]["result"]["content"][0]["text"] == "8"
    assert "400" in answers[2]["error"]["message"]


def with_the_sdk():
    """An environment that has the SDK and OpenAI's client; the one of a framework does."""
    home = Path(os.environ.get("LOOPBENCH_HOME", "/nonexistent")) / "frameworks" / "openai_agents"
    return home if list(home.glob("lib/python*/site-packages/mcp-2*")) else None


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["http", "stdio"])
def test_the_official_sdk_is_served(way):
    venv = with_the_sdk()
    if venv is None:
        pytest.skip("no environment with the package mcp: loopbench frameworks install openai_agents makes one")
    model = FakeModel(Act("", (ToolCall("double", {"n": 4}),)), Act("", (ToolCall("fail", {}),)), then=Answer("", "42"))
    outcome = asyncio.run(Program(f"python {AGENT} {way}", venv=str(venv)).run(Query("What is it?"), TOOLS, model))
    assert outcome.answer == "42"
    assert [message.content for message in model.requests[-1].messages if message.role == "tool"] == [
        "8",
        "ValueError: the pump is dry",
    ]
