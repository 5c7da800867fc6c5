"""The scripted model: one policy, rendered into any loop's wire format, with seeded faults. One instance serves one trial."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from whichloop.protocol import (
    Act,
    Answer,
    Capabilities,
    ContextOverflow,
    Inexpressible,
    Message,
    Plan,
    ProviderError,
    Reply,
    Request,
    Role,
    ToolSpec,
    render_value,
)
from whichloop.protocol.digest import unit
from whichloop.protocol.model import ProviderTrouble
from whichloop.protocol.names import SCRIPTED
from whichloop.protocol.tokens import estimate_input, estimate_usage

from .at_once import SAME_IDS, TOO_EARLY, digest_of_call, early_call, with_one_id
from .faults import ANSWER, CALLING, Fault, FaultPoint, disturb, draw, shows_feedback
from .feedback import (
    chance,
    parts_shown,
    signs_of_decision,
    signs_of_provider,
    signs_of_tool,
    signs_of_wire,
)
from .formats import Gullible, PointVisits, ReplyTurn, first_expressible, spares, spoiled_reply
from .instructions import Author, author
from .policy import POLICY, PolicyDecision, PolicyRequest, guess
from .profiles import LAPSE, Profile
from .prompt_view import PromptView, read_prompt, shows_text
from .receipts import Truth, believed, call_digest
from .scripted_calls import NATIVE, StreamsInPieces
from .tunnel import Tunnel
from .weaknesses import WorkingPlan, followed_plan, is_in_thousands, slips_of, split_examples

PROVIDER_FAULTS: Mapping[str, tuple[ProviderTrouble, int | None, str]] = {
    "provider.rate_limit": ("rate_limit", 429, "rate limit reached"),
    "provider.server": ("server", 500, "internal server error"),
    "provider.overloaded": ("overloaded", 503, "the model is overloaded"),
    "provider.interrupted": ("server", None, "the provider failed in the middle of the reply"),
    "provider.timeout": ("timeout", 504, "the provider did not answer in time"),
    "provider.dropped": ("connection", None, "the connection broke before the reply"),
    "provider.cut": ("connection", None, "the connection broke in the middle of the reply"),
    "provider.garbled": ("server", None, "the provider's answer is no JSON"),
}
"""Kind of fault → the trouble that it is, its HTTP status (None if the provider gives none), and words for it."""


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
    lure: Any = None
    """The answer that instructions in results ask for; None: a text."""

    @property
    def key(self) -> tuple[object, ...]:
        """The key that every draw of the trial starts from."""
        return (self.seed, self.task, self.repeat)

    @property
    def author(self) -> Author:
        """What writes the instructions that results carry."""
        return author(self.key, self.tools, self.lure)


class Scripted(StreamsInPieces):
    """Answers as a model would that follows the plan and knows only what its prompt shows.

    The reply is a function of (seed, task, repeat, role, point, scope, attempt, what is legible); nothing is shared between trials.
    """

    def __init__(self, script: Script, tunnel: Tunnel | None = None) -> None:
        """`tunnel`: shared with the trial's toolbox, which issues the receipts."""
        self.script = script
        self._key = script.key
        self.tunnel = tunnel or Tunnel()
        abilities = script.profile.abilities
        self.capabilities = Capabilities(tool_choice=abilities.tool_choice, context_tokens=abilities.context_tokens)
        self.tunnel.unknown = tuple(call.id for call in script.plan.calls)
        self.tunnel.instructions.author = script.author
        self._gullible = Gullible(self._key, script.profile.gullible, self.tunnel)
        self._visits: dict[tuple[FaultPoint, str], PointVisits] = {}
        bluff = script.profile.bluff
        self._bluffs = bluff > 0 and unit(*self._key, "bluff") < bluff  # a trait of the trial's model, the same for every loop
        self._stated = ""
        """The last answer that was given."""
        self._first = script.plan.calls[0].id if script.plan.calls else ANSWER
        self._planned = {call.id: call for call in script.plan.calls}
        weaknesses = [one for one in script.profile.weaknesses if script.words or one.kind != "answer"]
        self._weak_in = slips_of(script.plan, weaknesses, self._key, script.tools, script.profile.faults)
        self._slips: dict[tuple[str, str], Fault] = {}
        """What has slipped so far, by kind and planned call."""

    @property
    def name(self) -> str:
        return SCRIPTED

    async def complete(self, request: Request) -> Reply:
        """Return the model's reply. Raises ContextOverflow and ProviderError as the profile has it."""
        self.tunnel.note_request(request.scope)
        before, seconds, injected = self.tunnel.fault_states(), self.script.profile.latency_s, False
        try:
            reply, delay_s = self._reply(request)
            seconds += delay_s
        except ProviderError as error:
            injected = error.injected
            raise
        finally:
            self.tunnel.keep_effects(request, before, seconds, injected)
            await self.tunnel.spend(seconds)
        return reply

    # --- one reply, in four stages ---

    def _reply(self, request: Request) -> tuple[Reply, float]:
        """Return the reply and its delay in seconds."""
        turn = self._read_request(request)
        self._decide(turn)
        self._disturb(turn)
        self._render(turn)
        return turn.reply, turn.delay_s

    def _read_request(self, request: Request) -> ReplyTurn:
        """Refuse what no model with these abilities takes, and read the rest."""
        tokens = estimate_input(request)
        limit = self.script.profile.abilities.context_tokens
        if limit is not None and tokens > limit:
            raise ContextOverflow(f"the request has about {tokens} tokens, the context holds {limit}")
        if request.tool_choice not in (None, "auto", "none") and not self.capabilities.tool_choice:
            raise ProviderError("tool_choice is not supported", "refused", status=400, injected=True)
        followed = WorkingPlan(self.script.plan)
        live: Sequence[Message] = request.messages
        if request.examples or self._weak_in:
            parts = split_examples(request)
            live = parts.live
            followed = followed_plan(self.script.plan, self._weak_in, parts, self.script.oracle, self.tunnel.ledger, request.role)
        live = believed(live, self.tunnel.ledger)
        view = self._view(request, "\n".join([message.content for message in live]), followed)
        return ReplyTurn(request, request.codec or NATIVE, tokens, followed, view)

    def _decide(self, turn: ReplyTurn) -> None:
        """Decide on the next move, and draw what may go wrong at its point."""
        request = turn.request
        turn.decision = self._decision(turn, turn.view)
        turn.point = FaultPoint(str(request.role), turn.decision.point)
        visits = turn.visits = self._visit(turn.point, request, bool(turn.view.results))
        if request.role is Role.RECOVER:
            self._note_failure(turn.point.call, request)
        attempt = visits.attempts
        visits.attempts += 1
        if visits.fault is not None and not visits.fault.strikes_tools and visits.fault.active(attempt):
            turn.fault = visits.fault  # a tool's fault strikes where the tool runs
        if visits.failures or request.role is Role.RECOVER:  # patience may be used up: the policy can only know now
            turn.decision = self._decision(turn, turn.view)
        if turn.fault is not None:
            return
        forgotten = self._forgotten(turn, attempt)
        if forgotten:
            self._forget(turn, forgotten)
        elif turn.point.call == ANSWER:  # elsewhere the call's result tells: see Tunnel.settle
            visits.got_through()

    def _disturb(self, turn: ReplyTurn) -> None:
        """Write the move in the request's format, as the fault and the weaknesses leave it. Raises ProviderError."""
        turn.move, turn.reply = first_expressible(turn.codec, turn.decision.options)
        turn.visits.last = (turn.request, _NOTHING)  # all that the loop has, should the provider fail now
        if turn.fault is not None and self._has_no_room(turn, turn.fault):
            self._spare(turn, turn.fault)
        if turn.fault is not None:
            self._strike(turn, turn.fault)
        if self._weak_in:
            self._slip(turn)

    def _render(self, turn: ReplyTurn) -> None:
        """Complete the reply, and note what later turns need of it."""
        move, fault, visits = turn.move, turn.fault, turn.visits
        if isinstance(move, Answer) and move.value is not None:
            self._stated = render_value(move.value)
        self._gullible.note(turn.decision, move, turn.request.scope)
        reply = turn.reply
        turn.reply = Reply(reply.text, reply.calls, estimate_usage(turn.tokens, reply), reply.finish_reason, reply.failed_attempts)
        visits.last = (turn.request, turn.reply)
        visits.invented = fault is not None and fault.kind == "decision.unknown_tool" and not fault.absorbed
        if isinstance(move, Act) and (fault is None or fault.family != "wire" or fault.absorbed):
            self._arm(turn, move)

    # --- read ---

    def _view(self, request: Request, text: str, followed: WorkingPlan) -> PromptView:
        offered = [tool.name for tool in request.tools]
        view = read_prompt(followed.plan, self.script.oracle, self.tunnel.ledger, text, offered)
        self.tunnel.note_shown(request.scope, view.results.keys(), view.illegible)
        if followed.says is not None or followed.forgotten:
            view = view._replace(says=followed.says, overlooked=followed.forgotten.values())
        if self.script.made_up is not None:
            view = view._replace(bluff=self.script.made_up)
        if request.role in _STATE_THE_ANSWER:
            self.tunnel.unknown = tuple([call.id for call in view.unknown])
            if not shows_text(view.text, self.script.question):
                return view._replace(stuck=True)
        return view

    # --- decide ---

    def _decision(self, turn: ReplyTurn, view: PromptView) -> PolicyDecision:
        """Return what the policy decides on a view of the turn's prompt, from what has happened in the turn's scope so far."""
        failures: dict[str, int] = {}
        invented: set[str] = set()
        for (point, scope), visits in self._visits.items():
            if scope == turn.request.scope and (visits.failures or visits.invented) and point.role in CALLING:
                failures[point.call] = failures.get(point.call, 0) + visits.failures
                if visits.invented:
                    invented.add(point.call)
        patience = self.script.profile.patience
        policy_request = PolicyRequest(turn.codec.max_calls, failures, patience, self._bluffs, self._stated, invented)
        decision = POLICY[turn.request.role](view, policy_request)
        return self._gullible.instead_of(decision, turn.request.role, turn.request.scope, view.text)

    def _draw(self, point: FaultPoint, any_known: bool = True) -> Fault | None:
        profile = self.script.profile
        if profile.faults is None and not profile.rates:
            return None
        planned = self._planned.get(point.call)
        first = point.call == self._first or not (planned or any_known)  # an answer out of nothing has no call to repeat either
        return draw(profile, self._key, point, planned, first)

    def _visit(self, point: FaultPoint, request: Request, any_known: bool = True) -> PointVisits:
        visits = self._visits.get((point, request.scope))
        if visits is None:
            fault = self._draw(point, any_known)
            if fault is not None:
                self.tunnel.faults.append(fault)
            visits = self._visits[point, request.scope] = PointVisits(fault)
        elif visits.last is not None:
            visits.failures += shows_feedback(visits.last[0], request, visits.last[1])
            self._try_to_cure(visits, request)
        return visits

    def _try_to_cure(self, visits: PointVisits, request: Request) -> None:
        """Draw whether the model mends its last reply, from what the request says of it.

        The draw is the attempt's, so that of two loops the one that says more clears a fault wherever the other does.
        """
        fault = visits.fault
        if fault is None or fault.clearing != "feedback" or fault.cured or visits.last is None:
            return
        if fault.strikes_tools and not fault.strikes:  # what has not struck yet cannot be mended
            return
        before, own = visits.last
        tool_text = self.tunnel.result_text(visits.signs.call, request.scope)
        parts = parts_shown(before, request, own, visits.signs, tool_text)
        resampled = request.sampling.temperature != 0
        mended = chance(self.script.profile.clears, parts, visits.signs, tool_text, resampled=resampled)
        fault.cured = unit(*self._key, "cured", fault.point, visits.attempts) < mended

    def _note_failure(self, call: str, request: Request) -> None:
        """Count a failure that a request to recover shows to the model, whatever role decided on the call."""
        for role in CALLING:
            visits = self._visits.get((FaultPoint(role, call), request.scope))
            if visits is not None:
                visits.failures += 1
                self._try_to_cure(visits, request)

    def _forgotten(self, turn: ReplyTurn, attempt: int) -> Collection[str]:
        rate = self.script.profile.forget
        if rate == 0 or turn.point.role not in _MAY_OVERLOOK or not self.script.profile.may_strike(LAPSE, str(turn.point)):
            return ()
        key = (*self._key, "forget", turn.point, attempt)
        length = len(turn.view.text)
        return [name for name, item in turn.view.results.items() if unit(*key, name) < rate * item.distance(length)]

    def _forget(self, turn: ReplyTurn, forgotten: Collection[str]) -> None:
        """Decide again without the results that were overlooked; it is a fault if the decision is another one."""
        clean, turn.decision = turn.decision, self._decision(turn, turn.view.without(forgotten))
        if turn.decision.options != clean.options:
            fault = Fault(LAPSE, turn.point, "after", 1)
            self.tunnel.faults.append(fault)
            self.tunnel.land(fault, turn.request, True)
            turn.visits.lapses.append(fault)

    # --- disturb ---

    def _has_no_room(self, turn: ReplyTurn, fault: Fault) -> bool:
        """Whether a reply has nothing that a fault could spoil."""
        if fault.kind == TOO_EARLY:
            turn.early = early_call(turn.view, turn.decision.calls) if isinstance(turn.move, Act) else None
            return turn.early is None
        if fault.kind == SAME_IDS:
            return len(turn.reply.calls) < 2
        return fault.family == "wire" and spares(fault.kind, turn.move, turn.reply)

    def _spare(self, turn: ReplyTurn, fault: Fault) -> None:
        """Let a fault pass that has nothing to spoil: it was never scheduled, or what it struck before is overcome."""
        turn.fault = None
        turn.visits.got_through()
        if not fault.landed:
            turn.visits.fault = None
            self.tunnel.faults = [other for other in self.tunnel.faults if other is not fault]

    def _strike(self, turn: ReplyTurn, fault: Fault) -> None:
        """Change the turn's move, reply and delay as the fault has it. Raises ProviderError."""
        if fault.family == "provider":
            turn.delay_s = self._provider_fault(fault, turn)
            return
        move = turn.move
        if fault.family == "calls":
            self._call_at_once(turn, fault)
            return
        if fault.family == "wire":
            spoiled = spoiled_reply(fault.kind, turn.codec, move, turn.reply)
            self.tunnel.land(fault, turn.request, spoiled.reply != turn.reply)
            turn.visits.signs = signs_of_wire(turn.codec, move, turn.reply, spoiled.reply)
            turn.reply, fault.absorbed = spoiled
            return
        known_calls = {name: item.form.call for name, item in turn.view.results.items()}
        options = (
            disturb(fault.kind, move, known_calls, self.script.tools, guess(turn.view, self._bluffs)) if move is not None else ()
        )
        changed, reply = first_expressible(turn.codec, options)
        if changed == move:
            return
        self.tunnel.land(fault, turn.request, True)
        if changed is None:  # a format in which the mistake cannot be made
            fault.absorbed = True
        else:
            struck_call = changed.calls[0] if isinstance(changed, Act) and changed.calls else None
            digest = "" if struck_call is None else call_digest(struck_call.name, struck_call.arguments)
            turn.visits.signs = signs_of_decision(fault.kind, changed, move, self.script.tools.values(), digest)
            turn.move, turn.reply = changed, reply

    def _call_at_once(self, turn: ReplyTurn, fault: Fault) -> None:
        """Give the calls of a reply one id, or put one beside them that should wait for them."""
        self.tunnel.land(fault, turn.request, True)
        if fault.kind == SAME_IDS:
            turn.reply = with_one_id(turn.reply)
            return
        early, move = turn.early, turn.move
        assert early is not None
        assert isinstance(move, Act)
        try:
            turn.reply = turn.codec.render(early.beside(move))
        except Inexpressible:
            fault.absorbed = True
            return
        turn.move = early.beside(move)
        planned_and_made = zip(turn.decision.calls, move.calls, strict=True)
        awaited = [digest_of_call(call) for name, call in planned_and_made if name in early.awaited]
        self.tunnel.at_once.expect_apart(digest_of_call(early.call), awaited)
        for digest in awaited:
            self.tunnel.arm(digest, fault)

    def _provider_fault(self, fault: Fault, turn: ReplyTurn) -> float:
        """Return the reply's delay in seconds. Raises ProviderError."""
        self.tunnel.land(fault, turn.request, True)
        if fault.kind == "provider.slow":
            fault.recovered = True
            return self.script.profile.slow_s
        kind, status, text = PROVIDER_FAULTS[fault.kind]
        turn.visits.signs = signs_of_provider(text)
        raise ProviderError(text if status is None else f"{status}: {text}", kind, status=status, injected=True)

    def _slip(self, turn: ReplyTurn) -> None:
        """Note what a weakness has spoiled in a move that the loop gets: once for each call, scheduled and landed in one.

        An answer's slip is overcome when the answer is stated again in its right form; that of a call, as with any fault, when the
        right call gives its true result later (see Tunnel.settle).
        """
        view, move = turn.view, turn.move
        due: Sequence[str] = ()
        if turn.followed.forgotten:
            due = self._decision(turn, view._replace(plan=self.script.plan, overlooked=())).calls
        is_informed = not (view.unknown or view.stuck)
        slips = turn.followed.slipped(turn.decision.calls, move, view.results.keys(), due, is_informed=is_informed)
        for kind, call in sorted(slips):
            if (kind, call) in self._slips:
                continue
            slip = self._slips[kind, call] = Fault(f"weakness.{kind}", FaultPoint(turn.request.role.value, call), "never", 0)
            self.tunnel.faults.append(slip)
            self.tunnel.land(slip, turn.request if turn.fault is None else None, True)  # a reply is marked with one fault
        stated = self._slips.get(("answer", ANSWER))
        if stated is not None and isinstance(move, Answer) and move.value is not None and not view.unknown:
            stated.recovered = not is_in_thousands(move.value)

    # --- render ---

    def _arm(self, turn: ReplyTurn, move: Act) -> None:
        """Let the tools' faults strike the calls of a move: all of them, so that no design escapes by making several at once."""
        for name, call in zip(turn.decision.calls, move.calls, strict=False):
            own = FaultPoint(turn.point.role, name)
            if own == turn.point:
                visits = turn.visits
            elif (drawn := self._draw(own)) is not None and drawn.strikes_tools:  # the reply's own fault is its first call's
                visits = self._visit(own, turn.request)
                visits.attempts += 1
                visits.last = (turn.request, turn.reply)
            else:
                continue
            if visits.fault is not None and visits.fault.strikes_tools:
                digest = call_digest(call.name, call.arguments)
                visits.signs = signs_of_tool(call.name, digest)
                self.tunnel.arm(digest, visits.fault)


_NOTHING = Reply()
_STATE_THE_ANSWER = frozenset({Role.DECIDE, Role.ANSWER})
_MAY_OVERLOOK = frozenset({Role.DECIDE, Role.PLAN, Role.SELECT, Role.REFLECT})
"""Roles in which a result that is overlooked can still be asked for again."""
