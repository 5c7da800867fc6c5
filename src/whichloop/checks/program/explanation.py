"""What the requests after a fault tell the model of it.

No agent's wording is known here. What counts is new: words in lines that no request before the fault had, and none of an
undisturbed run, beside the model's own reply. Lines that differ in their numbers only, such as "Step 4 of 10", are the same line.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from whichloop.models.feedback import words_of
from whichloop.protocol import Message, ModelError, Reply, Request

from .agent_faults import AgentFault

_WITH_DIGITS = re.compile(r"\w*\d\w*")
_TYPE_FIELD = re.compile(r"""["']type["']\s*:""")
"""A field of structured messages, which says nothing of an argument's type."""


@dataclass(slots=True)
class LoggedRequest:
    """A request, and what came of it."""

    request: Request
    reply: Reply | None = None
    error: ModelError | None = None


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
    """Return the new lines of a request, from the first one that explains the fault; all of them if none does.

    The role stands in front of each message's first line.
    """
    new_lines = _new_lines(requests, struck, place, clean)
    lines = [line for role, fresh in new_lines for line in (f"{role}: {fresh[0]}", *fresh[1:])]
    first = next((number for number, line in enumerate(lines) if _explains(fault, line)), 0)
    return "\n".join(lines[first:])


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
    return bool(new & (fault.signs or frozenset())) or bool(new & fault.weak_signs and words & fault.subject)


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
