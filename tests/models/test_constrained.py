"""Which JSON schema the requests to a local model have, and that a recording tells them apart."""

from __future__ import annotations

import json

import pytest

from whichloop.loops.bare_codecs import BareCodec, FieldsCodec
from whichloop.loops.phased.codecs import UNDERSTAND
from whichloop.models.fake import FakeModel
from whichloop.models.limits import WithSampling
from whichloop.models.local.model import with_calls_read, with_tools_as_text
from whichloop.models.recording import canonical
from whichloop.protocol import DEFAULT_SAMPLING, Message, Reply, Request, ToolSpec, run_sync
from whichloop.protocol.digest import digest

ADD = ToolSpec("add", "", {"type": "object", "properties": {"a": {"type": "integer"}}})
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


def test_a_recording_knows_requests_apart_by_their_schema():
    digests = {digest(canonical(Request(HELLO, response_schema=schema))) for schema in (None, SCHEMA, BareCodec.schema)}
    assert len(digests) == 3


def test_a_call_that_is_demanded_is_a_schema_of_the_tools_that_may_be_called():
    def names(choice: str) -> list[str]:
        schema = with_tools_as_text(Request(HELLO, (ADD, OTHER), choice)).response_schema
        return [] if schema is None else [call["properties"]["name"]["const"] for call in schema["anyOf"]]

    assert [names(choice) for choice in ("auto", "none", "other", "required")] == [[], [], ["other"], ["add", "other"]]


def test_a_demanded_call_is_read_without_its_tags():
    said = Reply(json.dumps({"name": "add", "arguments": {"a": 1}}))
    (call,) = with_calls_read(said, Request(HELLO, (ADD,), "add")).calls
    assert (call.name, json.loads(call.arguments)) == ("add", {"a": 1})
    assert with_calls_read(said, Request(HELLO, (ADD,))) == said  # not demanded: a JSON answer stays text
