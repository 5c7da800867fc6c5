"""The faults, in the order in which they are reported; what an agent did with one, and what a team demands of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from whichloop.protocol.names import nearest

Outcome = Literal["told", "untold", "unaware", "handled", "silent", "error", "unlimited", "not applicable"]

OUTCOMES: Mapping[Outcome, str] = {
    "told": "recovered, and the model was told why",
    "untold": "recovered, and the model was not told why",
    "unaware": "recovered without noticing: the call was repaired, or a part of it dropped",
    "handled": "nothing was lost, and the model had nothing to mend",
    "silent": "ended as if all were well, with a wrong or an empty answer",
    "error": "ended, and said so",
    "unlimited": "had no limit: the check stopped it",
    "not applicable": "cannot happen to this agent",
}
"""Outcome → what it means."""

RECOVERED: frozenset[Outcome] = frozenset({"told", "untold", "unaware", "handled"})
"""The outcomes with the right answer."""

MAX_SHOWN_CHARS = 4_000
"""Characters of a request's new text that a finding keeps."""


@dataclass(frozen=True, slots=True)
class FaultFinding:
    """The finding of one fault."""

    fault: str
    outcome: Outcome
    detail: str
    """How it ended, in words: the answer, the exception or the limit."""
    request: int | None = None
    """Number of the request that shows it, from 1; None if none followed the fault."""
    shown: str = ""
    """What is new in that request, beside the model's own reply: what the model was told. At most MAX_SHOWN_CHARS characters."""
    requests: int = 0
    """Requests of the whole run."""
    calls: int = 0
    """Calls of tools that ran, failed ones among them."""

    @property
    def recovered(self) -> bool:
        """Whether the answer was right in spite of the fault."""
        return self.outcome in RECOVERED

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"means": OUTCOMES[self.outcome]}


Strikes = Literal["reply", "call", "order", "provider", "tool", "result", "endless"]
"""What a fault strikes: a reply's form, its calls, the order in which these end, the provider, a tool's run, a tool's result, or
the model's will to end."""
BenchTask = Literal["chain", "pair", "box", "log"]
"""Which task shows it: three calls one after the other, two calls at once, a change and then a look at what has changed, or the
count of errors in a long log."""


@dataclass(frozen=True, slots=True)
class AgentFault:
    """One fault, and how a request would tell the model of it."""

    name: str
    says: str
    """The fault in a sentence."""
    strikes: Strikes
    signs: frozenset[str] | None = frozenset()
    """Words of which an explanation has at least one; None: any new text is one, since there is nothing but to ask again."""
    task: BenchTask = "chain"
    sound: frozenset[Outcome] = RECOVERED
    """The outcomes that lose nothing without saying so."""
    weak_signs: frozenset[str] = frozenset()
    """Words that explain it only in a line with a word of `subject`: alone, they stand in any message about a failure."""
    subject: frozenset[str] = frozenset()


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ENDED = frozenset[Outcome]({"error", *RECOVERED})
_UNREADABLE = _words(
    "json decode decoded decoding decoder malformed unterminated delimiter syntax truncated incomplete "
    "unparsable unparseable jsondecodeerror brace bracket eof expecting quotes column"
)

FAULTS: tuple[AgentFault, ...] = (
    AgentFault("cut_json", "the arguments of a call are JSON that ends in the middle", "reply", _UNREADABLE),
    AgentFault(
        "cut_length",
        "the same, and the reply's finish reason says that it was cut for its length",
        "reply",
        _UNREADABLE | _words("length token tokens cut max_tokens"),
    ),
    AgentFault(
        "list_arguments",
        "the arguments of a call are a JSON list",
        "reply",
        _words("list array dict dictionary object mapping type json"),
    ),
    AgentFault("missing_argument", "a required argument is missing", "call", _words("missing required requires require")),
    AgentFault(
        "extra_argument",
        "a call has an argument that the tool does not take",
        "call",
        _words("unknown unexpected extra additional forbidden permitted accept accepts allowed schema unrecognized verbose"),
    ),
    AgentFault(
        "wrong_type",
        "an argument has the wrong type",
        "call",
        _words("type types integer integers int number numeric validation typeerror float"),
    ),
    AgentFault(
        "unknown_tool",
        "a call names a tool that does not exist",
        "call",
        _words("unknown exist exists registered recognized unrecognized add_v2"),
        weak_signs=_words("found available such defined known unavailable valid invalid"),
        subject=_words("tool tools function functions"),
    ),
    AgentFault(
        "duplicate_ids", "two calls in one reply have the same id", "reply", _words("duplicate duplicates same ids"), "pair"
    ),
    AgentFault("two_calls", "a reply has two calls", "call", _words("one single parallel once time"), "pair"),
    AgentFault("one_of_two_fails", "the second of two calls in one reply raises", "tool", _words("jammed pump"), "pair"),
    AgentFault(
        "one_of_two_hangs",
        "the second of two calls in one reply does not return",
        "tool",
        _words("timeout timed timeouterror seconds within deadline long"),
        "pair",
    ),
    AgentFault(
        "late_first", "the first of two calls in one reply ends after the second, if both run at once", "order", task="pair"
    ),
    AgentFault(
        "write_and_read",
        "a reply has a call that changes something and one that reads it; at once, the change takes longer",
        "order",
        task="box",
    ),
    AgentFault("tool_raises", "a tool raises an exception", "tool", _words("jammed pump")),
    AgentFault("tool_hangs", "a tool does not return", "tool", _words("timeout timed timeouterror seconds within deadline long")),
    AgentFault(
        "huge_result",
        "a tool's result is longer than the model's context",
        "result",
        _words("long large exceeds context length"),
        "log",
    ),
    AgentFault("empty", "a reply is empty", "reply", None),
    AgentFault("prose", "a reply announces a call in prose and makes none", "reply", None),
    AgentFault("refusal", "a reply is a refusal, with the finish reason of a content filter", "reply", None, sound=_ENDED),
    AgentFault("rate_limit", "the provider answers 429 once, with Retry-After", "provider"),
    AgentFault("server_error_once", "the provider answers 500 once", "provider"),
    AgentFault("server_error_always", "the provider answers 500 from then on", "provider", sound=_ENDED),
    AgentFault("dropped", "the connection is reset before the reply", "provider"),
    AgentFault("garbled", "the provider answers 200 with a body that is not JSON", "provider"),
    AgentFault("cut_stream", "the connection closes in the middle of the reply", "provider"),
    AgentFault(
        "never_finishes",
        "the model calls tools again and again instead of answering",
        "endless",
        _words("final limit maximum last stop enough finish finally now must"),
        sound=_ENDED,
    ),
    AgentFault(
        "repeats",
        "the model makes one call again and again until it is told so",
        "endless",
        _words("already again repeated repeat repeating duplicate same identical stuck loop before"),
        sound=_ENDED,
    ),
)

BY_NAME: Mapping[str, AgentFault] = {fault.name: fault for fault in FAULTS}


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
