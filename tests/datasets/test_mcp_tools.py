"""The tools of a server of the user's own: what is read of it, its sessions, and how it may fail."""

import asyncio
import re
import shlex
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.datasets.importing.mcp_server import is_mcp, mcp_tools, read_server, tool_server
from whichloop.datasets.task import Task
from whichloop.models.fake import FakeModel
from whichloop.programs.gateway import ProgramTrial, served
from whichloop.protocol import Query, Tool, Toolbox, ToolCall

SHOP = Path(__file__).with_name("mcp_shop.py")
TASK = Task("t", Query("?"), 1)


def shop(behaviour, *more, options=""):
    return f"mcp:{shlex.join([sys.executable, str(SHOP), behaviour, *more])}{options}"


def called(environment, *calls, time_limit_s=None):
    """What calls of an environment give, each as (name, item)."""

    async def run():
        tools = Toolbox(environment.tools, time_limit_s=time_limit_s)
        return [await tools.call(ToolCall(name, {"item": item})) for name, item in calls]

    return asyncio.run(run())


def test_results_errors_and_json_rpc_errors_are_told_apart():
    own = mcp_tools(shop("state"))
    environment = own.open(TASK)
    price, rows, *errors = called(environment, *((name, "lamp") for name in ("price", "rows", "fail", "refuse", "nothing")))
    assert (price.value, price.data, rows.value) == (39.9, "39.9", {"rows": [1, 2]})
    said = [("McpToolFailed", "no such item"), ("McpError", "no tools/call here (-32601)")]
    assert [(error.error_type, error.data) for error in errors[:2]] == said
    assert (errors[2].error_type, environment.state()) == ("UnknownTool", None)
    environment.close()
    assert tool_server(own.name)[:2] == ("shop", "2")
    assert [tool.name for tool in environment.tools] == ["price", "count", "rows", "fail", "refuse", "environment"]
    assert environment.tools[0].description == "The price of an item."
    assert environment.tools[0].parameters["required"] == ["item"]
    assert [tool.name for tool in environment.tools if tool.read_only] == ["price"]


@pytest.mark.parametrize(("options", "second"), [("", [1]), ("(session=trial)", [1]), ("(session=worker)", [3])])
def test_each_trial_has_a_session_of_its_own_unless_all_share_one(options, second):
    own = mcp_tools(shop("state", "alone", options=options))
    first = own.open(TASK)
    assert [seen.value for seen in called(first, ("count", "x"), ("count", "x"))] == [1, 2]
    first.close()
    later = own.open(TASK)
    assert [seen.value for seen in called(later, ("count", "x"))] == second
    later.close()


def test_secrets_are_kept_from_a_command_unless_they_are_named(monkeypatch):
    monkeypatch.setenv("SHOP_API_KEY", "sk-abcdefgh12345678")
    for options, value in (("", "unset"), ('(keys=["SHOP_API_KEY"])', "sk-abcdefgh12345678")):
        environment = mcp_tools(shop("state", options=options)).open(TASK)
        assert called(environment, ("environment", "SHOP_API_KEY"))[0].data == value
        environment.close()


@pytest.mark.parametrize("behaviour", ["ends", "shouts"])  # without end, to standard error, whose last line is told
def test_a_server_that_dies_spoils_its_trial_and_no_later_one(behaviour):
    own = mcp_tools(shop(behaviour, options="(session=worker)"))
    environment = own.open(TASK)
    first, second = called(environment, ("price", "lamp"), ("price", "lamp"))
    assert (first.error_type, first.data) == ("McpServerGone", "its server has ended: the shop is closed")
    assert second.data == first.data
    with pytest.raises(RuntimeError, match="the shop is closed"):
        environment.state()
    own.open(TASK).state()


@pytest.mark.parametrize(
    ("behaviour", "options", "said"),
    [
        ("dies", "", "its server has ended: no licence for this shop"),
        ("hangs", "(start_s=0.5)", "no list of tools within 0.5 s; start_s=… gives it more"),
        ("mcp:http://127.0.0.1:9/mcp", "", "its server cannot be asked: ConnectError"),
    ],
)
def test_a_server_whose_tools_cannot_be_had_is_told_in_one_line(caplog, behaviour, options, said):
    name = behaviour if ":" in behaviour else shop(behaviour, options=options)
    with pytest.raises(ValueError, match=rf"^tools {re.escape(repr(name))}: {re.escape(said)}") as refused:
        mcp_tools(name)
    assert "\n" not in str(refused.value)
    assert not [record for record in caplog.records if record.name.startswith("mcp.")]


@pytest.mark.parametrize("more", ["https://example.org/mcp?api_key=", "python x --key sk-proj-"])
def test_a_secret_in_the_name_is_refused_and_not_repeated(more: str) -> None:
    with pytest.raises(ValueError, match=r"^(?!.*S3CRETWORD).*it holds what looks like a secret"):
        read_server(f"mcp:{more}S3CRETWORD0123456789abcdefghij")


@given(st.text())
def test_any_text_is_read_or_refused_with_its_name(text):
    name = f"mcp:{text}"
    assert is_mcp(name)
    try:
        said = read_server(name).name
    except ValueError as error:
        said = str(error).removeprefix("tools ").partition(": ")[0]
    assert said in (name, repr(name)) or said.startswith(repr(name))


def test_an_address_leads_to_a_server_with_its_token(monkeypatch):
    """Our own: an MCP client and an MCP server of this project, each of which the other holds to its word."""
    monkeypatch.setenv("SHOP_TOKEN", "t-123")

    def double(n: int) -> int:
        """Twice a number."""
        return 2 * n

    async def run():
        trial = ProgramTrial(FakeModel(), Toolbox((Tool.from_function(double),)), None)
        async with served(trial) as url:
            own = await asyncio.to_thread(mcp_tools, f"mcp:{url}/mcp(token=SHOP_TOKEN)")
            environment = own.open(TASK)
            seen = await Toolbox(environment.tools).call(ToolCall("double", {"n": 4}))
            environment.close()
            return own, seen

    own, seen = asyncio.run(run())
    assert seen.value == 8
    assert tool_server(own.name).name == "whichloop"
    assert read_server(own.name).headers() == {"Authorization": "Bearer t-123"}
