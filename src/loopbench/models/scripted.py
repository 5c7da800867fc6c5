"""The scripted model: one policy, rendered into any loop's wire format, with seeded faults. One instance serves one trial."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from loopbench.protocol import (
    Act,
    Answer,
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
    render_value,
)
from loopbench.protocol.model import ProviderTrouble

from .draws import unit
from .faults import ANSWER, CALLING, Fault, FaultPoint, disturb, draw, shows_feedback, spoil
from .native import NATIVE
from .policy import POLICY, Decision, PolicyRequest, View, guess, read, shows_text
from .profiles import Profile
from .receipts import Truth, call_digest
from .streaming import pieces
from .tokens import estimate_input, estimate_usage
from .tunnel import Tunnel
from .weaknesses import FollowedPlan, PlanWithSlips, is_in_thousands, shown_by, slips_of

PROVIDER_FAULTS: Mapping[str, tuple[ProviderTrouble, int | None, str]] = {
    "provider.rate_limit": ("rate_limit", 429, "rate limit reached"),
    "provider.server": ("server", 500, "internal server error"),
    "provider.timeout": ("timeout", 504, "the provider did not answer in time"),
    "provider.dropped": ("connection", None, "the connection broke before the reply"),
    "provider.cut": ("connection", None, "the connection broke in the middle of the reply"),
    "provider.garbled": ("server", None, "the provider's answer is no JSON"),
}
"""Kind of fault → the trouble that it is, its HTTP status where the provider gives one, and words for it."""


@dataclass(slots=True)
class _Visits:
    """What has happened so far at one (point, scope)."""

    fault: Fault | None
    attempts: int = 0
    failures: int = 0
    """Attempts after which the prompt showed that something came of them, and yet the point was not passed."""
    last: tuple[Request, Reply] | None = None
    invented: bool = False
    """The last reply called a tool that does not exist."""
    lapses: list[Fault] = field(default_factory=list)
    """Results that were overlooked here."""

    def failed(self) -> None:
        """The prompt showed that nothing good came of the last attempt."""
        self.failures += 1
        if self.fault is not None and self.fault.strikes:  # a tool's fault that has not struck yet cannot be seen
            self.fault.seen = True

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
    made_up: Any = None
    """What the model answers that makes the answer up; None: a wrong value of the planned answer's shape."""
    words: bool = True
    """Whether the answer may be stated in words; False: its form is prescribed."""

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
        self.tunnel.unknown = tuple(call.id for call in script.plan.calls)
        self._visits: dict[tuple[FaultPoint, str], _Visits] = {}
        bluff = script.profile.bluff
        self._bluffs = bluff > 0 and unit(*script.key, "bluff") < bluff  # a trait of the trial's model, the same for every loop
        self._said = ""
        self._first = script.plan.calls[0].id if script.plan.calls else ANSWER
        self._planned = {call.id: call for call in script.plan.calls}
        weaknesses = [one for one in script.profile.weaknesses if script.words or one.kind != "answer"]
        self._course = PlanWithSlips(script.plan, slips_of(script.plan, weaknesses, script.key, script.tools))
        self._slips: dict[tuple[str, str], Fault] = {}
        """What has slipped so far, by kind and planned call."""

    @property
    def name(self) -> str:
        return "scripted"

    async def complete(self, request: Request) -> Reply:
        """Raises ContextOverflow and ProviderError as the profile has it."""
        self.tunnel.asked(request.scope)
        before, seconds, injected = self.tunnel.book(), self.script.profile.latency_s, False
        try:
            reply, delay_s = self._reply(request)
            seconds += delay_s
        except ProviderError as error:
            injected = error.injected
            raise
        finally:
            self.tunnel.note(request, before, seconds, injected)
            await self.tunnel.spend(seconds)
        return reply

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """The same reply in pieces."""
        for chunk in pieces(await self.complete(request)):
            yield chunk

    # --- one reply ---

    def _reply(self, request: Request) -> tuple[Reply, float]:
        """The reply and its delay in seconds."""
        tokens = estimate_input(request)
        limit = self.script.profile.abilities.context_tokens
        if limit is not None and tokens > limit:
            raise ContextOverflow(f"the request has about {tokens} tokens, the context holds {limit}")
        if request.tool_choice not in (None, "auto", "none") and not self.capabilities.tool_choice:
            raise ProviderError("tool_choice is not supported", "refused", status=400, injected=True)

        shown = shown_by(request)
        followed = self._course.at(shown, self.script.oracle, request.role)
        view = self._view(request, "\n".join([message.content for message in shown.live]), followed)
        codec = request.codec or NATIVE
        decision = self._decide(request, view, codec)
        point = FaultPoint(request.role.value, decision.point)
        visits = self._visit(point, request, bool(view.known))
        if request.role is Role.RECOVER:
            self._told_of_failure(decision.point, request.scope)
        attempt = visits.attempts
        visits.attempts += 1
        fault = visits.fault
        if fault is not None and (fault.family == "tool" or not fault.active(attempt, visits.failures > 0)):
            fault = None  # a tool's fault strikes where the tool runs
        if visits.failures or request.role is Role.RECOVER:  # patience may be used up: the policy can only know now
            decision = self._decide(request, view, codec)

        forgotten = self._forgotten(view, point, attempt) if fault is None else ()
        if forgotten:
            decision = self._forget(request, view, codec, decision, point, forgotten)
        elif fault is None and point.call == ANSWER:  # elsewhere the call's result tells: see Tunnel.settle
            visits.got_through()
        move, reply = _render(codec, decision.options)
        visits.last = (request, _NOTHING)  # all that the loop has, should the provider fail now
        move, reply, delay_s = self._apply(fault, request, view, codec, move, reply)
        self._slip(request, view, followed, decision, move, fault)
        if isinstance(move, Answer) and move.value is not None:
            self._said = render_value(move.value)
        reply = Reply(reply.text, reply.calls, estimate_usage(tokens, reply), reply.finish_reason)
        visits.last = (request, reply)
        visits.invented = fault is not None and fault.kind == "decision.unknown_tool" and not fault.absorbed
        if isinstance(move, Act) and (fault is None or fault.family != "wire" or fault.absorbed):
            self._arm(decision.calls, move, point, request, reply)
        return reply, delay_s

    def _arm(self, planned: Sequence[str], move: Act, point: FaultPoint, request: Request, reply: Reply) -> None:
        """Let the tools' faults strike the calls of a move: all of them, so that no design escapes by making several at once."""
        for name, call in zip(planned, move.calls, strict=False):
            own = FaultPoint(point.role, name)
            if own == point:
                visits = self._visits[point, request.scope]
            elif (drawn := self._draw(own)) is not None and drawn.family == "tool":  # the reply's own fault is its first call's
                visits = self._visit(own, request)
                visits.attempts += 1
                visits.last = (request, reply)
            else:
                continue
            if visits.fault is not None and visits.fault.family == "tool":
                self.tunnel.arm(call_digest(call.name, call.arguments), visits.fault)

    def _view(self, request: Request, text: str, followed: FollowedPlan) -> View:
        offered = [tool.name for tool in request.tools]
        view = read(followed.plan, self.script.oracle, self.tunnel.ledger, text, offered)
        if followed.says is not None or followed.forgotten:
            view = replace(view, says=followed.says, overlooked=followed.forgotten.values())
        if self.script.made_up is not None:
            view = replace(view, bluff=self.script.made_up)
        if request.role in _STATE_THE_ANSWER:
            self.tunnel.unknown = tuple(call.id for call in view.unknown)
            if not shows_text(view.text, self.script.question):
                return replace(view, stuck=True)
        return view

    def _decide(self, request: Request, view: View, codec: Codec) -> Decision:
        failures: dict[str, int] = {}
        invented = set[str]()
        for (point, scope), visits in self._visits.items():
            if scope != request.scope or point.role not in CALLING:
                continue
            failures[point.call] = failures.get(point.call, 0) + visits.failures
            if visits.invented:
                invented.add(point.call)
        profile = self.script.profile
        return POLICY[request.role](
            view, PolicyRequest(codec.max_calls, failures, profile.patience, self._bluffs, self._said, invented)
        )

    def _draw(self, point: FaultPoint, any_known: bool = True) -> Fault | None:
        planned = self._planned.get(point.call)
        first = point.call == self._first or not (planned or any_known)  # an answer out of nothing has no call to repeat either
        return draw(self.script.profile, self.script.key, point, planned, first)

    def _visit(self, point: FaultPoint, request: Request, any_known: bool = True) -> _Visits:
        visits = self._visits.get((point, request.scope))
        if visits is None:
            fault = self._draw(point, any_known)
            if fault is not None:
                self.tunnel.disturbances.append(fault)
            visits = self._visits[point, request.scope] = _Visits(fault)
        elif visits.last is not None and shows_feedback(visits.last[0], request, visits.last[1]):
            visits.failed()
        return visits

    def _told_of_failure(self, call: str, scope: str) -> None:
        """A request to recover shows the model that a call failed, whatever decided on it."""
        for role in CALLING:
            visits = self._visits.get((FaultPoint(role, call), scope))
            if visits is not None:
                visits.failed()

    # --- disturbances ---

    def _apply(
        self, fault: Fault | None, request: Request, view: View, codec: Codec, move: Move | None, reply: Reply
    ) -> tuple[Move | None, Reply, float]:
        """Move and reply as the fault leaves them, and the reply's delay in seconds. Raises ProviderError."""
        if fault is None:
            return move, reply, 0.0
        if fault.family == "provider":
            return move, reply, self._provider_fault(fault, request)
        if fault.family == "wire":
            spoiled = spoil(fault.kind, reply)
            self.tunnel.land(fault, request, spoiled != reply)
            fault.absorbed = fault.landed and move is not None and _reads_as(codec, spoiled, move)
            return move, spoiled, 0.0
        known = {name: item.call for name, item in view.known.items()}
        said = guess(view, self._bluffs)
        options = disturb(fault.kind, move, known, self.script.tools, said) if move is not None else ()
        changed, other = _render(codec, options)
        if changed == move:
            return move, reply, 0.0
        self.tunnel.land(fault, request, True)
        if changed is None:  # a format in which the mistake cannot be made
            fault.absorbed = True
            return move, reply, 0.0
        return changed, other, 0.0

    def _provider_fault(self, fault: Fault, request: Request) -> float:
        """The reply's delay in seconds. Raises ProviderError."""
        self.tunnel.land(fault, request, True)
        if fault.kind == "provider.slow":
            fault.recovered = True
            return self.script.profile.slow_s
        kind, status, text = PROVIDER_FAULTS[fault.kind]
        raise ProviderError(text if status is None else f"{status}: {text}", kind, status=status, injected=True)

    def _forgotten(self, view: View, point: FaultPoint, attempt: int) -> Collection[str]:
        rate = self.script.profile.forget
        if rate == 0 or point.role not in _MAY_OVERLOOK:
            return ()
        key = (*self.script.key, "forget", point, attempt)
        return [name for name, item in view.known.items() if unit(*key, name) < rate * item.distance]

    def _forget(
        self, request: Request, view: View, codec: Codec, clean: Decision, point: FaultPoint, forgotten: Collection[str]
    ) -> Decision:
        """What is decided without the results that were overlooked; a fault where that is something else."""
        decision = self._decide(request, view.without(forgotten), codec)
        if decision.options != clean.options:
            fault = Fault("decision.forget", point, "after", 1)
            self.tunnel.disturbances.append(fault)
            self.tunnel.land(fault, request, True)
            self._visits[point, request.scope].lapses.append(fault)
        return decision

    def _slip(
        self, request: Request, view: View, followed: FollowedPlan, decision: Decision, move: Move | None, fault: Fault | None
    ) -> None:
        """Note what a weakness has spoiled in a move that the loop gets: once for each call, scheduled and landed in one.

        An answer's slip is overcome when the answer is stated again in its right form; that of a call, as with any fault, when the
        right call gives its true result later (see Tunnel.settle).
        """
        if not self._course.slips:
            return
        right = replace(view, plan=self.script.plan, overlooked=())
        due = self._decide(request, right, request.codec or NATIVE).calls if followed.forgotten else ()
        slips = followed.slipped(decision.calls, move, due=due, is_informed=not (view.unknown or view.stuck))
        for kind, call in sorted(slips):
            if (kind, call) in self._slips:
                continue
            slip = self._slips[kind, call] = Fault(f"weakness.{kind}", FaultPoint(request.role.value, call), "never", 0)
            self.tunnel.disturbances.append(slip)
            self.tunnel.land(slip, request if fault is None else None, True)  # a reply is marked with one fault
        stated = self._slips.get(("answer", ANSWER))
        if stated is not None and isinstance(move, Answer) and move.value is not None and not view.unknown:
            stated.recovered = not is_in_thousands(move.value)


_NOTHING = Reply()
_STATE_THE_ANSWER = frozenset({Role.DECIDE, Role.ANSWER})
_MAY_OVERLOOK = frozenset({Role.DECIDE, Role.PLAN, Role.SELECT, Role.REFLECT})
"""Where a result that is overlooked can still be asked for again."""


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
