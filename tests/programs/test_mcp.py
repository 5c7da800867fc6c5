"""A trial's tools over MCP: by HTTP, over the bridge to standard input and output, and with the official SDK as a client."""

import asyncio
import contextlib
import json
import sys
from pathlib import Path

import aiohttp
import pytest
from mcp import Client, StdioServerParameters
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from tests.programs.bench import TOOLS, run, seen
from whichloop.models.fake import FakeModel
from whichloop.models.faults import Fault, FaultPoint
from whichloop.models.metering import MeteredToolbox, NoListener
from whichloop.models.receipts import call_digest
from whichloop.models.server.mcp import TEXT_RESULT
from whichloop.models.tunnel import Tunnel
from whichloop.programs.gateway import ProgramTrial, served
from whichloop.programs.program import Program
from whichloop.programs.worker import OUTSIDE
from whichloop.protocol import Act, Answer, Tool, Toolbox, ToolCall

AGENT = Path(__file__).with_name("mcp_agent.py")
MCP_BRIDGE = OUTSIDE / "mcp_stdio.py"
HEAD = {"Accept": "application/json, text/event-stream"}


def disturbed(kind, clearing="after", attempts=1):
    """Tools one of whose calls, double(n=4), suffers a fault."""
    tunnel = Tunnel()
    fault = Fault(kind, FaultPoint("tool", "c1"), clearing, attempts)
    tunnel.of_call[call_digest("double", {"n": 4})] = fault
    return MeteredToolbox(TOOLS, NoListener(), tunnel)


def talked(talk, tools=TOOLS, model=None):
    """Run a coroutine function of a trial and its address."""

    async def run():
        trial = ProgramTrial(model or FakeModel(), tools, None)
        async with served(trial) as url:
            return await talk(trial, f"{url}/mcp")

    return asyncio.run(run())


async def post(url, message, headers=HEAD):
    async with aiohttp.ClientSession() as session, session.post(url, json=message, headers=headers) as response:
        return response.status, response.content_type, await response.read()


def ask(method, params=None, tools=TOOLS, **more):
    message = {"jsonrpc": "2.0", "id": 7, "method": method, **({} if params is None else {"params": params})}

    async def once(trial, url):
        return await post(url, message, **more)

    status, kind, body = talked(once, tools)
    assert kind == "application/json"
    return status, json.loads(body)


def introduction(version):
    return {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}


@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
def test_it_introduces_itself_in_the_protocol_that_was_asked_for_and_lists_the_tools(version):
    status, said = ask("initialize", introduction(version))
    assert (status, said["id"], said["result"]["protocolVersion"]) == (200, 7, version)
    assert said["result"]["serverInfo"]["name"] == "whichloop"
    listed = ask("tools/list")[1]["result"]["tools"]
    assert [(tool["name"], tool["inputSchema"]) for tool in listed] == [(spec.name, spec.parameters) for spec in TOOLS.specs]
    assert "outputSchema" not in listed[0]


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
    result = ask("tools/call", {"name": name, "arguments": arguments})[1]["result"]
    assert text in result["content"][0]["text"]
    assert result["isError"] is is_error


def test_plain_clients_and_odd_headers_are_answered_with_json_and_what_is_wrong_with_an_error_of_json_rpc():
    accepts = [{"Accept": kind} for kind in ("application/json", "*/*", "text/event-stream")]
    for headers in (*accepts, {**HEAD, "User-Agent": "中文"}):
        result = ask("tools/call", {"name": "double", "arguments": {"n": 4}}, headers=headers)[1]["result"]
        assert result["content"][0]["text"] == "8"
    assert ask("tools/call", {"name": 3})[1]["error"]["code"] == -32602
    assert ask("resources/list")[1]["error"]["code"] == -32601


NO_MESSAGES: tuple[object, ...] = (None, 3, [], {}, {"jsonrpc": "1.0", "id": 1, "method": "ping"})


def test_what_is_no_message_and_what_is_no_page_is_refused():
    async def talk(trial, url):
        async with aiohttp.ClientSession() as session:
            statuses = [(await post(url, message))[0] for message in NO_MESSAGES]
            async with session.get(url, headers=HEAD) as got:
                statuses.append(got.status)
            for foreign in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}):
                statuses.append((await post(url, {}, {**HEAD, **foreign}))[0])
            statuses.append((await post(url.replace("/mcp", "x/mcp"), {}))[0])
            trial.close()
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "double", "arguments": {"n": 1}}}
            return [*statuses, (await post(url, message))[0]]

    assert talked(talk) == [400] * 5 + [405, 403, 403, 404, 404]


def test_a_client_that_goes_ends_its_call():
    ended = []

    async def wait() -> int:
        """Waits."""
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)
        return 0

    async def talk(trial, url):
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "wait", "arguments": {}}}
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(post(url, message), 0.3)
        while not ended:
            await asyncio.sleep(0.01)

    talked(talk, Toolbox((Tool.from_function(wait),)))
    assert ended == [True]


# --- faults that only MCP has, as the official client sees them ---


@contextlib.asynccontextmanager
async def client_of(server, mode="auto", **more):
    heard = []

    async def hear(message):
        heard.append(getattr(message, "method", type(message).__name__))

    async with Client(server, mode=mode, message_handler=hear, **more) as client:
        yield client, heard


async def called(client, name, arguments):
    """Text and kind of what a call gives."""
    try:
        result = await client.call_tool(name, arguments)
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
            first = await called(client, "double", {"n": 4})
            during = (await client.list_tools(cache_mode="bypass")).tools
            told = list(heard)
            second = await called(client, "double", {"n": 4})
            after = (await client.list_tools(cache_mode="bypass")).tools
        return before, first, during, told, second, after

    before, first, during, told, second, after = talked(talk, disturbed(kind, attempts=2))
    assert first == ENDS[kind]
    assert second == ENDS[kind]
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
            cut = await client.call_tool("double", {"n": 4})
            whole = await client.call_tool("double", {"n": 44})
        return listed, cut, whole

    listed, cut, whole = talked(talk, disturbed("mcp.cut"))
    assert listed[0].output_schema == TEXT_RESULT
    assert (cut.content[0].text, cut.structured_content, cut.is_error) == ("", {"result": ""}, False)
    assert whole.structured_content == {"result": whole.content[0].text}
    assert " 88 " in whole.content[0].text


# --- over standard input and output ---


def test_the_bridge_passes_each_message_on():
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "double", "arguments": {"n": 4}}}
    messages: list[dict[str, object]] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": introduction("2025-11-25")},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        call,
    ]
    lines = [json.dumps(messages[0]), "", *map(json.dumps, messages[1:]), "no JSON", '{"id": 3}']

    async def talk(trial, url):
        process = await asyncio.create_subprocess_exec(sys.executable, str(MCP_BRIDGE), url, stdin=-1, stdout=-1)
        out, _ = await process.communicate("\n".join(lines).encode())
        return sorted(map(json.loads, out.splitlines()), key=lambda answer: answer["id"])

    first, second, third = talked(talk)
    assert [answer["id"] for answer in (first, second, third)] == [1, 2, 3]
    assert second["result"]["content"][0]["text"] == "8"
    assert "400" in third["error"]["message"]


def test_a_change_of_the_list_goes_over_the_bridge():
    async def talk(trial, url):
        async with client_of(StdioServerParameters(command=sys.executable, args=[str(MCP_BRIDGE), url])) as (client, heard):
            first, second = [await called(client, "double", {"n": 4}) for _ in range(2)]
            return first, heard, second

    first, heard, second = talked(talk, disturbed("mcp.list_changed"))
    assert first == ENDS["mcp.list_changed"]
    assert heard == ["notifications/tools/list_changed"]
    assert second[0] == "result"


@pytest.mark.slow
def test_an_agent_with_the_official_sdk_is_served_in_either_way():
    """By one process, which takes two seconds to import the SDK."""
    calls = Act("", (ToolCall("double", {"n": 4}),)), Act("", (ToolCall("fail", {}),))
    model = FakeModel(*calls, Answer("", "by HTTP"), *calls, Answer("", "over the bridge"))
    outcome = run(Program(f"python {AGENT} http stdio"), model)
    assert outcome.answer == "by HTTP\nover the bridge"
    for last in (2, 5):
        assert seen(model.requests[last]) == ["8", "ValueError: the pump is dry"]
