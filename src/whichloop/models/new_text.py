"""What one request says that another does not: only where they differ are their words counted, since most of both is the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import AnyStr

from whichloop.protocol import Message, Request


def texts_apart(before: Request, now: Request) -> tuple[list[str], list[str]]:
    """Return the texts of two requests without equal messages at their ends, and of what is left without equal ends.

    They are cut at spaces only: the words of one that are not words of the other are those of the whole requests.
    """
    old, new = list(before.messages), list(now.messages)
    start = _equal(old, new)
    old, new = old[start:], new[start:]
    end = _equal(old[::-1], new[::-1])
    old, new = old[: len(old) - end], new[: len(new) - end]
    texts, others = [_message_text(message) for message in old], [_message_text(message) for message in new]
    if texts and others:
        texts[0], others[0] = _from_where_they_differ(texts[0], others[0])
        texts[-1], others[-1] = _up_to_where_they_differ(texts[-1], others[-1])
    return texts, others


def _message_text(message: Message) -> str:
    return " ".join((message.content, *(f"{call.name} {call.arguments}" for call in message.calls)))


def _equal(one: Sequence[Message], other: Sequence[Message]) -> int:
    """Return the number of messages that both begin with."""
    for count, (message, its) in enumerate(zip(one, other, strict=False)):
        if message is not its and message != its:
            return count
    return min(len(one), len(other))


def _from_where_they_differ(one: str, other: str) -> tuple[str, str]:
    shared = shared_length(one, other)
    cut = one.rfind(" ", 0, shared) + 1
    return one[cut:], other[cut:]


def _up_to_where_they_differ(one: str, other: str) -> tuple[str, str]:
    shared = shared_length(one[::-1], other[::-1])
    cut = one.find(" ", len(one) - shared)
    shared_chars = 0 if cut < 0 else len(one) - cut
    return one[: len(one) - shared_chars], other[: len(other) - shared_chars]


def shared_length(one: AnyStr, other: AnyStr, least: int = 0) -> int:
    """Return the length of the longest beginning that two texts share, of whose first `least` characters that is known.

    No stretch is looked at twice where it is the same.
    """
    most = min(len(one), len(other))
    if one[least:most] == other[least:most]:
        return most
    while most - least > 1:
        middle = (least + most) // 2
        if one[least:middle] == other[least:middle]:
            least = middle
        else:
            most = middle
    return least
