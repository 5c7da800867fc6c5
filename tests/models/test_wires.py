"""What holds of every wire: what is said reads back, whole and streamed, and no body does more harm than to be refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.models.server import Server
from whichloop.models.server.server import segments
from whichloop.models.wires import WIRES
from whichloop.models.wires.base import (
    MAX_DEPTH,
    BadRequest,
    Incoming,
    Refusal,
    Stamp,
    WireRequest,
    with_client_names,
    with_suite_names,
)
from whichloop.protocol import Message, NativeCall, Reply, Request, Role, ToolSpec, Usage
from whichloop.protocol.wire import to_json

from .served import QUESTION, Book, fixed, run
from .wire_clients import CLIENTS, NAME, Said
from .wire_refusals import REFUSALS

BY_NAME = {wire.name: wire for wire in WIRES}
STAMP = Stamp("0123456789abcdef01234567", 1_800_000_000)
wire = pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(st.text(max_size=6), json_values, max_size=3).map(to_json)
texts = st.text(max_size=20).filter(str.strip)


@st.composite
def replies(draw: st.DrawFn, *, raw: bool = False) -> Reply:
    """Replies as a model gives them. `raw`: arguments may be anything."""
    made = draw(st.lists(st.tuples(st.sampled_from([NAME, "look_up"]), st.text(max_size=40) if raw else objects), max_size=2))
    calls = tuple(NativeCall(f"call_{place}", *call) for place, call in enumerate(made))
    text = draw(texts) if not calls else draw(texts | st.just(""))
    usage = Usage(draw(st.integers(0, 999)), draw(st.integers(0, 999)))
    finish: Any = draw(st.sampled_from(["tool_calls" if calls else "stop", "length", "content_filter"]))
    return Reply(text, calls, usage, finish)


def read(client: Any, body: Any, *, stream: bool = False) -> WireRequest:
    path, _, query = client.path(stream=stream).partition("?")
    return BY_NAME[client.wire].read(Incoming(body, segments(path), dict(httpx.QueryParams(query)), client.headers))


def problem(client: Any, body: Any) -> BadRequest | None:
    """Return why a body is refused; of one that is read, make sure that it can be answered."""
    server = BY_NAME[client.wire]
    try:
        asked = read(client, body)
    except BadRequest as error:
        return error if len(str(error).splitlines()) == 1 else pytest.fail(f"not one line: {error}")
    for reply in (Reply("2", usage=Usage(3, 1)), Reply("", (NativeCall("call_0", NAME, "{"),))):
        made = [server.reply(asked, reply, STAMP), *server.events(asked, reply, STAMP), server.remembered(asked, reply, STAMP)]
        assert json.dumps(made)
    return None


def whole(client: Any, reply: Reply, stamp: Stamp = STAMP) -> Any:
    """Return the body of a whole answer, once over JSON."""
    return json.loads(json.dumps(BY_NAME[client.wire].reply(read(client, client.body()), reply, stamp)))


def streamed(client: Any, reply: Reply) -> Any:
    server = BY_NAME[client.wire]
    asked = read(client, client.body(stream=True), stream=True)
    events = [(event.get("type", ""), json.dumps(event)) for event in server.events(asked, reply, STAMP)]
    return client.read_stream(events + ([("", "[DONE]")] if server.stream_end else []))


def calls_of(said: Said) -> list[tuple[str, Any]]:
    """Return names and arguments, which some vendors send as a text and some as an object."""
    return [(call.name, json.loads(call.arguments) if isinstance(call.arguments, str) else call.arguments) for call in said.calls]


@wire
@given(replies())
def test_a_reply_reads_back_whole_and_streamed(client: Any, reply: Reply) -> None:
    made, stream = client.read(whole(client, reply)), streamed(client, reply)
    assert made.text == stream.text == reply.text
    assert calls_of(made) == calls_of(stream) == [(call.name, json.loads(call.arguments)) for call in reply.calls]
    assert [call.id for call in made.calls] == [call.id for call in stream.calls]
    assert made.finish == stream.finish == client.finish[reply.finish_reason]
    assert reply.usage is not None
    assert made.tokens == stream.tokens == (reply.usage.input_tokens, reply.usage.output_tokens)
    assert stream.ended


@wire
@given(replies(raw=True))
def test_a_stream_says_what_the_whole_says_whatever_a_fault_makes_of_the_arguments(client: Any, reply: Reply) -> None:
    made, stream = client.read(whole(client, reply)), streamed(client, reply)
    assert (made.text, made.finish, [call.id for call in made.calls]) == (
        stream.text,
        stream.finish,
        [call.id for call in stream.calls],
    )
    if client.wire != "gemini":  # there such a call cannot be written
        assert [call.arguments for call in stream.calls] == [call.arguments for call in reply.calls]


Talk = list[tuple[Reply, list[str], bool]]
talks: st.SearchStrategy[Talk] = st.lists(
    replies().flatmap(lambda reply: st.tuples(st.just(reply), st.lists(texts, min_size=3, max_size=3), st.booleans())),
    min_size=1,
    max_size=3,
)
"""Replies, with the results of their calls, and whether these come in the order of the calls or in reverse. A loop goes on after a
cut reply as after any other."""


def conversation(client: Any, talk: Talk) -> list[Any]:
    items = [client.user(QUESTION)]
    for number, (reply, results, ordered) in enumerate(talk):
        said = whole(client, reply, Stamp(f"{number:024x}", 1))
        made = list(zip(client.read(said).calls, results, strict=False))[:: 1 if ordered else -1]
        items += client.turn(said, made) + ([] if reply.calls else [client.user("Go on.")])
    return items


def expected(talk: Talk) -> Iterator[Message]:
    yield Message("user", QUESTION)
    for reply, results, ordered in talk:
        yield Message("assistant", reply.text, reply.calls)
        made = [Message("tool", result, call_id=call.id) for call, result in zip(reply.calls, results, strict=False)]
        yield from made[:: 1 if ordered else -1] or [Message("user", "Go on.")]


@wire
@settings(max_examples=cases(15))
@given(talks)
def test_a_conversation_that_a_client_passes_back_is_read_as_it_was(client: Any, talk: Talk) -> None:
    asked = read(client, client.body() | {client.conversation: conversation(client, talk)})
    assert asked.request.messages == tuple(expected(talk))


@wire
@settings(max_examples=cases(15))
@given(talks, st.sampled_from(["lost", "doubled", "moved", "parted"]), st.data())
def test_every_call_has_one_result_right_after_it(client: Any, talk: Talk, how: str, data: st.DataObject) -> None:
    items = conversation(client, talk)
    results = [place for place, item in enumerate(items) if is_result(item)]
    if not results:
        return
    place = data.draw(st.sampled_from(results))
    broken = {
        "lost": [*items[:place], *items[place + 1 :]],
        "doubled": [*items[: place + 1], items[place], *items[place + 1 :]],
        "moved": [items[place], *items[:place], *items[place + 1 :]],
        "parted": [*items[:place], client.user("Wait."), *items[place:]],
    }[how]
    error = problem(client, client.body() | {client.conversation: broken})
    assert error is not None
    assert (error.param or "").startswith(client.conversation)


def is_result(item: Any) -> bool:
    """Return whether an item of a conversation holds results of calls."""
    text = json.dumps(item)
    return item.get("role") in ("user", "tool", None) and any(
        word in text for word in ("tool_call_id", "function_call_output", "tool_result", "functionResponse")
    )


@wire
@pytest.mark.parametrize("choice", ["auto", "none", "required", NAME])
def test_how_the_model_is_to_call_is_read(client: Any, choice: str) -> None:
    assert read(client, client.body() | client.choice(choice)).request.tool_choice == choice


@wire
def test_a_tool_is_forced_that_is_offered(client: Any) -> None:
    for body in (client.body() | client.choice("another"), client.body() | {"tools": None} | client.choice("required")):
        assert problem(client, body) is not None


@wire
def test_a_loop_s_own_client_says_its_role_and_scope(client: Any) -> None:
    field = "labels" if client.wire == "gemini" else "metadata"
    asked = read(client, client.body() | {field: {"role": "plan", "scope": "s", "codec": "k", "examples": "1"}})
    assert (asked.request.role, asked.request.scope, asked.request.examples) == (Role.PLAN, "s", 1)
    assert asked.metadata["codec"] == "k"
    for wrong in ({"role": "boss"}, {"examples": "2"}, {"examples": "²"}, {"examples": "9" * 500}):
        assert problem(client, client.body() | {field: wrong}) is not None


@wire
@given(json_values)
def test_any_body_is_read_or_refused(client: Any, body: Any) -> None:
    assert problem(client, body) is not None


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value in a body."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*at, key)
        yield from places(inner, (*at, key))


_SCHEMA = {"type": "object", "properties": {"a": {"type": "array", "items": {"enum": ["x"]}}, "b": {"anyOf": [{"type": "null"}]}}}
_GEMINI = {
    "type": "OBJECT",
    "properties": {
        "a": {"type": "ARRAY", "items": {"type": "STRING", "enum": ["x"], "maxItems": "3"}},
        "b": {"type": "STRING", "nullable": True},
    },
    "required": ["a"],
}
MORE: dict[str, dict[str, Any]] = {
    "chat": {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": _SCHEMA}}, "stop": ["x"]},
    "responses": {"text": {"format": {"type": "json_schema", "name": "x", "schema": _SCHEMA}}, "reasoning": {"effort": "low"}},
    "messages": {
        "output_config": {"format": {"type": "json_schema", "schema": _SCHEMA}},
        "system": [{"type": "text", "text": "x"}],
    },
    "gemini": {
        "tools": None,
        "toolConfig": None,
        "generationConfig": {"responseMimeType": "application/json", "responseSchema": _GEMINI},
    },
}
"""Wire → further fields of a request."""


def full(client: Any) -> Any:
    """Return a request of many fields: a call with its result, a tool that is forced, a schema, a limit."""
    talk = [(Reply("I add.", (NativeCall("call_0", NAME, '{"a": 1}'),), Usage(1, 1), "tool_calls"), ["2"], True)]
    return client.body(max_tokens=99) | client.choice(NAME) | MORE[client.wire] | {client.conversation: conversation(client, talk)}


words = st.sampled_from(["", "auto", "function", "object", "STRING", "array", "²", "a b", NAME, {"type": "array"}, {"name": NAME}])


@wire
def test_a_request_of_many_fields_is_read(client: Any) -> None:
    assert problem(client, full(client)) is None


@wire
@given(json_values | words, st.booleans(), st.data())
def test_anything_in_any_place_is_read_or_refused(client: Any, value: Any, drops: bool, data: st.DataObject) -> None:
    body = copy.deepcopy(full(client))
    *way, last = data.draw(st.sampled_from(list(places(body))))
    holder = body
    for key in way:
        holder = holder[key]
    if drops:
        del holder[last]
    else:
        holder[last] = value
    problem(client, body)


@wire
def test_a_body_of_many_faults_is_refused_for_the_first(client: Any) -> None:
    body = client.body()
    (name,) = {"messages", "input", "contents"} & body.keys()
    refused = problem(client, body | {name: [1] * 200_000})
    assert refused is not None
    assert refused.param == f"{name}.0"


@wire
def test_a_body_that_is_nested_too_deep_is_refused(client: Any) -> None:
    deep: Any = {}
    for _ in range(MAX_DEPTH):
        deep = {"x": deep}
    assert "nested" in str(problem(client, client.body() | {"tools": [deep]}))
    for _ in range(5_000):
        deep = [deep]
    assert "nested" in str(problem(client, client.body() | {"tools": [deep]}))


@wire
def test_what_is_refused_names_its_field(client: Any) -> None:
    for case in (case for case in REFUSALS if case.wire == client.wire):
        error = problem(client, case.body(client))
        assert error is not None, case.what
        assert (error.param or "").startswith(case.param), case.what


def test_a_client_meets_each_refusal_with_its_vendors_status_and_type() -> None:
    async def work(server: Server, _: Any) -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=server.url) as http:
            return [
                await http.post(client.path(stream=False), json=case.body(client), headers=client.headers)
                for case, client in ((case, CLIENTS[case.wire]) for case in REFUSALS)
            ]

    for case, answer in zip(REFUSALS, run(work, Book(any=fixed(Reply("x")))), strict=True):
        assert answer.status_code == case.status, case.what
        assert CLIENTS[case.wire].error(answer.json()) == (case.code or CLIENTS[case.wire].refused), case.what


@wire
def test_an_error_has_the_vendors_form(client: Any) -> None:
    for status in (400, 401, 403, 404, 405, 413, 429, 500, 503, 504):
        told, body, headers = BY_NAME[client.wire].failure(Refusal(status, "no", wait_s=1.5 if status == 429 else None))
        assert told == (529 if (client.wire, status) == ("messages", 503) else status)
        assert body["error"]["message"].startswith("no")
        assert client.error(body)
        assert status < 500 or client.error(body) != client.refused
        waits = "retry-after" in {name.lower() for name in headers} or bool(client.wait(body))
        assert waits == (status == 429)


OWN = ("add", "look_up", "list")
FORMS = st.sampled_from(["mcp__whichloop__{}", "whichloop_{}", "mcp_whichloop_{}", "whichloop.{}", "mcp.whichloop/{}"])
OTHERS = ("bash", "mcp__other__add", "whichloop_unknown", "mywhichloop_add", "whichloop")


def offering(*names, choice=None, calls=()):
    tools = tuple(ToolSpec(name, "", {"type": "object"}) for name in names)
    messages = (Message("user", "?"), Message("assistant", "", calls=calls))
    return WireRequest(Request(messages, tools, choice), "any")


@given(FORMS, st.sampled_from(OWN), st.booleans())
def test_a_name_goes_there_and_back(form, tool, chosen):
    given_name = form.format(tool)
    made = offering(given_name, *OTHERS, choice=given_name if chosen else "auto", calls=(NativeCall("c", given_name, "{}"),))
    read, names = with_suite_names(made, OWN)
    assert [spec.name for spec in read.request.tools] == [tool, *OTHERS]
    assert read.request.tool_choice == (tool if chosen else "auto")
    assert read.request.messages[1].calls[0].name == tool
    reply = Reply("", (NativeCall("c1", tool, "{}"), NativeCall("c2", "bash", "{}")))
    assert [call.name for call in with_client_names(reply, names).calls] == [given_name, "bash"]
    assert with_suite_names(offering(tool, given_name), OWN)[1] == {}
    assert with_suite_names(offering("shop_price"), ("shop.price",))[1] == {"shop.price": "shop_price"}
