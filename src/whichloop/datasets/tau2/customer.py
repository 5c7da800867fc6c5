"""What a customer of tau2's `retail` and `airline` says: the task's scenario in the first person.

The query is why they write, `ask_user` gives who they are and what they want, and `confirm_with_user` agrees to the changes among
the task's gold actions and to no other. Customers say all that they want at once, or with `wishes=in_turn` one request after the
other, each when `tell_user` says that the one before is done.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from whichloop.datasets.with_user import Topic

from ..importing.json_files import JsonRow, checked

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


Wishes = Literal["at_once", "in_turn"]
"""Whether a customer says at once all that they want, or asks for one thing after the other."""
_HELP = (
    "A customer has written this. Help them with the tools, by the policy: ask them with ask_user, and let them agree to each "
    "change with confirm_with_user before it is made. "
)
INSTRUCTIONS: Mapping[Wishes, str] = {
    "at_once": f"{_HELP}When it is done, answer with what was done.",
    "in_turn": f"{_HELP}When a request is dealt with, say so with tell_user: they may have another one. When there is none left, "
    "answer with what was done.",
}
DONE = "The customer's request is dealt with."
QUESTIONS: Mapping[Topic, str] = {"identity": "Who are you?", "wishes": "What exactly do you want?"}


SIDE_BY_SIDE = ("item_ids", "new_item_ids")
"""Arguments of retail's changes that list items and what replaces each."""


class _Instructions(JsonRow):
    reason_for_call: str = ""
    known_info: str | None = None
    unknown_info: str | None = None
    task_instructions: str | None = None


class _Scenario(JsonRow):
    instructions: _Instructions


def script(scenario: Any, wishes: Wishes, where: str) -> tuple[str, dict[str, Any]]:
    """Return the query and what the customer says: `says` by topic, and in turn what they ask `further`. Raises ValueError."""
    told = checked(_Scenario, scenario, f"{where}, user_scenario").instructions
    texts = [told.reason_for_call, told.task_instructions or ""]
    parts = [in_turn(text) if wishes == "in_turn" else [text] for text in texts]
    first = [part[0] for part in parts]
    says = {"identity": _in_lines(told.known_info or "", told.unknown_info or ""), "wishes": _in_lines(*first)}
    world: dict[str, Any] = {"says": {topic: text for topic, text in says.items() if text}}
    if wishes == "in_turn":
        world["further"] = [text for part in parts for text in map(first_person, part[1:]) if text]
    return f"{opening(first[0])}\n\n{INSTRUCTIONS[wishes]}".strip(), world


def _in_lines(*sentences: str) -> str:
    return "\n".join(filter(None, map(first_person, sentences)))
