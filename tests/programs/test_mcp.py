"""A trial's tools over MCP: by HTTP, over the bridge to standard input and output, and with the official SDK as a client."""

import asyncio
import contextlib
import json
import shlex

import aiohttp
import pytest
from mcp import Client
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from tests.programs.bench import TOOLS, run
from whichloop.models.fake import FakeModel
from whichloop.models.faults import Fault, FaultPoint
from whichloop.models.metering import MeteredToolbox
from whichloop.models.receipts import call_digest
from whichloop.models.server.mcp import TEXT_RESULT
from whichloop.models.tunnel import Tunnel
from whichloop.programs.gateway import ProgramTrial, served
from whichloop.programs.program import Program

HEAD = {"Accept": "application/json, text/event-stream"}


def disturbed(kind, attempts=1):
    """Tools one of whose calls, double(n=4), suffers a fault."""
    tunnel = Tunnel()
    tunnel.of_call[call_digest("double", {"n": 4})] = Fault(kind, FaultPoint("tool", "c1"), "after", attempts)
    return MeteredToolbox(TOOLS, tunnel=tunnel)


def talked(talk, tools=TOOLS):
    """Run a coroutine function of a trial and its address."""

    async def trial_run():
        trial = ProgramTrial(FakeModel(), tools, None)
        async with served(trial) as url:
            return await talk(trial, f"{url}/mcp")

    return asyncio.run(trial_run())


async def post(url, message, headers=HEAD):
    async with aiohttp.ClientSession() as session, session.post(url, json=message, headers=headers) as response:
        return response.status, await response.read()


def message(method, params=None, number=7):
    return {"jsonrpc": "2.0", "id": number, "method": method, **({} if params is None else {"params": params})}


def call(name, number=7, **arguments):
    return message("tools/call", {"name": name, "arguments": arguments}, number)


def introduction(version):
    return message(
        "initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}, 1
    )


def ask(asked, headers=HEAD):
    status, body = talked(lambda trial, url: post(url, asked, headers))
    return {"status": status, **json.loads(body)}


def test_a_trial_that_has_ended_is_no_longer_served():
    async def looked():
        async with aiohttp.ClientSession() as session:
            async with served(ProgramTrial(FakeModel(), TOOLS, None)) as url:
                during = (await session.get(f"{url}/tools")).status
            return during, (await session.get(f"{url}/tools")).status

    assert asyncio.run(looked()) == (200, 404)


@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
def test_it_introduces_itself_in_the_protocol_that_was_asked_for_and_lists_the_tools(version):
    said = ask(introduction(version))
    assert (said["status"], said["id"], said["result"]["protocolVersion"]) == (200, 1, version)
    assert said["result"]["serverInfo"]["name"] == "whichloop"
    listed = ask(message("tools/list"))["result"]["tools"]
    assert [(tool["name"], tool["inputSchema"]) for tool in listed] == [(spec.name, spec.parameters) for spec in TOOLS.specs]
    assert "outputSchema" not in listed[0]


@pytest.mark.parametrize(
    ("name", "arguments", "text", "is_error"),
    [
        ("double", {"n": 4}, "8", False),
        ("fail", {}, "ValueError: the pump is dry", True),
        ("double", {"n": "four"}, "InvalidArguments", True),
    ],
)
def test_a_tools_error_is_a_result_that_the_model_sees(name, arguments, text, is_error):
    result = ask(call(name, **arguments))["result"]
    assert text in result["content"][0]["text"]
    assert result["isError"] is is_error


def test_plain_clients_and_odd_headers_are_answered_with_json_and_what_is_wrong_with_an_error_of_json_rpc():
    accepts = [{"Accept": kind} for kind in ("application/json", "*/*", "text/event-stream")]
    for headers in (*accepts, {**HEAD, "User-Agent": "中文"}):
        assert ask(call("double", n=4), headers)["result"]["content"][0]["text"] == "8"
    assert ask(message("tools/call", {"name": 3}))["error"]["code"] == -32602
    assert ask(message("resources/list"))["error"]["code"] == -32601


def test_what_is_no_message_and_what_is_no_page_is_refused():
    async def talk(trial, url):
        no_messages: list[object] = [None, 3, [], {}, {"jsonrpc": "1.0", "id": 1, "method": "ping"}]
        statuses = [(await post(url, each))[0] for each in no_messages]
        async with aiohttp.ClientSession() as session, session.get(url, headers=HEAD) as got:
            statuses.append(got.status)
        for foreign in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}):
            statuses.append((await post(url, {}, {**HEAD, **foreign}))[0])
        statuses.append((await post(url.replace("/mcp", "x/mcp"), {}))[0])
        trial.close()
        return [*statuses, (await post(url, call("double", n=1)))[0]]

    assert talked(talk) == [400] * 5 + [405, 403, 403, 404, 404]


@contextlib.asynccontextmanager
async def client_of(server, mode="auto"):
    heard = []

    async def hear(each):
        heard.append(getattr(each, "method", type(each).__name__))

    async with Client(server, mode=mode, message_handler=hear) as client:
        yield client, heard


async def called(client):
    """Kind and text of what the call that suffers the fault gives."""
    try:
        result = await client.call_tool("double", {"n": 4})
    except Exception as error:
        return type(error).__name__, str(error)
    return "error" if result.is_error else "result", result.content[0].text


ENDS = {
    "mcp.error": ("MCPError", "Internal error"),
    "mcp.list_changed": ("MCPError", "Unknown tool: double"),
    "mcp.drifted": ("error", "InvalidArguments: Input validation error: 'revision' is a required property"),
}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("kind", ENDS)
def test_a_fault_of_mcp_reaches_its_client_and_passes(kind, mode):
    async def talk(trial, url):
        async with client_of(url, mode) as (client, heard):
            before = (await client.list_tools()).tools
            first = await called(client)
            during = (await client.list_tools(cache_mode="bypass")).tools
            told = list(heard)
            second = await called(client)
            return before, first, during, told, second, (await client.list_tools(cache_mode="bypass")).tools

    before, first, during, told, second, after = talked(talk, disturbed(kind, attempts=2))
    assert first == second == ENDS[kind]
    assert after == before
    assert told == ([] if kind == "mcp.error" else ["notifications/tools/list_changed"])
    if kind == "mcp.list_changed":
        assert [tool.name for tool in during] == ["fail"]
    elif kind == "mcp.drifted":
        assert during[0].input_schema["required"] == ["n", "revision"]
    else:
        assert during == before


def test_content_cut_short_is_cut_in_text_and_structure():
    async def talk(trial, url):
        async with client_of(f"{url}?structured=1") as (client, _):
            listed = (await client.list_tools()).tools
            return listed, await client.call_tool("double", {"n": 4}), await client.call_tool("double", {"n": 44})

    listed, cut, whole = talked(talk, disturbed("mcp.cut"))
    assert listed[0].output_schema == TEXT_RESULT
    assert (cut.content[0].text, cut.structured_content, cut.is_error) == ("", {"result": ""}, False)
    assert whole.structured_content == {"result": whole.content[0].text}
    assert " 88 " in whole.content[0].text


LINES = [json.dumps(introduction("2025-11-25")), "", '{"jsonrpc": "2.0", "method": "notifications/initialized"}']
LINES += [json.dumps(call("double", 2, n=4)), "no JSON", '{"id": 3}']
BRIDGED = """
import os, shlex, subprocess
done = subprocess.run(shlex.split(os.environ["WHICHLOOP_MCP_COMMAND"]), input={asked!r}, capture_output=True, text=True)
print(done.stdout)
"""


@pytest.mark.thorough
def test_the_bridge_of_an_executable_passes_each_message_on():
    answer = run(Program(shlex.join(["python", "-c", BRIDGED.format(asked="\n".join(LINES))]))).answer
    first, second, third = sorted(map(json.loads, answer.splitlines()), key=lambda each: each["id"])
    assert [each["id"] for each in (first, second, third)] == [1, 2, 3]
    assert second["result"]["content"][0]["text"] == "8"
    assert "400" in third["error"]["message"]
