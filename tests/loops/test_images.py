"""Images of a query: shown by the designs whose prompts are messages, refused by those that write them as text."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from whichloop.datasets.task import StatelessEnvironment, Suite, Task
from whichloop.loops.bare import Bare
from whichloop.loops.checkpoint import Checkpoint, ResumeError
from whichloop.loops.finish import Finish
from whichloop.loops.guarded import Guarded
from whichloop.loops.phased import Phased
from whichloop.loops.provider_retry import ProviderRetry
from whichloop.loops.react_extract import ReactExtract
from whichloop.loops.repeat_guard import RepeatGuard
from whichloop.loops.resumable import Resumable
from whichloop.loops.stateless import Stateless
from whichloop.models.fake import FakeModel
from whichloop.protocol import Act, Answer, Loop, Message, Query, Request, StopRun, Toolbox, ToolCall, run_sync
from whichloop.protocol.files import Image

PNG = b"\x89PNG\r\n\x1a\n" + b"x" * 300
HELD, FAR = Image.of(PNG), Image("https://example.com/a.jpg")
ASKED = Query("What is this?", images=[HELD])
LOOK = Act("", (ToolCall("look", {}),))


def look() -> str:
    """Look."""
    return "a cat"


TAKING: dict[str, Callable[[], Loop]] = {
    "bare": Bare,
    "native": lambda: Bare(decision_format="native"),
    "finish": lambda: Finish(max_steps=3),
    "provider_retry": lambda: ProviderRetry(Bare()),
    "resumable": lambda: Resumable(Finish(max_steps=3), Checkpoint()),
    "guards": lambda: RepeatGuard(Guarded(Bare())),
}
REFUSING: dict[str, Callable[[], Loop]] = {
    "react_extract": ReactExtract,
    "stateless": Stateless,
    "phased": Phased,
    "provider_retry": lambda: ProviderRetry(ReactExtract()),
    "resumable": lambda: Resumable(Stateless(), Checkpoint()),
}


def shown(request: Request) -> list[tuple[Image, ...]]:
    return [message.images for message in request.messages if message.images]


@pytest.mark.parametrize("name", TAKING)
def test_every_request_of_a_run_and_of_the_turn_after_it_shows_the_image(name: str) -> None:
    model = FakeModel(LOOK, Answer("", "A cat."))
    ended: Any = run_sync(TAKING[name]().run(ASKED, Toolbox([look]), model))
    assert ended.answer == "A cat."
    assert [shown(request) for request in model.requests] == [[(HELD,)], [(HELD,)]]
    stored = json.dumps([message.as_dict() for message in ended.messages])
    assert stored.count(HELD.url) == 1
    history = json.loads(stored)
    assert history[0]["content"][1] == {"type": "image_url", "image_url": {"url": HELD.url}}
    after = FakeModel(Answer("", "Another."))
    run_sync(TAKING[name]().run(Query("And this?", history=history, images=[FAR]), Toolbox([look]), after))
    assert shown(after.requests[0]) == [(HELD,), (FAR,)]
    last, first = model.requests[-1].messages, after.requests[0].messages
    if name != "guards":  # whose system text is new with each question
        assert first[: len(last)] == last


@pytest.mark.parametrize("name", REFUSING)
def test_a_design_whose_prompts_are_text_refuses_images_before_the_first_call(name: str) -> None:
    model = FakeModel(then=Answer("", "A cat."))
    for query in (ASKED, Query("And?", history=[Message("user", "This", images=(HELD,)), Message("assistant", "Yes.")])):
        with pytest.raises(ValueError, match=r"^query: \w+ writes its prompts as text and shows no images; bare and finish do$"):
            run_sync(REFUSING[name]().run(query, Toolbox([look]), model))
    assert model.requests == []


def test_another_image_is_another_query_for_a_run_that_is_taken_up() -> None:
    class Stopped(StopRun):
        """The run stops here."""

    checkpoint = Checkpoint()
    with pytest.raises(Stopped):
        Resumable(Bare(), checkpoint).run_sync(ASKED, Toolbox([look]), FakeModel(LOOK, Stopped()))
    other = Query(ASKED.text, images=[FAR])
    with pytest.raises(ResumeError):
        Resumable(Bare(), checkpoint).run_sync(other, Toolbox([look]), FakeModel())
    assert Resumable(Bare(), checkpoint).run_sync(ASKED, Toolbox([look]), FakeModel(Answer("", "A cat."))).answer == "A cat."


def test_a_hook_may_put_an_image_into_the_history_in_openais_format() -> None:
    def on_step(step: Any) -> None:
        step.history.append(Message("user", "And this.", images=(FAR,)).as_dict())

    model = FakeModel(LOOK, Answer("", "A cat."))
    ended = Finish(max_steps=3, on_step=on_step).run_sync(ASKED, Toolbox([look]), model)
    assert shown(model.requests[-1]) == [(HELD,), (FAR,)]
    assert ended.messages[0].sent is None  # a history cannot say which image stood where


def test_a_comparison_refuses_a_task_with_images() -> None:
    task = Task("a", ASKED, "a cat", no_plan="an image")
    with pytest.raises(ValueError, match=r"^suite 'cats': task 'a' has images, which a comparison does not show$"):
        Suite("cats", "1", (task,), lambda _: StatelessEnvironment(()))


# --- an image ---


def test_an_image_is_made_of_bytes_or_a_file_and_says_little_of_itself(tmp_path: Path) -> None:
    path = tmp_path / "cat.png"
    path.write_bytes(PNG)
    assert Image.of(path) == Image.of(str(path)) == HELD
    assert HELD.data == ("image/png", base64.b64encode(PNG).decode())
    assert (FAR.data, FAR.media_type, HELD.media_type) == (None, "image/jpeg", "image/png")
    assert Image("https://example.com/show?id=3").media_type == "image/png"
    assert len(repr(HELD)) < 60
    message = Message("user", "This?", images=(HELD, FAR))
    assert Message.from_dict(json.loads(json.dumps(message.as_dict()))) == message


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Image("cat.png"), ValueError, r"^Image: url must be https://"),
        (lambda: Image("file:///etc/passwd"), ValueError, r"^Image: url must be https://"),
        (lambda: Image("data:image/svg+xml;base64,AAAA"), ValueError, r"^Image: url must be https://"),
        (lambda: Image("data:image/png;base64,ä"), ValueError, r"^Image: the data of the url is no base64"),
        (lambda: Image("data:image/png;base64,?"), ValueError, r"^Image: the data of the url is no base64"),
        (lambda: Image.of(b"hello"), ValueError, r"^Image: the bytes must be a PNG, JPEG, GIF or WebP image"),
        (lambda: Query("?", images=cast(Any, ["cat.png"])), TypeError, r"^query: images\[0\] must be an Image, not str"),
        (lambda: Message.from_dict({"role": "user", "content": [{"type": "audio"}]}), ValueError, r"^content\[0\] must be"),
        (lambda: Message.from_dict({"role": "user", "content": [{"type": "image_url"}]}), ValueError, r"^content\[0\] must be"),
        (lambda: Message.from_dict({"role": "assistant", "content": [3]}), ValueError, r"^content must be a text, not list$"),
    ],
)
def test_what_is_no_image_is_told(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as raised:
        make()
    assert "\n" not in str(raised.value)
