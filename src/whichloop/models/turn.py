"""One request on its way to a reply of the scripted model, and what has happened before at its place."""

from __future__ import annotations

from dataclasses import dataclass, field

from whichloop.protocol import Codec, Move, Reply, Request

from .at_once import EarlyCall
from .faults import Fault, FaultPoint
from .feedback import FaultSigns
from .policy import PolicyDecision
from .prompt_view import PromptView
from .weaknesses import WorkingPlan

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
