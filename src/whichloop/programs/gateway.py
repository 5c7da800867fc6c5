"""One HTTP server on loopback for the programs of all trials of an event loop: a trial's model and tools, as requests reach them.

    /t/TOKEN/v1/chat/completions   the trial's model, in OpenAI's protocol
    /t/TOKEN/tools                 GET: the tools in OpenAI's form; POST /t/TOKEN/tools/NAME runs one
    /t/TOKEN/mcp                   the tools over MCP
    /t/TOKEN/answer                POST {"answer": …}: where an executable cannot print its answer

A random token in the path tells trials apart: every client keeps its base URL, and not every one keeps headers or metadata.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import secrets
from collections.abc import AsyncIterator, Coroutine, Mapping
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from whichloop.models.metering import Meter, MeteredExchange, MeteredModel, metered, waits
from whichloop.models.server import OwnRequest, ServedTrial, Server
from whichloop.models.server.answers import RETRY_AFTER_S
from whichloop.models.server.foreign import ForeignCodec
from whichloop.models.tunnel import Tunnel
from whichloop.models.wires.base import BadRequest, Refusal, WireRequest
from whichloop.protocol.chat import Reply
from whichloop.protocol.json_text import Json
from whichloop.protocol.model import Model, ModelError, ProviderError, Request
from whichloop.protocol.moves import Act, WireError
from whichloop.protocol.names import SCRIPTED
from whichloop.protocol.tool_calls import BudgetExceeded, Observation, ToolCall, ToolListing
from whichloop.protocol.tools import Toolbox
from whichloop.protocol.values import ToolArgumentError

T = TypeVar("T")
MODEL = SCRIPTED
"""The model's name for programs; any other name is served, too: many programs have theirs in their code."""
OTHERS_S = 0.25
"""Seconds that a call which is to end late waits for those made beside it: a program makes them on connections of their own."""
MAX_ATTEMPTS = 8
"""Requests per reply, on average, after which a program counts as one that asks for ever."""
AT_ONCE_S = 0.001
"""The wait that a client in virtual time is asked for, in seconds; the wait that a provider asks for is simulated."""


class ModelArguments:
    """The calls that a trial's model has made so far."""

    def __init__(self, tools: Toolbox) -> None:
        self._tools = tools
        self._calls: list[ToolCall] = []

    def add(self, request: Request, reply: Reply) -> None:
        """Add the calls of a reply, if it can be read."""
        with contextlib.suppress(WireError):
            move = None if request.codec is None else request.codec.parse(reply)
            self._calls += move.calls if isinstance(move, Act) else ()

    def as_said(self, name: str, arguments: Mapping[str, object]) -> Mapping[str, Any]:
        """Return the latest arguments of the model that are the same call, else the given ones."""
        called = self._as_called(name, arguments)
        said = (call.arguments for call in reversed(self._calls) if call.name == name)
        return arguments if called is None else next((one for one in said if self._as_called(name, one) == called), arguments)

    def _as_called(self, name: str, arguments: Mapping[str, object]) -> dict[str, Any] | None:
        """Return the values that the function would get, by name, defaults among them; None for what is refused."""
        tool = self._tools.get(name)
        if tool is None:
            return None
        if tool.arguments is not None:
            try:
                return tool.arguments.check(arguments).model_dump()
            except ToolArgumentError:
                return None
        properties: Mapping[str, object] = tool.parameters.get("properties", {})
        defaults = {each: schema.get("default") for each, schema in properties.items() if isinstance(schema, Mapping)}
        return defaults | dict(arguments)


class ProgramTrial:
    """What one program is served, and what became of it. Every request and call after its end is refused."""

    def __init__(self, model: Model, tools: Toolbox, max_replies: int | None) -> None:
        """`max_replies`: replies that it may get, beside one without a call at the end; None for no limit."""
        self.tools = tools
        self.max_replies = max_replies
        self.requests = self.replies = 0
        self.limit_reached = False
        """The program asked once more than it may, and was refused."""
        self.budget: BudgetExceeded | None = None
        """What used up the trial's budget: frameworks word it for their model or swallow it."""
        self.failure: ModelError | None = None
        """The last failure that went over the wire, if no reply has followed it."""
        self.posted: dict[str, Any] = {}
        """`answer`, if one was sent to `POST /t/TOKEN/answer`."""
        self._is_over = False
        self._in_flight: set[asyncio.Future[Any]] = set()
        self._model_arguments = ModelArguments(tools)
        own = metered(model)
        self.tunnel = own.tunnel if own is not None and own.tunnel is not None else Tunnel()
        self.tunnel.at_once.others_s = OTHERS_S
        self._model = own or MeteredModel(model, Meter(), tunnel=self.tunnel)
        self.served = ServedTrial(self._ask, self.tunnel, tools=tools.names)

    @property
    def is_forced(self) -> bool:
        """Whether its last reply was the one without a call beyond the limit."""
        return self.max_replies is not None and self.replies > self.max_replies

    def close(self) -> None:
        """End the trial: what its program still waits for is cancelled, and what it still sends is refused."""
        self._is_over = True
        for waiting in self._in_flight:
            waiting.cancel()

    def _check_open(self) -> None:
        """Raise Refusal if nothing more is served."""
        if self._is_over or self.budget is not None:
            raise Refusal(404, "This trial is over.", code="trial_over")

    async def _while_open(self, work: Coroutine[Any, Any, T]) -> T:
        """Await something that the program asked for. Raises Refusal if that uses up the budget, or if the trial ends first."""
        task = asyncio.ensure_future(work)
        self._in_flight.add(task)
        try:
            return await task
        except BudgetExceeded as error:
            self.budget = error
            raise Refusal(400, "The budget of this trial is used up.", code="budget_exceeded") from None
        except asyncio.CancelledError:
            if self._is_over:
                self._check_open()
            raise
        finally:
            self._in_flight.discard(task)

    async def _ask(self, request: Request) -> MeteredExchange:
        """Ask the trial's model. Raises Refusal at the limit of requests, when the budget is used up and after the end."""
        self._check_open()
        # A last request that leaves no room for a call is how some programs end.
        may_call = not isinstance(request.codec, ForeignCodec) or request.codec.max_calls > 0
        most = self.max_replies
        if most is not None and (self.replies >= most + (not may_call) or self.requests >= MAX_ATTEMPTS * (most + 1)):
            self.limit_reached = True
            raise Refusal(400, f"The limit of {self.max_replies} replies is reached.", code="step_limit")
        self.requests += 1
        if isinstance(self.failure, ProviderError) and self.failure.kind == "rate_limit":
            await self.tunnel.spend(self.failure.retry_after_s or RETRY_AFTER_S)
        exchange = await self._while_open(self._model.exchange(request))
        self.failure = error = exchange.error
        if exchange.reply is not None:
            self.replies += 1
            self._model_arguments.add(request, exchange.reply)
        is_simulated = isinstance(error, ProviderError) and error.injected and not self.tunnel.real_time
        if isinstance(error, ProviderError) and is_simulated and error.kind == "rate_limit":
            # virtual time: no client shall sleep where nothing happens
            error = ProviderError(str(error), error.kind, status=error.status, retry_after_s=AT_ONCE_S, injected=True)
        return exchange._replace(error=error)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Observation:
        """Run a tool. Raises Refusal when the budget is used up and after the end."""
        self._check_open()
        return await self._while_open(self.tools.call(ToolCall(name, self._model_arguments.as_said(name, arguments))))

    def listed(self) -> ToolListing:
        """Return the tools as a server of them lists them now. Raises Refusal after the end."""
        self._check_open()
        return self.tools.listed()

    def tool_list(self) -> list[dict[str, Json]]:
        """Return name, description and parameters (a JSON schema) of each tool."""
        return [{"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)} for tool in self.tools]


class Gateway:
    """Trials by token, and the server in front of them."""

    def __init__(self) -> None:
        self.trials: dict[str, ProgramTrial] = {}
        self.server = Server(self, more=self.more, mcp=self.trial)

    def models(self) -> list[str]:
        return [MODEL]

    def trial(self, token: str) -> ProgramTrial:
        """Return a trial by its token. Raises LookupError."""
        if token not in self.trials:
            raise LookupError("This trial is over, or has never been.")
        return self.trials[token]

    def find(self, trial: str | None, request: WireRequest) -> ServedTrial:
        """Return what is served of a trial, by its token. Raises LookupError."""
        return self.trial(trial or "").served

    async def more(self, call: OwnRequest) -> Any:
        """Serve the pages of tools and the answer. Raises LookupError and Refusal."""
        match call.path:
            case ("t", token, "tools"):
                call.require("GET")
                return [{"type": "function", "function": tool} for tool in self.trial(token).tool_list()]
            case ("t", token, "tools", name):
                call.require("POST")
                observation = await self.trial(token).call(name, call.fields)
                return observation.as_dict() | {"error_type": observation.error_type, "message": observation.data}
            case ("t", token, "answer"):
                call.require("POST")
                trial, body = self.trial(token), call.fields
                if "answer" not in body:
                    raise BadRequest("Missing required parameter: 'answer'.", "answer", "missing_required_parameter")
                trial.posted = {"answer": body["answer"]}
                return {}
        raise LookupError("no such page")


# --- what an event loop keeps ---

_GATEWAYS: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Future[Gateway]] = WeakKeyDictionary()
_TASKS: WeakKeyDictionary[asyncio.AbstractEventLoop, set[asyncio.Task[None]]] = WeakKeyDictionary()
_PLACES: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[object, asyncio.Semaphore]] = WeakKeyDictionary()


def keep(work: Coroutine[Any, Any, None]) -> None:
    """Run something until the event loop ends and cancels it; it belongs to no trial, whichever needs it first."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(work, context=contextvars.Context())
    tasks = _TASKS.setdefault(loop, set())
    tasks.add(task)
    task.add_done_callback(tasks.discard)


@contextlib.asynccontextmanager
async def place(owner: object, count: int) -> AsyncIterator[None]:
    """Hold one of the `count` places of an owner in this event loop; to wait for one costs a trial no time."""
    places = _PLACES.setdefault(asyncio.get_running_loop(), {}).setdefault(owner, asyncio.Semaphore(count))
    with waits().counted():
        await places.acquire()
    try:
        yield
    finally:
        places.release()


@contextlib.asynccontextmanager
async def served(trial: ProgramTrial) -> AsyncIterator[str]:
    """Serve a trial within this block, by the event loop's one server, and give the address below which it is served.

    Raises OSError if no port can be had.
    """
    loop = asyncio.get_running_loop()
    if loop not in _GATEWAYS:
        _GATEWAYS[loop] = loop.create_future()
        keep(_serve(_GATEWAYS[loop]))
    gateway = await asyncio.shield(_GATEWAYS[loop])
    token = secrets.token_urlsafe(12)
    gateway.trials[token] = trial
    try:
        yield f"{gateway.server.url}/t/{token}"
    finally:
        gateway.trials.pop(token).close()


async def _serve(opened: asyncio.Future[Gateway]) -> None:
    gateway = Gateway()
    try:
        async with gateway.server:
            opened.set_result(gateway)
            await asyncio.Event().wait()
    except OSError as error:
        opened.set_exception(error)
