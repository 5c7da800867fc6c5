"""The faults, in the order in which they are reported; what an agent did with one; what its requests say of it; what is demanded.

No agent's wording is known here. What tells the model of a fault is new: words in lines that no request before the fault had, and
none of an undisturbed run, beside the model's own reply. Lines that differ in their numbers only, such as "Step 4 of 10", are one.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from whichloop.models.feedback import words_of
from whichloop.protocol import Message, Reply, Request
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


@dataclass(frozen=True, slots=True)
class FaultFinding:
    """What an agent did with one fault."""

    fault: str
    outcome: Outcome
    detail: str
    """How it ended, in words: the answer, the exception or the limit."""
    request: int | None = None
    """Number of the request that shows it, from 1; None if none followed the fault."""
    shown: str = ""
    """What is new in that request beside the model's own reply, at most 4,000 characters."""
    requests: int = 0
    calls: int = 0
    """Calls of tools that ran, failed ones among them, as `requests` of the whole run."""

    @property
    def recovered(self) -> bool:
        """Whether the answer was right in spite of the fault."""
        return self.outcome in RECOVERED

    def as_dict(self) -> dict[str, Any]:
        sound = self.outcome in BY_NAME[self.fault].sound
        status = "not run" if self.outcome == "not applicable" else "ok" if sound else "warning"
        data = asdict(self)
        return {"name": data.pop("fault"), "status": status, **data, "means": OUTCOMES[self.outcome]}


Strikes = Literal["reply", "call", "order", "provider", "tool", "result", "endless"]
BenchTask = Literal["chain", "pair", "box", "log"]
"""Three calls one after the other, two at once, a change and then a look at what has changed, or the errors in a long log."""


@dataclass(frozen=True, slots=True)
class AgentFault:
    """One fault, and how a request would tell the model of it."""

    name: str
    text: str
    """The fault in a sentence."""
    strikes: Strikes
    """A reply's form, its calls, the order of their ends, the provider, a tool's run, its result, or the model's wish to end."""
    signs: frozenset[str] | None = frozenset()
    """Words of which an explanation has at least one; None: any new text is one, since there is nothing but to ask again."""
    task: BenchTask = "chain"
    sound: frozenset[Outcome] = RECOVERED
    """The outcomes that lose nothing without saying so."""


def _fault(name: str, text: str, strikes: Strikes, signs: str | None = "", task: BenchTask = "chain", **more: Any) -> AgentFault:
    return AgentFault(name, text, strikes, None if signs is None else frozenset(signs.split()), task, **more)


_ENDED = frozenset[Outcome]({"error", *RECOVERED})
_UNREADABLE = (
    "json decode decoded decoding decoder malformed unterminated delimiter syntax truncated incomplete "
    "unparsable unparseable jsondecodeerror brace bracket eof expecting quotes column"
)
_CUT = f"{_UNREADABLE} length token tokens cut max_tokens"
_LIST = "list array dict dictionary object mapping type json"
_LONG = "long large exceeds context length"
_LATE = "timeout timed timeouterror seconds within deadline long"
_EXTRA = "unknown unexpected extra additional forbidden permitted accept accepts allowed schema unrecognized verbose"
_TYPE = "type types integer integers int number numeric validation typeerror float"
_UNKNOWN = "unknown exist exists registered recognized unrecognized add_v2"
WEAK_SIGNS = frozenset(["found", "available", "such", "defined", "known", "unavailable", "valid", "invalid"])
"""Words that explain an unknown tool only in a line with a word of SUBJECT: alone, they stand in any message about a failure."""
SUBJECT = frozenset(["tool", "tools", "function", "functions"])
_ENOUGH = "final limit maximum last stop enough finish finally now must"
_AGAIN = "already again repeated repeat repeating duplicate same identical stuck loop before"

FAULTS: tuple[AgentFault, ...] = (
    _fault("cut_json", "the arguments of a call are JSON that ends in the middle", "reply", _UNREADABLE),
    _fault("cut_length", "the same, and the reply's finish reason says that it was cut for its length", "reply", _CUT),
    _fault("list_arguments", "the arguments of a call are a JSON list", "reply", _LIST),
    _fault("missing_argument", "a required argument is missing", "call", "missing required requires require"),
    _fault("extra_argument", "a call has an argument that the tool does not take", "call", _EXTRA),
    _fault("wrong_type", "an argument has the wrong type", "call", _TYPE),
    _fault("unknown_tool", "a call names a tool that does not exist", "call", _UNKNOWN),
    _fault("duplicate_ids", "two calls in one reply have the same id", "reply", "duplicate duplicates same ids", "pair"),
    _fault("two_calls", "a reply has two calls", "call", "one single parallel once time", "pair"),
    _fault("one_of_two_fails", "the second of two calls in one reply raises", "tool", "jammed pump", "pair"),
    _fault("one_of_two_hangs", "the second of two calls in one reply does not return", "tool", _LATE, "pair"),
    _fault("late_first", "the first of two calls in one reply ends after the second, if both run at once", "order", task="pair"),
    _fault(
        "write_and_read",
        "a reply has a call that changes something and one that reads it; at once, the change takes longer",
        "order",
        task="box",
    ),
    _fault("tool_raises", "a tool raises an exception", "tool", "jammed pump"),
    _fault("tool_hangs", "a tool does not return", "tool", _LATE),
    _fault("huge_result", "a tool's result is longer than the model's context", "result", _LONG, "log"),
    _fault("empty", "a reply is empty", "reply", None),
    _fault("prose", "a reply announces a call in prose and makes none", "reply", None),
    _fault("refusal", "a reply is a refusal, with the finish reason of a content filter", "reply", None, sound=_ENDED),
    _fault("rate_limit", "the provider answers 429 once, with Retry-After", "provider"),
    _fault("server_error_once", "the provider answers 500 once", "provider"),
    _fault("server_error_always", "the provider answers 500 from then on", "provider", sound=_ENDED),
    _fault("dropped", "the connection is reset before the reply", "provider"),
    _fault("garbled", "the provider answers 200 with a body that is not JSON", "provider"),
    _fault("cut_stream", "the connection closes in the middle of the reply", "provider"),
    _fault("never_finishes", "the model calls tools again and again instead of answering", "endless", _ENOUGH, sound=_ENDED),
    _fault("repeats", "the model makes one call again and again until it is told so", "endless", _AGAIN, sound=_ENDED),
)

BY_NAME: Mapping[str, AgentFault] = {fault.name: fault for fault in FAULTS}
EITHER = "|"


def parse_requirements(texts: Mapping[str, str] | str) -> dict[str, str]:
    """Return fault → outcomes as typed, from text or such a mapping. Raises ValueError for a fault or outcome that is none."""
    pairs = list(texts.items()) if isinstance(texts, Mapping) else [part.split("=", 1) for part in texts.split(",") if part.strip()]
    demanded: dict[str, str] = {}
    for fault, text in (map(str.strip, (*pair, "")[:2]) for pair in pairs):
        if not text:
            raise ValueError(f"{fault!r} is not FAULT=OUTCOME, such as unknown_tool=told")
        if fault not in BY_NAME:
            raise ValueError(f"there is no fault {fault!r}; {nearest(fault, BY_NAME)}")
        if fault in demanded:
            raise ValueError(f"{fault} stands twice; join its outcomes with {EITHER!r}")
        try:
            allowed_by(text)
        except ValueError as error:
            raise ValueError(f"{fault}: {error}") from None
        demanded[fault] = text
    return demanded


def allowed_by(text: str) -> frozenset[Outcome]:
    """Return the outcomes that a demand allows, such as `told|handled`. Raises ValueError for a word that is none."""
    by_word: dict[str, frozenset[Outcome]] = {name: frozenset({name}) for name in OUTCOMES} | {"recovered": RECOVERED}
    words = [word.strip() for word in text.split(EITHER)]
    for word in words:
        if word not in by_word:
            raise ValueError(f"there is no outcome {word!r}; {nearest(word, by_word)}")
    return frozenset().union(*(by_word[word] for word in words))


_WITH_DIGITS = re.compile(r"\w*\d\w*")
_TYPE_FIELD = re.compile(r"""["']type["']\s*:""")
"""A field of structured messages, which says nothing of an argument's type."""


@dataclass(slots=True)
class LoggedRequest:
    """A request, and what came of it."""

    request: Request
    reply: Reply | None = None


def telling_request(fault: AgentFault, requests: Sequence[LoggedRequest], struck: int, clean: Sequence[Request] = ()) -> int | None:
    """Return the place of the first request after the one at `struck` that explains the fault; None if none does.

    `clean`: the requests of the same task without a fault, whose words explain nothing.
    """
    known = Counter[str]()  # how often any one of the requests has each word, at most
    for request in [*clean, *(one.request for one in requests[: struck + 1])]:
        known |= _words(message.content for message in _shown_messages(request))
    for place in range(struck + 1, len(requests)):
        lines = [line for _, fresh in _new_lines(requests, struck, place, clean) for line in fresh]
        replies = [one.reply for one in requests[struck:place] if one.reply is not None]
        # An agent that quotes the model's replies explains nothing by that.
        said = [reply.text for reply in replies] + [f"{call.name} {call.arguments}" for reply in replies for call in reply.calls]
        fresh = _words(message.content for message in _shown_messages(requests[place].request)) - known - _words(said)
        if lines and (fault.signs is None or any(_explains(fault, line, fresh) for line in lines)):
            return place
    return None


def new_text(fault: AgentFault, requests: Sequence[LoggedRequest], struck: int, place: int, clean: Sequence[Request] = ()) -> str:
    """Return the new lines of a request, from the first one that explains the fault, or all; a role in front of each message."""
    new_lines = _new_lines(requests, struck, place, clean)
    lines = [line for role, fresh in new_lines for line in (f"{role}: {fresh[0]}", *fresh[1:])]
    first = next((number for number, line in enumerate(lines) if _explains(fault, line)), 0)
    return "\n".join(lines[first:])[:4_000]


def _new_lines(
    requests: Sequence[LoggedRequest], struck: int, place: int, clean: Sequence[Request]
) -> Iterator[tuple[str, list[str]]]:
    """Yield the role and the lines of each message that no request up to the struck one had, nor any of an undisturbed run.

    What the model itself has said is left out, with nothing around it but words that requests have anyway.
    """
    before = [*clean, *(one.request for one in requests[: struck + 1])]
    texts = [message.content for request in before for message in request.messages]
    known_lines = {"", *(_masked(line) for text in texts for line in text.splitlines())}
    known_words = {word for text in texts for word in _plain_words(text)}
    replies = [one.reply.text for one in requests[struck:place] if one.reply is not None]
    own_lines = {line.strip() for text in replies for line in text.splitlines()} - {""}
    for message in _shown_messages(requests[place].request):
        fresh = [
            line
            for line in message.content.splitlines()
            if _masked(line) not in known_lines
            and not any(own in line and set(_plain_words(line.replace(own, " "))) <= known_words for own in own_lines)
        ]
        if fresh:
            yield message.role, fresh


def _explains(fault: AgentFault, line: str, fresh: Iterable[str] | None = None) -> bool:
    """Return whether a line has a word of an explanation; `fresh`: the words that may be it, all if None."""
    words = set(_plain_words(line))
    new = words if fresh is None else words & set(fresh)
    is_weak = fault.name == "unknown_tool" and new & WEAK_SIGNS and words & SUBJECT
    return bool(new & (fault.signs or frozenset()) or is_weak)


def _shown_messages(request: Request) -> list[Message]:
    """Return what a request tells the model: not its own messages, nor the instructions in front, which hold for any run."""
    shown = enumerate(request.messages)
    return [message for place, message in shown if message.role != "assistant" and (place or message.role != "system")]


@functools.lru_cache(maxsize=4096)
def _masked(line: str) -> str:
    """Return a line without its numbers, ids and dates, which differ between turns of a run."""
    return _WITH_DIGITS.sub("0", line).strip()


@functools.lru_cache(maxsize=1024)
def _plain_words(text: str) -> tuple[str, ...]:
    """Return the words of a text without fields of its type; each request of a trial has those before it again."""
    return tuple(words_of(_TYPE_FIELD.sub(" ", text)))


def _words(texts: Iterable[str]) -> Counter[str]:
    return Counter(word for text in texts for word in _plain_words(text))
