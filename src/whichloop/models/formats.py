"""Formats under a bad wire: what a fault can spoil of a reply, and which formats earn *absorbed*.

A fault of the wire spoils how a move is written, never what it says: a reply that would read as another move, without a sign that
anything is wrong, is spoiled in another way. Free text is no format: there is nothing of the wire in it to spoil. And a format
absorbs a fault only if a model could write it: it frames the words of the move, each of them once.
"""

from __future__ import annotations

import contextlib
import re
import string
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple

from whichloop.protocol import Act, Answer, Codec, Inexpressible, Move, Reply, Text, ToolCall, WireError

from .faults import emptied, spoil, spoiled_forms

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

    Where it says something else in all forms, the first is taken. A format that no model could write, and that would absorb the
    fault, is left with an empty reply.
    """
    for form in spoiled_forms(kind, reply):
        try:
            read = codec.parse(form)
        except WireError:
            return SpoiledReply(form, False)
        if move is not None and _decision(read) == _decision(move):
            if unwritable(codec, move):
                return SpoiledReply(emptied(kind, reply), False)
            return SpoiledReply(form, form != reply)
    return SpoiledReply(spoil(kind, reply), False)


def _decision(move: Move) -> Move:
    """Return a move without its thought: prose round a reply may be taken for one, and changes nothing."""
    return replace(move, thought="") if isinstance(move, Act | Answer) else move


# --- which formats a model could write ---


def unwritable(codec: Codec, move: Move) -> str:
    """Return why no model could be asked to write a codec's format; empty if one could. Raises Inexpressible for the move.

    A format that a model writes frames the move's own words. So each word of the move stands in the reply; what the move is about
    is not all there twice; and of two moves that differ in their words alone, the replies differ in these words alone. Digits in
    place of letters, copies and checksums fail. Looked at are the move and, as far as the codec can say them, a call and an answer
    that have words.
    """
    problem = _flaw(codec, move)
    for probe in _PROBES:
        if not problem:
            with contextlib.suppress(Inexpressible):
                problem = _flaw(codec, probe)
    return problem


def _flaw(codec: Codec, move: Move) -> str:
    reply = _reply_text(codec.render(move))
    words, payload = Counter(_words(_texts(move))), set(_words(_texts(move, _LABELS | _ASIDES)))
    reply_words = Counter(_WORD.findall(reply)) | Counter(_WORD.findall(_unescaped(reply)))
    hidden = [word for word in _words(_texts(move, _LABELS)) if not reply_words[word]]
    if hidden:
        return f"it does not show the move's own words, such as {hidden[0]!r}"
    if len(payload) > 2 and all(reply_words[word] >= 2 * words[word] for word in payload):
        return "it says the move twice"
    try:
        other = _reply_text(codec.render(_in_other_words(move)))
    except Inexpressible:
        return ""
    if len(other) == len(reply) and any(
        theirs not in (ours, ours.translate(_OTHER)) for ours, theirs in zip(reply, other, strict=True)
    ):
        return "it adds to the move's words what depends on them, as a checksum does"
    return ""


_PROBES = (
    Act("", (ToolCall("look_up", {"subject": "harbour lights", "place": "Bergen"}),)),
    Answer("", "The harbour lights of Bergen"),
    Text("The harbour lights of Bergen"),
)
_WORD = re.compile(r"[^\W\d_]{3,}")
"""Shorter words stand in any frame by chance."""
_LOWER, _UPPER = string.ascii_lowercase, string.ascii_uppercase
_OTHER = str.maketrans(_LOWER + _UPPER, _LOWER[1:] + _LOWER[0] + _UPPER[1:] + _UPPER[0])


def _reply_text(reply: Reply) -> str:
    return "\n".join([reply.text, *(f"{call.name} {call.arguments}" for call in reply.calls)])


def _unescaped(text: str) -> str:
    """Return a text without JSON's escapes, whose letters would join the words behind them."""
    text = re.sub(r"\\u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), text)
    return re.sub(r"\\[nrtbf]", " ", text)


def _words(texts: Iterator[str]) -> list[str]:
    return _WORD.findall(" ".join(texts))


def _texts(value: Any, without: Collection[str] = ()) -> Iterator[str]:
    """Yield all texts in a move; `without`: those in certain fields, and keys, for which a frame may have other names."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from () if without else map(str, value)
        for item in value.values():
            yield from _texts(item, without)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item, without)
    elif is_dataclass(value):
        for each in fields(value):
            if each.name not in without:
                yield from _texts(getattr(value, each.name), without)


_LABELS = frozenset({"call_id", "id", "kind", "strategy", "depends_on"})
"""Fields that a format may number or name in its own way."""
_ASIDES = frozenset({"thought", "reason", "summary"})
"""Fields that a format may show in two places."""


def _in_other_words(value: Any) -> Any:
    """Return a move of the same shape whose texts have every ASCII letter replaced by the next."""
    if isinstance(value, str):
        return value.translate(_OTHER)
    if isinstance(value, Mapping):
        return {name: _in_other_words(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_in_other_words(item) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        changed = {each.name: _in_other_words(getattr(value, each.name)) for each in fields(value) if each.name not in _FIXED}
        return replace(value, **changed)
    return value


_FIXED = _LABELS | {"name"}
"""Fields that stay as they are in other words: a format may know the tools."""
