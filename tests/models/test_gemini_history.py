"""Gemini's contents as messages: whose answer a result is, whatever a client keeps of a call, and what it says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.models.wires.gemini import read_request
from whichloop.models.wires.gemini_history import signature
from whichloop.protocol import Message

USER = {"role": "user", "parts": [{"text": "hello"}]}


def history(calls: list[Any], answers: list[Any]) -> list[Message]:
    contents = [USER, {"role": "model", "parts": calls}, {"role": "user", "parts": answers}]
    return list(read_request({"contents": contents}, "m").request.messages)[1:]


def called(name: str, call_id: str | None = None, **part: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name} | ({"id": call_id} if call_id else {}), **part}


def answered(name: str, text: str, call_id: str | None = None) -> dict[str, Any]:
    given = {"name": name, "response": {"result": text}} | ({"id": call_id} if call_id else {})
    return {"functionResponse": given}


@pytest.mark.parametrize(
    ("calls", "answers", "ids"),
    [
        ([called("a", "x"), called("b", "y")], [answered("b", "2", "y"), answered("a", "1", "x")], ["y", "x"]),
        ([called("a", "x"), called("b", "y")], [answered("b", "2"), answered("a", "1")], ["y", "x"]),
        ([called("a", "x"), called("a", "y")], [answered("a", "1"), answered("a", "2")], ["x", "y"]),
        ([called("a", "x"), called("a", "x")], [answered("a", "1", "x"), answered("a", "2", "x")], ["x", "x"]),
        ([called("a", "x"), called("b", "y")], [answered("c", "1"), answered("d", "2")], ["x", "y"]),
        ([called("a"), called("b")], [answered("b", "2"), answered("a", "1")], ["call_1", "call_0"]),
        ([called("a", thoughtSignature=signature("call_7_0"))], [answered("a", "1")], ["call_7_0"]),
        ([called("a", thoughtSignature="no base64!")], [answered("a", "1")], ["call_0"]),
        ([called("a", thoughtSignature="bW9kZWw=")], [answered("a", "1")], ["call_0"]),
    ],
)
def test_whose_answer_it_is(calls, answers, ids):
    call, *results = history(calls, answers)
    assert [result.call_id for result in results] == ids
    assert {result.call_id for result in results} == {made.id for made in call.calls}


@given(st.text(max_size=12).filter(lambda text: text.isprintable()))
def test_an_id_survives_in_its_signature(call_id):
    for written in (signature(call_id), signature(call_id).rstrip("="), signature(call_id).replace("+", "-").replace("/", "_")):
        (made,) = history([called("a", thoughtSignature=written)], [answered("a", "1")])[0].calls
        assert made.id == (call_id or "call_0")


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ({"result": "9"}, "9"),
        ({"output": 9}, "9"),
        ({"content": {"a": 1}}, '{"a": 1}'),
        ({"name": "add", "content": "9"}, "9"),
        ({"error": "no"}, '{"error": "no"}'),
        ({"result": 1, "more": 2}, '{"result": 1, "more": 2}'),
        ({"name": "Ada"}, '{"name": "Ada"}'),
        ({}, "{}"),
    ],
)
def test_results_are_unwrapped(response, text):
    _, result = history([called("add")], [{"functionResponse": {"name": "add", "response": response}}])
    assert result.content == text


def test_a_text_beside_results_is_a_message_of_its_own():
    _, result, said = history([called("add")], [answered("add", "9"), {"text": "Go on."}])
    assert (result.role, said) == ("tool", Message("user", "Go on."))
