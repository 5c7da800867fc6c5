"""The faults, in the order in which they are reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from .finding import RECOVERED, Outcome

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
