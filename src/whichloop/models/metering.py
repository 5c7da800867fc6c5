"""Metering: the model and the toolbox that a loop receives count what it does, whatever it says of itself."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import replace
from typing import NamedTuple, cast

from whichloop.protocol.cancellation import failure_of_model
from whichloop.protocol.chat import Chunk, Reply, Usage
from whichloop.protocol.json_text import unit
from whichloop.protocol.model import Model, ModelError, Request, WrappedModel, estimate_input, estimate_usage
from whichloop.protocol.outcome import Budget as Budget
from whichloop.protocol.outcome import Expenses
from whichloop.protocol.redact import logger_of
from whichloop.protocol.tool_calls import BudgetExceeded, Observation, ToolCall, ToolListing
from whichloop.protocol.tools import DEFAULT_MAX_CHARS, DEFAULT_TIME_LIMIT_S, Tool, Toolbox
from whichloop.protocol.values import ToolArgumentError, plain_value, render_value

from .faults import DRIFTED, ERROR, IMPLICIT, LIST_CHANGED, Fault, distorted, listed, refused_by_server
from .receipts import call_digest
from .tunnel import HOLDING, KEPT, SCOPE, LoopModel, Tunnel

logger = logger_of(__name__)
_UNPRICED = "the model does not say what a reply costs: the budget of %g dollars does not count it; limit tokens or calls, too"


class Meter:
    """Adds up what is spent; `parent` is the meter of the whole run."""

    def __init__(self, budget: Budget | None = None, parent: Meter | None = None) -> None:
        self.budget = budget or Budget()
        self.parent = parent
        self.calls = self.tokens = 0
        self.dollars = 0.0
        """What the replies cost whose price is known; `cost_usd` says whether that is all."""
        self.unpriced = 0
        """Replies of this sitting whose price is not known."""
        self.earlier_s = 0.0
        """Seconds that earlier sittings of the run took."""
        self.refused = ""
        """Why the last call was refused; a loop may have swallowed the exception."""
        self.begin()

    def begin(self) -> None:
        """Start to count seconds: what gets ready before, such as workers, takes nothing off a budget."""
        self._started = time.monotonic()

    @property
    def chain(self) -> Iterator[Meter]:
        """This meter and those above it."""
        meter: Meter | None = self
        while meter is not None:
            yield meter
            meter = meter.parent

    def admit(self) -> None:
        """Count one call before it is made, so that calls in flight count too.

        Raises BudgetExceeded when a limit is used up, this meter's or that of one above it; then none of them counts the call.
        """
        for meter in self.chain:
            if reason := meter.exhausted:
                self.refused = reason
                raise BudgetExceeded(reason)
        for meter in self.chain:
            meter.calls += 1

    @property
    def exhausted(self) -> str:
        """The limit that is used up, in words; empty while there is room."""
        if self.budget.is_unlimited:
            return ""
        seconds = time.monotonic() - self._started + self.earlier_s
        return self.budget.used_up(Expenses(self.calls, self.tokens, self.dollars), seconds)

    @property
    def cost_usd(self) -> float | None:
        """US dollars that all replies cost; None if the price of one is not known, for that is not 0."""
        return None if self.unpriced else self.dollars

    def add(self, usage: Usage) -> None:
        """Count what one reply took. A budget of dollars warns, once, that it cannot count a reply whose price is not known."""
        for meter in self.chain:
            meter.tokens += usage.total_tokens
            meter.dollars += usage.cost_usd or 0.0
            if usage.cost_usd is None:
                if not meter.unpriced and meter.budget.dollars is not None:
                    logger.warning(_UNPRICED, meter.budget.dollars)
                meter.unpriced += 1


class Waits:
    """Seconds that one trial has lost to limits and to its provider's failures. What several requests lose at once counts once."""

    def __init__(self) -> None:
        self._spans: list[tuple[float, float]] = []
        """Starts and ends on the event loop's clock, in order; no two overlap."""
        self._open: list[float] = []
        """Starts of what is being lost, in order."""

    @property
    def seconds(self) -> float:
        """Seconds lost until now, on the event loop's clock."""
        if self._open:
            self._add(self._open[0])
        return sum(end - start for start, end in self._spans)

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Count what happens inside as lost."""
        start = asyncio.get_running_loop().time()
        self._open.append(start)
        try:
            yield
        finally:
            self._open.remove(start)
            self._add(start)

    def lost(self, seconds: float) -> None:
        """Count the seconds of a failed attempt, which is known only now."""
        self._add(asyncio.get_running_loop().time() - seconds)

    def _add(self, start: float) -> None:
        """Add the span from then until now, joined with all that it meets."""
        while self._spans and self._spans[-1][1] >= start:
            start = min(start, self._spans.pop()[0])
        self._spans.append((start, asyncio.get_running_loop().time()))


WAITS: ContextVar[Waits | None] = ContextVar("whichloop_waits", default=None)
"""The waits of the trial that the running task belongs to."""


def waits() -> Waits:
    """Return the waits of the running trial; outside of a trial, some that nobody reads."""
    return WAITS.get() or Waits()


Admit = Callable[[], Awaitable[None]]
"""Awaited before each request and each call: a trial that has ended lets nothing through."""
Pricing = Callable[[Request, Reply], Reply]


class MeteredExchange(NamedTuple):
    """One request to a model and what came of it; exactly one of `reply` and `error` is given."""

    request: Request
    reply: Reply | None
    error: ModelError | None
    seconds: float
    fault: str | None = None
    """Kind of the fault that the reply suffered, if any."""
    illegible: tuple[str, ...] = ()
    """Receipts, CALL.CONTENT, that the request showed a scripted model without the values that its plan uses."""
    shown_calls: tuple[str, ...] = ()
    """Planned calls whose results the request showed a scripted model."""


HearExchange = Callable[[MeteredExchange], None]
HearCall = Callable[[ToolCall, Observation, str | None], None]
"""Hears of one call of a tool as the loop saw it, with the kind of the fault that it suffered, if any."""


class MeteredModel(WrappedModel):
    """A model that counts, keeps to the budget and tells of each exchange."""

    def __init__(
        self,
        model: Model,
        meter: Meter,
        hear: HearExchange | None = None,
        tunnel: Tunnel | None = None,
        admit: Admit | None = None,
        pricing: Pricing | None = None,
    ) -> None:
        """`pricing`: gives each reply its cost, and its usage where the model tells none."""
        for each in meter.chain:
            each.budget.check_price(model)
        super().__init__(model)
        self.admit = admit
        self.meter = meter
        self._hear = hear
        self.tunnel = tunnel
        self._pricing = pricing
        self._in_flight: dict[object, float] = {}

    @property
    def waiting_s(self) -> float:
        """Seconds that the oldest request in flight has waited for its reply, or a stream's next piece; 0 if none is in flight."""
        return time.perf_counter() - min(self._in_flight.values()) if self._in_flight else 0.0

    async def complete(self, request: Request) -> Reply:
        """Return the model's reply. Raises BudgetExceeded before a call beyond the budget, and what the model raises."""
        exchange = await self.exchange(request)
        if exchange.error is not None:
            raise exchange.error
        assert exchange.reply is not None
        return exchange.reply

    async def exchange(self, request: Request) -> MeteredExchange:
        """Ask the model, and return what came of it. Raises BudgetExceeded before a call beyond the budget."""
        await self._enter()
        ticket = object()
        started = self._in_flight[ticket] = time.perf_counter()
        try:
            reply, failure = await self.model.complete(request), None
        except (ModelError, asyncio.CancelledError) as error:
            reply, failure = None, failure_of_model(error)
        finally:
            del self._in_flight[ticket]
        return self._count(request, reply, failure, started)

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """Yield the model's chunks. Counts the last chunk's reply, or the text that came if the stream is closed before."""
        await self._enter()
        ticket = object()
        started = self._in_flight[ticket] = time.perf_counter()
        text = ""
        counted = False
        try:
            async with contextlib.aclosing(cast(AsyncGenerator[Chunk, None], self.model.stream(request))) as chunks:
                async for chunk in chunks:
                    text += chunk.text
                    if chunk.reply is not None:
                        chunk = replace(chunk, reply=self._count(request, chunk.reply, None, started).reply)
                        counted = True
                    del self._in_flight[ticket]  # as long as the loop looks at it, nobody waits for the model
                    yield chunk
                    self._in_flight[ticket] = time.perf_counter()
        except (ModelError, asyncio.CancelledError) as error:
            failure = failure_of_model(error)
            self._count(request, None, failure, started)
            raise failure from failure.__cause__
        except GeneratorExit:
            if not counted:
                self._count(request, Reply(text, finish_reason="other"), None, started)
            raise
        finally:
            self._in_flight.pop(ticket, None)

    async def _enter(self) -> None:
        if self.admit is not None:
            await self.admit()
        self.meter.admit()

    def _count(self, request: Request, reply: Reply | None, error: ModelError | None, started: float) -> MeteredExchange:
        if reply is not None:
            if self._pricing is not None:
                reply = self._pricing(request, reply)
            usage = reply.usage
            if usage is None:
                usage = estimate_usage(estimate_input(request), reply)
                reply = replace(reply, usage=usage)
            self.meter.add(usage)
        exchange, tunnel, scope = MeteredExchange(request, reply, error, time.perf_counter() - started), self.tunnel, request.scope
        if tunnel is not None:
            struck, illegible = tunnel.struck.pop(scope, None), tunnel.illegible.pop(scope, ())
            exchange = exchange._replace(fault=struck, illegible=illegible, shown_calls=tunnel.calls_shown.get(scope, ()))
        if self._hear is not None:
            self._hear(exchange)
        return exchange


def metered(model: Model) -> MeteredModel | None:
    """Return the metered model that a loop's model stands for; None for a model that is not metered."""
    if isinstance(model, LoopModel):
        kept: MeteredModel = KEPT[model]
        return kept
    return model if isinstance(model, MeteredModel) else None


GARBAGE = "\ufffd\ufffd%PDF-1.3 \x7fELF 0xDEADBEEF"
HUGE_CHARS = 8_000


class MeteredToolbox(Toolbox):
    """A toolbox that tells of each call; in the tunnel it gives receipts, and its tools suffer the faults of their calls."""

    def __init__(
        self,
        tools: Iterable[Tool],
        hear: HearCall | None = None,
        tunnel: Tunnel | None = None,
        *,
        time_limit_s: float | None = DEFAULT_TIME_LIMIT_S,
        admit: Admit | None = None,
    ) -> None:
        super().__init__(tools, time_limit_s=time_limit_s, max_chars=DEFAULT_MAX_CHARS, threads=True)
        self.admit = admit
        KEPT[self] = hear, tunnel

    def listed(self) -> ToolListing:
        tunnel: Tunnel | None = KEPT[self][1]
        return ToolListing(self.specs) if tunnel is None else listed(self.specs, tunnel.changes_of)

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        if self.admit is not None:
            await self.admit()
        hear: HearCall | None
        tunnel: Tunnel | None
        (hear, tunnel), kind = KEPT[self], None
        if tunnel is None:
            observation = await super().call(call, validate=validate)
        else:
            digest = call_digest(call.name, call.arguments)  # before the call: a tool may change what it was given
            fault = tunnel.fault_of(digest)
            if fault is not None and not self._can_run(call):
                fault = None
            with tunnel.at_once.running(digest, SCOPE.get()) as running:
                if fault is not None and fault.kind in HOLDING:
                    await tunnel.at_once.let_others_pass(running)
                observation, struck = await self._in_tunnel(tunnel, fault, call, digest, validate)
            kind = fault.kind if fault is not None and struck else None
            tunnel.last_results[digest] = observation
            drawn = tunnel.of_call.get(digest)
            if drawn is not None and observation.ok and (kind is None or kind in _HARMLESS):
                drawn.recovered = True
        if hear is not None:
            hear(call, observation, kind)
        return observation

    def _can_run(self, call: ToolCall) -> bool:
        tool = self.get(call.name)
        if tool is None:
            return False
        with contextlib.suppress(ToolArgumentError):
            if tool.arguments is not None:
                tool.arguments.check(call.arguments)
            return True
        return False

    async def _in_tunnel(
        self, tunnel: Tunnel, fault: Fault | None, call: ToolCall, digest: str, validate: bool
    ) -> tuple[Observation, bool]:
        """Run a call as its fault, if any, leaves it, and say whether it struck; a result of the tool gets a receipt."""
        if fault is not None and fault.kind in _NO_RESULT:
            tunnel.strike(fault)
            return await self._lost(fault, tunnel, call, digest), True
        observation = await super().call(call, validate=validate)
        tunnel.instructions.note_run(digest, observation)
        is_struck = fault is not None and observation.ran and (observation.ok or fault.kind in _HARMLESS)
        if fault is not None and is_struck:
            tunnel.strike(fault)
            if fault.kind == "tool.slow":
                await tunnel.spend(tunnel.profile.slow_s)
            if fault.kind in IMPLICIT:
                wrong = distorted(fault.kind, plain_value(observation.value))
                observation = replace(observation, data=render_value(wrong), value=wrong, max_chars=None)
                if not fault.believed:
                    return observation, True  # without a receipt: to the model it is no result
        if observation.transient or not observation.ran:
            return observation, is_struck
        before = behind = ""
        if is_struck and fault is not None and fault.family == "inject":
            before, behind = tunnel.instructions.give(fault)
        elif is_struck and fault is not None and fault.kind == "tool.huge":
            behind = f" {'x' * HUGE_CHARS}"
        text = f"{observation.data}{behind}"
        if tunnel.signs:
            text = tunnel.ledger.sign(digest, observation.data, plain_value(observation.value), observation.ok).around(text)
        elif not (before or behind):
            return observation, is_struck
        text, status = f"{before}{text}", observation.status
        value = text if observation.ok else None
        shown = Observation(
            call.name, status, text, observation.error_type, value, call.call_id, observation.seconds, raised=observation.raised
        )
        return shown, is_struck

    async def _lost(self, fault: Fault, tunnel: Tunnel, call: ToolCall, digest: str) -> Observation:
        """Return what a loop sees of a call whose result never comes."""
        if fault.kind == "tool.garbage":
            noise = f"{GARBAGE} {int(unit(call.name, fault.point) * 16**8):08x}"
            if fault.believed and tunnel.signs:
                noise = tunnel.ledger.sign(digest, noise, noise, True).around(noise)
            return Observation(call.name, "success", noise, None, noise, call.call_id)
        if fault.family == "mcp":
            if fault.kind != ERROR:
                tunnel.changes_of.setdefault(call.name, []).append(fault)
            return refused_by_server(fault.kind, call)
        if fault.kind == "tool.hangs":
            tool, limits = self.get(call.name), self.in_force
            limit = (limits.time_limit_s if tool is None else limits.time_limit_of(tool)) or DEFAULT_TIME_LIMIT_S  # it always ends
            await tunnel.spend(limit)
            return Observation(call.name, "error", f"no result within {limit:g} s", "TimeoutError", None, call.call_id)
        return Observation(call.name, "error", "service unavailable, try again", "ToolUnavailable", None, call.call_id)


_NO_RESULT = frozenset({"tool.raises", "tool.flaky", "tool.hangs", "tool.garbage", LIST_CHANGED, DRIFTED, ERROR})
_HARMLESS = frozenset({"tool.slow", "tool.huge", *HOLDING})
"""Kinds that leave a result true."""
