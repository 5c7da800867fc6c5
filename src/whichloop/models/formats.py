"""Formats under a bad wire: what a fault can spoil of a reply, and what a format absorbs.

A fault of the wire spoils how a move is written, never what it says: a reply that would read as another move, without a sign that
anything is wrong, is spoiled in another way. Free text is no format: there is nothing of the wire in it to spoil.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from whichloop.protocol import Act, Answer, Codec, Inexpressible, Move, Reply, Text, WireError

from .faults import spoil, spoiled_forms

_ANYWHERE = frozenset({"wire.empty"})
"""Kinds that a loop can tell in free text too: nothing has come."""


def first_expressible(codec: Codec, options: Sequence[Move]) -> tuple[Move | None, Reply]:
    """Return the first option that the codec can express, else prose: a model always says something."""
    for move in options:
        try:
            return move, codec.render(move)
        except Inexpressible:
            continue
    prose = next((move.text for move in options if isinstance(move, Text)), "I cannot say this in the format asked for.")
    return None, Reply(prose)


class SpoiledReply(NamedTuple):
    """A reply as a fault of the wire leaves it."""

    reply: Reply
    absorbed: bool
    """The format still reads the same move."""


def spares(kind: str, move: Move | None, reply: Reply) -> bool:
    """Return whether a fault of the wire has nothing to spoil in a reply: it is free text, and the text would only say other words.

    `move`: what the reply says; None for prose that no format asked for.
    """
    return kind not in _ANYWHERE and _is_free_text(move, reply)


def _is_free_text(move: Move | None, reply: Reply) -> bool:
    """Whether a reply is free text, which has no calls and no frame: all of it is the answer's or the prose's own text. A call in
    text is a format."""
    if reply.calls:
        return False
    if move is None or (isinstance(move, Act) and not move.calls):
        return True
    own = move.value if isinstance(move, Answer) else move.text if isinstance(move, Text) else None
    return isinstance(own, str) and reply.text == own


def spoiled_reply(kind: str, codec: Codec, move: Move | None, reply: Reply) -> SpoiledReply:
    """Return a reply as a fault leaves it: the first of its forms in which the format cannot be read, or still says the same.

    Where it says something else in all forms, the first is taken.
    """
    for form in spoiled_forms(kind, reply):
        try:
            read = codec.parse(form)
        except WireError:
            return SpoiledReply(form, False)
        if move is not None and _decision(read) == _decision(move):
            return SpoiledReply(form, form != reply)
    return SpoiledReply(spoil(kind, reply), False)


def _decision(move: Move) -> Move:
    """Return a move without its thought: prose round a reply may be taken for one, and changes nothing."""
    return replace(move, thought="") if isinstance(move, Act | Answer) else move
