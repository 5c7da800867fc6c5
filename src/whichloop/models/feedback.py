"""Feedback: what the new text of a retry says of a mistake, at three levels, and the chance with which the model mends its reply.

No loop's wording is known here. A retry shows the error's *words* where half of what the format or the tool said stands in its new
text, or where it names the tool or argument at fault and what kind of mistake it is. It shows that something *failed* where the new
text has a word that this loop does not send after a good reply. Else it shows nothing, and is a blind retry.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from whichloop.protocol import Codec, Message, Move, Reply, Request, WireError
from whichloop.protocol.receipts import MARK, common_start, receipt_of
from whichloop.protocol.wire import calls_in

from .receipts import call_digest

Level = Literal["nothing", "failed", "words"]
"""How much a prompt says of a mistake; `Clears` has a chance for each."""
MIN_SHARE = 0.5
"""Share of the words of an error that must stand in the new text for it to be shown; short ones say nothing about it."""


GoodTurn = tuple[Request, Request, Reply]
"""Two requests of a loop and the good reply between them: what is new in the second is what the loop sends every time."""


@dataclass(frozen=True, slots=True)
class FaultSigns:
    """The words by which a text shows what was wrong with one reply; empty: there is nothing of the kind to show."""

    error: frozenset[str] = frozenset()
    """The words of the error that was raised."""
    names: frozenset[str] = frozenset()
    """The tool and the arguments at fault."""
    complaints: frozenset[str] = frozenset()
    """Words of which any message about the mistake has one, for loops that refuse a reply or a call in words of their own."""
    call: str = ""
    """CALL digest of the call that was made, whose error only its run tells."""


def level_shown(before: Request, now: Request, reply: Reply, signs: FaultSigns, result: str, good: GoodTurn | None) -> Level:
    """Return what a request shows of the mistake in the reply before it.

    `result`: what the tool gave for the call. `good`: a turn of the same loop in which all went well; None: none is known.
    """
    new, text = new_words(before, now, reply)
    said = {word for word in signs.error | set(words_of(MARK.sub(" ", result))) if len(word) >= 4}
    if said and sum(word in new for word in said) >= MIN_SHARE * len(said):
        return "words"
    usual = set(words_of(*RESULT.findall(text)))
    if good is not None:
        usual |= new_words(*good)[0]
    if signs.complaints & (new - usual) and (not signs.names or signs.names & new):
        return "words"
    if any(receipt_of(mark) in text for mark in MARK.finditer(result)):  # the model sees what came of its own call
        return "words"
    return "failed" if any(word.isalpha() for word in new - usual) else "nothing"  # a number or an id tells nothing


def new_words(before: Request, now: Request, reply: Reply) -> tuple[frozenset[str], str]:
    """Return the words that a request has beyond those of the one before it and of the reply between them, and its new text.

    A word counts as new where it stands more often than before.
    """
    texts_before, texts_now = texts_apart(before, now)
    said = words_of(*texts_before, reply.text, *(f"{call.name} {call.arguments}" for call in reply.calls))
    return frozenset(Counter(words_of(*texts_now)) - Counter(said)), "\n".join(texts_now)


RESULT = re.compile(r"\[r:[0-9a-f.]{11}\].*?\[[0-9a-f.]{11}:r\]", re.DOTALL)
"""A result between its receipt's marks."""


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
        start = texts[0].rfind(" ", 0, common_start(texts[0], others[0])) + 1
        texts[0], others[0] = texts[0][start:], others[0][start:]
        end = texts[-1].find(" ", len(texts[-1]) - common_start(texts[-1][::-1], others[-1][::-1]))
        same = len(texts[-1]) - end if end >= 0 else 0
        texts[-1], others[-1] = (text[: len(text) - same] for text in (texts[-1], others[-1]))
    return texts, others


def _message_text(message: Message) -> str:
    return " ".join((message.content, *(f"{call.name} {call.arguments}" for call in message.calls)))


def _equal(one: Sequence[Message], other: Sequence[Message]) -> int:
    """Return the number of messages that both begin with."""
    return len([*itertools.takewhile(lambda pair: pair[0] is pair[1] or pair[0] == pair[1], zip(one, other, strict=False))])


_WORD, _ESCAPED = re.compile(r"\w+"), re.compile(r"\\[nrt]")


def words_of(*texts: str) -> list[str]:
    """Return the words of texts in small letters; numbers are none."""
    found = [_WORD.findall(_ESCAPED.sub(" ", text).lower()) for text in texts]
    return [word for words in found for word in words if not word.isdecimal()]


def signs_of_wire(codec: Codec, spoiled: Reply) -> FaultSigns:
    """Return the signs of a reply that cannot be read. The error is the format's own."""
    try:
        codec.parse(spoiled)
    except WireError as error:
        return FaultSigns(frozenset(words_of(str(error))), complaints=COMPLAINTS["wire"])
    return FaultSigns(complaints=COMPLAINTS["wire"])


def signs_of_decision(kind: str, move: Move | None, intended: Move | None) -> FaultSigns:
    """Return the signs of a decision's error. The names are the tool called and the arguments in which it differs from the one that
    was `intended`."""
    made, wanted = next(iter(calls_in(move)), None), next(iter(calls_in(intended)), None)
    call = call_digest(made.name, made.arguments) if made is not None else ""
    named = [one.name for one in (made, wanted) if one is not None][:1]
    if made is not None and wanted is not None and made.name == wanted.name:
        names = {**wanted.arguments, **made.arguments}
        named += [name for name in names if wanted.arguments.get(name) != made.arguments.get(name)]
    return FaultSigns(frozenset(), frozenset(words_of(*named)), COMPLAINTS.get(kind, frozenset()), call)


COMPLAINTS = {
    "wire": frozenset(words_of("json xml yaml format parse parsed parsing malformed syntax truncated empty")),
    "decision.unknown_tool": frozenset(words_of("unknown found exist exists available such unavailable")),
    "decision.missing_argument": frozenset(words_of("missing required requires lacks needs")),
    "decision.extra_argument": frozenset(words_of("unexpected unknown extra additional permitted accept accepted allowed")),
    "decision.wrong_type": frozenset(words_of("type valid expected must")),
}
"""Kind of mistake → words of which any message about it has one."""
