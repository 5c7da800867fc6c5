"""Real models over HTTP: what a request asks reaches the wire, and what the server answers comes back."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from typing import Any

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.dspy_seam import DspyModel, clients
from whichloop.models.fake import FakeModel
from whichloop.models.local.model import _as_served, open_model
from whichloop.protocol import Answer, Message, NativeCall, ProviderError, Request, Sampling, ToolSpec, run_sync
from whichloop.protocol.files import Image
from whichloop.protocol.model import IMAGE_TOKENS, estimate_input

from .provider import EACH, HELLO, NAME, NAMES, OBJECT, SECRET, TEXT, CannedAnswer, Server, _ask, _read, ask, ask_once, completion
from .vendors import body, frames, turn

# --- the wire ---


CALL = st.builds(NativeCall, NAMES, NAMES, OBJECT.map(json.dumps))
MESSAGE = st.one_of(
    st.builds(Message, st.sampled_from(["system", "user"]), TEXT),
    st.builds(Message, st.just("assistant"), TEXT, st.lists(CALL, max_size=2).map(tuple)),
    st.builds(Message, st.just("tool"), TEXT, call_id=NAMES),
)


SAMPLING = st.builds(
    Sampling,
    st.none() | st.floats(0, 2),
    st.none() | st.integers(1, 9999),
    st.none() | st.floats(0.01, 1),
    st.none() | st.integers(0, 2**31),
    st.lists(st.text(min_size=1, max_size=5), max_size=3).map(tuple),
)


SCHEMA = st.builds(lambda names: {"type": "object", "properties": {name: {"type": "string"} for name in names}}, st.sets(NAMES))


@st.composite
def requests(draw: st.DrawFn) -> Request:
    tools = tuple(ToolSpec(name, draw(TEXT), draw(SCHEMA)) for name in sorted(draw(st.sets(NAMES, max_size=3))))
    choice = draw(st.sampled_from([None, "auto", "required", "none", *(tool.name for tool in tools)])) if tools else None
    messages = (*draw(st.lists(MESSAGE, max_size=5)), Message("user", draw(TEXT)))
    return Request(messages, tools, choice, draw(st.none() | SCHEMA), draw(SAMPLING))


def wire_form(request: Request) -> dict[str, Any]:
    """OpenAI's format, as servers of one's own take it: https://platform.openai.com/docs/api-reference/chat/create."""
    body: dict[str, Any] = {"model": "test-model", "messages": [], **request.sampling.as_dict()}
    leading = 0
    while request.messages[leading].role == "system":
        leading += 1
    system = "\n\n".join(message.content for message in request.messages[:leading])
    body["messages"] += [{"role": "system", "content": system}] if system else []
    body["messages"] += [message.as_dict() for message in request.messages[leading:]]
    if request.tools:
        body["tools"] = [
            {"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters}}
            for tool in request.tools
        ]
    if request.tool_choice is not None:
        named = {"type": "function", "function": {"name": request.tool_choice}}
        body["tool_choice"] = request.tool_choice if request.tool_choice in ("auto", "required", "none") else named
    if request.response_schema is not None:
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": request.response_schema}}
    return body


def normal(body: dict[str, Any]) -> dict[str, Any]:
    """Arguments of calls as values: JSON may be spelled in several ways."""
    for message in body["messages"]:
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return body


@EACH
@given(request=requests())
def test_all_that_a_request_asks_reaches_the_wire(shared, request):
    shared.rule = lambda heard: completion()
    ask_once(shared, request)
    assert normal(shared.seen[-1].body) == normal(wire_form(request))


CALLS_ALONE = Request(
    (*HELLO.messages, Message("assistant", "", (NativeCall("1", "add", "{}"),)), Message("tool", "2", call_id="1")),
    sampling=Sampling(max_tokens=9),
)


@pytest.mark.parametrize(
    ("name", "limit"), [(NAME, "max_tokens"), ("openai/gpt-5", "max_completion_tokens"), ("hosted_vllm/x", "max_tokens")]
)
def test_a_server_of_ones_own_is_asked_in_the_words_that_such_servers_know(shared, name, limit):
    """A reasoning model of OpenAI's, behind a gateway, refuses the older name of the limit."""
    ask(shared, CALLS_ALONE, name=name)
    sent = shared.seen[-1].body
    assert {key: sent[key] for key in sent if key.startswith("max_")} == {limit: 9}
    assert sent["messages"][1]["content"] == ""


def test_openai_and_anthropic_are_asked_in_their_own_words(shared, monkeypatch):
    """Their addresses are not reached: this machine passes for OpenAI's."""
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    monkeypatch.setattr(clients, "_OPENAI", ("127.0.0.1",))
    ask(shared, CALLS_ALONE)
    sent = shared.seen[-1].body
    assert sent["max_completion_tokens"] == 9
    assert sent["messages"][1]["content"] is None
    shared.rule = lambda heard: CannedAnswer(body("messages", turn("messages", "Yes.")))
    ask(shared, CALLS_ALONE, name="anthropic/claude-sonnet-4-5")
    assert [block["type"] for block in shared.seen[-1].body["messages"][1]["content"]] == ["tool_use"]


@pytest.mark.parametrize("where", ["query", "history", "call", "system"])
def test_text_that_is_no_unicode_is_mended_on_the_way(shared, where):
    broken = "a\ud800b"
    said = {
        "query": (Message("user", broken),),
        "system": (Message("system", broken), *HELLO.messages),
        "history": (*HELLO.messages, Message("assistant", broken)),
        "call": (
            *HELLO.messages,
            Message("assistant", "", (NativeCall("1", "add", json.dumps({"a": broken})),)),
            Message("tool", broken, call_id="1"),
        ),
    }[where]
    ask_once(shared, Request(said))
    assert "a?b" in json.dumps(shared.seen[-1].body)


def test_no_count_is_no_usage(shared):
    shared.rule = lambda heard: CannedAnswer({key: value for key, value in completion().body.items() if key != "usage"})
    assert ask_once(shared).usage is None


def test_a_refusal_is_what_the_model_said(shared):
    shared.rule = lambda heard: completion(None, message={"role": "assistant", "content": None, "refusal": "I will not."})
    assert ask_once(shared).text == "I will not."


def test_a_known_model_has_the_price_that_dspy_gives_it(shared):
    shared.rule = lambda heard: completion()
    lm = dspy.LM("openai/gpt-4o-mini", api_base=shared.url, api_key="none", cache=False, num_retries=0)
    lm("hello")
    lm.close()
    reply = ask(shared, name="openai/gpt-4o-mini")
    assert reply.usage is not None
    assert reply.usage.cost_usd == pytest.approx(lm.history[-1]["cost"])
    assert (reply.usage.cost_usd or 0) > 0


def test_dspy_keeps_no_history_of_a_run(shared):
    model = open_model(NAME, shared.url)
    before = len(dspy.clients.base_lm.GLOBAL_HISTORY)
    asyncio.run(_ask(model, HELLO, model.aclose))
    assert isinstance(model.model, DspyModel)
    assert model.model.lm.history == []
    assert len(dspy.clients.base_lm.GLOBAL_HISTORY) == before


# --- counts ---


@pytest.mark.parametrize("streamed", [False, True])
def test_anthropics_counts_mean_what_all_others_mean(shared, streamed, monkeypatch):
    """Its input excludes what the cache read and wrote; the end of a stream may tell the output alone."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    usage = {"input_tokens": 10, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 5, "output_tokens": 1}
    blocks = turn("messages", "I add.")
    sent = [f | {"message": f["message"] | {"usage": usage}} if "message" in f else f for f in frames("messages", blocks)]
    whole = body("messages", blocks) | {"usage": usage | {"output_tokens": 5}}
    shared.rule = lambda heard: CannedAnswer(None, frames=sent) if streamed else CannedAnswer(whole)
    model = open_model("anthropic/claude-sonnet-4-5", shared.url)
    assert (model.capabilities.context_tokens or 0) >= 200_000
    reply = asyncio.run(_read(model, HELLO))[-1].reply if streamed else asyncio.run(_ask(model, HELLO, model.aclose))
    assert reply is not None
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.cached_tokens, reply.usage.output_tokens) == (105, 90, 5)
    assert reply.usage.cost_usd == pytest.approx((15 * 3 + 90 * 0.3 + 5 * 15) / 1e6)
    assert reply.usage.nominal_usd == pytest.approx((105 * 3 + 5 * 15) / 1e6)


# --- Images of a message, as the clients of four APIs send them. ---


DATA = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
HELD, FAR = Image(f"data:image/png;base64,{DATA}"), Image("https://example.com/a.jpg?size=2")
SHOWN = Request((Message("user", "What is this?", images=(HELD, FAR)),))


def sent(server: Server, name: str) -> Any:
    """The content of the message as a client sends it; the server knows the chat's address alone."""
    server.seen.clear()
    with contextlib.suppress(ProviderError):
        ask(server, SHOWN, name=name)
    body = server.seen[-1].body
    (key,) = body.keys() & {"messages", "input", "contents"}
    (message,) = [item for item in body[key] if item["role"] == "user"]
    return message["parts" if key == "contents" else "content"]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        (NAME, SHOWN.messages[0].as_dict()["content"]),
        (
            "openai/responses/test-model",
            [
                {"type": "input_text", "text": "What is this?"},
                {"type": "input_image", "image_url": HELD.url},
                {"type": "input_image", "image_url": FAR.url},
            ],
        ),
        (
            "anthropic/claude-test",
            [
                {"type": "text", "text": "What is this?"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}},
                {"type": "image", "source": {"type": "url", "url": FAR.url}},
            ],
        ),
        (
            "gemini/gemini-test",
            [
                {"text": "What is this?"},
                {"inlineData": {"mimeType": "image/png", "data": DATA}},
                {"fileData": {"mimeType": "image/jpeg", "fileUri": FAR.url}},
            ],
        ),
    ],
)
def test_each_vendor_is_sent_images_in_its_own_form(shared: Server, name: str, wanted: Any) -> None:
    shared.rule = lambda heard: completion()
    assert sent(shared, name) == wanted


def test_an_image_is_counted_and_the_local_model_refuses_it() -> None:
    text = Request((Message("user", "What is this?"),))
    assert estimate_input(SHOWN) == estimate_input(text) + 2 * IMAGE_TOKENS
    reply = run_sync(FakeModel(Answer("", "A cat.")).complete(SHOWN))
    assert reply.usage is not None
    assert reply.usage.input_tokens == estimate_input(SHOWN)
    with pytest.raises(ProviderError, match=r"^the local model takes no images: it reads text alone$"):
        _as_served(SHOWN)
