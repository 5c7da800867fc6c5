"""What one request says that another does not: only where they differ are their words counted, since most of both is the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import AnyStr

from loopbench.protocol import Message, Request


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
    ends = len(one), len(other)
    shared = _most(min(ends), lambda low, high: one[ends[0] - high : ends[0] - low] == other[ends[1] - high : ends[1] - low])
    cut = one.find(" ", len(one) - shared)
    shared_chars = 0 if cut < 0 else len(one) - cut
    return one[: len(one) - shared_chars], other[: len(other) - shared_chars]


def shared_length(one: AnyStr, other: AnyStr, least: int = 0) -> int:
    """Return the length of the longest beginning that two texts share, of whose first `least` characters that is known."""
    return _most(min(len(one), len(other)), lambda low, high: one[low:high] == other[low:high], least)


def _most(most: int, is_same: Callable[[int, int], bool], least: int = 0) -> int:
    """Return the greatest size up to `most` up to which all is the same; it is up to `least`.

    `is_same`: whether that holds from one size to another. No stretch is looked at twice where it is the same.
    """
    if is_same(least, most):
        return most
    while most - least > 1:
        middle = (least + most) // 2
        if is_same(least, middle):
            least = middle
        else:
            most = middle
    return least
