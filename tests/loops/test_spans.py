"""OpenTelemetry's spans of a run, and the images of a query."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.loops.helpers import Heard
from whichloop.datasets.task import StatelessEnvironment, Suite, Task
from whichloop.loops import Bare, Finish, Guarded, Phased, ProviderRetry, ReactExtract, RepeatGuard, Resumable, Stateless
from whichloop.loops.checkpoint import Checkpoint
from whichloop.loops.spans import Spans
from whichloop.models.fake import FakeModel
from whichloop.protocol import SILENT, Loop, Observer, ProviderError, Query, Request, StopRun, Toolbox, ToolCall, run_sync
from whichloop.protocol.chat import Message, Reply, Usage
from whichloop.protocol.files import Image
from whichloop.protocol.moves import Act, Answer


def spans_of(
    loop: Any, model: Any, tool: Any, observer: Observer = SILENT, spans: list[ReadableSpan] | None = None
) -> list[ReadableSpan]:
    """Run a loop; return the spans of its run, which `spans` gets also where the run raises."""
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    told, found = Spans("shop", observer, provider.get_tracer("test")), [] if spans is None else spans
    try:
        run_sync(loop.run(Query("What does tea cost?"), Toolbox([tool]), model, told))
    finally:
        found += exporter.get_finished_spans()
    return found


def price(item: str) -> float:
    """Look a price up."""
    return 1.5


FIVE = (Bare(), Finish(max_steps=8), Phased(), ReactExtract(), Stateless())


@pytest.mark.parametrize("loop", FIVE, ids=lambda loop: loop.name)
def test_a_run_is_a_span_with_one_below_it_for_each_request_and_call(loop: Any) -> None:
    *inner, run = spans_of(loop, FakeModel.script([ToolCall("price", {"item": "tea"})], "1.50"), price)
    assert run.name == "invoke_agent shop"
    assert run.attributes is not None
    assert run.attributes["whichloop.stop"] == "finished"
    assert {span.name for span in inner} == {"chat", "execute_tool price"}
    assert {span.parent.span_id for span in inner if span.parent} == {run.context.span_id}
    assert "tea" not in "".join(span.to_json() for span in inner)


def test_errors_of_tools_and_providers_are_those_of_their_spans_and_keys_are_taken_out() -> None:
    def refused(item: str) -> float:
        raise ValueError("no access with sk-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH")

    spans = spans_of(Bare(), FakeModel.script([ToolCall("refused", {"item": "tea"})], "none"), refused)
    (tool,) = [span for span in spans if span.name.startswith("execute_tool")]
    assert (tool.status.is_ok, tool.attributes and tool.attributes["error.type"]) == (False, "ValueError")
    assert "sk-abc" not in tool.to_json()
    *_, run = spans_of(Bare(), FakeModel(ProviderError("busy", "server")), price)
    assert run.attributes is not None
    assert run.attributes["whichloop.stop"] == "provider_error"


def test_spans_hold_the_tokens_and_the_failure_of_each_request_and_calls_at_once_have_one_each() -> None:
    reply = Reply('{"final_answer": "none"}', usage=Usage(7, 2))
    failed, asked, run = (
        dict(span.attributes or {})
        for span in spans_of(ProviderRetry(Bare(), attempts=2), FakeModel(ProviderError("busy", "server"), reply), price)
    )
    assert failed["error.type"] == "ProviderError"
    assert [(one["gen_ai.usage.input_tokens"], one["gen_ai.usage.output_tokens"]) for one in (asked, run)] == [(7, 2)] * 2
    both = Act("", tuple(ToolCall("price", {"item": item}) for item in ("tea", "milk")))
    spans = spans_of(Finish(max_steps=2, parallel_tools=True), FakeModel(both, Answer("", "3")), price)
    assert len({span.context.span_id for span in spans if span.name == "execute_tool price"}) == 2


def test_another_observer_is_told_the_same_and_a_run_that_is_cut_off_leaves_no_span_open() -> None:
    class Names(Heard):
        def note(self, kind: str, **data: object) -> None:
            self.events.append(cast(Any, kind))

    said, loop = (ProviderError("busy", "server"), Answer("", "1.50")), ProviderRetry(Bare())
    directly, through = Names(streams=True), Names(streams=True)
    run_sync(loop.run(Query("What does tea cost?"), Toolbox([price]), FakeModel(*said), directly))
    spans_of(loop, FakeModel(*said), price, through)
    assert [type(one) for one in through.events] == [type(one) for one in directly.events]
    spans: list[ReadableSpan] = []
    with pytest.raises(StopRun):
        spans_of(Bare(), FakeModel(Act("", (ToolCall("stops", {}),))), stops, spans=spans)
    assert [span.name for span in spans] == ["chat", "execute_tool stops", "invoke_agent shop"]
    assert dict(spans[-1].attributes or {})["error.type"] == "StopRun"


def stops() -> float:
    """End the run."""
    raise StopRun("enough")


# --- images of a query: shown by the designs whose prompts are messages, refused by those that write them as text ---


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


def test_a_comparison_refuses_a_task_with_images() -> None:
    task = Task("a", ASKED, "a cat", no_plan="an image")
    with pytest.raises(ValueError, match=r"^suite 'cats': task 'a' has images, which a comparison does not show$"):
        Suite("cats", "1", (task,), lambda _: StatelessEnvironment(()))


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
        (lambda: Image("file:///etc/passwd"), ValueError, r"^Image: url must be https://"),
        (lambda: Image("data:image/svg+xml;base64,AAAA"), ValueError, r"^Image: url must be https://"),
        (lambda: Image("data:image/png;base64,?"), ValueError, r"^Image: the data of the url is no base64"),
        (lambda: Image.of(b"hello"), ValueError, r"^Image: the bytes must be a PNG, JPEG, GIF or WebP image"),
        (lambda: Query("?", images=cast(Any, ["cat.png"])), TypeError, r"^query: images\[0\] must be an Image, not str"),
        (lambda: Message.from_dict({"role": "user", "content": [{"type": "audio"}]}), ValueError, r"^content\[0\] must be"),
    ],
)
def test_what_is_no_image_is_told(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as raised:
        make()
    assert "\n" not in str(raised.value)
