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


def is_told(fault: AgentFault, requests: Sequence[LoggedRequest], struck: int, clean: Sequence[Request] = ()) -> bool:
    """Return whether any request after the one at `struck` explains the fault."""
    return telling_request(fault, requests, struck, clean) is not None


def telling_request(fault: AgentFault, requests: Sequence[LoggedRequest], struck: int, clean: Sequence[Request] = ()) -> int | None:
    """Return the place of the first request after the one at `struck` that explains the fault; None if none does.

    `clean`: the requests of the same task without a fault, whose words explain nothing.
    """
    known_words = _most_words([*clean, *(one.request for one in requests[: struck + 1])])
    for place in range(struck + 1, len(requests)):
        lines = [line for _, fresh in _new_lines(requests, struck, place, clean) for line in fresh]
        if fault.signs is None:
            if lines:
                return place
            continue
        fresh = _words(requests[place].request) - known_words - _words_of_replies(requests[struck:place])
        if any(_explains(fault, line, fresh) for line in lines):
            return place
    return None


def new_text(requests: Sequence[LoggedRequest], struck: int, place: int, clean: Sequence[Request] = ()) -> str:
    """Return the lines of a request that no request before it up to the struck one had, nor any of an undisturbed run.

    The role stands in front of each message's first line. What the model itself has said is left out.
    """
    new_lines = _new_lines(requests, struck, place, clean)
    return "\n".join(line for role, lines in new_lines for line in (f"{role}: {lines[0]}", *lines[1:]))


def _new_lines(
    requests: Sequence[LoggedRequest], struck: int, place: int, clean: Sequence[Request]
) -> Iterator[tuple[str, list[str]]]:
    """Yield the role and the new lines of each message that has some, as `new_text` has them."""
    before = [*clean, *(one.request for one in requests[: struck + 1])]
    texts = [message.content for request in before for message in request.messages]
    known_lines = {"", *(_masked(line) for text in texts for line in text.splitlines())}
    known_words = {word for text in texts for word in _all_words(text)}
    replies = [one.reply.text for one in requests[struck:place] if one.reply is not None]
    own_lines = {line.strip() for text in replies for line in text.splitlines()} - {""}
    for message in _shown_messages(requests[place].request):
        lines = [line for line in message.content.splitlines() if _masked(line) not in known_lines]
        if fresh := [line for line in lines if not _quotes(line, own_lines, known_words)]:
            yield message.role, fresh


def telling_lines(fault: AgentFault, text: str) -> str:
    """Return a text from its first line that explains the fault; all of it if no line does."""
    lines = text.splitlines()
    first = next((place for place, line in enumerate(lines) if _explains(fault, line)), 0)
    return "\n".join(lines[first:])


def _explains(fault: AgentFault, line: str, fresh: Iterable[str] | None = None) -> bool:
    """Return whether a line has a word of an explanation; `fresh`: the words that may be it, all if None."""
    words = set(_plain_words(line))
    new = words if fresh is None else words & set(fresh)
    return bool(new & (fault.signs or frozenset())) or bool(new & fault.weak_signs and words & fault.subject)


@functools.lru_cache(maxsize=4096)
def _masked(line: str) -> str:
    """Return a line without its numbers, ids and dates, which differ between turns of a run."""
    return _WITH_DIGITS.sub("0", line).strip()


def _quotes(line: str, own_lines: Iterable[str], known_words: set[str]) -> bool:
    """Return whether a line repeats what the model said, with nothing around it but words that requests have anyway."""
    return any(own_line in line and set(words_of(line.replace(own_line, " "))) <= known_words for own_line in own_lines)


def _shown_messages(request: Request) -> Iterator[Message]:
    """Yield what a request tells the model: not its own messages, nor the instructions in front, which hold for any run."""
    for place, message in enumerate(request.messages):
        if message.role != "assistant" and (place or message.role != "system"):
            yield message


@functools.lru_cache(maxsize=1024)
def _all_words(text: str) -> tuple[str, ...]:
    """Return the words of a text; each request of a trial has those of the requests before it again."""
    return tuple(words_of(text))


@functools.lru_cache(maxsize=1024)
def _plain_words(text: str) -> tuple[str, ...]:
    """Return the words of a text without fields of its type."""
    return tuple(words_of(_TYPE_FIELD.sub(" ", text)))


def _words(request: Request) -> Counter[str]:
    counted: Counter[str] = Counter()
    for message in _shown_messages(request):
        counted.update(_plain_words(message.content))
    return counted


def _words_of_replies(requests: Iterable[LoggedRequest]) -> Counter[str]:
    """Return how often the model's replies have each word: an agent that quotes them explains nothing by that."""
    counted: Counter[str] = Counter()
    for reply in (one.reply for one in requests if one.reply is not None):
        counted.update(_plain_words(reply.text))
        for call in reply.calls:
            counted.update(_plain_words(f"{call.name} {call.arguments}"))
    return counted


def _most_words(requests: Sequence[Request]) -> Counter[str]:
    """Return how often any one of the requests has each word, at most."""
    most: Counter[str] = Counter()
    for request in requests:
        most |= _words(request)
    return most
