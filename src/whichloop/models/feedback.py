"""Feedback: what the new text of a retry says of a fault, and the chance with which the model mends its reply.

No loop's wording is known here. A retry is judged by whether its new text has the name of the tool or field at fault, the words of
the error that the format or the tool raised, the names that the right reply has, and the bad reply itself. What says none of these
is a blind retry.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from whichloop.protocol import Act, Codec, Message, Move, Recovery, Reply, Request, ToolCall, ToolSpec, WireError
from whichloop.protocol.receipts import common_start

from .profiles import FEEDBACK_PARTS, Clears


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
    for count, (message, its) in enumerate(zip(one, other, strict=False)):
        if message is not its and message != its:
            return count
    return min(len(one), len(other))


def shows_feedback(before: Request, now: Request, last_reply: Reply) -> bool:
    """Whether `now` says more than `before` did, the model's own reply and counters aside.

    Compared as bags of words without digits, so that it holds for any loop's wording and layout.
    """
    texts_before, texts_now = texts_apart(before, now)
    said = Counter(_LETTERS.findall(" ".join([*texts_before, *_own_texts(last_reply)])))
    return any(times > said[word] for word, times in Counter(_LETTERS.findall(" ".join(texts_now))).items())


def _own_texts(reply: Reply) -> list[str]:
    return [reply.text, *(f"{call.name} {call.arguments}" for call in reply.calls)]


_LETTERS = re.compile(r"[^\W\d_]+")
MIN_SHARE_SHOWN = 0.5
"""Share of the words of an error, or of what was expected, that must stand in the new text for it to be shown."""
MIN_SHARE_OF_REPLY = 0.8
"""The same for the bad reply: a sample of the right form has many of its words, too."""
MIN_WORD_CHARS = 4
"""Shorter words of an error say nothing about it."""


@dataclass(frozen=True, slots=True)
class FaultSigns:
    """The words by which a text shows what was wrong with one reply; empty: there is nothing of the kind to show."""

    names: frozenset[str] = frozenset()
    """The tool, arguments and fields at fault: one of them will do."""
    error: frozenset[str] = frozenset()
    """The words of the error that was raised."""
    expected: frozenset[str] = frozenset()
    """The names that the right reply has."""
    call: str = ""
    """CALL digest of the call that was made, whose error only its run tells."""
    complaints: frozenset[str] = frozenset()
    """Words of which any message about the mistake has one, for loops that refuse a call before a tool can."""


_WORD = re.compile(r"\w+")
_ESCAPED = re.compile(r"\\[nrt]")


def words_of(*texts: str) -> list[str]:
    """Return the words of texts in small letters; numbers are none."""
    found = itertools.chain.from_iterable(_WORD.findall(_ESCAPED.sub(" ", text).lower()) for text in texts)
    return [word for word in found if not word.isdecimal()]


def parts_shown(before: Request, now: Request, last_reply: Reply, signs: FaultSigns, tool_text: str = "") -> frozenset[str]:
    """Return which parts of `FEEDBACK_PARTS` the new text of a request shows.

    `last_reply`: the reply between the two. `tool_text`: what the tool gave back for the call. The reply's own
    words count as its text where most of them are there, else for what they say.
    """
    texts_before, texts_now = texts_apart(before, now)
    new = Counter(words_of(*texts_now)) - Counter(words_of(*texts_before))
    reply = Counter(words_of(*_own_texts(last_reply)))
    parts = set[str]()
    if reply and (new & reply).total() >= MIN_SHARE_OF_REPLY * reply.total():
        parts.add("reply")
        new -= reply
    if signs.names & new.keys():
        parts.add("names")
    if _share({word for word in signs.error | set(words_of(tool_text)) if len(word) >= MIN_WORD_CHARS}, new) >= MIN_SHARE_SHOWN:
        parts.add("error")
    if "names" in parts and signs.complaints & new.keys():
        parts.add("error")
    if _share(signs.expected, new) >= MIN_SHARE_SHOWN:
        parts.add("expected")
    return frozenset(parts)


def _share(wanted: Collection[str], words: Counter[str]) -> float:
    return sum(word in words for word in wanted) / len(wanted) if wanted else 0.0


def chance(
    clears: Clears, shown_parts: Collection[str], signs: FaultSigns, tool_text: str = "", *, resampled: bool = True
) -> float:
    """Return the chance that a retry mends the reply: `resample`, and a share for each part that is shown.

    Parts of which there is nothing to show leave their shares to the others. `resampled`: False where the model is asked at
    temperature 0, and says the same again.
    """
    possible = tellable_parts(signs, tool_text)
    shares = {part: float(getattr(clears, part)) for part in FEEDBACK_PARTS}
    total = sum(shares[part] for part in possible)
    shown_share = sum(shares[part] for part in possible & set(shown_parts)) / total if total else 0.0
    return (clears.resample if resampled else 0.0) + shown_share * sum(shares.values())


def tellable_parts(signs: FaultSigns, tool_text: str = "") -> frozenset[str]:
    """Return the parts of `FEEDBACK_PARTS` of which there is something to show."""
    possible = {"reply"}
    possible |= {"names"} if signs.names else set()
    possible |= {"error"} if signs.error or signs.complaints or tool_text else set()
    possible |= {"expected"} if signs.expected else set()
    return frozenset(possible)


# --- the signs of each family ---


def signs_of_wire(codec: Codec, move: Move | None, clean: Reply, spoiled: Reply) -> FaultSigns:
    """Return the signs of a wire's error in a text. The error is the format's own; the names are the tools called and the words of
    the format's frame."""
    try:
        codec.parse(spoiled)
        error = ""
    except WireError as raised:
        error = str(raised)
    calls = _calls(move)
    called = frozenset(words_of(*(call.name for call in calls)))
    arguments = frozenset(words_of(*(name for call in calls for name in call.arguments)))
    move_words = set(words_of(repr(move)))
    frame = frozenset(word for word in words_of(clean.text) if word not in move_words)
    return FaultSigns(called | frame, frozenset(words_of(error)), frame | arguments)


def signs_of_decision(kind: str, move: Move | None, intended: Move | None, tools: Iterable[ToolSpec], call: str) -> FaultSigns:
    """Return the signs of a decision's error. The names are the tool called and the arguments in which it differs from the one that
    was `intended`."""
    call_made, call_wanted = next(iter(_calls(move)), None), next(iter(_calls(intended)), None)
    complaints = COMPLAINTS.get(kind, frozenset())
    if call_made is None or call_wanted is None or call_made.name != call_wanted.name:
        right = frozenset(words_of(call_wanted.name if call_wanted is not None else ""))
        return FaultSigns(
            frozenset(words_of(call_made.name)) if call_made is not None else right, frozenset(), right, call, complaints
        )
    differing = [
        name
        for name in {**call_wanted.arguments, **call_made.arguments}
        if call_wanted.arguments.get(name) != call_made.arguments.get(name)
    ]
    names = frozenset(words_of(call_made.name, *differing))
    spec = next((tool for tool in tools if tool.name == call_made.name), None)
    expected = frozenset(words_of(*(spec.parameters.get("properties", {}) if spec is not None else call_wanted.arguments)))
    return FaultSigns(names, frozenset(), expected, call, complaints)


def _calls(move: Move | None) -> tuple[ToolCall, ...]:
    if isinstance(move, Act):
        return move.calls
    return (move.call,) if isinstance(move, Recovery) and move.call is not None else ()


COMPLAINTS = {
    "decision.unknown_tool": frozenset(words_of("unknown found exist exists available such unavailable")),
    "decision.missing_argument": frozenset(words_of("missing required requires lacks needs")),
    "decision.extra_argument": frozenset(words_of("unexpected unknown extra additional permitted accept accepted allowed")),
    "decision.wrong_type": frozenset(words_of("type valid expected must")),
}
"""Kind of wrong call → words of which any message about it has one."""
