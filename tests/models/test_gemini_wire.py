"""What only Gemini's API has: addresses, names in two cases, schemas of its own, signatures, and calls that cannot be written."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.models.server.server import segments, wire_for
from whichloop.models.wires.base import BadRequest, Incoming, WireRequest
from whichloop.models.wires.gemini import GEMINI, signature
from whichloop.protocol import Message, NativeCall, Reply, Sampling, ToolSpec

from .test_wires import STAMP
from .wire_refusals import ASK

ADD = {"name": "add", "description": "Adds.", "parameters": {"type": "OBJECT", "properties": {"a": {"type": "INTEGER"}}}}


def ask(*contents: Any, verb: str = "generateContent", alt: str = "", **fields: Any) -> WireRequest:
    path = segments(f"/v1beta/models/scripted/flaky-tools:{verb}")
    return GEMINI.read(Incoming({"contents": list(contents or [ASK]), **fields}, path, {"alt": alt}))


@pytest.mark.parametrize(
    ("target", "headers", "wire", "kind"),
    [
        ("/v1beta/models/scripted%2Fflaky-tools:countTokens", {}, "gemini", "count"),
        ("/v1/models/ft:gpt-4o:x:generateContent", {}, "gemini", "reply"),
        ("/v1beta/models/scripted:embedContent", {}, "gemini", None),
        ("/v1/chat/completions", {"anthropic-version": "2023-06-01"}, "messages", None),
        ("/v1/models", {"anthropic-version": "2023-06-01"}, "messages", "models"),
    ],
)
def test_which_wire_a_request_is_meant_for(target: str, headers: dict[str, str], wire: str, kind: str | None) -> None:
    found = wire_for(segments(target), headers)
    assert (found.name, found.page(segments(target))) == (wire, kind)


@pytest.mark.parametrize(("alt", "listed"), [("sse", False), ("", True), ("json", True)])
def test_the_model_and_the_form_of_a_stream_stand_in_the_address(alt: str, listed: bool) -> None:
    asked = ask(verb="streamGenerateContent", alt=alt)
    assert (asked.model, asked.stream, asked.listed) == ("scripted/flaky-tools", True, listed)


def in_snake_case(value: Any) -> Any:
    if isinstance(value, list):
        return [in_snake_case(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {re.sub("([A-Z])", lambda found: f"_{found[0].lower()}", name): in_snake_case(inner) for name, inner in value.items()}


@pytest.mark.parametrize("named", [dict, in_snake_case])
def test_every_field_of_a_request_is_read_in_either_case(named: Any) -> None:
    thought = {"text": "I ponder.", "thought": True}
    call = {"functionCall": {"id": "c", "name": "add", "args": {"a": 1}}, "thoughtSignature": "AAAA"}
    answer = {"functionResponse": {"id": "c", "name": "add", "response": {"result": "2"}}}
    config = {"temperature": 0.5, "maxOutputTokens": 9, "topP": 1, "topK": 40, "seed": 3, "stopSequences": ["END"]}
    talk = [
        ASK,
        {"role": "model", "parts": [thought, {"text": "I add."}, call]},
        {"role": "user", "parts": [answer, {"text": "Go."}]},
    ]
    fields = {"systemInstruction": {"parts": {"text": "Be brief."}}, "generationConfig": config, "safetySettings": []}
    body = named({"contents": talk, **fields, "tools": [{"functionDeclarations": [ADD]}, {"googleSearch": {}}]})
    request = ask(*body.pop("contents"), **body).request
    assert request.messages == (
        Message("system", "Be brief."),
        Message("user", "?"),
        Message("assistant", "I add.", (NativeCall("c", "add", '{"a": 1}'),)),
        Message("tool", "2", call_id="c"),
        Message("user", "Go."),
    )
    assert request.tools == (ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}}),)
    assert request.sampling == Sampling(0.5, 9, 1, 3, ("END",))


@pytest.mark.parametrize("named", [dict, in_snake_case])
def test_a_count_may_be_of_a_whole_request_in_one_field(named: Any) -> None:
    body = named({"generateContentRequest": {"model": "x", "contents": [ASK]}})
    incoming = Incoming(body, segments("/v1beta/models/x:countTokens"))
    assert GEMINI.read(incoming).request == ask().request
    with pytest.raises(BadRequest):
        GEMINI.read(replace(incoming, body={"generateContentRequest": 5}))


def test_schemas_become_json_schema() -> None:
    text = {"type": "STRING", "enum": ["a", "b"], "example": "a"}
    several = {"type": "ARRAY", "items": {"any_of": [{"type": "number"}, {"type": "NULL"}]}, "maxItems": "3"}
    given_schema = {"type": "OBJECT", "properties": {"s": text, "l": several, "n": {"type": "INTEGER", "nullable": True}}}
    read = {
        "s": {"type": "string", "enum": ["a", "b"]},
        "l": {"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "null"}]}, "maxItems": 3},
        "n": {"type": ["integer", "null"]},
    }
    in_json = {"responseMimeType": "application/json"}
    asked = ask(generationConfig=in_json | {"responseSchema": given_schema | {"required": "s"}})
    assert asked.request.response_schema == {"type": "object", "properties": read, "required": ["s"]}
    assert ask(generationConfig=in_json | {"responseJsonSchema": {"const": 1}}).request.response_schema == {"const": 1}
    assert ask(generationConfig=in_json).request.response_schema == {}


def called(name: str, call_id: str = "", **part: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "id": call_id}, **part}


def answered(name: str, call_id: str = "", response: Any = None) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "id": call_id, "response": response}}


@pytest.mark.parametrize(
    ("calls", "answers", "ids"),
    [
        ([called("a", "x"), called("b", "y")], [answered("b", "y"), answered("a", "x")], ["y", "x"]),
        ([called("a", "x"), called("a", "y")], [answered("a"), answered("a")], ["x", "y"]),
        ([called("a", "x"), called("a", "y")], [answered("a", "y"), answered("a", "x")], ["y", "x"]),
        ([called("a"), called("b")], [answered("b"), answered("a")], ["call_1", "call_0"]),
        ([called("a"), called("b")], [answered("x"), answered("y", "z")], ["call_0", "call_1"]),
        ([called("a", thoughtSignature=signature("call_7_0"))], [answered("a")], ["call_7_0"]),
    ],
)
def test_whose_answer_it_is(calls: list[Any], answers: list[Any], ids: list[str]) -> None:
    asked = ask(ASK, {"role": "model", "parts": calls}, {"role": "user", "parts": answers})
    assert [message.call_id for message in asked.request.messages[2:]] == ids


@given(st.text(min_size=1, max_size=12).filter(str.isprintable))
def test_an_id_survives_in_its_signature(call_id: str) -> None:
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        written = encode(base64.b64decode(signature(call_id), validate=True)).decode().rstrip("=")
        asked = ask(ASK, {"role": "model", "parts": [called("a", thoughtSignature=written)]}, {"parts": [answered("a")]})
        assert asked.request.messages[1].calls[0].id == call_id


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ({"result": "9"}, "9"),
        ({"name": "add", "content": "9"}, "9"),
        ({"error": "no"}, '{"error": "no"}'),
        ({"result": 1, "more": 2}, '{"result": 1, "more": 2}'),
    ],
)
def test_results_are_unwrapped(response: Any, text: str) -> None:
    asked = ask(ASK, {"role": "model", "parts": [called("add")]}, {"parts": [answered("add", "", response)]})
    assert asked.request.messages[2].content == text


def test_a_call_that_cannot_be_written_ends_the_reply_as_malformed_and_after_a_cut_the_others_stay() -> None:
    calls = (NativeCall("a", "add", '{"a": 1}'), NativeCall("b", "add", '{"a": '))
    for bodies in (
        [GEMINI.reply(ask(), Reply("x", calls), STAMP)],
        list(GEMINI.events(ask(), Reply("x", calls), STAMP)),
    ):
        candidate = bodies[-1]["candidates"][0]
        assert candidate["finishReason"] == "MALFORMED_FUNCTION_CALL"
        assert "functionCall" not in str(bodies)
    (candidate,) = GEMINI.reply(ask(), Reply("", calls, None, "length"), STAMP)["candidates"]
    assert candidate["finishReason"] == "MAX_TOKENS"
    assert [part["functionCall"]["id"] for part in candidate["content"]["parts"]] == ["a"]
