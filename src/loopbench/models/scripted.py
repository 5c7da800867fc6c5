"""The scripted model: one policy, rendered into any loop's wire format, with seeded faults. One instance serves one trial."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from loopbench.protocol import (
    Act,
    Capabilities,
    Chunk,
    Codec,
    ContextOverflow,
    Inexpressible,
    Move,
    Plan,
    ProviderError,
    Reply,
    Request,
    Role,
    Text,
    ToolSpec,
    WireError,
)
from loopbench.protocol.model import ProviderTrouble

from .draws import unit
from .faults import ANSWER, Disturbance, Point, disturb, draw, shows_feedback, spoil
from .native import NATIVE
from .policy import POLICY, Ask, Decision, View, guess, read, shows_text
from .profiles import Profile
from .receipts import Truth, call_digest
from .tokens import estimate_input, estimate_usage
from .tunnel import Tunnel

_STATUS: Mapping[str, tuple[ProviderTrouble, int, str]] = {
    "provider.rate_limit": ("rate_limit", 429, "rate limit reached"),
    "provider.server": ("server", 500, "internal server error"),
    "provider.timeout": ("timeout", 504, "the provider did not answer in time"),
}


@dataclass(slots=True)
class _Visits:
    """What has happened so far at one (point, scope)."""

    fault: Disturbance | None
    attempts: int = 0
    failures: int = 0
    """Attempts after which the prompt showed that something came of them, and yet the point was not passed."""
    last: tuple[Request, Reply] | None = None
    lapses: list[Disturbance] = field(default_factory=list)
    """Results that were overlooked here."""

    def got_through(self) -> None:
        """A clean reply: what struck here before is overcome."""
        for fault in (*self.lapses, *([self.fault] if self.fault is not None else ())):
            fault.recovered = fault.recovered or fault.landed


@dataclass(frozen=True, slots=True)
class Script:
    """What a scripted model follows in one trial."""

    plan: Plan
    oracle: Mapping[str, Truth]
    """The truth of each planned call, from a replay on fresh tools."""
    profile: Profile
    seed: int
    """The run's seed: the same for every arm, so that the same stumble meets every loop."""
    task: str
    repeat: int = 0
    tools: Mapping[str, ToolSpec] = field(default_factory=dict)
    """The task's tools by name; what a required argument is."""
    question: str = ""
    """What is asked: a prompt that no longer shows it leaves the model at a loss. Empty: not looked for."""

    @property
    def key(self) -> tuple[object, ...]:
        """What every draw of the trial starts from."""
        return (self.seed, self.task, self.repeat)


class Scripted:
    """Answers as a model would that follows the plan and knows only what its prompt shows.

    The reply is a function of (seed, task, repeat, role, point, scope, attempt, what is legible); nothing is shared between trials.
    """

    def __init__(self, script: Script, tunnel: Tunnel | None = None) -> None:
        """`tunnel`: shared with the trial's toolbox, which issues the receipts."""
        self.script = script
        self.tunnel = tunnel or Tunnel()
        abilities = script.profile.abilities
        self.capabilities = Capabilities(tool_choice=abilities.tool_choice, context_tokens=abilities.context_tokens)
        self.unknown: tuple[str, ...] = tuple(call.id for call in script.plan.calls)
        """Planned calls whose results the last prompt did not show."""
        self._visits: dict[tuple[Point, str], _Visits] = {}
        self._bluffs = unit(*script.key, "bluff") < script.profile.bluff  # a trait of the trial's model, the same for every loop
        self._first = script.plan.calls[0].id if script.plan.calls else ANSWER
        self._planned = {call.id: call for call in script.plan.calls}

    @property
    def name(self) -> str:
        return "scripted"

    async def complete(self, request: Request) -> Reply:
        """Raises ContextOverflow and ProviderError as the profile has it."""
        self.tunnel.asked(request.scope)
        await self.tunnel.spend(self.script.profile.latency_s)
        reply, delay_s = self._reply(request)
        await self.tunnel.spend(delay_s)
        return reply

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """The same reply, its text word by word."""
        reply = await self.complete(request)
        words = reply.text.split(" ")
        for index, word in enumerate(words):
            yield Chunk(word if index == 0 else f" {word}")
        yield Chunk(reply=reply)

    # --- one reply ---

    def _reply(self, request: Request) -> tuple[Reply, float]:
        """The reply and its delay in seconds."""
        tokens = estimate_input(request)
        limit = self.script.profile.abilities.context_tokens
        if limit is not None and tokens > limit:
            raise ContextOverflow(f"the request has about {tokens} tokens, the context holds {limit}")
        if request.tool_choice not in (None, "auto", "none") and not self.capabilities.tool_choice:
            raise ProviderError("tool_choice is not supported", "refused", status=400, injected=True)

        view = self._view(request)
        codec = request.codec or NATIVE
        decision = self._decide(request, view, codec)
        point = Point(request.role.value, decision.point)
        visits = self._visit(point, request)
        attempt = visits.attempts
        visits.attempts += 1
        fault = visits.fault
        if fault is not None and not fault.active(attempt, visits.failures > 0):
            fault = None
        if visits.failures:  # patience may be used up: the policy can only know now
            decision = self._decide(request, view, codec)

        forgotten = self._forgotten(view, point, attempt) if fault is None else ()
        if forgotten:
            decision, lapse = self._forget(request, view, codec, decision, point, forgotten)
            visits.lapses.append(lapse)
        elif fault is None and point.call == ANSWER:  # elsewhere the call's result tells: see Tunnel.settle
            visits.got_through()
        move, reply = _render(codec, decision.options)
        visits.last = (request, Reply())  # all that the loop has, should the provider fail now
        reply, delay_s = self._apply(fault, request, view, codec, move, reply)
        reply = Reply(reply.text, reply.calls, estimate_usage(tokens, reply), reply.finish_reason)
        visits.last = (request, reply)
        return reply, delay_s

    def _view(self, request: Request) -> View:
        parts = [message.content for message in request.messages]
        offered = [tool.name for tool in request.tools]
        view = read(self.script.plan, self.script.oracle, self.tunnel.ledger, "\n".join(parts), offered)
        self.unknown = tuple(call.id for call in view.unknown)
        if request.role in _NEED_THE_QUESTION and not shows_text(view.text, self.script.question):
            return replace(view, stuck=True)
        return view

    def _decide(self, request: Request, view: View, codec: Codec) -> Decision:
        failures = Counter[str]()
        for (point, scope), visits in self._visits.items():
            if visits.failures and scope == request.scope:
                failures[point.call] += visits.failures
        return POLICY[request.role](view, Ask(codec.max_calls, failures, self.script.profile.patience, self._bluffs))

    def _visit(self, point: Point, request: Request) -> _Visits:
        visits = self._visits.get((point, request.scope))
        if visits is None:
            planned = self._planned.get(point.call)
            fault = draw(self.script.profile, self.script.key, point, planned, point.call == self._first)
            if fault is not None:
                self.tunnel.disturbances.append(fault)
            visits = self._visits[point, request.scope] = _Visits(fault)
        elif visits.last is not None:
            visits.failures += shows_feedback(visits.last[0], request, visits.last[1])
        return visits

    # --- disturbances ---

    def _apply(
        self, fault: Disturbance | None, request: Request, view: View, codec: Codec, move: Move | None, reply: Reply
    ) -> tuple[Reply, float]:
        """The reply as the fault leaves it, and its delay in seconds. Raises ProviderError."""
        if fault is None:
            return reply, 0.0
        if fault.family == "provider":
            return self._provider_fault(fault, request, reply)
        if fault.family == "tool":
            if isinstance(move, Act) and move.calls:
                self.tunnel.arm(call_digest(move.calls[0].name, move.calls[0].arguments), fault)
            return reply, 0.0
        if fault.family == "wire":
            spoiled = spoil(fault.kind, reply)
            self.tunnel.land(fault, request, spoiled != reply)
            fault.absorbed = fault.landed and move is not None and _reads_as(codec, spoiled, move)
            return spoiled, 0.0
        known = {name: item.call for name, item in view.known.items()}
        said = guess(view, self._bluffs)
        options = disturb(fault.kind, move, known, self.script.tools, said) if move is not None else ()
        changed, other = _render(codec, options)
        if changed is None or changed == move:
            return reply, 0.0
        self.tunnel.land(fault, request, True)
        return other, 0.0

    def _provider_fault(self, fault: Disturbance, request: Request, reply: Reply) -> tuple[Reply, float]:
        self.tunnel.land(fault, request, True)
        if fault.kind == "provider.slow":
            fault.recovered = True
            return reply, self.script.profile.slow_s
        kind, status, text = _STATUS[fault.kind]
        raise ProviderError(f"{status}: {text}", kind, status=status, injected=True)

    def _forgotten(self, view: View, point: Point, attempt: int) -> Collection[str]:
        rate = self.script.profile.forget
        if rate == 0 or point.role != Role.DECIDE:
            return ()
        key = (*self.script.key, "forget", point, attempt)
        return [name for name, item in view.known.items() if unit(*key, name) < rate * item.distance]

    def _forget(
        self, request: Request, view: View, codec: Codec, clean: Decision, point: Point, forgotten: Collection[str]
    ) -> tuple[Decision, Disturbance]:
        """What is decided without the results that were overlooked, and the fault that this is."""
        decision = self._decide(request, view.without(forgotten), codec)
        fault = Disturbance("decision.forget", point, "after", 1)
        self.tunnel.disturbances.append(fault)
        self.tunnel.land(fault, request, decision.options != clean.options)
        return decision, fault


_NEED_THE_QUESTION = frozenset({Role.DECIDE, Role.ANSWER})


def _render(codec: Codec, options: Sequence[Move]) -> tuple[Move | None, Reply]:
    """The first option that the codec can say. Prose where it can say none: a model always says something."""
    for move in options:
        try:
            return move, codec.render(move)
        except Inexpressible:
            continue
    prose = next((move.text for move in options if isinstance(move, Text)), "I cannot say this in the format asked for.")
    return None, Reply(prose)


def _reads_as(codec: Codec, reply: Reply, move: Move) -> bool:
    try:
        return codec.parse(reply) == move
    except WireError:
        return False
