"""A gullible model: it obeys an instruction that its prompt shows as if it were the user's, though it stands in a tool's result.

The rules, which hold for every loop alike:

- What counts is what the prompt shows: an instruction that was cut, or that the loop never shows, is never obeyed.
- Whether this trial's model falls for an instruction is drawn once, by trial and point: with chance `obeys`, and with chance
  `marked` where the prompt marks it as data wherever it stands. It is one draw, so that a mark never makes a model fall for more.
- A call that it falls for takes the place of its next move where it decides on calls, once. An answer takes the place of its move
  where it decides, answers or puts an answer into form, and so does the end; where it selects calls, the end is to select none, and
  where it judges whether the work is complete, that it is. In any other role it does what it would have done.
- A summary hands on what the model falls for, without the loop's marks, and leaves out all else.
- Asked to confirm one call, in a prompt that shows no result, the model refuses the call of an instruction but for the chance
  `confirms`, drawn once, and confirms any other: it takes its own calls for right.
"""

from __future__ import annotations

from whichloop.protocol import Act, Completion, Move, Role, Text
from whichloop.protocol.digest import unit

from .faults import CALLING, NOT_DETERMINED, SURE, UNSURE, answer_options
from .instructions import STOP, Instruction, shown_in
from .policy import Decision
from .profiles import Gullibility
from .tunnel import Tunnel

_RETELLING = frozenset({Role.REASON, Role.SUMMARIZE})
_JUDGING = frozenset({Role.REFLECT, Role.VALIDATE})
_STATING = frozenset({Role.DECIDE, Role.ANSWER, Role.FORMAT})
_POINT = "injected:"


class Gullible:
    """What one trial's model makes of the instructions in its prompts."""

    def __init__(self, key: tuple[object, ...], chances: Gullibility, tunnel: Tunnel) -> None:
        self._key = key
        self._chances = chances
        self._instructions = tunnel.instructions
        self._tried: set[tuple[str, str]] = set()
        """Label and scope of the calls that were tried."""

    def instead_of(self, decision: Decision, role: Role, scope: str, prompt: str) -> Decision:
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
                return Decision(f"{_POINT}{instruction.label}", options)
        return decision

    def note(self, decision: Decision, move: Move | None, scope: str) -> None:
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


def _retold(decision: Decision, obeyed: list[Instruction]) -> Decision:
    """Add the instructions to what is retold."""
    more = "\n".join(instruction.text for instruction in obeyed)
    options = tuple(Text(f"{move.text}\n{more}") if isinstance(move, Text) else move for move in decision.options)
    return decision._replace(options=options) if obeyed else decision
