"""What the requests after a fault tell the model of it.

No agent's wording is known here. What counts is new: the words and lines that no request before the fault had, and none of an
undisturbed run, beside the model's own reply.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loopbench.models.feedback import words_of
from loopbench.protocol import Message, ModelError, Reply, Request

from .agent_faults import AgentFault


@dataclass(slots=True)
class Asked:
    """A request, and what came of it."""

    request: Request
    reply: Reply | None = None
    error: ModelError | None = None


def is_told(fault: AgentFault, asked: Sequence[Asked], struck: int, clean: Sequence[Request] = ()) -> bool:
    """Whether any request after the one at `struck` explains the fault."""
    return telling_request(fault, asked, struck, clean) is not None


def telling_request(fault: AgentFault, asked: Sequence[Asked], struck: int, clean: Sequence[Request] = ()) -> int | None:
    """Return the place of the first request after the one at `struck` that explains the fault; None if none does.

    `clean`: the requests of the same task without a fault, whose words explain nothing.
    """
    known = _most_words([*clean, *(one.request for one in asked[: struck + 1])])
    for place in range(struck + 1, len(asked)):
        if fault.signs is None:
            if new_text(asked, struck, place, clean):
                return place
        elif fault.signs & (_words(asked[place].request) - known).keys():
            return place
    return None


def new_text(asked: Sequence[Asked], struck: int, place: int, clean: Sequence[Request] = ()) -> str:
    """Return the lines of a request that no request before it up to the struck one had, nor any of an undisturbed run.

    What the model itself has said is left out.
    """
    before = [*clean, *(one.request for one in asked[: struck + 1])]
    known = {line.strip() for request in before for message in request.messages for line in message.content.splitlines()}
    known |= {line.strip() for one in asked[struck:place] if one.reply is not None for line in one.reply.text.splitlines()}
    lines: list[str] = []
    for message in _told(asked[place].request):
        fresh = [line for line in message.content.splitlines() if line.strip() and line.strip() not in known]
        lines += [f"{message.role}: {fresh[0]}", *fresh[1:]] if fresh else []
    return "\n".join(lines)


def telling_lines(fault: AgentFault, text: str) -> str:
    """Return a text from its first line that explains the fault; all of it if no line does."""
    lines = text.splitlines()
    signs = fault.signs or frozenset()
    first = next((place for place, line in enumerate(lines) if signs & set(words_of(line))), 0)
    return "\n".join(lines[first:])


def _told(request: Request) -> Iterator[Message]:
    """Yield what a request tells the model: not its own messages, nor the instructions in front, which hold for any run."""
    for place, message in enumerate(request.messages):
        if message.role != "assistant" and (place or message.role != "system"):
            yield message


def _words(request: Request) -> Counter[str]:
    counted: Counter[str] = Counter()
    for message in _told(request):
        counted.update(words_of(message.content))
    return counted


def _most_words(requests: Sequence[Request]) -> Counter[str]:
    """Return how often any one of the requests has each word, at most."""
    most: Counter[str] = Counter()
    for request in requests:
        most |= _words(request)
    return most
