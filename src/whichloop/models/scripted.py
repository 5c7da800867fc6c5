"""The scripted model: one policy, rendered into any loop's wire format, with seeded faults. One instance serves one trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from whichloop.protocol.chat import Capabilities, Reply
from whichloop.protocol.json_text import unit
from whichloop.protocol.model import ContextOverflow, ProviderError, Request, estimate_input, estimate_usage
from whichloop.protocol.moves import Act, Answer, Codec, Inexpressible, Move, Role
from whichloop.protocol.names import SCRIPTED
from whichloop.protocol.plan import Plan
from whichloop.protocol.tool_calls import ToolCall, ToolSpec
from whichloop.protocol.values import render_value

from .faults import ANSWER, CALLING, Fault, FaultPoint, disturb, draw, first_expressible, spares, spoiled_reply
from .feedback import FaultSigns, GoodTurn, Level, level_shown, signs_of_decision, signs_of_wire
from .instructions import TrialInstructions
from .outages import outage
from .policy import POLICY, PolicyDecision, PolicyRequest, guess
from .profiles import LAPSE, Profile
from .receipts import PromptView, Truth, believed, call_digest, read_prompt, share_shown
from .scripted_calls import NATIVE, StreamsInPieces
from .tunnel import SAME_IDS, SCOPE, TOO_EARLY, Tunnel, early_call
from .weaknesses import PromptParts, WorkingPlan, followed_plan, is_in_thousands, slips_of


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


_NOTHING = Reply()
LOST_FROM, LOST_TO = 0.2, 0.6
"""Share of a question's content words below which the model is always at a loss, and from which it never is."""
_MAY_OVERLOOK = frozenset({Role.DECIDE, Role.PLAN, Role.SELECT, Role.REFLECT})
"""Roles in which a result that was overlooked can still be asked for again."""


@dataclass(slots=True)
class _Visits:
    """What has happened so far at one point."""

    fault: Fault | None
    last: tuple[Request, Reply]
    attempts: int = 0
    failures: int = 0
    """Attempts after which the prompt showed that something came of them, and yet the point was not passed."""
    signs: FaultSigns = field(default_factory=FaultSigns)
    """How a text would show what was wrong with the last reply."""
    invented: bool = False
    """The last reply called a tool that does not exist."""
    lapses: list[Fault] = field(default_factory=list)

    def got_through(self) -> None:
        """Note a clean reply: what struck here before is overcome."""
        for fault in (*self.lapses, *([self.fault] if self.fault is not None else ())):
            fault.recovered = fault.recovered or fault.landed


@dataclass(slots=True)
class _Turn:
    """One request on its way to a reply."""

    request: Request
    codec: Codec
    followed: WorkingPlan
    view: PromptView
    decision: PolicyDecision
    point: FaultPoint
    visits: _Visits
    fault: Fault | None = None
    early: tuple[ToolCall, tuple[str, ...]] | None = None
    """The call that it puts beside those of the move, and which of them it should wait for."""
    move: Move | None = None
    """What the reply says; None for prose."""
    reply: Reply = _NOTHING


class Scripted(StreamsInPieces):
    """Answers as a model would that follows the plan and knows only what its prompt shows.

    The reply is a function of (seed, task, repeat, role, point, attempt, what is legible); nothing is shared between trials.
    """

    name = SCRIPTED

    def __init__(self, script: Script, tunnel: Tunnel | None = None) -> None:
        """`tunnel`: shared with the trial's toolbox, which issues the receipts."""
        self.script = script
        self._key, profile = script.key, script.profile
        self.tunnel = tunnel or Tunnel()
        self.tunnel.blow(profile, self._key)
        self.capabilities = Capabilities(tool_choice=profile.abilities.tool_choice, context_tokens=profile.abilities.context_tokens)
        self.tunnel.unknown = tuple(call.id for call in script.plan.calls)
        self.tunnel.oracle = script.oracle
        self.tunnel.instructions = TrialInstructions(self._key, script.tools, script.lure, profile.gullible)
        self._visits: dict[FaultPoint, _Visits] = {}
        self._lost_below = LOST_FROM + (LOST_TO - LOST_FROM) * unit(*self._key, "question")
        """The model is at a loss where a prompt shows less of the question."""
        self._good: dict[Role, GoodTurn] = {}
        """The last turn of each role in which all went well."""
        self._last: dict[Role, tuple[Request, Reply]] = {}
        """The last request of each role whose reply was good."""
        self._bluffs = profile.bluff > 0 and unit(*self._key, "bluff") < profile.bluff  # a trait of the trial, for every loop
        self._stated = ""
        self._planned = {call.id: call for call in script.plan.calls}
        weaknesses = [one for one in profile.weaknesses if script.words or one.kind != "answer"]
        self._weak_in = slips_of(script.plan, weaknesses, self._key, script.tools, profile.faults) if weaknesses else ()
        self._right = WorkingPlan(script.plan)
        self._slips: dict[tuple[str, str], Fault] = {}
        """What has slipped so far, by kind and planned call."""

    async def complete(self, request: Request) -> Reply:
        """Return the model's reply. Raises ContextOverflow and ProviderError as the profile has it."""
        SCOPE.set(request.scope)
        seconds = self.script.profile.latency_s
        try:
            turn = self._answered(request)
            if turn.fault is not None and turn.fault.kind == "provider.slow":
                seconds += self.script.profile.slow_s
        finally:
            await self.tunnel.spend(seconds)
        return turn.reply

    def _answered(self, request: Request) -> _Turn:
        tokens, limit = estimate_input(request), self.script.profile.abilities.context_tokens
        if limit is not None and tokens > limit:
            raise ContextOverflow(f"the request has about {tokens} tokens, the context holds {limit}")
        if request.tool_choice not in (None, "auto", "none") and not self.capabilities.tool_choice:
            raise ProviderError("tool_choice is not supported", "refused", status=400, injected=True)
        turn = self._decided(request)
        turn.move, turn.reply = first_expressible(turn.codec, turn.decision.options)
        turn.visits.last = (request, _NOTHING)  # all that the loop has, should the provider fail now
        if turn.fault is not None and self._has_no_room(turn, turn.fault):  # it was never scheduled, or is overcome
            turn.visits.got_through()
            if not turn.fault.landed:
                turn.visits.fault = None
                self.tunnel.faults = [other for other in self.tunnel.faults if other is not turn.fault]
            turn.fault = None
        if turn.fault is not None:
            self._strike(turn, turn.fault)
        if self._weak_in:
            self._slip(turn)
        move, fault, reply = turn.move, turn.fault, turn.reply
        if isinstance(move, Answer) and move.value is not None:
            self._stated = render_value(move.value)
        self.tunnel.instructions.note(turn.decision, move, request.scope)
        turn.reply = Reply(reply.text, reply.calls, estimate_usage(tokens, reply), reply.finish_reason, reply.failed_attempts)
        turn.visits.last = (request, turn.reply)
        turn.visits.invented = fault is not None and fault.kind == "decision.unknown_tool" and not fault.absorbed
        if fault is None and isinstance(move, Act):
            self._last[request.role] = turn.visits.last
        else:
            self._last.pop(request.role, None)
        return turn

    # --- read and decide ---

    def _decided(self, request: Request) -> _Turn:
        """Read the prompt, decide on the next move, and draw what may go wrong at its point."""
        messages, shown, ledger, followed = request.messages, request.demonstrations, self.tunnel.ledger, self._right
        live = (*messages[: shown.start], *messages[shown.stop :]) if request.examples else messages
        if self._weak_in:
            parts = PromptParts(live, messages[shown])
            followed = followed_plan(self.script.plan, self._weak_in, parts, self.script.oracle, ledger, request.role)
        view = self._view(request, "\n".join([message.content for message in believed(live, ledger)]), followed)
        codec = request.codec or NATIVE
        decision = self._decision(request, codec, view)
        point = FaultPoint(str(request.role), decision.point)
        visits = self._visit(point, request, bool(view.results))
        if request.role is Role.RECOVER:
            for role in CALLING:  # the request shows the model a failure, whatever role decided on the call
                at_call = self._visits.get(FaultPoint(role, point.call))
                if at_call is not None:
                    at_call.failures += 1
                    self._hear(at_call, request)
        attempt = visits.attempts
        visits.attempts += 1
        fault = visits.fault if visits.fault is not None and visits.fault.active(attempt) else None
        if visits.failures or request.role is Role.RECOVER:  # patience may be used up: the policy can only know now
            decision = self._decision(request, codec, view)
        turn = _Turn(request, codec, followed, view, decision, point, visits, fault)
        if fault is None and not self._forgot(turn, attempt) and point.call == ANSWER:  # elsewhere see Tunnel.settle
            visits.got_through()
        return turn

    def _view(self, request: Request, text: str, followed: WorkingPlan) -> PromptView:
        offered = [tool.name for tool in request.tools]
        view = read_prompt(followed.plan, self.script.oracle, self.tunnel.ledger, text, offered)
        self.tunnel.calls_shown[request.scope], self.tunnel.illegible[request.scope] = tuple(view.results), view.illegible
        self.tunnel.ever_shown.update(view.results)
        stuck = view.stuck
        if request.role in (Role.DECIDE, Role.ANSWER):
            self.tunnel.unknown = tuple([call.id for call in view.unknown])
            stuck = stuck or share_shown(view.text, self.script.question) < self._lost_below
        if stuck is view.stuck and followed is self._right and self.script.made_up is None:
            return view
        forgotten = followed.forgotten.values()
        return view._replace(says=followed.says, overlooked=forgotten, bluff=self.script.made_up, stuck=stuck)

    def _decision(self, request: Request, codec: Codec, view: PromptView) -> PolicyDecision:
        """Return what the policy decides on a view of a prompt, from what has happened so far."""
        failures: dict[str, int] = {}
        at_calls = [(point.call, visits) for point, visits in self._visits.items() if point.role in CALLING]
        for call, visits in at_calls:
            failures[call] = failures.get(call, 0) + visits.failures
        invented = {call for call, visits in at_calls if visits.invented}
        patience = self.script.profile.patience
        asked = PolicyRequest(codec.max_calls, failures, patience, self._bluffs, self._stated, invented)
        decision = POLICY[request.role](view, asked)
        return self.tunnel.instructions.instead_of(decision, request.role, request.scope, view.text)

    def _visit(self, point: FaultPoint, request: Request, any_known: bool) -> _Visits:
        """Return what has happened at a point, with what this request says of it; at a new one a fault is drawn."""
        before = self._last.pop(request.role, None)
        visits = self._visits.get(point)
        if visits is not None:
            visits.failures += self._hear(visits, request) != "nothing"
            return visits
        if before is not None:
            self._good[request.role] = before[0], request, before[1]
        planned = self._planned.get(point.call)
        # an answer out of nothing has no call to repeat either
        is_first = point.call == next(iter(self._planned), ANSWER) or not (planned or any_known)
        fault = draw(self.script.profile, self._key, point, planned, is_first)
        self.tunnel.faults += [] if fault is None else [fault]
        visits = self._visits[point] = _Visits(fault, (request, _NOTHING))
        return visits

    def _hear(self, visits: _Visits, request: Request) -> Level:
        """Return what a request says of the model's last reply at a point, and draw whether it mends a mistake there.

        The draw is the attempt's, so that of two loops the one that says more clears a mistake wherever the other does.
        """
        signs, fault = visits.signs, visits.fault
        seen = self.tunnel.last_results.get(signs.call)
        result = "" if seen is None else f"{seen.error_type or ''} {seen.data}"
        level = level_shown(visits.last[0], request, visits.last[1], signs, result, self._good.get(request.role))
        if fault is not None and fault.clearing == "shown" and not fault.cured:
            is_same = level == "nothing" and request.sampling.temperature == 0  # the same prompt gets the same reply
            chance = 0.0 if is_same else getattr(self.script.profile.clears, level)
            fault.cured = unit(*self._key, "cured", fault.point, visits.attempts) < chance
        return level

    def _forgot(self, turn: _Turn, attempt: int) -> bool:
        """Say whether results are overlooked, and decide again without them; it is a fault if the decision is another one."""
        rate, listed = self.script.profile.forget, self.script.profile.faults
        if rate == 0 or turn.point.role not in _MAY_OVERLOOK or (listed is not None and f"{LAPSE}@{turn.point}" not in listed):
            return False
        key, length = (*self._key, "forget", turn.point, attempt), len(turn.view.text)
        shown = turn.view.results
        kept = {name: item for name, item in shown.items() if unit(*key, name) >= rate * item.distance(length)}
        if len(kept) == len(shown):
            return False
        clean, turn.decision = turn.decision, self._decision(turn.request, turn.codec, turn.view._replace(results=kept))
        if turn.decision.options != clean.options:
            fault = Fault(LAPSE, turn.point, "after", 1)
            self.tunnel.faults.append(fault)
            self.tunnel.land(fault, turn.request)
            turn.visits.lapses.append(fault)
        return True

    # --- what goes wrong ---

    def _has_no_room(self, turn: _Turn, fault: Fault) -> bool:
        if fault.kind == TOO_EARLY:
            turn.early = early_call(turn.view, turn.decision.calls) if isinstance(turn.move, Act) else None
            return turn.early is None
        if fault.kind == SAME_IDS:
            return len(turn.reply.calls) < 2
        return fault.family == "wire" and spares(fault.kind, turn.move, turn.reply)

    def _strike(self, turn: _Turn, fault: Fault) -> None:
        """Change the turn's move and reply as the fault has it. Raises ProviderError."""
        visits, move, reply, lands = turn.visits, turn.move, turn.reply, True
        if fault.family == "wire":
            turn.reply, fault.absorbed = spoiled_reply(fault.kind, turn.codec, move, reply)
            visits.signs = signs_of_wire(turn.codec, turn.reply)
            lands = turn.reply != reply
        elif fault.kind == SAME_IDS:
            turn.reply = replace(reply, calls=tuple(replace(call, id=reply.calls[0].id) for call in reply.calls))
        elif turn.early is not None and isinstance(move, Act):
            self._call_too_early(turn, fault, move, *turn.early)
        elif fault.family == "decision":
            known_calls = {name: item.form.call for name, item in turn.view.results.items()}
            options = disturb(fault.kind, move, known_calls, self.script.tools, guess(turn.view, self._bluffs)) if move else ()
            changed, reply = first_expressible(turn.codec, options)
            lands = move is not None and changed != move
            if lands and changed is None:  # a format in which the mistake cannot be made
                fault.absorbed = True
            elif lands:
                visits.signs = signs_of_decision(fault.kind, changed, move)
                turn.move, turn.reply = changed, reply
        if lands:
            self.tunnel.land(fault, turn.request)
        if fault.kind == "provider.slow":
            fault.recovered = True
        elif fault.family == "provider":
            raise outage(fault.kind)

    def _call_too_early(self, turn: _Turn, fault: Fault, move: Act, early: ToolCall, awaited: Sequence[str]) -> None:
        both = replace(move, calls=(*move.calls, early))
        try:
            turn.reply = turn.codec.render(both)
        except Inexpressible:
            fault.absorbed = True
            return
        turn.move = both
        made = zip(turn.decision.calls, move.calls, strict=True)
        digests = [call_digest(call.name, call.arguments) for name, call in made if name in awaited]
        self.tunnel.at_once.awaited[call_digest(early.name, early.arguments)] = set(digests)
        self.tunnel.held |= dict.fromkeys(digests, fault)

    def _slip(self, turn: _Turn) -> None:
        """Note what a weakness has spoiled in a move that the loop gets: once for each call, scheduled and landed in one.

        An answer's slip is overcome when the answer is stated again in its right form; that of a call, as with any fault, when the
        right call gives its true result later (see Tunnel.settle).
        """
        view, move, followed = turn.view, turn.move, turn.followed
        is_answer, shown = isinstance(move, Answer), set[tuple[str, str]]()
        if followed.forgotten:  # what the right plan would have called now, or all of it where the model thinks that it knows all
            due = self._decision(turn.request, turn.codec, view._replace(plan=self.script.plan, overlooked=())).calls
            is_informed = is_answer and not view.unknown and not view.stuck
            shown = {("step", name) for name in followed.forgotten if name in due or is_informed}
        # a spoiled call may be the same as another that was made, and is then never made itself: its result counts
        made = (*view.results, *(turn.decision.calls if isinstance(move, Act) else ()))
        shown = shown.union(*(followed.spoiled.get(name, ()) for name in made))
        if isinstance(move, Answer) and followed.says and is_in_thousands(move.value):
            shown.add(("answer", ANSWER))
        for kind, call in sorted(shown) if move is not None else ():
            if (kind, call) not in self._slips:
                slip = Fault(f"weakness.{kind}", FaultPoint(turn.request.role.value, call), "never", 0)
                self._slips[kind, call] = slip
                self.tunnel.faults.append(slip)
                self.tunnel.land(slip, turn.request if turn.fault is None else None)  # a reply is marked with one fault
        stated = self._slips.get(("answer", ANSWER))
        if stated is not None and isinstance(move, Answer) and move.value is not None and not view.unknown:
            stated.recovered = not is_in_thousands(move.value)
