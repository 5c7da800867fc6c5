"""An OpenAI-compatible server on loopback for models of trials, with faults on the wire for real.

Routes: `/v1/chat/completions`, `/v1/models`, `/v1/models/NAME`, and the same below `/t/TRIAL`. A body's `metadata` may name role,
scope, codec and the number of examples; without a codec the program is spoken to as an OpenAI model would (`foreign.py`).

Nothing is logged unless the logger `loopbench.models.server` is given a handler, and bodies never are.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, Self
from urllib.parse import unquote

from aiohttp import web
from aiohttp.web_request import BaseRequest

from loopbench.protocol import Codec, ContextOverflow, Model, ModelError, ProviderError, Reply
from loopbench.protocol.wire import from_json

from .foreign import ForeignCodec, foreign_codec
from .openai_wire import BadRequest, ChatRequest, chunks, completion, error_body, read_request
from .scripted import Scripted
from .tokens import estimate_usage
from .tunnel import Tunnel

MAX_BODY_BYTES = 32 * 1024 * 1024
RETRY_AFTER_S = 1
HOLD_S = 600.0
"""Longest time that a line is held silent, in seconds: as long as the official client waits by default."""
LINGER_S = 1.0
"""Seconds that the rest of a body is read and thrown away, so that a client that is still sending hears why it is refused."""
CLOSE_S = 0.5
"""Seconds that requests in flight get to end when the server closes."""
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""Of the server in a Host header: any other means that a name of someone else's points here (DNS rebinding)."""
HTTP_PORT = 80
SSE = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}

logger = logging.getLogger(__name__)
logger.addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class ServedTrial:
    """One trial's model as the server needs it."""

    model: Model
    tunnel: Tunnel
    codecs: Mapping[str, Codec] = field(default_factory=dict)
    """By the name that the client's metadata gives."""
    task_tools: Collection[str] | None = None
    """Names of the tools that the task is solved with; None: those of a scripted model's script."""


class Trials(Protocol):
    """Where a server finds its models."""

    def models(self) -> Collection[str]:
        """Names for `/v1/models`."""

    def find(self, trial: str | None, asked: ChatRequest) -> ServedTrial:
        """The trial of a request. Raises LookupError, in one line, for an unknown trial (None: none was named) or model."""


@dataclass(frozen=True, slots=True)
class OwnRequest:
    """A request that is none of OpenAI's."""

    method: str
    path: tuple[str, ...]
    """Its segments, decoded."""
    body: Any = None
    """JSON; None where there is none."""


class WrongMethod(Exception):
    """There is such a page, but not for this method; the message names the right one."""


More = Callable[[OwnRequest], Awaitable[Any]]
"""Answers further pages with JSON. Raises LookupError (no such page), BadRequest, WrongMethod."""


class Server:
    """Serves trials on loopback while it is open, as an async context manager. No thread: it runs in the event loop around it."""

    def __init__(
        self, trials: Trials, host: str = "127.0.0.1", port: int = 0, *, more: More | None = None, hold_s: float = HOLD_S
    ) -> None:
        """`port`: 0 for any that is free. `more`: answers what is no route of OpenAI's. `hold_s`: how long a time-out in real time
        keeps the line silent. Raises ValueError for a host beyond loopback.
        """
        if host not in LOOPBACK:
            raise ValueError(f"the scripted model is served on loopback only ({', '.join(sorted(LOOPBACK))}), not on {host!r}")
        self.trials = trials
        self.host = "127.0.0.1" if host == "localhost" else host
        self.port = port
        self.more = more
        self.hold_s = hold_s
        self._runner: web.ServerRunner | None = None
        self._started = int(time.time())
        self._served = 0

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`; the port is known once the server is open."""
        return f"http://{'[::1]' if self.host == '::1' else self.host}:{self.port}"

    async def __aenter__(self) -> Self:
        """Raises OSError where the port cannot be had."""
        self._runner = web.ServerRunner(_Http(self._handle, handler_cancellation=True), shutdown_timeout=CLOSE_S)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self.host, self.port, backlog=1024).start()
        except OSError:
            await self._runner.cleanup()
            raise
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    # --- from a request to a page ---

    async def _handle(self, request: BaseRequest) -> web.StreamResponse:
        response = await self._answer(request)
        if not request.content.is_eof():
            response.force_close()  # the connection ends after it, unless the rest comes soon: the client must not use it again
        return response

    async def _answer(self, request: BaseRequest) -> web.StreamResponse:
        try:
            self._guard(request)
            return await self._page(request)
        except _Refused as error:
            return error.response()
        except BadRequest as error:
            return _Refused(400, str(error), param=error.param, code=error.code).response()
        except web.HTTPRequestEntityTooLarge:
            return _Refused(413, f"The body is larger than {MAX_BODY_BYTES} bytes.", code="request_too_large").response()
        except ConnectionError:  # the client has gone
            raise
        except web.RequestPayloadError:
            return _Refused(400, "The body could not be read as its headers say.").response()
        except Exception:  # a bug of ours must not leave a client without an answer in its own format
            logger.exception("a request failed")
            return _Refused(500, "The server had an error while processing your request.", "server_error").response()

    def _guard(self, request: BaseRequest) -> None:
        """No page of a browser may use the server: neither by another name for this machine nor by a request across origins."""
        if request.headers.get("Host", "").lower() not in own_hosts(self.port):
            raise _Refused(403, "The Host header must name this server on loopback.", "permission_error", code="host_refused")
        if "Origin" in request.headers:
            raise _Refused(403, "Requests with an Origin header are refused.", "permission_error", code="origin_refused")

    async def _page(self, request: BaseRequest) -> web.StreamResponse:
        raw = request.raw_path.partition("?")[0]
        path = tuple(unquote(part, errors="replace") for part in raw.split("/")[1:])
        trial, rest = (path[1], path[2:]) if len(path) > 2 and path[0] == "t" else (None, path)
        if rest == ("v1", "chat", "completions"):
            _only("POST", request)
            return await self._chat(request, trial)
        if rest[:2] == ("v1", "models"):
            _only("GET", request)
            return _json(self._models("/".join(rest[2:]) if len(rest) > 2 else None))
        if self.more is None or rest[:1] == ("v1",):
            raise _no_page(request)
        return await self._further(request, path, self.more)

    async def _further(self, request: BaseRequest, path: tuple[str, ...], more: More) -> web.StreamResponse:
        body = _read_json(await _body(request)) if request.method == "POST" else None
        try:
            return _json(await more(OwnRequest(request.method, path, body)))
        except LookupError as error:
            raise _Refused(404, _line(error) or "Not found.", code="not_found") from None
        except WrongMethod as error:
            raise _wrong_method(request, str(error)) from None

    def _models(self, name: str | None) -> dict[str, Any]:
        about = {"object": "model", "created": self._started, "owned_by": "loopbench"}
        known = {model: {"id": model} | about for model in self.trials.models()}
        if name is None:
            return {"object": "list", "data": list(known.values())}
        if name not in known:
            raise _no_model(name)
        return known[name]

    # --- chat ---

    async def _chat(self, request: BaseRequest, trial: str | None) -> web.StreamResponse:
        asked = read_request(_read_json(await _body(request)))
        try:
            served = self.trials.find(trial, asked)
        except UnknownModel as error:
            raise _Refused(404, _line(error), param="model", code="model_not_found") from None
        except LookupError as error:
            raise _Refused(404, _line(error), code="trial_not_found") from None
        codec = _codec(asked, served)
        question = replace(asked.request, codec=codec)
        exchange = _Exchange(asked, *self._next_id(trial))
        failure: ModelError | None = None
        try:
            reply = await served.model.complete(question)
        except ModelError as error:
            failure = error
        finally:
            struck = served.tunnel.struck(question)  # the request ends here, and its mark with it
        if failure is not None:
            if isinstance(failure, ContextOverflow) and isinstance(codec, ForeignCodec):
                failure = ContextOverflow(
                    f"This model's maximum context length is exceeded: {failure}"
                )  # clients look for these words
            return await self._failed(request, exchange, served.tunnel, struck, failure)
        if isinstance(codec, ForeignCodec) and not (struck or "").startswith("wire."):
            reply = _constrained(codec, reply)
        if asked.stream:
            return await _streamed(request, exchange, reply)
        return _json(completion(reply, asked.model, exchange.id, exchange.created))

    def _next_id(self, trial: str | None) -> tuple[str, int]:
        self._served += 1
        key = f"{self._started}/{trial}/{self._served}"
        return f"chatcmpl-{hashlib.sha256(key.encode('utf-8', 'replace')).hexdigest()[:24]}", int(time.time())

    async def _failed(
        self, request: BaseRequest, exchange: _Exchange, tunnel: Tunnel, struck: str | None, error: ModelError
    ) -> web.StreamResponse:
        """What the client meets in the place of a reply."""
        if isinstance(error, ContextOverflow):
            raise _Refused(400, str(error), param="messages", code="context_length_exceeded")
        if not isinstance(error, ProviderError):
            raise _Refused(500, str(error), "server_error")
        if struck == "provider.cut":
            return await _cut(request, exchange)
        if struck == "provider.garbled":
            return await _garbled(request, exchange)
        if error.kind == "connection":
            return _dropped(request)
        if error.kind == "timeout" and tunnel.real_time:
            await asyncio.sleep(self.hold_s)
        raise _refused_by(error)


def own_hosts(port: int) -> frozenset[str]:
    """What a Host header may be, in small letters; clients leave HTTP's own port out."""
    return frozenset(f"{name}:{port}" for name in _NAMES) | (_NAMES if port == HTTP_PORT else frozenset())


class UnknownModel(LookupError):
    """No model has this name."""


@dataclass(frozen=True, slots=True)
class _Exchange:
    """What every answer to one chat request says of it."""

    asked: ChatRequest
    id: str
    created: int


def _codec(asked: ChatRequest, served: ServedTrial) -> Codec:
    name = asked.metadata.get("codec")
    if name is None:
        return foreign_codec(asked, _task_tools(served))
    if name not in served.codecs:
        known = ", ".join(served.codecs) or "none"
        raise BadRequest(f"Unknown codec '{name}': this trial has {known}.", "metadata.codec", "unknown_codec")
    return served.codecs[name]


def _task_tools(served: ServedTrial) -> Collection[str]:
    if served.task_tools is not None:
        return served.task_tools
    return tuple(served.model.script.tools) if isinstance(served.model, Scripted) else ()


def _constrained(codec: ForeignCodec, reply: Reply) -> Reply:
    made = codec.constrained(reply)
    if made is reply or reply.usage is None:
        return made
    return replace(made, usage=estimate_usage(reply.usage.input_tokens, made))


# --- bodies ---


async def _body(request: BaseRequest) -> bytes:
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise web.HTTPRequestEntityTooLarge(MAX_BODY_BYTES)
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # nothing of the answer has been sent
    return await request.read()


def _read_json(body: bytes) -> Any:
    try:
        return from_json(body.decode("utf-8"))
    except ValueError:  # UnicodeDecodeError too
        raise BadRequest("We could not parse the JSON body of your request.") from None


def _json(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=_bytes(data), status=status, headers=headers, content_type="application/json")


def _bytes(data: Any) -> bytes:
    return json.dumps(data, ensure_ascii=True, separators=(",", ":")).encode()


def _event(data: Any) -> bytes:
    return b"data: " + _bytes(data) + b"\n\n"


# --- answers ---


async def _stream(request: BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse(headers=SSE)
    await response.prepare(request)
    return response


async def _streamed(request: BaseRequest, exchange: _Exchange, reply: Reply) -> web.StreamResponse:
    response = await _stream(request)
    asked = exchange.asked
    for chunk in chunks(reply, asked.model, exchange.id, exchange.created, asked.include_usage):
        await response.write(_event(chunk))
    await response.write(b"data: [DONE]\n\n")
    return response


_BROKEN_OFF = Reply("Let me think about this.")
"""What a reply that never comes begins with: nothing in it is of use to the loop."""


def _dropped(request: BaseRequest) -> web.StreamResponse:
    """Nothing at all, and the connection reset."""
    if request.transport is not None and isinstance(request.transport, asyncio.WriteTransport):
        request.transport.abort()
    return web.Response()


async def _cut(request: BaseRequest, exchange: _Exchange) -> web.StreamResponse:
    """The first half of an answer, and the connection closed."""
    asked = exchange.asked
    if asked.stream:
        response = await _stream(request)
        first, second, *_ = map(_event, chunks(_BROKEN_OFF, asked.model, exchange.id, exchange.created))
        await response.write(first)
        await response.write(second[: len(second) // 2])
    else:
        whole = _bytes(completion(_BROKEN_OFF, asked.model, exchange.id, exchange.created))
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": str(len(whole))})
        await response.prepare(request)
        await response.write(whole[: len(whole) // 2])
    if request.transport is not None:
        request.transport.close()  # not aborted: what was written shall arrive
    return response


async def _garbled(request: BaseRequest, exchange: _Exchange) -> web.StreamResponse:
    """A whole answer of status 200 that is no JSON."""
    asked = exchange.asked
    whole = _bytes(completion(_BROKEN_OFF, asked.model, exchange.id, exchange.created))
    if not asked.stream:
        return web.Response(body=whole[: len(whole) // 2], content_type="application/json")
    response = await _stream(request)
    await response.write(b"data: " + whole[: len(whole) // 2] + b"\n\n")
    await response.write(b"data: [DONE]\n\n")
    return response


# --- errors ---

Status = Literal[400, 401, 403, 404, 405, 413, 429, 500, 504]


class _Refused(Exception):
    """An answer with an error status, in OpenAI's format."""

    def __init__(
        self,
        status: Status,
        message: str,
        type: str = "invalid_request_error",  # noqa: A002  # OpenAI's word
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = error_body(message, type, param, code)
        self.headers = headers

    def response(self) -> web.Response:
        return _json(self.body, self.status, self.headers)


def _refused_by(error: ProviderError) -> _Refused:
    """A provider's failure as its own API tells it."""
    message = str(error)
    if error.kind == "rate_limit":
        after = RETRY_AFTER_S if error.retry_after_s is None else error.retry_after_s
        return _Refused(429, message, "requests", code="rate_limit_exceeded", headers={"Retry-After": f"{after:g}"})
    if error.kind == "refused":
        return _Refused(400, message, param="tool_choice", code="unsupported_parameter")
    if error.kind == "bad_request":
        return _Refused(400, message)
    if error.kind == "auth":
        return _Refused(401, message, "authentication_error", code="invalid_api_key")
    if error.kind == "timeout":
        return _Refused(504, message, "server_error", code="timeout")
    return _Refused(500, message, "server_error")


def _line(error: Exception) -> str:
    """An exception's message; a KeyError's is in quotes."""
    return " ".join(str(error.args[0] if error.args else "").split())


def _no_page(request: BaseRequest) -> _Refused:
    shown = request.raw_path.partition("?")[0][:200]
    return _Refused(404, f"Invalid URL ({request.method} {shown})", code="unknown_url")


def _no_model(name: str) -> _Refused:
    return _Refused(404, f"The model '{name[:200]}' does not exist.", param="model", code="model_not_found")


def _only(method: str, request: BaseRequest) -> None:
    if request.method != method:
        raise _wrong_method(request, method)


def _wrong_method(request: BaseRequest, right: str) -> _Refused:
    message = f"Not allowed to {request.method} on {request.raw_path[:200]}: {right} is."
    return _Refused(405, message, code="method_not_allowed", headers={"Allow": right})


class _Http(web.Server):
    """aiohttp's server, with its own errors in OpenAI's format too."""

    def __call__(self) -> web.RequestHandler:
        return _Handler(self, loop=self._loop, logger=logger, access_log=None, lingering_time=LINGER_S)  # type: ignore[arg-type]  # None: no log

    def _make_request(self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> BaseRequest:
        return BaseRequest(message, payload, protocol, writer, task, self._loop, client_max_size=MAX_BODY_BYTES)


class _Handler(web.RequestHandler):
    """One connection."""

    __slots__ = ()

    def handle_error(
        self, request: BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Bytes that are no HTTP request; raises ConnectionError where an answer was begun."""
        if request.writer.output_size > 0:
            raise ConnectionError("an answer was begun already")
        made = _Refused(400, "This is no HTTP request that the server understands.").response()
        made.force_close()
        return made
