"""What a customer of tau2 says: its scenarios tell an actor, in the second person, who they are, what they want, how to behave."""

from __future__ import annotations

import re
from collections.abc import Sequence

_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_ABOUT_THE_TALK = re.compile(r"\b(agent|confirm\w*|conversation)\b", re.IGNORECASE)
"""A sentence with one of these words tells how to talk, and not why the customer writes."""
_AFTER_WHICH_IT_IS_ME = r"(to|for|with|from|of|by|about|let|lets|give|gives|tell|tells|ask|asks|help|helps|offer|offers|send|sends)"
_FIRST_PERSON: Sequence[tuple[re.Pattern[str], str]] = tuple(
    (re.compile(rf"\b{pattern}\b", re.IGNORECASE), words)
    for pattern, words in (
        ("you are", "I am"),
        ("are you", "am I"),
        ("you were", "I was"),
        ("you're", "I'm"),
        (f"{_AFTER_WHICH_IT_IS_ME} you", r"\1 me"),
        ("yourself", "myself"),
        ("yours", "mine"),
        ("your", "my"),
        ("you", "I"),
    )
)


def first_person(text: str) -> str:
    """Return a text to an actor as the customer's own words; empty if there is no word in it."""
    if not any(char.isalnum() for char in text):
        return ""
    for pattern, words in _FIRST_PERSON:
        text = pattern.sub(words, text)
    return _SENTENCE_START.sub(lambda match: match[0].upper(), text.strip())


_SENTENCE_START = re.compile(r"(?:^|(?<=[.!?]\s)|(?<=\n))[a-z]")


def opening(reason: str) -> str:
    """Return why the customer writes, in their words: without what they are told of the talk itself, but not without anything."""
    sentences = _SENTENCE.split(reason.strip())
    reasons = [sentence for sentence in sentences if not _ABOUT_THE_TALK.search(sentence)]
    return first_person(" ".join(reasons or sentences))


_FURTHER = re.compile(
    r"(?:(?:and|but) )?(?:you(?:'d| would)? )?"
    r"(?:also|then|next|once|after (?:that|this|all)|afterwards|at the end|finally|lastly|secondly|additionally|in addition)\b",
    re.IGNORECASE,
)
"""How a sentence begins that asks for something more."""


def in_turn(text: str) -> list[str]:
    """Split what an actor is told at each sentence that asks for something more; the parts have all the words, in their order."""
    parts: list[list[str]] = []
    for sentence in _SENTENCE.split(text.strip()):
        if not parts or _FURTHER.match(sentence):
            parts.append([])
        parts[-1].append(sentence)
    return [" ".join(part) for part in parts]
