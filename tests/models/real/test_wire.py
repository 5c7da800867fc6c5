"""Real models over HTTP: what a request asks reaches the wire, and what the server answers comes back."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from typing import Any

import pytest

from whichloop.dspy_seam import clients
from whichloop.models.local.model import open_model
from whichloop.protocol import Message, NativeCall, ProviderError, Request, Sampling
from whichloop.protocol.files import Image

from .provider import HELLO, NAME, SECRET, CannedAnswer, Server, _ask, _read, ask, ask_once, completion
from .vendors import body, frames, turn

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


def test_text_that_is_no_unicode_is_mended_on_the_way(shared):
    broken = "a\ud800b"
    called = (NativeCall("1", "add", json.dumps({"a": broken})),)
    said = (
        Message("system", broken),
        Message("user", broken),
        Message("assistant", broken, called),
        Message("tool", broken, (), "1"),
    )
    ask_once(shared, Request(said))
    assert json.dumps(shared.seen[-1].body).count("a?b") == 5


def test_a_refusal_is_what_the_model_said(shared):
    shared.rule = lambda heard: completion(None, message={"role": "assistant", "content": None, "refusal": "I will not."})
    assert ask_once(shared).text == "I will not."


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
    reply = asyncio.run(_read(model, HELLO))[-1].reply if streamed else asyncio.run(_ask(model, HELLO))
    assert reply is not None
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.cached_tokens, reply.usage.output_tokens) == (105, 90, 5)
    assert reply.usage.cost_usd == pytest.approx((15 * 3 + 90 * 0.3 + 5 * 15) / 1e6)
    assert reply.usage.nominal_usd == pytest.approx((105 * 3 + 5 * 15) / 1e6)


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
