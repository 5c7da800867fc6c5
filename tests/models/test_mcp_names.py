"""Tools that a client of MCP offers under the server's name are the suite's, and calls come back under the client's names."""

from hypothesis import given
from hypothesis import strategies as st

from whichloop.models.wires.base import WireRequest, with_client_names, with_suite_names
from whichloop.protocol import Message, NativeCall, Reply, Request, ToolSpec

OWN = ("add", "look_up", "list")
FORMS = st.sampled_from(["mcp__whichloop__{}", "whichloop_{}", "mcp_whichloop_{}", "whichloop.{}", "mcp.whichloop/{}"])
OTHERS = ("bash", "mcp__other__add", "whichloop_unknown", "mywhichloop_add", "whichloop")


def asked(*names, choice=None, calls=()):
    tools = tuple(ToolSpec(name, "", {"type": "object"}) for name in names)
    messages = (Message("user", "?"), Message("assistant", "", calls=calls))
    return WireRequest(Request(messages, tools, choice), "any")


@given(FORMS, st.sampled_from(OWN), st.booleans())
def test_a_name_goes_there_and_back(form, tool, chosen):
    given_name = form.format(tool)
    made = asked(given_name, *OTHERS, choice=given_name if chosen else "auto", calls=(NativeCall("c", given_name, "{}"),))
    read, names = with_suite_names(made, OWN)
    assert [spec.name for spec in read.request.tools] == [tool, *OTHERS]
    assert read.request.tool_choice == (tool if chosen else "auto")
    assert read.request.messages[1].calls[0].name == tool
    reply = Reply("", (NativeCall("c1", tool, "{}"), NativeCall("c2", "bash", "{}")))
    assert [call.name for call in with_client_names(reply, names).calls] == [given_name, "bash"]


@given(st.lists(st.sampled_from([*OWN, *OTHERS]), unique=True))
def test_without_such_names_nothing_changes(names):
    made = asked(*names)
    read, found = with_suite_names(made, OWN)
    assert read is made
    reply = Reply("", (NativeCall("c1", "add", "{}"),))
    assert with_client_names(reply, found) is reply


def test_a_name_that_its_client_had_to_replace_is_known():
    read, names = with_suite_names(asked("shop_price", "mcp__whichloop__get_it"), ("shop.price", "get it"))
    assert [spec.name for spec in read.request.tools] == ["shop.price", "get it"]
    assert names == {"shop.price": "shop_price", "get it": "mcp__whichloop__get_it"}


def test_a_tool_that_is_offered_by_its_own_name_keeps_it():
    made = asked("add", "whichloop_add")
    assert with_suite_names(made, OWN) == (made, {})
