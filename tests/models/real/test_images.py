"""Images of a message, as the clients of four APIs send them."""

from __future__ import annotations

import base64
import contextlib
from typing import Any

import pytest

from whichloop.models.fake import FakeModel
from whichloop.models.local.model import _as_served
from whichloop.protocol import Answer, Message, ProviderError, Request, run_sync
from whichloop.protocol.files import Image
from whichloop.protocol.tokens import IMAGE_TOKENS, estimate_input

from .provider import NAME, Server, ask, completion

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
