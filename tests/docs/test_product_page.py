"""docs/product.md: what the code of its pages does is what they say, in a service, in a conversation and after a stop."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, get_args

import pytest

from whichloop.loops import (
    ApprovalAsked,
    ApprovalDecided,
    ApprovalRequired,
    Bare,
    Checkpoint,
    CheckpointFile,
    Finish,
    Loop,
    Observer,
    Phased,
    ProviderRetry,
    Query,
    ReactExtract,
    Resumable,
    Stateless,
    StopReason,
    StopRun,
    Toolbox,
)
from whichloop.loops.checkpoint import REFUSED as REJECTED
from whichloop.models.fake import FakeModel
from whichloop.models.local.model import open_model
from whichloop.models.real import RealOptions
from whichloop.protocol import (
    Act,
    Answer,
    BudgetExceeded,
    ContextOverflow,
    Model,
    ProviderError,
    Reply,
    Request,
    RunEvent,
    ToolCall,
    Usage,
)
from whichloop.protocol.events import EventOf

PAGE = Path(__file__).parents[2] / "docs" / "product.md"
SERVICE = re.compile(r"^## In a service\n(.*?)^## ", re.MULTILINE | re.DOTALL)


def code_of(heading: str, page: Path = PAGE) -> dict[str, Any]:
    """The names that the code under a heading of a page defines."""
    (section,) = re.findall(rf"^###? {heading}\n(.*?)(?:^###? |\Z)", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    made: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), made)
    return made


def price(item: str) -> float:
    """What an item costs."""
    return 1.5


def test_the_sizes_of_an_installation_are_those_that_were_measured() -> None:
    measured = (PAGE.parent / "start.md").read_text(encoding="utf-8")
    for extra in (r"\(none\)", "`dspy`"):
        ((size, packages),) = re.findall(rf"^\| {extra} \|.*\| (\d+) \| (\d+) \|$", measured, re.MULTILINE)
        assert f"{size} MB in {packages} packages" in PAGE.read_text(encoding="utf-8")


def test_one_script_serves_every_design() -> None:
    made = code_of("A script for tests")
    assert made["answers"]() == ["28 days"] * len(made["DESIGNS"])


@pytest.fixture(scope="module")
def service() -> Iterator[dict[str, Any]]:
    """The names that the page's code defines; the level that it sets goes back."""
    (section,) = SERVICE.findall(PAGE.read_text(encoding="utf-8"))
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    made: dict[str, Any] = {}
    logger = logging.getLogger("whichloop.loops")
    level = logger.level
    exec(compile(code, str(PAGE), "exec"), made)
    yield made
    logger.setLevel(level)


def responded(service: dict[str, Any], model: Model) -> tuple[int, dict[str, Any], list[dict[str, Any]]]:
    """Return status and body, and what the client of a stream is sent."""

    async def ran() -> tuple[int, dict[str, Any], list[dict[str, Any]]]:
        events = service["Events"]()
        status, body = await service["respond"]("What does tea cost?", [price], model, events)
        sent = [events.queue.get_nowait() for _ in range(events.queue.qsize())]
        return status, body, sent

    return asyncio.run(ran(), debug=True)


def test_an_answer_is_200_with_its_tokens_and_its_text_was_streamed(service: dict[str, Any]) -> None:
    model = FakeModel(Act("Look it up.", (ToolCall("price", {"item": "tea"}),)), Answer("It is known.", "1.5"))
    status, body, sent = responded(service, model)
    assert (status, body["answer"]) == (200, "1.5")
    assert body["tokens"] > 0
    assert "".join(piece["text"] for piece in sent if piece["event"] == "reply_chunk") == "Look it up.It is known."
    (result,) = [piece for piece in sent if piece["event"] == "tool_finished"]
    assert (result["tool"], result["result"]) == ("price", "1.5")
    assert sent[-1]["event"] == "run_ended"


def test_a_stream_sends_the_same_events(service: dict[str, Any]) -> None:
    def model() -> FakeModel:
        return FakeModel(Act("Look it up.", (ToolCall("price", {"item": "tea"}),)), Answer("It is known.", "1.5"))

    async def ran() -> list[dict[str, Any]]:
        stream = service["stream"]("What does tea cost?", [price], model())
        return [json.loads(line.removeprefix("data: ")) async for line in stream]

    _, _, sent = responded(service, model())
    assert [piece["event"] for piece in asyncio.run(ran(), debug=True)] == [piece["event"] for piece in sent]


def test_the_table_of_events_names_every_event_and_its_fields(service: dict[str, Any]) -> None:
    """The fields are those that a run has sent; what no event of it shows is in the table for the other kinds."""
    (section,) = SERVICE.findall(PAGE.read_text(encoding="utf-8"))
    rows = dict(re.findall(r"^\| `([A-Z]\w+)` \|[^|]*\|([^|]*)\|$", section, re.MULTILINE))
    assert set(rows) == {event.__name__ for event in get_args(EventOf)}
    named = {name: set(re.findall(r"`(\w+)`", told)) for name, told in rows.items()}
    wandering = FakeModel(
        ProviderError("busy", "rate_limit"),
        Act("", (ToolCall("price", {"item": "tea"}),)),
        Act("", (ToolCall("cost", {}),)),
        "Well.",
        Answer("", "2"),
    )
    _, _, sent = responded(service, wandering)
    sent += approving()
    events = {event.__name__: [piece for piece in sent if piece["event"] == snake(event)] for event in get_args(EventOf)}
    for name, pieces in events.items():
        assert pieces, name
        assert set().union(*pieces) - {"event"} <= named[name]


def approving() -> list[dict[str, Any]]:
    """The events of runs whose call waits for a person, who gives it arguments that do not fit, and others then, or rejects it."""
    sent: list[dict[str, Any]] = []

    class Heard(Observer):
        def on_event(self, event: RunEvent) -> None:
            if isinstance(event, ApprovalAsked | ApprovalDecided):
                sent.append(event.as_dict())

    people: list[list[dict[str, Any] | str | None]] = [[{"item": 3}, {"item": "milk"}], [None], ["2"]]
    for decisions in people:
        checkpoint = Checkpoint(needs_approval=["price"])
        loop = Resumable(Bare(), checkpoint)
        model = FakeModel(Act("", (ToolCall("price", {"item": "tea"}),)), Answer("", "2"))
        for arguments in decisions:
            with pytest.raises(ApprovalRequired):
                loop.run_sync(Query("What does tea cost?"), Toolbox([price]), model, Heard())
            if arguments is None:
                checkpoint.reject(checkpoint.pending[0], "too dear")
            elif isinstance(arguments, str):
                checkpoint.answer(checkpoint.pending[0], arguments)
            else:
                checkpoint.approve(checkpoint.pending[0], arguments=arguments)
        assert loop.run_sync(Query("What does tea cost?"), Toolbox([price]), model, Heard()).ok
    return sent


def snake(event: type) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", event.__name__).lower()


@pytest.mark.parametrize(
    ("model", "status", "error"),
    [
        (lambda: FakeModel(then=ProviderError("no such key", "auth")), 500, StopReason.PROVIDER_ERROR),
        (lambda: FakeModel(then=ProviderError("down", "server", retry_after_s=0)), 503, StopReason.PROVIDER_ERROR),
        (lambda: FakeModel(then=ContextOverflow("too long")), 413, StopReason.CONTEXT_OVERFLOW),
        (lambda: FakeModel(then="I do not know."), 502, StopReason.PARSE_FAILED),
        (lambda: FakeModel(then=Reply("Well.", usage=Usage(60_000, 1))), 429, "budget of 50000 tokens used up"),
    ],
)
def test_what_is_no_answer_has_the_status_that_the_page_gives_it(
    service: dict[str, Any], model: Callable[[], FakeModel], status: int, error: str
) -> None:
    found, body, _ = responded(service, model())
    assert (found, body["error"]) == (status, error)


def test_the_table_of_stops_names_every_stop() -> None:
    (section,) = SERVICE.findall(PAGE.read_text(encoding="utf-8"))
    first_cells = " ".join(line.split("|")[1] for line in section.splitlines() if line.startswith("|"))
    assert set(re.findall(r"`([a-z_]+)`", first_cells)) == {str(stop) for stop in StopReason}


# --- a model of one's own ---


class Completions(BaseHTTPRequestHandler):
    """Answers the first request with a call and the next with its result; without tools it fails."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        results = [message["content"] for message in asked["messages"] if message["role"] == "tool"]
        name, arguments = ("__finish__", {"answer": results[-1]}) if results else ("price", {"item": "tea"})
        call = {"id": f"c{len(results)}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        usage = {"prompt_tokens": 7, "completion_tokens": 3}
        body = json.dumps(
            {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [call]}}], "usage": usage}
        ).encode()
        self.send_response(200 if "tools" in asked else 500)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


def test_a_model_of_ones_own_answers_over_http_and_its_failures_are_the_providers() -> None:
    gateway = code_of("A model of your own", PAGE.with_name("real-models.md"))["Gateway"]
    server = ThreadingHTTPServer(("127.0.0.1", 0), Completions)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        model = gateway(f"http://127.0.0.1:{server.server_port}/v1/chat/completions", "mine")
        outcome = Finish(max_steps=3).run_sync(Query("What does tea cost?"), Toolbox([price]), model)
        failed = Bare().run_sync(Query("What does tea cost?"), Toolbox([price]), model)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert (outcome.answer, outcome.ok) == ("1.5", True)
    assert (failed.stop, failed.ok) == (StopReason.PROVIDER_ERROR, False)
    failure = failed.details["exception"]
    assert (failure.kind, failure.status, failure.is_transient) == ("server", 500, True)


# --- conversations, and going on after a stop ---


def test_a_conversation_goes_on_and_is_stored_as_json() -> None:
    converse = code_of("Conversations")["converse"]
    model = FakeModel(Answer("", "1.5"), Answer("", "3"))
    stored = asyncio.run(converse(Bare(), ["What does tea cost?", "And two?"], Toolbox([price]), model))
    assert [message["content"] for message in stored] == ["What does tea cost?", "1.5", "And two?", "3"]
    assert "What does tea cost?" in [message.content for message in model.requests[1].messages]


@pytest.mark.parametrize(("approved", "answer"), [(True, "7 is paid back"), (False, f"Rejected: {REJECTED}: too late")])
def test_a_run_waits_for_a_person_and_goes_on_from_its_file(approved: bool, answer: str, tmp_path: Path) -> None:
    names = code_of("Going on after a stop")
    made: list[str] = []

    def refund(order: str) -> str:
        """Pay an order back."""
        made.append(order)
        return f"{order} is paid back"

    def handled() -> Any:
        def closing(request: Request) -> Answer:
            return Answer("", json.loads(request.messages[-1].content)["data"])

        model = FakeModel(*([] if path.exists() else [Act("", (ToolCall("refund", {"order": "7"}),))]), closing)
        return asyncio.run(names["handle"](Bare(), "Pay order 7 back.", Toolbox([refund]), model, path))

    path = tmp_path / "run.jsonl"
    (shown,) = handled()
    assert (shown["tool"], shown["arguments"], shown["problem"], made) == ("refund", {"order": "7"}, "", [])
    with pytest.raises(ValueError, match="waits for a decision"):
        names["decide"](path, "that of before", approved)
    names["decide"](path, shown["id"], approved, "too late")
    outcome = handled()
    assert (outcome.answer, made) == (answer, ["7"] if approved else [])


@pytest.mark.parametrize("loop", [Bare(), Finish(max_steps=4), Phased(), ReactExtract(), Stateless()], ids=lambda loop: loop.name)
def test_a_new_version_goes_on_from_the_conversation(loop: Loop, tmp_path: Path) -> None:
    go_on, path, made = code_of("Going on after a deploy")["go_on"], tmp_path / "run.jsonl", list[str]()

    def refund(order: str) -> str:
        """Pay an order back."""
        made.append(order)
        if order == "8":
            raise Killed
        return f"{order} is paid back"

    calls = [ToolCall("refund", {"order": order}) for order in ("7", "8")]
    with pytest.raises(Killed):
        Resumable(Bare(), CheckpointFile(path)).run_sync(
            Query("Pay both back."), Toolbox([refund]), FakeModel.script(calls, "Done.")
        )
    model = FakeModel.script([], "Both are paid back.")
    assert asyncio.run(go_on(loop, Toolbox([refund]), model, path)).answer == "Both are paid back."
    shown = "\n".join(message.content for message in model.requests[0].messages)
    assert "7 is paid back" in shown
    assert "it may have acted" in shown
    assert made == ["7", "8"]


class Bank:
    """Makes one payment for one key; the process dies after the first one is made."""

    def __init__(self) -> None:
        self.made: dict[str, str] = {}
        self.asked = 0

    def transfer(self, iban: str, cents: int, *, idempotency_key: str) -> str:
        self.asked += 1
        self.made.setdefault(idempotency_key, f"{cents} cents are sent to {iban}")
        if self.asked == 1:
            raise Killed
        return self.made[idempotency_key]


class Killed(StopRun):
    """The process ends here."""


@pytest.mark.parametrize("loop", [Bare(), Finish(max_steps=4), Phased(), ReactExtract(), Stateless()], ids=lambda loop: loop.name)
def test_a_payment_with_the_key_of_its_call_is_made_once_although_the_process_died(loop: Loop, tmp_path: Path) -> None:
    settle, bank = code_of("A key for each call")["settle"], Bank()
    calls = [ToolCall("pay", {"iban": "DE02", "cents": 5})]
    for name, calls_left in (("first", []), ("second", calls)):  # two invoices that are alike are two payments
        path = tmp_path / name
        if name == "first":
            with pytest.raises(Killed):
                asyncio.run(settle(loop, "Pay it.", bank, FakeModel.script(calls, "Paid."), path))
        assert asyncio.run(settle(loop, "Pay it.", bank, FakeModel.script(calls_left, "Paid."), path)).answer == "Paid."
    assert list(bank.made.values()) == ["5 cents are sent to DE02"] * 2
    assert bank.asked == 3


def test_the_safe_defaults_are_a_product_whose_refund_waits_and_goes_on(tmp_path: Path) -> None:
    made, given_back = code_of("Safe defaults"), list[int]()

    def refund(cents: int) -> str:
        """Give money back."""
        given_back.append(cents)
        return "given back"

    path, model = tmp_path / "run.jsonl", FakeModel.script([ToolCall("refund", {"cents": 5})], "Done.")
    with pytest.raises(ApprovalRequired):
        asyncio.run(made["answer"](Query("Give it back."), [refund], model, path))
    waiting = CheckpointFile(path)
    waiting.approve(waiting.pending[0])
    assert asyncio.run(made["answer"](Query("Give it back."), [refund], FakeModel.script([], "Done."), path)).answer == "Done."
    assert given_back == [5]


def test_the_safe_defaults_spend_one_budget_whatever_stops_them(tmp_path: Path) -> None:
    made, asked = code_of("Safe defaults"), 0

    def refund(cents: int) -> str:
        """Give money back."""
        return "given back"

    def costly(request: Request) -> Reply:
        nonlocal asked
        asked += 1
        return Reply("not what was asked for", usage=Usage(30_000, 10))

    for _ in range(4):
        with pytest.raises(BudgetExceeded, match=r"^budget of 50000 tokens used up$"):
            asyncio.run(made["answer"](Query("Give it back."), [refund], FakeModel(then=costly), tmp_path / "run.jsonl"))
    assert asked == 2
    assert CheckpointFile(tmp_path / "run.jsonl").spent.tokens == 60_020


class Down(BaseHTTPRequestHandler):
    """Fails always, and counts how often it is asked."""

    asked = 0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        type(self).asked += 1
        self.send_response(500)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


def test_the_safe_defaults_send_a_request_three_times_to_a_server_that_is_down(tmp_path: Path) -> None:
    made, server = code_of("Safe defaults"), ThreadingHTTPServer(("127.0.0.1", 0), Down)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()

    def refund(cents: int) -> str:
        """Give money back."""
        raise AssertionError("nobody has asked for it")

    async def answered() -> Any:
        model = open_model("openai/some-model", f"http://127.0.0.1:{server.server_port}/v1", RealOptions(attempts=1))
        made["answer"].__globals__["LOOP"] = ProviderRetry(made["DESIGN"], attempts=made["LOOP"].attempts)  # without its waits
        try:
            return await made["answer"](Query("Give it back."), [refund], model, tmp_path / "run.jsonl")
        finally:
            await model.aclose()

    try:
        outcome = asyncio.run(answered())
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert (outcome.stop, Down.asked, outcome.usage.requests) == (StopReason.PROVIDER_ERROR, 3, 3)
    assert outcome.details["exception"].is_transient


def test_a_stream_sends_no_key(service: dict[str, Any]) -> None:
    key = "sk-" + "proj-" + "aB3x" * 9

    def price(item: str) -> str:
        """What an item costs."""
        raise RuntimeError(f"refused: {key}")

    async def sent() -> list[str]:
        model = FakeModel(Act("Look it up.", (ToolCall("price", {"item": "tea"}),)), Answer("It is not known.", "0"))
        return [line async for line in service["stream"]("What does tea cost?", [price], model)]

    lines = asyncio.run(sent())
    assert [json.loads(line.removeprefix("data: "))["event"] for line in lines][-1] == "run_ended"
    assert "refused: [redacted]" in "".join(lines)
    assert key not in "".join(lines)


def test_the_page_links_to_places_that_it_has() -> None:
    text = PAGE.read_text(encoding="utf-8")
    places = {
        re.sub(r"[^a-z -]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^##+ (.*)$", text, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([a-z-]+)\)", text)) <= places
