"""What a team demands of its agent: `unknown_tool=told,empty=recovered,never_finishes=error|handled`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from whichloop.protocol.names import nearest

from .agent_faults import BY_NAME
from .finding import OUTCOMES, RECOVERED, FaultFinding, Outcome

GROUPS: Mapping[str, frozenset[Outcome]] = {"recovered": RECOVERED}
"""Words for several outcomes."""
EITHER = "|"


@dataclass(frozen=True, slots=True)
class Requirement:
    """The outcomes that one fault may have."""

    fault: str
    allowed: frozenset[Outcome]
    says: str
    """The outcomes as they were typed."""

    def missing(self, finding: FaultFinding) -> str:
        """Say in a line that a finding is not what was demanded."""
        return f"{self.fault}: demanded {self.says}, found {finding.outcome}"

    def is_met(self, finding: FaultFinding) -> bool:
        """Return whether a finding is allowed; a fault that cannot happen is."""
        return finding.outcome in self.allowed or finding.outcome == "not applicable"


def parse_requirements(texts: Mapping[str, str] | str) -> tuple[Requirement, ...]:
    """Read requirements, as text or fault → outcomes. Raises ValueError for an unknown fault or outcome, and for a fault twice."""
    pairs = list(texts.items()) if isinstance(texts, Mapping) else list(_pairs(texts))
    requirements: dict[str, Requirement] = {}
    for fault, says in pairs:
        if fault not in BY_NAME:
            raise ValueError(f"there is no fault {fault!r}; {nearest(fault, BY_NAME)}")
        if fault in requirements:
            raise ValueError(f"{fault} stands twice; join its outcomes with {EITHER!r}")
        requirements[fault] = Requirement(fault, frozenset(_outcomes(fault, says)), says)
    return tuple(requirements.values())


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for part in filter(None, (part.strip() for part in text.split(","))):
        fault, equals, says = (piece.strip() for piece in part.partition("="))
        if not equals or not says:
            raise ValueError(f"{part!r} is not FAULT=OUTCOME, such as unknown_tool=told")
        yield fault, says


def _outcomes(fault: str, says: str) -> Iterator[Outcome]:
    by_word: dict[str, frozenset[Outcome]] = {name: frozenset({name}) for name in OUTCOMES} | dict(GROUPS)
    for word in (part.strip() for part in says.split(EITHER)):
        if word not in by_word:
            names = [name for name in by_word if name != "not applicable"]
            raise ValueError(f"{fault}: there is no outcome {word!r}; {nearest(word, names)}")
        yield from by_word[word]
