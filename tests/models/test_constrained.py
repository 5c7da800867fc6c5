"""Constrained decoding: which grammar a request is sent with, and that a recording tells it apart."""

from __future__ import annotations

from whichloop.loops.bare_codecs import BareCodec, NativeCallCodec
from whichloop.loops.finish.codec import XmlCodec
from whichloop.loops.finish.output import JsonOutput
from whichloop.loops.phased.codecs import UNDERSTAND
from whichloop.models.fake import FakeModel
from whichloop.models.limits import WithSampling
from whichloop.models.local.model import with_tools_as_text
from whichloop.models.recording import canonical
from whichloop.protocol import (
    DEFAULT_SAMPLING,
    AnyCall,
    Codec,
    Grammar,
    JsonValue,
    Message,
    Request,
    TextLine,
    ToolSpec,
    run_sync,
)
from whichloop.protocol.digest import digest

ADD = ToolSpec("add", "", {"type": "object", "properties": {"a": {"type": "integer"}}})
OTHER = ToolSpec("other", "", {"type": "object", "properties": {}})
HELLO = (Message("user", "hello"),)
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def sent(request: Request, *tools: ToolSpec) -> Request:
    """What the model below is asked, whole and streamed alike."""
    model = FakeModel(then="ok")
    constrained = WithSampling(model, DEFAULT_SAMPLING, tools)

    async def both() -> None:
        await constrained.complete(request)
        async for _ in constrained.stream(request):
            pass

    run_sync(both())
    one, two = model.requests
    assert one == two
    return one


def test_a_codecs_grammar_has_the_tools_of_the_trial_or_those_that_the_request_offers():
    codec = BareCodec()
    assert sent(Request(HELLO, codec=codec), ADD).grammar == codec.grammar((ADD,))
    assert sent(Request(HELLO, (OTHER,), codec=codec), ADD).grammar == codec.grammar((OTHER,))


def test_without_a_grammar_of_the_codec_the_schema_is_one_and_else_nothing_is_held_to_anything():
    assert sent(Request(HELLO, response_schema=SCHEMA)).grammar == Grammar(((JsonValue(SCHEMA),),))
    assert sent(Request(HELLO)).grammar is None


def test_a_codec_that_states_a_schema_is_held_to_it_where_the_model_takes_none():
    assert sent(Request(HELLO, codec=UNDERSTAND)).grammar == Grammar(((JsonValue(UNDERSTAND.schema),),))
    assert sent(Request(HELLO, response_schema=SCHEMA, codec=UNDERSTAND)).grammar == Grammar(((JsonValue(SCHEMA),),))


def test_an_answer_in_xml_is_held_to_the_template_of_its_request():
    codec: Codec = XmlCodec(JsonOutput.of(None))
    (parts,) = sent(Request(HELLO, codec=codec)).grammar.alternatives  # type: ignore[union-attr]
    assert parts == ("<output>\n", "    <answer>", TextLine(), "</answer>\n", "</output>")


def test_a_recording_knows_requests_apart_by_their_grammar():
    grammars = [None, Grammar(((TextLine(5),),)), Grammar(((TextLine(6),),)), BareCodec().grammar((ADD,)), BareCodec().grammar(())]
    digests = {digest(canonical(Request(HELLO, grammar=grammar))) for grammar in grammars}
    assert len(digests) == len(grammars)


def test_native_calls_are_written_out_for_the_tools_that_may_be_called():
    free = NativeCallCodec().grammar((ADD, OTHER))
    written = with_tools_as_text(Request(HELLO, (ADD, OTHER), grammar=free)).grammar
    assert written is not None
    assert [AnyCall() in parts for parts in written.alternatives] == [False] * 3
    assert written.alternatives[-1] == (TextLine(),)
    forced = with_tools_as_text(Request(HELLO, (ADD, OTHER), "other", grammar=free)).grammar
    assert forced is not None
    ((_, call, _),) = forced.alternatives
    assert isinstance(call, JsonValue)
    assert call.schema["properties"]["name"] == {"const": "other"}
    required = with_tools_as_text(Request(HELLO, (ADD, OTHER), "required")).grammar
    assert required is not None
    assert len(required.alternatives) == 2
    assert with_tools_as_text(Request(HELLO, (ADD, OTHER), "auto")).grammar is None
