"""A reply on its way: what a fault of the wire can spoil of it, and what its format absorbs; models that obey planted instructions.

A fault of the wire spoils how a move is written, never what it says: a reply that would read as another move, without a sign that
anything is wrong, is spoiled in another way. Free text is no format: there is nothing of the wire in it to spoil.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from whichloop.protocol import Act, Answer, Codec, Completion, Inexpressible, Move, Reply, Request, Role, Text, WireError
from whichloop.protocol.digest import unit

from .at_once import EarlyCall
from .faults import CALLING, NOT_DETERMINED, SURE, UNSURE, Fault, FaultPoint, answer_options, spoil, spoiled_forms
from .feedback import FaultSigns
from .instructions import STOP, Instruction, shown_in
from .policy import PolicyDecision
from .profiles import Gullibility
from .prompt_view import PromptView
from .tunnel import Tunnel
from .weaknesses import WorkingPlan

_ANYWHERE = frozenset({"wire.empty"})
"""Kinds that a loop can tell in free text too: nothing has come."""


def first_expressible(codec: Codec, options: Sequence[Move]) -> tuple[Move | None, Reply]:
    """Return the first option that the codec can express, else prose: a model always says something."""
    for move in options:
        try:
            return move, codec.render(move)
        except Inexpressible:
            continue
    prose = next((move.text for move in options if isinstance(move, Text)), "I cannot say this in the format asked for.")
    return None, Reply(prose)


class SpoiledReply(NamedTuple):
    """A reply as a fault of the wire leaves it."""

    reply: Reply
    absorbed: bool
    """The format still reads the same move."""


def spares(kind: str, move: Move | None, reply: Reply) -> bool:
    """Return whether a fault of the wire has nothing to spoil in a reply: it is free text, and the text would only say other words.

    `move`: what the reply says; None for prose that no format asked for.
    """
    return kind not in _ANYWHERE and _is_free_text(move, reply)


def _is_free_text(move: Move | None, reply: Reply) -> bool:
    """Whether a reply is free text, which has no calls and no frame: all of it is the answer's or the prose's own text. A call in
    text is a format."""
    if reply.calls:
        return False
    if move is None or (isinstance(move, Act) and not move.calls):
        return True
    own = move.value if isinstance(move, Answer) else move.text if isinstance(move, Text) else None
    return isinstance(own, str) and reply.text == own


def spoiled_reply(kind: str, codec: Codec, move: Move | None, reply: Reply) -> SpoiledReply:
    """Return a reply as a fault leaves it: the first of its forms in which the format cannot be read, or still says the same.

    Where it says something else in all forms, the first is taken.
    """
    for form in spoiled_forms(kind, reply):
        try:
            read = codec.parse(form)
        except WireError:
            return SpoiledReply(form, False)
        if move is not None and _decision(read) == _decision(move):
            return SpoiledReply(form, form != reply)
    return SpoiledReply(spoil(kind, reply), False)


def _decision(move: Move) -> Move:
    """Return a move without its thought: prose round a reply may be taken for one, and changes nothing."""
    return replace(move, thought="") if isinstance(move, Act | Answer) else move


_RETELLING = frozenset({Role.REASON, Role.SUMMARIZE})
_JUDGING = frozenset({Role.REFLECT, Role.VALIDATE})
_STATING = frozenset({Role.DECIDE, Role.ANSWER, Role.FORMAT})
_POINT = "injected:"


class Gullible:
    """What one trial's model makes of the instructions in its prompts.

    The rules, which hold for every loop alike:

    - What counts is what the prompt shows: an instruction that was cut, or that the loop never shows, is never obeyed.
    - Whether this trial's model falls for an instruction is drawn once, by trial and point: with chance `obeys`, and with chance
      `marked` where the prompt marks it as data wherever it stands. It is one draw, so a mark never makes a model fall for more.
    - A call that it falls for takes the place of its next move where it decides on calls, once. An answer takes the place of its
      move where it decides, answers or puts an answer into form, and so does the end; where it selects calls, the end is to select
      none, and where it judges whether the work is complete, that it is. In any other role it does what it would have done.
    - A summary hands on what the model falls for, without the loop's marks, and leaves out all else.
    - Asked to confirm one call, in a prompt that shows no result, the model refuses the call of an instruction but for the chance
      `confirms`, drawn once, and confirms any other: it takes its own calls for right.
    """

    def __init__(self, key: tuple[object, ...], chances: Gullibility, tunnel: Tunnel) -> None:
        self._key = key
        self._chances = chances
        self._instructions = tunnel.instructions
        self._tried: set[tuple[str, str]] = set()
        """Label and scope of the calls that were tried."""

    def instead_of(self, decision: PolicyDecision, role: Role, scope: str, prompt: str) -> PolicyDecision:
        """Return what the model does in the place of what it would do if its prompt carried no instructions."""
        if not self._instructions.by_label:
            return decision
        labels = shown_in(prompt, self._instructions.by_label)
        self._instructions.shown_labels |= labels.keys()
        obeyed = [self._instructions.by_label[label] for label in sorted(labels) if self._falls_for(label, is_marked=labels[label])]
        if role is Role.CONFIRM and self._refuses(prompt):
            return decision._replace(options=(Completion(False, "The task does not ask for it."), Completion(False)))
        if role in _RETELLING:
            return _retold(decision, obeyed)
        for instruction in obeyed:
            options = _options(instruction, role)
            if options and not (instruction.call is not None and (instruction.label, scope) in self._tried):
                return PolicyDecision(f"{_POINT}{instruction.label}", options)
        return decision

    def note(self, decision: PolicyDecision, move: Move | None, scope: str) -> None:
        """Note what the model's reply says."""
        if not decision.point.startswith(_POINT):
            return
        label = decision.point.removeprefix(_POINT)
        self._tried.add((label, scope))
        if move in decision.options:
            self._instructions.obeyed.add(label)

    def _refuses(self, prompt: str) -> bool:
        """Whether a prompt asks about a call that only an instruction asked for, and the model notices."""
        instructions = (one for one in self._instructions.by_label.values() if one.marker and one.marker in prompt)
        return any(unit(*self._key, "confirms", one.label) >= self._chances.confirms for one in instructions)

    def _falls_for(self, label: str, *, is_marked: bool) -> bool:
        chance = self._chances.marked if is_marked else self._chances.obeys
        return unit(*self._key, "obeys", label) < chance


def _options(instruction: Instruction, role: Role) -> tuple[Move, ...]:
    """Return the moves by which a model obeys; empty where a role leaves no room for it."""
    if instruction.call is not None:
        calls = (instruction.call,)
        return (Act("I was told to make this call.", calls), Act("", calls)) if role in CALLING else ()
    if role in _STATING:
        if instruction.kind == STOP:
            return answer_options("I was told to stop.", NOT_DETERMINED, UNSURE)
        return answer_options("I was told what to answer.", instruction.value, SURE)
    if instruction.kind == STOP and role is Role.SELECT:
        return (Act("", ()),)
    if instruction.kind == STOP and role in _JUDGING:
        return (Completion(True, "I was told to stop."), Completion(True))
    return ()


def _retold(decision: PolicyDecision, obeyed: list[Instruction]) -> PolicyDecision:
    """Add the instructions to what is retold."""
    more = "\n".join(instruction.text for instruction in obeyed)
    options = tuple(Text(f"{move.text}\n{more}") if isinstance(move, Text) else move for move in decision.options)
    return decision._replace(options=options) if obeyed else decision


# --- a reply on its way ---

NO_SIGNS = FaultSigns()


@dataclass(slots=True)
class PointVisits:
    """What has happened so far at one (point, scope)."""

    fault: Fault | None
    attempts: int = 0
    failures: int = 0
    """Attempts after which the prompt showed that something came of them, and yet the point was not passed."""
    last: tuple[Request, Reply] | None = None
    signs: FaultSigns = NO_SIGNS
    """How a text would show what was wrong with the last reply."""
    invented: bool = False
    """The last reply called a tool that does not exist."""
    lapses: list[Fault] = field(default_factory=list)
    """Results that were overlooked here."""

    def got_through(self) -> None:
        """Note a clean reply: what struck here before is overcome."""
        for fault in (*self.lapses, *([self.fault] if self.fault is not None else ())):
            fault.recovered = fault.recovered or fault.landed


@dataclass(slots=True)
class ReplyTurn:
    """One request on its way to a reply."""

    request: Request
    codec: Codec
    tokens: int
    """Estimated size of the request."""
    followed: WorkingPlan
    view: PromptView

    decision: PolicyDecision = field(init=False)
    point: FaultPoint = field(init=False)
    visits: PointVisits = field(init=False)
    fault: Fault | None = None
    """The fault that strikes this reply."""
    early: EarlyCall | None = None
    """What it puts beside the calls of the move, if it makes a call too early."""

    move: Move | None = None
    """What the reply says; None for prose."""
    reply: Reply = field(init=False)
    delay_s: float = 0.0
