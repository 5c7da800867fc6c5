"""Faults of servers of tools: what a loop sees of each, what the list shows, and what passes."""

import asyncio
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.models.faults import Fault, FaultPoint, drifted, new_argument
from whichloop.models.metering import MeteredToolbox
from whichloop.models.receipts import call_digest
from whichloop.models.tunnel import Tunnel
from whichloop.protocol import Tool, Toolbox, ToolCall, ToolSpec
from whichloop.protocol.receipts import sightings
from whichloop.protocol.tool_calls import McpError, read_mcp_error


def price(item: str) -> float:
    """What an item costs."""
    return 12345.5


class Quiet:
    def exchange(self, exchange: Any) -> None:
        raise AssertionError("no model is asked")

    def tool_call(self, *heard: Any) -> None:
        """Hear of a call."""


def struck(kind: str, attempts: int) -> MeteredToolbox:
    """Tools whose call price(item="lamp") fails so often."""
    tunnel = Tunnel()
    fault = Fault(kind, FaultPoint("tool", "c1"), "after", attempts)
    tunnel.of_call[call_digest("price", {"item": "lamp"})] = fault
    return MeteredToolbox([Tool.from_function(price)], Quiet(), tunnel)


CALL = ToolCall("price", {"item": "lamp"})
SEEN = {
    "mcp.error": "McpError: Internal error (-32603)",
    "mcp.list_changed": "McpError: Unknown tool: price (-32602)",
    "mcp.drifted": "InvalidArguments: Input validation error: 'revision' is a required property",
    "mcp.cut": "123",
}


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("kind", SEEN)
def test_what_a_loop_sees_and_what_the_list_shows(kind: str, limited: bool) -> None:
    tools: Toolbox = struck(kind, attempts=2)
    if limited:
        tools = tools.limited(5, 100)
    before = tools.listed()
    first = asyncio.run(tools.call(CALL))
    during = tools.listed()
    second = asyncio.run(tools.call(CALL))
    after = tools.listed()
    third = asyncio.run(tools.call(CALL))
    assert first.as_dict()["data"] == second.as_dict()["data"] == SEEN[kind]
    assert not sightings(first.data)
    assert first.ok == (kind == "mcp.cut")
    assert sightings(third.data)
    assert tools.specs == before.tools == after.tools
    shown = {"mcp.list_changed": (), "mcp.drifted": (drifted(before.tools[0]),)}.get(kind)
    assert during.tools == (before.tools if shown is None else shown)
    assert (during.changes, after.changes) == ((0, 0) if shown is None else (1, 2))


NAMES = st.sampled_from(["revision", "revision_", "a", "b"])


@given(st.lists(NAMES, unique=True), st.booleans())
def test_a_drifted_schema_requires_one_argument_more_and_nothing_else(names: list[str], all_required: bool) -> None:
    properties = {name: {"type": "string"} for name in names}
    required = {"required": names} if all_required else {}
    spec = ToolSpec("price", "", {"type": "object", "properties": properties, "additionalProperties": False, **required})
    now = drifted(spec)
    arguments = dict.fromkeys(names, "x")
    added = new_argument(names)
    assert added not in names
    jsonschema.validate(arguments, spec.parameters)
    jsonschema.validate({**arguments, added: "x"}, now.parameters)
    with pytest.raises(jsonschema.ValidationError, match=f"'{added}' is a required property"):
        jsonschema.validate(arguments, now.parameters)


@given(st.integers(-99_999, 99_999), st.text(), st.text(alphabet="ab -1("))
def test_an_error_is_read_as_it_was_written_and_a_text_without_a_code_is_an_internal_one(code: int, message: str, plain: str):
    error = read_mcp_error(str(McpError(code, message)))
    assert (error.code, error.message) == (code, message)
    assert (read_mcp_error(plain).code, read_mcp_error(plain).message) == (-32603, plain)
