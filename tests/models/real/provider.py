"""An OpenAI-compatible server on loopback that answers by a rule, and keeps what it is asked."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.dspy_seam import DspyModel, open_lm
from whichloop.models.local.model import open_model
from whichloop.models.real import RealOptions
from whichloop.protocol import Chunk, Message, NativeCall, Reply, Request

SECRET = "sk-test-SECRET-0123456789"
NAME = "openai/test-model"
HELLO = Request((Message("user", "hello"),))


@dataclass(frozen=True)
class CannedAnswer:
    """One answer of the server. `status` 0: it hangs up instead."""

    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    frames: Iterable[Any] | None = None
    """Events of a stream, text or JSON; then the body plays no part."""
    cut: bool = False
    """The stream's connection ends before the stream does."""


HANG_UP = CannedAnswer(None, status=0)


@dataclass(frozen=True)
class SeenRequest:
    """One request to the server."""

    body: dict[str, Any]
    headers: dict[str, str]
    port: int = 0
    """The client's: one for each connection."""
    path: str = ""

    @property
    def key(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ")


Rule = Callable[[SeenRequest], CannedAnswer]


def completion(text: str | None = "hi", calls: tuple[NativeCall, ...] = (), **choice: Any) -> CannedAnswer:
    """A chat completion in OpenAI's format, 11 tokens in (4 of them cached) and 5 out."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}} for call in calls
        ]
    chosen = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"} | choice
    usage = {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16, "prompt_tokens_details": {"cached_tokens": 4}}
    return CannedAnswer({"id": "c-1", "object": "chat.completion", "model": "test-model", "choices": [chosen], "usage": usage})


def failure(status: int, message: str, code: str | None = None, **headers: str) -> CannedAnswer:
    """An error in OpenAI's format."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return CannedAnswer({"error": error}, status, headers)


class Server(ThreadingHTTPServer):
    """Answers by a rule, and keeps what it heard."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, rule: Rule) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.rule = rule
        self.seen: list[SeenRequest] = []
        self.left = threading.Event()
        """Set when a client goes in the middle of a stream."""
        self.url = f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    """Else the body waits 40 ms for the client to acknowledge the head."""
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        heard = SeenRequest(body, dict(self.headers), self.client_address[1], self.path)
        self.server.seen.append(heard)
        said = self.server.rule(heard)
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


def in_turn(*answers: CannedAnswer) -> Rule:
    """The answers one after the other, the last one for ever."""
    left = list(answers)
    return lambda heard: left.pop(0) if len(left) > 1 else left[0]


async def _ask(model: Any, request: Request) -> Reply:
    try:
        reply: Reply = await model.complete(request)
        return reply
    finally:
        await model.aclose()


def ask(server: Server, request: Request = HELLO, *, name: str = NAME, patience_s: float = 20.0) -> Reply:
    """One reply, retries included."""
    model = open_model(name, server.url, RealOptions(patience_s=patience_s))
    return asyncio.run(_ask(model, request))


def ask_once(server: Server, request: Request = HELLO) -> Reply:
    """One attempt."""
    model = DspyModel(open_lm(NAME, server.url))
    return asyncio.run(_ask(model, request))


TEXT = st.text(max_size=30)
NAMES = st.text("abcxyz_0", min_size=1, max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | TEXT, lambda inner: st.lists(inner, max_size=3), max_leaves=5
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=3)
EACH = settings(max_examples=cases(20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def frame(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    return {"id": "c-1", "model": "test-model", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


async def _read(model: Any, request: Request) -> list[Chunk]:
    try:
        return [chunk async for chunk in model.stream(request)]
    finally:
        await model.aclose()


def read_once(server: Server, request: Request = HELLO) -> list[Chunk]:
    """One attempt at a stream."""
    return asyncio.run(_read(DspyModel(open_lm(NAME, server.url)), request))
