"""An OpenAI-compatible server on loopback for models of trials, with faults on the wire for real.

Routes: `/v1/chat/completions`, `/v1/models`, `/v1/models/NAME`, and the same below `/t/TRIAL`. A body's `metadata` may name role,
scope, codec and the number of examples; without a codec the program is spoken to as an OpenAI model would (`foreign.py`).

Nothing is logged unless the logger `loopbench.models.server` is given a handler, and bodies never are.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Collection
from dataclasses import replace
from typing import Any, Self
from urllib.parse import unquote

from aiohttp import web
from aiohttp.web_request import BaseRequest

from loopbench.protocol import Codec, ContextOverflow, ModelError, ProviderError, Reply, Request

from ..scripted import Scripted
from ..tokens import estimate_usage
from ..tunnel import Tunnel
from ..wires.chat import ChatRequest, read_request
from ..wires.fields import BadRequest
from .answers import ChatAnswer
from .bodies import MAX_BODY_BYTES, json_response, read_json
from .connections import HttpServer, logger
from .foreign import ForeignCodec, foreign_codec
from .limits import room_headers, within_limits
from .refusals import MAX_SHOWN, Refusal, line_of, no_model, no_page, refusal_of, wrong_method
from .trials import More, OwnRequest, ServedTrial, Trials, UnknownModel, WrongMethod

HOLD_S = 600.0
"""Longest time that a connection is held silent, in seconds: as long as the official client waits by default."""
CLOSE_S = 0.5
"""Seconds that requests in flight get to end when the server closes."""
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
HTTP_PORT = 80
_HOST_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""The server in a Host header: any other name there means that someone else's name points here (DNS rebinding)."""


class Server:
    """Serves trials on loopback while it is open, as an async context manager. No thread: it runs in the event loop around it."""

    def __init__(
        self, trials: Trials, host: str = "127.0.0.1", port: int = 0, *, more: More | None = None, hold_s: float = HOLD_S
    ) -> None:
        """`port`: 0 for any that is free. `more`: answers pages that OpenAI's API does not have. `hold_s`: how long a time-out in
        real time keeps the line silent. Raises ValueError for a host beyond loopback.
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
        """Raises OSError if the port is taken."""
        self._runner = web.ServerRunner(HttpServer(self._handle, handler_cancellation=True), shutdown_timeout=CLOSE_S)
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
        except Refusal as error:
            return error.response()
        except BadRequest as error:
            return Refusal(400, str(error), param=error.param, code=error.code).response()
        except web.HTTPRequestEntityTooLarge:
            return Refusal(413, f"The body is larger than {MAX_BODY_BYTES} bytes.", code="request_too_large").response()
        except ConnectionError:  # the client has gone
            raise
        except web.RequestPayloadError:
            return Refusal(400, "The body could not be read as its headers say.").response()
        except Exception:  # a bug of ours must not leave a client without an answer in its own format
            logger.exception("a request failed")
            return Refusal(500, "The server had an error while processing your request.", "server_error").response()

    def _guard(self, request: BaseRequest) -> None:
        """Refuse pages in a browser: both those that use another name for this machine and those of another origin."""
        if request.headers.get("Host", "").lower() not in own_hosts(self.port):
            raise Refusal(403, "The Host header must name this server on loopback.", "permission_error", code="host_refused")
        if "Origin" in request.headers:
            raise Refusal(403, "Requests with an Origin header are refused.", "permission_error", code="origin_refused")

    async def _page(self, request: BaseRequest) -> web.StreamResponse:
        raw = request.raw_path.partition("?")[0]
        path = tuple(unquote(part, errors="replace") for part in raw.split("/")[1:])
        trial, rest = (path[1], path[2:]) if len(path) > 2 and path[0] == "t" else (None, path)
        if rest == ("v1", "chat", "completions"):
            _only("POST", request)
            return await self._chat(request, trial)
        if rest[:2] == ("v1", "models"):
            _only("GET", request)
            return json_response(self._models("/".join(rest[2:]) if len(rest) > 2 else None))
        if self.more is None or rest[:1] == ("v1",):
            raise no_page(request)
        return await self._further(request, path, self.more)

    async def _further(self, request: BaseRequest, path: tuple[str, ...], more: More) -> web.StreamResponse:
        body = await read_json(request) if request.method == "POST" else None
        try:
            return json_response(await more(OwnRequest(request.method, path, body)))
        except LookupError as error:
            raise Refusal(404, line_of(error) or "Not found.", code="not_found") from None
        except WrongMethod as error:
            raise wrong_method(request, str(error)) from None

    def _models(self, name: str | None) -> dict[str, Any]:
        about = {"object": "model", "created": self._started, "owned_by": "loopbench"}
        known = {model: {"id": model} | about for model in self.trials.models()}
        if name is None:
            return {"object": "list", "data": list(known.values())}
        if name not in known:
            raise no_model(f"The model '{name[:MAX_SHOWN]}' does not exist.")
        return known[name]

    # --- chat ---

    async def _chat(self, request: BaseRequest, trial: str | None) -> web.StreamResponse:
        asked = read_request(await read_json(request))
        try:
            served = self.trials.find(trial, asked)
        except UnknownModel as error:
            raise no_model(line_of(error)) from None
        except LookupError as error:
            raise Refusal(404, line_of(error), code="trial_not_found") from None
        codec = _codec(asked, served)
        question = replace(asked.request, codec=codec)
        answer = ChatAnswer(request, asked, *self._next_id(trial), room_headers(question))
        exchange = await served.exchange(question)
        reply, failure, struck = exchange.reply, exchange.error, exchange.fault
        if failure is not None:
            if isinstance(failure, ContextOverflow) and isinstance(codec, ForeignCodec):  # clients look for these words
                failure = ContextOverflow(f"This model's maximum context length is exceeded: {failure}")
            return await self._fail(answer, served.tunnel, struck, failure)
        assert reply is not None
        if isinstance(codec, ForeignCodec):
            sent = _as_asked(codec, question, reply, spoiled=(struck or "").startswith("wire."))
            if served.recount is not None and sent.usage != reply.usage and reply.usage and sent.usage:
                served.recount(reply.usage, sent.usage)
            reply = sent
        return await answer.send(reply)

    def _next_id(self, trial: str | None) -> tuple[str, int]:
        self._served += 1
        key = f"{self._started}/{trial}/{self._served}"
        return f"chatcmpl-{hashlib.sha256(key.encode('utf-8', 'replace')).hexdigest()[:24]}", int(time.time())

    async def _fail(self, answer: ChatAnswer, tunnel: Tunnel, struck: str | None, error: ModelError) -> web.StreamResponse:
        """Send what the client meets in the place of a reply, or raise the refusal."""
        if isinstance(error, ProviderError):
            if struck == "provider.cut":
                return await answer.cut()
            if struck == "provider.garbled":
                return await answer.garble()
            if error.kind == "connection":
                return answer.drop()
            if error.kind == "timeout" and tunnel.real_time:
                await asyncio.sleep(self.hold_s)
        raise refusal_of(error)


def _only(method: str, request: BaseRequest) -> None:
    if request.method != method:
        raise wrong_method(request, method)


def own_hosts(port: int) -> frozenset[str]:
    """Return what a Host header may be, in small letters; clients leave HTTP's own port out."""
    return frozenset(f"{name}:{port}" for name in _HOST_NAMES) | (_HOST_NAMES if port == HTTP_PORT else frozenset())


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


def _as_asked(codec: ForeignCodec, question: Request, reply: Reply, *, spoiled: bool) -> Reply:
    """Return the reply as constrained decoding and the request's limits leave it; what the wire has spoiled is not repaired."""
    made = reply if spoiled else codec.constrained(reply)
    if made is not reply and reply.usage is not None:
        made = replace(made, usage=estimate_usage(reply.usage.input_tokens, made))
    return within_limits(made, question.sampling)
