"""Real models over HTTP, against an OpenAI-compatible server on loopback: the wire, errors, retries, whole runs, and keys kept."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import dspy
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopbench.cli.main import main
from loopbench.datasets import arithmetic
from loopbench.datasets.task import Suite, Task
from loopbench.datasets.validity import Replayed, replay
from loopbench.dspy_seam import DspyModel, clients, close_local_clients, local_client, open_lm
from loopbench.dspy_seam.clients import LOCAL_KEY
from loopbench.experiments.compare import run as compare
from loopbench.experiments.compare.prepare import prepare
from loopbench.experiments.compare.reopen import reopen
from loopbench.loops.bare_codecs import CODEC
from loopbench.loops.react_extract_codecs import ExtractAnswer, ExtractCodec, ReactCodec, ReactStep
from loopbench.metrics.record import Record
from loopbench.models import real
from loopbench.models.real import RealModel, RealOptions, open_model
from loopbench.models.streaming import pieces
from loopbench.protocol import (
    Act,
    Answer,
    Chunk,
    Codec,
    ContextOverflow,
    Message,
    Model,
    ModelError,
    NativeCall,
    ProviderError,
    Reply,
    Request,
    Sampling,
    ToolCall,
    ToolSpec,
    run_sync,
)
from loopbench.runs.config import CompareConfig
from loopbench.runs.engine.runner import Unwatched
from loopbench.runs.permissions import Permissions
from loopbench.runs.store.files import RunError
from loopbench.runs.store.records import read_records

SECRET = "sk-test-SECRET-0123456789"
NAME = "openai/test-model"
LOOPS = ("bare", "react_extract")
"""What the server of these tests speaks."""
HELLO = Request((Message("user", "hello"),))


# --- the server ---


@dataclass(frozen=True)
class Said:
    """One answer of the server. `status` 0: it hangs up instead."""

    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    frames: Iterable[Any] | None = None
    """Events of a stream, text or JSON; then the body plays no part."""
    cut: bool = False
    """The stream's connection ends before the stream does."""


HANG_UP = Said(None, status=0)


@dataclass(frozen=True)
class Heard:
    """One request to the server."""

    body: dict[str, Any]
    headers: dict[str, str]
    at: float
    """Seconds, monotonic."""
    port: int = 0
    """The client's: one for each connection."""

    @property
    def key(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ")


Rule = Callable[[Heard], Said]


def completion(text: str | None = "hi", calls: tuple[NativeCall, ...] = (), **choice: Any) -> Said:
    """A chat completion in OpenAI's format, 11 tokens in (4 of them cached) and 5 out."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}} for call in calls
        ]
    chosen = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"} | choice
    usage = {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16, "prompt_tokens_details": {"cached_tokens": 4}}
    return Said({"id": "c-1", "object": "chat.completion", "model": "test-model", "choices": [chosen], "usage": usage})


def failure(status: int, message: str, code: str | None = None, **headers: str) -> Said:
    """An error in OpenAI's format."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return Said({"error": error}, status, headers)


class Server(ThreadingHTTPServer):
    """Answers /v1/chat/completions by a rule, and keeps what it heard."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, rule: Rule) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.rule = rule
        self.heard: list[Heard] = []
        self.left = threading.Event()
        """Set when a client goes in the middle of a stream."""
        self.url = f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        heard = Heard(body, dict(self.headers), time.monotonic(), self.client_address[1])
        self.server.heard.append(heard)
        said = self.server.rule(heard) if self.path in ("/v1/chat/completions", "/v1/messages") else failure(404, "no such path")
        if not said.status:
            self.close_connection = True
            return
        if said.frames is not None:
            self.send_frames(said.frames, cut=said.cut)
            return
        data = (said.body if isinstance(said.body, str) else json.dumps(said.body)).encode("utf-8", "surrogatepass")
        self.send_response(said.status)
        for name, value in (said.headers | {"Content-Type": "application/json", "Content-Length": str(len(data))}).items():
            self.send_header(name, value)
        try:
            self.end_headers()
            self.wfile.write(data)
        except ConnectionError:
            self.close_connection = True  # the client gave up waiting

    def send_frames(self, frames: Iterable[Any], *, cut: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        try:
            self.end_headers()
            for frame in frames:
                data = f"data: {frame if isinstance(frame, str) else json.dumps(frame)}\n\n".encode("utf-8", "surrogatepass")
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            if cut:
                self.close_connection = True
            else:
                self.wfile.write(b"0\r\n\r\n")
        except ConnectionError:
            self.close_connection = True
            self.server.left.set()

    def log_message(self, *args: object) -> None:
        """Quiet."""


@contextmanager
def serving(rule: Rule) -> Iterator[Server]:
    with Server(rule) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def _shared() -> Iterator[Server]:
    with serving(lambda heard: completion()) as server:
        yield server


@pytest.fixture
def shared(_shared: Server) -> Server:
    """One server for many tests; a test sets its rule, or has a completion without more."""
    _shared.rule = lambda heard: completion()
    return _shared


def in_turn(*answers: Said) -> Rule:
    """The answers one after the other, the last one for ever."""
    left = list(answers)
    return lambda heard: left.pop(0) if len(left) > 1 else left[0]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key and no address of the machine's own; short pauses."""
    for name in os.environ:
        if name.endswith(("_API_KEY", "_BASE_URL", "_API_BASE")):
            monkeypatch.delenv(name)
    monkeypatch.setattr(real, "FIRST_PAUSE_S", 0.01)


async def _ask(model: Model, request: Request, close: Callable[[], Any]) -> Reply:
    try:
        return await model.complete(request)
    finally:
        await close()


def ask(server: Server, request: Request = HELLO, *, name: str = NAME, patience_s: float = 20.0) -> Reply:
    """One reply, retries included."""
    model = open_model(name, server.url, RealOptions(patience_s=patience_s))
    return asyncio.run(_ask(model, request, model.aclose))


def ask_once(server: Server, request: Request = HELLO) -> Reply:
    """One attempt."""
    model = DspyModel(open_lm(NAME, server.url))
    return asyncio.run(_ask(model, request, model.aclose))


# --- the wire ---

TEXT = st.text(max_size=30)
NAMES = st.text("abcxyz_0", min_size=1, max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | TEXT, lambda inner: st.lists(inner, max_size=3), max_leaves=5
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=3)
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
EACH = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


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
    assert normal(shared.heard[-1].body) == normal(wire_form(request))


def finite(text: str) -> bool:
    """Whether lm15 takes arguments: no JSON at all is fine, but NaN and infinities, which Python reads, fail in its types."""
    try:
        value = json.loads(text)
    except ValueError:
        return True
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


@EACH
@given(text=st.text(st.characters(), max_size=50), arguments=st.lists(st.text(max_size=30).filter(finite), max_size=3))
def test_text_and_native_calls_come_back_as_the_server_wrote_them(shared, text, arguments):
    calls = tuple(NativeCall(f"call-{i}", "add", argument) for i, argument in enumerate(arguments))
    shared.rule = lambda heard: completion(text, calls)
    reply = ask_once(shared)
    assert (reply.text, reply.calls) == (text, calls)
    assert reply.finish_reason == ("tool_calls" if calls else "stop")


@EACH
@given(calls=st.lists(CALL, min_size=1, max_size=3, unique_by=lambda call: call.id), results=st.lists(TEXT, min_size=3, max_size=3))
def test_a_turn_of_native_calls_and_results_can_be_shown_again(shared, calls, results):
    shared.rule = lambda heard: completion("", tuple(calls))
    reply = ask_once(shared)
    answers = [Message("tool", result, call_id=call.id) for call, result in zip(reply.calls, results, strict=False)]
    ask_once(shared, Request((*HELLO.messages, Message("assistant", reply.text, reply.calls), *answers)))
    asked, *told = normal(shared.heard[-1].body)["messages"][1:]
    assert [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in asked["tool_calls"]] == [
        (call.id, call.name, json.loads(call.arguments)) for call in calls
    ]
    assert [(t["role"], t["tool_call_id"], t["content"]) for t in told] == [("tool", a.call_id, a.content) for a in answers]


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
    body = shared.heard[-1].body
    assert {key: body[key] for key in body if key.startswith("max_")} == {limit: 9}
    assert body["messages"][1]["content"] == ""


def test_openai_and_anthropic_are_asked_in_their_own_words(shared, monkeypatch):
    """Their addresses are not reached: this machine passes for OpenAI's."""
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    monkeypatch.setattr(clients, "_OPENAI", ("127.0.0.1",))
    ask(shared, CALLS_ALONE)
    body = shared.heard[-1].body
    assert body["max_completion_tokens"] == 9
    assert body["messages"][1]["content"] is None
    shared.rule = claude_whole
    ask(shared, CALLS_ALONE, name=CLAUDE)
    assert [block["type"] for block in shared.heard[-1].body["messages"][1]["content"]] == ["tool_use"]


def test_a_call_that_is_no_json_can_be_shown_again(shared):
    ask_once(
        shared,
        Request(
            (*HELLO.messages, Message("assistant", "", (NativeCall("1", "add", '{"a": 1'),)), Message("tool", "?", call_id="1"))
        ),
    )
    sent = normal(shared.heard[-1].body)["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert '{"a": 1' in sent.values()


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
    assert "a?b" in json.dumps(shared.heard[-1].body)


def test_tokens_are_the_servers_count_and_not_an_estimate(shared):
    shared.rule = lambda heard: completion()
    usage = ask_once(shared).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.estimated) == (11, 5, 4, False)


def test_no_count_is_no_usage(shared):
    shared.rule = lambda heard: Said({key: value for key, value in completion().body.items() if key != "usage"})
    assert ask_once(shared).usage is None


@pytest.mark.parametrize("text", ['{"done": true,  "kind": "a"}', '{"done":', "no JSON"])
@pytest.mark.parametrize("streamed", [False, True])
def test_the_text_of_a_choice_is_kept_as_it_was_sent(shared, text, streamed):
    shared.rule = lambda heard: Said(None, frames=frames_of(Reply(text))) if streamed else completion(text)
    choices = {"done": {"type": "boolean"}, "kind": {"type": "string", "enum": ["a", "b"]}}
    request = replace(HELLO, response_schema={"type": "object", "properties": choices, "required": ["done", "kind"]})
    reply = read_once(shared, request)[-1].reply if streamed else ask_once(shared, request)
    assert reply is not None
    assert reply.text == text


def test_a_refusal_is_what_the_model_said(shared):
    shared.rule = lambda heard: completion(None, message={"role": "assistant", "content": None, "refusal": "I will not."})
    assert ask_once(shared).text == "I will not."


@pytest.mark.parametrize("reason", ["stop", "length", "content_filter"])
def test_the_finish_reason_is_kept(shared, reason):
    shared.rule = lambda heard: completion(finish_reason=reason)
    assert ask_once(shared).finish_reason == reason


def test_a_known_model_has_the_price_that_dspy_gives_it(shared):
    shared.rule = lambda heard: completion()
    lm = dspy.LM("openai/gpt-4o-mini", api_base=shared.url, api_key="none", cache=False, num_retries=0)
    lm("hello")
    lm.close()
    reply = ask(shared, name="openai/gpt-4o-mini")
    assert reply.usage is not None
    assert reply.usage.cost_usd == lm.history[-1]["cost"] > 0


def test_an_unknown_model_has_no_price(shared):
    usage = ask(shared).usage
    assert usage is not None
    assert usage.cost_usd is None


def test_dspy_keeps_no_history_of_a_run(shared):
    model = open_model(NAME, shared.url)
    before = len(dspy.clients.base_lm.GLOBAL_HISTORY)
    asyncio.run(_ask(model, HELLO, model.aclose))
    assert isinstance(model.model, DspyModel)
    assert model.model.lm.history == []
    assert len(dspy.clients.base_lm.GLOBAL_HISTORY) == before


# --- another provider's wire ---

CLAUDE = "anthropic/claude-sonnet-4-5"
CLAUDE_USAGE = {"input_tokens": 10, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 5, "output_tokens": 7}
CLAUDE_BLOCKS: list[dict[str, Any]] = [
    {"type": "text", "text": "I add."},
    {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}},
]


def claude_whole(heard: Heard) -> Said:
    body = {"id": "m1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": CLAUDE_BLOCKS}
    return Said(body | {"stop_reason": "tool_use", "usage": CLAUDE_USAGE})


def claude_streamed(usage: dict[str, int]) -> Said:
    """https://docs.anthropic.com/en/docs/build-with-claude/streaming. `usage`: what its end tells."""
    message = {"id": "m1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": []}
    frames: list[dict[str, Any]] = [{"type": "message_start", "message": message | {"usage": CLAUDE_USAGE | {"output_tokens": 1}}}]
    for index, (block, deltas) in enumerate(
        [
            ({"type": "text", "text": ""}, [{"type": "text_delta", "text": text} for text in ("I ", "add.")]),
            (
                CLAUDE_BLOCKS[1] | {"input": {}},
                [{"type": "input_json_delta", "partial_json": part} for part in ('{"a"', ": 1}")],
            ),
        ]
    ):
        frames.append({"type": "content_block_start", "index": index, "content_block": block})
        frames += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        frames.append({"type": "content_block_stop", "index": index})
    frames.append({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": usage})
    return Said(None, frames=[*frames, {"type": "message_stop"}])


@pytest.mark.parametrize("streamed", [False, True])
def test_anthropics_counts_mean_what_all_others_mean(shared, streamed, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    shared.rule = (lambda heard: claude_streamed(CLAUDE_USAGE)) if streamed else claude_whole
    model = open_model(CLAUDE, shared.url)
    assert model.capabilities.native_tools
    assert (model.capabilities.context_tokens or 0) >= 200_000
    reply = asyncio.run(_read(model, HELLO))[-1].reply if streamed else asyncio.run(_ask(model, HELLO, model.aclose))
    assert reply is not None
    assert (reply.text, reply.finish_reason) == ("I add.", "tool_calls")
    assert [(call.id, call.name, json.loads(call.arguments)) for call in reply.calls] == [("t1", "add", {"a": 1})]
    usage = reply.usage
    assert usage is not None
    assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens) == (105, 90, 7)
    assert usage.cost_usd == pytest.approx((10 * 3 + 90 * 0.3 + 5 * 3.75 + 7 * 15) / 1e6)
    assert usage.nominal_usd == pytest.approx((100 * 3 + 5 * 3.75 + 7 * 15) / 1e6)


def test_half_a_count_is_none(shared, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    shared.rule = lambda heard: claude_streamed({"output_tokens": 7})
    reply = asyncio.run(_read(open_model(CLAUDE, shared.url), HELLO))[-1].reply
    assert reply is not None
    assert (reply.text, reply.usage) == ("I add.", None)


# --- errors ---


@EACH
@given(
    status=st.integers(200, 599),
    body=st.text(max_size=50) | JSON | st.fixed_dictionaries({"error": JSON | OBJECT}) | st.fixed_dictionaries({"choices": JSON}),
)
def test_whatever_a_server_answers_is_a_reply_or_a_model_error(shared, status, body):
    shared.rule = lambda heard: Said("" if status in (204, 304) else body, status)
    failed = ""
    try:
        reply = ask_once(shared)
    except ModelError as error:
        failed = str(error)
    else:
        assert isinstance(reply, Reply)
    assert "\n" not in failed


@pytest.mark.parametrize(
    ("said", "kind", "status", "retry_after_s"),
    [
        (failure(429, "slow down", "rate_limit_exceeded", **{"Retry-After": "7"}), "rate_limit", 429, 7.0),
        (failure(429, "slow down", "rate_limit_exceeded"), "rate_limit", 429, None),
        (failure(429, "you exceeded your quota", "insufficient_quota"), "auth", 429, None),
        (failure(500, "oops"), "server", 500, None),
        (Said("<html>bad gateway</html>", 502), "server", 502, None),
        (failure(503, "overloaded", **{"Retry-After": "2"}), "server", 503, 2.0),
        (failure(504, "too long"), "timeout", 504, None),
        (failure(401, "Incorrect API key", "invalid_api_key"), "auth", 401, None),
        (failure(403, "not yours"), "auth", 403, None),
        (failure(400, "bad temperature", "invalid_value"), "bad_request", 400, None),
        (failure(404, "The model does not exist", "model_not_found"), "bad_request", 404, None),
        (Said('{"choices": [{'), "server", 200, None),
        (Said("[1]"), "server", None, None),
        (HANG_UP, "connection", None, None),
    ],
)
def test_errors_are_told_apart(shared, said, kind, status, retry_after_s):
    shared.rule = lambda heard: said
    with pytest.raises(ProviderError) as caught:
        ask_once(shared)
    error = caught.value
    assert (error.kind, error.status, error.retry_after_s, error.injected) == (kind, status, retry_after_s, False)


def google(status: int, message: str, code: str) -> Said:
    return Said({"error": {"code": status, "message": message, "status": code}}, status)


def claude(status: int, message: str, code: str) -> Said:
    return Said({"type": "error", "error": {"type": code, "message": message}}, status)


def vllm(status: int, message: str) -> Said:
    return Said({"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": status}, status)


OVERFLOWS = {
    "openai": failure(400, "This model's maximum context length is 8 tokens.", "context_length_exceeded"),
    "openai responses": failure(400, "Your input exceeds the context window of this model.", "invalid_value"),
    "anthropic": claude(400, "prompt is too long: 213462 tokens > 200000 maximum", "invalid_request_error"),
    "anthropic output": claude(400, "input length and `max_tokens` exceed context limit: 9 + 2 > 10", "invalid_request_error"),
    "anthropic bytes": claude(413, "Request exceeds the maximum size", "request_too_large"),
    "gemini": google(400, "The input token count (9) exceeds the maximum number of tokens allowed (8).", "INVALID_ARGUMENT"),
    "vllm": vllm(400, "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens"),
    "vllm error": Said({"error": {"message": "The decoder prompt (length 9) is longer than the maximum model length of 8."}}, 400),
    "llama.cpp": Said(
        {"error": {"message": "the request exceeds the available context size", "type": "exceed_context_size_error", "code": 400}},
        400,
    ),
    "llama.cpp bare": Said({"error": {"message": "the request exceeds the available context size, try increasing it"}}, 500),
    "llama-cpp-python": failure(400, "Requested tokens (600) exceed context window of 512", "context_length_exceeded"),
    "llama-cpp-python old": failure(500, "Requested tokens (600) exceed context window of 512"),
    "ollama": Said({"error": {"message": "the input length exceeds the context length", "type": "api_error"}}, 400),
    "mistral": failure(400, "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"),
    "groq": failure(400, "Please reduce the length of the messages or completion.", "context_length_exceeded"),
    "bedrock": failure(400, "Input is too long for requested model."),
    "proxy": Said("<html>Request Entity Too Large</html>", 413),
}


@pytest.mark.parametrize("said", OVERFLOWS.values(), ids=OVERFLOWS.keys())
def test_a_request_that_is_too_long_is_no_failure_of_the_provider(shared, said):
    shared.rule = lambda heard: said
    with pytest.raises(ContextOverflow):
        ask_once(shared)


def invalid(*place: str | int) -> str:
    """FastAPI's words for a request that failed validation at a place of its body."""
    items = [
        {"type": "literal_error", "loc": ("body", *place), "msg": "Input should be 'x'", "input": "'loc': ('body', 'tools')"},
        {"type": "missing", "loc": ("body", *place, "tools"), "msg": "Field required", "input": None},
    ]
    return "2 validation errors:\n" + "".join(f"  {item!r}\n" for item in items)


REFUSALS = {
    "openai tool_choice": failure(
        400, "Unsupported parameter: 'tool_choice' is not supported with this model.", "unsupported_parameter"
    ),
    "openai schema": failure(400, "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."),
    "openai unknown": failure(400, "Unknown parameter: 'tool_choice'.", "unknown_parameter"),
    "vllm": vllm(400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
    "vllm required": vllm(400, 'tool_choice = "required" is not supported!'),
    "ollama": failure(400, "registry.ollama.ai/library/gemma:2b does not support tools"),
    "openrouter": failure(404, "No endpoints found that support tool use."),
    "openrouter choice": failure(404, "No endpoints found that support the provided 'tool_choice' value."),
    "deepseek": failure(400, "This response_format type is unavailable now"),
    "groq": failure(400, "`tool calling` is not supported with this model"),
    "anthropic": claude(400, "Thinking may not be enabled when tool_choice forces tool use.", "invalid_request_error"),
    "gemini": google(400, "Function calling is not enabled for models/gemma-3", "INVALID_ARGUMENT"),
    "gemini schema": google(
        400, "Function calling with a response mime type 'application/json' is unsupported", "INVALID_ARGUMENT"
    ),
    "llama.cpp": failure(500, "tools param requires --jinja flag"),
    "fastapi": Said({"detail": [{"loc": ["body", "tool_choice"], "msg": "Extra inputs are not permitted"}]}, 422),
    "fastapi value": Said({"detail": [{"loc": ["body", "response_format", "type"], "msg": "Input should be 'text'"}]}, 422),
    "llama-cpp-python": failure(500, invalid("response_format", "type")),
    "vllm format": vllm(400, invalid("tool_choice")),
    "plain": Said({"error": "this model does not support tools"}, 400),
    "not implemented": failure(501, "tool_choice is not implemented"),
}


@pytest.mark.parametrize("said", REFUSALS.values(), ids=REFUSALS.keys())
def test_a_refused_wish_is_told_from_a_bad_request(shared, said):
    shared.rule = lambda heard: said
    with pytest.raises(ProviderError) as caught:
        ask_once(shared)
    assert caught.value.kind == "refused"
    assert any(word in str(caught.value).lower() for word in ("tool", "response_format", "function calling"))


LIMITS = {
    "openai": (failure(429, "Rate limit reached. Please try again in 1m2.5s.", "rate_limit_exceeded"), "rate_limit", 62.5),
    "openai ms": (failure(429, "Please try again in 312ms.", "rate_limit_exceeded"), "rate_limit", 0.312),
    "groq": (failure(429, "Please try again in 1h2m3s. Need more?", "rate_limit_exceeded"), "rate_limit", 3723.0),
    "gemini": (google(429, "You exceeded your current quota. Please retry in 34.07s.", "RESOURCE_EXHAUSTED"), "rate_limit", 34.07),
    "anthropic": (claude(429, "This request would exceed your rate limit", "rate_limit_error"), "rate_limit", None),
    "overloaded": (claude(529, "Overloaded", "overloaded_error"), "server", None),
    "quota": (failure(429, "You exceeded your current quota", "insufficient_quota"), "auth", None),
    "billing": (failure(402, "Insufficient Balance"), "auth", None),
}


@pytest.mark.parametrize(("said", "kind", "wait_s"), LIMITS.values(), ids=LIMITS.keys())
def test_limits_are_told_apart(shared, said, kind, wait_s):
    shared.rule = lambda heard: said
    with pytest.raises(ProviderError) as caught:
        ask_once(shared)
    assert (caught.value.kind, caught.value.retry_after_s) == (kind, wait_s)


ORDINARY = [
    failure(400, "max_tokens is too large: 99999. This model supports at most 16384 completion tokens"),
    failure(400, "Unsupported value: 'temperature' does not support 0.2 with this model."),
    failure(400, "Invalid schema for function 'add': 'type' is required"),
    failure(404, "The model `gpt-9` does not exist or you do not have access to it.", "model_not_found"),
    failure(400, "Invalid 'messages[2].content': string expected"),
    failure(500, invalid("messages", 1, "tool_calls")),
    Said({"detail": [{"loc": ["body", "temperature"], "msg": "Input should be less than 2"}]}, 422),
]


@pytest.mark.parametrize("said", ORDINARY)
def test_an_ordinary_bad_request_is_one(shared, said):
    shared.rule = lambda heard: said
    with pytest.raises(ProviderError) as caught:
        ask_once(shared)
    assert caught.value.kind == "bad_request"


@pytest.mark.parametrize(
    "request_",
    [
        Request(()),
        Request((Message("tool", "x", call_id=""),)),
        Request(HELLO.messages, tool_choice="no_such_tool"),
        Request((*HELLO.messages, Message("assistant", "", (NativeCall("", "", "{}"),)))),
    ],
    ids=["nothing", "answer to no call", "tool not offered", "nameless call"],
)
def test_what_cannot_be_sent_is_a_bad_request(shared, request_):
    before = len(shared.heard)
    with pytest.raises(ProviderError) as caught:
        ask_once(shared, request_)
    assert caught.value.kind == "bad_request"
    assert len(shared.heard) == before


@EACH
@given(before=st.text(max_size=20), after=st.text(max_size=20))
def test_an_error_that_echoes_the_key_does_not_hold_it(shared, before, after):
    os.environ["OPENAI_API_KEY"] = SECRET  # put back by the fixture
    shared.rule = lambda heard: failure(401, f"{before}{heard.headers['Authorization']}{after}")
    try:
        with pytest.raises(ProviderError) as caught:
            ask_once(shared)
    finally:
        del os.environ["OPENAI_API_KEY"]
    assert shared.heard[-1].key == SECRET
    assert SECRET not in str(caught.value)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)  # what the provider said holds the key


@pytest.mark.parametrize(
    "said",
    [failure(401, SECRET), Said(f"<html>{SECRET}", 500), Said(f"<html>{SECRET}"), failure(400, SECRET, "context_length_exceeded")],
    ids=["refused", "broken", "unreadable", "overflow"],
)
@pytest.mark.parametrize("streamed", [False, True])
def test_nothing_that_a_provider_said_is_behind_an_error(shared, said, streamed):
    """Those who report errors look at what came before them, too."""
    shared.rule = lambda heard: said
    model = open_model(NAME, shared.url, RealOptions(attempts=1))

    async def go() -> None:
        try:
            async for _ in model.stream(HELLO):
                break
        finally:
            await model.aclose()

    with pytest.raises(ModelError) as caught:
        asyncio.run(go() if streamed else _ask(model, HELLO, model.aclose))
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


# --- streams ---


def frame(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    return {"id": "c-1", "model": "test-model", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def frames_of(reply: Reply, *, usage: bool = True) -> list[Any]:
    """A reply as OpenAI streams it."""
    made: list[Any] = [frame({"role": "assistant", "content": ""})]
    for chunk in pieces(reply):
        if chunk.text:
            made.append(frame({"content": chunk.text}))
        if chunk.call is not None:
            function = {"arguments": chunk.call.arguments} | ({"name": chunk.call.name} if chunk.call.name else {})
            call = {"index": chunk.call.index, "function": function} | ({"id": chunk.call.id} if chunk.call.id else {})
            made.append(frame({"tool_calls": [call]}))
    made.append(frame({}, reply.finish_reason))
    if usage:
        made.append({"id": "c-1", "model": "test-model", "choices": [], "usage": completion().body["usage"]})
    return [*made, "[DONE]"]


async def _read(model: Any, request: Request) -> list[Chunk]:
    try:
        return [chunk async for chunk in model.stream(request)]
    finally:
        await model.aclose()


def read_once(server: Server, request: Request = HELLO) -> list[Chunk]:
    """One attempt at a stream."""
    return asyncio.run(_read(DspyModel(open_lm(NAME, server.url)), request))


REPLIES = st.builds(
    Reply,
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.lists(st.builds(NativeCall, NAMES, NAMES, st.text(max_size=40)), max_size=3).map(tuple),
).map(lambda reply: replace(reply, finish_reason="tool_calls") if reply.calls else reply)


@EACH
@given(reply=REPLIES, usage=st.booleans())
def test_a_stream_adds_up_to_the_reply_that_was_sent(shared, reply, usage):
    shared.rule = lambda heard: Said(None, frames=frames_of(reply, usage=usage))
    *chunks, last = read_once(shared)
    assert last.reply is not None
    assert (last.text, last.call) == ("", None)
    assert not any(chunk.reply for chunk in chunks)
    assert (last.reply.text, last.reply.calls, last.reply.finish_reason) == (reply.text, reply.calls, reply.finish_reason)
    assert "".join(chunk.text for chunk in chunks) == reply.text
    made: dict[int, NativeCall] = {}
    for chunk in chunks:
        if chunk.call is not None:
            so_far = made.get(chunk.call.index, NativeCall("", "", ""))
            made[chunk.call.index] = NativeCall(
                so_far.id or chunk.call.id, so_far.name or chunk.call.name, so_far.arguments + chunk.call.arguments
            )
    assert tuple(made.values()) == reply.calls
    counted = last.reply.usage
    assert (counted and (counted.input_tokens, counted.output_tokens, counted.cached_tokens)) == ((11, 5, 4) if usage else None)
    assert shared.heard[-1].body["stream"] is True


def test_a_streamed_reply_has_its_price(shared):
    shared.rule = lambda heard: Said(None, frames=frames_of(Reply("hi")))
    model = open_model("openai/gpt-4o-mini", shared.url)
    streamed = asyncio.run(_read(model, HELLO))[-1].reply
    shared.rule = lambda heard: completion()
    whole = ask(shared, name="openai/gpt-4o-mini")
    assert streamed is not None
    assert streamed.usage == whole.usage
    assert whole.usage is not None
    assert (whole.usage.nominal_usd or 0) > (whole.usage.cost_usd or 0) > 0


@pytest.mark.parametrize(
    ("frames", "cut", "kind"),
    [
        ([frame({"content": "a"})], True, "connection"),
        ([frame({"content": "a"})], False, "connection"),
        ([], False, "server"),
        ([], True, "connection"),
        ([frame({"content": "a"}), "{no json", "[DONE]"], False, "server"),
        ([frame({"content": "a"}), {"error": {"message": "oops", "type": "server_error", "code": None}}], False, "server"),
        (
            [{"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}}]}, frame({}, "stop")],
            False,
            None,
        ),
    ],
    ids=["cut", "no end", "nothing", "cut at once", "garbled", "error", "nameless call"],
)
def test_a_broken_stream_is_an_error(shared, frames, cut, kind):
    shared.rule = lambda heard: Said(None, frames=frames, cut=cut)
    with pytest.raises(ProviderError) as caught:
        read_once(shared)
    assert kind is None or caught.value.kind == kind
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("said", [failure(401, "no"), failure(400, "long", "context_length_exceeded"), failure(500, "oops")])
def test_a_stream_that_is_refused_fails_as_a_whole_reply_does(shared, said):
    shared.rule = lambda heard: said
    errors = []
    for attempt in (ask_once, read_once):
        with pytest.raises(ModelError) as caught:
            attempt(shared)
        errors.append(caught.value)
    assert [type(error) for error in errors] == [type(errors[0])] * 2
    assert str(errors[0]) == str(errors[1])


def test_a_stream_that_fails_at_once_is_tried_again():
    told = Said(None, frames=frames_of(Reply("at last")))
    with serving(in_turn(failure(503, "busy"), told)) as server:
        reply = asyncio.run(_read(open_model(NAME, server.url), HELLO))[-1].reply
    assert reply is not None
    assert (reply.text, reply.failed_attempts) == ("at last", ("server",))


def test_closing_a_stream_early_closes_its_connection():
    def endless(heard: Heard) -> Said:
        return Said(None, frames=(frame({"content": "x" * 1000}) for _ in range(1_000_000)))

    async def read_a_little(server: Server) -> int:
        model = open_model(NAME, server.url)
        read = 0
        async with aclosing(model.stream(HELLO)) as chunks:
            async for _ in chunks:
                read += 1
                if read == 3:
                    break
        assert await asyncio.to_thread(server.left.wait, 20)
        await model.aclose()
        return read

    with serving(endless) as server:
        assert asyncio.run(read_a_little(server)) == 3


# --- clients of a server on this machine ---


def test_local_clients_share_their_connections_and_add_to_the_body(shared):
    shared.rule = lambda heard: completion(heard.body["metadata"]["scope"])

    async def ask_all() -> list[str]:
        models = [local_client(shared.url, lambda request: {"metadata": {"scope": request.scope}}) for _ in range(5)]
        replies = [await model.complete(replace(HELLO, scope=str(number))) for number, model in enumerate(models)]
        await close_local_clients()
        return [reply.text for reply in replies]

    before = len(shared.heard)
    assert asyncio.run(ask_all()) == ["0", "1", "2", "3", "4"]
    assert {heard.port for heard in shared.heard[before:]} == {shared.heard[-1].port}
    assert {heard.key for heard in shared.heard[before:]} == {LOCAL_KEY}


@pytest.mark.parametrize("attempt", [ask_once, read_once])
def test_extensions_reach_the_body(shared, attempt):
    shared.rule = lambda heard: Said(None, frames=frames_of(Reply("x"))) if heard.body.get("stream") else completion()
    lm = dspy.LM(NAME, api_base=shared.url, api_key="none", cache=False, num_retries=0)
    model = DspyModel(lm, extensions=lambda request: {"metadata": {"role": request.role.value}})
    asyncio.run(_read(model, HELLO) if attempt is read_once else _ask(model, HELLO, model.aclose))
    assert shared.heard[-1].body["metadata"] == {"role": "decide"}


def test_a_local_client_goes_round_a_proxy(shared, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    shared.rule = lambda heard: completion("direct")
    assert asyncio.run(_ask(local_client(shared.url), HELLO, close_local_clients)).text == "direct"
    assert ask_once(shared).text == "direct"


# --- retries ---


def test_a_transient_failure_is_tried_again():
    with serving(in_turn(failure(503, "busy"), HANG_UP, completion("at last"))) as server:
        assert ask(server).text == "at last"
        assert len(server.heard) == 3


@pytest.mark.parametrize(
    "said",
    [
        failure(401, "no"),
        failure(400, "no"),
        failure(400, "no", "context_length_exceeded"),
        failure(429, "no", "insufficient_quota"),
    ],
    ids=["auth", "bad request", "overflow", "quota"],
)
def test_what_would_fail_again_is_not_tried_again(said):
    with serving(in_turn(said)) as server:
        with pytest.raises(ModelError):
            ask(server)
        assert len(server.heard) == 1


@pytest.mark.parametrize("in_words", [False, True], ids=["seconds", "date"])
def test_the_time_to_come_back_is_read(shared, in_words):
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    shared.rule = lambda heard: failure(429, "slow down", **{"Retry-After": later if in_words else "99.5"})
    with pytest.raises(ProviderError) as caught:
        ask_once(shared)
    assert caught.value.retry_after_s == pytest.approx(99.5, abs=2)


def test_a_server_that_hangs_is_given_up_on():
    released = threading.Event()

    def hang(heard: Heard) -> Said:
        released.wait(30)
        return completion()

    with serving(hang) as server:
        try:
            with pytest.raises(ProviderError, match=r"no reply within 0\.2 s") as caught:
                ask(server, patience_s=0.2)
        finally:
            released.set()
    assert caught.value.kind == "timeout"


def test_a_server_that_is_not_there_is_a_connection_failure():
    with serving(in_turn(completion())) as server:
        pass
    with pytest.raises(ProviderError) as caught:
        ask(server)
    assert caught.value.kind == "connection"


def test_cancelling_a_call_ends_it_between_attempts_too():
    async def cancelled_while_pausing(server: Server) -> bool:
        model = open_model(NAME, server.url)
        running = asyncio.ensure_future(model.complete(HELLO))
        while not server.heard:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        running.cancel()
        await asyncio.wait({running}, timeout=5)
        await model.aclose()
        return running.cancelled()

    with serving(in_turn(failure(429, "later", **{"Retry-After": "15"}))) as server:
        assert asyncio.run(cancelled_while_pausing(server))
        assert len(server.heard) == 1


def test_64_requests_are_in_flight_at_once():
    together = threading.Barrier(64)  # nobody gets an answer before all have asked

    def wait_for_all(heard: Heard) -> Said:
        together.wait(20)
        return completion()

    async def ask_all(server: Server) -> list[Reply]:
        model = open_model(NAME, server.url)
        try:
            return await asyncio.gather(*(model.complete(HELLO) for _ in range(64)))
        finally:
            await model.aclose()

    with serving(wait_for_all) as server:
        replies = asyncio.run(ask_all(server))
        assert len(replies) == len(server.heard) == 64


# --- names, keys, addresses ---


def test_a_model_is_one():
    model = open_model(NAME, "http://127.0.0.1:9/v1")
    assert isinstance(model, Model)
    assert isinstance(model, RealModel)
    assert model.name == NAME


@pytest.mark.parametrize("name", ["gpt-4o", "openai/", "/gpt-4o", ""])
def test_a_name_without_provider_or_model_is_refused(name):
    with pytest.raises(ValueError, match="write provider/model"):
        open_model(name)


@pytest.mark.parametrize(
    ("name", "key"), [("openai/gpt-4o", "OPENAI_API_KEY"), ("anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY")]
)
def test_a_missing_key_is_named(name, key):
    with pytest.raises(ValueError, match=f"no key: set {key} in the environment"):
        open_model(name)


@pytest.mark.parametrize(
    "url",
    ["localhost:8000/v1", "ftp://host/v1", "http://", "http://host:99999/v1", "http://user:hunter2@host/v1", "http://hunter2@host"],
)
def test_an_address_that_cannot_be_used_is_refused_without_being_repeated(url):
    with pytest.raises(ValueError, match="base URL") as caught:
        open_model(NAME, url)
    assert "hunter2" not in str(caught.value)


def test_a_server_of_ones_own_needs_no_key(shared):
    ask(shared)
    assert shared.heard[-1].key == LOCAL_KEY


def test_a_server_of_ones_own_gets_the_key_that_is_set(shared, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    ask(shared)
    assert shared.heard[-1].key == SECRET


def test_a_key_for_a_gateway_goes_to_the_gateway(shared, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("OPENAI_BASE_URL", shared.url)
    model = open_model(NAME)
    asyncio.run(_ask(model, HELLO, model.aclose))
    assert shared.heard[-1].key == SECRET


# --- whole runs ---

SUITE = arithmetic.SUITE()
TASKS = 4
REACT = ReactCodec(ReactStep)
EXTRACT = ExtractCodec(ExtractAnswer.append("answer", dspy.OutputField(), str), {})


class Solver:
    """Answers as a model that knows the suite: follows a task's plan by counting the observations in the prompt."""

    def __init__(self, suite: Suite, tasks: int) -> None:
        self.tasks = {task.query.text: task for task in suite.tasks[:tasks]}
        self.calls = {text: run_sync(replay(task, suite)) for text, task in self.tasks.items()}

    def __call__(self, heard: Heard) -> Said:
        messages = heard.body["messages"]
        prompt = "\n".join(message["content"] for message in messages)
        question = next(text for text in self.tasks if text in prompt)
        task, calls = self.tasks[question], self.calls[question]
        if "[[ ## reasoning ## ]]" in prompt:
            return self.say(EXTRACT, Answer("It follows.", self.answer(task)))
        if "[[ ## next_thought ## ]]" in prompt:
            return self.act(REACT, calls, messages[-1]["content"].count("[[ ## observation_"), None)
        seen = sum(message["role"] == "user" for message in messages) - 1
        return self.act(CODEC, calls, seen, self.answer(task))

    def act(self, codec: Codec, calls: tuple[Replayed, ...], seen: int, answer: str | None) -> Said:
        if seen >= len(calls):
            return self.say(codec, Answer("All is known.", answer))
        return self.say(codec, Act("Next.", (ToolCall(calls[seen].tool, calls[seen].arguments),)))

    def answer(self, task: Task) -> str:
        return "cannot be determined" if task.expected is None else str(task.expected)

    def say(self, codec: Codec, move: Act | Answer) -> Said:
        return completion(codec.render(move).text)


@pytest.fixture(scope="module")
def solver() -> Solver:
    return Solver(SUITE, TASKS)


class Silent(Unwatched):
    """Progress that nobody watches."""

    def finished(self, record: Record) -> None:
        return None


def run(tmp_path: Path, server: Server, **changes: Any) -> list[Record]:
    """A comparison through the Python API; gives its records."""
    values: dict[str, Any] = {"loops": LOOPS, "models": (NAME,), "base_url": server.url, "tasks": TASKS, "mlflow": False}
    values |= {"runs": tmp_path / "runs"} | changes
    experiment = prepare(CompareConfig(**values))
    compare.run(experiment, Silent())
    return read_records(experiment.folder)


def test_both_loops_solve_tasks_over_http(tmp_path, solver: Solver):
    with serving(solver) as server:
        records = run(tmp_path, server)
        asked = len(server.heard)
    assert len(records) == len(LOOPS) * TASKS
    assert {record.status for record in records} == {"scored"}
    assert [record.accuracy for record in records] == [1.0] * len(records)
    assert {record.stop for record in records} == {"finished"}
    assert sum(record.lm_calls for record in records) == asked
    for record in records:
        assert (record.input_tokens, record.output_tokens, record.cached_tokens) == tuple(n * record.lm_calls for n in (11, 5, 4))
        assert not record.tokens_estimated
        assert record.cost_usd is None


def test_a_failure_of_the_provider_is_no_failure_of_the_loop(tmp_path):
    with serving(in_turn(failure(500, "out of order"))) as server:
        records = run(tmp_path, server)
        assert len(server.heard) == len(records) * RealOptions().attempts  # one call for each trial, tried again so often
    assert {record.status for record in records} == {"errored"}
    assert {record.reason for record in records} == {"provider: out of order"}
    assert all(record.errors == {"provider.server": 1} and not record.scores for record in records)


def test_a_hanging_provider_is_told_from_a_slow_loop(tmp_path):
    released = threading.Event()

    def hang(heard: Heard) -> Said:
        released.wait(30)
        return completion()

    with serving(hang) as server:
        try:
            records = run(tmp_path, server, trial_timeout_s=0.4, tasks=1, provider={"attempts": 2})
        finally:
            released.set()
    assert {(record.status, record.reason) for record in records} == {("errored", "provider: no reply within 0.2 s")}
    assert {(record.errors["provider.timeout"], record.retries["timeout"]) for record in records} == {(1, 1)}


def test_a_provider_that_was_silent_once_or_asked_to_wait_is_asked_again_beyond_the_time_of_a_trial(tmp_path, solver: Solver):
    released, asked = threading.Event(), iter(range(10**6))

    def trouble(heard: Heard) -> Said:
        number = next(asked)
        if number == 0:
            released.wait(30)
        return failure(429, "later", **{"Retry-After": "0.7"}) if number == 1 else solver(heard)

    with serving(trouble) as server:
        try:
            records = run(tmp_path, server, trial_timeout_s=0.6, tasks=1, loops=("bare",))
        finally:
            released.set()
    assert [(record.status, record.accuracy, record.retries) for record in records] == [
        ("scored", 1.0, {"rate_limit": 1, "timeout": 1})
    ]
    assert records[0].seconds < 0.6


def test_a_run_at_an_address_with_a_key_in_it_goes_on_where_the_address_is_typed_again(tmp_path, solver: Solver):
    """The manifest leaves the key out, and so does what is said of it."""
    with serving(solver) as server:
        address = f"{server.url}?api_key={SECRET}"
        values = {"loops": ("bare",), "models": (NAME,), "base_url": address, "tasks": 1, "mlflow": False}
        begun = prepare(CompareConfig(**values, runs=tmp_path / "runs", provider={"attempts": 1}))
        for wrong in (None, server.url, address.replace("127.0.0.1", "localhost")):
            with pytest.raises(RunError, match="type it again") as caught:
                reopen(begun.folder, Permissions(base_url=wrong))
            assert SECRET not in str(caught.value)
        again = reopen(begun.folder, Permissions(base_url=address))
    assert again.config.base_url == address
    assert SECRET not in (begun.folder / "manifest.json").read_text()


def test_an_overflow_is_the_loops_to_deal_with(tmp_path, solver: Solver):
    def small(heard: Heard) -> Said:
        long = len(heard.body["messages"]) > 2
        return failure(400, "too long", "context_length_exceeded") if long else solver(heard)

    with serving(small) as server:
        records = run(tmp_path, server, tasks=1, loops=("bare",))
    assert [(record.status, record.stop, record.accuracy) for record in records] == [("scored", "context_overflow", 0.0)]


WATCHED = """
import sys
log = open(sys.argv.pop(1), "a", buffering=1)
def hook(event, args):
    if event == "socket.connect":
        print(args[1], file=log)
    elif event == "socket.getaddrinfo":
        print(args[:2], file=log)
sys.addaudithook(hook)
from loopbench.cli.main import main
main()
"""


@dataclass(frozen=True)
class Shell:
    """A user's machine, without a key: home and working directory."""

    home: Path

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ}
        environ = kept | {"HOME": str(self.home), "DSPY_CACHEDIR": str(self.home / "cache"), "COLUMNS": "200"}
        command = [sys.executable, "-c", WATCHED, str(self.home / "connections"), *arguments]
        return subprocess.run(command, cwd=self.home, env=environ, capture_output=True, text=True, timeout=120, check=False)

    @property
    def connections(self) -> list[str]:
        return (self.home / "connections").read_text().splitlines()

    def files(self) -> set[str]:
        """What stands in the home directory."""
        return {path.name for path in self.home.iterdir()}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@dataclass(frozen=True)
class Here:
    """The command within this process, which has the key: one of its own would take seconds to import what it needs."""

    home: Path
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]
    places: list[Any] = field(default_factory=list)
    """What was connected to."""

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        self.monkeypatch.setattr(sys, "argv", ["loopbench", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
        code, said = left.value.code, self.capsys.readouterr()
        assert isinstance(code, int)
        return subprocess.CompletedProcess(arguments, code, said.out, said.err)

    def texts(self) -> str:
        """All that a run left on the disk."""
        return "\n".join(text_of(path) for path in self.home.rglob("*") if path.is_file())


def text_of(path: Path) -> str:
    """Traces lie there compressed."""
    if path.suffix != ".zst":
        return path.read_text()
    with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as frames:
        return bytes(frames.read()).decode()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    made, connect = Here(tmp_path, monkeypatch, capsys), socket.socket.connect

    def watched(sock: socket.socket, address: Any) -> None:
        made.places.append(address)
        connect(sock, address)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setattr(socket.socket, "connect", watched)
    return made


def flags(server: Server) -> list[str]:
    return ["--model", NAME, "--base-url", server.url]


COMPARE = [
    "compare",
    "--loop",
    "bare",
    "--loop",
    "react_extract",
    "--suite",
    "arithmetic",
    "--tasks",
    str(TASKS),
    "--no-mlflow",
    "--json",
]


def test_errored_trials_run_again_on_resume_and_no_key_is_left_anywhere(here: Here, solver: Solver):
    def broken(heard: Heard) -> Said:
        if "next_thought" not in json.dumps(heard.body):
            return solver(heard)
        return failure(401, f"Unauthorized: {json.dumps(heard.headers)} from http://user:{heard.key}@proxy.test/")

    with serving(broken) as server:
        first = here(*COMPARE, *flags(server))
        assert {heard.key for heard in server.heard} == {SECRET}
        before = here.texts()
        server.rule = solver
        asked = len(server.heard)
        untyped = here("resume", "latest", "--no-mlflow", "--json")  # a run directory does not say where a key is sent
        assert (untyped.returncode, untyped.stdout, len(server.heard)) == (2, "", asked)
        assert "type it again: --base-url" in untyped.stderr
        second = here("resume", "latest", "--no-mlflow", "--json", "--base-url", server.url)
        again = server.heard[asked:]
    arms = [[(arm["loop"], arm["scored"], arm["errored"]) for arm in json.loads(done.stdout)["arms"]] for done in (first, second)]
    assert arms == [[("bare", TASKS, 0), ("react_extract", 0, TASKS)], [("bare", TASKS, 0), ("react_extract", TASKS, 0)]]
    assert all("[[ ## " in json.dumps(heard.body) for heard in again)  # bare's trials stood already
    assert second.returncode == 0
    assert [(arm["model"], arm["accuracy"]["value"]) for arm in json.loads(second.stdout)["arms"]] == [(NAME, 1.0)] * 2
    assert {place[:2] for place in here.places} == {("127.0.0.1", server.server_port)}
    assert [path.name for path in here.home.iterdir()] == ["runs"]
    assert "[redacted]" in before
    for text in (before, here.texts(), first.stdout, first.stderr, second.stdout, second.stderr):
        assert SECRET not in text


@pytest.mark.thorough
def test_an_unknown_provider_is_one_line_and_no_run_directory(shell):
    done = shell(*COMPARE, "--model", "opnai/gpt-4o-mini")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: model 'opnai/gpt-4o-mini': unknown provider; did you mean 'openai'?")
    assert done.stderr.count("\n") == 1
    assert shell.files() == {"connections"}  # no cache either, of DSPy or any other
    assert shell.connections == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"models": ("openai/gpt-4o-mini",), "base_url": None}, "no key: set OPENAI_API_KEY in the environment"),
        ({"base_url": "http://me:hunter2@127.0.0.1/v1"}, "user and password do not go into the address"),
    ],
    ids=["key", "password"],
)
def test_what_could_not_run_makes_no_run_directory(tmp_path, shared, changes, said):
    with pytest.raises(ValueError, match=said):
        run(tmp_path, shared, **changes)
    assert [*tmp_path.iterdir()] == []


def test_an_address_in_a_manifest_has_no_password():
    config = CompareConfig(models=(NAME,), base_url="http://me:p@ss/w:rd@127.0.0.1:8000/v1?x=1")
    assert "p@ss" not in json.dumps(config.public())
